"""The operators of a layer's linear attention on one GPU: a state of fixed size in place of keys and values
(Qwen3-Next; Hugging Face transformers, ``modeling_qwen3_next.py``)."""

from __future__ import annotations

from gpusim.project.decoder import Decoder, LinearAttention
from gpusim.project.load import Load
from gpusim.project.operator import Operator, normalisation, product, quantised, reduced
from gpusim.project.plan import Plan
from gpusim.tile.operators import GemmOp, MemoryOp, RecurrentOp

PART = "linear attention"


def linear_attention_of(config: Decoder, linear: LinearAttention, plan: Plan, load: Load) -> list[Operator]:
    """Of one layer. Heads are shared by the GPUs of a tensor-parallel group."""
    tokens, tp = load.tokens, plan.tensor_parallel
    key_heads, value_heads = linear.key_heads // tp, linear.value_heads // tp
    values = value_heads * linear.value_dim
    found = [
        normalisation(PART, tokens, config.hidden),
        *quantised(PART, tokens, config.hidden, plan),
        Operator(PART, "queries, keys, values, gates", product(tokens, (linear.channels + linear.values) // tp, config.hidden, plan)),
        # What decays and what is written, a number a head each, stay in 16 bits.
        Operator(PART, "decay and rate", GemmOp(tokens, 2 * value_heads, config.hidden, "bf16")),
    ]  # fmt: skip
    for group in load.groups:
        phase = "generation" if group.queries == 1 else "context"
        shape = {"phase": phase, "batch": group.sequences, "tokens": group.queries, "framework": plan.served_by, "cold": phase == "generation"}  # fmt: skip
        conv = RecurrentOp("conv", channels=linear.channels // tp, width=linear.conv_width, **shape)
        rule = RecurrentOp(
            "delta", key_heads=key_heads, value_heads=value_heads, key_dim=linear.key_dim, value_dim=linear.value_dim, **shape
        )  # fmt: skip
        found += [Operator(PART, "convolution", conv), Operator(PART, "gated delta rule", rule)]
    found += [
        Operator(PART, "gated normalisation", MemoryOp("norm", 4.0 * tokens * values, 2.0 * tokens * values)),
        *quantised(PART, tokens, values, plan),
        Operator(PART, "output", product(tokens, config.hidden, values, plan)),
    ]
    return found + reduced(PART, tokens, config.hidden, plan)


def state_bytes(linear: LinearAttention) -> float:
    """What a sequence keeps of a layer: the states in FP32, and the convolution's last tokens in 16 bits."""
    rule = 4.0 * linear.value_heads * linear.key_dim * linear.value_dim
    return rule + 2.0 * linear.channels * (linear.conv_width - 1)


def parameters_of_layer(config: Decoder, linear: LinearAttention) -> float:
    """Weights of a layer's linear attention."""
    into = linear.channels + linear.values + 2 * linear.value_heads
    return float(config.hidden * (into + linear.values) + linear.channels * linear.conv_width)
