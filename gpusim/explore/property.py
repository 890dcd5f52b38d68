"""What a property is: a number that should be zero for every workload, with the options that it asks for.

Mental model: a property measures how far a workload is from what should hold, as a signed share (+0.38: 38 % above);
beyond its threshold that is a divergence. Each is a small class that says by itself how it is made and which options it
has, so that the command line, a finding's file and a test make it from a mapping of plain texts and numbers, and so
that a property of another distribution needs no line of gpusim (:mod:`gpusim.explore.property_registry` finds them).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from gpusim.errors import ExecutionError, UsageError, WrongResultError
from gpusim.explore.coverage import Coverage
from gpusim.explore.option import Option, existing_file, existing_path
from gpusim.gpus.spec import GpuSpec

#: The divergence of a workload that did not run to its end.
NOT_COMPLETED = 10.0


@dataclass(frozen=True)
class Outcome:
    """``divergence``: signed share of what should be zero; ``detail``: the numbers behind it, one line; ``coverage``:
    what the workload exercised, empty where nothing was simulated."""

    divergence: float
    detail: str
    coverage: Coverage = field(default_factory=Coverage)


class Property(ABC):
    """The base of all properties: ``name``, ``asks`` (its question, one line), the ``threshold`` beyond which a
    divergence is a finding, and its ``options``."""

    name: str = ""
    asks: str = ""
    threshold: float = 0.0
    options: ClassVar[tuple[Option, ...]] = ()

    @classmethod
    def make(cls, gpu: GpuSpec, options: Mapping[str, Any]) -> Self:
        """The property on ``gpu``, from the values of its options by name. Raises UsageError, naming the option, where
        they do not do; this happens before any work."""
        # A class whose constructor takes more than the GPU overrides this method.
        return cls(gpu)  # pyright: ignore[reportCallIssue]

    @classmethod
    def complete(cls, options: Mapping[str, Any], gpu: str, settings: Sequence[str]) -> dict[str, Any]:
        """``options`` with what the property must know besides, to be kept in a finding: ``gpu`` and its ``settings``
        as the command line has them."""
        return dict(options)

    @abstractmethod
    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        """Run ``kernel`` at ``shape`` (complete). Raises UsageError for a shape that the kernel refuses."""

    def judge(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        """As :meth:`measure`; a workload that cannot be run to its end (a deadlock, an address outside every
        allocation), or whose result its own check finds wrong, is a divergence of :data:`NOT_COMPLETED` whatever the
        property asks. Raises UsageError for a shape that is refused."""
        try:
            return self.measure(kernel, shape)
        except (ExecutionError, WrongResultError) as error:
            return Outcome(max(NOT_COMPLETED, 2.0 * self.threshold), f"{type(error).__name__}: {error}")

    def lacks(self, kernel: str) -> str:
        """Why the property can check nothing at all on ``kernel``, with the remedy; empty where it can, as by
        default."""
        return ""

    def require(self, kernel: str) -> None:
        """Raise UsageError, naming property, kernel and remedy, where it can check nothing; asked before any work."""
        lacking = self.lacks(kernel)
        if lacking:
            raise UsageError(f"property {self.name} can check nothing on {kernel}: {lacking}")

    def shapes(self, kernel: str) -> list[dict[str, Any]] | None:
        """The only shapes of ``kernel`` that can be measured; None when any can."""
        return None

    def depends_on(self) -> tuple[Any, ...]:
        """What its answers follow from beside its options and the files that these name, as values whose ``repr`` is
        equal where they are: runs of a folder are used again only where nothing of it has changed."""
        return ()

    def fails(self, outcome: Outcome) -> bool:
        """Whether the outcome is a divergence."""
        return abs(outcome.divergence) > self.threshold


def share_above(value: float, reference: float) -> float:
    """Signed share by which ``value`` is above ``reference``."""
    if reference <= 0:
        raise UsageError("a launch of no cycles cannot be compared")
    return value / reference - 1.0


__all__ = ["NOT_COMPLETED", "Option", "Outcome", "Property", "existing_file", "existing_path", "share_above"]
