"""Several launches one after the other as one projection.

Mental model: an operator of a model is often several kernels; its time is their sum, and so is all that they move. It
is validated by its own measurements, not by its parts'.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpusim.tile.projection import Projection


def joined(
    operator: str, parts: Sequence[Projection], factor: float, validated: bool, reason: str, extra_seconds: float = 0.0
) -> Projection:
    """The sum of ``parts``, and of ``extra_seconds`` that none of them has, within ``factor``; limited by what limits
    the longest of them."""
    seconds = extra_seconds + sum(each.seconds for each in parts)
    longest = max(parts, key=lambda each: each.seconds)
    return Projection(
        operator=operator, gpu=longest.gpu, seconds=seconds, low_seconds=seconds / factor, high_seconds=seconds * factor,
        validated=validated, reason=reason, limiter="launch" if extra_seconds > seconds / 2 else longest.limiter,
        dtype=longest.dtype or next((each.dtype for each in parts if each.dtype), ""),
        flops=sum(each.flops for each in parts),
        executed_flops=sum(max(each.flops, each.executed_flops) for each in parts), vector_flops=sum(each.vector_flops for each in parts),
        dram_bytes=sum(each.dram_bytes for each in parts), l2_bytes=sum(each.l2_bytes for each in parts),
        started_blocks=sum(each.started_blocks for each in parts), launches=sum(each.launches for each in parts),
    )  # fmt: skip
