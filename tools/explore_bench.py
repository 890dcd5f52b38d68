"""How many examples steering saves: a stated set of bins, reached with and without it, and examples a second.

    python tools/explore_bench.py [--seeds 10] [--budget 1500] [--kernels saxpy ...] [--memo FILE] [--format table|...]
    python tools/explore_bench.py --memo FILE --only-memo ...
    python tools/explore_bench.py --throughput [--examples 1000] [--jobs 2]

The set is stated before the searches are compared: the bins that *unsteered* searches of seeds of their own (the
pilot) hit in at least one of ``--one-in`` examples, so that nothing is in it that only steering finds. Of several such
numbers each is a set, and one run prints all: the rarer its bins may be, the longer it takes to reach the last of them.
Unsteered is one run of Hypothesis over ``sampled_from(kernels)`` and the same strategies, with no target() and no
choice of ours; steered is what ``gpusim explore`` does, without the recorded coverage of the suite, which would tell it
the answers (``--record`` adds a row with it). Both stop at the budget; an example is a workload that was simulated, and
shapes that are only looked at do not count. A search that has not reached the set by then counts as budget + 1.
``--memo`` keeps outcomes between runs: a simulation says the same each time, so only time is saved. With
``--only-memo`` nothing is simulated at all: both kinds of search draw from the shapes whose outcomes the file holds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpusim.cases.suite import complete_shape, parse_request, shape_text
from gpusim.commands.exploring import DEFAULT_KERNELS
from gpusim.errors import LaunchError, UsageError
from gpusim.explore.cover import cover
from gpusim.explore.coverage import Coverage
from gpusim.explore.points import Bin
from gpusim.explore.property import Outcome, Property
from gpusim.explore.search import Search
from gpusim.explore.session import Plan, explore, new_search
from gpusim.explore.suite_coverage import suite_coverage
from gpusim.gpus.load import load_gpu
from gpusim.report.tables import FORMATS, format_records

PILOT_SEEDS = (1_000, 1_001, 1_002, 1_003)
#: Kernels of the comparison: small ones that between them reach most points, so that a run takes minutes.
KERNELS = (
    "saxpy", "stencil3", "transpose", "reduce_sum", "coalescing", "bank_conflicts", "shared_atomics",
    "atomic_contention", "divergence", "compaction",
)  # fmt: skip
SHARES = (0.8, 0.9, 0.95, 1.0)


class Covering(Property):
    """Nothing diverges: a search for it is one for coverage alone. Outcomes are remembered, on file if asked."""

    name, asks, threshold = "covering", "what does it cover?", 1.0

    def __init__(self, gpu_name: str, memo: Path | None, only_memo: bool = False) -> None:
        self.gpu, self.known, self.memo = load_gpu(gpu_name), {}, memo
        self.only: dict[str, list[dict[str, Any]]] = {}
        for line in memo.read_text().splitlines() if memo is not None and memo.exists() else ():
            row = json.loads(line)
            self.known[row["kernel"], row["shape"]] = row["bins"] and [tuple(each) for each in row["bins"]]
            if only_memo and row["bins"]:
                shape = parse_request(f"{row['kernel']}:{row['shape']}")[1]
                self.only.setdefault(row["kernel"], []).append(complete_shape(row["kernel"], shape, self.gpu))

    def shapes(self, kernel: str) -> list[dict[str, Any]] | None:
        return self.only.get(kernel)

    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        key = kernel, shape_text(dict(shape))
        if key not in self.known:
            try:
                bins = list(cover(kernel, shape, self.gpu).coverage.hits)
            except (UsageError, LaunchError):
                bins = None
            self.known[key] = bins
            if self.memo is not None:
                with self.memo.open("a") as file:
                    file.write(json.dumps({"kernel": kernel, "shape": key[1], "bins": bins}) + "\n")
        if self.known[key] is None:
            raise UsageError(f"{kernel}: refused")
        return Outcome(0.0, "", Coverage.of(self.known[key], kernel))


def search_of(prop: Covering, kernels: tuple[str, ...], seed: int, *, steer: bool, record: bool = False) -> Search:
    """A search for coverage that has not run yet."""
    search = new_search(Plan(kernels, "bounds", gpu=prop.gpu.name, seed=seed, steer=steer))
    search.prop, search.known = prop, suite_coverage() if record else Coverage()
    return search


def reached_after(search: Search, wanted: frozenset[Bin], budget: int) -> list[int]:
    """Examples until each of SHARES of ``wanted`` was hit; budget + 1 where that did not come."""
    hit: set[Bin] = set()
    after = [budget + 1] * len(SHARES)
    for count, tried in enumerate(search.tried[:budget], start=1):
        hit |= wanted & set(tried.outcome.coverage.hits)
        for place, share in enumerate(SHARES):
            if len(hit) >= share * len(wanted):
                after[place] = min(after[place], count)
    return after


def pilot(prop: Covering, kernels: tuple[str, ...], budget: int, one_in: Sequence[int]) -> dict[int, frozenset[Bin]]:
    """The stated sets: for each number, the bins that at least one of so many examples hits."""
    hits: Counter[Bin] = Counter()
    examples = 0
    for seed in PILOT_SEEDS:
        search = search_of(prop, kernels, seed, steer=False)
        run(search, budget, f"pilot, seed {seed}")
        examples += len(search.tried)
        hits.update(each for tried in search.tried for each in tried.outcome.coverage.hits)
    return {rare: frozenset(each for each, count in hits.items() if count * rare >= examples) for rare in one_in}


def run(search: Search, budget: int, what: str, wanted: frozenset[Bin] = frozenset()) -> None:
    """Run, until all that is ``wanted`` has been hit if anything is, with a line of progress."""
    started = time.monotonic()
    search.run(max_examples=budget, enough=lambda: bool(wanted) and wanted <= search.coverage.hits.keys())
    print(f"{what}: {len(search.tried)} examples, {len(search.coverage.hits)} bins, "
          f"{time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)  # fmt: skip


def table(found: Mapping[str, list[list[int]]], bins: int, rare: int, budget: int) -> Iterable[dict[str, Any]]:
    """One row a share of a set: medians over the seeds, and the ratio to unsteered."""
    for place, share in enumerate(SHARES):
        row: dict[str, Any] = {"bins": bins, "one_in": rare, "of_the_set_percent": 100 * share}
        for how, runs in found.items():
            counts = [run[place] for run in runs]
            row[how] = statistics.median(counts)
            row[f"{how} not_reached"] = sum(1 for count in counts if count > budget)
        for how in list(found)[1:]:
            row[f"{how} / unsteered"] = row[how] / row["unsteered"]
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", nargs="+", help="default: ten small ones; with --throughput those of explore")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--budget", type=int, default=1500)
    parser.add_argument("--pilot-budget", type=int, default=1000, help="examples of each pilot search")
    parser.add_argument("--one-in", type=int, nargs="+", default=[400, 200], help="pilot examples, for a bin of a set")
    parser.add_argument("--memo", type=Path)
    parser.add_argument("--only-memo", action="store_true", help="simulate nothing: draw from the memo's shapes")
    parser.add_argument("--record", action="store_true", help="also steered with the suite's recorded coverage")
    parser.add_argument("--throughput", action="store_true", help="time `gpusim explore` instead")
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--format", choices=FORMATS, default="table", dest="form")
    chosen = parser.parse_args()
    kernels = tuple(chosen.kernels or (DEFAULT_KERNELS if chosen.throughput else KERNELS))
    if chosen.throughput:
        print(format_records([throughput(kernels, chosen)], chosen.form))
        return
    prop = Covering(chosen.gpu, chosen.memo, chosen.only_memo)
    sets = pilot(prop, kernels, chosen.pilot_budget, chosen.one_in)
    for rare, wanted in sets.items():
        print(f"a set: {len(wanted)} bins that one in {rare} of the pilot's unsteered {len(PILOT_SEEDS)} x "
              f"{chosen.pilot_budget} examples hits; {len(kernels)} kernels", file=sys.stderr)  # fmt: skip
    everything = frozenset().union(*sets.values())
    ways = {"unsteered": {"steer": False}, "steered": {"steer": True}}
    if chosen.record:
        ways["with_record"] = {"steer": True, "record": True}
    found: dict[int, dict[str, list[list[int]]]] = {rare: {how: [] for how in ways} for rare in sets}
    for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds):
        for how, options in ways.items():
            search = search_of(prop, kernels, seed, **options)
            run(search, chosen.budget, f"{how}, seed {seed}", everything)
            for rare, wanted in sets.items():
                found[rare][how].append(reached_after(search, wanted, chosen.budget))
            print(f"  examples to {SHARES}: {[found[rare][how][-1] for rare in sets]}", file=sys.stderr, flush=True)
    rows = [row for rare, ways in found.items() for row in table(ways, len(sets[rare]), rare, chosen.budget)]
    print(format_records(rows, chosen.form))


def throughput(kernels: tuple[str, ...], chosen: argparse.Namespace) -> dict[str, Any]:
    """Wall-clock time of a search as the command runs it, processes, compilation of the kernels and files included."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(kernels, "bounds", gpu=chosen.gpu, max_examples=chosen.examples)
        started = time.monotonic()
        search, findings = explore(plan, Path(folder), jobs=chosen.jobs)
        seconds = time.monotonic() - started
    return {
        "examples": len(search.tried), "jobs": chosen.jobs, "seconds": seconds,
        "examples_per_s": len(search.tried) / seconds, "bins": len(search.coverage.hits), "findings": len(findings),
    }  # fmt: skip


if __name__ == "__main__":
    main()
