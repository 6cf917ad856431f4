"""The instruments on the real SDK, with a reader that keeps the collected metrics."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, Metric, NumberDataPoint, Sum

from interlock.coordination.observation.metric_catalogue import MEASURES
from interlock.coordination.observation.observer import Observer
from interlock.errors import ConnectionLost
from interlock.integrations.opentelemetry import histograms, instrument


class Telemetry:
    """The test's own meter provider; the global one can be set only once."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self._provider = MeterProvider([self._reader])
        self.meter = self._provider.get_meter("interlock")

    def metrics(self) -> dict[str, Metric]:
        """All metrics collected now, by name."""
        data = self._reader.get_metrics_data()
        assert data is not None
        return {each.name: each for on in data.resource_metrics for scope in on.scope_metrics for each in scope.metrics}

    def points(self, name: str) -> list[object]:
        return list(self.metrics()[name].data.data_points)

    def value(self, name: str, **attributes: str) -> float:
        found = [point for point in self.points(name) if isinstance(point, NumberDataPoint)]
        (value,) = [point.value for point in found if dict(point.attributes or {}) == attributes]
        return value

    def histogram(self, name: str) -> HistogramDataPoint:
        (point,) = self.points(name)
        assert isinstance(point, HistogramDataPoint)
        return point

    def shut_down(self) -> None:
        self._provider.shutdown()


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    telemetry = Telemetry()
    yield telemetry
    telemetry.shut_down()


@pytest.fixture
def observer(telemetry: Telemetry) -> Observer:
    observer = Observer("web-1")
    instrument(observer, telemetry.meter)
    return observer


def test_events_are_collected(telemetry: Telemetry, observer: Observer) -> None:
    observer.waiting("feeds", "web-2")
    observer.granted("feeds", 17, 0.02, 2)
    observer.granted("mail", 18, 9.5, 1)
    observer.not_acquired("mail", 5.0, 3, "timeout")
    observer.released("feeds", 17, 0.3)
    observer.renewal_failed(ConnectionLost("gone"))
    assert telemetry.value("interlock.lease.acquires", outcome="acquired") == 2
    assert telemetry.value("interlock.lease.acquires", outcome="timeout") == 1
    assert telemetry.value("interlock.lease.losses", reason="expired") == 0
    assert telemetry.value("interlock.lease.waiters") == telemetry.value("interlock.lease.held") == 1
    assert telemetry.value("interlock.lease.renewal.rounds", outcome="failed") == 1
    assert telemetry.value("interlock.lease.database.errors", error="ConnectionLost") == 1


def test_a_histogram_is_collected_as_three_counters(telemetry: Telemetry, observer: Observer) -> None:
    observer.granted("feeds", 17, 0.02, 1)
    observer.granted("mail", 18, 9.5, 1)
    name = "interlock.lease.acquire.wait"
    assert telemetry.value(f"{name}.bucket", le="0.01") == 0
    assert telemetry.value(f"{name}.bucket", le="0.025") == 1
    assert telemetry.value(f"{name}.bucket", le="+Inf") == telemetry.value(f"{name}.count") == 2
    assert telemetry.value(f"{name}.sum") == pytest.approx(9.52)


def test_a_value_that_can_fall_is_no_counter(telemetry: Telemetry, observer: Observer) -> None:
    observer.granted("feeds", 17, 0.0, 1)
    collected = telemetry.metrics()
    for measure in MEASURES:
        if measure.kind != "histogram" and (found := collected.get(f"interlock.{measure.name}")):
            data = found.data
            assert isinstance(data, Sum)
            assert data.is_monotonic is (measure.kind == "counter")


def test_every_metric_has_its_unit_and_description(telemetry: Telemetry, observer: Observer) -> None:
    observer.reconnected("listener")
    observer.database_error(ConnectionLost("gone"))
    collected = telemetry.metrics()
    for measure in MEASURES:
        name = f"interlock.{measure.name}{'.sum' if measure.kind == 'histogram' else ''}"
        found = collected[name]
        assert (found.unit, found.description) == (measure.unit, measure.about)


def test_no_lease_name_becomes_an_attribute(telemetry: Telemetry, observer: Observer) -> None:
    observer.granted("feeds", 17, 0.0, 1)
    observer.released("feeds", 17, 1.0)
    assert "feeds" not in str(telemetry.metrics())


def test_the_hook_writes_opentelemetrys_own_histograms(telemetry: Telemetry) -> None:
    observer = Observer("web-1", histograms(telemetry.meter))
    observer.granted("feeds", 17, 0.02, 2)
    observer.released("feeds", 17, 0.3)
    observer.granted("feeds", 18, 0.0, 1)
    observer.lost("feeds", 18, 40.0, "expired")
    observer.renewed(1, 0.004)
    observer.reconnected("listener")
    wait = telemetry.histogram("interlock.lease.acquire.wait")
    assert (wait.count, wait.sum) == (2, 0.02)
    assert telemetry.histogram("interlock.lease.acquire.attempts").sum == 3
    assert telemetry.histogram("interlock.lease.hold").sum == pytest.approx(40.3)
    assert telemetry.histogram("interlock.lease.renewal.duration").count == 1
    assert observer.metrics.snapshot().hook_errors == 0


def test_both_kinds_of_histograms_have_the_same_buckets(telemetry: Telemetry) -> None:
    observer = Observer("web-1", histograms(telemetry.meter))
    observer.granted("feeds", 17, 0.02, 2)
    (measure,) = [measure for measure in MEASURES if measure.field == "acquire_wait"]
    wait = telemetry.histogram("interlock.lease.acquire.wait")
    assert tuple(wait.explicit_bounds) == measure.bounds
    assert tuple(wait.bucket_counts) == observer.metrics.snapshot().acquire_wait.counts


def test_without_a_meter_the_global_one_is_used() -> None:
    observer = Observer("web-1", histograms())
    instrument(observer)
    observer.granted("feeds", 17, 0.0, 1)
    assert observer.metrics.snapshot().hook_errors == 0
