"""New changes of measured series looked at again before anyone hears of them: the commits at either side, measured in
turn.

Mental model: the history says that a commit moved a series; nobody has been told yet. The newest commit without the
change and the oldest with it are checked out beside each other, and the cell is measured in one and the other, pair by
pair, until :mod:`gpusim.watch.side_by_side` knows. What they say is kept with the run; a change that is refuted is the
machine's doing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import cast

from gpusim.cases.requests import parse_request
from gpusim.io.percent import signed_percent
from gpusim.io.progress import say
from gpusim.store.store import RunWriter, Store
from gpusim.watch.alerts.gather import find_steps, unjudged_since
from gpusim.watch.alerts.read import change_numbers
from gpusim.watch.alerts.step import Step
from gpusim.watch.change import COMMIT, STEP
from gpusim.watch.places import Cells, Place
from gpusim.watch.plan import Plan
from gpusim.watch.read_history import MEASURED, read_points
from gpusim.watch.repository import checkout
from gpusim.watch.side_by_side import KIND, MOST_PAIRS, UNSETTLED, Comparison, noise_of, read_comparisons, weigh

#: Of one run; the newest first. Each takes two checkouts and up to twice :data:`MOST_PAIRS` measurements.
MOST_COMPARED = 8


def compare_new_steps(plan: Plan, store: Store, run: RunWriter, place: Place, deadline: float) -> int:
    """Measure the commits around each step that no alert speaks of yet, and keep what they say; how many were looked
    at."""
    compared = 0
    for asked in _unheard(store, plan.name):
        step = asked.step
        requests = [each for each in plan.requests() if parse_request(each)[0] == _kernel(step)]
        if step.series.toolchain not in plan.toolchains or not requests or compared == MOST_COMPARED:
            continue
        if time.monotonic() > deadline:
            break
        found = _compare(plan, place, asked, requests, deadline)
        run.add_document(KIND, asdict(found))
        compared += 1
        say(
            f"{step.series.name}: {signed_percent(step.percent)} at {step.commit[:10]} measured side by side: {found.verdict}"
        )
    return compared


@dataclass(frozen=True)
class _Question:
    """A ``step`` with the last commit before it and the first one after all that may be it (hash, position); ``noise``:
    of single values."""

    step: Step
    old: tuple[str, int]
    new: tuple[str, int]
    noise: float


def _unheard(store: Store, plan: str) -> Iterator[_Question]:
    """Steps of commits that neither an alert nor a comparison speaks of, newest first."""
    known, judged = change_numbers(store, plan), read_comparisons(store, plan)
    found = find_steps(store, plan, unjudged_since(store, plan)).steps
    steps = [step for each in found.values() for step in each if step.series.mode == MEASURED]
    for step in sorted(steps, key=lambda step: -step.new.position):
        change, number = step.change, step.series.id
        if step.cause != COMMIT or change.kind != STEP or (number, step.new.position, step.key) in known:
            continue
        points = read_points(store, number)
        named = {*change.candidates, step.new.commit}
        may_be = [index for index, point in enumerate(points) if point.commit in named]
        first, last = points[max(0, may_be[0] - 1)], points[may_be[-1]]
        if first.position == last.position or any(
            each.covers(number, first.position + 1, last.position) for each in judged
        ):
            continue
        noise = noise_of([point.value for point in points])
        yield _Question(step, (first.commit, first.position), (last.commit, last.position), noise)


def _compare(plan: Plan, place: Place, asked: _Question, requests: Sequence[str], deadline: float) -> Comparison:
    step, toolchain = asked.step, plan.toolchains[asked.step.series.toolchain]
    pairs: list[tuple[float, float]] = []
    size, verdict = step.after - step.before, UNSETTLED
    with (
        checkout(plan.repository_path, asked.old[0]) as before,
        checkout(plan.repository_path, asked.new[0]) as after,
        place.open(before, toolchain, 1) as first,
        place.open(after, toolchain, 1) as second,
    ):
        while verdict == UNSETTLED and len(pairs) < MOST_PAIRS and time.monotonic() < deadline:
            turns = (first, second) if len(pairs) % 2 == 0 else (second, first)  # what drifts meets both alike
            values = [_time_us(plan, cells, step, requests, len(pairs)) for cells in turns]
            if None in values:  # it cannot be measured today: the history is all there is
                break
            was, now = values if turns[0] is first else values[::-1]
            pairs.append((cast("float", was), cast("float", now)))
            verdict = weigh(pairs, size, asked.noise)
    return Comparison(step.series.id, asked.old[1], asked.new[1], size, verdict, tuple(pairs))


def _time_us(plan: Plan, cells: Cells, step: Step, requests: Sequence[str], number: int) -> float | None:
    """The series' value, measured once more; None where none of ``requests`` gives one."""
    series = step.series
    for request in requests:
        task = {
            "id": number, "case": request, "gpu": series.gpu, "mode": MEASURED, "small": plan.small,
            "budget_s": min(60.0, plan.cell_timeout_s / 2), "seed": number,
        }  # fmt: skip
        for row in cells.submit(task, plan.cell_timeout_s).result().rows:
            kernel = f"{row.kernel} ({row.cache})" if row.cache else row.kernel
            if row.time_us and (kernel, row.shape, row.launch, row.gpu) == (
                series.kernel, series.shape, series.launch, series.gpu
            ):  # fmt: skip
                return row.time_us.median
    return None


def _kernel(step: Step) -> str:
    return step.series.kernel.removesuffix(" (cold)").removesuffix(" (warm)")
