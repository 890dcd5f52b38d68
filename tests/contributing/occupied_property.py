# tests/contributing/occupied_property.py
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from gpusim.explore.cover import cover
from gpusim.explore.property import Option, Outcome, Property
from gpusim.gpus.spec import GpuSpec


class Occupied(Property):
    """A launch with blocks enough for every SM keeps its SMs' warp slots as full as it was asked to."""

    name = "occupied"
    asks = "are as many warps resident as we ask for?"
    options: ClassVar[tuple[Option, ...]] = (
        Option("least_warps", "warps that an SM shall have on the average.", type=float, default=4.0),
    )

    def __init__(self, gpu: GpuSpec, least_warps: float) -> None:
        self.gpu, self.least_warps = gpu, least_warps

    @classmethod
    def make(cls, gpu: GpuSpec, options: Mapping[str, Any]) -> Self:
        return cls(gpu, float(options["least_warps"]))

    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        covered = cover(kernel, shape, self.gpu)
        launch = covered.result.launches[0]
        if launch.launch.blocks < self.gpu.sm_count:
            return Outcome(0.0, "too few blocks to say", covered.coverage)
        resident = launch.counters["sm__warps_active.sum"] / (launch.cycles * self.gpu.sm_count)
        detail = f"{resident:.1f} of {self.least_warps:g} warps an SM"
        return Outcome(min(0.0, resident / self.least_warps - 1.0), detail, covered.coverage)
