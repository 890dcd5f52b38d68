"""Execution traces replayed on described GPUs and links: when each node begins and ends.

Mental model: SimPy runs each rank's streams; a computation takes its duration, a collective begins when its last member
has come and sends its messages over the cluster's links (:mod:`gpusim.collective.messages`), where others share them.
While both run on one GPU each goes at a share of its speed. Members whose traces are not given are taken to come with
the last one that is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import simpy

from gpusim.collective.figures import Figures, figures_of
from gpusim.collective.messages import Exchange
from gpusim.collective.node import Node as Links
from gpusim.collective.project import Timing, time_of
from gpusim.collective.shape import KINDS, Collective
from gpusim.collective.topology import Topology
from gpusim.errors import ExecutionTraceError, SpecError
from gpusim.execution.interference import Beside, Rates, beside_of, rates_by_figures
from gpusim.execution.meeting import Meeting
from gpusim.execution.rank import Rank
from gpusim.execution.result import Replay
from gpusim.execution.trace import ExecutionTrace, Node
from gpusim.gpus.spec import GpuSpec

#: Groups that ASTRA-sim takes as all ranks.
_ALL = ("", "0")


class Replaying:
    """``traces`` on GPUs like ``spec`` with ``links``. ``groups``: members of groups that the traces do not tell;
    ``ranks``: how many GPUs there are, if more than traces and groups show;
    ``library``: whose all-reduces, "nccl" or "custom"; ``rates``: what computations and collectives take from each
    other (None: :func:`rates_by_figures`); ``alone``: collectives by their formulas, as if links were not shared."""

    def __init__(
        self, spec: GpuSpec, links: Links, traces: Sequence[ExecutionTrace], groups: Mapping[str, tuple[int, ...]], *, ranks: int = 0, library: str = "nccl",
        rates: Rates | None = None, alone: bool = False,
    ) -> None:  # fmt: skip
        self.environment = simpy.Environment()
        self._spec, self._links, self._library, self._alone = spec, links, library, alone
        self._figures: Figures = figures_of(spec.generation)
        self._rates = rates or rates_by_figures(spec)
        self._groups = {name: members for trace in traces for name, members in trace.groups.items()} | dict(groups)
        by_rank = {trace.rank: trace for trace in traces}
        if len(by_rank) < len(traces):
            raise ExecutionTraceError(f"of {len(traces)} traces two are of one rank: {', '.join(trace.source for trace in traces)[:200]}")  # fmt: skip
        named = [max(members) for members in self._groups.values()] + [
            max((node.peer for node in trace.nodes), default=-1) for trace in traces
        ]
        self.gpus = (
            max(ranks, max(by_rank) + 1, *(each + 1 for each in named)) if named else max(ranks, max(by_rank) + 1)
        )
        self.topology = Topology(self.environment, links, self.gpus)
        self._by_rank = by_rank
        self._meetings: dict[tuple, Meeting] = {}
        self._turns: dict[tuple, int] = {}
        self.ranks = {rank: Rank(self, trace) for rank, trace in sorted(by_rank.items())}

    def run(self) -> Replay:
        """To the end. Raises ExecutionTraceError where ranks wait for each other for ever, and for nodes that cannot be
        replayed."""
        for rank in self.ranks.values():
            rank.begin()
        self.environment.run()
        stuck = [(rank, node) for rank in self.ranks.values() for node in rank.waiting()]
        if stuck:
            rank, node = stuck[0]
            raise ExecutionTraceError(
                f"{rank.trace.source}: node {node.id} ({node.name[:60]!r}) of rank {rank.trace.rank} waits for other ranks for ever, and so do {len(stuck) - 1} others: "
                "do all members call it, in one order?"
            )
        happened = {rank: own.happened for rank, own in self.ranks.items()}
        return Replay(
            self._spec.name,
            self.gpus,
            happened,
            {rank: trace for rank, trace in self._by_rank.items()},
            self.topology.fabric.carried_bytes(),
        )

    def speed(self, node: Node, active: Sequence[Beside]) -> tuple[float, float]:
        """Shares of their speeds of a computation and of the collectives beside it."""
        if not active:
            return 1.0, 1.0
        channels = min(sum(each.channels for each in active), self._spec.sm_count - 1)
        together = Beside(channels, sum(each.dram_bytes_per_second for each in active))
        found = self._rates(node, together)
        return max(1e-3, found[0]), max(1e-3, found[1])

    def meet(self, rank: int, node: Node) -> Meeting:
        """The exchange that ``node`` is a part of, which begins with its last member."""
        source = self._by_rank[rank].source
        if node.kind == "collective":
            members = self._members(node, source)
            side = (node.group if node.group not in _ALL else "", members)
        else:
            ends = (rank, node.peer) if node.kind == "send" else (node.peer, rank)
            if node.peer == rank or not 0 <= node.peer < self.gpus:
                raise ExecutionTraceError(f"{source}: node {node.id} ({node.name[:60]!r}) exchanges with rank {node.peer}, of rank {rank}")  # fmt: skip
            members, side = ends, (*ends, node.tag)
        if rank not in members:
            raise ExecutionTraceError(f"{source}: node {node.id} ({node.name[:60]!r}) is a collective of ranks {list(members)[:16]}, rank {rank} is none of them")  # fmt: skip
        turn = self._turns[side, rank] = self._turns.get((side, rank), -1) + 1
        meeting = self._meetings.get((side, turn))
        if meeting is None:
            meeting = self._meeting(node, members, source)
            meeting.begins, meeting.done = self.environment.event(), self.environment.event()
            self._meetings[side, turn] = meeting
        elif (meeting.first.exchange, meeting.first.message_bytes) != (node.exchange, node.message_bytes):
            other = meeting.first
            raise ExecutionTraceError(
                f"{source}: node {node.id} ({node.name[:60]!r}), {node.exchange or node.kind} of {node.message_bytes} bytes, meets node {other.id} ({other.name[:60]!r}) of another rank, "
                f"{other.exchange or other.kind} of {other.message_bytes}"
            )
        meeting.came[rank] = node
        if len(meeting.came) == meeting.expected:
            meeting.last = rank
            self._start(meeting)
            del self._meetings[side, turn]
        return meeting

    def _meeting(self, node: Node, members: tuple[int, ...], source: str) -> Meeting:
        meeting = Meeting(
            self._what(node, members, source), members, sum(each in self._by_rank for each in members), node
        )
        if len(members) > 1:
            # Who has come holds its SMs while it waits for the others.
            timing = self._timing(meeting)
            meeting.moving = beside_of(self._links, self._spec.sm_count, meeting.what, timing)
            meeting.beside = Beside(meeting.moving.channels, 0.0)
        return meeting

    def _members(self, node: Node, source: str) -> tuple[int, ...]:
        members = self._groups.get(node.group)
        if members is None and node.group in _ALL:
            members = tuple(range(self.gpus))
        if members is None:
            raise ExecutionTraceError(f"{source}: node {node.id} ({node.name[:60]!r}) is a collective of group {node.group[:40]!r}, whose members nothing tells: give --groups")  # fmt: skip
        return members

    def _what(self, node: Node, members: tuple[int, ...], source: str) -> Collective:
        kind = node.exchange or "send_recv"
        if kind not in KINDS:
            raise ExecutionTraceError(f"{source}: node {node.id} ({node.name[:60]!r}): {kind} is not projected, known are {', '.join(KINDS)}")  # fmt: skip
        # A group of one exchanges nothing.
        count = max(2, len(members))
        message = node.message_bytes * (count if kind == "all_gather" else 1)
        try:
            return Collective(kind, count, message, library=self._library if kind == "all_reduce" else "nccl")
        except SpecError as error:
            raise ExecutionTraceError(f"{source}: node {node.id} ({node.name[:60]!r}): {error}") from None

    def _start(self, meeting: Meeting) -> None:
        assert meeting.begins is not None
        meeting.began = self.environment.now
        if len(meeting.members) > 1:
            meeting.beside = meeting.moving
            if not self._alone:
                meeting.exchange = Exchange(
                    self.topology, self._spec.generation, self._figures, meeting.what, meeting.members
                )
        self.environment.process(self._carried_out(meeting))
        meeting.begins.succeed()

    def _timing(self, meeting: Meeting) -> Timing:
        return time_of(self._links, self._spec.generation, self._figures, meeting.what)

    def _carried_out(self, meeting: Meeting):
        if len(meeting.members) < 2:
            yield self.environment.timeout(0.0)
        elif meeting.exchange is not None:
            yield meeting.exchange.done
        else:
            left = self._timing(meeting).seconds
            present = [self.ranks[rank] for rank in meeting.members if rank in self.ranks]
            while left > 1e-15:
                share = min((rank.collective_share for rank in present), default=1.0)
                since = self.environment.now
                changed = simpy.AnyOf(self.environment, [rank.changed for rank in present])
                yield self.environment.timeout(left / share) | changed
                left -= (self.environment.now - since) * share
        assert meeting.done is not None
        meeting.done.succeed()


def replayed(
    spec: GpuSpec, links: Links, traces: Sequence[ExecutionTrace], groups: Mapping[str, tuple[int, ...]], **options
) -> Replay:
    """As :class:`Replaying` says."""
    return Replaying(spec, links, traces, groups, **options).run()
