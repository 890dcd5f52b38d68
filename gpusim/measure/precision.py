"""How well a kernel's time is to be known before it is measured no longer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Precision:
    """When a case is known well enough: ``relative_half_width`` of each median's 95 % interval, from at least
    ``least_samples``; never more than ``most_samples``. The defaults are what verdicts of ``gpusim compare`` need
    to see 3 % and to keep still where nothing changed (tools/verdict_power.py)."""

    relative_half_width: float = 0.0035
    least_samples: int = 100
    most_samples: int = 800


DEFAULT_PRECISION = Precision()
