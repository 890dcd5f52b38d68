"""What the layers of a decoder launch on one of ``tensor_parallel`` GPUs.

Mental model: tokens flow through equal layers; a layer is a list of operators whose sizes follow from the
configuration, the batch and the length. Tensor parallelism splits heads, feed-forward width, experts' width and
vocabulary evenly, as Megatron-LM does (Shoeybi et al., 2019); what the GPUs exchange is not among the launches,
since the suite has no communication kernel. Weights that every step reads are the same in prefill and decode;
only the rows differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from . import operators as op
from .configs import Decoder, Experts, LatentAttention
from .operators import NetworkLaunch

PHASES = ("prefill", "decode")


@dataclass(frozen=True)
class Step:
    """One forward pass: ``batch`` sequences of ``sequence`` tokens, all at once (prefill) or the next token of
    each with ``sequence`` tokens in its cache (decode), on one of ``tensor_parallel`` GPUs."""

    phase: str
    batch: int
    sequence: int
    tensor_parallel: int
    precision: str

    def __post_init__(self) -> None:
        if self.phase not in PHASES:
            raise ValueError(f"phase must be one of {', '.join(PHASES)}, not {self.phase!r}")
        if self.precision not in op.PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(op.PRECISIONS)}, not {self.precision!r}")
        for name in ("batch", "sequence", "tensor_parallel"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")

    @property
    def rows(self) -> int:
        """Tokens that the step computes."""
        return self.batch * self.sequence if self.phase == "prefill" else self.batch

    def share(self, what: str, amount: int) -> int:
        """This GPU's part of ``amount``; ValueError unless it divides evenly."""
        if amount % self.tensor_parallel:
            raise ValueError(f"{amount} {what} cannot be split evenly over {self.tensor_parallel} GPUs")
        return amount // self.tensor_parallel


def decoder_launches(config: Decoder, step: Step) -> Iterator[NetworkLaunch]:
    """Launches of a whole forward pass; those that equal layers repeat come once with their count."""
    yield op.embedding("embedding", step.rows, config.vocabulary, config.hidden, step.precision)
    dense = config.layers if config.experts is None else config.experts.dense_layers
    if config.latent:
        for launch in _latent_attention(config, config.latent, step):
            yield launch.times(config.layers)
    else:
        yield from _attention(config, step)
    if dense:
        for launch in _feed_forward("feed-forward", config.hidden, config.feed_forward, step):
            yield launch.times(dense)
    if config.experts:
        for launch in _experts(config, config.experts, step):
            yield launch.times(config.layers - dense)
    yield from _head(config.hidden, config.vocabulary, step)


def _attention(config: Decoder, step: Step) -> Iterator[NetworkLaunch]:
    """Grouped-query attention of all layers."""
    for launch in _queries(config, step):
        yield launch.times(config.layers)
    yield from _past(config, step)
    inner = step.share("heads", config.heads) * config.head_dim
    output = op.matmul("attention", "output", step.rows, config.hidden, inner, step.precision)
    yield output.times(config.layers)


def _queries(config: Decoder, step: Step) -> Iterator[NetworkLaunch]:
    """From a layer's input to its queries, keys and values."""
    heads, kv_heads = _heads(config, step)
    dim, rows, precision = config.head_dim, step.rows, step.precision
    yield op.rmsnorm("attention", rows, config.hidden, precision)
    yield op.matmul("attention", "queries, keys, values", rows, (heads + 2 * kv_heads) * dim, config.hidden, precision)
    if config.normalises_heads:
        yield op.rmsnorm("attention", rows * heads, dim, precision, residual=False)
        yield op.rmsnorm("attention", rows * kv_heads, dim, precision, residual=False)
    rope = {"tokens": rows, "heads": heads, "kv_heads": kv_heads, "head_dim": dim, "dtype": op.activations(precision)}
    yield NetworkLaunch("attention", "rotary positions", "rope", rope)


def _past(config: Decoder, step: Step) -> Iterator[NetworkLaunch]:
    """What the queries of all layers attend to; where attention is banded, in every second layer to the band."""
    heads, kv_heads = _heads(config, step)
    banded = config.layers // 2 if config.window else 0
    if step.phase == "prefill":
        note = f"{banded} of the layers attend to {config.window} tokens only" if banded else ""
        yield op.prefill_attention(
            "attention", step.batch, heads, step.sequence, config.head_dim, step.precision, causal=True, note=note
        ).times(config.layers)
        return
    spans = ((step.sequence, config.layers - banded), (min(step.sequence, config.window), banded))
    for context, layers in spans:
        if layers:
            yield op.decode_attention(
                "attention", step.batch, context, heads, kv_heads, config.head_dim, step.precision
            ).times(layers)


def _heads(config: Decoder, step: Step) -> tuple[int, int]:
    """Query and key heads of one GPU; a key head is copied where there are fewer of them than GPUs."""
    return step.share("heads", config.heads), max(1, config.kv_heads // step.tensor_parallel)


def _latent_attention(config: Decoder, latent: LatentAttention, step: Step) -> Iterator[NetworkLaunch]:
    """DeepSeek's multi-head latent attention: keys and values made whole for a prefill; for a decode the queries are
    brought into the latent space instead, which all heads then share (DeepSeek-V2, section 2.1.2)."""
    heads, rows, precision = step.share("heads", config.heads), step.rows, step.precision
    key_dim = latent.plain_dim + latent.rotary_dim
    yield op.rmsnorm("attention", rows, config.hidden, precision)
    yield op.matmul("attention", "query latent", rows, latent.query_rank, config.hidden, precision)
    yield op.rmsnorm("attention", rows, latent.query_rank, precision, residual=False)
    yield op.matmul("attention", "queries", rows, heads * key_dim, latent.query_rank, precision)
    yield op.matmul("attention", "key latent", rows, latent.key_rank + latent.rotary_dim, config.hidden, precision)
    yield op.rmsnorm("attention", rows, latent.key_rank, precision, residual=False)
    rope = {
        "tokens": rows,
        "heads": heads,
        "kv_heads": 1,
        "head_dim": latent.rotary_dim,
        "pairing": "interleaved",
        "dtype": op.activations(precision),
    }
    yield NetworkLaunch("attention", "rotary positions", "rope", rope)
    if step.phase == "prefill":
        width = heads * (latent.plain_dim + latent.value_dim)
        yield op.matmul("attention", "keys and values", rows, width, latent.key_rank, precision)
        note = f"unfused: the suite's fused attention has no heads of {key_dim}; the causal half is computed too"
        yield from op.unfused_attention(
            "attention", step.batch * heads, step.sequence, step.sequence, key_dim, latent.value_dim, precision, note
        )
    else:
        yield op.matmul("attention", "queries to latent", rows, latent.key_rank, latent.plain_dim, precision, heads)
        note = "unfused: one latent key for all heads"
        yield from op.unfused_attention(
            "attention",
            step.batch,
            heads,
            step.sequence,
            latent.key_rank + latent.rotary_dim,
            latent.key_rank,
            precision,
            note,
        )
        yield op.matmul("attention", "values from latent", rows, latent.value_dim, latent.key_rank, precision, heads)
    yield op.matmul("attention", "output", rows, config.hidden, heads * latent.value_dim, precision)


def _feed_forward(layer: str, hidden: int, width: int, step: Step) -> Iterator[NetworkLaunch]:
    share, rows, precision = step.share("feed-forward columns", width), step.rows, step.precision
    yield op.rmsnorm(layer, rows, hidden, precision)
    yield op.matmul(layer, "gate and up", rows, 2 * share, hidden, precision)
    gate = {"rows": rows, "columns": share, "dtype": op.activations(precision)}
    yield NetworkLaunch(layer, "gated activation", "silu_mul", gate)
    yield op.matmul(layer, "down", rows, hidden, share, precision)


def _experts(config: Decoder, experts: Experts, step: Step) -> Iterator[NetworkLaunch]:
    """Routing, then one product an expert that got tokens (even routing; the library would group them)."""
    rows, precision, hidden = step.rows, step.precision, config.hidden
    share = step.share("expert columns", experts.hidden)
    yield op.rmsnorm("experts", rows, hidden, precision)
    # Routers stay in the activations' precision: their rounding decides who computes.
    yield op.matmul("experts", "router", rows, experts.routed, hidden, op.activations(precision))
    yield NetworkLaunch("experts", "choice", "topk", {"rows": rows, "columns": experts.routed, "k": experts.per_token})
    permute = {
        "tokens": rows,
        "experts": experts.routed,
        "per_token": experts.per_token,
        "columns": hidden,
        "skew": 0.0,
        "dtype": op.activations(precision),
    }
    yield NetworkLaunch("experts", "permutation", "moe_permute", permute)
    assigned = rows * experts.per_token
    busy = min(experts.routed, assigned)
    each = -(-assigned // busy)
    yield op.matmul("experts", "gate and up", each, 2 * share, hidden, precision, busy)
    gate = {"rows": assigned, "columns": share, "dtype": op.activations(precision)}
    yield NetworkLaunch("experts", "gated activation", "silu_mul", gate)
    yield op.matmul("experts", "down", each, hidden, share, precision, busy)
    if experts.shared:
        yield from list(_feed_forward("shared expert", hidden, experts.shared * experts.hidden, step))[1:]


def _head(hidden: int, vocabulary: int, step: Step) -> Iterator[NetworkLaunch]:
    """The next token of each sequence: its logits, and one drawn."""
    yield op.rmsnorm("head", step.batch, hidden, step.precision)
    share = -(-vocabulary // step.tensor_parallel)
    yield op.matmul("head", "logits", step.batch, share, hidden, op.activations(step.precision))
    yield NetworkLaunch("head", "sampling", "sample_gumbel", {"rows": step.batch, "vocabulary": vocabulary})
