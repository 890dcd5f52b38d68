"""Profile tables of Vidur (microsoft/vidur): a model's token-wise operators, its attention, and collectives.

Mental model: Vidur trains its predictor on CSV files ``mlp.csv``, ``attention.csv``, ``all_reduce.csv`` and
``send_recv.csv`` whose rows hold statistics of repeated measurements in milliseconds; a projection is one value, which
stands in all of them. Columns after Vidur's loader (vidur/execution_time_predictor/sklearn_execution_time_predictor.py,
commit 82f0840). Overheads of the host are not projected: run it with ``skip_cpu_overhead_modeling``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpusim.collective.shape import Collective
from gpusim.errors import UsageError
from gpusim.project.attention import kv_heads_of
from gpusim.project.decoder import Decoder
from gpusim.project.export.grid import sizes
from gpusim.project.operator import Shape
from gpusim.project.prices import Prices
from gpusim.tile.operators import AttentionOp, GemmOp, MemoryOp

_STATISTICS = ("min", "max", "mean", "median")
#: Tokens of a page of the cache, as Vidur's default.
_BLOCK_TOKENS = 16
_MOST_LENGTH = 16384


def _statistics(name: str, prices: Prices, op: Shape | None) -> dict[str, float]:
    milliseconds = 0.0 if op is None else 1e3 * prices.of(op).seconds
    return {f"time_stats.{name}.{of}": milliseconds for of in _STATISTICS} | {f"time_stats.{name}.std": 0.0}


def tables(
    config: Decoder, prices: Prices, tensor_parallel: Sequence[int], most_tokens: int
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Names of files with their rows. Raises UsageError for a network that Vidur does not know the kind of (experts,
    latent or linear attention)."""
    if config.experts is not None or config.latent is not None or config.linear is not None:
        raise UsageError(f"{config.name}: Vidur's tables know no experts, no latent and no linear attention")
    ways = [tp for tp in tensor_parallel if config.heads % tp == 0 and config.feed_forward % tp == 0]
    yield "mlp.csv", [row for tp in ways for row in _token_wise(config, prices, tp, most_tokens)]
    yield (
        "attention.csv",
        [row for tp in ways for row in _attention(config, prices, tp, min(most_tokens, _MOST_LENGTH))],
    )
    yield (
        "all_reduce.csv",
        [row for tp in ways if tp > 1 for row in _collective(config, prices, "all_reduce", tp, tp, most_tokens)],
    )
    yield "send_recv.csv", _collective(config, prices, "send_recv", 2, 2, most_tokens)


def _token_wise(config: Decoder, prices: Prices, tp: int, most_tokens: int) -> Iterator[dict[str, Any]]:
    heads, kv_heads, width, hidden = (
        config.heads // tp,
        kv_heads_of(config, tp),
        config.feed_forward // tp,
        config.hidden,
    )
    for tokens in sizes(most_tokens):
        moved = 2.0 * tokens * hidden
        turned = 2.0 * tokens * (heads + kv_heads) * config.head_dim
        ops = {
            "emb": MemoryOp("embedding", moved, moved), "input_layernorm": MemoryOp("norm", moved, moved),
            "attn_pre_proj": GemmOp(tokens, (heads + 2 * kv_heads) * config.head_dim, hidden), "attn_rope": MemoryOp("rotary", turned, turned),
            "attn_post_proj": GemmOp(tokens, hidden, heads * config.head_dim), "post_attention_layernorm": MemoryOp("norm", moved, moved),
            "mlp_up_proj": GemmOp(tokens, config.ways_up * width, hidden), "mlp_act": MemoryOp("activation", 2.0 * config.ways_up * tokens * width, 2.0 * tokens * width),
            "mlp_down_proj": GemmOp(tokens, hidden, width), "add": MemoryOp("copy", 2 * moved, moved),
        }  # fmt: skip
        row: dict[str, Any] = {}
        for name, op in ops.items():
            row |= _statistics(name, prices, op)
        yield row | {
            "n_head": config.heads, "n_kv_head": config.kv_heads, "n_embd": hidden, "n_expanded_embd": config.feed_forward, "vocab_size": config.vocabulary,
            "use_gated_mlp": config.gated, "num_tokens": tokens, "num_tensor_parallel_workers": tp,
        }  # fmt: skip


def _attention(config: Decoder, prices: Prices, tp: int, most_length: int) -> Iterator[dict[str, Any]]:
    heads, kv_heads, dim = config.heads // tp, kv_heads_of(config, tp), config.head_dim
    lengths = [length for length in sizes(most_length) if length >= 64]
    cases = [(batch, 0, cached) for batch in sizes(256) for cached in lengths]
    cases += [(1, chunk, cached) for chunk in lengths for cached in (0, *lengths) if chunk + cached <= most_length]
    for batch, chunk, cached in cases:
        prefill = AttentionOp("context", batch, chunk, chunk + cached, heads, kv_heads, dim) if chunk else None
        decode = None if chunk else AttentionOp("generation", batch, 1, cached + 1, heads, kv_heads, dim)
        # The way of new keys and values into the cache is within both.
        row: dict[str, Any] = {}
        for name, op in (
            ("attn_input_reshape", None),
            ("attn_kv_cache_save", None),
            ("attn_prefill", prefill),
            ("attn_decode", decode),
            ("attn_output_reshape", None),
        ):
            row |= _statistics(name, prices, op)
        yield row | {
            "n_embd": config.hidden, "n_q_head": config.heads, "n_kv_head": config.kv_heads, "block_size": _BLOCK_TOKENS, "num_tensor_parallel_workers": tp,
            "max_model_len": most_length, "batch_size": batch, "prefill_chunk_size": chunk, "kv_cache_size": cached, "is_prefill": bool(chunk),
            "attention_backend": "projected",
        }  # fmt: skip


def _collective(
    config: Decoder, prices: Prices, kind: str, gpus: int, a_node: int, most_tokens: int
) -> list[dict[str, Any]]:
    rows = []
    for tokens in sizes(most_tokens):
        message = 2 * tokens * config.hidden
        rows.append(_statistics(kind, prices, Collective(kind, gpus, message, "bf16")) | {
            "rank": 0, "num_workers": gpus, "size": message, "collective": kind, "devices_per_node": a_node, "max_devices_per_node": 8,
        })  # fmt: skip
    return rows
