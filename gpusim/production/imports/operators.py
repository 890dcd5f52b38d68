"""Execution traces of operators: which operators a step has, with the shapes of their inputs, without kernels and
mostly without times.

Mental model: a row a distinct operator, of kind "operator". Operators nest; those that count are the ones with a schema
of their own (what a framework dispatches), each counted once, under the nearest named phase ("## forward ##") above it.
A trace lists parents before or after their children, so that phases are looked up at the end, among the bounded number
of nodes that is kept.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from gpusim.production.file import Production, Source
from gpusim.production.imports.host_calls import phase_name
from gpusim.production.imports.names_seen import Seen, cut
from gpusim.production.launches import OTHER, Collective, Launch, LaunchTotal, kept, summed

MOST_ROWS = 100_000
#: Nodes whose parents are remembered.
MOST_NODES = 1_000_000
#: Rows by their parents; above it, operators count without a phase.
MOST_SUMS = 200_000
_MOST_DEPTH = 256


class Operators:
    """Collects operators of one rank."""

    def __init__(self) -> None:
        self.rows: Seen[Launch] = Seen(Launch(OTHER, "operator"), MOST_ROWS)
        self.nodes = self.damaged = 0
        self.counts: dict[tuple[int, int], LaunchTotal] = {}
        self._phases: Seen[str] = Seen("", 10_000)
        self._parents: dict[int, int] = {}
        self._named: dict[int, int] = {}

    def node(self, number: int, parent: int, name: str) -> None:
        """Any node of the tree."""
        self.nodes += 1
        if len(self._parents) < MOST_NODES:
            self._parents[number] = parent
            if name.startswith("##") or name.startswith(("Optimizer.", "ProfilerStep", "DistributedDataParallel")):
                self._named[number] = self._phases.number(cut(phase_name(name)))

    def operator(self, parent: int, launch: Launch, duration_ns: int | None = None, moved_bytes: int = 0) -> None:
        """One that counts."""
        key = self.rows.number(launch), parent
        total = self.counts.get(key)
        if total is None:
            if len(self.counts) >= MOST_SUMS:
                key = key[0], 0
            total = self.counts.setdefault(key, LaunchTotal(launch))
        total.launch(duration_ns, moved_bytes=moved_bytes)

    def production(self, path: Path, form: str, rank: int, notes: list[str]) -> Production:
        """What has been told, once."""
        rows = []
        for (row, parent), total in self.counts.items():
            what = self.rows.values[row]
            phase = self._phases.values[self._phase(parent)]
            rows.append(_with(total, what, rank, phase))
        launches = sum(total.launches for total in rows)
        if self.rows.left_out:
            notes = [
                *notes,
                f"{self.rows.left_out} operators beyond the first {MOST_ROWS} different ones are counted as {OTHER}",
            ]
        source = Source(path.name, form, path.stat().st_size, self.nodes, launches, self.damaged, rank, notes)
        return Production([source], [], kept(summed(rows)), [])

    def _phase(self, number: int) -> int:
        for _ in range(_MOST_DEPTH):
            if number in self._named:
                return self._named[number]
            above = self._parents.get(number)
            if above is None or above == number:
                break
            number = above
        return 0


def _with(total: LaunchTotal, what: Launch, rank: int, phase: str) -> LaunchTotal:
    total.what = msgspec.structs.replace(what, rank=rank, phase=phase)
    return total


def operator_row(
    name: str, shapes: str, dtypes: str, collective: Collective | None = None, kind: str = "operator"
) -> Launch:
    """The row of an operator."""
    is_kernel = kind != "operator"
    told = "" if is_kernel else cut(name)
    return Launch(
        cut(name),
        "kernel" if is_kernel else "operator",
        operator=told,
        shapes=cut(shapes),
        dtypes=cut(dtypes),
        collective=collective,
    )
