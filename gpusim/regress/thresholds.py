"""When a difference between old and new counts, and which GPU both are of where nobody says."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_GPU = "h200"


@dataclass(frozen=True)
class Thresholds:
    """A difference counts when it exceeds ``percent`` of the old value and, for cycles, ``cycles``."""

    percent: float = 1.0
    cycles: int = 0

    def allowance(self, base: float, unit: str) -> float:
        """How far from ``base`` a value may be and still be the same."""
        share = self.percent / 100.0 * base
        return max(share, float(self.cycles)) if unit == "cycles" else share
