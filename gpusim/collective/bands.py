"""How sure a projected collective is: errors of rows that set nothing, by region of message size.

Mental model: as :mod:`gpusim.tile.bands`; ``errors.json`` is written by ``tools/collective_error.py --record``.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from gpusim.collective.node import Node
from gpusim.collective.shape import CUSTOM_MOST_BYTES, Collective
from gpusim.tile.bands import Band

_FILE = Path(__file__).with_name("errors.json")
REGIONS = (
    ("below 64 KiB", 64 << 10),
    ("64 KiB to 1 MiB", 1 << 20),
    ("1 to 16 MiB", 16 << 20),
    ("above 16 MiB", 1 << 62),
)
#: Of links and kinds that nobody measured: a guess.
_UNKNOWN_FACTOR = 1.5
#: Between nodes, below and from the size that large sums begin at: within which four of five rows of the learning half
#: lie that others published (tools/published_collectives.py, with and without --later; their networks are partly
#: guessed, and clouds' latencies are not said: with one that is said small sums are nearer).
_BETWEEN_FACTOR, _LARGE_BETWEEN_FACTOR, _LARGE_BYTES = 1.91, 1.33, 128 << 20
_MEASURED = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")


def region_of(message_bytes: float) -> str:
    """The region that a message of so many bytes lies in."""
    return next(name for name, most in REGIONS if message_bytes < most)


@functools.cache
def _table() -> dict[str, Any]:
    return json.loads(_FILE.read_text(encoding="utf-8"))


def collective_band(generation: str, collective: Collective, node: Node) -> Band:
    """The band of ``collective`` on ``node``."""
    if collective.library == "copied":
        return Band(_UNKNOWN_FACTOR, 0, False, "not validated: kernels of which others' averages alone are known")
    table = _table()["nccl" if collective.message_bytes > CUSTOM_MOST_BYTES else collective.library]
    region = region_of(collective.message_bytes)
    if collective.kind not in _MEASURED:
        return Band(_UNKNOWN_FACTOR, 0, False, f"not validated: no measured {collective.kind}")
    if collective.gpus > collective.in_a_node(node.gpus):
        factor = _LARGE_BETWEEN_FACTOR if collective.message_bytes >= _LARGE_BYTES else _BETWEEN_FACTOR
        return Band(
            factor, 0, False, "not validated: between nodes, as far as published sums lie from what is projected"
        )
    if not node.measured or generation not in table:
        return Band(
            _UNKNOWN_FACTOR, 0, False, f"not validated: no measured collectives over this GPU's links ({generation})"
        )
    row = table[generation][region]
    reason = f"{row['rows']} measured collectives, {region}, on {row['gpu']}, none of them used for fitting"
    return Band(row["factor"], row["rows"], True, reason)
