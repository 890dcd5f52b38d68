"""Launches that begin before the one before them has ended (programmatic dependent launch): what they do before
``griddepcontrol.wait``.

Mental model: here a launch has ended before the next one begins, so a wait that is missing changes no result: the
dependent launch finds what the one before has left. On a GPU it may find what was there earlier. So the accesses of
both are laid beside each other: an early one (:mod:`gpusim.sanitizer.grid_accesses`) to what the launch before has
accessed, where one of the two writes, is a hazard. Only the launch directly before in the stream counts, and only if
its code has ``griddepcontrol.launch_dependents``: else it has ended when the next one begins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusim.emulator.faults import place_of
from gpusim.emulator.listeners import Listener
from gpusim.sanitizer.findings import Finding, Findings, block_index, thread_index
from gpusim.sanitizer.grid_accesses import WORD_SHIFT, Accesses, GridAccesses, dependency_code
from gpusim.trace.parts import WholeBlocks
from gpusim.trace.record import Chunk, Launch, Program

_REMEDY = "griddepcontrol.wait (cudaGridDependencySynchronize) has to come before it"
_THREADS = (1 << 32) - 1


@dataclass(frozen=True)
class Primary:
    """What a launch that others may depend on has read and written."""

    program: Program
    launch: Launch
    reads: Accesses
    writes: Accesses


class DependentCheck(Listener):
    """Listens to a launch that depends on ``before``, or that others may depend on."""

    def __init__(self, program: Program, launch: Launch, before: Primary | None = None):
        self.program, self.launch, self._before = program, launch, before
        self._triggers = bool(dependency_code(program)[1].any())
        self._joined, self._accesses = WholeBlocks(), GridAccesses(program, launch)

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to listen to."""
        return self._triggers or self._before is not None

    def chunk_closed(self, chunk: Chunk) -> None:
        for whole in self._joined.add(chunk):
            self._accesses.add(whole, early_only=not self._triggers)

    def primary(self) -> Primary | None:
        """What the next launch may depend on; None for a launch that has ended before that begins."""
        if not self._triggers:
            return None
        return Primary(self.program, self.launch, self._accesses.reads, self._accesses.writes)

    def findings(self) -> list[Finding]:
        """The hazards between this launch and the one before."""
        found, before = Findings(), self._before
        if before is None:
            return []
        reads, writes = self._accesses.early_reads, self._accesses.early_writes
        for early, other, act, did in (
            (reads, before.writes, "Read", "writes"), (writes, before.writes, "Write", "writes"), (writes, before.reads, "Write", "reads"),
        ):  # fmt: skip
            mine, theirs = early.common(other)
            if len(mine):
                self._tell(
                    found,
                    before,
                    early,
                    other,
                    mine,
                    theirs,
                    f"{act} before griddepcontrol.wait of what the launch before {did}",
                )
        return found.listed()

    def _tell(
        self,
        found: Findings,
        before: Primary,
        early: Accesses,
        other: Accesses,
        mine: np.ndarray,
        theirs: np.ndarray,
        what: str,
    ) -> None:
        """One finding for each pair of instructions."""
        pairs = np.column_stack([early.code[mine], other.code[theirs]])
        unique, first, counts = np.unique(pairs, axis=0, return_index=True, return_counts=True)
        for (code, other_code), place, count in zip(unique.tolist(), first.tolist(), counts.tolist(), strict=True):
            block, thread = divmod(int(early.thread[mine[place]]), 1 << 32)
            other_thread = int(other.thread[theirs[place]]) & _THREADS
            address = int(early.words[mine[place]]) << WORD_SHIFT
            finding = Finding(
                "racecheck",
                what,
                count,
                block_index(self.launch, block),
                thread_index(self.launch, thread),
                place_of(self.program, code),
                thread_index(before.launch, other_thread),
                place_of(before.program, other_code),
                f"address 0x{address:x}: {before.launch.kernel} may still run; {_REMEDY}",
            )
            found.add((what, code, other_code), count, lambda finding=finding: finding)
