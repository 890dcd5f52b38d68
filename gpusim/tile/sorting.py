"""Sorting logits: what drawing among the most probable tokens costs where a framework has no kernel of its own for it.

Mental model: to keep the tokens of top-k or top-p PyTorch sorts each sequence's logits over the whole vocabulary (vLLM
before its own kernels: ``apply_top_k_top_p``), a radix sort of keys and indices that moves each key so often that it
takes all SMs many cycles a key, whatever the network. Before it stands a chain of launches that small batches do not
fill; from 128 rows on PyTorch takes a sort of segments, one a row, which large batches alone fill. TensorRT-LLM's
engines of 2024 go over each sequence's logits by one block or eight, so that few sequences take as long as their
vocabulary is.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.bands import operator_band
from gpusim.tile.library import kernels_of
from gpusim.tile.machine import tile_machine
from gpusim.tile.projection import Projection

#: Published times of vLLM's sampler in PyTorch. GB200, 160,000 logits, top-k (vllm-project/vllm, pull request 54502):
#: 270, 428 and 746 us of 16, 32 and 64 rows, 2.20 and 10.03 ms of 128 and 1,024: 17.1 cycles a key, 19.4 of few rows. A
#: GPU that is not said, 131,072 logits (its pull request 40376): 0.80, 2.04 and 5.47 ms of 64, 128 and 512 rows for
#: top-k (17.9 cycles, 21.4 of few, if it is an H100: that it is one is a guess), 1.00, 2.30 and 6.15 for top-p, which
#: goes over the sorted logits besides.
_CHAIN_SECONDS = 110e-6
#: Rows from which PyTorch sorts segments (aten/src/ATen/native/cuda/Sort.cu), and what they take however few.
_SEGMENT_ROWS, _SEGMENTS_SECONDS = 128, 1.0e-3
_CYCLES_A_KEY, _CYCLES_A_KEY_OF_FEW = 17.3, 20.0
#: Passes over logits in FP32 beside the sort: eight for softmax, running sum, mask and the way back to the vocabulary's
#: order (1.28 us a row of 131,072 between top-p and top-k, at an H100's DRAM), and another eight that PyTorch's kernels
#: take more than one fused kernel to bring logits to FP32, divide them by temperatures, and draw by exponential numbers
#: (vllm/v1/sample/sampler.py and ops/topk_topp_sampler.py of 0.11, counted).
_PASSES, _LOGIT_BYTES = 16, 4.0
#: Cycles that a token of the vocabulary takes engines that draw by few blocks, and more of each sequence. Static
#: batches of LLM-Inference-Bench on H100s (traces/library/published_runs.csv, llm-inference-bench-trtllm, learning rows
#: of 128 tokens) lack what grows with the vocabulary, however many GPUs share the network: 0.25 ms of one sequence at
#: 32,000 tokens, 0.45 at 128,256, 0.61 at 152,064, and 1.04, 1.44 and 1.77 of 64: 3.0 ns a token of it and 0.05 more of
#: each sequence.
_CYCLES_A_LOGIT, _MORE_CYCLES_A_LOGIT = 5.9, 0.10


def _refuse_sizes(what: str, **sizes: int) -> None:
    """Raises SpecError for one that is none."""
    for name, size in sizes.items():
        if not 1 <= size < 1 << 31:
            raise SpecError(f"a {what}'s {name} are {size}, not between 1 and {(1 << 31) - 1}")


@dataclass(frozen=True)
class SortOp:
    """``rows`` of ``columns`` logits each, in FP32, of which the most probable stay."""

    rows: int
    columns: int

    def __post_init__(self) -> None:
        _refuse_sizes("sort", rows=self.rows, columns=self.columns)


def project_sort(spec: GpuSpec, op: SortOp, limit_watts: float | None = None) -> Projection:
    """Time of ``op`` on ``spec``, all its launches. ``limit_watts`` changes nothing: a sort is far from any board's
    limit."""
    del limit_watts
    machine = tile_machine(spec, "fp16")
    keys = float(op.rows) * op.columns
    few = op.rows < _SEGMENT_ROWS
    a_key = (_CYCLES_A_KEY_OF_FEW if few else _CYCLES_A_KEY) / (machine.sm_count * machine.clock_hz)
    passed_bytes = _PASSES * _LOGIT_BYTES * keys
    start = _CHAIN_SECONDS if few else _SEGMENTS_SECONDS
    seconds = start + keys * a_key + passed_bytes / (machine.dram_bytes_per_cycle * machine.clock_hz)
    band = operator_band("sampling", kernels_of(spec), _LOGIT_BYTES * keys)
    return Projection(
        operator=f"sort of {op.rows} x {op.columns} logits", gpu=spec.name, seconds=seconds, low_seconds=seconds / band.factor,
        high_seconds=seconds * band.factor, validated=band.validated, reason=band.reason, limiter="launch" if start > seconds / 2 else "L2",
        dram_bytes=passed_bytes, l2_bytes=passed_bytes,
    )  # fmt: skip


@dataclass(frozen=True)
class DrawOp:
    """A token drawn of each of ``rows`` sequences, of ``columns`` logits each, by few blocks a sequence."""

    rows: int
    columns: int

    def __post_init__(self) -> None:
        _refuse_sizes("draw", rows=self.rows, columns=self.columns)


def project_draw(spec: GpuSpec, op: DrawOp, limit_watts: float | None = None) -> Projection:
    """Time of ``op`` on ``spec``. ``limit_watts`` changes nothing: most SMs stand idle."""
    del limit_watts
    machine = tile_machine(spec, "fp16")
    moved_bytes = _LOGIT_BYTES * op.rows * op.columns
    cycles = op.columns * (_CYCLES_A_LOGIT + _MORE_CYCLES_A_LOGIT * op.rows)
    seconds = max(cycles, moved_bytes / machine.dram_bytes_per_cycle) / machine.clock_hz
    band = operator_band("sampling", kernels_of(spec), moved_bytes)
    return Projection(
        operator=f"drawing of {op.rows} of {op.columns} tokens", gpu=spec.name, seconds=seconds, low_seconds=seconds / band.factor,
        high_seconds=seconds * band.factor, validated=band.validated, reason=band.reason, limiter="launch",
        dram_bytes=moved_bytes, l2_bytes=moved_bytes,
    )  # fmt: skip
