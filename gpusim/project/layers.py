"""A decoder as layers of few kinds: what each launches, and which kinds follow each other.

Mental model: layers of one kind are equal, so that a network of eighty is priced once a kind and summed by counts.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from gpusim.collective.shape import Collective
from gpusim.project.attention import attention_of
from gpusim.project.decoder import Decoder
from gpusim.project.feed_forward import dense, of_experts
from gpusim.project.frameworks import framework_of
from gpusim.project.linear_attention import linear_attention_of
from gpusim.project.load import Load
from gpusim.project.operator import FUSED_LOSS, Operator, normalisation
from gpusim.project.plan import Plan
from gpusim.tile.operators import DrawOp, GemmOp, MemoryOp, SortOp


@dataclass(frozen=True)
class Kind:
    """Of a layer: whether it has experts, the tokens that it attends to (0: all), and whether it has linear attention
    in attention's place."""

    experts: bool
    window: int
    linear: bool = False


def kinds_of(config: Decoder) -> tuple[Kind, ...]:
    """Of every layer, in order. Where attention is banded it is in every second layer, from the first on; of linear
    attention each ``full_every``-th layer has none."""
    first = config.experts.dense_layers if config.experts else config.layers
    return tuple(
        Kind(
            layer >= first,
            config.window if config.window and layer % 2 == 0 else 0,
            config.linear is not None and (layer + 1) % config.linear.full_every != 0,
        )
        for layer in range(config.layers)
    )


def stages_of(config: Decoder, stages: int) -> tuple[tuple[Kind, ...], ...]:
    """The layers of each pipeline stage: as even as whole layers are, the first stages taking what is left over."""
    kinds, each, more = kinds_of(config), *divmod(config.layers, stages)
    bounds = [stage * each + min(stage, more) for stage in range(stages + 1)]
    return tuple(kinds[begin:end] for begin, end in itertools.pairwise(bounds))


def layer_operators(config: Decoder, plan: Plan, load: Load, kind: Kind) -> list[Operator]:
    """Of one layer of that kind on one GPU, in order."""
    if kind.linear and config.linear is not None:
        found = linear_attention_of(config, config.linear, plan, load)
    else:
        found = attention_of(config, plan, load, kind.window)
    if kind.experts and config.experts is not None:
        return found + of_experts(config, config.experts, plan, load)
    return found + dense(config, plan, load)


def embedding_operators(config: Decoder, plan: Plan, load: Load) -> list[Operator]:
    """Of the first stage."""
    moved = 2.0 * load.tokens * config.hidden
    found = [Operator("embedding", "embedding", MemoryOp("embedding", moved, moved))]
    if plan.tensor_parallel > 1:
        found.append(
            Operator("embedding", "all-reduce", Collective("all_reduce", plan.tensor_parallel, int(moved), "bf16"))
        )
    return found


def head_operators(config: Decoder, plan: Plan, load: Load, rows: int | None = None) -> list[Operator]:
    """Of the last stage: the logits of each sequence that ends its prompt or generates (``rows``: of so many tokens),
    and one token drawn, or in training the loss."""
    rows = load.ends if rows is None else rows
    if not rows:
        return []
    share = -(-config.vocabulary // plan.tensor_parallel)
    found = [
        normalisation("head", rows, config.hidden),
        Operator("head", "logits", GemmOp(rows, share, config.hidden, plan.of_head)),
    ]
    if plan.phase == "train":
        return found + _loss(plan, rows, share)
    if plan.tensor_parallel > 1:
        gathered = 2 * rows * share * plan.tensor_parallel
        found.append(Operator("head", "all-gather", Collective("all_gather", plan.tensor_parallel, gathered, "bf16")))
    # Logits in FP32, which sampling goes over as often as memory.toml says.
    logits = 4.0 * rows * config.vocabulary
    if plan.sampling == "top" and framework_of(plan).sorts:
        found.append(Operator("head", "sort of logits", SortOp(rows, config.vocabulary)))
    by_few_blocks = framework_of(plan).draws_by_few_blocks
    drawn = DrawOp(rows, config.vocabulary) if by_few_blocks else MemoryOp("sampling", logits, logits)
    found.append(Operator("head", "sampling", drawn))
    return found


def _loss(plan: Plan, rows: int, share: int) -> list[Operator]:
    """The cross entropy of ``rows`` tokens, each GPU of a tensor-parallel group over its own ``share`` of the
    vocabulary: three passes over logits in FP32, as a softmax takes, or one over 16 bits, whose row stays on the chip
    until its gradient is written; and of each row the largest logit, the sum and the right token's logit over the group
    (Shoeybi et al., Megatron-LM (2019), section 3)."""
    if plan.loss == "fused":
        logits = 2.0 * rows * share
        found = [Operator("head", FUSED_LOSS, MemoryOp("softmax", logits, logits))]
    else:
        logits = 4.0 * rows * share
        found = [Operator("head", "loss", MemoryOp("softmax", 3 * logits, logits))]
    if plan.tensor_parallel > 1:
        found.append(
            Operator(
                "head", "all-reduce of the loss", Collective("all_reduce", plan.tensor_parallel, 4 * rows, "bf16"), 3
            )
        )
    return found


def blocks_of(
    config: Decoder, plan: Plan, load: Load, kinds: tuple[Kind, ...], first: bool, last: bool
) -> list[list[Operator]]:
    """The operators of a stage's step, layer by layer; what sends to the next stage apart."""
    found = [embedding_operators(config, plan, load)] if first else []
    found += [layer_operators(config, plan, load, kind) for kind in kinds]
    if last:
        found.append(head_operators(config, plan, load, load.tokens if plan.phase == "train" else None))
    return found
