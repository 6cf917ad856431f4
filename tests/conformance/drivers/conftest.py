"""Every test here runs on every driver."""

from collections.abc import Iterator
from typing import get_args
from uuid import uuid4

import pytest

from conformance.drivers.kinds import KINDS
from conformance.drivers.stage import Stage, Verb
from interlock.instances.drivers.port import Driver, Spec
from support.kube_api.real import RealCluster, running_real

_CRASHES = {f"step_of_{verb}": verb for verb in get_args(Verb)}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each driver, and of tests of crashes each step of each driver."""
    if "driver_kind" not in metafunc.fixturenames:
        return
    for fixture, verb in _CRASHES.items():
        if fixture in metafunc.fixturenames:
            cases = [(kind, step) for kind in KINDS for step in range(1, KINDS[kind].steps[verb] + 1)]
            metafunc.parametrize(("driver_kind", fixture), cases)
            return
    metafunc.parametrize("driver_kind", list(KINDS))


@pytest.fixture(scope="session")
def real_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """A real Kubernetes API server, asked for only where there is one."""
    with running_real(tmp_path_factory.mktemp("kubernetes")) as cluster:
        yield cluster


@pytest.fixture
def stage(driver_kind: str, request: pytest.FixtureRequest) -> Iterator[Stage]:
    with KINDS[driver_kind].stage(request) as stage:
        yield stage


@pytest.fixture
def driver(stage: Stage) -> Driver:
    return stage.driver()


@pytest.fixture
def spec() -> Spec:
    return Spec(id=str(uuid4()), name="shop")
