"""The port of a GPU to others' memory: loads and stores whose address belongs to a peer leave here, and peers' come in.

Mental model: a request of an SM that is for another device becomes a packet on the link; there it becomes a request to
that device's L2, where its memory's lines are kept, as if an SM more had made it; the answer goes back the same way.
What the link adds to each packet is in its bytes. A window's messages are handled as arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusim.engine.graph import MachineGraph, Node, Route, machine_graph, part_name
from gpusim.engine.inbox import Inbox
from gpusim.engine.part import Outgoing
from gpusim.engine.peer_memory import Windows, owners
from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.model.crossbar import request_latency_ticks, response_latency_ticks
from gpusim.model.link import LinkSpec
from gpusim.model.messages import ATOMIC, PACKET, READ, REQUEST, RESPONSE, TICKS_PER_CYCLE

#: Links carry data in pieces of a sector.
_SECTOR_BYTES = 32
_SECTORS = np.array([bin(mask).count("1") for mask in range(256)], np.int64)


@dataclass(frozen=True)
class PeerPortSpec:
    """``gpu``; ``windows``: addresses that are other devices' memory; ``latency_ns``: from the crossbar to the link;
    ``packet_overhead_bytes``: that a packet takes beside its data."""

    gpu: GpuSpec
    windows: Windows
    latency_ns: float
    packet_overhead_bytes: int

    def __post_init__(self) -> None:
        for begin, end, owner in self.windows:
            if not 0 <= begin < end <= 1 << 64 or begin % 128 or end % 128 or owner < 0:
                raise SpecError(
                    f"addresses {begin:#x} to {end:#x} of device {owner}: whole lines of 128 bytes, the end behind the begin"
                )


class PeerPort:
    """Takes REQUEST of its SMs and RESPONSE of its L2 (those that are its business) and PACKET; sends REQUEST to its
    L2, RESPONSE to its SMs, PACKET to the link."""

    def __init__(self, spec: PeerPortSpec, device: int) -> None:
        self.name, self.device, self._spec = part_name(device, "peer_port"), device, spec
        self._out = max(1, round(spec.latency_ns * spec.gpu.clock_hz / 1e9 * TICKS_PER_CYCLE))
        self._to_l2, self._to_sm = request_latency_ticks(spec.gpu), response_latency_ticks(spec.gpu)
        self._own_sm = spec.gpu.sm_count  # in the L2's eyes
        self.last_tick = 0
        self._requests = Inbox(REQUEST, (("sm", 12), ("sequence", 20)))
        self._responses = Inbox(PACKET, (("tag", 31),))
        self._packets = Inbox(PACKET, (("source", 15), ("sequence", 31)))
        self._sent, self._asked = 0, 0
        #: what this device's SMs have sent to others and been answered, with what packets take beside their data
        self.carried_bytes = 0
        #: Requests of peers that the L2 has, in the order of the tags that it has them under (``handle``): running
        #: numbers, so that no window shows in them.
        self._pending = np.zeros(0, PACKET)

    @property
    def minimum_latency_ticks(self) -> int:
        """Least latency of any message that this part sends."""
        return min(self._out, self._to_l2, self._to_sm)

    def deliver(self, batch: np.ndarray) -> None:
        """Take what is for other devices, and what other devices are answered."""
        if batch.dtype == REQUEST:
            self._requests.add(batch[owners(batch["line"], self._spec.windows) >= 0])
        elif batch.dtype == RESPONSE:
            own = batch[batch["sm"] == self._own_sm]
            rows = np.zeros(len(own), PACKET)
            for name in ("time", "tag", "sectors"):
                rows[name] = own[name]
            self._responses.add(rows)
        else:
            self._packets.add(batch)

    def next_tick(self) -> int:
        """Earliest tick with something to pass on; NEVER when there is none."""
        return min(self._requests.next_tick(), self._responses.next_tick(), self._packets.next_tick())

    def advance(self, until_tick: int) -> Outgoing:
        """Pass on all that has come strictly before ``until_tick``."""
        if self.next_tick() >= until_tick:
            return []
        requests, responses, packets = (
            _taken(inbox, until_tick) for inbox in (self._requests, self._responses, self._packets)
        )
        self.last_tick = max(int(each["time"].max()) for each in (requests, responses, packets) if len(each))
        answers = packets["answer"] == 1
        asked = self._ask(packets[~answers])
        # Who asks and who answers shares the way out in the order of time.
        leaving = np.concatenate([self._leaving(requests), self._answered(responses)])
        leaving = leaving[np.argsort(leaving["time"], kind="stable")]
        leaving["sequence"] = (self._sent + np.arange(len(leaving))) % (1 << 31)
        self._sent += len(leaving)
        return [each for each in (asked, self._returned(packets[answers]), leaving) if len(each)]

    def _leaving(self, requests: np.ndarray) -> np.ndarray:
        """Of this device's SMs, to others."""
        packets = np.zeros(len(requests), PACKET)
        for name in ("line", "tag", "sm", "kind", "sectors", "operations"):
            packets[name] = requests[name]
        packets["time"] = requests["time"] + self._out
        packets["source"], packets["device"] = self.device, owners(requests["line"], self._spec.windows)
        packets["written"] = requests["bytes"]
        carried = np.where(
            requests["kind"] == READ, 0, -(-requests["bytes"].astype(np.int64) // _SECTOR_BYTES) * _SECTOR_BYTES
        )
        packets["bytes"] = carried + self._spec.packet_overhead_bytes
        self.carried_bytes += int(packets["bytes"].sum())
        return packets

    def _ask(self, packets: np.ndarray) -> np.ndarray:
        """Of other devices, to the L2."""
        astray = owners(packets["line"], self._spec.windows) >= 0
        if astray.any():
            line, source = int(packets["line"][astray][0]), int(packets["source"][astray][0])
            raise SpecError(
                f"device {source} takes {line:#x} for memory of device {self.device}, to which it is another's"
            )
        tags = (self._asked + np.arange(len(packets))) % (1 << 31)
        packets = packets.copy()
        packets["handle"] = tags
        self._pending = np.concatenate([self._pending, packets])
        requests = np.zeros(len(packets), REQUEST)
        for name in ("line", "kind", "sectors", "operations"):
            requests[name] = packets[name]
        requests["time"] = packets["time"] + self._to_l2
        requests["tag"], requests["sm"], requests["bytes"] = tags, self._own_sm, packets["written"]
        requests["sequence"] = (self._asked + np.arange(len(packets))) % (1 << 20)
        self._asked += len(packets)
        return requests

    def _answered(self, responses: np.ndarray) -> np.ndarray:
        """Of the L2, back to other devices."""
        places = np.searchsorted(self._pending["handle"], responses["tag"])
        packets = self._pending[places]
        self._pending = np.delete(self._pending, places)
        packets["handle"] = 0
        packets["time"] = responses["time"] + self._out
        packets["device"], packets["source"], packets["answer"] = packets["source"], self.device, 1
        data = np.isin(packets["kind"], (READ, ATOMIC))
        packets["sectors"] = responses["sectors"]
        packets["bytes"] = (
            np.where(data, _SECTORS[packets["sectors"]] * _SECTOR_BYTES, 0) + self._spec.packet_overhead_bytes
        )
        return packets

    def _returned(self, packets: np.ndarray) -> np.ndarray:
        """Of other devices, back to the SMs."""
        self.carried_bytes += int(packets["bytes"].sum())
        responses = np.zeros(len(packets), RESPONSE)
        for name in ("tag", "sm", "kind", "sectors"):
            responses[name] = packets[name]
        responses["time"], responses["seen"] = packets["time"] + self._to_sm, 1
        return responses

    def waiting_for(self) -> str:
        """One line: what is under way here; empty if nothing is."""
        coming, unanswered = (
            len(self._requests) + len(self._responses) + len(self._packets),
            len(self._pending),
        )
        return (
            f"{self.name}: {coming} messages not yet passed on, {unanswered} requests of other devices unanswered"
            if coming or unanswered
            else ""
        )


def _taken(inbox: Inbox, until_tick: int) -> np.ndarray:
    if inbox.next_tick() >= until_tick:
        return np.zeros(0, inbox.ordered(0).dtype)
    rows = inbox.ordered(until_tick).copy()
    count = int(np.searchsorted(rows["time"], until_tick))
    inbox.drop(count)
    return rows[:count]


def peer_graph(
    specs: list[GpuSpec],
    link: LinkSpec,
    windows: dict[int, Windows],
    port_latency_ns: float,
    packet_overhead_bytes: int,
) -> MachineGraph:
    """GPUs that reach each other's memory over ``link``. ``windows``: by device, the addresses that are others' memory.
    One way takes ``port_latency_ns`` and the link's latency."""
    parts, routes = [Node("link", "link", link, None)], []
    for device, spec in enumerate(specs):
        port = part_name(device, "peer_port")
        own = PeerPortSpec(spec, windows.get(device, ()), port_latency_ns, packet_overhead_bytes)
        for _, _, owner in own.windows:
            if owner == device or owner >= len(specs):
                raise SpecError(
                    f"device {device} has windows onto memory of device {owner}; there are devices 0 to {len(specs) - 1}"
                )
        parts.append(Node(port, "peer_port", own, device))
        sm, l2 = part_name(device, "sm"), part_name(device, "l2")
        out = max(1, round(port_latency_ns * spec.clock_hz / 1e9 * TICKS_PER_CYCLE))
        routes += [
            Route(sm, port, "request", request_latency_ticks(spec)), Route(port, l2, "request", request_latency_ticks(spec)),
            Route(l2, port, "response", response_latency_ticks(spec)), Route(port, sm, "response", response_latency_ticks(spec)),
            Route(port, "link", "packet", out), Route("link", port, "packet", link.latency_ticks),
        ]  # fmt: skip
    return machine_graph(specs).extended(parts, routes)


def windows_of(graph: MachineGraph, device: int) -> Windows:
    """Of a machine's device."""
    return next((node.spec.windows for node in graph.parts if node.kind == "peer_port" and node.device == device), ())
