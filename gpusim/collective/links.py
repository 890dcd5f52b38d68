"""What a user says of a machine's links beside what the GPU's file has: bridges, no peer access, nodes, network cards.

Mental model: a GPU's file knows a board; what connects boards is the machine's. A bridge is NVLink between two GPUs;
GPUs without peer access send through the host's memory; a node has so many GPUs, and a network card's share for each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpusim.collective.bridges import BRIDGES, bridge_channels, bridge_of
from gpusim.collective.node import Node, node_of
from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec

#: ``file``: as the GPU's file has them; ``peer``: PCIe, each reaching all others' memory; ``host``: PCIe, through the
#: host's memory; ``bridge``: NVLink between two.
LINKS = ("file", "peer", "host", "bridge")
#: Of NVLink's share of a link's rate, what rings reach over PCIe. With peer access four and six RTX 4090 reach 24.6 to
#: 25.3 GB/s of 32 and eight over two sockets 20.6, which is 1.1 and 0.9. Through the host eight RTX 4090 reach 14.9 of
#: 32 and four V100 7.2 of 16: 0.63 both (traces/library/collectives/published_tests.csv).
_PEER_SHARE, _HOST_SHARE = 1.0, 0.63
#: Of a bridge's rate NCCL reckons with 0.8, as of other NVLinks (gpusim/gpus/make_links.py).
_BRIDGE_RING_SHARE, _BRIDGED_GPUS = 0.8, 2
#: GB/s one way that a GPU's port has for cards, however many there are: 16 lanes of PCIe 3, 4 and 5; of Blackwell 6,
#: which B300's have. One H100 with four cards of 50 reaches 41 to 50 (NVIDIA/nccl-tests, issue 232).
_PORT_GB_PER_S = {"volta": 16.0, "turing": 16.0, "ampere": 32.0, "ada": 32.0, "hopper": 64.0, "blackwell": 128.0}


def linked(
    node: Node,
    links: str = "file",
    link_gb_per_s: float | None = None,
    gpus_per_node: int | None = None,
    network_gb_per_s: float | None = None,
    gpus: int = 2,
    network_latency_us: float | None = None,
) -> Node:
    """``node`` with ``links``, of ``link_gb_per_s`` one way a GPU, ``gpus_per_node`` GPUs, ``network_gb_per_s`` one way
    of all cards of a node and ``network_latency_us`` from node to node, where ``gpus`` work together. Raises SpecError
    for what cannot be."""
    if links == "bridge" and link_gb_per_s is None:
        known = ", ".join(sorted(BRIDGES))
        raise SpecError(f"a bridge needs its rate: --link-gb-per-s, one way (known are those of {known})")
    together = min(gpus, gpus_per_node or node.gpus)
    if links == "bridge" and together > _BRIDGED_GPUS:
        raise SpecError(
            f"a bridge joins 2 GPUs, not {together}: of more the slower link counts, say --links peer or host"
        )
    if links in ("peer", "host") and not node.over_pcie and link_gb_per_s is None:
        raise SpecError(f"{links} is said of PCIe, and this GPU has NVLink: give PCIe's --link-gb-per-s, one way")
    found = node
    if link_gb_per_s is not None:
        scale = 1e9 * link_gb_per_s / node.link_bytes_per_second
        found = replace(
            found,
            link_bytes_per_second=1e9 * link_gb_per_s,
            ring_gb_per_second=node.ring_gb_per_second * scale,
            measured=False,
        )
    if links == "bridge" and link_gb_per_s is not None:
        found = replace(
            found,
            channels=bridge_channels(link_gb_per_s),
            ring_gb_per_second=_BRIDGE_RING_SHARE * link_gb_per_s,
            ring_share=1.0,
            switch_sums=False,
            over_pcie=False,
            peer_access=True,
        )
    if links in ("peer", "host"):
        share = _PEER_SHARE if links == "peer" else _HOST_SHARE
        found = replace(found, ring_share=share, switch_sums=False, over_pcie=True, peer_access=links == "peer")
    if gpus_per_node is not None:
        found = replace(found, gpus=gpus_per_node)
    if network_gb_per_s is not None:
        # Fewer GPUs than a node has do not use its cards.
        card = network_gb_per_s / found.gpus
        rate = node.network_bytes_per_second * card / node.card_gb_per_second
        found = replace(found, network_bytes_per_second=rate, card_gb_per_second=card)
    if network_latency_us is not None:
        found = replace(found, network_latency_us=network_latency_us)
    return found


@dataclass(frozen=True)
class Machine:
    """What a user says of a machine beside its GPUs' file; of what is None the file says."""

    links: str = "file"
    link_gb_per_s: float | None = None
    gpus_per_node: int | None = None
    network_gb_per_s: float | None = None
    network_latency_us: float | None = None

    def node(self, spec: GpuSpec, gpus: int = 2) -> Node:
        """Of GPUs like ``spec``, of which ``gpus`` work together. Raises SpecError for what cannot be."""
        board = node_of(spec)
        network = self.network_gb_per_s
        port = _PORT_GB_PER_S.get(spec.generation)
        if network is not None and port is not None:
            network = min(network, port * (self.gpus_per_node or board.gpus))
        known = bridge_of(spec.name) if self.links == "bridge" and self.link_gb_per_s is None else None
        found = linked(
            board,
            self.links,
            known[1] if known else self.link_gb_per_s,
            self.gpus_per_node,
            network,
            gpus,
            self.network_latency_us,
        )
        return replace(found, channels=bridge_channels(known[1], known[0])) if known else found

    def faster(self, factor: float) -> Machine:
        """With the rates that are said ``factor`` times as high."""
        link, network = (
            None if rate is None else factor * rate for rate in (self.link_gb_per_s, self.network_gb_per_s)
        )
        return replace(self, link_gb_per_s=link, network_gb_per_s=network)

    def said(self) -> dict[str, str | float]:
        """What is said, by option."""
        return {
            name: value
            for name, value in vars(self).items()
            if value is not None and (name, value) != ("links", "file")
        }
