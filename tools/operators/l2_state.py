"""What of a product's operands L2 holds when its measured launch starts.

Mental model: the rows' collector goes over copies of the operands in turn, so that each launch finds those of another one in L2; where all copies fit there, it finds its own.
"""

from __future__ import annotations

from gpusim.gpus.spec import GpuSpec

#: Copies of the weights that SGLang's and vLLM's runs go over (TensorRT-LLM's: as many as fill L2, five at most), by the README beside the rows.
COPIES = 6
#: Share of L2 that copies find again. Both halves of an A100's, an H100's and a B200's keep what the SMs near them read (NVIDIA A100 whitepaper: each half caches data for its own GPCs), so half; on the learning half of an
#: H100's 16-bit rows the copies of the largest weights that are found take 0.6 of it, the smallest that are not 0.7.
KEPT = 0.6


def weights_stay(spec: GpuSpec, weight_bytes: float) -> bool:
    """Whether a launch of the runs that went over copies finds its own weights in L2."""
    return COPIES * weight_bytes <= KEPT * spec.l2.total_bytes
