"""What the remedies of ``simulate`` claim and what they keep: the estimated saving beside the simulated better kernel.

    python tools/remedies.py [--format table|json|csv|md] [PAIR...]

Mental model: a pair is a kernel and the same work with one thing mended. The estimate is made from the first one's
trace alone; beside it stands what the second one, compiled and simulated, takes less. ``rank`` is the place of the rule
among the remedies of the first kernel; an empty estimate means that the rule did not speak, or promised less than 2 %.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import click

import gpusim
from gpusim.cases.source import open_source
from gpusim.report.tables import FORMATS, format_records
from gpusim.why.advice import advise

OWN = f"{Path(__file__).with_name('remedy_kernels.py')}:"


@dataclass(frozen=True)
class Pair:
    """``rule`` is to find in ``before`` what ``after`` has mended."""

    rule: str
    before: str
    after: str
    gpu: str = "h200"


PAIRS = (
    Pair("bank conflicts", "transpose:padding=0", "transpose:padding=1"),
    Pair("coalescing", OWN + "copy_case:by_rows=0", OWN + "copy_case:by_rows=1"),
    Pair("coalescing", "coalescing:amount=8", "coalescing:amount=1"),
    Pair("coalescing", "spmv_csr", "spmv_csr_vector"),
    Pair("loads in flight", OWN + "walk_case:unroll=1", OWN + "walk_case:unroll=4"),
    Pair("loads in flight", OWN + "tiled_case:prefetch=0", OWN + "tiled_case:prefetch=1"),
    Pair("dependent loads", OWN + "chase_case:chains=1", OWN + "chase_case:chains=2"),
    Pair("elements a thread", OWN + "scale_case:elements=1", OWN + "scale_case:elements=4"),
    Pair("atomics", OWN + "sum_case:shuffles=0", OWN + "sum_case:shuffles=1"),
    Pair("atomics", "histogram:spread=0.00390625", "histogram_privatised:spread=0.00390625"),
    Pair("atomics", OWN + "bins_case:stride=32", OWN + "bins_case:stride=33"),
    Pair("contended atomics", OWN + "count_case:block=0", OWN + "count_case:block=1"),
    Pair("constants", OWN + "table_case:shared=0", OWN + "table_case:shared=1"),
    Pair("double precision", OWN + "polynomial_case:double=1", OWN + "polynomial_case:double=0"),
    Pair("double precision", OWN + "polynomial_case:double=1", OWN + "polynomial_case:double=0", gpu="l40"),
    Pair("occupancy", "stream_scale:n=1048578,blocks_per_sm=1", "stream_scale:n=1048578,blocks_per_sm=2"),
    Pair(
        "few blocks",
        OWN + "polynomial_case:double=0,n=32768,rounds=1024,block=1024",
        OWN + "polynomial_case:double=0,n=32768,rounds=1024,block=128",
    ),
)


def check(pair: Pair) -> dict[str, object]:
    """One row of the table."""
    gpu = gpusim.load_gpu(pair.gpu)
    before, after = (open_source(request, gpu) for request in (pair.before, pair.after))
    traces = [launch.trace for launch in before.timed]
    result = gpusim.simulate(traces, gpu, warm=before.warm)
    advice = advise(traces, result, warm=before.warm)
    mended = gpusim.simulate([launch.trace for launch in after.timed], gpu, warm=after.warm)
    rules = [remedy.rule for remedy in advice.remedies]
    found = next((remedy for remedy in advice.remedies if remedy.rule == pair.rule), None)
    estimated = found.saved_percent if found else None
    simulated = 100.0 * (result.cycles - mended.cycles) / result.cycles
    return {
        "rule": pair.rule,
        "gpu": pair.gpu,
        "before": pair.before.replace(OWN, ""),
        "after": pair.after.replace(OWN, ""),
        "cycles": result.cycles,
        "estimated_percent": "" if estimated is None else estimated,
        "limit": "at most" if found and found.at_most else "",
        "simulated_percent": simulated,
        "rank": rules.index(pair.rule) + 1 if found else "",
        "place": found.place if found else "",
        "best": rules[0] if rules else "",
    }


@click.command()
@click.argument("rules", nargs=-1, metavar="[RULE]...")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(rules: tuple[str, ...], form: str) -> None:
    """Estimated beside simulated saving, of all pairs or those of the given rules."""
    records = []
    for pair in PAIRS:
        if not rules or pair.rule in rules:
            records.append(check(pair))
            click.echo(f"{pair.rule}: {records[-1]['before']}", err=True)
    click.echo(format_records(records, form))


if __name__ == "__main__":
    sys.exit(main())
