"""Figures of latent attention's kernels, by generation.

Mental model: what the description of a GPU does not say of the kernels over latents stands in ``mla.toml``; over a
context, what is another figure than plain attention's. A generation without rows there is worked out from its
description (:mod:`gpusim.tile.mla_described`).
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from gpusim.errors import SpecError
from gpusim.tile.attention_context import ContextLibrary, context_library_of

_FILE = Path(__file__).with_name("mla.toml")
#: Elements of a key that all heads share, of those that are rotated besides, and of a widened head's values.
LATENT, ROTATED = 512, 64


@dataclass(frozen=True)
class MlaLibrary:
    """The figures of ``mla.toml`` for one generation, units in the names; shares are of 1."""

    query_rows: int
    kv_columns: int
    most_parts: int
    launch_ns: float
    start_cycles: float
    step_cycles: float
    pair_factor: float
    rate: float
    block_bytes_per_cycle: float
    head_cycles: float
    combine_cycles: float
    dram_share: float
    l2_rate_share: float
    l2_share: float


@functools.cache
def mla_tables() -> dict[str, Any]:
    """Generation -> its rows of ``mla.toml``."""
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


@functools.cache
def mla_library_of(generation: str, kv_dtype: str = "") -> MlaLibrary:
    """The latent attention kernels of a GPU generation that the table has rows of, with what it says otherwise of a
    cache of ``kv_dtype``. Raises SpecError for any other."""
    table = mla_tables()
    if generation not in table:
        raise SpecError(
            f"no latent attention is known for generation {generation!r}: known are {', '.join(sorted(table))}"
        )
    row = {key: value for key, value in table[generation].items() if not isinstance(value, dict)}
    row |= table[generation].get(f"{kv_dtype}_cache", {})
    expected = {each.name for each in fields(MlaLibrary)}
    if set(row) != expected:
        raise SpecError(f"{_FILE.name}, {generation}: missing or unknown: {', '.join(sorted(set(row) ^ expected))}")
    return MlaLibrary(**row)


@functools.cache
def mla_context_library_of(generation: str, kv_dtype: str = "") -> ContextLibrary:
    """The same of the kernels over a context: plain attention's, but for what ``mla.toml`` says otherwise."""
    own = mla_tables().get(generation, {})
    return replace(context_library_of(generation), **own.get("context", {}) | own.get(f"context_{kv_dtype}_cache", {}))
