"""What a comparison of old and new says of one launch, and when a difference counts."""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.compare.error import Verdict
from gpusim.io.percent import signed_percent
from gpusim.regress.attribution import Attribution
from gpusim.regress.comparand import ComparedLaunch
from gpusim.regress.gpu_changes import FigureChange, Step
from gpusim.regress.thresholds import Thresholds

MEASURED = "measured"
SIMULATED = "simulated"


@dataclass(frozen=True)
class UnitChange:
    """The least cycles that ``unit`` needs, old and new."""

    unit: str
    base: float
    head: float


@dataclass(frozen=True)
class Outcome:
    """A launch in both runs, or in one (then ``base`` or ``head`` is None). ``kind``: simulated or measured; ``gpu``:
    one name, or ``OLD to NEW``; ``unit``: cycles or us. ``causes``: what is not the same on both sides (machine code,
    GPU, gpusim's model, launch). ``attribution``, ``figures``, ``steps`` and ``units`` say where the difference comes
    from; measurements have none. ``state``: of a measurement, the caches' and the method."""

    kind: str
    kernel: str
    shape: str
    launch: int
    gpu: str
    unit: str
    base: float | None
    head: float | None
    verdict: Verdict
    reason: str
    causes: tuple[str, ...] = ()
    items: tuple[ComparedLaunch, ComparedLaunch] | None = None
    attribution: Attribution | None = None
    figures: tuple[FigureChange, ...] = ()
    steps: tuple[Step, ...] = ()
    units: tuple[UnitChange, ...] = ()
    state: str = ""

    @property
    def name(self) -> str:
        """The launch in one text: ``kernel:shape[#index]``; if measured, with that before it and how behind it."""
        text = f"{self.kernel}:{self.shape}" if self.shape else self.kernel
        text += f"#{self.launch}" if self.launch else ""
        if self.kind == SIMULATED:
            return text
        return f"{self.kind} {text} ({self.state})" if self.state else f"{self.kind} {text}"

    @property
    def cycles_grown(self) -> int | None:
        """Cycles that a simulated HEAD has more, which every split adds up to."""
        return None if self.items is None else self.items[1].record.cycles - self.items[0].record.cycles

    @property
    def change_percent(self) -> float | None:
        """Signed change; positive is slower."""
        if self.base is None or self.head is None:
            return None
        return 100.0 * (self.head - self.base) / self.base if self.base else 0.0


def against(before: float, after: float, thresholds: Thresholds, unit: str) -> tuple[Verdict, str]:
    """Verdict and reason of two values that are exact."""
    change = after - before
    allowance = thresholds.allowance(before, unit)
    percent = signed_percent(100.0 * change / before, ".2f") if before else "no time before"
    if abs(change) <= allowance:
        return Verdict.SAME, "equal" if not change else f"{percent}, within {allowance:.6g} {unit}"
    verdict = Verdict.SLOWER if change > 0 else Verdict.FASTER
    return verdict, f"{percent}, beyond {allowance:.6g} {unit}"
