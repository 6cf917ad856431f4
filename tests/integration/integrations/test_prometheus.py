"""The collector in a real registry, its scrape read back by Prometheus' own parsers."""

import subprocess
import sys
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from interlock.coordination.observation.metric_catalogue import MEASURES
from interlock.coordination.observation.observer import Observer
from interlock.errors import ConnectionLost
from interlock.integrations.prometheus import collector, series_name


@pytest.fixture
def observer() -> Observer:
    return Observer("web-1")


@pytest.fixture
def registry(observer: Observer) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=True)
    registry.register(collector(observer))
    return registry


def live(observer: Observer) -> None:
    observer.waiting("feeds", "web-2")
    observer.granted("feeds", 17, 0.02, 2)
    observer.granted("mail", 18, 9.5, 1)
    observer.not_acquired("mail", 5.0, 3, "timeout")
    observer.released("feeds", 17, 0.3)
    observer.renewed(2, 0.004)
    observer.renewal_failed(ConnectionLost("gone"))
    observer.reconnected("listener")


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, labels)


def samples(families: Iterable[Metric]) -> set[Any]:
    return {(sample.name, *sorted(sample.labels.items()), sample.value) for each in families for sample in each.samples}


def test_events_are_scraped(observer: Observer, registry: CollectorRegistry) -> None:
    live(observer)
    assert value(registry, "interlock_lease_acquires_total", outcome="acquired") == 2
    assert value(registry, "interlock_lease_acquires_total", outcome="timeout") == 1
    assert value(registry, "interlock_lease_waiters") == 1
    assert value(registry, "interlock_lease_held") == 1
    assert value(registry, "interlock_lease_releases_total") == 1
    assert value(registry, "interlock_lease_renewal_rounds_total", outcome="failed") == 1
    assert value(registry, "interlock_lease_renewals_total") == 2
    assert value(registry, "interlock_lease_reconnects_total", what="listener") == 1
    assert value(registry, "interlock_lease_database_errors_total", error="ConnectionLost") == 1


def test_a_histogram_has_buckets_count_and_sum(observer: Observer, registry: CollectorRegistry) -> None:
    live(observer)
    name = "interlock_lease_acquire_wait_seconds"
    assert value(registry, f"{name}_bucket", le="0.01") == 0
    assert value(registry, f"{name}_bucket", le="0.025") == 1
    assert value(registry, f"{name}_bucket", le="10.0") == 2
    assert value(registry, f"{name}_bucket", le="+Inf") == value(registry, f"{name}_count") == 2
    assert value(registry, f"{name}_sum") == pytest.approx(9.52)


@pytest.mark.parametrize(
    ("write", "read"),
    [(generate_latest, parse), (openmetrics.generate_latest, parse_openmetrics)],
    ids=["text", "open"],
)
def test_both_formats_are_parsed_to_the_same_values(
    observer: Observer, registry: CollectorRegistry, write: Any, read: Any
) -> None:
    live(observer)
    assert samples(read(write(registry).decode())) == samples(registry.collect())


def test_every_metric_is_scraped_with_its_description(registry: CollectorRegistry) -> None:
    scraped = {each.name: (each.type, each.documentation) for each in registry.collect()}
    assert scraped == {series_name(measure): (measure.kind, measure.about) for measure in MEASURES}


def test_losses_are_zero_before_the_first_one(registry: CollectorRegistry) -> None:
    assert value(registry, "interlock_lease_losses_total", reason="expired") == 0
    assert value(registry, "interlock_lease_acquires_total", outcome="busy") == 0


def test_no_lease_name_becomes_a_label(observer: Observer, registry: CollectorRegistry) -> None:
    live(observer)
    text = generate_latest(registry).decode()
    assert not any(word in text for word in ("feeds", "mail", "web-1", "web-2"))


def test_metrics_are_read_at_each_scrape(observer: Observer) -> None:
    locks = SimpleNamespace(metrics=Observer("other").metrics)
    registry = CollectorRegistry()
    registry.register(collector(locks))
    locks.metrics = observer.metrics
    observer.granted("feeds", 17, 0.0, 1)
    assert value(registry, "interlock_lease_held") == 1


def test_a_second_collector_in_one_registry_is_refused(observer: Observer, registry: CollectorRegistry) -> None:
    with pytest.raises(ValueError, match="interlock_lease_acquires"):
        registry.register(collector(observer))


@pytest.mark.parametrize(
    ("module", "package", "remedy"),
    [
        ("prometheus", "prometheus_client", "pip install prometheus-client"),
        ("opentelemetry", "opentelemetry", "pip install opentelemetry-api"),
    ],
)
def test_a_missing_package_is_named(module: str, package: str, remedy: str) -> None:
    code = f"import sys; sys.modules['{package}'] = None; import interlock.integrations.{module}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("interlock.errors.ConfigurationError: ")
    assert remedy in last
