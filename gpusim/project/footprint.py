"""Bytes of a GPU's memory that a plan takes: weights, keys and values (or the states of linear attention), activations,
and in training gradients and the optimizer's state.

Mental model: the fullest GPU of the fullest pipeline stage. Formulas are those of Korthikanti et al., Reducing
Activation Recomputation in Large Transformer Models (2022), for activations in training, and Rajbhandari et al., ZeRO
(2020), section 3, for mixed-precision Adam.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.project.attention import kv_heads_of
from gpusim.project.decoder import Decoder, Experts
from gpusim.project.frameworks import framework_of
from gpusim.project.layers import Kind, stages_of
from gpusim.project.linear_attention import parameters_of_layer, state_bytes
from gpusim.project.load import steps_of
from gpusim.project.plan import KV_BYTES, WEIGHT_BYTES, Plan

#: Of a parameter in mixed-precision training beside its 16 bits: gradient (4), and of the optimizer the master copy,
#: mean and variance (12).
_GRADIENT_BYTES, _STATE_BYTES = 4.0, 12.0
#: Frameworks that hold all of a sequence's keys in layers that attend to a window of them, where nothing else is asked
#: for (TensorRT-LLM: kv_cache_config.max_attention_window is None, all of the longest sequence; its pull request 5722,
#: which would have taken the window from the network's own file, was closed).
_WINDOWS_HELD_WHOLE = ("trtllm",)
#: Bytes of activations a layer keeps for its backward pass: by token and hidden width (Korthikanti et al., equations 2
#: and 3, without the scores, which fused attention does not keep); "full" keeps a layer's input alone.
_KEPT = {"none": (10.0, 24.0), "selective": (10.0, 24.0), "full": (2.0, 0.0)}
#: Of them what products in fp8 spare, whose inputs are kept in one byte: of two products' inputs (whole), of the
#: others' (one of the hidden width, one of four times as much).
_SPARED_FP8 = (2.0, 5.0)


@dataclass(frozen=True)
class Footprint:
    """Bytes on the fullest GPU. ``capacity_bytes``: what it has."""

    weight_bytes: float
    kv_bytes: float
    activation_bytes: float
    training_bytes: float
    framework_bytes: float
    capacity_bytes: float

    @property
    def total_bytes(self) -> float:
        """Of all parts."""
        return self.weight_bytes + self.kv_bytes + self.activation_bytes + self.training_bytes + self.framework_bytes

    @property
    def fits(self) -> bool:
        """Whether the GPU has so much."""
        return self.total_bytes <= self.capacity_bytes


def parameters_of(config: Decoder) -> tuple[float, float]:
    """All parameters, and those that a token meets, the embedding's table left out of the latter."""
    layers = [_layer_parameters(config, kind, every=True) for stage in stages_of(config, 1) for kind in stage]
    active = [_layer_parameters(config, kind, every=False) for stage in stages_of(config, 1) for kind in stage]
    table = float(config.vocabulary * config.hidden)
    return sum(layers) + 2 * table, sum(active) + table


def routed_parameters_of(config: Decoder) -> float:
    """Of them those of experts that tokens are routed to."""
    kinds = [kind for stage in stages_of(config, 1) for kind in stage]
    return sum(
        3.0 * config.hidden * config.experts.hidden * config.experts.routed
        for kind in kinds
        if kind.experts and config.experts
    )


def _attention_parameters(config: Decoder, kind: Kind) -> float:
    if kind.linear and config.linear is not None:
        return parameters_of_layer(config, config.linear)
    if config.latent is not None:
        latent, heads = config.latent, config.heads
        down = config.hidden * (latent.query_rank + latent.key_rank + latent.rotary_dim)
        up = heads * (
            latent.query_rank * (latent.plain_dim + latent.rotary_dim)
            + latent.key_rank * (latent.plain_dim + latent.value_dim)
        )
        return float(down + up + heads * latent.value_dim * config.hidden)
    return float(
        config.hidden * config.head_dim * (2 * (config.heads + config.kv_heads) + config.gates_heads * config.heads)
    )


def _inward_parameters(config: Decoder, kind: Kind) -> float:
    """Of attention those that make queries, keys and values."""
    if kind.linear:
        return 0.0
    dim = config.latent.value_dim if config.latent is not None else config.head_dim
    return _attention_parameters(config, kind) - config.heads * dim * config.hidden


def _layer_parameters(config: Decoder, kind: Kind, *, every: bool) -> float:
    found = _attention_parameters(config, kind)
    if not kind.experts or config.experts is None:
        return found + (config.ways_up + 1.0) * config.hidden * config.feed_forward
    experts = config.experts
    routed = experts.routed if every else experts.per_token
    return found + 3.0 * config.hidden * experts.hidden * (routed + experts.shared) + config.hidden * experts.routed


def _share(config: Decoder, plan: Plan, kind: Kind) -> float:
    """Parameters of a layer on one GPU."""
    tp = plan.tensor_parallel
    if not kind.experts or config.experts is None:
        return _layer_parameters(config, kind, every=True) / tp
    experts = config.experts
    own = _routed_share(config, plan, kind)
    rest = 3.0 * config.hidden * experts.hidden * experts.shared / tp + config.hidden * experts.routed
    return _attention_parameters(config, kind) / tp + own + rest


def _routed_share(config: Decoder, plan: Plan, kind: Kind) -> float:
    """Of them those of experts that tokens are routed to."""
    if not kind.experts or config.experts is None:
        return 0.0
    whole = 3.0 * config.hidden * config.experts.hidden * config.experts.routed
    # Of the GPU that has the most, where they cannot be shared out evenly.
    own = -(-config.experts.routed // plan.expert_parallel)
    return whole * own / config.experts.routed / plan.experts_tensor_parallel


def parameters_by_copies(config: Decoder, plan: Plan) -> list[tuple[float, int]]:
    """Parameters on one GPU of the fullest stage, and on how many GPUs the same ones are: those that every replica has,
    and those of experts, which a group of replicas may share out."""
    own = parameters_of_stages(config, plan)
    fullest = max(range(len(own)), key=lambda stage: own[stage])
    routed = sum(_routed_share(config, plan, kind) for kind in stages_of(config, plan.pipeline_parallel)[fullest])
    if plan.expert_copies == plan.data_parallel:
        return [(own[fullest], plan.data_parallel)]
    return [(own[fullest] - routed, plan.data_parallel), (routed, plan.expert_copies)]


def kept_parameters(config: Decoder, plan: Plan) -> float:
    """Those whose optimizer states a GPU of the fullest stage keeps: its own, or its share of them."""
    return sum(some / copies if plan.zero else some for some, copies in parameters_by_copies(config, plan))


def parameters_of_stages(config: Decoder, plan: Plan) -> list[float]:
    """On one GPU of each pipeline stage, tables of the vocabulary included."""
    own = [sum(_share(config, plan, kind) for kind in stage) for stage in stages_of(config, plan.pipeline_parallel)]
    table = config.vocabulary * config.hidden / plan.tensor_parallel
    own[0] += table
    own[-1] += table
    return own


def footprint_of(config: Decoder, plan: Plan, capacity_bytes: float) -> Footprint:
    """Of ``plan`` on GPUs of ``capacity_bytes``."""
    stages = stages_of(config, plan.pipeline_parallel)
    table = config.vocabulary * config.hidden / plan.tensor_parallel
    own = parameters_of_stages(config, plan)
    fullest = max(range(len(stages)), key=lambda stage: own[stage])
    parameters = own[fullest]
    tables = table * ((fullest == 0) + (fullest == len(stages) - 1))
    routed = sum(_routed_share(config, plan, kind) for kind in stages[fullest])
    weight_bytes = (
        (parameters - tables - routed) * WEIGHT_BYTES[plan.dtype]
        + routed * WEIGHT_BYTES[plan.of_experts]
        + sum(_inward_parameters(config, kind) for kind in stages[fullest])
        / plan.tensor_parallel
        * (WEIGHT_BYTES[plan.of_attention] - WEIGHT_BYTES[plan.dtype])
        + tables * 2.0
    )
    training = 0.0
    if plan.phase == "train":
        weight_bytes = 2.0 * parameters
        training = parameters * _GRADIENT_BYTES + kept_parameters(config, plan) * _STATE_BYTES
        if plan.shares_weights:  # of weights and gradients a share, and two layers gathered, one in use and the next
            layer = (parameters - tables) / len(stages[fullest])
            weight_bytes = 2.0 * (2.0 * layer + tables)
            training = (parameters * (_GRADIENT_BYTES + _STATE_BYTES)) / plan.data_parallel
    return Footprint(
        weight_bytes, _kv_bytes(config, plan, stages[fullest]), _activation_bytes(config, plan, stages[fullest]), training, _framework_bytes(plan), capacity_bytes
    )  # fmt: skip


def _framework_bytes(plan: Plan) -> float:
    """Of the framework's own process, and of its collectives where its GPUs speak to each other."""
    alone = max(plan.tensor_parallel, plan.pipeline_parallel, plan.expert_parallel) == 1
    alone = alone and (plan.phase != "train" or plan.data_parallel == 1)
    framework = framework_of(plan)
    return framework.own_bytes + (0.0 if alone else framework.collective_bytes)


def _kv_bytes(config: Decoder, plan: Plan, stage: tuple[Kind, ...]) -> float:
    if plan.phase == "train":
        return 0.0
    tokens = plan.sequence + (plan.output if plan.phase == "request" else 0)
    each = 2.0 * kv_heads_of(config, plan.tensor_parallel) * config.head_dim
    if config.latent is not None:
        each = float(config.latent.key_rank + config.latent.rotary_dim)
    # The last page of a sequence is seldom full, one within which a window begins is kept whole.
    windowed = plan.served_by not in _WINDOWS_HELD_WHOLE
    held = sum(
        -(-min(tokens, (kind.window if windowed else 0) or tokens) // plan.page_tokens) * plan.page_tokens
        for kind in stage
        if not kind.linear
    )
    states = 0.0
    if config.linear is not None:
        states = sum(kind.linear for kind in stage) * state_bytes(config.linear) / plan.tensor_parallel
    return plan.replica_batch * (held * each * KV_BYTES[plan.kv_dtype] + states)


def _activation_bytes(config: Decoder, plan: Plan, stage: tuple[Kind, ...]) -> float:
    """In inference the widest layer's input, output and what lies between them (of experts the workspace of their
    kernels), and the logits; in training what all layers keep."""
    tp = plan.tensor_parallel
    tokens = max(load.tokens for load in steps_of(plan))
    if plan.phase == "train":
        whole, shared = _KEPT[plan.recompute]
        if plan.dtype == "fp8" and plan.recompute != "full":
            whole, shared = whole - _SPARED_FP8[0], shared - _SPARED_FP8[1]
        if plan.overlap == "products":  # which needs sequence parallelism: all is shared out over the GPUs of a layer
            whole, shared = 0.0, whole + shared
        # Stages in pieces keep more (Korthikanti et al., section 4.2.3).
        more = 1 + (plan.pipeline_parallel - 1) / (plan.pipeline_parallel * plan.virtual_stages) * (
            plan.virtual_stages > 1
        )
        under_way = min(plan.micro_batches, plan.pipeline_parallel * more)
        kept = under_way * tokens * config.hidden * len(stage) * (whole + shared / tp)
        if plan.scores == "eager" and plan.recompute == "none":
            # Scores before and behind softmax, and dropout's mask and result: five bytes each (the same equations).
            kept += under_way * 5.0 * tokens * plan.sequence * config.heads / tp * len(stage)
        return kept
    between = 6.0 * tokens * config.feed_forward / tp
    if config.experts is not None:
        between = max(between, _experts_workspace_bytes(config.hidden, config.experts, plan, tokens))
    ends = max(load.ends for load in steps_of(plan))
    return 6.0 * tokens * config.hidden + between + 6.0 * ends * config.vocabulary / tp


def _experts_workspace_bytes(hidden: int, experts: Experts, plan: Plan, tokens: int) -> float:
    """Of the kernels of experts, which set apart room for every choice of a step's tokens, of all replicas that share
    experts out, as if all fell on this GPU's: a row of the network's width in 16 bits beside what comes out of the
    first product, gate and up, or of the second (TensorRT-LLM, moe_kernels.cu, getWorkspaceDeviceBufferSizes; vLLM's
    fused_moe has the same two buffers for its own tokens)."""
    own = -(-experts.routed // plan.expert_parallel)
    choices = plan.meeting_tokens(tokens) * min(experts.per_token, own)
    return 2.0 * choices * (hidden + max(2.0 * experts.hidden / plan.experts_tensor_parallel, hidden))
