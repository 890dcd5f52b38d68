"""What of a product's operands L2 holds when its measured launch starts.

Mental model: the rows' collector goes over copies of the operands in turn, so that each launch finds those of another
one in L2; where all copies fit there, it finds its own.
"""

from __future__ import annotations

import math

from gpusim.gpus.spec import GpuSpec
from gpusim.tile.moe import MoeOp
from gpusim.tile.routing import expert_rows

#: Copies of the weights that SGLang's and vLLM's runs go over (TensorRT-LLM's: as many as fill L2, five at most), by
#: the README beside the rows.
COPIES = 6
#: Share of L2 that copies find again. Both halves of an A100's, an H100's and a B200's keep what the SMs near them read
#: (NVIDIA A100 whitepaper: each half caches data for its own GPCs), so half; on the learning half of an H100's 16-bit
#: rows the copies of the largest weights that are found take 0.6 of it, the smallest that are not 0.7.
KEPT = 0.6
#: Draws of a power law that runs of experts go over (collectors of all three frameworks, num_iter).
DRAWS = 5
#: Copies of TensorRT-LLM's runs at most, and of those of the other frameworks whether they copy the first operand too
#: (README).
_TRTLLM, _TRTLLM_COPIES, _COPIED_A = "trtllm", 5, ("sglang",)
#: Share of L2 that what a run goes over may take before a launch finds part of its operands no more, and from which it
#: finds nothing. Read off learning rows of 16-bit products that are projected 15 % apart cold and warm: on an A100 they
#: take as warm ones do up to 0.65 and as cold ones from 0.75, on an H100 up to 0.65 and from 0.8. On a B200, whose L2
#: is two dies', what goes over copies of weights is lost bit by bit (where it lies between a warm and a cold launch:
#: 0.1 at 0.25, 0.3 at 0.37, 0.7 from 0.45 to 0.7, 0.9 at 0.8, 335 rows), one operand that each launch reads again
#: (_FOUND_AGAIN) as on the others (0.1 up to 0.55, 0.3 at 0.7, 1.0 from 0.77; 83 rows). Why at these shares is not
#: known; L2 that replaces what was longest unused would lose all at once.
_FOUND = {"ampere": (0.6, 0.8), "hopper": (0.6, 0.85), "blackwell": (0.35, 0.85)}
_FOUND_AGAIN = _FOUND | {"blackwell": (0.6, 0.8)}


def weights_stay(spec: GpuSpec, weight_bytes: float) -> bool:
    """Whether a launch of the runs that went over copies finds its own weights in L2."""
    return COPIES * weight_bytes <= KEPT * spec.l2.total_bytes


def experts_stay(spec: GpuSpec, op: MoeOp) -> bool:
    """Whether a layer of experts that runs again and again finds the weights of those that it needs in L2. Runs of a
    power law go over DRAWS draws of it in turn, which need other experts each."""
    hit = len(expert_rows(op.tokens, op.experts, op.top_k, op.ep, op.distribution))
    if op.distribution != "balanced":
        hit = op.own_experts * (1.0 - (1.0 - min(1.0, hit / op.own_experts)) ** DRAWS)
    widths = 3 if op.gated else 2
    return hit * widths * op.format.b_bytes * op.hidden * op.intermediate / op.tp <= KEPT * spec.l2.total_bytes


def copies_of(spec: GpuSpec, framework: str, weight_bytes: float) -> int:
    """Of the weights, that a run of ``framework`` goes over, a launch for each in one graph."""
    l2_bytes = spec.l2.total_bytes
    if framework != _TRTLLM:
        return COPIES
    return 1 if weight_bytes > l2_bytes else min(_TRTLLM_COPIES, math.ceil(l2_bytes / weight_bytes))


def cold_shares(
    spec: GpuSpec, framework: str, a_bytes: float, weight_bytes: float, result_bytes: float
) -> tuple[float, float]:
    """Shares (0 to 1) of both operands of a product of 16 bits that a launch of ``framework``'s runs does not find in
    L2."""
    copies = copies_of(spec, framework, weight_bytes)
    if framework in _COPIED_A:
        both = _lost(spec, copies * (a_bytes + weight_bytes) + result_bytes, _FOUND[spec.generation])
        return both, both
    # One first operand, which each launch reads again, as the second where there is one of it.
    again = _FOUND_AGAIN[spec.generation]
    between_bytes = a_bytes + copies * weight_bytes + result_bytes
    return (
        _lost(spec, a_bytes + weight_bytes + result_bytes, again),
        _lost(spec, between_bytes, again if copies == 1 else _FOUND[spec.generation]),
    )


def _lost(spec: GpuSpec, between_bytes: float, found: tuple[float, float]) -> float:
    """Share of what was read so many bytes ago that L2 does not have; ``found``: shares of L2 up to which it has all
    and from which it has nothing."""
    least, most = found
    return min(1.0, max(0.0, (between_bytes / spec.l2.total_bytes - least) / (most - least)))
