"""Which configuration of a kernel is fastest on a GPU that is not there: :func:`tune`, for those who know an autotuner.

Mental model: a case function makes the launch of a configuration. Every configuration is first predicted from a part: a
few SMs of the GPU, with as much less of what SMs share, run as large a share of the grid (*coarse*). Those that are
predicted near the best are then captured and simulated whole (*exact*), and the least of these is the winner. What the
GPU refuses, what cannot be emulated, and what the case's own check finds wrong is left out with its reason. Predictions
are kept in a file as they are made, so that a search that was broken off goes on. Beside the winner stands what
validation on silicon found: how much longer than the best measured configuration the best predicted one took.
"""

from __future__ import annotations

import inspect
import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from gpusim.capturing import capture
from gpusim.cases.case_forms import CaseLaunch, as_case, assertion_text
from gpusim.cases.user_kernels import case_function
from gpusim.engine.gpu import simulate
from gpusim.errors import (
    CompileError,
    LaunchError,
    NoDataError,
    UnsupportedOpcodeError,
    UsageError,
    WrongResultError,
)
from gpusim.gpus.cut_down import cut_down
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.io.nearest import hint
from gpusim.io.progress import task
from gpusim.io.records import parse_record
from gpusim.io.sibling import traces_folder
from gpusim.io.whole_file import write_whole
from gpusim.launch.memory import DeviceMemory
from gpusim.trace.record import Trace
from gpusim.tuning_kept import KeptPredictions, Predicted, as_text, files_of
from gpusim.workers import worker_pool

COARSE, EXACT = "coarse", "exact"
#: Warp instructions of the part that stands for the whole, about, and its least SMs. A launch of fewer than twice as
#: many runs whole: what small launches take is latency, which a part with slower memory does not show. (A convolution
#: of 200 million warp instructions on A100 takes on four SMs what it takes on six, to 0.01 %.)
PART_INSTRUCTIONS, LEAST_SMS = 2e6, 2
#: Configurations predicted within this of the best coarse time are simulated whole, at least LEAST_EXACT and at most a
#: quarter of all, unless ``exact`` says how many. Guesses.
NEAR_PERCENT, LEAST_EXACT = 5.0, 4
#: Half of the blocks that execute this much more each show that the blocks share out a fixed amount of work.
_SHARED_OUT = 1.2
_LEFT_OUT = (LaunchError, CompileError, UnsupportedOpcodeError, WrongResultError)


@dataclass(frozen=True)
class ValidatedRegret:
    """What a set of measured configurations showed: on it the best predicted one took ``regret_percent`` more than the
    best measured one, the fastest of the five best predicted ``regret_of_five_percent`` more (None of fewer than
    twenty), over ``rows`` configurations whose mean error was ``mape_percent`` and whose order had the rank correlation
    ``rank``."""

    measured: str
    gpu: str
    rows: int
    regret_percent: float
    mape_percent: float
    rank: float | None
    regret_of_five_percent: float | None = None


@dataclass(frozen=True)
class Tuned:
    """``rows`` best first, exact before coarse, then those left out; ``validated``: what validation found of such
    searches."""

    gpu: str
    kernel: str
    rows: tuple[Predicted, ...]
    validated: tuple[ValidatedRegret, ...]

    @property
    def best(self) -> Predicted:
        """The configuration of the least exact time."""
        return self.rows[0]

    def __str__(self) -> str:
        tried = sum(row.time_us is not None for row in self.rows)
        exact = sum(row.stage == EXACT and row.time_us is not None for row in self.rows)
        lines = [
            f"{self.kernel} on {self.gpu}: {as_text(self.best.parameters)} takes {_between(self.best)} (predicted), the best of {tried}"
            f" configurations, of which {exact} were simulated whole; {len(self.rows) - tried} left out"
        ]
        widest: dict[tuple[str, str], ValidatedRegret] = {}  # of a set's halves and the whole, the whole
        for each in sorted(self.validated, key=lambda each: each.rows):
            widest[each.measured, each.gpu] = each
        for each in sorted(widest.values(), key=lambda each: each.measured):
            rank = "" if each.rank is None else f", rank correlation {each.rank:.2f}"
            five = each.regret_of_five_percent
            measured = "" if five is None else f", the fastest of the five predicted best {five:.1f} %"
            lines.append(
                f"on silicon, {each.measured} ({each.rows} configurations, {each.gpu}): the one predicted best took {each.regret_percent:.1f} % more"
                f" than the best one{measured}{rank}, mean error {each.mape_percent:.1f} %"
            )
        return "\n".join(lines)

    def write_cache(self, path: str | os.PathLike[str]) -> None:
        """Write the predictions as a cache file of Kernel Tuner, for its tools and ``gpusim runs import``; times in
        milliseconds."""
        names = list(self.best.parameters)
        entries = {
            ",".join(map(str, row.parameters.values())): {
                **row.parameters, "time": "RuntimeFailedConfig" if row.time_us is None else row.time_us / 1e3, "stage": row.stage,
                "compile_time": 0, "verification_time": 0, "benchmark_time": 0, "strategy_time": 0, "framework_time": 0, "timestamp": "",
            }
            for row in self.rows
        }  # fmt: skip
        document = {
            "schema_version": "1.1.0",
            "device_name": load_gpu(self.gpu).title,
            "kernel_name": self.kernel,
            "problem_size": "",
            "tune_params_keys": names,
            "tune_params": {name: sorted({row.parameters[name] for row in self.rows}, key=str) for name in names},
            "objective": "time",
            "cache": entries,
        }
        write_whole(Path(path), json.dumps(document, indent=1).encode())


class _Summary(TypedDict):
    set: str
    gpu: str
    rows: int
    regret_percent: NotRequired[float | None]
    regret_of_five_percent: NotRequired[float | None]
    mape_percent: NotRequired[float | None]
    rank: NotRequired[float | None]


class _Results(TypedDict):
    summaries: list[_Summary]


def tune(
    case: str | Callable[..., Any],
    space: Mapping[str, Sequence[Any]] | Iterable[Mapping[str, Any]],
    *,
    gpu: str = "h200",
    restrict: Callable[..., bool] | None = None,
    exact: int | None = None,
    jobs: int = 1,
    keep: str | os.PathLike[str] | None = None,
) -> Tuned:
    """The configuration of ``space`` whose launch takes least time on ``gpu``.

    ``case``: a case function, which takes a configuration by keyword and returns ``(kernel, grid, block, arguments)``
    or another form of a case, or ``"file.py:function"``, which several ``jobs`` need. ``space``: values of each
    parameter, all combinations of which are tried, or the configurations themselves. ``restrict``, called as ``case``
    is, says which combinations count. ``exact``: how many are simulated whole. ``keep``: a file of predictions that is
    read if it is there and added to. Raises UsageError for an empty space and NoDataError where no configuration can
    run.
    """
    spec = load_gpu(gpu)
    name, source = _source_of(case)
    if jobs > 1 and not isinstance(case, str):
        raise UsageError("several jobs load the case by its name: write case as 'file.py:function'")
    everything = list(_combinations(space))
    _refuse_parameters(case, name, everything)
    configurations = [each for each in everything if restrict is None or restrict(**each)]
    if not configurations:
        raise UsageError(f"{name}: no configuration is in the space, or none is left by restrict")
    kept = KeptPredictions(None if keep is None else Path(keep), f"{source}\0{spec!r}")
    coarse = list(_predicted(case, configurations, gpu, COARSE, jobs, kept))
    able = sorted((row for row in coarse if row.time_us is not None), key=_time)
    if not able:
        raise NoDataError(f"{name}: no configuration can run on {gpu}: {coarse[0].why}")
    chosen = able[: _how_many(able, exact)]
    whole = sorted(_predicted(case, [dict(row.parameters) for row in chosen], gpu, EXACT, jobs, kept), key=_time)
    done = [row for row in whole if row.time_us is not None]
    if not done:
        raise NoDataError(f"{name}: no configuration can run whole on {gpu}: {whole[0].why}")
    left_out = [row for row in (*whole, *coarse) if row.time_us is None]
    return Tuned(gpu, name, (*done, *able[len(chosen) :], *left_out), validated_regrets())


def tuning_objective(
    case: str | Callable[..., Any], space: Mapping[str, Sequence[Any]], *, gpu: str = "h200"
) -> Callable[[Any], float]:
    """A function to minimise: it takes a trial of Optuna (anything with ``suggest_categorical``), or a configuration,
    and returns the predicted microseconds of the whole launch; infinite for a configuration that cannot run."""

    def predicted(trial: Any) -> float:
        if isinstance(trial, Mapping):
            chosen = dict(trial)
        else:
            chosen = {name: trial.suggest_categorical(name, list(values)) for name, values in space.items()}
        return _time(_predict(case, chosen, gpu, EXACT)[0])

    return predicted


def validated_regrets() -> tuple[ValidatedRegret, ...]:
    """What ``tools/validate.py --record`` last found for sets of configurations of one problem; none where it found
    none."""
    path = traces_folder("external") / "results.json"
    try:
        results = parse_record(_Results, path.read_bytes(), f"{path} cannot be read", UsageError)
    except OSError:
        return ()
    return tuple(
        ValidatedRegret(
            each["set"],
            each["gpu"],
            each["rows"],
            regret,
            each.get("mape_percent") or 0.0,
            each.get("rank"),
            each.get("regret_of_five_percent"),
        )
        for each in results["summaries"]
        if (regret := each.get("regret_percent")) is not None and each["rows"] > 2
    )


def _source_of(case: str | Callable[..., Any]) -> tuple[str, str]:
    """A case's name, and text that changes when it does."""
    function = case_function(case) if isinstance(case, str) else case
    try:
        path = inspect.getsourcefile(function)
        text = Path(path).read_text() if path else ""
    except (TypeError, OSError):
        text = ""
    return getattr(function, "__name__", type(function).__name__), text


def _folder_of(function: Callable[..., Any]) -> Path:
    """Where a case is written; the current folder where it is in no file."""
    try:
        return Path(inspect.getsourcefile(function) or "").parent
    except TypeError:
        return Path()


def _refuse_parameters(case: str | Callable[..., Any], name: str, configurations: Sequence[Mapping[str, Any]]) -> None:
    """Raises UsageError for the first configuration that the case function does not take."""
    try:
        taken = inspect.signature(case_function(case) if isinstance(case, str) else case)
    except (TypeError, ValueError):  # a callable that does not say
        return
    for each in configurations:
        try:
            taken.bind(**each)
        except TypeError as error:
            unknown = [parameter for parameter in each if parameter not in taken.parameters]
            told = (
                f"has no parameter {unknown[0]}; {hint(unknown[0], list(taken.parameters))}" if unknown else str(error)
            )
            raise UsageError(f"{name} {told}") from None


def _combinations(space: Mapping[str, Sequence[Any]] | Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    if isinstance(space, Mapping):
        for values in itertools.product(*space.values()):
            yield {str(name): value for name, value in zip(space, values, strict=True)}
        return
    for each in space:
        yield {str(name): value for name, value in each.items()}


def _how_many(able: Sequence[Predicted], exact: int | None) -> int:
    if exact is not None:
        return max(1, exact)
    near = sum(_time(row) <= _time(able[0]) * (1 + NEAR_PERCENT / 100) for row in able)
    return max(LEAST_EXACT, min(near, len(able) // 4))


def _time(row: Predicted) -> float:
    return math.inf if row.time_us is None else row.time_us


def _between(row: Predicted) -> str:
    """A time with its interval."""
    time_us = row.time_us or 0.0
    ends = f" ({time_us / row.factor:.4g} to {time_us * row.factor:.4g})" if row.factor else ""
    return f"{time_us:.4g} us{ends}"


def _predicted(
    case: str | Callable[..., Any],
    configurations: list[dict[str, Any]],
    gpu: str,
    stage: str,
    jobs: int,
    kept: KeptPredictions,
) -> Iterator[Predicted]:
    """Each configuration's prediction, kept ones first."""
    left = []
    for each in configurations:
        found = kept.find(each, stage)
        if found is None:
            left.append(each)
        else:
            yield found
    with task(f"predicting ({stage})", len(left), "configurations") as shown:
        for number, (row, sources) in enumerate(_run(case, left, gpu, stage, jobs), 1):
            kept.add(row, sources)
            shown.to(number, as_text(row.parameters))
            yield row


def _run(
    case: str | Callable[..., Any], left: list[dict[str, Any]], gpu: str, stage: str, jobs: int
) -> Iterator[tuple[Predicted, set[str] | None]]:
    if jobs == 1 or len(left) < 2:
        yield from (_predict(case, each, gpu, stage) for each in left)
        return
    with worker_pool(jobs) as pool:
        for future in as_completed([pool.submit(_predict, case, each, gpu, stage) for each in left]):
            yield future.result()


def _predict(
    case: str | Callable[..., Any], parameters: Mapping[str, Any], gpu: str, stage: str
) -> tuple[Predicted, set[str] | None]:
    """One configuration's time, of a part of each launch or of all, and the source files of its code; None where
    nothing was captured, or they cannot be told."""
    sources: set[str] | None = None
    is_told = True

    def captured(launch: CaseLaunch, grid: Any) -> Trace:
        nonlocal sources, is_told
        trace = capture(
            launch.kernel, grid, launch.block, launch.args, gpu=spec, shared_bytes=launch.shared_bytes, memory=memory
        )
        lines = {file for file in trace.program.files if file}
        files = files_of(launch.kernel, folder)
        is_told = is_told and files is not None
        sources = (sources or set()) | lines | (files or set())
        return trace

    spec = load_gpu(gpu)
    function = case_function(case) if isinstance(case, str) else case
    folder = _folder_of(function)
    try:
        made = as_case(getattr(function, "__name__", "case"), function(**parameters))
        memory, time_us, factors = DeviceMemory(), 0.0, [0.0]
        for launch in made.launches:
            took = _part_us(launch, spec, captured) if stage == COARSE else None
            if took is None:
                trace = captured(launch, launch.grid)
                result = simulate(trace, spec, code=trace if trace.launch.blocks < spec.sm_count else (), sample=True)
                took = result.time_us
                factors.append(result.interval.high_us / took)
            time_us += took if launch.timed else 0.0
        if stage == EXACT and made.check is not None:
            made.check()
        row = Predicted(dict(parameters), time_us, stage, factor=max(factors) if stage == EXACT else 0.0)
    except _LEFT_OUT as error:
        row = Predicted(dict(parameters), None, stage, " ".join(str(error).split()))
    except AssertionError as error:
        row = Predicted(dict(parameters), None, stage, f"wrong result: {assertion_text(error)}")
    return row, sources if is_told else None


def _part_us(launch: CaseLaunch, spec: GpuSpec, captured: Callable[[CaseLaunch, Any], Trace]) -> float | None:
    """Microseconds of a launch by a part of its grid on some SMs; None where no part stands for all: a launch with a
    grid that its language makes, a small one, and one whose blocks share out a fixed amount of work (fewer of them do
    more each)."""
    grid = (launch.grid,) if isinstance(launch.grid, int) else launch.grid
    if not isinstance(grid, tuple) or math.prod(grid) < 2 * spec.sm_count:
        return None
    axis = max(range(len(grid)), key=lambda i: grid[i])

    def part(along: int) -> Trace:
        return captured(launch, tuple(along if i == axis else n for i, n in enumerate(grid)))

    few = max(1, grid[axis] // spec.sm_count)
    sample, half = part(few), part(max(1, few // 2))
    a_block = _instructions(sample)
    if few > 1 and _instructions(half) > _SHARED_OUT * a_block:
        return None
    share = PART_INSTRUCTIONS / max(1.0, a_block * math.prod(grid))
    sms = max(LEAST_SMS, math.ceil(share * spec.sm_count))
    along = round(grid[axis] * sms / spec.sm_count)
    if share > 0.5 or along < 2:
        return None
    took = simulate(part(along), cut_down(spec, sms)).time_us
    fixed = 1e6 * (spec.launch.start_cycles + spec.launch.end_cycles) / spec.clock_hz
    return fixed + (took - fixed) * (grid[axis] / along) * (sms / spec.sm_count)


def _instructions(trace: Trace) -> float:
    """Warp instructions a block."""
    return sum(chunk.warp_instructions for chunk in trace.chunk_list) / trace.launch.blocks
