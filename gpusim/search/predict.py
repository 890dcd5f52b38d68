"""The predicted time of one configuration of a search, of a part of each launch (*coarse*) or of all (*exact*).

Mental model: a few SMs of a GPU, with as much less of what SMs share, run as large a share of the grid, on copies of
the arrays. Such a part stands for the whole where it gives each SM as many blocks as the whole does, the busiest one
too, so that odd waves at the end cost as much. Where no part does, the launch is simulated whole in the first stage
already. What the GPU refuses, what cannot be emulated, what an access out of bounds or a deadlock ends, and what the
case's own check finds wrong, has no time but a reason.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpusim.capturing import capture
from gpusim.cases.case_forms import CaseLaunch, GeneratedLaunches, UserCase, as_case, assertion_text
from gpusim.cases.names import is_reference
from gpusim.cases.requests import parse_request
from gpusim.cases.suite import launches_run_whole, make_case
from gpusim.cases.user_kernels import case_function
from gpusim.engine.gpu import simulate
from gpusim.errors import (
    CompileError,
    ExecutionError,
    GpusimError,
    LaunchError,
    UnsupportedOpcodeError,
    WrongResultError,
)
from gpusim.gpus.cut_down import cut_down
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.launch.memory import DeviceMemory
from gpusim.search.kept import Predicted, files_of
from gpusim.trace.record import Trace

COARSE, EXACT = "coarse", "exact"
#: Warp instructions of the part that stands for the whole, about, and its least SMs. A launch of fewer than twice as
#: many runs whole: what small launches take is latency, which a part with slower memory does not show. (A convolution
#: of 200 million warp instructions on A100 takes on four SMs what it takes on six, to 0.01 %.)
PART_INSTRUCTIONS, LEAST_SMS = 2e6, 2
#: A part of more warp instructions takes as long as the whole launch does where that is sampled, about, and says less.
SAMPLED_INSTRUCTIONS = 4e7
#: A part may be so many times larger, where then its SMs get as many blocks as those of the whole.
MOST_LARGER = 4
#: From so many blocks an SM, one more or less does not count.
MANY_BLOCKS = 16
#: Blocks along the longest axis, at most, by which what a block executes is found before a part is chosen.
MOST_PROBED = 64
#: Half of the blocks that execute this much more each show that the blocks share out a fixed amount of work.
_SHARED_OUT = 1.2
_LEFT_OUT = (LaunchError, CompileError, UnsupportedOpcodeError, ExecutionError, WrongResultError)
Capture = Callable[[CaseLaunch, Any], Trace]


def function_of(case: str | Callable[..., Any]) -> Callable[..., Any]:
    """The function that makes the launches of a configuration: ``case`` itself, or the one that a request names,
    ``file.py:function``, ``file.cu:kernel:grid=...`` or an entry of the suite, with the axes that it gives."""
    if not isinstance(case, str):
        return case
    name, fixed = parse_request(case)
    if is_reference(name) and not fixed:
        return case_function(name)

    def made(**parameters: Any) -> Any:
        return make_case(name, {**fixed, **parameters})

    made.__name__ = name.rpartition(":")[2]
    return made


def spec_of(gpu: str | GpuSpec) -> GpuSpec:
    """The described GPU of that name, or the one given."""
    return gpu if isinstance(gpu, GpuSpec) else load_gpu(gpu)


def folder_of(function: Callable[..., Any]) -> Path:
    """Where a case is written; the current folder where it is in no file."""
    try:
        return Path(inspect.getsourcefile(function) or "").parent
    except TypeError:
        return Path()


def predict(
    case: str | Callable[..., Any], parameters: Mapping[str, Any], gpu: str | GpuSpec, stage: str, sample: bool = False
) -> tuple[Predicted, set[str] | None]:
    """One configuration's time, and the source files of its code; None where nothing was captured, or they cannot be
    told. A coarse time of which no launch was cut is exact, and says so. ``sample``: of launches that provably repeat
    themselves a few blocks and iterations are run; the result is then not checked."""
    sources: set[str] | None = None
    is_told, is_whole, is_computed = True, True, True

    def told(launch: CaseLaunch, trace: Trace) -> Trace:
        nonlocal sources, is_told
        files = files_of(launch.kernel, folder)
        is_told = is_told and files is not None
        sources = (sources or set()) | {file for file in trace.program.files if file} | (files or set())
        return trace

    def part_of(launch: CaseLaunch, grid: Any) -> Trace:
        return told(launch, _captured(launch, grid, _copied(launch.args), spec, None, sample))

    spec = spec_of(gpu)
    function = function_of(case)
    folder = folder_of(function)
    try:
        made = as_case(getattr(function, "__name__", "case"), function(**parameters))
        memory, time_us, factors = DeviceMemory(), 0.0, [0.0]
        needed = _results_needed(made, spec)
        for index, launch in enumerate(made.launches):
            most = SAMPLED_INSTRUCTIONS if sample and index >= needed else math.inf
            took = _part_us(launch, spec, part_of, most) if stage == COARSE else None
            is_whole = is_whole and took is None
            if took is None or index < needed:
                few = sample and index >= needed
                trace = told(launch, _captured(launch, launch.grid, launch.args, spec, memory, few))
                is_computed = is_computed and trace.has_results
                if took is None:
                    took, factor = _simulated_us(trace, spec)
                    factors.append(factor)
            time_us += took if launch.timed else 0.0
        if is_whole and is_computed and made.check is not None:
            made.check()
        row = Predicted(
            dict(parameters), time_us, EXACT if is_whole else COARSE, factor=max(factors) if is_whole else 0.0
        )
    except _LEFT_OUT as error:
        row = Predicted(dict(parameters), None, stage, " ".join(str(error).split()), failed=_kind(error))
    except AssertionError as error:
        row = Predicted(
            dict(parameters), None, stage, f"wrong result: {assertion_text(error)}", failed=WrongResultError.__name__
        )
    return row, sources if is_told else None


def _kind(error: Exception) -> str:
    """The name of the class of :data:`_LEFT_OUT` that ``error`` is one of."""
    return next(kind.__name__ for kind in _LEFT_OUT if isinstance(error, kind))


class _NotCopiedError(GpusimError):
    """Arguments that cannot be copied, so that no part of a launch can run beside it."""


def _copied(args: tuple) -> tuple:
    try:
        return copy.deepcopy(args)
    except Exception as error:  # whatever a type of the user's raises
        raise _NotCopiedError(str(error)) from error


def _captured(
    launch: CaseLaunch, grid: Any, args: tuple, spec: GpuSpec, memory: DeviceMemory | None, sample: bool
) -> Trace:
    return capture(
        launch.kernel, grid, launch.block, args, gpu=spec, shared_bytes=launch.shared_bytes, memory=memory,
        sample=sample, cluster=launch.cluster,
    )  # fmt: skip


def _simulated_us(trace: Trace, spec: GpuSpec) -> tuple[float, float]:
    """Microseconds of a whole launch, and its prediction's factor."""
    result = simulate(trace, spec, code=trace if trace.launch.blocks < spec.sm_count else (), sample=True)
    return result.time_us, result.interval.high_us / result.time_us


def _results_needed(made: UserCase, spec: GpuSpec) -> int:
    """How many launches have to leave their results for those behind them; all of a generator's."""
    if isinstance(made.launches, GeneratedLaunches):
        return 1 << 62
    return launches_run_whole(made.launches, spec) if len(made.launches) > 1 else 0


def _part_us(launch: CaseLaunch, spec: GpuSpec, captured: Capture, most_instructions: float = math.inf) -> float | None:
    """Microseconds of a launch by a part of its grid on some SMs; None where no part of ``most_instructions`` stands
    for all: a launch with a grid that its language makes, a small one, one whose blocks share out a fixed amount of
    work (fewer of them do more each), and one of which a part cannot run (blocks that wait for others)."""
    grid = (launch.grid,) if isinstance(launch.grid, int) else launch.grid
    if not isinstance(grid, tuple) or math.prod(grid) < 2 * spec.sm_count:
        return None
    axis = max(range(len(grid)), key=lambda i: grid[i])

    def part(along: int) -> Trace:
        return captured(launch, tuple(along if i == axis else n for i, n in enumerate(grid)))

    try:
        few = min(MOST_PROBED, max(1, grid[axis] // spec.sm_count))
        some, half = part(few), part(max(1, few // 2))
        a_block = _instructions(some)
        if few > 1 and _instructions(half) > _SHARED_OUT * a_block:
            return None
        share = PART_INSTRUCTIONS / max(1.0, a_block * math.prod(grid))
        found = part_for(grid[axis], math.prod(grid), spec.sm_count, share)
        if found is None:
            return None
        along, sms = found
        if a_block * along * math.prod(grid) / grid[axis] > most_instructions:
            return None
        took = simulate(part(along), cut_down(spec, sms), sample=True).time_us
    except GpusimError:  # the launch itself may do what a part of it cannot
        return None
    fixed = 1e6 * (spec.launch.start_cycles + spec.launch.end_cycles) / spec.clock_hz
    return fixed + (took - fixed) * (grid[axis] / along) * (sms / spec.sm_count)


def part_for(extent: int, blocks: int, sm_count: int, share: float) -> tuple[int, int] | None:
    """(how far along an axis of ``extent`` blocks, how many SMs) a part of at least ``share`` of ``blocks`` goes that
    gives each of its SMs as many blocks as all SMs get, the busiest one too; None where none does, or half of the SMs
    are not enough."""
    least = max(LEAST_SMS, math.ceil(share * sm_count))
    each, beside = blocks / sm_count, blocks // extent
    found = None
    for sms in range(least, min(sm_count // 2, MOST_LARGER * least) + 1):
        along = round(extent * sms / sm_count)
        given = along * beside / sms
        if along < 2 or (each <= MANY_BLOCKS and math.ceil(given) != math.ceil(each)):
            continue
        off = abs(given / each - 1)
        if found is None or off < found[0] - 1e-3:  # a larger part only for what counts
            found = off, along, sms
    return found and found[1:]


def _instructions(trace: Trace) -> float:
    """Warp instructions a block."""
    return trace.warp_instructions / trace.launch.blocks
