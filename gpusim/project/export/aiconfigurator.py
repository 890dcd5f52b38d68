"""Performance tables of AIConfigurator (ai-dynamo/aiconfigurator): a model's products, attention, experts and
collectives on one GPU.

Mental model: AIConfigurator interpolates in CSV files ``*_perf.txt`` with a row a shape and its latency in
milliseconds. Columns after its loaders' tests (tests/sdk/database: gemm, context and generation attention, moe, nccl).
Rows here are of the shapes that the model launches, by each way to share it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpusim import __version__
from gpusim.collective.shape import Collective
from gpusim.errors import SpecError
from gpusim.project.attention import kv_heads_of
from gpusim.project.decoder import Decoder
from gpusim.project.export.grid import sizes
from gpusim.project.operator import Shape
from gpusim.project.prices import Prices
from gpusim.tile.operators import AttentionOp, GemmOp, MoeOp

#: What AIConfigurator calls formats (GEMMQuantMode, MoEQuantMode of its sdk) -> :data:`gpusim.tile.formats.FORMATS`;
#: those that a GPU has no products of are left out.
_DTYPES = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "int8_wo": "int8_wo",
    "int4_wo": "int4_wo",
}
_EXPERTS_DTYPES = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "int4_wo": "int4_wo",
    "w4a16_mxfp4": "mxfp4_wo",
}
_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")
_MOST_BYTES = 1 << 30


def tables(
    config: Decoder, prices: Prices, tensor_parallel: Sequence[int], most_tokens: int
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Names of files with their rows; a file of what the model or the GPU does not have is left out."""
    ways = [tp for tp in tensor_parallel if config.heads % tp == 0 and config.feed_forward % tp == 0]
    found = {
        "gemm_perf.txt": _products(config, prices, ways, most_tokens), "context_attention_perf.txt": _attention(config, prices, ways, most_tokens, context=True),
        "generation_attention_perf.txt": _attention(config, prices, ways, most_tokens, context=False), "moe_perf.txt": _experts(config, prices, most_tokens),
        "nccl_perf.txt": _collectives(prices, [tp for tp in ways if tp > 1]),
    }  # fmt: skip
    for name, rows in found.items():
        kept = list(rows)
        if kept:
            yield name, kept


def _row(prices: Prices, op: Shape, name: str, columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
    try:
        latency = 1e3 * prices.of(op).seconds
    except SpecError:  # a dtype that this GPU has not
        return
    head = {
        "framework": "gpusim",
        "version": __version__,
        "device": prices.spec.name,
        "op_name": name,
        "kernel_source": "projected",
    }
    yield head | columns | {"latency": float(f"{latency:.6g}")}


def _products(config: Decoder, prices: Prices, ways: Sequence[int], most_tokens: int) -> Iterator[dict[str, Any]]:
    hidden, dim = config.hidden, config.head_dim
    shapes = set()
    for tp in ways:
        heads, width = config.heads // tp, config.feed_forward // tp
        shapes |= {
            ((heads + 2 * kv_heads_of(config, tp)) * dim, hidden),
            (hidden, heads * dim),
            (2 * width, hidden),
            (hidden, width),
        }
        shapes.add((-(-config.vocabulary // tp), hidden))
    for name, dtype in _DTYPES.items():
        for columns, depth in sorted(shapes):
            for rows in sizes(most_tokens):
                yield from _row(
                    prices,
                    GemmOp(rows, columns, depth, dtype),
                    "gemm",
                    {"gemm_dtype": name, "m": rows, "n": columns, "k": depth},
                )


def _attention(
    config: Decoder, prices: Prices, ways: Sequence[int], most_tokens: int, *, context: bool
) -> Iterator[dict[str, Any]]:
    if config.latent is not None:
        return
    dim = config.head_dim
    for tp in ways:
        heads, kv_heads = config.heads // tp, kv_heads_of(config, tp)
        for batch in sizes(8 if context else 256):
            for length in (size for size in sizes(most_tokens) if size >= 16):
                if context and batch * length > 4 * most_tokens:
                    continue
                if context:
                    name, op = "context_attention", AttentionOp("context", batch, length, length, heads, kv_heads, dim)
                else:
                    name, op = (
                        "generation_attention",
                        AttentionOp("generation", batch, 1, length + 1, heads, kv_heads, dim),
                    )
                columns = {
                    "batch_size": batch, "isl": length if context else 1, "num_heads": heads, "num_key_value_heads": kv_heads, "head_dim": dim, "beam_width": 1,
                    "attn_dtype": "bfloat16", "kv_cache_dtype": "bfloat16", "step": 0 if context else length,
                }  # fmt: skip
                yield from _row(prices, op, name, columns)


def _experts(config: Decoder, prices: Prices, most_tokens: int) -> Iterator[dict[str, Any]]:
    if config.experts is None:
        return
    experts = config.experts
    ways = [
        (tp, ep)
        for tp in (1, 2, 4, 8)
        for ep in (1, 2, 4, 8)
        if tp * ep <= 8 and experts.routed % ep == 0 and experts.hidden % tp == 0
    ]
    for name, dtype in _EXPERTS_DTYPES.items():
        for tp, ep in ways:
            for tokens in sizes(most_tokens):
                op = MoeOp(tokens, config.hidden, experts.hidden, experts.routed, experts.per_token, dtype, ep, tp)
                columns = {
                    "moe_dtype": name, "num_tokens": tokens, "hidden_size": config.hidden, "inter_size": experts.hidden, "topk": experts.per_token,
                    "num_experts": experts.routed, "moe_tp_size": tp, "moe_ep_size": ep, "distribution": "balanced",
                }  # fmt: skip
                yield from _row(prices, op, "moe", columns)


def _collectives(prices: Prices, gpus: Sequence[int]) -> Iterator[dict[str, Any]]:
    for kind in _COLLECTIVES:
        for count in gpus:
            for message in (1 << power for power in range(10, _MOST_BYTES.bit_length())):
                op = Collective(kind, count, message, "bf16")
                # Sizes are in elements.
                yield from _row(
                    prices, op, kind, {"nccl_dtype": "half", "num_gpus": count, "message_size": message // 2}
                )
