"""When a run is evaluated: at each of its first iterations, as curves move, then now and then."""

from __future__ import annotations

from typing import Protocol


class Schedule(Protocol):
    """The settings that decide it."""

    iterations: int
    evaluate_first: int
    evaluate_every: int


def is_evaluated(iteration: int, settings: Schedule) -> bool:
    """Whether a run is evaluated at an iteration. The start (0) and the last one always are."""
    return (
        iteration <= settings.evaluate_first
        or iteration % settings.evaluate_every == 0
        or iteration == settings.iterations
    )
