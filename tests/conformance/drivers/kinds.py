"""The drivers that the suite runs on."""

from collections.abc import Mapping

from conformance.drivers.kubernetes import KUBERNETES, REAL_KUBERNETES
from conformance.drivers.local import LOCAL
from conformance.drivers.stage import Kind
from support.kube_api.real import at_hand

KINDS: Mapping[str, Kind] = {
    "local": LOCAL,
    "kubernetes": KUBERNETES,
    **({"kubernetes-real": REAL_KUBERNETES} if at_hand() else {}),
}
