"""Predicted cycles of a team's tests, kept in a file and compared with those of another day.

Mental model: one :class:`Benchmark` a test, in a JSON file that a repository can hold. Two of the same test are
compared only where the same gpusim predicted them for the same GPU description: a change of method is said, and never
blamed on a kernel.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from gpusim.engine.result import Result
from gpusim.errors import ResultFileError
from gpusim.io.records import Count, NotNegative, parse_record
from gpusim.io.whole_file import replacing
from gpusim.store.hashes import gpu_hash, model_hash

FORMAT = "gpusim-benchmarks"


@dataclass(frozen=True)
class Benchmark:
    """What one test's launches cost together: ``cycles``, and ``time_us`` at the SM clock of ``gpu``; ``kernels`` in
    order of their launches; ``time_us_low`` and ``time_us_high``: the time's prediction interval, 0 in files of before
    there were any. ``gpu_hash`` and ``gpusim_hash`` identify the description and the code that predicted it."""

    test: str
    gpu: str
    cycles: Count
    time_us: NotNegative
    kernels: tuple[str, ...]
    gpu_hash: str
    gpusim_hash: str
    time_us_low: NotNegative = 0.0
    time_us_high: NotNegative = 0.0


@dataclass(frozen=True)
class BenchmarkFile:
    """The file: its ``format`` and ``version``, and its benchmarks."""

    format: Literal["gpusim-benchmarks"]
    version: Literal[1]
    benchmarks: tuple[Benchmark, ...]


@dataclass(frozen=True)
class Change:
    """A test's figure ``now`` beside the one ``before``; ``percent`` more cycles, or ``why_not``: what makes the two
    incomparable."""

    now: Benchmark
    before: Benchmark | None
    percent: float | None
    why_not: str = ""


def benchmark_of(test: str, result: Result) -> Benchmark:
    """What a file keeps of ``result``, the prediction for ``test``."""
    kernels = tuple(launch.kernel for launch in result.launches)
    hashes = gpu_hash(result.spec), model_hash()
    ends = result.interval.low_us, result.interval.high_us
    return Benchmark(test, result.gpu, int(result.cycles), result.time_us, kernels, *hashes, *ends)


def save_benchmarks(benchmarks: Iterable[Benchmark], path: Path) -> None:
    """Write ``benchmarks`` to ``path``, whole or not at all. Raises OSError."""
    rows = [asdict(each) for each in benchmarks]
    document: dict[str, Any] = {"format": FORMAT, "version": 1, "benchmarks": rows}
    with replacing(path) as stream:
        stream.write(json.dumps(document, indent=1).encode() + b"\n")


def load_benchmarks(path: Path) -> dict[str, Benchmark]:
    """The benchmarks of a file by their test. Raises ResultFileError for a file that is none, OSError."""
    found = parse_record(BenchmarkFile, path.read_bytes(), str(path), ResultFileError)
    return {each.test: each for each in found.benchmarks}


def changes(now: Sequence[Benchmark], before: dict[str, Benchmark]) -> list[Change]:
    """Each benchmark of ``now`` beside that of the same test in ``before``."""
    return [_change(each, before.get(each.test)) for each in now]


def _change(now: Benchmark, before: Benchmark | None) -> Change:
    if before is None:
        return Change(now, None, None, "new")
    if now.gpu != before.gpu:
        return Change(now, before, None, f"was on {before.gpu}")
    if now.gpu_hash != before.gpu_hash:
        return Change(now, before, None, f"the description of {now.gpu} changed")
    if now.gpusim_hash != before.gpusim_hash:
        return Change(now, before, None, "predicted by another gpusim")
    if not before.cycles:
        return Change(now, before, None, "was 0 cycles")
    return Change(now, before, 100 * (now.cycles / before.cycles - 1))
