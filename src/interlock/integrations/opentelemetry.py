"""The lease metrics of a process for OpenTelemetry, read at each collection.

::

    from interlock.integrations.opentelemetry import instrument

    instrument(locks)      # or instrument(locks, meter)

OpenTelemetry has no observable histogram. So `instrument` creates three counters for each of Interlock's histograms:
``….bucket`` with the attribute ``le``, ``….count`` and ``….sum``. Prometheus stores histograms in this form, which
`histogram_quantile` needs. For OpenTelemetry's own histograms, `histograms` returns an event hook, which costs some
microseconds per event::

    locks = AsyncInterlock(on_event=histograms())
"""

from collections.abc import Callable, Iterable

from interlock import __version__
from interlock.coordination.events import Acquired, Event, HandedOver, Lost, Released, Renewed
from interlock.coordination.observation.metric_catalogue import MEASURES, Distribution, Measure
from interlock.coordination.observation.metrics import Measured
from interlock.errors import ConfigurationError

try:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation, get_meter
except ModuleNotFoundError as error:
    raise ConfigurationError(
        "Metrics for OpenTelemetry need the package opentelemetry-api: pip install opentelemetry-api opentelemetry-sdk."
    ) from error

Read = Callable[[CallbackOptions], Iterable[Observation]]


def instrument(locks: Measured, meter: Meter | None = None) -> None:
    """Create the instruments on `meter`, by default on a meter named ``interlock``. Call this function once.
    `locks` need not be open."""
    meter = meter or _own_meter()
    for measure in MEASURES:
        name = f"interlock.{measure.name}"
        if measure.kind == "histogram":
            _three_counters(meter, locks, measure, name)
        elif measure.kind == "counter":
            meter.create_observable_counter(name, [_reading(locks, measure)], measure.unit, measure.about)
        else:
            # The sum over several processes has a meaning, which in OpenTelemetry is an UpDownCounter.
            meter.create_observable_up_down_counter(name, [_reading(locks, measure)], measure.unit, measure.about)


def histograms(meter: Meter | None = None) -> Callable[[Event], None]:
    """Returns a hook for `on_event`. It records waits, attempts, holds and renewals in OpenTelemetry's histograms."""
    meter = meter or _own_meter()
    record = {
        measure.field: meter.create_histogram(
            f"interlock.{measure.name}",
            measure.unit,
            measure.about,
            explicit_bucket_boundaries_advisory=measure.bounds,
        ).record
        for measure in MEASURES
        if measure.kind == "histogram"
    }

    def on_event(event: Event) -> None:
        match event:
            case Acquired(waited=waited, attempts=attempts):
                record["acquire_wait"](waited)
                record["acquire_attempts"](attempts)
            case Released(held=held) | HandedOver(held=held) | Lost(held=held):
                record["hold"](held)
            case Renewed(seconds=seconds):
                record["renewal_duration"](seconds)

    return on_event


def _own_meter() -> Meter:
    return get_meter("interlock", __version__)


def _reading(locks: Measured, measure: Measure) -> Read:
    def read(_: CallbackOptions) -> Iterable[Observation]:
        value = getattr(locks.metrics.snapshot(), measure.field)
        if measure.label is None:
            return [Observation(value)]
        return [Observation(number, {measure.label: label}) for label, number in value.items()]

    return read


def _three_counters(meter: Meter, locks: Measured, measure: Measure, name: str) -> None:
    def distribution() -> Distribution:
        found: Distribution = getattr(locks.metrics.snapshot(), measure.field)
        return found

    def buckets(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(count, {"le": bound}) for bound, count in distribution().cumulative()]

    def count(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(distribution().count)]

    def total(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(distribution().total)]

    meter.create_observable_counter(f"{name}.bucket", [buckets], "1", measure.about)
    meter.create_observable_counter(f"{name}.count", [count], "1", measure.about)
    meter.create_observable_counter(f"{name}.sum", [total], measure.unit, measure.about)
