"""Published points replayed on a description, each with what limited it, kept so that a run that was broken off goes
on.

Mental model: as ``gpusim compare --against published``, but the machine that replays remembers its last run, whose
limiter (of what ``gpusim simulate`` prints as *bound by*) is kept beside the value. A point is kept by the hash of
gpusim's source, the replay's, the description and the point.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpusim.compare.error import higher_is_faster
from gpusim.compare.replay import REPLAYS
from gpusim.compare.run import WatchedBench, as_measured
from gpusim.engine.result import tensor_formats
from gpusim.errors import GpusimError
from gpusim.gpus.spec import GpuSpec
from gpusim.io.progress import say
from gpusim.silicon.published import PublishedPoint

from . import kept

_REPLAYS = sorted((Path(__file__).parents[2] / "gpusim" / "compare").glob("replay*.py"))


@dataclass(frozen=True)
class Replayed:
    """``simulated`` in the point's unit; ``limiter``: what bound the run that it came from
    (:class:`gpusim.uncertainty.limiters.Limiter`);
    ``cpu_s``: processor seconds that it took when it was simulated; ``tensor``: formats of its products on tensor
    cores, joined by ``+``."""

    point: PublishedPoint
    simulated: float
    limiter: str
    cpu_s: float
    tensor: str

    @property
    def time_ratio(self) -> float:
        """Predicted over measured time, whatever the unit: above 1, the model is slow."""
        ratio = self.simulated / self.point.value
        return 1 / ratio if higher_is_faster(self.point.unit) else ratio


def replayed(spec: GpuSpec, points: Sequence[PublishedPoint], keeps_clock: bool = True) -> Iterator[Replayed]:
    """The points of one series on ``spec``, at the clocks of the measurements; one that fails is said and left out."""
    bench = WatchedBench(spec)
    for point in points:
        board = as_measured(spec, point)
        gpu = replace(board, clock_hz=point.sm_clock_mhz * 1e6) if keeps_clock else board
        key = kept.key_of(("replay", gpu, point.series, point.axes), _REPLAYS)
        found = kept.read_values(key)
        if found is None:
            bench.gpu = gpu
            begun = time.process_time()
            try:
                simulated = REPLAYS[point.series](bench, point)
            except GpusimError as error:
                say(f"{spec.name} {point.series} {point.point}: {error}")
                continue
            found = {"simulated": simulated, "limiter": str(bench.last[0].bound.limiter)}
            found["tensor"] = "+".join(
                sorted({name for each in bench.last[0].launches for name in tensor_formats(each)})
            )
            found[kept.CPU_S] = round(time.process_time() - begun, 2)
            kept.write_values(key, found)
        yield Replayed(point, found["simulated"], found["limiter"], found.get(kept.CPU_S, 0.0), found.get("tensor", ""))
