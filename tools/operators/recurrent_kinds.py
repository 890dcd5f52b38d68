"""Linear attention among the measured rows: the convolution before it and the gated delta rule, by framework.

The rows say heads; how many channels the convolution had follows from them in rows of the newer collector. In those of
TensorRT-LLM and of SGLang 0.5.10 times do not depend on the values' heads and come to no more than DRAM's rate with
2,048 channels, which is the keys' alone, so TensorRT-LLM's convolution is taken from the rows of Mamba2, whose times go
with their channels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from gpusim.gpus.spec import GpuSpec
from gpusim.tile.recurrent import RecurrentOp, project_recurrent, recurrent_kernel_of
from operators.kind import Kind

_DIM = 128
_KEYS_ALONE = ("0.5.10",)
_HEADS = ("batch_size", "seq_len", "num_k_heads", "num_v_heads")
_MAMBA = ("batch_size", "seq_len", "nheads", "d_state", "n_groups")
_MAMBA_HEAD = 64
_FIGURES = (
    "launch_ns", "start_cycles", "token_cycles", "chunk_cycles", "block_work_cycles", "token_work_cycles", "between_passes", "dram_share", "l2_rate_share", "l2_share",
)  # fmt: skip
_SOURCES = {
    "conv_context": "causal_conv1d_fn", "conv_generation": "causal_conv1d_update", "delta_context": "chunk_gated_delta_rule",
    "delta_generation": "fused_recurrent_gated_delta_rule_packed_decode",
}  # fmt: skip
#: What a framework's older or other kernels are called.
_OTHERS = {
    ("vllm", "delta_context", "h100"): "chunk_gated_delta_rule_flashinfer",
    ("trtllm", "delta_generation", "h100"): "fused_recurrent_gated_delta_rule",
    ("sglang", "delta_generation", "a100_80gb"): "fused_recurrent_gated_delta_rule",
}
_GPUS = {"vllm": ("h100",), "sglang": ("h100", "a100_80gb"), "trtllm": ("h100",)}


def _channels(row: Any) -> int:
    if hasattr(row, "nheads"):
        return int(row.nheads) * _MAMBA_HEAD + 2 * int(row.n_groups) * int(row.d_state)
    keys = 2 * int(row.num_k_heads) * _DIM
    return keys // 2 if row.version in _KEYS_ALONE else keys + int(row.num_v_heads) * _DIM


def _seconds(kind: str, phase: str, framework: str) -> Callable[[GpuSpec, Any, Any], float]:
    def seconds(spec: GpuSpec, row: Any, library: Any) -> float:
        batch, tokens = int(row.batch_size), int(row.seq_len)
        if kind == "conv":
            op = RecurrentOp("conv", phase, batch, tokens, channels=_channels(row), framework=framework)
        else:
            heads = int(row.num_k_heads), int(row.num_v_heads)
            op = RecurrentOp("delta", phase, batch, tokens, key_heads=heads[0], value_heads=heads[1], framework=framework)  # fmt: skip
        return project_recurrent(spec, op, library).seconds

    return seconds


def _states_bytes(kind: str) -> Callable[[pd.DataFrame], Any]:
    def size(table: pd.DataFrame) -> Any:
        if kind == "delta":
            return 4.0 * table.batch_size * table.num_v_heads * _DIM * _DIM
        return 4.0 * 3 * table.batch_size * pd.Series([_channels(row) for row in table.itertuples()], table.index)

    return size


def _kind(framework: str, kernel: str) -> Kind:
    kind, phase = kernel.split("_")
    of_mamba = framework == "trtllm" and kind == "conv"
    sources = {gpu: _OTHERS.get((framework, kernel, gpu), _SOURCES[kernel]) for gpu in _GPUS[framework]}
    if kernel == "delta_context":
        sources.pop("a100_80gb", None)
    return Kind(
        _MAMBA if of_mamba else _HEADS, {"framework": (framework,), "phase": (phase,), "kernel_source": tuple({_SOURCES[kernel], *sources.values()})}, sources,
        (lambda table: table.seq_len) if phase == "context" else _states_bytes(kind), _seconds(kind, phase, framework),
        lambda generation: recurrent_kernel_of(generation, framework, kernel), _FIGURES,
    )  # fmt: skip


def _name(framework: str, kernel: str) -> str:
    return kernel + f"_{framework}" * (framework != "vllm")


RECURRENT_KINDS = {_name(framework, kernel): _kind(framework, kernel) for framework in _GPUS for kernel in _SOURCES}
RECURRENT_FILES = {
    _name(framework, kernel): "mamba2" if framework == "trtllm" and kernel.startswith("conv") else "gated_delta_net"
    for framework in _GPUS
    for kernel in _SOURCES
}
