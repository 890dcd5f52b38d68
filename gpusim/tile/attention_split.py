"""How a library shares out the keys of one query token over blocks: a step's keys, blocks an SM, parts of a sequence.

Mental model: where heads and sequences are fewer than places on the GPU, each library splits the keys by a rule of its
own, which stands in its source code and goes by SMs, heads and keys alone, so that it holds for GPUs that nobody
measured:

- ``flash2``: FlashAttention 2 (csrc/flash_attn/flash_api.cpp, num_splits_heuristic): one part where four fifths of the
  places are taken (two an SM), else the fewest whose waves are filled to 85 % of the best, of at most 128. A step's
  keys go by the width of a head (flash_fwd_launch_template.h, run_mha_fwd_splitkv_dispatch).
- ``plain``: the same with the blocks that an SM is said to hold and the keys that a step is said to have.
- ``xqa``: TensorRT-LLM's kernels for heads that share keys (decoderXQAImplCommon.h, computeMultiBlockCount): parts of
  128 keys, no more than the root of eight times as many, and no more than eight waves. ``xqa_window``: the same
  number, among which the tiles of a window are shared out, as in Hopper's kernel for caches of 8 bits (H100, one
  key/value head within a window of 128 keys: 9.1 us from 256 to 131,072 keys, learning rows; in 16 bits parts that lie
  before the window have blocks).
- ``mmha``: its masked multi-head attention, a block a head (decoderMaskedMultiheadAttentionLaunch.h): 1,024 threads an
  SM as blocks of 256 to 1,024, which work on 128 to 512 keys of 128 elements at once; parts as far as one block an SM
  comes of it.
- ``flash3``: FlashAttention 3 (attention_tiles.py), whose step's keys go by the width of a head. vLLM asks it for 32
  parts at most where a batch is replayed as a CUDA graph, which is up to 512 sequences
  (flash_attn_max_num_splits_for_cuda_graph, max_cudagraph_capture_size).
- ``segments``: vLLM's attention in Triton (triton_unified_attention.py): 16 parts, however few the keys, up to 128
  blocks, one beyond.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gpusim.tile.attention_tiles import TILES, Met, flash3_parts

_FULL, _NEAR_BEST, _MOST_PARTS = 0.8, 0.85, 128
#: Rows of queries of flash2's block; most elements of a head -> keys of a step.
_FLASH2_ROWS, _FLASH2_COLUMNS = 64, ((64, 256), (128, 128), (1 << 31, 64))
_XQA_KEYS, _XQA_WAVES = 128, 8
#: Rules of TensorRT-LLM's kernels for heads that share keys.
XQA = ("xqa", "xqa_window")
#: Of the SMs a quarter must be taken by blocks of 128 keys for TensorRT-LLM to take xqa (mayHavePerfGain,
#: kEnableMinBlockFactor).
_XQA_LEAST_FACTOR = 4
#: Blocks of 256 threads an SM, keys of 128 elements that one works on at once, of which an eighth in one round of its
#: unrolled loop.
_MMHA_BLOCKS, _MMHA_KEYS, _MMHA_ELEMENTS, _MMHA_UNROLLED = 4, 128, 128, 8


#: NUM_PAR_SOFTMAX_SEGMENTS and MIN_LAUNCH_GRID_SIZE_2D; on a B200 256 sequences of one head take a third of what 128
#: take.
_SEGMENTS, _SEGMENTED_BLOCKS = 16, 128
_MOST_GRAPH_SEQUENCES = 512


@dataclass(frozen=True)
class Split:
    """``columns``: keys of a step; ``blocks_per_sm``; ``parts``: of each sequence's keys; ``first_step``: share of a
    step's time that a sequence of one step takes."""

    columns: int
    blocks_per_sm: int
    parts: int
    first_step: float = 1.0


@dataclass(frozen=True)
class Keys:
    """What the rules go by: ``blocks`` before any split, each of ``keys`` of ``head_dim`` elements of
    ``element_bytes``; a GPU of ``sms``, each with ``shared_bytes`` of shared memory; ``blocks_per_sm`` and ``columns``,
    keys of a step: of the library, where the rule does not say. ``sequences`` of ``kv_heads`` heads; ``all_keys``:
    those before a window as well (0: there is none); ``given_parts``: that the framework asks for (0: none)."""

    blocks: int
    keys: int
    head_dim: int
    element_bytes: float
    sms: int
    shared_bytes: int
    blocks_per_sm: int
    columns: int
    sequences: int = 1
    kv_heads: int = 1
    all_keys: int = 0
    given_parts: int = 0


def takes_xqa(sms: int, sequences: int, kv_heads: int, keys: int) -> bool:
    """Whether TensorRT-LLM expects its kernels for shared heads to be worth while."""
    return sequences * kv_heads * max(1, keys // _XQA_KEYS) * _XQA_LEAST_FACTOR >= sms


def _filling_parts(of: Keys, columns: int) -> int:
    places = of.sms * of.blocks_per_sm
    if of.blocks >= _FULL * places:
        return 1
    most = min(_MOST_PARTS, places, -(-of.keys // columns))
    filled = [of.blocks * parts / places / math.ceil(of.blocks * parts / places) for parts in range(1, most + 1)]
    enough = _NEAR_BEST * max(filled)
    return next(parts for parts, share in enumerate(filled, 1) if share >= enough)


def _flash2(of: Keys) -> Split:
    columns = next(columns for most, columns in _FLASH2_COLUMNS if of.head_dim <= most)
    block_bytes = of.element_bytes * of.head_dim * (_FLASH2_ROWS + 2 * columns)
    fitting = max(1, min(of.blocks_per_sm, int(of.shared_bytes // block_bytes)))
    return Split(columns, fitting, _filling_parts(of, columns))


def _plain(of: Keys) -> Split:
    return Split(of.columns, of.blocks_per_sm, _filling_parts(of, of.columns))


def _xqa(of: Keys) -> Split:
    parts = of.keys // _XQA_KEYS
    parts = max(1, min(parts, round(math.sqrt(8.0 * parts))))
    waves = of.blocks * parts / of.sms / _XQA_WAVES
    return Split(of.columns, of.blocks_per_sm, max(1, math.floor(parts / max(1.0, waves))))


def _mmha(of: Keys) -> Split:
    factor = min(-(-of.sms * _MMHA_BLOCKS // of.blocks), _MMHA_BLOCKS)
    factor = 2 if factor == 3 else factor  # blocks have 256, 512 or 1,024 threads
    width = 1 << (of.head_dim - 1).bit_length()
    columns, blocks_per_sm = max(1, _MMHA_KEYS * factor * _MMHA_ELEMENTS // width), _MMHA_BLOCKS // factor
    most = min(-(-(of.keys + 1) // columns), -(-of.sms // of.blocks))
    # Fewer keys than one round has leave threads idle, all more take the whole.
    filled = min(1.0, _MMHA_UNROLLED * of.keys / columns)
    return Split(columns, blocks_per_sm, max(1, min(-(-of.sms * blocks_per_sm // of.blocks), most)), filled)


def asked_parts(given_parts: int, sequences: int) -> int:
    """Parts that a framework asks FlashAttention 3 for: none for more sequences than it has graphs of."""
    return given_parts if sequences <= _MOST_GRAPH_SEQUENCES else 0


def _flash3(of: Keys) -> Split:
    rule = TILES["flash3"]
    assert rule
    all_keys = of.all_keys or of.keys
    # One query needs no causal mask: there is none but for heads whose tile it makes no larger (flash_api.cpp,
    # mha_fwd).
    _, columns = rule(Met(of.head_dim, of.element_bytes, False, of.keys < all_keys, True))
    tiles, met_tiles = -(-all_keys // columns), -(-of.keys // columns)
    query_tiles = of.blocks // (of.sequences * of.kv_heads)
    given = asked_parts(of.given_parts, of.sequences)
    parts = flash3_parts(of.sequences, of.kv_heads, query_tiles, tiles, met_tiles, of.sms, given)
    return Split(columns, of.blocks_per_sm, parts)


def _segments(of: Keys) -> Split:
    return Split(of.columns, of.blocks_per_sm, _SEGMENTS if of.blocks <= _SEGMENTED_BLOCKS else 1)


#: Name in attention.toml -> the rule.
RULES: dict[str, Callable[[Keys], Split]] = {
    "flash2": _flash2,
    "plain": _plain,
    "xqa": _xqa,
    "xqa_window": _xqa,
    "mmha": _mmha,
    "flash3": _flash3,
    "segments": _segments,
}
