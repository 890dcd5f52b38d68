"""What is simulated of a launch whose blocks all make the same long loop: which waves, and how many iterations of each.

Mental model: a *wave* is as many blocks as the GPU holds at once. The first wave is simulated with n iterations, from
which the cost of an iteration is read; the second one with half as many, whose start and end say what a wave costs
beside its loop; the last one with a few, and behind it the blocks left over. These have the GPU for themselves for most
of their time, so what an iteration of theirs costs is read where they run alone. All other waves are as the second one.

What a wave finds in L2 of what the wave before it read decides which iterations they make: if a wave's lines stay, the
second wave makes iterations of the first one and finds them; if they do not nearly fit, it makes others and finds none,
as it would. In between it makes the same ones, and the first wave says what it costs to find none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpusim.engine.sampled.footprint import iterations_to_a_line, lines_in_steps, lines_of_an_iteration
from gpusim.gpus.spec import GpuSpec
from gpusim.model.occupancy import occupancy
from gpusim.trace.record import Trace
from gpusim.trace.synthesis import Part, RegularChunks

#: Warp instructions from which on iterations are left out, and about as many as are then simulated.
SAMPLE_INSTRUCTIONS = 75_000_000
#: Warp instructions that take as long to simulate as one line of memory that an access asks for (measured: SGEMM's
#: first rung, whose loads ask for 32).
INSTRUCTIONS_OF_A_LINE = 0.65
#: Iterations below which a loop is simulated whole.
WORTH_ITERATIONS = 16
#: Iterations of the first wave at least, and walks of it from one cache line to the next: one to fill the pipelines,
#: some to compare.
LEAST_ITERATIONS, LEAST_WALKS = 8, 4
#: Walks that a long loop's first wave is given whatever they cost, up to a share of its iterations: of SGEMM's first
#: rung fewer are over before all warps are in their loops.
LONG_WALKS, SHARE_OF_A_LOOP = 10, 8
#: Waves that are simulated at least where waves are left out and no iterations (:mod:`gpusim.engine.sampling`): the L2
#: is to be full, and four to be alike.
WAVES_WITHOUT = 8
#: Iterations of the last wave: none of its loop's cost is read there.
LAST_ITERATIONS = 4
#: A wave's lines stay in L2 for the next one below the first of these shares of its bytes, and are gone above the
#: second.
STAYS, GONE = 0.6, 1.6


@dataclass(frozen=True)
class IterationPlan:
    """What is simulated of ``trace`` on ``spec``, whose loop has ``iterations`` iterations: ``parts``, full waves of
    ``wave`` blocks each and, where ``rest`` is not 0, as many blocks behind them; of ``waves`` full waves ``left_out``
    are not simulated. ``whole`` iterations go from one cache line to the next. ``stays``: whether a wave finds in L2
    what those before it read: 1 yes, 0 no, 0.5 nobody knows."""

    trace: Trace
    spec: GpuSpec
    iterations: int
    whole: int
    wave: int
    waves: int
    rest: int
    parts: tuple[Part, ...]
    stays: float

    @property
    def left_out(self) -> int:
        """Full waves that are not simulated."""
        return self.waves - (len(self.parts) - bool(self.rest))

    @property
    def least_skipped(self) -> int:
        """Iterations left out of the wave that makes most."""
        return self.iterations - self.parts[0].iterations

    def part(self) -> Trace:
        """What is simulated, as a launch of its own."""
        assert self.trace.regular is not None
        launch = replace(self.trace.launch, grid=(sum(part.blocks for part in self.parts), 1, 1))
        chunks = RegularChunks(self.trace.regular, launch.warps_per_block, self.parts)
        return Trace(self.trace.program, launch, chunks)

    def rest_alone(self) -> IterationPlan:
        """The blocks left over as all that is simulated, with as many iterations as the second wave."""
        few, many = self.parts[-1], self.parts[min(1, self.waves - 1)].iterations
        begin = min(few.first_iteration, self.iterations - many)
        part = Part(few.first, few.blocks, many, begin - begin % self.whole)
        return replace(self, wave=self.rest, waves=1, rest=0, parts=(part,))

    def in_front_of_rest(self) -> Trace:
        """The last full wave with the iterations that the blocks left over make alone."""
        assert self.trace.regular is not None
        alone = self.rest_alone().parts[0]
        part = replace(alone, first=alone.first - self.wave, blocks=self.wave)
        launch = replace(self.trace.launch, grid=(self.wave, 1, 1))
        return Trace(self.trace.program, launch, RegularChunks(self.trace.regular, launch.warps_per_block, [part]))


def plan_iterations(
    trace: Trace, spec: GpuSpec, instructions: int = SAMPLE_INSTRUCTIONS, warmed: bool = False
) -> IterationPlan | None:
    """How to leave iterations out of a launch; None where it is not of that kind, or is simulated soon enough without.
    ``warmed``: something ran before it."""
    chunks, regular = trace.chunk_list, trace.regular
    if regular is None or not isinstance(chunks, RegularChunks) or not regular.equally_iterated:
        return None
    if regular.iterations < WORTH_ITERATIONS:
        return None
    blocks, launch = trace.launch.blocks, trace.launch
    wave = min(blocks, occupancy(launch, spec).blocks_per_sm * spec.sm_count)
    waves, rest = divmod(blocks, wave)
    # An iteration that takes no new line is cheap: whole numbers of iterations from one line to the next.
    whole = iterations_to_a_line(regular, launch.allocations)
    iteration = trace.warp_instructions / blocks / regular.iterations
    iteration += INSTRUCTIONS_OF_A_LINE * lines_of_an_iteration(regular, launch.allocations)
    if blocks * iteration * regular.iterations <= instructions:
        return None
    counts = _counts(instructions / (iteration * wave), regular.iterations, whole, waves, rest / wave)
    if 2 * counts[0] > regular.iterations and waves > WAVES_WITHOUT:
        # Small waves: to leave out half of one's iterations is still less work than the whole waves that go without.
        if WAVES_WITHOUT * wave * iteration * regular.iterations > instructions:
            counts = _counts(0.75 * regular.iterations, regular.iterations, whole, waves, rest / wave)
    if 2 * counts[0] > regular.iterations:
        return None
    stays = _stays(trace, spec, wave, waves + bool(rest), counts[0], warmed)
    return IterationPlan(
        trace, spec, regular.iterations, whole, wave, waves, rest,
        _parts(regular.iterations, counts, whole, wave, waves, rest, stays), stays,
    )  # fmt: skip


def _counts(iterations: float, of: int, whole: int, waves: int, rest: float) -> list[int]:
    """Iterations of each part, of about ``iterations`` of a wave in all, of a loop ``of`` so many; ``rest``: blocks
    left over, in waves."""
    last = -(-LAST_ITERATIONS // whole) * whole
    shares = [1.0] + [0.5] * (waves > 1) + [0.5 * rest] * (rest > 0)  # what runs alone included
    most = (iterations - last * (waves > 2)) / sum(shares)
    walks = max(LEAST_WALKS, min(LONG_WALKS, of // (SHARE_OF_A_LOOP * whole)))
    least = max(walks, -(-LEAST_ITERATIONS // whole)) * whole if whole > 1 else max(LEAST_WALKS, LEAST_ITERATIONS)
    first = max(int(most) // whole * whole, least)
    second = max(-(-first // 2 // whole) * whole, last)
    return [first] + [second] * (waves > 1) + [last] * (waves > 2) + [last] * (rest > 0)


def _parts(
    iterations: int, counts: list[int], whole: int, wave: int, waves: int, rest: int, stays: float
) -> tuple[Part, ...]:
    """Where each part begins, in blocks and in iterations."""
    numbers = sorted({0, min(1, waves - 1), waves - 1}) + [waves] * (rest > 0)
    middle = (iterations - counts[0]) // 2
    parts = []
    for i, (number, count) in enumerate(zip(numbers, counts, strict=True)):
        spread = (iterations - count) * i // max(1, len(counts) - 1)
        begin = middle if stays == 1 or (stays == 0.5 and i < 2) else spread
        blocks = rest if number == waves else wave
        parts.append(Part(number * wave, blocks, count, begin - begin % whole))
    return tuple(parts)


def _stays(trace: Trace, spec: GpuSpec, wave: int, waves: int, iterations: int, warmed: bool) -> float:
    """Whether a wave finds in L2 what ones before it read: 1 yes, 0 no or there is nothing to find, 0.5 nobody
    knows."""
    if waves == 1 and not warmed:
        return 0.0
    regular, capacity = trace.regular, spec.l2.total_bytes
    assert regular is not None
    if sum(size for _, size in trace.launch.allocations) < STAYS * capacity:
        return 1.0
    full = trace.launch.blocks // wave
    middle = wave * (full // 2)

    def lines(first: int, count: int) -> np.ndarray:
        return lines_in_steps(regular, np.arange(first, first + wave), count, trace.launch.allocations)

    few, more = lines(middle, 2), lines(middle, 10)
    of_a_wave = (len(few) + (len(more) - len(few)) / 8 * (regular.iterations - 2)) * spec.l2.line_bytes
    if of_a_wave > GONE * capacity:
        return 0.0
    others = {0, middle - wave, middle + wave, wave * (full - 1)} - {middle}
    seen = [lines(first, 10) for first in others if 0 <= first <= trace.launch.blocks - wave]
    return 0.5 if any(np.isin(more, each, assume_unique=True).any() for each in seen) else 0.0
