"""Simulated beside measured, experiment by experiment, with the parameters that each one isolates.

    python tools/calibrate.py [EXPERIMENT...] [--gpu a100_80gb --gpu gh200] [--every 4] [--set KEY=VALUE ...]

Mental model: a parameter of a GPU file is set from the experiment in which it alone matters (the L2's
latency from a chase inside L2, the block turnaround from blocks that do next to nothing), never from
the curve as a whole. ``--set`` tries a value without touching the file. Without arguments all
experiments of all GPUs that have measurements run, each on a few of its points; ``--every 1`` takes
them all. The last column is the signed error; each experiment closes with its mean absolute error.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from gpusim.compare.replay import REPLAYS
from gpusim.compare.replay_bench import Bench
from gpusim.errors import GpusimError
from gpusim.gpus import load_gpu, override_gpu
from gpusim.gpus.clock import at_clock
from gpusim.silicon.published import PublishedPoint, load_published

DEFAULT_GPUS = ("a100_80gb", "gh200", "h200")


@dataclass(frozen=True)
class Experiment:
    """Points of published series that isolate some parameters."""

    name: str
    parameters: tuple[str, ...]
    series: tuple[str, ...]
    where: Callable[[PublishedPoint], bool]


def _buffer(low_kib: float, high_kib: float) -> Callable[[PublishedPoint], bool]:
    return lambda m: low_kib <= m.axis("buffer_kib") <= high_kib


def _warps(low: int, high: int) -> Callable[[PublishedPoint], bool]:
    def chosen(m: PublishedPoint) -> bool:
        warps = -(-m.axis("block_threads") // 32) * m.axis("blocks_per_sm")
        return low <= warps <= high

    return chosen


def _footprint(low_kib: float, high_kib: float) -> Callable[[PublishedPoint], bool]:
    return lambda m: low_kib <= m.axis("footprint_kib") <= high_kib


STREAMS = ("stream_init", "stream_read", "stream_scale", "stream_triad", "stencil3", "stencil5")

EXPERIMENTS = (
    Experiment("chase_l1", ("l1.hit_latency_cycles",), ("pointer_chase",), _buffer(8, 130)),
    Experiment(
        "chase_l2_near",
        ("l2.hit_latency_ns", "crossbar.request_latency_ns", "crossbar.response_latency_ns"),
        ("pointer_chase",),
        _buffer(400, 16000),
    ),
    Experiment("chase_l2_far", ("l2.far_hit_extra_ns",), ("pointer_chase",), _buffer(25500, 38500)),
    Experiment(
        "chase_dram",
        ("dram.miss_latency_ns", "l2.far_miss_extra_ns"),
        ("pointer_chase",),
        _buffer(68000, 200000),
    ),
    Experiment(
        "block_rate",
        ("launch.block_turnaround_cycles", "launch.dispatch_interval_cycles"),
        ("stream_init",),
        _warps(1, 8),
    ),
    Experiment(
        "one_warp_latency",
        ("dram.row_miss_extra_ns", "pipes.special.latency_cycles"),
        ("stream_read", "stream_scale", "stream_triad"),
        _warps(1, 4),
    ),
    Experiment("dram_write", ("dram.efficiency",), ("stream_init",), _warps(36, 64)),
    Experiment(
        "dram_mixed",
        ("dram.read_write_turnaround_ns", "dram.write_high_entries", "dram.write_low_entries"),
        STREAMS[1:],
        _warps(48, 64),
    ),
    Experiment("stream_ramp", ("l1.miss_entries",), STREAMS, _warps(8, 48)),
    Experiment(
        "l2_bandwidth",
        ("l2.slice_bytes_per_ns", "l1.fill_bytes_per_cycle"),
        ("l2_read",),
        _footprint(4000, 20000),
    ),
    Experiment("l2_link", ("l2.partition_link_bytes_per_ns",), ("l2_read",), _footprint(24000, 60000)),
    Experiment("l2_dram", ("dram.efficiency",), ("l2_read",), _footprint(100000, 400000)),
    Experiment(
        "l1_stride",
        ("l1.tag_banks", "l1.bank_count", "l1.accept_interval_cycles"),
        ("l1_stride",),
        lambda m: True,
    ),
)


def run_experiment(experiment: Experiment, gpu: str, every: int, settings: list[str]) -> None:
    """Replay the experiment's points on one GPU and print them as they finish."""
    spec = override_gpu(load_gpu(gpu), settings)
    points = [m for m in load_published() if m.gpu == gpu and m.series in experiment.series and experiment.where(m)]
    if not points:
        return
    print(f"\n{experiment.name} on {spec.name}: {', '.join(experiment.parameters)}")
    errors = []
    benches: dict[str, Bench] = {}
    for m in points[:: max(1, every)]:
        bench = benches.setdefault(m.series, Bench(spec))
        bench.gpu = at_clock(override_gpu(spec, (*m.board, *settings)), m.sm_clock_mhz * 1e6)
        begun = time.perf_counter()
        try:
            simulated = REPLAYS[m.series](bench, m)
        except GpusimError as error:
            print(f"  {m.series} {m.point}: {type(error).__name__}: {error}")
            continue
        error_percent = 100 * (simulated / m.value - 1)
        errors.append(abs(error_percent))
        seconds = time.perf_counter() - begun
        print(
            f"  {m.series:13} {m.point:42} {simulated:10.5g} {m.value:10.5g} {m.unit:12} "
            f"{error_percent:+7.1f} %  ({seconds:.1f} s)",
            flush=True,
        )
    if errors:
        print(f"  mean absolute error {sum(errors) / len(errors):.1f} % over {len(errors)} points")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT")
    parser.add_argument("--gpu", action="append", help="GPU with measurements; may be repeated")
    parser.add_argument("--every", type=int, default=6, help="take every n-th point (default 6)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    known = {experiment.name: experiment for experiment in EXPERIMENTS}
    unknown = [name for name in options.experiments if name not in known]
    if unknown:
        parser.error(f"no experiment {unknown[0]!r}; there are {', '.join(known)}")
    try:
        for name in options.experiments or known:
            for gpu in options.gpu or DEFAULT_GPUS:
                run_experiment(known[name], gpu, options.every, options.set)
    except GpusimError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
