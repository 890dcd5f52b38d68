"""The predicted time of one row: captured and simulated, of large launches a part that stands for the whole.

Mental model: six ways, of which the manifest says one for each set.

- ``none``: the whole launch is captured; the engine samples its waves.
- ``sms``: blocks are alike and SMs share little: a GPU of ``s`` SMs, with as much less of L2 and of bandwidths, runs
  ``s / SMs`` of the grid, in as many waves. Where the grid cannot be cut exactly, the time is scaled by what is missing
  (some per cent at most).
- ``depth``: a product sums over a long common dimension: two waves of blocks run twice, to different depths, on the GPU
  or, where that costs too much, on fewer SMs as above; the time is linear in the depth and in the waves. Of few waves
  the last one, which is not full, is run by itself; of less than two all blocks run, or on fewer SMs one full wave.

- ``blocks``: a launch whose path does not depend on data is made of a few blocks that are run, its waves are sampled. A
  large one runs at two sizes, fewer blocks along an axis, and the time is linear in them; so does one that depends on
  data (a histogram), with fewer elements.
- ``kind``: a product by ``depth``, any other launch by ``blocks``.
- ``rounds``: blocks that stay and go from tile to tile run two numbers of tiles each, and the time is linear in them;
  any other launch runs whole.

All begin with the launch's machine code in the instruction caches (but for Nsight Compute's, which empties them) and no
data of theirs in any cache; where the set's cache state is ``flushed``, L2 is full of another buffer's lines that are
yet to be written back; where it is ``overwritten``, a share of the launch's own are left (as many bytes as L2 holds
were written). Where the set's method of measuring is named (:mod:`gpusim.silicon.methods`), the time is what that
reports. ``budget`` bounds the warp instructions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import gpusim
from gpusim.engine.result import LaunchResult, Result, tensor_formats
from gpusim.gpus.clock import at_clock
from gpusim.gpus.cut_down import cut_down
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.launch.memory import DeviceMemory
from gpusim.model.occupancy import Occupancy, occupancy
from gpusim.report.answer import answer
from gpusim.silicon.methods import ALONE, OVERWRITTEN, method_named
from gpusim.trace.record import Trace
from workloads.external.families import FAMILIES
from workloads.external.launches import FLUSH, SuiteLaunch, Timed

from .held_clock import held_clock_hz
from .own_compiler import by_own_compiler
from .suite_launch import run_suite_launch

#: Least SMs of a GPU that is cut down: fewer would leave nothing to share.
LEAST_SMS = 2
#: And of one that runs a stream: with two, one channel of DRAM is left, and reads and writes are sent in larger batches
#: than on the GPU (a step of a lattice on an A10 1.3 % faster).
LEAST_SMS_OF_A_STREAM = 8
#: Waves that are run of a product, and waves up to which its last one counts for itself.
WAVES, FEW_WAVES = 2, 8
#: A flush writes this many times L2's size, by so many blocks an SM of so many threads.
FLUSH_SHARE, FLUSH_BLOCKS, FLUSH_THREADS = 1.5, 4, 512
FLUSHED, WARM = "flushed", "warm"
#: What a set says of its clock where the board's power decides it.
BOARD = "board"
#: The depth of one block, whose instructions are counted first; the two depths that a product is run to: less is not
#: steady yet (with 32 and 64 the vectorised product came out 15 % shorter). A product may cost so many budgets, and
#: needs so many SMs to share what they load.
LEAST_DEPTH, DEPTHS = 32, (128, 384)
DEPTH_BUDGET, LEAST_SMS_OF_A_PRODUCT = 5, 8
#: The smaller of two sizes, of the larger one, which may cost so many budgets; a launch that costs up to so many runs
#: whole.
SMALLER_SIZE, SIZE_BUDGETS, WHOLE_BUDGETS = 1 / 3, 1, 2.5
#: The two sizes of a stream, in what L2 holds: from there on as many lines leave L2 as come. Behind a flush each line
#: that comes sends one back, and the longer launch has found nearly all of what was there before: 1.1 and 1.9 times
#: alike would count a half of it once more (a copy by an H200 16 % too slow).
STREAM_SIZES = (1.1, 1.9)
#: Tiles that blocks which stay take at two sizes, the second says what power the launch takes. Of four tiles 2 and 4
#: instead of 1 and 2 change two rungs on an H100 by 0.3 and 0.0 %.
ROUNDS = (1, 2)
#: And at least so many waves of blocks: within the first, in which all begin at once, time does not go with the blocks.
LEAST_WAVES = (3, 7)


@dataclass(frozen=True)
class Prediction:
    """``time_us`` of the whole launch; ``error_us`` that sampling claims, None where nothing was left out by it;
    ``scaled``: what stands for what, in words; ``tensor``: formats that it multiplies on tensor cores, joined by ``+``;
    the rest is what the model says of the part that ran."""

    time_us: float
    error_us: float | None
    scaled: str
    bound_by: str
    limiter: str
    tensor: str
    roof: str
    roof_percent: float
    stalls: dict[str, float]
    registers: int
    shared_bytes: int
    blocks_per_sm: int
    occupancy_limiter: str
    instructions: int
    simulated_instructions: float


def machine_of(gpu: str, settings: list[str]) -> GpuSpec:
    """The description that a set is predicted on."""
    return override_gpu(load_gpu(gpu), settings)


def predict(
    family: str, values: dict[str, str], spec: GpuSpec, reduce: str, budget: float, checkout: Path | None, cache: str,
    nvrtc: str = "", power: str = "", method: str = "",
) -> Prediction:  # fmt: skip
    """The time of the launch that a row of ``family`` timed, on ``spec``; ``nvrtc``: the package that compiles it, ""
    the installed one; ``power``: "board" for the clock that the board's limit leaves a loop of the launch, "" for the
    described one; ``method``: what measured it, "" where the launch itself is meant."""
    made = _of_the_launch(family, values, spec, reduce, budget, checkout, cache, nvrtc, power, method)
    return (
        replace(made, time_us=made.time_us + method_named(method).besides_us(spec.clock_hz, 1, spec.generation))
        if method
        else made
    )


def _of_the_launch(
    family: str, values: dict[str, str], spec: GpuSpec, reduce: str, budget: float, checkout: Path | None, cache: str,
    nvrtc: str, power: str, method: str,
) -> Prediction:  # fmt: skip
    launch = FAMILIES[family](values, checkout)
    if isinstance(launch, SuiteLaunch):
        return _of_the_suite(launch, spec)
    timed = by_own_compiler(launch, nvrtc, spec)
    runner = _Runner(timed, spec, method)
    if power != BOARD:
        return _made_smaller(runner, reduce, budget, cache)
    by_rounds = reduce == "rounds"
    sms = spec.sm_count if by_rounds else min(LEAST_SMS_OF_A_PRODUCT, spec.sm_count)
    held = held_clock_hz(runner.two_rounds() if by_rounds else runner.some_waves(sms), runner.first, spec, sms)
    made = _made_smaller(_Runner(timed, at_clock(spec, held), method), reduce, budget, cache)
    return replace(made, scaled=f"{made.scaled}, at {held / 1e6:.0f} MHz")


def _made_smaller(runner: _Runner, reduce: str, budget: float, cache: str) -> Prediction:
    """What :func:`predict` says of a kernel's launch, at the clock of its description."""
    timed = runner.timed
    if reduce == "sms":
        return _by_sms(runner, budget)
    if reduce == "rounds":
        return _by_rounds(runner, cache)
    if reduce in ("depth", "kind"):
        runner.warm = cache == WARM and runner.fits_in_l2()
    if reduce == "depth" or (reduce == "kind" and timed.product):
        return _by_depth(runner, budget)
    if reduce in ("blocks", "kind"):
        return _by_blocks(runner, budget, cache, reduce == "kind" and cache == WARM)
    result, last = runner.run_whole(cache)
    return _prediction(runner, result, last.time_us, "the whole launch", _claimed_us(result, last))


def _of_the_suite(launch: SuiteLaunch, spec: GpuSpec) -> Prediction:
    """See :mod:`validation.suite_launch`."""
    trace, result, part = run_suite_launch(launch, spec)
    last = result.launches[-1]
    time_us = 1e6 * last.cycles / result.clock_hz
    return _described(trace, occupancy(trace.launch, spec), result, time_us, part, _claimed_us(result, last))


def _claimed_us(result: Result, last: LaunchResult) -> float | None:
    """The error that sampling claims, if anything was left out."""
    return 1e6 * last.sampling.error_cycles / result.clock_hz if last.sampling else None


class _Runner:
    """Captures and simulates parts of one launch, in one device memory."""

    def __init__(self, timed: Timed, spec: GpuSpec, method: str = "") -> None:
        self.timed, self.spec, self.warm = timed, spec, False
        self.memory = DeviceMemory()
        self.arguments = {None: timed.arguments(None)}
        self.touched_bytes = sum(a.nbytes for a in self.arguments[None] if isinstance(a, np.ndarray))
        least = ROUNDS[0] if timed.rounds else LEAST_DEPTH if timed.depth else None
        self.first = self.capture((timed.cluster, *(1 for _ in timed.grid[1:])), least, sample=timed.rounds is not None)
        # Nsight Compute empties the caches of code, too.
        self.code = () if method and method_named(method).state == ALONE else (self.first,)
        self.instructions_a_block = self.count(self.first) / timed.cluster

    def capture(self, grid: tuple[int, ...], depth: int | None = None, sample: bool = False) -> Trace:
        timed, known = self.timed, self.arguments[None]
        arguments = known if depth is None else _with_depth(timed, known, depth)
        return gpusim.capture(
            timed.kernel, grid, timed.block, arguments, gpu=self.spec, memory=self.memory, sample=sample,
            shared_bytes=timed.shared_bytes,
        )  # fmt: skip

    def run(
        self, grid: tuple[int, ...], depth: int | None = None, spec: GpuSpec | None = None, sample: bool = False
    ) -> Result:
        """The part that ``grid`` and ``depth`` say, on ``spec`` (the GPU itself); behind itself where the launch is
        measured warm."""
        trace = self.capture(grid, depth)
        if self.warm:
            return _last_alone(gpusim.simulate([trace, trace], gpu=spec or self.spec, code=self.code, sample=sample))
        return gpusim.simulate(trace, gpu=spec or self.spec, code=self.code, sample=sample)

    def run_whole(self, cache: str) -> tuple[Result, LaunchResult]:
        """The whole launch, sampled, and what it took behind a flush or without; the result holds the launch alone."""
        return self.run_behind(self.capture(self.timed.grid), cache)

    def run_behind(self, trace: Trace, cache: str) -> tuple[Result, LaunchResult]:
        """A launch, its waves sampled, behind a flush, behind itself where it is measured warm, with L2 overwritten, or
        by itself."""
        before: list[Trace] = []
        options: dict[str, Any] = {}
        if self.warm:
            before = [trace]
        elif cache == OVERWRITTEN:
            options = {"overwritten_bytes": self.spec.l2.total_bytes}
        elif cache == FLUSHED and self.spec.l2.memset_writes_through:
            options = {"flush": True}  # while a launch runs, the model's L2 cleans its oldest line instead
        elif cache == FLUSHED:
            before = [self.flush()]
        result = gpusim.simulate([*before, trace], gpu=self.spec, code=self.code, sample=True, **options)
        return (_last_alone(result) if before else result), result.launches[-1]

    def flush(self) -> Trace:
        """A launch that writes more than L2 holds."""
        buffer = np.zeros((int(FLUSH_SHARE * self.spec.l2.total_bytes) // 16, 4), np.float32)
        blocks, args = FLUSH_BLOCKS * self.spec.sm_count, (buffer, np.int32(len(buffer)))
        return gpusim.capture(FLUSH, (blocks,), (FLUSH_THREADS,), args, gpu=self.spec, memory=self.memory)

    def some_waves(self, sms: int) -> Trace:
        """Some waves of the launch on so many SMs, of a product to some depth."""
        timed, resident = self.timed, self.occupancy().blocks_per_sm * sms
        if timed.product:
            return self.capture(_part(timed.grid, WAVES * resident), min(timed.depth or 0, DEPTHS[1]))
        axis = timed.cut_axis or 0
        along = -(-LEAST_WAVES[1] * resident * timed.grid[axis] // math.prod(timed.grid))
        part = tuple(min(size, along) if i == axis else size for i, size in enumerate(timed.grid))
        return self.capture(part, sample=not timed.depends_on_data)

    def two_rounds(self) -> Trace:
        """Two tiles of each block that stays, or two waves of blocks."""
        timed = self.timed
        if timed.rounds is not None:
            return self.capture(timed.grid, ROUNDS[1], sample=True)
        wave = self.occupancy().blocks_per_sm * self.spec.sm_count // timed.cluster * timed.cluster
        return self.capture((min(timed.grid[0], WAVES * wave), *timed.grid[1:]), sample=True)

    def fits_in_l2(self) -> bool:
        """Whether what a launch reads and writes can stay there for the next one; of a product its factors, since each
        wave reads them again."""
        arrays = [each for each in self.arguments[None] if isinstance(each, np.ndarray)]
        arrays = arrays[:-1] if self.timed.product else arrays
        return sum(each.nbytes for each in arrays) <= self.spec.l2.total_bytes

    def occupancy(self) -> Occupancy:
        return occupancy(replace(self.first.launch, grid=_three(self.timed.grid)), self.spec)

    @staticmethod
    def count(trace: Trace) -> float:
        return float(sum(chunk.warp_instructions for chunk in trace.chunk_list))


def _last_alone(result: Result) -> Result:
    """The last launch of several, as if it were all."""
    last = result.launches[-1]
    return replace(result, cycles=last.cycles, counters=last.counters, stalls=last.stalls, launches=(last,))


def _three(grid: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*grid, 1, 1)[:3]
    return x, y, z


def _with_depth(timed: Timed, known: tuple, depth: int) -> tuple:
    """The same arrays, so that nothing is made twice; numbers of the shorter launch."""
    return tuple(
        old if isinstance(old, np.ndarray) else new for old, new in zip(known, timed.arguments(depth), strict=True)
    )


def _by_sms(runner: _Runner, budget: float) -> Prediction:
    grid, axis, spec = runner.timed.grid, runner.timed.cut_axis, runner.spec
    assert axis is not None, "a grid to cut"
    blocks = math.prod(grid)
    share = budget / (blocks * runner.instructions_a_block)
    if share >= 1:
        result = runner.run(grid)
        return _prediction(runner, result, result.time_us, "the whole launch")
    sms, along = _cut(grid[axis], spec.sm_count, share, LEAST_SMS_OF_A_STREAM if runner.timed.streams else LEAST_SMS)
    part = tuple(along if i == axis else size for i, size in enumerate(grid))
    result = runner.run(part, spec=cut_down(spec, sms))
    missing = (grid[axis] / along) * (sms / spec.sm_count)
    launch = 1e6 * (spec.launch.start_cycles + spec.launch.end_cycles) / spec.clock_hz
    time_us = launch + (result.time_us - launch) * missing
    return _prediction(runner, result, time_us, f"{math.prod(part)} of {blocks} blocks on {sms} of {spec.sm_count} SMs")


def _cut(size: int, sm_count: int, share: float, fewest: int = LEAST_SMS) -> tuple[int, int]:
    """SMs and blocks along the axis, of about ``share`` of both, whose shares are as near each other as can be."""
    most = min(sm_count, max(fewest, int(share * sm_count)))
    least = max(min(fewest, most), most // 2)

    def mismatch(sms: int) -> float:
        along = max(1, round(size * sms / sm_count))
        return abs(along / size / (sms / sm_count) - 1)

    sms = min(range(least, most + 1), key=lambda sms: (round(mismatch(sms), 3), sms))
    if mismatch(sms) > 0.03:  # a short axis: look further up rather than be wrong
        sms = min(range(least, min(sm_count, 3 * most) + 1), key=lambda sms: (round(mismatch(sms), 3), sms))
    return sms, max(1, round(size * sms / sm_count))


def _by_blocks(runner: _Runner, budget: float, cache: str, follows: bool = False) -> Prediction:
    """Whole where that costs no more than some budgets, behind itself if it ``follows`` itself; else a line through two
    sizes, with the end that each has taken off by their difference."""
    timed = runner.timed
    # What a thread does in its first turn of a loop, which is the longer the more there is to do for the same grid.
    turns = timed.depth / timed.depth_step if timed.depth and timed.grid_of is None else 1.0
    whole = math.prod(timed.grid) * runner.instructions_a_block * turns
    held = runner.spec.l2.total_bytes / runner.touched_bytes if timed.streams else 0.0
    resident = runner.occupancy().blocks_per_sm * runner.spec.sm_count
    parts, of, what = _two_sizes(timed, SIZE_BUDGETS * budget / whole, held, resident)
    if not parts or (not timed.depends_on_data and whole <= WHOLE_BUDGETS * budget):
        runner.warm = runner.warm or follows
        result, last = runner.run_behind(runner.capture(timed.grid, sample=not timed.depends_on_data), cache)
        return _prediction(runner, result, last.time_us, "the whole launch", _claimed_us(result, last))
    # What lay in L2 before is sent back little by little, where victims are drawn also behind as much as L2 holds: a
    # stream goes at its own rate from an empty L2.
    swept = bool(held) and cache in (FLUSHED, OVERWRITTEN)
    (small, _, at_small), (large, result, at_large) = (
        (size, *runner.run_behind(runner.capture(grid, depth, not timed.depends_on_data), ALONE if swept else cache))
        for size, grid, depth in parts
    )
    rate = (at_large.time_us - at_small.time_us) / (large - small)
    if swept:
        _, grid, depth = parts[1]
        result, at_large = runner.run_behind(runner.capture(grid, depth, not timed.depends_on_data), cache)
    if held and follows and not runner.warm:
        # Behind itself a stream longer than L2 finds it full of lines that it wrote before, which it sends back as it
        # goes.
        runner.warm = True
        _, grid, depth = parts[1]
        result, at_large = runner.run_behind(runner.capture(grid, depth, not timed.depends_on_data), cache)
    return _prediction(runner, result, at_large.time_us + rate * (of - large), f"{small} and {large} of {of} {what}")


def _by_rounds(runner: _Runner, cache: str) -> Prediction:
    """Whole, or a line through two numbers of tiles of blocks that stay."""
    timed = runner.timed
    if timed.rounds is None or timed.rounds <= ROUNDS[1]:
        result, last = runner.run_behind(runner.capture(timed.grid, sample=True), cache)
        return _prediction(runner, result, last.time_us, "the whole launch", _claimed_us(result, last))
    (_, first), (result, last) = (
        runner.run_behind(runner.capture(timed.grid, rounds, sample=True), cache) for rounds in ROUNDS
    )
    rate = (last.time_us - first.time_us) / (ROUNDS[1] - ROUNDS[0])
    what = f"{ROUNDS[0]} and {ROUNDS[1]} of {timed.rounds} tiles a block"
    return _prediction(runner, result, last.time_us + rate * (timed.rounds - ROUNDS[1]), what)


def _two_sizes(
    timed: Timed, share: float, held: float = 0.0, resident: int = 0
) -> tuple[list[tuple[int, tuple[int, ...], int | None]], int, str]:
    """Size, grid and depth of two launches of up to ``share`` of the work, none where there are no two; the whole size,
    and of what.
    ``held``: share of a stream that L2 holds; the smaller launch is then as much larger that L2 is as it stays, half of
    it yet to be written back.
    ``resident``: blocks of a wave; a launch that is cut in blocks has LEAST_WAVES of them at least."""
    if timed.depends_on_data and timed.depth is not None:
        step, of, what = timed.depth_step, timed.depth, "elements"
    elif timed.cut_axis is not None:
        step, of, what = 1, timed.grid[timed.cut_axis], "blocks along an axis"
    else:
        return [], 1, ""
    large = max(2, int(share * of / step))
    sizes = [step * max(1, round(large * part)) for part in (SMALLER_SIZE, 1)]
    if held:
        sizes = [math.ceil(of * held * part) for part in STREAM_SIZES]
    if timed.grid_of or what != "elements":
        wave = -(-of * resident // math.prod(timed.grid))
        sizes = [max(size, step * -(-waves * wave // step)) for size, waves in zip(sizes, LEAST_WAVES, strict=True)]
    if sizes[1] >= of or sizes[0] == sizes[1]:
        return [], of, what
    if what == "elements":
        return [(size, timed.grid_of(size) if timed.grid_of else timed.grid, size) for size in sizes], of, what
    cut = [tuple(size if i == timed.cut_axis else n for i, n in enumerate(timed.grid)) for size in sizes]
    return [(size, grid, None) for size, grid in zip(sizes, cut, strict=True)], of, what


def _by_depth(runner: _Runner, budget: float) -> Prediction:
    timed, whole = runner.timed, runner.spec
    assert timed.depth is not None, "a depth to cut"
    per_sm, blocks = runner.occupancy().blocks_per_sm, math.prod(timed.grid)
    step = math.lcm(timed.depth_step, LEAST_DEPTH)
    first, second = (min(timed.depth, -(-depth // step) * step) for depth in DEPTHS)
    if first == second:
        result = runner.run(timed.grid)
        return _prediction(runner, result, result.time_us, "the whole launch")
    launch = whole.launch.start_cycles + whole.launch.end_cycles
    depth = timed.depth

    def work_cycles(part: tuple[int, ...], spec: GpuSpec) -> tuple[float, Result]:
        """Cycles of ``part`` to the whole depth, without the launch, and the longer of the two runs."""
        short, long = (runner.run(part, depth, spec=spec) for depth in (first, second))
        of_depth = (long.cycles - short.cycles) / (second - first)
        return long.cycles - launch + of_depth * (depth - second), long

    cost = WAVES * per_sm * whole.sm_count * runner.instructions_a_block * (first + second) / LEAST_DEPTH
    sms = min(whole.sm_count, max(LEAST_SMS_OF_A_PRODUCT, int(whole.sm_count * DEPTH_BUDGET * budget / cost)))
    sms = LEAST_SMS if timed.sms_alike else sms
    few = blocks < WAVES * per_sm * whole.sm_count
    if blocks <= whole.sm_count or (few and sms == whole.sm_count):  # all of them run
        total, long = work_cycles(timed.grid, whole)
        part = f"all blocks, depths {first} and {second} of {depth}"
        return _prediction(runner, long, 1e6 * (launch + total) / whole.clock_hz, part)
    spec = cut_down(whole, sms)
    # Waves that are run are full: where there are not so many, the blocks of a part of one would count as one.
    full = 1 if few else WAVES

    def wave_cycles(resident: int, waves: int) -> tuple[float, Result]:
        """Cycles of a wave to the whole depth, of ``resident`` blocks an SM, and the longer of the two runs."""
        part = _part(timed.grid, waves * resident * sms)
        cycles, long = work_cycles(part, spec)
        return cycles / (math.prod(part) / (resident * sms)), long

    cycles, long = wave_cycles(per_sm, full)
    waves = blocks / (per_sm * whole.sm_count)
    if waves > FEW_WAVES:
        total = waves * cycles
    else:  # the last wave is not full: its blocks have the SMs to themselves
        last = blocks - int(waves) * per_sm * whole.sm_count
        resident = -(-last // whole.sm_count)
        tail = 0.0 if not last else cycles if resident == per_sm else wave_cycles(resident, 1)[0]
        total = int(waves) * cycles + tail
    part = f"{full} {'wave' if full == 1 else 'waves'} on {sms} of {whole.sm_count} SMs, depths {first} and {second} of {timed.depth}"
    return _prediction(runner, long, 1e6 * (launch + total) / whole.clock_hz, part)


def _part(grid: tuple[int, ...], blocks: int) -> tuple[int, ...]:
    """A part of a grid of two axes with ``blocks`` blocks or a few fewer, as near a square as the grid allows."""
    if grid[1] == 1:
        return min(grid[0], blocks), 1
    wide = min(grid[0], max(1, math.isqrt(blocks)))
    candidates = range(wide, min(grid[0], 2 * wide, blocks) + 1)
    wide = min(candidates, key=lambda wide: (blocks % wide + max(0, blocks // wide - grid[1]) * wide, wide))
    return wide, min(grid[1], blocks // wide)


def _prediction(
    runner: _Runner, result: Result, time_us: float, scaled: str, error_us: float | None = None
) -> Prediction:
    return _described(runner.first, runner.occupancy(), result, time_us, scaled, error_us)


def _described(
    first: Trace, held: Occupancy, result: Result, time_us: float, scaled: str, error_us: float | None
) -> Prediction:
    launch: Any = first.launch
    found = answer(result)
    total = max(1, sum(result.stalls.values()))
    return Prediction(
        time_us=time_us,
        error_us=error_us or None,
        scaled=scaled,
        bound_by=found.bound_by,
        limiter=str(found.limiter),
        tensor="+".join(sorted({name for each in result.launches for name in tensor_formats(each)})),
        roof=found.roof,
        roof_percent=found.roof_percent,
        stalls={name: round(100 * cycles / total, 1) for name, cycles in result.stalls.items() if cycles > total / 200},
        registers=launch.registers_per_thread,
        shared_bytes=launch.shared_bytes,
        blocks_per_sm=held.blocks_per_sm,
        occupancy_limiter=held.limiter,
        instructions=len(first.program.instructions),
        simulated_instructions=result.counters["smsp__inst_executed.sum"],
    )
