"""Is the term that a gap is laid at the right one? One cost of a machine is changed in secret, two dozen kernels are
"measured" on it, and the decomposition, which knows the described machine alone, must name the unit.

    python tools/gap_check.py [--gpu h200] [--noise 0.5] [--format table|json|csv|md]

Mental model: the machine is a GPU cut down to a few SMs, its L2 and memory with it, so that small launches meet every
limit. What is changed are single figures of the description, not the unit costs of :mod:`gpusim.compare.unit_costs`
(which turn whole groups), and measurements get noise. ``first``: the expected unit explains most; ``named``: it is
among the units named;
``alternative``: it stands beside one of them as explaining the gaps nearly as well; ``unseen``: launches move by less
than UNSEEN_PERCENT in the mean, which noise hides, and nothing is named; else the attribution is wrong.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from gpusim.cases.suite import parse_request
from gpusim.compare.case_simulator import CaseSimulator
from gpusim.compare.gap import Decomposition, GapCase, decompose
from gpusim.frontend.toolchain_versions import toolchain
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.report.tables import FORMATS, format_records
from gpusim.silicon.row import SiliconRow

#: Each kind of behaviour once or twice; some ten thousand warp instructions each.
KERNELS = (
    "pointer_chase:buffer_kib=16,loads=512",
    "pointer_chase:buffer_kib=1024,loads=256",
    "pointer_chase:buffer_kib=16384,loads=128",
    "stream_triad:n=65538,block_threads=256",
    "stencil3:n=65538,block_threads=256",
    "l1_stride:width_or_stride=8,iterations=16",
    "saxpy:n=65536",
    "saxpy:n=2048",
    "reduce_sum:n=32768",
    "transpose:rows=256,columns=256",
    "matmul_tiled:m=64,n=64,k=64",
    "softmax:rows=64,columns=512",
    "layernorm:rows=64,columns=512",
    "histogram:n=16384",
    "spmv_csr:rows=1024",
    "nbody:n=512",
    "bitonic_sort:n=4096",
    "stencil2d:rows=128,columns=128",
    "mandelbrot:rows=64,columns=64,limit=64",
    "l2_atomics:stride=0",
    "l2_atomics:stride=1",
    "pipe_latency:op=ffma,rounds=16",
    "pipe_throughput:op=ffma",
    "pipe_throughput:op=mufu_ex2",
    "shuffle:mode=xor",
    "barrier:block_threads=1024",
    "bank_conflicts:stride=32",
    "shared_chase",
    "constant_cache:addresses=1",
    "instruction_cache:body_instructions=2048",
)


#: A change that moves launches by less in the mean is one that these kernels do not show: it is as small as the noise.
UNSEEN_PERCENT = 0.5


@dataclass(frozen=True)
class Injection:
    """A secret change and the units that a right answer names."""

    name: str
    expected: tuple[str, ...]
    gpu: Callable[[GpuSpec], GpuSpec] = lambda spec: spec
    program: Callable = lambda program: program


def _part(part: str, **factors: float) -> Callable[[GpuSpec], GpuSpec]:
    """Figures of one section of the description, times factors; whole numbers stay whole."""

    def change(spec: GpuSpec) -> GpuSpec:
        old = getattr(spec, part)
        new = {}
        for name, factor in factors.items():
            value = getattr(old, name)
            new[name] = max(1, round(value * factor)) if isinstance(value, int) else value * factor
        return replace(spec, **{part: replace(old, **new)})

    return change


def _pipe_figures(**factors: float) -> Callable[[GpuSpec], GpuSpec]:
    def change(spec: GpuSpec) -> GpuSpec:
        pipes = dict(spec.pipes)
        for name in ("fma", "alu"):
            old = pipes[name]
            pipes[name] = replace(
                old, **{figure: round(getattr(old, figure) * factor) for figure, factor in factors.items()}
            )
        return replace(spec, pipes=pipes)

    return change


def _both(*changes: Callable[[GpuSpec], GpuSpec]) -> Callable[[GpuSpec], GpuSpec]:
    def change(spec: GpuSpec) -> GpuSpec:
        for each in changes:
            spec = each(spec)
        return spec

    return change


INJECTIONS = (
    Injection("nothing", ()),
    Injection("l2.hit_latency_ns x 2", ("L2 latency",), _part("l2", hit_latency_ns=2)),
    Injection("crossbar latencies x 1.5", ("L2 latency",), _part("crossbar", request_latency_ns=1.5, response_latency_ns=1.5)),
    Injection("l2.hit_latency_ns x 0.5", ("L2 latency",), _part("l2", hit_latency_ns=0.5)),
    Injection("l2.slice_bytes_per_ns / 2", ("L2 bandwidth",), _part("l2", slice_bytes_per_ns=0.5)),
    Injection("atomics x 2", ("L2 atomics",), _part("l2", atomic_interval_ns=2, atomic_sector_ns=2)),
    Injection("dram.peak_bytes_per_ns / 1.5", ("DRAM bandwidth",), _part("dram", peak_bytes_per_ns=1 / 1.5)),
    Injection("dram.efficiency x 0.7", ("DRAM bandwidth",), _part("dram", efficiency=0.7)),
    Injection("dram.peak_bytes_per_ns x 1.5", ("DRAM bandwidth",), _part("dram", peak_bytes_per_ns=1.5)),
    Injection("dram.miss_latency_ns x 1.5", ("DRAM latency",), _part("dram", miss_latency_ns=1.5)),
    Injection("launch.start_cycles x 3", ("launch overhead",), _part("launch", start_cycles=3)),
    Injection("launch.block_turnaround_cycles x 4", ("block start",), _part("launch", block_turnaround_cycles=4)),
    Injection("pipes fma, alu: interval x 2", ("execution pipes",), _pipe_figures(interval_cycles=2)),
    Injection("every stall count + 1", ("issue",), program=lambda program: _longer_stalls(program)),
    Injection("l1.hit_latency_cycles x 1.5", ("L1 and shared latency",), _part("l1", hit_latency_cycles=1.5)),
    Injection("l1.shared_latency_cycles x 1.6", ("L1 and shared latency",), _part("l1", shared_latency_cycles=1.6)),
    Injection("l1.accept_interval_cycles x 2", ("L1 and shared throughput",), _part("l1", accept_interval_cycles=2)),
    Injection("l1.fill_bytes_per_cycle / 4", ("crossbar ports",), _part("l1", fill_bytes_per_cycle=0.25)),
    Injection("l1.miss_entries / 4", ("L1 miss entries",), _part("l1", miss_entries=0.25)),
    Injection("l1.barrier_latency_cycles x 3", ("barriers",), _part("l1", barrier_latency_cycles=3)),
    Injection("tlb.miss_ns x 8", ("address translation",), _part("tlb", miss_ns=8)),
    Injection(
        "instruction caches' misses x 2", ("instruction caches",), _part("instruction_cache", l0_miss_cycles=2, l1_miss_cycles=2)
    ),
    Injection("constant_cache.miss_cycles x 2.5", ("constant caches",), _part("constant_cache", miss_cycles=2.5)),
    Injection(
        "l2.hit_latency_ns x 1.6, dram.peak / 1.4", ("L2 latency", "DRAM bandwidth"),
        _both(_part("l2", hit_latency_ns=1.6), _part("dram", peak_bytes_per_ns=1 / 1.4)),
    ),
    Injection(
        "launch.start x 2.5, pipes' interval x 2", ("launch overhead", "execution pipes"),
        _both(_part("launch", start_cycles=2.5), _pipe_figures(interval_cycles=2)),
    ),
)  # fmt: skip


def _longer_stalls(program):
    code = program.instructions.copy()
    code["stall_cycles"] = np.where(code["stall_cycles"] > 0, np.minimum(code["stall_cycles"] + 1, 15), 0)
    return replace(program, instructions=code)


def cut_down(spec: GpuSpec, sms: int) -> GpuSpec:
    """The GPU with ``sms`` SMs, and as much less of L2 and of bandwidth."""
    share = sms / spec.sm_count
    l2 = replace(
        spec.l2,
        slice_bytes_per_ns=spec.l2.slice_bytes_per_ns * share,
        slice_write_bytes_per_ns=spec.l2.slice_write_bytes_per_ns * share,
        partition_link_bytes_per_ns=spec.l2.partition_link_bytes_per_ns * share,
    )
    dram = replace(spec.dram, peak_bytes_per_ns=spec.dram.peak_bytes_per_ns * share)
    return replace(spec, sm_count=sms, l2=l2, dram=dram)


def check(
    injection: Injection, simulator: CaseSimulator, launches: list, noise_percent: float, seed: int
) -> tuple[dict, Decomposition]:
    """One row of the table, and the decomposition that it is of."""
    secret = simulator.on(injection.gpu(simulator.spec), injection.program)
    random = np.random.default_rng(seed)
    cases, moved = [], []
    for launch in launches:
        row = SiliconRow(launch.kernel, launch.shape, method="ncu", cache="cold")  # all caches empty, instructions' too
        measured = secret.cycles(row, launch, simulator.spec.clock_hz)
        moved.append(100 * abs(measured / simulator.cycles(row, launch, simulator.spec.clock_hz) - 1))
        cases.append(
            GapCase(
                row, launch, measured * float(np.exp(random.normal(0, noise_percent / 100))), simulator.spec.clock_hz
            )
        )
    found = decompose(cases, simulator)
    named = [finding.unit for finding in found.findings]
    weight = {
        unit: sum(
            abs(t.cycles) / c.measured
            for terms, c in zip(found.terms, cases, strict=True)
            for t in terms
            if t.name == unit
        )
        for unit in named
    }
    order = sorted(named, key=lambda unit: -weight[unit])
    beside = {name for finding in found.findings for name in finding.alternatives}
    if not injection.expected:
        verdict = "right" if not named else "wrong"
    elif set(order[: len(injection.expected)]) == set(injection.expected):
        verdict = "first"
    elif set(injection.expected) <= set(named):
        verdict = "named"
    elif np.mean(moved) < UNSEEN_PERCENT and not named:
        verdict = "unseen"
    else:
        verdict = "alternative" if set(injection.expected) <= {*named, *beside} else "wrong"
    record = {
        "changed": injection.name,
        "moves_percent": float(np.mean(moved)),
        "expected": ", ".join(injection.expected) or "-",
        "verdict": verdict,
        "named": ", ".join(f"{f.unit} x {f.factor:.2f}" for f in sorted(found.findings, key=lambda f: -weight[f.unit]))
        or "-",
        "error_before_percent": found.mape_before_percent,
        "error_after_percent": found.mape_after_percent,
    }
    return record, found


@click.command()
@click.option("--gpu", default="h200", show_default=True)
@click.option("--sms", default=8, show_default=True, help="SMs of the cut-down GPU.")
@click.option("--noise", default=0.5, show_default=True, help="Standard deviation of the measurements, percent.")
@click.option("--seed", default=1, show_default=True)
@click.option("--only", multiple=True, help="Only injections whose name contains this.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(gpu: str, sms: int, noise: float, seed: int, only: tuple[str, ...], form: str) -> None:
    """Print for each secret change which units the decomposition names."""
    with tempfile.TemporaryDirectory(prefix="gpusim-gap-") as folder:
        simulator = CaseSimulator(cut_down(load_gpu(gpu), sms), Path(folder))
        launches = [launch for text in KERNELS for launch in simulator.add(*parse_request(text))]
        print(f"{len(KERNELS)} kernels, {len(launches)} launches, {toolchain()}", file=sys.stderr)
        records = []
        for injection in INJECTIONS:
            if only and not any(text in injection.name for text in only):
                continue
            records.append(check(injection, simulator, launches, noise, seed)[0])
            print(f"{records[-1]['verdict']:12} {injection.name}: {records[-1]['named']}", file=sys.stderr)
    click.echo(format_records(records, form))


if __name__ == "__main__":
    main()
