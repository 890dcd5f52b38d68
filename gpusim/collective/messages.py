"""A collective as messages on a cluster's links, each GPU a process that sends, waits and sends again.

Mental model: the algorithm's steps as the library makes them. A ring passes a part of the message to the next GPU as
soon as that of the GPU before has come; one-shot and two-shot kernels read from all others at once; a switch that sums
takes and gives each byte once. What a kernel does a second is bounded by its channels (the share of the links' rate in
``figures.toml``), what a port carries by its rate: alone, the first bounds, and times are those of
:mod:`gpusim.collective.project`; several collectives, or a collective and copies, share the ports.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from typing import Any

import simpy

from gpusim.collective.between import card_bytes, summed_between
from gpusim.collective.figures import Figures
from gpusim.collective.project import peers_base_us, time_of
from gpusim.collective.shape import Collective
from gpusim.collective.topology import Path, Topology
from gpusim.errors import SpecError

#: Bytes on the wire for each of the message: LL has a flag of 4 bytes beside 4 of data, LL128 one of 8 beside 120
#: (NCCL, src/device/prims_ll.h, prims_ll128.h).
_WIRE = {"LL": 2.0, "LL128": 128.0 / 120.0}
Steps = Generator[simpy.Event, Any, Any]


class Exchange:
    """One collective among ``members`` (GPUs of ``topology``, by rank) that begins now; ``done``: the event of its end.
    ``timing`` says which algorithm was taken. Raises SpecError for members that the cluster has not."""

    def __init__(
        self, topology: Topology, generation: str, figures: Figures, collective: Collective, members: Sequence[int]
    ) -> None:
        if len(set(members)) != collective.gpus or not all(0 <= each < topology.gpus for each in members):
            raise SpecError(
                f"{collective.kind} among {collective.gpus} GPUs of {topology.gpus}: its members are {list(members)[:16]}"
            )
        self._topology, self._fabric, self._figures, self._generation = topology, topology.fabric, figures, generation
        self._environment = topology.fabric.environment
        self._channels: dict[int, int] = {}
        self._slowed: dict[int, float] = {}
        self._rate = 1.0
        self.collective, self.members = collective, tuple(members)
        nodes = {topology.node_of(each) for each in members}
        within = Collective(collective.kind, max(2, min(len(members), topology.node.gpus)), collective.message_bytes, collective.dtype, collective.library)  # fmt: skip
        self.timing = time_of(topology.node, generation, figures, within)
        steps = self._within(collective, self.members) if len(nodes) == 1 else self._between(nodes)
        self.done: simpy.Event = self._environment.process(self._whole(steps))

    def slow(self, gpu: int, share: float) -> None:
        """Of the rate of its channels a member has but this share, from now on: DRAM is shared with what runs
        beside."""
        self._slowed[gpu] = share
        if gpu in self._channels:
            self._fabric.set_rate(self._channels[gpu], self._rate * share)

    def _whole(self, steps: Steps) -> Steps:
        yield from steps
        for link in self._channels.values():
            self._fabric.release(link)
        self._channels = {}

    def _open(self, share: float) -> None:
        """The channels of each member: what its kernel sends and copies a second."""
        self._rate = self._topology.node.link_bytes_per_second * share
        for gpu in self.members:
            if gpu not in self._channels:
                self._channels[gpu] = self._fabric.link(f"channels of gpu{gpu}", self._rate)
            self._fabric.set_rate(self._channels[gpu], self._rate * self._slowed.get(gpu, 1.0))

    def _send(self, path: Path, message_bytes: float, *kernels: int) -> simpy.Event:
        """A message by the kernels of these members."""
        links = tuple(self._channels[gpu] for gpu in kernels) + path.links
        return self._fabric.send(links, message_bytes, path.latency_seconds, (1.0,) * len(kernels) + path.loads)

    def _copy(self, gpu: int, copied_bytes: float) -> simpy.Event:
        """Within a GPU, by its channels."""
        return self._fabric.send((self._channels[gpu],), copied_bytes)

    def _wait(self, microseconds: float) -> simpy.Event:
        return self._environment.timeout(max(0.0, 1e-6 * microseconds))

    def _within(self, collective: Collective, members: Sequence[int]) -> Steps:
        timing, figures = self.timing, self._figures
        if timing.algorithm in ("one-shot", "two-shot"):
            yield from self._custom(timing.algorithm == "two-shot", members)
        elif timing.algorithm == "peers":
            yield from self._peers(members)
        elif timing.algorithm == "NVLS":
            yield from self._in_switch(members)
        else:
            name = timing.protocol.lower()
            self._open(self._topology.node.ring_share * getattr(figures, f"share_{name}"))
            yield self._wait(getattr(figures, f"base_{name}_us"))
            steps = self._chain if timing.algorithm == "tree" or collective.kind == "broadcast" else self._ring
            yield from steps(members, getattr(figures, f"step_{name}_us"), _WIRE.get(timing.protocol, 1.0))

    def _ring(self, members: Sequence[int], step_us: float, wire: float) -> Steps:
        count, message = len(members), self.collective.message_bytes
        steps = (2 if self.collective.kind == "all_reduce" else 1) * (count - 1)
        copied = getattr(self._figures, f"copy_{self.collective.kind}", self._figures.copy_all_gather) * message / count
        overhead_us = step_us - self._topology.node.link_latency_us
        arrived = [[self._environment.event() for _ in range(steps)] for _ in members]

        def rank(place: int) -> Steps:
            path = self._topology.path(members[place], members[(place + 1) % count], wire)
            for step in range(steps):
                yield self._wait(overhead_us)
                copied_own = self._copy(members[place], copied / steps)
                sent = self._send(path, message / count, members[place])
                sent.callbacks.append(_telling(arrived[place][step]))  # type: ignore[union-attr]
                yield copied_own
                yield sent
                yield arrived[place - 1][step]

        yield simpy.AllOf(self._environment, [self._environment.process(rank(place)) for place in range(count)])

    def _chain(self, members: Sequence[int], step_us: float, wire: float) -> Steps:
        """Through all GPUs, pipelined: a flow over all links of the chain at once, up and down for a sum."""
        count, message = len(members), float(self.collective.message_bytes)
        up_and_down = self.collective.kind == "all_reduce"
        yield self._wait((2 if up_and_down else 1) * (count - 1) * step_us - self._topology.node.link_latency_us)
        # A chain's first and last member send and take one message only; as NCCL reckons, the mean counts.
        sent = message * (count - 1) / count if up_and_down else message
        copied = getattr(self._figures, f"copy_{self.collective.kind}", self._figures.copy_all_gather) * message / count
        flows = [self._copy(gpu, copied) for gpu in members]
        for pairs in [list(itertools.pairwise(members))] + (
            [list(itertools.pairwise(members[::-1]))] if up_and_down else []
        ):
            for source, target in pairs:
                flows.append(self._send(self._topology.path(source, target, wire), sent, source))
        yield simpy.AllOf(self._environment, flows)

    def _peers(self, members: Sequence[int]) -> Steps:
        count, message, figures = len(members), self.collective.message_bytes, self._figures
        alone = self.collective.kind == "send_recv"
        part, peers = (message, 1) if alone else (message / count, count - 1)
        self._open(figures.peers_share)
        base_us = peers_base_us(figures, part) + peers * figures.peers_step_us
        yield self._wait(base_us - self._topology.node.link_latency_us)
        flows = [] if alone else [self._copy(gpu, figures.peers_copy * part) for gpu in members]
        pairs = [(members[0], members[1])] if alone else itertools.permutations(members, 2)
        flows += [self._send(self._topology.path(source, target), part, source) for source, target in pairs]
        yield simpy.AllOf(self._environment, flows)

    def _in_switch(self, members: Sequence[int]) -> Steps:
        """Each GPU's part is summed in the switch and given to all: the message passes each port once each way, and the
        part once more."""
        figures, message = self._figures, self.collective.message_bytes
        sent, copied = message * (len(members) + 1) / len(members), figures.switch_copy * message / len(members)
        self._open(figures.switch_share)
        yield self._wait(figures.switch_base_us - self._topology.node.link_latency_us)
        flows = [self._copy(gpu, copied) for gpu in members]
        # What comes is written by the switch: no channel of this GPU sends it.
        flows += [self._send(self._topology.port_out(gpu), sent, gpu) for gpu in members]
        flows += [self._send(self._topology.port_in(gpu), sent) for gpu in members]
        yield simpy.AllOf(self._environment, flows)

    def _custom(self, two: bool, members: Sequence[int]) -> Steps:
        figures, count, message = self._figures, len(members), self.collective.message_bytes
        rounds, part = (2, message / count) if two else (1, float(message))
        share, base_us, peer_us = (
            (figures.two_shot_share, figures.two_shot_us, figures.two_shot_peer_us)
            if two
            else (figures.one_shot_share, figures.one_shot_us, figures.one_shot_peer_us)
        )
        self._open(share)
        latency_us = rounds * self._topology.node.link_latency_us
        yield self._wait(base_us + peer_us * (count - 1) - latency_us)
        for _ in range(rounds):
            # Kernels read: the port of the one that is read from is what a message leaves by, the reader's channels
            # bound it.
            flows = [self._send(self._topology.path(source, reader), part, reader) for source, reader in itertools.permutations(members, 2)]  # fmt: skip
            yield simpy.AllOf(self._environment, flows)

    def _between(self, nodes: set[int]) -> Steps:
        """Within nodes and between them at once, each GPU with those of its place in other nodes."""
        by_node = [[gpu for gpu in self.members if self._topology.node_of(gpu) == node] for node in sorted(nodes)]
        each = len(by_node[0])
        if any(len(own) != each for own in by_node):
            raise SpecError(f"{self.collective.kind}: its members are shared unevenly by nodes, {[len(own) for own in by_node]}: that is not projected")  # fmt: skip
        node, message = self._topology.node, float(self.collective.message_bytes)
        inside = Collective(self.collective.kind, each, self.collective.message_bytes, self.collective.dtype, "nccl") if each > 1 else None  # fmt: skip
        if inside is not None:
            self.timing = time_of(node, self._generation, self._figures, inside)
        within = self.timing.seconds if inside is not None else 0.0
        waits: list[simpy.Event] = []
        exchanged = self.collective.kind in ("alltoall", "send_recv")
        alone = None if exchanged else summed_between(node, self._generation, self._figures, self.collective, each, len(by_node), within)  # fmt: skip
        if alone is not None and alone.protocol == "LL":
            # Latencies count, not what others send.
            yield self._wait(1e6 * alone.seconds)
            return
        if inside is not None:
            waits += [self._environment.process(self._within(inside, own)) for own in by_node]
        if alone is None:
            part = message if self.collective.kind == "send_recv" else message / len(self.members)
            pairs = [(self.members[0], self.members[1])] if self.collective.kind == "send_recv" else itertools.permutations(self.members, 2)  # fmt: skip
            for source, target in pairs:
                if self._topology.node_of(source) != self._topology.node_of(target):
                    path = self._topology.path(source, target)
                    waits.append(self._fabric.send(path.links, part, path.latency_seconds, path.loads))
            yield simpy.AllOf(self._environment, waits)
            return
        sent = card_bytes(self.collective, each, alone.algorithm == "NVLS tree")
        for place, own in enumerate(by_node):
            for rank, gpu in enumerate(own):
                path = self._topology.path(gpu, by_node[(place + 1) % len(by_node)][rank])
                waits.append(self._fabric.send(path.links, sent, 0.0, path.loads))
        yield simpy.AllOf(self._environment, waits)
        yield self._wait(1e6 * (alone.seconds - max(within, sent / node.network_bytes_per_second)))


def _telling(event: simpy.Event) -> Callable[[simpy.Event], object]:
    return lambda _arrival: event.succeed()
