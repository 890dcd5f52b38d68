"""One GPU of a machine: its parts, known by what they are.

Mental model: the machine runs parts without knowing what they do. A launch does know: it needs the SM groups, the L2,
the DRAM and the dispatcher of its device, to load a program, warm caches, and read counters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpusim.engine.block_dispatcher import Dispatcher
from gpusim.engine.hbm import HbmPart
from gpusim.engine.l2 import L2Part
from gpusim.engine.sm import SmGroup
from gpusim.engine.warm import warm_machine
from gpusim.gpus.spec import GpuSpec
from gpusim.io.progress import task
from gpusim.model.l2_tags import EMPTY, HELD, STAMP, Tags
from gpusim.model.occupancy import occupancy
from gpusim.trace.record import Trace

#: The buffer of a flush is this many times as large as the L2, so that each set is full of it, and lies where no
#: launch has memory.
_FLUSH_SHARE, _FLUSH_ADDRESS = 1.5, 0x2000_0000_0000
#: Triton's do_bench zeroes an array of int(256e6 // 4) integers (triton/testing.py).
_DO_BENCH_BYTES = 256_000_000


@dataclass(frozen=True)
class Device:
    """The parts of device ``number``, which ``spec`` describes."""

    number: int
    spec: GpuSpec
    groups: list[SmGroup]
    l2: L2Part
    hbm: HbmPart
    dispatcher: Dispatcher

    def warm(self, traces: list[Trace], next_trace: Trace) -> None:
        """Leave the caches as ``traces`` would, with the L1 as large as ``next_trace`` will find it."""
        l1_bytes = occupancy(next_trace.launch, self.spec).l1_bytes
        for trace in traces:
            with task(f"warming the caches with {trace.launch.kernel}"):
                warm_machine(trace, self.spec, self.groups, self.l2, l1_bytes)

    def sweep_data(self) -> None:
        """Empty L1, L2 and what lies behind it, as a kernel that reads much else does; code stays in the instruction
        caches."""
        self.l2.reset()
        self.hbm.reset()
        for group in self.groups:
            group.state.l1[:] = 0

    def flush_data(self) -> None:
        """Leave the L2 full of another buffer's lines that are yet to be written back, as a benchmark does that zeroes
        a buffer larger than the L2 before each repetition; what the launches before left there is gone."""
        self.sweep_data()
        if self.spec.l2.memset_writes_through:
            self._write_through(max(_DO_BENCH_BYTES, int(_FLUSH_SHARE * self.spec.l2.total_bytes)))
        else:
            self.fill_data(_FLUSH_SHARE, 1.0)

    def overwrite_data(self, traces: list[Trace], overwritten_bytes: int) -> None:
        """Leave the L2 as a repeat of ``traces`` finds it behind a write of ``overwritten_bytes``, after which the GPU
        was idle for a while.

        Where a memset writes through (``l2.memset_writes_through``), its lines displace the least recently used ones.
        Elsewhere a line of what the launches touched stays with probability exp(-overwritten / L2's bytes), the others
        have been replaced by lines of which the newest are yet to be written back. Which line stays follows from its
        number, so the state is the same each time. The share is a guess as to its cause: it is what victims drawn at
        random would leave, where chases show the least recently used to go; but NVBench overwrites as many bytes as L2
        holds, and its times fit a quarter to a half of the lines left, on RTX 3080 and RTX 5090
        (docs/validation/external.md).
        """
        self.sweep_data()
        self.warm(traces, traces[0])
        chip = self.spec.l2
        if chip.memset_writes_through:
            self._write_through(overwritten_bytes)
            return
        slots, masks = (array.copy() for array in self.l2.state.tags)
        share = math.exp(-overwritten_bytes / chip.total_bytes)
        stays = np.flatnonzero((slots[HELD] != EMPTY) & (_scattered(slots[HELD]) < share))
        self.flush_data()
        tags: Tags = self.l2.state.tags
        uses = tags.slots[STAMP, stays]  # whose turn it is to go stays as the overwriting lines have it
        tags.slots[:, stays], tags.masks[stays] = slots[:, stays], masks[stays]
        tags.slots[STAMP, stays] = uses

    def fill_data(self, share: float, written: float) -> None:
        """Fill a ``share`` of the L2 with another buffer's lines, of which ``written`` (a share) are yet to be written
        back."""
        count = int(share * self.spec.l2.total_bytes) // self.spec.l2.line_bytes
        self._write_lines(count, np.diff(np.floor(np.arange(count + 1) * written)))

    def _write_through(self, written_bytes: int) -> None:
        """Write so many bytes in a row, each line of which stays clean where as many are dirty as may be: of each run
        through the L2 those that came within ``dirty_share`` are yet to be written back.

        NVBench's launches of 2 to 134 MB behind a memset of L2's size on H100 PCIe, H200 and B200 say so together
        (small ones pay for each line that they displace, large ones for half of L2), and Triton's behind four times
        as much on an H20 (docs/validation/notes/caches.md).
        """
        chip = self.spec.l2
        held, count = chip.total_bytes // chip.line_bytes, written_bytes // chip.line_bytes
        last = np.arange(max(0, count - int(_FLUSH_SHARE * held)), count)
        self._write_lines(len(last), last % held < chip.dirty_share * held)

    def _write_lines(self, count: int, dirty: np.ndarray) -> None:
        """Bring ``count`` lines of another buffer into the L2, of which ``dirty`` (flags, one a line) says whether they
        are yet to be written back."""
        l2 = self.spec.l2
        lines = np.uint64(_FLUSH_ADDRESS) + np.arange(count, dtype=np.uint64) * np.uint64(l2.line_bytes)
        whole = np.full(count, (1 << l2.line_bytes // l2.sector_bytes) - 1, np.uint8)
        self.l2.warm(lines, whole, dirty.astype(np.uint8), np.arange(count) % self.spec.sm_count)

    @property
    def flushed(self) -> float:
        """Share of L2's lines that hold those of another buffer (:meth:`fill_data`). A launch's first blocks write
        these back, its later ones its own."""
        chip, held = self.spec.l2, self.l2.state.tags.slots[HELD]
        first = _FLUSH_ADDRESS // chip.line_bytes
        return np.count_nonzero(
            (held >= first) & (held < first + int(_FLUSH_SHARE * chip.total_bytes) // chip.line_bytes)
        ) / len(held)

    def memory_counters(self) -> dict[str, int]:
        """Cumulative counters of L2 and DRAM."""
        return {**self.l2.counters(), **self.hbm.counters()}

    def stalls(self) -> np.ndarray:
        """Warp-cycles of the running launch, int64[instructions, reasons]."""
        return np.sum([group.state.stalls for group in self.groups], axis=0)


def _scattered(lines: np.ndarray) -> np.ndarray:
    """A number from 0 to 1 for each line number (Knuth's multiplicative hash), float64[n]."""
    return (lines.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(11)) / float(1 << 53)
