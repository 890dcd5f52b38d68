"""Most sequences and tokens of a step that TensorRT-LLM's benchmark gives its server, where whoever runs it gives none.

Mental model: it reckons what the memory of all GPUs of one server holds beside its weights and rounds up
(tensorrt_llm/bench/build/tuning.py, 1.0 to 1.2). With attention in parallel over replicas (experts shared out over
them) all of them are one server, and what comes out is each replica's: more sequences than it holds, and a step of more
tokens than its own memory would give. Weights and caches are taken at their sizes here. The benchmark counts elements
of a checkpoint's files, those of MXFP4 as 16 bits, and keys and values of every head where a latent is held
(dataclasses.py), which would let in fewer sequences than published rows of DeepSeek-R1 in NVFP4 and of GPT-OSS 120B on
an H200 had: projected so, they were up to 83 % too slow.
"""

from __future__ import annotations

import math

from gpusim.project.decoder import Decoder
from gpusim.project.footprint import parameters_of, routed_parameters_of
from gpusim.project.plan import KV_BYTES, WEIGHT_BYTES, Plan

_MOST_SEQUENCES, _MOST_TOKENS = 4096, 32768


def tuned(config: Decoder, plan: Plan, capacity_bytes: float, share: float) -> tuple[int, int]:
    """Sequences in progress at most, of a replica's pipeline stage turn, and new tokens of its step, on GPUs of
    ``capacity_bytes`` of which keys and values get ``share`` of what weights leave."""
    stages, replicas = plan.pipeline_parallel, max(1, plan.expert_parallel // plan.tensor_parallel)
    left = plan.tensor_parallel * replicas * stages * capacity_bytes - _weight_bytes(config, plan)
    elements = 2.0 * max(plan.tensor_parallel * replicas, config.kv_heads) * config.head_dim
    if config.latent is not None:
        elements = float(config.latent.key_rank + config.latent.rotary_dim)
    held = config.layers * elements * KV_BYTES[plan.kv_dtype] * (plan.sequence + plan.output)
    sequences = min(max(0.0, share * left / held), _MOST_SEQUENCES) / stages
    tokens = min(sequences * (1 + plan.sequence / plan.output), _MOST_TOKENS)
    step = 32 if sequences < 256 else 128 if sequences < 1024 else 256
    most = max(64, step * math.ceil(sequences / step))
    step = 256 if tokens < 4096 else 512 if tokens < 8192 else 1024
    return most, max(2048, step * math.ceil(tokens / step))


def _weight_bytes(config: Decoder, plan: Plan) -> float:
    """Of one copy."""
    everything, routed = parameters_of(config)[0], routed_parameters_of(config)
    tables = 2.0 * config.vocabulary * config.hidden
    rest = everything - tables - routed
    return 2.0 * tables + rest * WEIGHT_BYTES[plan.dtype] + routed * WEIGHT_BYTES[plan.of_experts]
