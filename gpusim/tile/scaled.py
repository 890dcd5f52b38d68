"""llama.cpp's products of weights in blocks with scales: on tensor cores of 8 bits, or, of few rows, without.

Mental model: operands are multiplied in 8 bits, 32 of the depth at a time, and each such sum is converted, scaled and
added up by the SM's FP32 lanes. So an SM's rate is the longer of what it can issue around its tensor cores and what the
scaling takes of its lanes, and hardly depends on how fast the tensor cores are. Up to eight rows a kernel without
tensor cores goes over the weights.
"""

from __future__ import annotations

from dataclasses import replace

from gpusim.gpus.spec import GpuSpec
from gpusim.tile.library import SCALED_DEPTH, Library, kernels_of, library_of
from gpusim.tile.machine import fma_lanes

#: The row of ``library.toml``, and its beginning of the kernel of few rows (ggml/src/ggml-cuda/mmvq.cuh,
#: MMVQ_MAX_BATCH_SIZE).
SCALED, _OF_FEW_ROWS, _FEW_ROWS = "ggml", "ggml_vector", 8


def scaled_library(spec: GpuSpec, rows: int) -> Library:
    """Whose kernels multiply ``rows`` activations with such weights on ``spec``."""
    if rows <= _FEW_ROWS:
        return library_of(kernels_of(spec), _OF_FEW_ROWS)
    found = library_of(kernels_of(spec), SCALED)
    # An SM's products and its scaling take turns in the warps of one block.
    of_scaling = found.scaling_lanes / (2 * SCALED_DEPTH * fma_lanes(spec))
    return replace(found, issued_flops_per_cycle=1.0 / (1.0 / found.issued_flops_per_cycle + of_scaling))
