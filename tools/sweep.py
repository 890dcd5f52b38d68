"""Every kernel of the suite, small, on several GPUs: does anything crash, or contradict itself?

    python tools/sweep.py [--gpu h200 ...] [--why] [--format table|json|csv|md] [KERNEL ...]

Mental model: each launch is simulated and its result asked for laws that hold on any machine: no time below a lower
bound; stall reasons that add up to the resident warp-cycles, by instruction too; counters that agree with each other
and with the trace; no unit busy for more than all of the time; blocks that lie within the launch. With ``--why`` no
unit made free may cost much, and the sentence names what saves most. Exit code 1 if a law is broken, 3 if a kernel
could not be run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import click

import gpusim
from gpusim.cases.names import general_names
from gpusim.cases.suite import capture_case, make_case
from gpusim.engine.result import LaunchResult
from gpusim.engine.utilisation import utilisation
from gpusim.errors import GpusimError
from gpusim.report.tables import FORMATS, format_records
from gpusim.trace.record import Trace
from gpusim.why.explain import explain, least_cycles

GPUS = ("h200", "a100_80gb", "b200", "t4", "rtx4090")
#: A unit made free may cost so much: another order of events can hit a worse one.
WORSE_PERCENT = 10.0


def broken_laws(trace: Trace, launch: LaunchResult) -> Iterator[str]:
    """What of one launch's result cannot be."""
    counters = launch.counters
    issued = counters["smsp__inst_executed.sum"]
    if issued != trace.warp_instructions:
        yield f"{issued} warp instructions issued, the trace has {trace.warp_instructions}"
    stalls = sum(launch.stalls.values())
    if stalls != counters["sm__warps_active.sum"]:
        yield f"stall reasons add up to {stalls} of {counters['sm__warps_active.sum']} warp-cycles"
    if launch.stalls_by_instruction.sum() != stalls or (launch.stalls_by_instruction < 0).any():
        yield "stalls by instruction do not add up, or are negative"
    if any(value < 0 for value in counters.values()):
        yield f"negative counters: {', '.join(name for name, value in counters.items() if value < 0)}"
    looked_up = sum(counters[f"lts__t_sectors_lookup_{kind}.sum"] for kind in ("hit", "miss"))
    came = sum(counters[f"lts__t_sectors_op_{kind}.sum"] for kind in ("read", "write", "atom", "red"))
    if looked_up != came:
        yield f"L2 looked up {looked_up} of {came} sectors"
    start, end = launch.block_times[:, 0], launch.block_times[:, 1]
    if (start < 0).any() or (end <= start).any() or end.max() > launch.cycles:
        yield "a block lies outside the launch"
    if counters["sm__ctas_launched.sum"] != trace.launch.blocks:
        yield f"{counters['sm__ctas_launched.sum']} of {trace.launch.blocks} blocks launched"


def check(name: str, gpu: str, why: bool) -> Iterator[str]:
    """Simulate one kernel's small launches and yield what is wrong with them."""
    spec = gpusim.load_gpu(gpu)
    launches = capture_case(make_case(name, {}, spec, small=True), spec)
    traces = [launch.trace for launch in launches]
    result = gpusim.simulate(traces, spec)
    for trace, launch in zip(traces, result.launches, strict=True):
        yield from broken_laws(trace, launch)
    least = least_cycles(traces, spec, cold=True)
    for unit, cycles in least.items():
        if result.cycles < cycles:
            yield f"{result.cycles} cycles are below the bound of {unit}, {cycles:.0f}"
    for unit in utilisation(result.launches, spec):
        if not 0 <= unit.percent <= 100.001:
            yield f"{unit.metric} is {unit.percent:.1f} %"
    if why:
        explanation = explain(traces, spec, result)
        for finding in explanation.findings:
            if finding.saved_percent < -WORSE_PERCENT:
                yield f"{finding.unit} made free costs {-finding.saved_percent:.1f} %"
        if explanation.findings and explanation.findings[0].unit not in explanation.sentence:
            best = explanation.findings[0]
            if best.saved_percent >= 2.0:
                yield f"{best.unit} saves most ({best.saved_percent:.1f} %) and is not in: {explanation.sentence}"


@click.command()
@click.argument("kernels", nargs=-1)
@click.option("--gpu", "gpus", multiple=True, default=GPUS, show_default=True)
@click.option("--why", is_flag=True, help="Also make each unit free.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(kernels: Sequence[str], gpus: Sequence[str], why: bool, form: str) -> None:
    """Check KERNELS of the suite (by default all) on each GPU; prints what contradicts itself."""
    names = kernels or general_names()
    records, failed = [], False
    for gpu in gpus:
        for number, name in enumerate(names, 1):
            try:
                found = list(check(name, gpu, why))
            except GpusimError as error:
                found, failed = [f"{type(error).__name__}: {error}"], True
            records += [{"gpu": gpu, "kernel": name, "what": what} for what in found]
            print(f"[{gpu} {number}/{len(names)}] {name}: {'; '.join(found) or 'fine'}", file=sys.stderr, flush=True)
    click.echo(
        format_records(records, form) if records else f"{len(names)} kernels on {', '.join(gpus)}: all laws hold"
    )
    sys.exit(3 if failed else bool(records))


if __name__ == "__main__":
    main()
