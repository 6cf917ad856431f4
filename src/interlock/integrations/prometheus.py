"""The lease metrics of a process for Prometheus, read at each scrape.

::

    from prometheus_client import REGISTRY
    from interlock.integrations.prometheus import collector

    REGISTRY.register(collector(locks))

Register one collector per registry: the metrics belong to the process, and no label could distinguish two collectors.
Lease names are no label either, because every name ever used would remain a time series.
"""

from collections.abc import Iterator

from interlock.coordination.observation.metric_catalogue import MEASURES, Distribution, Measure, Snapshot
from interlock.coordination.observation.metrics import Measured
from interlock.errors import ConfigurationError

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    raise ConfigurationError(
        "Metrics for Prometheus need the package prometheus-client: pip install prometheus-client."
    ) from error


def collector(locks: Measured) -> Collector:
    """Returns a collector for a registry of `prometheus_client`. `locks` need not be open."""
    return _Collector(locks)


class _Collector(Collector):
    def __init__(self, locks: Measured) -> None:
        self._locks = locks

    def collect(self) -> Iterator[Metric]:
        snapshot = self._locks.metrics.snapshot()
        return (_family(measure, snapshot) for measure in MEASURES)


def _family(measure: Measure, snapshot: Snapshot) -> Metric:
    name, value = series_name(measure), getattr(snapshot, measure.field)
    if isinstance(value, Distribution):
        return HistogramMetricFamily(name, measure.about, buckets=value.cumulative(), sum_value=value.total)
    family = (CounterMetricFamily if measure.kind == "counter" else GaugeMetricFamily)(
        name, measure.about, labels=[measure.label] if measure.label else []
    )
    for label, number in value.items() if measure.label else [(None, value)]:
        family.add_metric([label] if label else [], number)
    return family


def series_name(measure: Measure) -> str:
    """Returns the name by Prometheus' conventions. The client library appends ``_total`` to the name of a counter."""
    return f"interlock_{measure.name.replace('.', '_')}{'_seconds' if measure.unit == 's' else ''}"
