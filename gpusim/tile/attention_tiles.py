"""Tiles of queries and keys of attention kernels, and into how many parts FlashAttention 3 splits their keys.

Mental model: a library compiles a tile for each width of a head, and chooses by the width and the mask, which its
source says; so these hold for GPUs that nobody measured. Rules, by the name that ``attention.toml`` has for them:

- ``table``: the figures of the table, by width.
- ``flash3``: FlashAttention 3 (hopper/tile_size.h, tile_size_fwd_sm90). A window has tiles of its own, keys in pages
  too, as pages of 64 tokens are smaller than any tile (paged_kv_non_TMA).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

#: Of hopper/heuristics.h, num_splits_heuristic: no split where four fifths of the SMs have a tile, where a sequence has
#: no more than four tiles of keys, or no more than eight and 32 tiles of queries; parts of less than four tiles count
#: 0.85; 0.95 of the best is near enough. hopper/flash_prepare_scheduler.cu: a tenth more steps an SM, and no parts for
#: more than 992 sequences.
_FULL, _FEW_TILES, _SOME_TILES, _SOME_BLOCKS, _SHORT_TILES, _SHORT_WORTH, _NEAR_BEST = 0.8, 4, 8, 32, 4, 0.85, 0.95
_MARGIN, _MOST_SEQUENCES, _MOST_PARTS = 1.1, 992, 128


@dataclass(frozen=True)
class Met:
    """What tiles go by: ``width`` of a head in elements, ``element_bytes`` of keys, whether the mask is ``causal``, a
    ``window`` leaves keys out, and keys lie in ``paged`` memory."""

    width: int
    element_bytes: float
    causal: bool
    window: bool
    paged: bool


def _flash3(met: Met) -> tuple[int, int]:
    if met.element_bytes >= 2:
        if met.width <= 64:
            return 192, 160 if met.window else 128 if met.causal else 160 if met.paged else 192
        if met.width <= 96:
            return 192, 128 if met.window or met.paged else 144
        if met.width <= 128:
            return 128, 128 if met.causal or met.window or met.paged else 176
        if met.width <= 192:
            return 128, 96 if met.window or met.paged else 112
        return 128, 64 if met.window else 80
    if met.width <= 96:
        return 192, 160 if met.width <= 64 else 128
    if met.width <= 128:
        return 128, 160 if met.paged else 224
    if met.width <= 192:
        return 128, 160
    return 128, 64 if met.window else 128


#: Name in attention.toml -> the rule; of "table" the figures there.
TILES: dict[str, Callable[[Met], tuple[int, int]] | None] = {"table": None, "flash3": _flash3}


def flash3_parts(
    batch: int, kv_heads: int, query_tiles: int, key_tiles: int, met_tiles: int, sms: int, given_parts: int = 0
) -> int:
    """Parts that FlashAttention 3 splits each tile of queries' keys into: ``query_tiles`` and ``key_tiles`` of one head
    of a sequence, ``met_tiles`` of keys that a window lets one tile of queries meet. The most is worked out as for one
    sequence, or is what the framework asks for (``given_parts``), and what comes of it as many as give each SM its
    share of all tiles."""
    blocks = kv_heads * query_tiles
    an_sm = math.ceil(batch * query_tiles * key_tiles * _MARGIN * kv_heads / sms)
    if given_parts and batch <= _MOST_SEQUENCES:
        return max(1, min(-(-key_tiles // an_sm), given_parts))
    if batch > _MOST_SEQUENCES or blocks >= _FULL * sms or met_tiles <= _FEW_TILES:
        return 1
    if met_tiles <= _SOME_TILES and blocks >= _SOME_BLOCKS:
        return 1
    most = min(_MOST_PARTS, sms, met_tiles)
    worth = [
        blocks * parts / sms / math.ceil(blocks * parts / sms) * (_SHORT_WORTH if met_tiles // parts < _SHORT_TILES else 1.0)
        for parts in range(1, most + 1)
    ]  # fmt: skip
    parts = next(parts for parts, each in enumerate(worth, 1) if each >= _NEAR_BEST * max(worth))
    return max(1, min(-(-key_tiles // an_sm), parts))
