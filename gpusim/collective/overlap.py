"""A computation and a collective at once, on the same SMs and the same DRAM.

Mental model: NCCL's channels take an SM each while they run; the computation has the rest, and both share DRAM's rate.
When one has ended the other goes on alone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Overlap:
    """``seconds`` until both are done; ``computation_seconds``, ``collective_seconds``: until each is."""

    seconds: float
    computation_seconds: float
    collective_seconds: float


def rates_together(
    computation_bytes_per_second: float, collective_bytes_per_second: float, sms: int, channels: int, dram_bytes_per_second: float
) -> tuple[float, float]:  # fmt: skip
    """Shares of their own speed at which both go while both run; ``*_bytes_per_second``: of DRAM, that each takes
    alone. Raises ValueError for a collective that takes all SMs."""
    if not 0 <= channels < sms:
        raise ValueError(f"{channels} channels on {sms} SMs leave the computation none")
    wanted = computation_bytes_per_second + collective_bytes_per_second
    shared = min(1.0, dram_bytes_per_second / wanted) if wanted else 1.0
    # What is bound by DRAM does not miss the SMs, what is bound by SMs misses a share of them.
    bound = min(1.0, computation_bytes_per_second / dram_bytes_per_second)
    return shared if bound > 0.5 else 1.0 - channels / sms, shared


def overlapped(
    computation_seconds: float, computation_bytes_per_second: float, collective_seconds: float, collective_bytes_per_second: float, sms: int, channels: int, dram_bytes_per_second: float
) -> Overlap:  # fmt: skip
    """Of both, begun together; see :func:`rates_together`."""
    computation_rate, collective_rate = rates_together(
        computation_bytes_per_second, collective_bytes_per_second, sms, channels, dram_bytes_per_second
    )
    computation, collective = computation_seconds / computation_rate, collective_seconds / collective_rate
    if computation <= collective:
        left = (collective - computation) * collective_rate
        return Overlap(computation + left, computation, computation + left)
    left = (computation - collective) * computation_rate
    return Overlap(collective + left, collective + left, collective)
