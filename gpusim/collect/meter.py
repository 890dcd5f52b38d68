"""What a collector tells monitoring: counters since it started, few enough for any monitoring system.

Mental model: numbers, and nothing of the libraries that expose them. Launches and time are by GPU and by kernel name,
of which the first MOST_KERNELS have a name of their own and all later ones are "other": a counter's label must stay
what it was. A batch that came again counts once, as in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gpusim.collect.ledger import Incoming
from gpusim.collect.totals import OTHER

#: A guess at what a monitoring system bears of one node: times eight GPUs, 1600 series of each counter.
MOST_KERNELS = 200


@dataclass(frozen=True)
class Sample:
    """A number now; ``counts``: it only grows. Units end the names, as Prometheus has them."""

    name: str
    help: str
    value: float
    counts: bool = True
    labels: tuple[tuple[str, str], ...] = ()


class Meter:
    """Counters, and gauges that are asked when somebody looks."""

    def __init__(self) -> None:
        self.dropped = 0
        self.gauges: list[tuple[str, str, bool, Callable[[], float]]] = []
        self._kernels: set[str] = set()
        self._launches: dict[tuple[str, str], float] = {}
        self._time_ns: dict[tuple[str, str], float] = {}

    def add(self, batches: Iterable[Incoming]) -> None:
        """Batches that are on the disk, and new."""
        for batch in batches:
            self.dropped += batch.dropped
            for total in batch.totals:
                key = (total.what.gpu, self._label(total.what.kernel))
                self._launches[key] = self._launches.get(key, 0) + total.weighted_launches
                self._time_ns[key] = self._time_ns.get(key, 0) + total.weighted_ns

    def samples(self) -> Iterator[Sample]:
        """All of them, those of one name together."""
        for key, launches in list(self._launches.items()):
            yield Sample("gpusim_launches", "Kernel launches collected", launches, labels=_labels(key))
        for key, time_ns in list(self._time_ns.items()):
            yield Sample(
                "gpusim_kernel_seconds",
                "Time of kernels on the GPU, where CUPTI told it",
                time_ns / 1e9,
                labels=_labels(key),
            )
        yield Sample("gpusim_dropped_launches", "Launches that found no room in their process", self.dropped)
        for name, text, counts, ask in self.gauges:
            yield Sample(name, text, ask(), counts)

    def _label(self, kernel: str) -> str:
        if kernel in self._kernels or (len(self._kernels) < MOST_KERNELS and kernel != OTHER):
            self._kernels.add(kernel)
            return kernel
        return OTHER


def _labels(key: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    return (("gpu", key[0]), ("kernel", key[1] or "unknown"))
