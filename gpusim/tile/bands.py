"""How sure a projected time is: the errors of rows that set nothing, by region of shape.

Mental model: a projection errs by a factor. ``gemm_errors.json`` (written by ``tools/tile_gemm.py --record``) keeps, of
each generation and range of rows, the factor that holds four of five shapes of a network that was not measured, from
the half that set nothing. A generation without measurements takes another's figures: its factor is the widest of GPUs
that were measured, each with what others' rows say (in products and attention by their descriptions,
:mod:`gpusim.tile.described` and :mod:`gpusim.tile.described_attention`; elsewhere by another generation's figures;
``other_figures_errors.json``, written by ``tools/other_figures.py --record``), and says so. Products in FP32 and TF32
have the factor that holds four of five square products of the next GPU (``square_errors.json``, written by
``tools/square_products.py --record``): what is left out there is a GPU, as what sets the factors is one row of sizes on
each of many.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

_FILE = Path(__file__).with_name("gemm_errors.json")
_ATTENTION_FILE = Path(__file__).with_name("attention_errors.json")
_OPERATORS_FILE = Path(__file__).with_name("operator_errors.json")
_SQUARE_FILE = Path(__file__).with_name("square_errors.json")
_OTHER_FIGURES_FILE = Path(__file__).with_name("other_figures_errors.json")
LEVEL_PERCENT = 80
#: The framework whose attention kernels are taken where none is named.
_FOLLOWED = "vllm"
#: Operands of 16 bits.
_SIXTEEN_BITS = ("bf16", "fp16")
#: Regions by the rows of the result: name, most rows.
REGIONS = (("m up to 16", 16), ("17 to 128", 128), ("129 to 512", 512), ("513 to 2,048", 2048), ("above", 1 << 31))
#: Regions of attention by the bytes of all keys and values: name, most bytes.
KV_REGIONS = (
    ("up to 1 MB", 1e6),
    ("1 to 10 MB", 1e7),
    ("10 to 100 MB", 1e8),
    ("100 MB to 1 GB", 1e9),
    ("above 1 GB", math.inf),
)


def region_of(rows: int) -> str:
    """The region of a result of so many rows."""
    return next(name for name, most in REGIONS if rows <= most)


@dataclass(frozen=True)
class Band:
    """``factor``: four of five measurements lie within the projected time over and times it; ``shapes``: of how many
    that is known;
    ``validated``: whether on this very GPU's generation, in this dtype."""

    factor: float
    shapes: int
    validated: bool
    reason: str


@functools.cache
def gemm_band(generation: str, dtype: str, rows: int) -> Band:
    """The band of a product with ``rows`` rows of results."""
    square = _square_band(generation, dtype, region_of(rows))
    if square:
        return square
    table = json.loads(_FILE.read_text(encoding="utf-8"))
    known = table["generations"]
    region = region_of(rows)
    if generation in known and dtype in _SIXTEEN_BITS:
        row = known[generation][region]
        reason = f"{row['shapes']} measured shapes with {region} rows on {known[generation]['gpu']}, none of them used for fitting"
        return Band(row["factor"], row["shapes"], True, reason)
    widest = max(row[region]["factor"] for row in known.values())
    if generation not in known:
        return borrowed_band("gemm", region, widest, f"products of the {generation} generation")
    return Band(
        widest, 0, False, f"not validated: no measured products of {dtype}; the widest of {', '.join(sorted(known))}"
    )


@functools.cache
def _square_bands() -> dict[str, dict[str, Any]]:
    return json.loads(_SQUARE_FILE.read_text(encoding="utf-8"))["dtypes"]


def _square_band(generation: str, dtype: str, region: str) -> Band | None:
    """Of products of ``dtype`` that square ones of owners' GPUs were measured of, as many rows; of other numbers of
    rows their widest factor, which then is not earned. None: no such rows."""
    known = _square_bands().get(dtype)
    if not known:
        return None
    regions = known["regions"]
    row, name = regions.get(region), dtype.upper()
    of_rows = f"more than {REGIONS[-2][1]:,} rows" if region == REGIONS[-1][0] else f"{region} rows"
    if row and generation in known["generations"]:
        reason = f"{row['shapes']} measured square products in {name} of {of_rows} on {row['networks']} GPUs, each of which set no figure"
        return Band(row["factor"], row["shapes"], True, reason)
    widest = max(each["factor"] for each in regions.values())
    what = f"products of the {generation} generation in {name}"
    if generation in known["generations"]:
        what = f"products in {name} of {of_rows}"
    widest = max(widest, borrowed_band("gemm", region, widest, what).factor)
    return Band(
        widest,
        0,
        False,
        f"not validated, outside of what was measured: no measured {what}; no narrower than square products in {name} of other sizes or GPUs, nor than 16-bit products of generations without rows",
    )


@functools.cache
def _other_figures() -> dict[str, dict[str, dict[str, float]]]:
    return json.loads(_OTHER_FIGURES_FILE.read_text(encoding="utf-8"))["operators"]


def borrowed_band(operator: str, region: str, least: float, what: str) -> Band:
    """Of a generation that takes another's figures: no narrower than ``least``; of operators measured on one generation
    alone, what holds four of five of all factors with another's figures; of a region that is none, the widest of
    all."""
    known = _other_figures()
    every = [row["factor"] for regions in known.values() for row in regions.values()]
    rows = known.get(operator, {})
    if rows:
        whose = "generations that were measured are off with each other's figures"
        factor = rows.get(region, {"factor": max(row["factor"] for row in rows.values())})["factor"]
    else:
        whose, factor = (
            "four of five operators and sizes at most are with each other's figures",
            quantiles(every, n=100, method="inclusive")[LEVEL_PERCENT - 1],
        )
    return Band(
        max(least, factor), 0, False, f"not validated, outside of what was measured: no measured {what}; as {whose}"
    )


#: Regions of attention of many query tokens by their number a sequence: name, most.
QUERY_REGIONS = (("up to 64", 64), ("65 to 512", 512), ("513 to 2,048", 2048), ("above 2,048", 1 << 31))


@functools.cache
def _attention_table(phase: str) -> dict[str, dict[str, dict[str, float]]]:
    recorded = json.loads(_ATTENTION_FILE.read_text(encoding="utf-8"))
    return recorded[phase]["generations"] if phase in recorded else {}


def attention_band(
    generation: str, dtype: str, kv_bytes: float, window: bool = False, framework: str = _FOLLOWED
) -> Band:
    """The band of an attention with one query token a sequence that reads ``kv_bytes`` of keys and values; ``window``:
    which leaves keys out."""
    of = " of keys and values" + " in a window" * window
    return _attention_band("generation", generation, dtype, _within(KV_REGIONS, kv_bytes), of, window, framework)


def context_band(
    generation: str,
    dtype: str,
    queries: int,
    window: bool = False,
    framework: str = _FOLLOWED,
    query_dtype: str = _SIXTEEN_BITS[0],
) -> Band:
    """The band of an attention with ``queries`` query tokens a sequence of ``query_dtype`` and a cache of ``dtype``;
    ``window``: which leaves keys out."""
    of = " queries a sequence" + " with a window" * window
    region = _within(QUERY_REGIONS, queries)
    return _attention_band("context", generation, dtype, region, of, window, framework, query_dtype)


def _within(regions: tuple[tuple[str, float], ...], value: float) -> str:
    return next(name for name, most in regions if value <= most)


def attention_kind(
    phase: str, window: bool, framework: str, cache: str = _SIXTEEN_BITS[0], queries: str = _SIXTEEN_BITS[0]
) -> str:
    """What attention_errors.json calls rows of a phase: within a window, with a cache of fp8 and queries of fp8, of a
    framework."""
    fp8 = "_fp8" * (cache == "fp8") + "_queries" * (queries == "fp8")
    return phase + "_window" * window + fp8 + f"_{framework}" * (framework != _FOLLOWED)


def _attention_band(
    phase: str,
    generation: str,
    dtype: str,
    region: str,
    of: str,
    window: bool,
    framework: str,
    query_dtype: str = _SIXTEEN_BITS[0],
) -> Band:
    kind = attention_kind(phase, window, framework, dtype, query_dtype)
    known = _attention_table(kind)
    if region in known.get(generation, {}) and dtype in (*_SIXTEEN_BITS, "fp8"):
        row = known[generation][region]
        reason = f"{int(row['shapes'])} measured shapes, {region}{of}, on {known[generation]['gpu']}, none of them used for fitting"
        return Band(row["factor"], int(row["shapes"]), True, reason)
    # Of a width, a framework or a window without rows of the generation: those of 16 bits, then of the framework that
    # is followed.
    own = generation in known
    nearest = (kind, attention_kind(phase, window, framework), attention_kind(phase, window, _FOLLOWED))
    tables = [table for table in map(_attention_table, nearest) if table]
    known = next((table for table in tables if generation in table), tables[0])
    widest = max(each["factor"] for row in known.values() for each in row.values() if isinstance(each, dict))
    widest = max((row[region]["factor"] for row in known.values() if region in row), default=widest)
    if generation not in known:
        # What a description says is of the followed framework's kernels for 16 bits; of others nothing was compared.
        told = framework == _FOLLOWED and dtype in _SIXTEEN_BITS
        return borrowed_band(phase if told else kind, region, widest, f"attention of the {generation} generation")
    what = f"the {generation} generation with {region}{of}" if own else dtype
    return Band(
        widest, 0, False, f"not validated: no measured attention of {what}; the widest of {', '.join(sorted(known))}"
    )


#: Regions of kernels that only move data by the bytes read and written: name, most.
BYTE_REGIONS = (("up to 1 MB", 1e6), ("1 to 10 MB", 1e7), ("10 to 100 MB", 1e8), ("above 100 MB", math.inf))
#: Formats of experts that were measured, and the frameworks beside the one that is followed (moe.toml).
EXPERTS = (
    "bf16", "bf16_sglang", "bf16_trtllm", "fp8", "fp8_vllm", "fp8_block", "fp8_block_vllm", "fp8_block_trtllm", "int4_wo", "int4_wo_vllm", "mxfp4_wo", "mxfp4_wo_sglang",
    "mxfp4_wo_trtllm",
)  # fmt: skip
#: Regions of the other operators: what they go by, and its ranges.
OPERATOR_REGIONS: Mapping[str, tuple[str, tuple[tuple[str, float], ...]]] = {
    "gemm_fp8": (" rows", REGIONS), "gemm_fp8_block": (" rows", REGIONS), "gemm_nvfp4": (" rows", REGIONS), "gemm_int8": (" rows", REGIONS),
    "gemm_int8_wo": (" rows", REGIONS), "gemm_int8_wo_sglang": (" rows", REGIONS), "gemm_int4_wo": (" rows", REGIONS),
    "gemm_fp8_trtllm": (" rows", REGIONS), "gemm_fp8_vllm": (" rows", REGIONS), "gemm_fp8_block_trtllm": (" rows", REGIONS),
    "gemm_fp8_block_vllm": (" rows", REGIONS), "gemm_nvfp4_trtllm": (" rows", REGIONS),
    "bmm": (" rows", REGIONS), "bmm_fp8": (" rows", REGIONS),
    "mla_generation": (" of latents", KV_REGIONS),
    "mla_generation_fp8": (" of latents", KV_REGIONS),
    "mla_context": (" queries a sequence", QUERY_REGIONS), "mla_context_fp8": (" queries a sequence", QUERY_REGIONS), "encoder": (" queries a sequence", QUERY_REGIONS),
    "quantize": (" moved", BYTE_REGIONS),
    **{f"moe_{kernels}": (" tokens", REGIONS) for kernels in EXPERTS},
} | {
    f"{kind}_{phase}{of}": (" tokens a sequence", QUERY_REGIONS) if phase == "context" else (" of states in FP32", KV_REGIONS)
    for kind in ("conv", "delta") for phase in ("context", "generation") for of in ("", "_sglang", "_trtllm")
}  # fmt: skip
#: Of an operator without any measured rows: a guess, wider than most that are known.
_UNKNOWN_FACTOR = 1.5


@functools.cache
def _operators() -> dict[str, dict[str, dict[str, dict[str, dict[str, float]]]]]:
    return json.loads(_OPERATORS_FILE.read_text(encoding="utf-8"))


def operator_band(kind: str, generation: str, size: float) -> Band:
    """The band of an operator of a ``kind`` of :data:`OPERATOR_REGIONS` and its size as they count it; a guess for any
    other."""
    known = _operators().get(kind, {}).get("generations", {})
    every = [row["factor"] for each in known.values() for row in each.values() if isinstance(row, dict)]
    if not every:  # none, or too few of any region
        return Band(
            _UNKNOWN_FACTOR, 0, False, "not validated: no measured operators of the kind; the interval is a guess"
        )
    of, regions = OPERATOR_REGIONS[kind]
    region = _within(regions, size)
    own = known.get(generation, {}).get(region)
    if own:
        gpu = known[generation]["gpu"]
        reason = f"{int(own['shapes'])} measured shapes, {region}{of}, on {gpu}, none of them used for fitting"
        return Band(own["factor"], int(own["shapes"]), True, reason)
    if generation not in known:
        return borrowed_band(kind, region, max(every), f"{kind} of the {generation} generation")
    reason = f"not validated: none measured of the {generation} generation in {region}{of}; the widest of {', '.join(sorted(known))}"
    return Band(max(every), 0, False, reason)
