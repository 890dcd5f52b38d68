"""The operators of a layer's feed-forward block on one GPU: dense, or of experts."""

from __future__ import annotations

from gpusim.collective.shape import Collective
from gpusim.project.decoder import Decoder, Experts
from gpusim.project.load import Load
from gpusim.project.operator import Operator, normalisation, product, reduced, written_converted
from gpusim.project.plan import Plan
from gpusim.tile.formats import FORMATS
from gpusim.tile.operators import GemmOp, MemoryOp, MoeOp


def dense(config: Decoder, plan: Plan, load: Load) -> list[Operator]:
    """Up (with the gate in one product), the activation, down."""
    part, tokens = "feed-forward", load.tokens
    found = [normalisation(part, tokens, config.hidden)]
    found += _block(part, tokens, config, config.feed_forward // plan.tensor_parallel, plan)
    return found + reduced(part, tokens, config.hidden, plan)


def _block(part: str, tokens: int, config: Decoder, width: int, plan: Plan) -> list[Operator]:
    moved, converted = 2.0 * tokens * width, written_converted(plan)
    written = tokens * width * FORMATS[plan.dtype].a_bytes if converted else moved
    up, activation = ("gate and up", "gated activation") if config.gated else ("up", "activation")
    return [
        Operator(part, up, product(tokens, config.ways_up * width, config.hidden, plan)),
        Operator(part, activation, MemoryOp("activation", config.ways_up * moved, written)),
        Operator(part, "down", product(tokens, config.hidden, width, plan, converted=converted)),
    ]


def of_experts(config: Decoder, experts: Experts, plan: Plan, load: Load) -> list[Operator]:
    """Routing, the experts, what is shared by all tokens. Where replicas share experts out, each token goes to its experts' GPUs and comes back by an all-to-all;
    within one replica all GPUs have all tokens, and their sum brings the results together."""
    part, tokens, tp, ep = "experts", load.tokens, plan.tensor_parallel, plan.expert_parallel
    found = [
        normalisation(part, tokens, config.hidden),
        # Routers stay in 16 bits: their rounding decides who computes.
        Operator(part, "router", GemmOp(tokens, experts.routed, config.hidden, "bf16")),
    ]
    across = ep > tp
    if across:
        # Of the GPU that sends most where loads are even; dispatch has the activations' format, results come back in 16 bits.
        own = -(-tokens // tp)
        sent = own * experts.per_token * config.hidden
        found.append(
            Operator(part, "dispatch", Collective("alltoall", ep, int(sent * FORMATS[plan.of_experts].a_bytes), "bf16"))
        )
        # All replicas' tokens meet at the experts' GPUs.
        tokens = tokens * plan.data_parallel
    op = MoeOp(
        tokens,
        config.hidden,
        experts.hidden,
        experts.routed,
        experts.per_token,
        plan.of_experts,
        ep,
        plan.experts_tensor_parallel,
        framework=plan.framework,
    )
    found.append(Operator(part, "experts", op))
    if across:
        found.append(Operator(part, "combine", Collective("alltoall", ep, int(2 * sent), "bf16")))
    if experts.shared:
        width = -(-experts.shared * experts.hidden // tp)
        found += _block("shared expert", load.tokens, config, width, plan)
    return found + reduced(part, load.tokens, config.hidden, plan)
