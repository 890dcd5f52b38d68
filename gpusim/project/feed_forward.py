"""The operators of a layer's feed-forward block on one GPU: dense, or of experts."""

from __future__ import annotations

from dataclasses import replace

from gpusim.collective.shape import Collective
from gpusim.project.decoder import Decoder, Experts
from gpusim.project.load import Load
from gpusim.project.operator import (
    Operator,
    added,
    multiplied_apart,
    normalisation,
    product,
    quantised,
    reduced,
    written_converted,
)
from gpusim.project.plan import ENGINES, Plan
from gpusim.tile.formats import FORMATS
from gpusim.tile.operators import GemmOp, MemoryOp, MoeOp

#: llama.cpp's kernel of one row multiplies with gate and up and activates (ggml/src/ggml-cuda/ggml-cuda.cu,
#: ggml_cuda_should_fuse_mul_mat_vec_q).
_FUSED_ROWS = 1
#: GPUs over which routers share experts out unevenly, as measured kernels of experts have it, and the busiest counts.
#: Training holds routers to even loads (Fedus et al., Switch Transformers (2022), section 2.2; benchmarks force them).
#: Servers of more GPUs than a node has copy busy experts to even loads out (deepseek-ai/EPLB; SGLang's DeepSeek on 96
#: H100s: 1.5 and 2.5 times as fast with it), and their kernels have only tokens that were sent to them
#: (deepseek-ai/DeepEP). With the busiest of 32 and 72 GPUs that server came out 5 and 3.7 times too slow
#: (lmsys.org/blog/2025-05-05-large-scale-ep: 52,300 tokens a second and node read, 22,300 generated).
_UNEVEN_GPUS = 8


def dense(config: Decoder, plan: Plan, load: Load) -> list[Operator]:
    """Up (with the gate in one product), the activation, down."""
    part, tokens = "feed-forward", load.tokens
    found = [normalisation(part, tokens, config.hidden, residual=plan.joins)]
    found += _block(part, tokens, config, config.feed_forward // plan.tensor_parallel, plan)
    return found + reduced(part, tokens, config.hidden, plan) + added(part, tokens, config.hidden, plan)


def _block(part: str, tokens: int, config: Decoder, width: int, plan: Plan) -> list[Operator]:
    moved, converted = 2.0 * tokens * width, written_converted(plan)
    written = tokens * width * FORMATS[plan.dtype].a_bytes if converted else moved
    up, activation = ("gate and up", "gated activation") if config.gated else ("up", "activation")
    fused = not plan.joins and tokens <= _FUSED_ROWS
    ways = (config.ways_up, 1) if plan.joins or fused else (1, config.ways_up)
    ups = [Operator(part, up, product(tokens, ways[0] * width, config.hidden, plan), ways[1])]
    if config.gated and multiplied_apart(plan):
        # What brings the rows to few bits serves both.
        ups = [
            Operator(part, name, product(tokens, width, config.hidden, plan, converted=name == "up"))
            for name in ("gate", "up")
        ]
    found = [*quantised(part, tokens, config.hidden, plan), *ups]
    if not fused:
        found.append(Operator(part, activation, MemoryOp("activation", config.ways_up * moved, written)))
    return [
        *found,
        Operator(part, "down", product(tokens, config.hidden, width, plan, converted=converted)),
    ]


def of_experts(config: Decoder, experts: Experts, plan: Plan, load: Load) -> list[Operator]:
    """Routing, the experts, what is shared by all tokens. Where replicas share experts out, each token goes to its
    experts' GPUs and comes back (:func:`_exchanges`); within one replica all GPUs have all tokens, and their sum brings
    the results together."""
    part, tokens, tp, ep = "experts", load.tokens, plan.tensor_parallel, plan.expert_parallel
    found = [
        normalisation(part, tokens, config.hidden),
        # Routers stay in 16 bits: their rounding decides who computes.
        Operator(part, "router", GemmOp(tokens, experts.routed, config.hidden, "bf16")),
    ]
    across = ep > tp
    dispatch, combine = _exchanges(config, experts, plan, -(-tokens // tp)) if across else (None, None)
    if dispatch:
        found.append(Operator(part, "dispatch", dispatch))
        # Tokens of all replicas that share these experts out meet at their GPUs.
        tokens = plan.meeting_tokens(tokens)
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
        earlier=ENGINES[plan.engine] == "vllm",  # all that are told apart are older than its tiles of today
    )
    even = plan.phase == "train" or ep > _UNEVEN_GPUS
    found.append(Operator(part, "experts", _even(op) if even else op))
    if combine:
        found.append(Operator(part, "combine", combine))
    if experts.shared:
        width = -(-experts.shared * experts.hidden // tp)
        found += _block("shared expert", load.tokens, config, width, plan)
    return found + reduced(part, load.tokens, config.hidden, plan)


def _even(op: MoeOp) -> MoeOp:
    """As a GPU has it where loads are even: what is multiplied are the tokens that were sent to it, where kernels of
    few GPUs go over all tokens that meet. Where GPUs cannot share experts out evenly, copies of some fill the rest."""
    own = -(-op.experts // op.ep)
    choices = min(op.top_k, own)
    return replace(
        op,
        tokens=-(-op.tokens * op.top_k // (op.ep * choices)),
        experts=own,
        top_k=choices,
        ep=1,
        distribution="balanced",
    )


def _exchanges(config: Decoder, experts: Experts, plan: Plan, own: int) -> tuple[Collective, Collective]:
    """Before and after experts that are shared out over replicas, of whose GPUs each has ``own`` tokens: dispatch in
    the activations' format, results in 16 bits. An all-to-all, of the GPU that sends most where loads are even;
    TensorRT-LLM, with no more GPUs than choices of a token, gathers all GPUs' tokens and scatters sums
    (tensorrt_llm/_torch/modules/fused_moe/fused_moe_cutlass.py, enable_alltoall: moe_ep_size > experts_per_token, and
    NVLink between hosts, which is not looked at here)."""
    ep = plan.expert_parallel
    if plan.framework == "trtllm" and ep <= experts.per_token:
        gathered = own * ep * config.hidden
        # Activations with scales for blocks of 128 are converted by the experts' own kernels.
        size = 2.0 if plan.of_experts == "fp8_block" else FORMATS[plan.of_experts].a_bytes
        return Collective("all_gather", ep, int(size * gathered)), Collective("reduce_scatter", ep, 2 * gathered)
    sent = own * experts.per_token * config.hidden
    return Collective("alltoall", ep, int(sent * FORMATS[plan.of_experts].a_bytes)), Collective(
        "alltoall", ep, 2 * sent
    )
