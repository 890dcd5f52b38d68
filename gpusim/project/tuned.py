"""Most sequences and tokens of a step that TensorRT-LLM's benchmark gives its server, where whoever runs it gives none.

Mental model: it reckons what the memory of all GPUs of one server holds beside its weights, counted as a checkpoint's file counts them, and rounds up (tensorrt_llm/bench/build/tuning.py and dataclasses.py, 1.0 to 1.2).
With attention in parallel over replicas (experts shared out over them) all of them are one server, and what comes out is each replica's: so it may be less than a replica's memory holds (DeepSeek's latent is taken
for keys and values of every head), or a step of more tokens than it would be by the replica's own memory.
"""

from __future__ import annotations

import math

from gpusim.project.decoder import Decoder
from gpusim.project.footprint import parameters_of, routed_parameters_of
from gpusim.project.plan import KV_BYTES, Plan

_MOST_SEQUENCES, _MOST_TOKENS = 4096, 32768
#: Bytes that it takes an element of a checkpoint's tensors for, and how many of these a weight has: two of 4 bits are an element, scales of blocks of 16 or 32 are elements of their own.
_ELEMENT_BYTES = {"fp8": 1.0, "fp8_block": 1.0, "nvfp4": 0.5}
_OTHER_BYTES = 2.0
_ELEMENTS = {"nvfp4": 0.5 + 1 / 16, "mxfp4": 0.5 + 1 / 32, "mxfp4_mxfp8": 0.5 + 1 / 32, "mxfp4_wo": 0.5 + 1 / 32}


def tuned(config: Decoder, plan: Plan, capacity_bytes: float, share: float) -> tuple[int, int]:
    """Sequences in progress at most, of a replica's pipeline stage turn, and new tokens of its step, on GPUs of ``capacity_bytes`` of which keys and values get ``share`` of what weights leave."""
    stages, replicas = plan.pipeline_parallel, max(1, plan.expert_parallel // plan.tensor_parallel)
    left = plan.tensor_parallel * replicas * stages * capacity_bytes - _checkpoint_bytes(config, plan)
    heads, dim = config.kv_heads, config.head_dim
    if config.latent is not None:
        heads, dim = config.heads, config.hidden // config.heads
    token_bytes = 2.0 * config.layers * max(plan.tensor_parallel * replicas, heads) * dim * KV_BYTES[plan.kv_dtype]
    requests = share * left / (token_bytes * (plan.sequence + plan.output))
    sequences = min(max(0.0, requests), _MOST_SEQUENCES) / stages
    tokens = min(sequences * (1 + plan.sequence / plan.output), _MOST_TOKENS)
    step = 32 if sequences < 256 else 128 if sequences < 1024 else 256
    most = max(64, step * math.ceil(sequences / step))
    step = 256 if tokens < 4096 else 512 if tokens < 8192 else 1024
    return most, max(2048, step * math.ceil(tokens / step))


def _checkpoint_bytes(config: Decoder, plan: Plan) -> float:
    """Elements of the tensors in a checkpoint's files, each of as many bytes as the format of most of them is taken to have."""
    everything, routed = parameters_of(config)[0], routed_parameters_of(config)
    tables = 2.0 * config.vocabulary * config.hidden
    rest = (everything - tables - routed) * _ELEMENTS.get(plan.dtype, 1.0)
    elements = tables + rest + routed * _ELEMENTS.get(plan.of_experts, 1.0)
    return elements * _ELEMENT_BYTES.get(plan.of_experts if config.experts is not None else plan.dtype, _OTHER_BYTES)
