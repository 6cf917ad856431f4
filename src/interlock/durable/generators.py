"""The adapter between orchestrations, which are coroutine functions, and the engine, which drives generators."""

from collections.abc import Callable, Generator
from typing import Any

from interlock.durable.declarations import Orchestration
from interlock.durable.failures import ActivityFailure, EncodedFailure
from interlock.durable.run import Run, Task
from interlock.errors import DoNotRetry
from interlock.logs import events

log = events(__name__)


def generator_of(orchestration: Orchestration[Any, Any]) -> Callable[[Any, Any], Generator[Task, Any, Any]]:
    def drive(context: Any, content: Any) -> Generator[Task, Any, Any]:
        run = Run(orchestration, context.instance_id, content["root"], context.execution_id)
        try:
            value = orchestration.input.load(content["input"])
            result = yield from _turns(orchestration.function(run, value).__await__())
            return orchestration.output.dump(result)
        except Exception as error:
            failure = ActivityFailure.of(error)
            facts = {"orchestration": run.id, "code": failure.code}
            if failure.superseded:  # its activity has logged that
                log.debug("orchestration.failed", extra=facts)
            else:
                log.warning("orchestration.failed", extra=facts, exc_info=error)
            raise EncodedFailure(failure) from None

    return drive


def _turns(steps: Generator[Any, Any, Any]) -> Generator[Task, Any, Any]:
    """Yields the tasks of a coroutine to the engine, like `yield from`, and refuses anything else."""
    answer: Any = None
    refusal: Exception | None = None
    while True:
        try:
            task = steps.send(answer) if refusal is None else steps.throw(refusal)
        except StopIteration as end:
            return end.value
        answer = refusal = None
        if not isinstance(task, dict):
            refusal = DoNotRetry(
                "An orchestration awaited something other than a step of its run: move the rest into an activity.",
                code="foreign_await",
            )
            continue
        try:
            answer = yield task
        except Exception as error:
            refusal = error
