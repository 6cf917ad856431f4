"""tooz's own tests of a coordinator, run against the driver that a URL names.

    python -m support.tooz_suite URL

It prints one line of JSON for each test: its name, its result, and the reason if it was skipped or failed.
"""

import json
import os
import sys
import traceback
import unittest
import warnings
from dataclasses import asdict, dataclass
from types import ModuleType, TracebackType
from typing import Any, Literal

Outcome = Literal["passed", "skipped", "failed"]

OTHER_DRIVERS = {
    "etcd3gw": "Etcd3Driver",
    "ipc": "IPCDriver",
    "memcached": "MemcachedDriver",
    "redis": "RedisDriver",
}
"""Drivers that tooz's tests compare a coordinator with. They are replaced, because their packages are not installed."""

MODULES = ("tooz.tests.test_coordination", "tooz.tests.test_partitioner")

for module, driver in OTHER_DRIVERS.items():  # at import, because processes that the tests start import this module too
    stand_in = ModuleType(f"tooz.drivers.{module}")
    setattr(stand_in, driver, type(driver, (), {}))
    sys.modules[stand_in.__name__] = stand_in


@dataclass(frozen=True)
class Result:
    test: str
    outcome: Outcome
    reason: str = ""


class Reporting(unittest.TestResult):
    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 # unittest's own name
        self._outcome: Outcome = "passed"
        self._reason = ""

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        print(json.dumps(asdict(Result(_name(test), self._outcome, self._reason))), flush=True)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        self._outcome, self._reason = "skipped", reason

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        self._fail(err)

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        self._fail(err)

    def _fail(self, err: "tuple[type[BaseException], BaseException, TracebackType]") -> None:
        self._outcome, self._reason = "failed", "".join(traceback.format_exception(*err))


def _name(test: unittest.TestCase) -> str:
    return ".".join(test.id().split(".")[-2:])


def _chosen(suite: unittest.TestSuite) -> unittest.TestSuite:
    """Leaves out classes named after other drivers: they run the same tests again against the same URL."""
    tests = unittest.TestSuite()
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            tests.addTests(_chosen(each))
        elif not type(each).__name__.startswith(("IPC", "File")):
            tests.addTest(each)
    return tests


def main(url: str) -> None:
    os.environ["TOOZ_TEST_URL"] = url
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = _chosen(unittest.defaultTestLoader.loadTestsFromNames(MODULES))
        tests.run(Reporting())


if __name__ == "__main__":
    main(sys.argv[1])
