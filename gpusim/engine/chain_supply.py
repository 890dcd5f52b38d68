"""The dispatcher's view of a chain of grids: the chunks of each, and their blocks as they are served.

Mental model: one arena holds the parts of all grids' traces, whose programs lie one behind the other. So the runs of a
later grid begin so many instructions further on, and its words that warps poll have numbers of their own. Blocks are
joined to whole ones beforehand: a chain is in memory anyhow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpusim.engine.arena import Arena
from gpusim.engine.chain_dispatch import (
    C_FULL,
    C_GRID,
    G_BLOCKS,
    G_CLUSTER,
    G_ENDED,
    G_FIRST,
    G_MOST,
    G_NEXT,
    G_REGISTERS,
    G_SHAPE,
    G_SHARED,
    G_SIDES,
    G_WARPS,
    GRID_TABLE,
    chain_rates,
    chain_state,
    decision_after,
    note_exits,
    serve_until,
    tell_completions,
)
from gpusim.engine.part import Outgoing
from gpusim.engine.supply import L_END, L_FIRST, L_WARPS, Supply
from gpusim.engine.tables import copied
from gpusim.errors import TraceFormatError
from gpusim.gpus.spec import GpuSpec
from gpusim.model.messages import NEVER, TICKS_PER_CYCLE
from gpusim.model.occupancy import Occupancy, block_needs
from gpusim.trace.record import Chunk, Trace

#: Grids of a chain at most, and bytes of their traces, which are all in memory until the last one has ended.
MOST_GRIDS, MOST_BYTES = 256, 1 << 30


@dataclass(frozen=True)
class _Shifted:
    """The chunks of a trace for a program that begins with instruction ``first_instruction`` of the chain's, and whose
    ``words`` that warps poll have the numbers from ``first_word`` on."""

    trace: Trace
    first_instruction: int
    first_word: int
    words: np.ndarray

    def __iter__(self) -> Iterator[Chunk]:
        for chunk in self.trace.chunks():
            runs, signals = chunk.runs.copy(), chunk.signals.copy()
            runs["first"] += np.uint32(self.first_instruction)
            signals["word"] = self.first_word + np.searchsorted(self.words, signals["word"])
            yield replace(chunk, runs=runs, signals=signals)


def words_of(trace: Trace) -> np.ndarray:
    """The numbers of the words that warps of the trace poll, in order."""
    found = [chunk.signals["word"] for chunk in trace.chunks() if len(chunk.signals)]
    return np.unique(np.concatenate(found)) if found else np.zeros(0, np.uint32)


def trace_bytes(trace: Trace) -> int:
    """Bytes of a trace that is in memory."""
    return sum(chunk.nbytes for chunk in trace.chunk_list)


def chain_needs(traces: Sequence[Trace], fits: Sequence[Occupancy], spec: GpuSpec) -> np.ndarray:
    """GRID_TABLE rows of the chain's grids: what a block of each needs."""
    grids = GRID_TABLE.zeros(len(traces))
    for row, trace, fit in zip(grids, traces, fits, strict=True):
        row[G_BLOCKS], row[G_WARPS] = trace.launch.blocks, trace.launch.warps_per_block
        row[G_REGISTERS], row[G_SHARED] = block_needs(trace.launch, spec)
        row[G_MOST], row[G_CLUSTER] = fit.blocks_per_sm, trace.launch.cluster_blocks
        row[G_SHAPE : G_SHAPE + 3], row[G_SIDES : G_SIDES + 3] = trace.launch.cluster, trace.launch.grid
    grids[1:, G_FIRST] = np.cumsum(grids[:-1, G_BLOCKS])
    return grids


class ChainSupply:
    """Serves the blocks of a chain that begins at the machine's cycle ``launch_cycle``. ``carveout_bytes``: shared
    memory of an SM while it runs; ``reach`` as in :class:`Supply`. ``times``: as a dispatcher's ``block_times``, grid
    behind grid."""

    def __init__(
        self, traces: Sequence[Trace], fits: Sequence[Occupancy], spec: GpuSpec, launch_cycle: int, arena: Arena, reach: int
    ) -> None:  # fmt: skip
        self._rates = chain_rates(spec)
        to_sm = self._rates.to_sm
        decision = launch_cycle + max(spec.launch.start_cycles, to_sm) - to_sm
        shared = max(fit.carveout_bytes for fit in fits)
        self._state = chain_state(spec, chain_needs(traces, fits, spec), shared, decision)
        self.blocks, self.times = int(self._state.grids[:, G_BLOCKS].sum()), self._state.times
        self._kernels = [trace.launch.kernel for trace in traces]
        self._supplies, first, words = [], 0, 0
        for trace in traces:
            own = words_of(trace)
            shifted = _Shifted(trace, first, words, own)
            words += len(own)
            self._supplies.append(Supply(replace(trace, chunk_list=shifted, regular=None), arena, reach))
            first += len(trace.program.instructions)

    @property
    def grids(self) -> np.ndarray:
        """GRID_TABLE rows: how far each grid is."""
        return self._state.grids

    @property
    def finished(self) -> int:
        """Blocks that have ended."""
        return int(self._state.grids[:, G_ENDED].sum())

    @property
    def next_block(self) -> int:
        """The block that is served next."""
        return int(self._state.grids[:, G_NEXT].sum())

    def next_tick(self) -> int:
        """When the next block is served, or the SMs are told of a completion; NEVER if neither is in sight."""
        cycle = decision_after(self._rates, self._state)
        return NEVER if cycle == NEVER else cycle * TICKS_PER_CYCLE

    def deliver(self, batch: np.ndarray) -> None:
        """Take what blocks tell."""
        note_exits(self._rates, self._state, batch)

    def advance(self, until_tick: int) -> Outgoing:
        """Serve what comes before ``until_tick``."""
        outgoing: Outgoing = []
        until, state = until_tick // TICKS_PER_CYCLE, self._state
        while decision_after(self._rates, state) < until:
            if count := tell_completions(state, until):
                outgoing.append(copied(state.starts, count))
            grid = int(state.chain[0, C_GRID])
            number = int(state.grids[grid, G_NEXT])
            if number == state.grids[grid, G_BLOCKS]:
                if grid + 1 < len(state.grids):
                    state.chain[0, C_GRID], state.chain[0, C_FULL] = grid + 1, 0
                continue
            supply = self._supplies[grid]
            place = supply.serving(number)
            row = supply.live[place]
            count = serve_until(self._rates, state, int(row[L_FIRST]), int(row[L_END]), int(row[L_WARPS]), until)
            if count < 0:
                raise TraceFormatError(f"{self._kernels[grid]}: the blocks of a cluster do not lie in one chunk")
            if count:
                outgoing.append(copied(state.starts, count))
        return outgoing
