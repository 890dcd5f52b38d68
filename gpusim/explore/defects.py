"""The property ``defects``: what the checks of :mod:`gpusim.sanitizer.findings` find in a workload's launches.

Mental model: a search over shapes finds the ones at which an index runs over or a barrier is left out; any finding is a
divergence, and more of them a larger one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpusim.cases.suite import capture_case, make_case
from gpusim.explore.own_properties import DEFECTS
from gpusim.explore.property import Outcome, Property
from gpusim.gpus.spec import GpuSpec
from gpusim.sanitizer.checks import CHECKS, parse_checks


class Defects(Property):
    """What the checks find in a workload's launches (:mod:`gpusim.sanitizer.findings`): any finding is a divergence."""

    name = "defects"
    asks = DEFECTS.asks
    options = DEFECTS.options

    def __init__(self, gpu: GpuSpec, checks: frozenset[str] = frozenset(CHECKS)) -> None:
        self.gpu, self.checks = gpu, checks

    @classmethod
    def make(cls, gpu: GpuSpec, options: Mapping[str, Any]) -> Defects:
        named = [name.strip() for name in str(options.get("checks") or ",".join(CHECKS)).split(",") if name.strip()]
        return cls(gpu, parse_checks(named))

    def depends_on(self) -> tuple[Any, ...]:
        return (tuple(sorted(self.checks)),)

    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        launches = capture_case(make_case(kernel, dict(shape), self.gpu), self.gpu, check=self.checks)
        found = [each for launch in launches for each in launch.trace.findings]
        if not found:
            return Outcome(0.0, "no findings")
        first = found[0]
        return Outcome(float(len(found)), f"{first.tool}: {first.what}, {first.count} times, {first.where}"[:200])
