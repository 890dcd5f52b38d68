"""A case whose kernels were made otherwise: by another compiler, from the same source.

Mental model: a case is launches and a check; the launches stay as they are but for the kernel, and the check says
whether what the other compiler made still computes the right thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpusim.bisect.reading import Reading, reading_of
from gpusim.cases.case_forms import CaseLaunch
from gpusim.cases.run_case import run_made
from gpusim.cases.source import NamedTrace, launch_records, least_cycles
from gpusim.engine.gpu import simulate
from gpusim.gpus.spec import GpuSpec
from gpusim.store.hashes import gpu_values

Replace = Callable[[Any], Any]


class _Launches:
    """Those of a case with other kernels, taken one by one: a generator's next launch may depend on the one before."""

    def __init__(self, launches: Any, replace: Replace) -> None:
        self._launches, self._replace = launches, replace

    def __iter__(self) -> Iterator[CaseLaunch]:
        for each in self._launches:
            yield CaseLaunch(
                self._replace(each.kernel), each.grid, each.block, each.args, each.shared_bytes, each.timed,
                getattr(each, "cluster", None),
            )  # fmt: skip

    def __getitem__(self, place: int) -> CaseLaunch:
        return list(self)[place]


class RebuiltCase:
    """``case`` with ``replace(kernel)`` in the place of each kernel."""

    def __init__(self, case: Any, replace: Replace) -> None:
        self._case = case
        self.launches = _Launches(case.launches, replace)

    @property
    def check(self) -> Callable[[], None] | None:
        """The case's own."""
        return getattr(self._case, "check", None)

    @property
    def work(self) -> Mapping[str, float]:
        """The case's own."""
        return getattr(self._case, "work", None) or {}


def simulated_reading(case: Any, name: str, shape: str, spec: GpuSpec, facts: Mapping[str, str]) -> Reading:
    """The reading of a made case, captured, checked and simulated here. Raises what these do."""
    ran = run_made(case, name, spec)
    timed = [launch.trace for launch in ran.launches if launch.timed]
    warm = [launch.trace for launch in ran.launches if not launch.timed]
    named = [NamedTrace(trace, name, shape, index) for index, trace in enumerate(timed)]
    result = simulate(timed, spec, warm=warm)
    bounds = [least_cycles(timed, index, spec, warmed=bool(warm)) for index in range(len(timed))]
    records = launch_records(result, named, bounds)
    return reading_of(records, {record.gpu_hash: gpu_values(spec) for record in records}, facts, ran.why_unchecked)
