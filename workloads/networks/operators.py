"""From a network's operator to the kernel of the suite that does it, and the shape it is launched with.

Mental model: each function here stands for one operator as a framework would launch it (a matrix product, a
normalisation, an attention) and returns the :class:`NetworkLaunch` of the suite's kernel nearest to what a library
picks: a vector product where there is one row, tensor cores for half precision and bytes. Where the suite's
kernel is not quite the operator, ``note`` says in what it differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

PRECISIONS = ("float16", "float32", "int8", "w4a16")
#: Head sizes that the suite's flash attention has, in each precision of its operands.
FLASH_HEAD_DIMS = {"float16": (32, 64, 128), "float32": (32, 64)}
#: Columns that half-precision (bytes) products move at once: 16 bytes.
GEMM_MULTIPLE, GEMM_BYTES_MULTIPLE = 8, 16
#: Weights of four bits are stored with one scale for so many (AWQ's and GPTQ's usual choice).
WEIGHT_GROUP = 128
#: Sequences are split over blocks in parts of about so many tokens while decoding (as flash-decoding does).
SPLIT_TOKENS = 512


@dataclass(frozen=True)
class NetworkLaunch:
    """``count`` launches of the suite's ``kernel`` with ``shape``, for ``operator`` of ``layer``."""

    layer: str
    operator: str
    kernel: str
    shape: Mapping[str, Any]
    count: int = 1
    note: str = ""

    def times(self, count: int) -> NetworkLaunch:
        """The same launch, ``count`` times as often."""
        return replace(self, count=self.count * count)


def round_up(value: int, multiple: int) -> int:
    """The least multiple of ``multiple`` that is not below ``value``."""
    return -(-value // multiple) * multiple


def activations(precision: str) -> str:
    """Type of the activations: quantised weights are used with half-precision activations between products."""
    return "float32" if precision == "float32" else "float16"


def matmul(
    layer: str, operator: str, m: int, n: int, k: int, precision: str, count: int = 1, note: str = ""
) -> NetworkLaunch:
    """``m`` rows of activations of width ``k`` times weights of ``n`` outputs."""
    launch = _product(layer, operator, m, n, k, precision, count)
    return replace(launch, note="; ".join(filter(None, (note, launch.note))))


def _product(layer: str, operator: str, m: int, n: int, k: int, precision: str, count: int) -> NetworkLaunch:
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, not {precision!r}")
    if m == 1 and precision == "w4a16":
        columns = round_up(k, WEIGHT_GROUP)
        shape = {"rows": n, "columns": columns, "group": WEIGHT_GROUP}
        return NetworkLaunch(layer, operator, "gemv_w4a16", shape, count, _padded("k", k, columns))
    if m == 1 and precision != "int8":
        return NetworkLaunch(layer, operator, "gemv", {"rows": n, "columns": k, "dtype": activations(precision)}, count)
    if precision == "float32":
        return NetworkLaunch(layer, operator, "sgemm_register", {"m": m, "n": n, "k": k}, count)
    if precision == "int8":
        padded = round_up(k, GEMM_BYTES_MULTIPLE)
        shape = {"m": m, "n": n, "k": padded}
        return NetworkLaunch(layer, operator, "igemm_int8", shape, count, _padded("k", k, padded))
    wide, deep = round_up(n, GEMM_MULTIPLE), round_up(k, GEMM_MULTIPLE)
    note = "; ".join(filter(None, (_padded("n", n, wide), _padded("k", k, deep))))
    if precision == "w4a16":
        note = "; ".join(filter(None, (note, "weights unpacked beforehand")))
    return NetworkLaunch(layer, operator, "hgemm_tensor", {"m": m, "n": wide, "k": deep}, count, note)


def _padded(axis: str, value: int, padded: int) -> str:
    return "" if value == padded else f"{axis}={value} padded to {padded}"


def prefill_attention(
    layer: str, batch: int, heads: int, tokens: int, head_dim: int, precision: str, *, causal: bool, note: str = ""
) -> NetworkLaunch:
    """Fused attention over whole sequences, head sizes padded to the next that the kernel has."""
    dtype = activations(precision)
    fitting = [dim for dim in FLASH_HEAD_DIMS[dtype] if dim >= head_dim]
    if not fitting:
        dtype, fitting = "float16", [dim for dim in FLASH_HEAD_DIMS["float16"] if dim >= head_dim]
        note = "; ".join(filter(None, (note, "half precision: the kernel has no such head in float32")))
    if not fitting:
        raise ValueError(f"{layer}: no fused attention of the suite has heads of {head_dim}")
    note = "; ".join(filter(None, (note, _padded("head_dim", head_dim, fitting[0]))))
    shape = {"batch": batch, "heads": heads, "tokens": tokens, "head_dim": fitting[0], "causal": causal, "dtype": dtype}
    return NetworkLaunch(layer, "attention", "flash_attention", shape, 1, note)


def decode_attention(
    layer: str, sequences: int, context: int, heads: int, kv_heads: int, head_dim: int, precision: str, note: str = ""
) -> NetworkLaunch:
    """One new token a sequence against its cache of ``context`` tokens, in pages."""
    padded = 64 if head_dim <= 64 else 128
    splits = max(1, min(16, context // SPLIT_TOKENS))
    shape = {
        "sequences": sequences,
        "context": context,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": padded,
        "splits": splits,
        "dtype": activations(precision),
    }
    note = "; ".join(filter(None, (note, _padded("head_dim", head_dim, padded))))
    return NetworkLaunch(layer, "attention", "paged_attention_decode", shape, 1, note)


def unfused_attention(
    layer: str, groups: int, queries: int, keys: int, key_dim: int, value_dim: int, precision: str, note: str
) -> tuple[NetworkLaunch, ...]:
    """Scores, softmax and weighted values as three kernels: for heads that no fused kernel of the suite takes."""
    return (
        replace(matmul(layer, "scores", queries, keys, key_dim, precision, groups), note=note),
        NetworkLaunch(
            layer,
            "softmax",
            "softmax",
            {"rows": groups * queries, "columns": keys},
            1,
            "; ".join(filter(None, (note, in_float32(precision)))),
        ),
        replace(matmul(layer, "weighted values", queries, value_dim, keys, precision, groups), note=note),
    )


def rmsnorm(layer: str, rows: int, columns: int, precision: str, *, residual: bool = True) -> NetworkLaunch:
    """Root-mean-square normalisation, with the residual added on the way."""
    shape = {"rows": rows, "columns": columns, "residual": residual, "dtype": activations(precision)}
    return NetworkLaunch(layer, "normalisation", "rmsnorm", shape)


def layernorm(layer: str, rows: int, columns: int, precision: str) -> NetworkLaunch:
    """Layer normalisation, in float32 as the suite has it."""
    shape = {"rows": rows, "columns": columns}
    return NetworkLaunch(layer, "normalisation", "layernorm", shape, 1, in_float32(precision))


def in_float32(precision: str) -> str:
    """The note of a kernel that the suite has in float32 only."""
    return "" if precision == "float32" else "in float32: the suite has no other"


def gelu(layer: str, rows: int, columns: int, precision: str, approximation: str) -> NetworkLaunch:
    """The activation of a feed-forward block of ``columns``."""
    shape = {"n": rows * columns, "approximation": approximation, "dtype": activations(precision)}
    return NetworkLaunch(layer, "activation", "gelu", shape)


def embedding(
    layer: str,
    tokens: int,
    vocabulary: int,
    columns: int,
    precision: str,
    *,
    operator: str = "embedding",
    skew: float = 1.0,
) -> NetworkLaunch:
    """Rows of a table; ``skew`` 1: popular ones more often, as words are (Zipf's law)."""
    shape = {
        "tokens": tokens,
        "vocabulary": vocabulary,
        "columns": columns,
        "skew": skew,
        "dtype": activations(precision),
    }
    return NetworkLaunch(layer, operator, "embedding_gather", shape)
