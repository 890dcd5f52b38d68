"""The operators of a layer's attention on one GPU: with keys and values of heads, or of a latent that all heads
share."""

from __future__ import annotations

from gpusim.project.decoder import Decoder, LatentAttention
from gpusim.project.earlier_attention import EarlierAttention
from gpusim.project.frameworks import framework_of
from gpusim.project.load import Group, Load
from gpusim.project.operator import (
    Operator,
    added,
    context_queries,
    normalisation,
    product,
    quantised,
    reduced,
    written_converted,
)
from gpusim.project.plan import Plan
from gpusim.tile.operators import AttentionOp, GemmOp, MemoryOp

PART = "attention"
#: What makes a layer's attention between its first product and its last: what selective recomputation computes again
#: (Korthikanti et al., section 5).
CORE = ("attention", "scores", "softmax", "dropout", "values")


def attention_of(config: Decoder, plan: Plan, load: Load, window: int) -> list[Operator]:
    """Of one layer; ``window``: tokens that it attends to, 0 for all."""
    heads = config.heads // plan.tensor_parallel
    if config.latent is not None:
        found = _latent(config, config.latent, plan, load, heads)
        inner = heads * config.latent.value_dim
    else:
        found = _grouped(config, plan, load, heads, window)
        inner = heads * config.head_dim
    # A gate comes between attention and the product, in 16 bits.
    converted = written_converted(plan) and not config.gates_heads
    if not converted:
        found += quantised(PART, load.tokens, inner, plan)
    found.append(Operator(PART, "output", product(load.tokens, config.hidden, inner, plan, converted=converted)))
    # Of networks that sum once, the sum behind the feed-forward block has attention's part too.
    if not config.sums_once:
        found += reduced(PART, load.tokens, config.hidden, plan)
    return found + added(PART, load.tokens, config.hidden, plan)


def kv_heads_of(config: Decoder, tensor_parallel: int) -> int:
    """Key/value heads of one GPU: a head is copied where there are fewer of them than GPUs."""
    return max(1, config.kv_heads // tensor_parallel)


def _grouped(config: Decoder, plan: Plan, load: Load, heads: int, window: int) -> list[Operator]:
    kv_heads, dim, tokens = kv_heads_of(config, plan.tensor_parallel), config.head_dim, load.tokens
    found = [
        normalisation(PART, tokens, config.hidden, residual=plan.joins),
        *quantised(PART, tokens, config.hidden, plan, plan.of_attention),
        *_inward(config, plan, tokens, (1 + config.gates_heads) * heads * dim, kv_heads * dim),
    ]
    if config.normalises_heads:
        found.append(normalisation(PART, tokens * (heads + kv_heads), dim, residual=False))
    found += _turned(plan, tokens, heads * dim, kv_heads * dim)
    for group in load.groups:
        if plan.scores == "eager":
            found += _eager(group, heads, dim)
            continue
        phase = "generation" if group.queries == 1 else "context"
        queries = context_queries(plan) if phase == "context" else "bf16"
        op = AttentionOp(
            phase, group.sequences, group.queries, group.keys, heads, kv_heads, dim, queries, plan.kv_dtype, window,
            each_head=plan.reads == "each" and phase == "generation", framework=plan.attended_by, cold=phase == "generation",
            splits=framework_of(plan).splits_keys, splits_single_heads=framework_of(plan).splits_single_heads,
        )  # fmt: skip
        kernel = EarlierAttention(op, plan.scores) if plan.phase == "train" else op
        found.append(Operator(PART, "attention", kernel))
    if config.gates_heads:
        gated = 2.0 * tokens * heads * dim
        found.append(Operator(PART, "gate", MemoryOp("activation", 2 * gated, gated)))
    return found


def _eager(group: Group, heads: int, dim: int) -> list[Operator]:
    """With scores of all keys in memory, in 16 bits: a causal mask spares none. Dropout keeps a byte of each."""
    batch, scores = group.sequences * heads, 2.0 * group.sequences * heads * group.queries * group.keys
    return [
        Operator(PART, "scores", GemmOp(group.queries, group.keys, dim, "bf16", batch=batch)),
        Operator(PART, "softmax", MemoryOp("softmax", scores, scores)),
        Operator(PART, "dropout", MemoryOp("activation", scores, 1.5 * scores)),
        Operator(PART, "values", GemmOp(group.queries, dim, group.keys, "bf16", batch=batch)),
    ]


def _inward(config: Decoder, plan: Plan, tokens: int, queries: int, keys: int) -> list[Operator]:
    """The product or products that make queries, keys and values, of so many columns each."""
    if plan.joins:
        columns = {"queries, keys, values": (queries + 2 * keys, 1)}
    else:
        columns = {"queries": (queries, 1), "keys, values": (keys, 2)}
    return [
        Operator(PART, name, product(tokens, wide, config.hidden, plan, plan.of_attention), count)
        for name, (wide, count) in columns.items()
    ]


def _turned(plan: Plan, tokens: int, queries: int, keys: int) -> list[Operator]:
    """Rotary positions, of all in one kernel, or of each in its own, that of keys writes them into the cache, values
    are copied there."""
    if plan.joins:
        moved = 2.0 * tokens * (queries + keys)
        return [Operator(PART, "rotary positions", MemoryOp("rotary", moved, moved))]
    turned = [
        Operator(PART, "rotary positions", MemoryOp("rotary", 2.0 * tokens * wide, 2.0 * tokens * wide))
        for wide in (queries, keys)
    ]
    kept = 2.0 * tokens * keys
    return [*turned, Operator(PART, "into the cache", MemoryOp("copy", kept, kept))]


def _latent(config: Decoder, latent: LatentAttention, plan: Plan, load: Load, heads: int) -> list[Operator]:
    """DeepSeek's multi-head latent attention (DeepSeek-V2, section 2.1.2): the latents' products are not split over
    GPUs; for one new token the queries are brought into the latent space, which all heads share; for many, keys and
    values are made whole."""
    tokens = load.tokens
    key_dim = latent.plain_dim + latent.rotary_dim
    found = [
        normalisation(PART, tokens, config.hidden),
        *quantised(PART, tokens, config.hidden, plan, plan.of_attention),
        Operator(PART, "latents of queries and keys", product(tokens, latent.query_rank + latent.key_rank + latent.rotary_dim, config.hidden, plan, plan.of_attention)),
        normalisation(PART, tokens, latent.query_rank + latent.key_rank, residual=False),
        *quantised(PART, tokens, latent.query_rank, plan, plan.of_attention),
        Operator(PART, "queries", product(tokens, heads * key_dim, latent.query_rank, plan, plan.of_attention)),
    ]  # fmt: skip
    turned = 2.0 * tokens * (heads + 1) * latent.rotary_dim
    found.append(Operator(PART, "rotary positions", MemoryOp("rotary", turned, turned)))
    for group in load.groups:
        rows = group.sequences * group.queries
        if group.queries == 1:
            wide = latent.key_rank + latent.rotary_dim
            op = AttentionOp(
                "generation", group.sequences, 1, group.keys, heads, 1, wide, "bf16", plan.kv_dtype, kind="mla"
            )
            found += [
                Operator(
                    PART, "queries to latent", GemmOp(rows, latent.key_rank, latent.plain_dim, "bf16", batch=heads)
                ),
                Operator(PART, "attention", op),
                Operator(
                    PART, "values from latent", GemmOp(rows, latent.value_dim, latent.key_rank, "bf16", batch=heads)
                ),
            ]
            continue
        made = group.sequences * group.keys
        # TensorRT-LLM multiplies in the format of an 8-bit cache (cpp/tensorrt_llm/thop/attentionOp.cpp,
        # mFP8ContextMLA); others read prompts in 16 bits.
        kept = plan.kv_dtype if plan.framework == "trtllm" else ""
        op = AttentionOp(
            "context", group.sequences, group.queries, group.keys, heads, heads, key_dim, "bf16", kept, kind="mla"
        )
        found += [
            *quantised(PART, made, latent.key_rank, plan, plan.of_attention),
            Operator(
                PART,
                "keys and values",
                product(made, heads * (latent.plain_dim + latent.value_dim), latent.key_rank, plan, plan.of_attention),
            ),
            Operator(PART, "attention", op),
        ]
    return found
