"""Which configuration of a kernel is fastest on a GPU that is not there: :func:`tune`, for those who know an autotuner.

Mental model: a case function makes the launch of a configuration. Every configuration is first predicted from a part: a
few SMs of the GPU, with as much less of what SMs share, run as large a share of the grid (*coarse*). Those that are
predicted near the best are then captured and simulated whole (*exact*), and the least of these is the winner. What the
GPU refuses, what cannot be emulated, and what the case's own check finds wrong is left out with its reason. Predictions
are kept in a file as they are made, so that a search that was broken off goes on. Beside the winner stands what
validation on silicon found: how much longer than the best measured configuration the best predicted one took.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusim.cases.formulas import Formula
from gpusim.errors import NoDataError, UsageError
from gpusim.gpus.spec import GpuSpec
from gpusim.io.progress import task
from gpusim.search.found import Metric, Tuned, metric_of, validated_regrets
from gpusim.search.identity import identity_of
from gpusim.search.kept import KeptPredictions, Predicted, as_text
from gpusim.search.predict import COARSE, EXACT, function_of, predict, spec_of
from gpusim.search.space import Restriction, Space, configurations
from gpusim.workers import worker_pool

#: Configurations predicted within this of the best coarse time are simulated whole, at least LEAST_EXACT and at most a
#: quarter of all, unless ``exact`` says how many. Guesses.
NEAR_PERCENT, LEAST_EXACT = 5.0, 4
#: How far, in standard deviations of exact over coarse time, another configuration's may lie below the mean: one in
#: forty of a normal distribution lies further.
DEVIATIONS = 2.0


def tune(
    case: str | Callable[..., Any],
    space: Space,
    *,
    gpu: str | GpuSpec = "h200",
    restrict: Restriction | Sequence[Restriction] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    exact: int | None = None,
    sample: bool = False,
    jobs: int = 1,
    keep: str | os.PathLike[str] | None = None,
) -> Tuned:
    """The configuration of ``space`` whose launch takes least time on ``gpu``.

    ``case``: a case function, which takes a configuration by keyword and returns ``(kernel, grid, block, arguments)``
    or another form of a case, or ``"file.py:function"``, which several ``jobs`` need; axes that stay the same may stand
    behind, ``"file.py:function:n=4096"``, and a kernel of a file or of the suite with its launch does too. ``space``:
    values of each parameter, all combinations of which are tried, or the configurations themselves. ``restrict`` says
    which of them count: a function of parameters that it names, a function of a configuration, a formula
    (``"block_x * block_y <= 1024"``), or several of these. ``metrics``: name -> a function, or a formula, of parameters
    and ``time`` in milliseconds. ``exact``: how many are simulated whole; 0: none but those of which no part stands for
    all, for launches that are too large to run whole and depend on data. ``sample``: of launches that provably repeat
    themselves only a part is run, for sizes that are too large to run whole; results are then not checked. ``keep``: a
    file of predictions that is read if it is there and added to. Raises UsageError for an empty space and NoDataError
    where no configuration can run.
    """
    spec = spec_of(gpu)
    function = function_of(case)
    name = getattr(function, "__name__", type(function).__name__)
    if jobs > 1 and not isinstance(case, str):
        raise UsageError("several jobs load the case by its name: write case as 'file.py:function'")
    # Formulas are read once, not for every configuration.
    measures = {key: Formula(each) if isinstance(each, str) else each for key, each in (metrics or {}).items()}
    asked = [metric_of(each) for each in measures.values()]
    chosen = configurations(function, name, space, restrict)
    for each in asked:
        if isinstance(each, Formula):
            each.refuse_unknown([*chosen[0], *measures, "time"])
    kept = KeptPredictions(None if keep is None else Path(keep), f"{identity_of(case)}\0{spec!r}\0{sample}")
    search = _Search(case, spec, jobs, sample, kept)
    coarse = list(search.predictions(chosen, COARSE))
    able = sorted((row for row in coarse if row.time_us is not None), key=_time)
    if not able:
        raise NoDataError(f"{name}: no configuration can run on {spec.name}: {coarse[0].why}")
    whole, rest = _whole(search, able, exact)
    done = [*(row for row in whole if row.time_us is not None), *(row for row in rest if row.stage == EXACT)]
    if exact == 0:
        done, rest = able, []
    if not done:
        raise NoDataError(f"{name}: no configuration can run whole on {spec.name}: {whole[0].why}")
    off = _off_by(able, done)
    undecided = [row for row in rest if row.stage == COARSE]
    left_out = [row for row in (*whole, *coarse) if row.time_us is None]
    return Tuned(
        spec.name,
        name,
        (*sorted(done, key=_time), *undecided, *left_out),
        validated_regrets(),
        (min(off), max(off)) if off else None,
        len(_could_win(able, done, undecided)),
        sample,
        measures,
        spec.title,
    )


def tuning_objective(
    case: str | Callable[..., Any],
    space: Mapping[str, Sequence[Any]],
    *,
    gpu: str | GpuSpec = "h200",
    sample: bool = False,
) -> Callable[[Any], float]:
    """A function to minimise: it takes a trial of Optuna (anything with ``suggest_categorical``), or a configuration,
    and returns the predicted microseconds of the whole launch; infinite for a configuration that cannot run.
    ``sample`` as :func:`tune` has it."""

    def predicted(trial: Any) -> float:
        if isinstance(trial, Mapping):
            chosen = dict(trial)
        else:
            chosen = {name: trial.suggest_categorical(name, list(values)) for name, values in space.items()}
        return _time(predict(case, chosen, gpu, EXACT, sample)[0])

    return predicted


@dataclass(frozen=True)
class _Search:
    """How configurations are predicted: what does not change within a search."""

    case: str | Callable[..., Any]
    gpu: GpuSpec
    jobs: int
    sample: bool
    kept: KeptPredictions

    def predictions(self, configurations: list[dict[str, Any]], stage: str) -> Iterator[Predicted]:
        """Each configuration's prediction, kept ones first; what the first stage ran whole is kept as exact."""
        left = []
        for each in configurations:
            found = self.kept.find(each, stage, EXACT)
            if found is None:
                left.append(each)
            else:
                yield found
        with task(f"predicting ({stage})", len(left), "configurations") as shown:
            for number, (row, sources) in enumerate(self._run(left, stage), 1):
                self.kept.add(row, sources)
                shown.to(number, as_text(row.parameters))
                yield row

    def _run(self, left: list[dict[str, Any]], stage: str) -> Iterator[tuple[Predicted, set[str] | None]]:
        if self.jobs == 1 or len(left) < 2:
            yield from (predict(self.case, each, self.gpu, stage, self.sample) for each in left)
            return
        with worker_pool(self.jobs) as pool:
            asked = [pool.submit(predict, self.case, each, self.gpu, stage, self.sample) for each in left]
            for future in as_completed(asked):
                yield future.result()


def _whole(
    search: _Search, able: Sequence[Predicted], exact: int | None
) -> tuple[list[Predicted], Sequence[Predicted]]:
    """The exact predictions of those of ``able``, best first, that may be the fastest, and the rest of them.

    After those that are near the best, as many more as could be faster by what the coarse stage was off for those that
    have been simulated whole.
    """
    first = _how_many(able, exact)
    rows = _exact(search, able[:first])
    most = first if exact is not None else max(LEAST_EXACT * 2, len(able) // 4)
    rest = list(able[first:])
    while rest and len(rows) < most:
        more = _could_win(able, rows, rest)[: max(1, search.jobs)]
        if not more:
            break
        rows += _exact(search, more)
        rest = [row for row in rest if row not in more]
    return rows, rest


def _exact(search: _Search, rows: Sequence[Predicted]) -> list[Predicted]:
    """The exact predictions of ``rows``; those that are so already stay."""
    left = [dict(row.parameters) for row in rows if row.stage != EXACT]
    return [*(row for row in rows if row.stage == EXACT), *search.predictions(left, EXACT)]


def _could_win(able: Sequence[Predicted], whole: Sequence[Predicted], rest: Sequence[Predicted]) -> list[Predicted]:
    """Those of ``rest`` that would be fastest if they took as much less than their coarse times say as
    :func:`_least_off` allows; best first."""
    least = _least_off(_off_by(able, whole))
    best = min(map(_time, whole), default=math.inf)
    return [row for row in rest if row.stage == COARSE and _time(row) * least < best]


def _least_off(off: Sequence[float]) -> float:
    """The least exact over coarse time to be expected of another configuration: two standard deviations below the mean
    of those known, or NEAR_PERCENT where fewer than two are.

    Not the least one known: whichever has it comes before all that are left, and so none of these could ever win.
    """
    if len(off) < 2:
        return min(off, default=1.0) / (1 + NEAR_PERCENT / 100)
    return statistics.fmean(off) - DEVIATIONS * statistics.stdev(off) * math.sqrt(1 + 1 / len(off))


def _off_by(able: Sequence[Predicted], whole: Sequence[Predicted]) -> list[float]:
    """Exact over coarse time of each configuration that has both."""
    coarse = {as_text(row.parameters): _time(row) for row in able if row.stage == COARSE}
    return [
        row.time_us / coarse[text]
        for row in whole
        if row.stage == EXACT and row.time_us is not None and (text := as_text(row.parameters)) in coarse
    ]


def _how_many(able: Sequence[Predicted], exact: int | None) -> int:
    if exact is not None:
        return max(0, exact)
    near = sum(_time(row) <= _time(able[0]) * (1 + NEAR_PERCENT / 100) for row in able)
    return max(LEAST_EXACT, min(near, len(able) // 4))


def _time(row: Predicted) -> float:
    return math.inf if row.time_us is None else row.time_us
