"""What a collective takes, and by what."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """``seconds`` of ``algorithm`` with ``protocol``, in which one GPU sends ``sent_bytes``."""

    seconds: float
    algorithm: str
    protocol: str
    sent_bytes: float
