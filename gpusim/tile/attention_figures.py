"""The figures of attention kernels: a table's row for a generation, a framework, and a cache's width.

Mental model: ``attention.toml`` has a row for each generation; a framework's row, that of a cache of 8 bits, and that
of kernels without a mask say what is another figure than in it.
"""

from __future__ import annotations

import functools
import math
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gpusim.errors import SpecError
from gpusim.tile.attention_split import RULES
from gpusim.tile.attention_tiles import TILES
from gpusim.tile.library import FRAMEWORKS, LIKE

_FILE = Path(__file__).with_name("attention.toml")
#: What the table calls a library's kernels whose blocks have one query head each, where a framework has such beside
#: those for heads that share keys.
EACH_HEAD = "each_head"
#: What it calls what is another figure for these with keys of 8 bits in TensorRT-LLM's engines of 2023 and 2024.
ENGINES_OF_THEN = "each_head_fp8_engines"
#: What the table calls SGLang's Triton kernels (extend_attention.py, decode_attention.py), which wider heads have
#: within a window (Gemma 4's, of 256 elements: its rows say so).
_SGLANG_TRITON, _MOST_FLASH_WIDTH = "triton", 192
#: Of the GPUs whose rows set the table: cycles between a warp's exponentials on one sub-core (16 results a cycle and
#: SM).
EXPONENTIAL_CYCLES = 8


@dataclass(frozen=True)
class AttentionLibrary:
    """The figures of ``attention.toml`` for one generation, units in the names; shares are of 1. ``rule``: how keys are
    shared out (:mod:`gpusim.tile.attention_split`)."""

    rule: str
    query_rows: int
    least_rows: int
    kv_columns: int
    blocks_per_sm: int
    splits_single_heads: int
    most_shared: int
    launch_ns: float
    odd_width_ns: float
    regroup_ns: float
    regroup_head_cycles: float
    start_cycles: float
    start_row_cycles: float
    later_start_share: float
    idle_start_share: float
    clock_mhz: float
    step_cycles: float
    step_row_cycles: float
    block_bytes_per_cycle: float
    head_cycles: float
    combine_cycles: float
    combine_rows: float
    combine_part_cycles: float
    combine_rest_cycles: float
    given_parts: int
    sequence_ns: float
    given_sequence_ns: float
    given_head_cycles: float
    window_start_cycles: float
    window_page_keys: int
    window_early_keys: int
    dram_share: float
    l2_rate_share: float
    l2_share: float
    missed_ns: float
    overlap_power: float
    value_share: float


#: Elements of a head above which kernels of caches of 8 bits have figures of their own: their tiles' rows of V are
#: transposed on the way.
WIDE_HEAD = 128
#: Most elements of a head -> the row that says what is another figure for it besides ("": none).
_CACHE_ROWS = ((64, "fp8_cache_narrow"), (WIDE_HEAD, ""), (192, "fp8_cache_192"))
#: The same whichever cache: of widths that a framework has other kernels for.
_WIDTH_ROWS = ((64, "heads_64"), (WIDE_HEAD, ""), (192, "heads_192"), (256, "heads_256"), (math.inf, "heads_512"))


def cache_rows(element_bytes: float, head_dim: int, query_bytes: float = 2.0) -> tuple[str, ...]:
    """The rows of ``attention.toml`` that say what is another figure for a cache of elements of so many bytes, for
    queries of ``query_bytes`` and for heads of ``head_dim``, in order."""
    rows = []
    if element_bytes < 2:
        own = next((name for most, name in _CACHE_ROWS if head_dim <= most), "")
        rows += ["fp8_cache", "fp8_cache_wide" if head_dim > WIDE_HEAD else "", own]
        rows += ["fp8_queries" if query_bytes < 2 else ""]
    width_row = next(name for most, name in _WIDTH_ROWS if head_dim <= most)
    rows += [width_row, f"{width_row}_fp8_cache" if width_row and element_bytes < 2 else ""]
    return tuple(row for row in rows if row)


def kernel_rows(rows: tuple[str, ...], framework: str, window: int, head_dim: int) -> tuple[str, ...]:
    """``rows``, then those of the kernel that ``framework`` has in place of its usual one for heads of ``head_dim``
    within a ``window``, if any."""
    wide = framework == "sglang" and window and head_dim > _MOST_FLASH_WIDTH
    return (*rows, _SGLANG_TRITON) if wide else rows


def each_head_rows(rows: tuple[str, ...]) -> tuple[str, ...]:
    """``rows``, then those of kernels whose blocks have one query head each, and of these what is another figure for
    what ``rows`` name."""
    return (*rows, EACH_HEAD, *(f"{EACH_HEAD}_{row}" for row in rows))


def odd_width(head_dim: int) -> bool:
    """Whether a head's elements are no power of two."""
    return head_dim & (head_dim - 1) != 0


def framework_known(framework: str) -> str:
    """``framework``. Raises SpecError where nothing is known of its kernels."""
    if framework not in FRAMEWORKS:
        raise SpecError(f"an attention's framework is {framework!r}: known are {', '.join(FRAMEWORKS)}")
    return framework


@functools.cache
def attention_generations() -> tuple[str, ...]:
    """Generations whose rows set figures."""
    return tuple(tomllib.loads(_FILE.read_text(encoding="utf-8")))


def _figures(row: dict[str, Any]) -> dict[str, Any]:
    """Those of a row itself, without the rows below it."""
    return {key: value for key, value in row.items() if not isinstance(value, dict)}


@functools.cache
def attention_library_of(
    generation: str, framework: str = FRAMEWORKS[0], rows: tuple[str, ...] = ()
) -> AttentionLibrary:
    """The attention kernels of a GPU generation, or of the one that it is taken to be like
    (:data:`gpusim.tile.library.LIKE`), with what the table says otherwise of ``framework``, and of its ``rows``
    (:func:`cache_rows`). Raises SpecError for a generation or a framework of which nothing is known."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    name = generation if generation in table else LIKE.get(generation, "")
    if name not in table:
        raise SpecError(
            f"no attention kernels are known for generation {generation!r}: known are {', '.join(sorted(table))}"
        )
    own = table[name].get(framework_known(framework), {})
    row = _figures(table[name]) | _figures(own)
    for each in rows:
        row |= (table[name] if framework == FRAMEWORKS[0] else own).get(each, {})
    expected = {each.name for each in fields(AttentionLibrary)}
    if set(row) != expected:
        raise SpecError(f"{_FILE.name}, {name}: missing or unknown: {', '.join(sorted(set(row) ^ expected))}")
    if row["rule"] not in RULES:
        raise SpecError(f"{_FILE.name}, {name}.rule is {row['rule']!r}: known are {', '.join(RULES)}")
    for key, value in row.items():
        if key != "rule" and not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
            raise SpecError(f"{_FILE.name}, {name}.{key} is {value!r}, not a number of at least 0")
    return AttentionLibrary(**row)


@dataclass(frozen=True)
class ContextLibrary:
    """The figures of ``attention.toml`` for one generation's context kernels, units in the names; shares are of 1."""

    tiles: str
    splits_keys: int
    blocks_stay: int
    query_rows: int
    narrow_query_rows: int
    wide_query_rows: int
    kv_columns: int
    narrow_kv_columns: int
    wide_kv_columns: int
    blocks_per_sm: int
    packs_heads: int
    launch_ns: float
    start_cycles: float
    clock_mhz: float
    rate: float
    fed_flops_per_cycle: float
    score_cycles: float
    skipped_step_share: float
    masked_step_share: float
    alone_step_share: float
    tail: float
    later_start_share: float
    head_block_start_share: float
    head_block_step_share: float
    combine_cycles: float
    cache_block_ns: float
    kv_passes: float
    head_passes: float
    padding_ns: float
    odd_width_ns: float


@functools.cache
def context_library_of(
    generation: str, causal: bool = True, framework: str = FRAMEWORKS[0], rows: tuple[str, ...] = ()
) -> ContextLibrary:
    """The context kernels, or those without a mask, of a GPU generation, or of the one that it is taken to be like
    (:data:`gpusim.tile.library.LIKE`), with what the table says otherwise of ``framework``, and of its ``rows``
    (:func:`cache_rows`). Raises SpecError for a generation or a framework of which nothing is known."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    name = generation if generation in table else LIKE.get(generation, "")
    if name not in table:
        raise SpecError(
            f"no attention kernels are known for generation {generation!r}: known are {', '.join(sorted(table))}"
        )
    followed = table[name].get("context", {})
    own = followed.get(framework_known(framework), {})
    row = _figures(followed) | _figures(own)
    if not causal:
        row |= table[name].get("encoder", {})
    for each in rows:
        row |= table[name].get(f"context_{each}", {}) if framework == FRAMEWORKS[0] else own.get(each, {})
        row |= {} if causal else table[name].get(f"encoder_{each}", {})
    expected = {each.name for each in fields(ContextLibrary)}
    if set(row) != expected:
        raise SpecError(f"{_FILE.name}, {name}.context: missing or unknown: {', '.join(sorted(set(row) ^ expected))}")
    if row["tiles"] not in TILES:
        raise SpecError(f"{_FILE.name}, {name}.context.tiles is {row['tiles']!r}: known are {', '.join(TILES)}")
    for key, value in row.items():
        if key != "tiles" and not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
            raise SpecError(f"{_FILE.name}, {name}.context.{key} is {value!r}, not a number of at least 0")
    return ContextLibrary(**row)
