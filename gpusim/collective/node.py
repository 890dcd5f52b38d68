"""The links of a GPU: within its node, and between nodes.

Mental model: a GPU sends at one rate to all others of its node (a switch in between), and at a lower one through its network card to other nodes. Figures are those of
``nodes.toml``.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

from gpusim.gpus.spec import GpuSpec

_FILE = Path(__file__).with_name("nodes.toml")


@dataclass(frozen=True)
class Node:
    """``link_bytes_per_second``: one way, of a GPU; ``channels``: rings that NCCL lays; ``ring_gb_per_second``: what its choice reckons with; ``switch_sums``: NVLS;
    ``link_latency_us``: of a store, one way; ``packet_overhead_bytes``: on the link beside a packet's data."""

    gpus: int
    link_bytes_per_second: float
    channels: int
    ring_gb_per_second: float
    switch_sums: bool
    network_bytes_per_second: float
    network_latency_us: float
    link_latency_us: float
    packet_overhead_bytes: float
    measured: bool


@functools.cache
def _table() -> dict[str, dict]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def node_of(spec: GpuSpec) -> Node:
    """Of the GPU of that name, or of one that inherits it; else that of its generation's cards without NVLink."""
    table = _table()
    name = spec.name.partition("[")[0]
    row = (
        table["gpus"].get(name)
        or table["gpus"]["pcie4" if spec.generation in ("ampere", "turing", "volta") else "pcie5"]
    )
    kind = dict(table["kinds"][row])
    assert set(kind) == {each.name for each in fields(Node)}
    return Node(**kind)
