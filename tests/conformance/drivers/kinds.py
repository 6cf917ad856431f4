"""The drivers that the suite runs on."""

from collections.abc import Mapping

from conformance.drivers.local import LOCAL
from conformance.drivers.stage import Kind

KINDS: Mapping[str, Kind] = {"local": LOCAL}
