#!/usr/bin/env python3
"""What the recorder costs a launch: paired, on a libcuda that does nothing.

``tools/record_cost.py`` prints, with the machine's load beside them:

- what a launch through the recorder takes longer than one past it, in alternating rounds of one process: quantiles of
  both and the difference of the quantiles. Both hold the same two readings of a clock. Quantiles of a machine that is
  shared hold its other work too: the unrecorded column shows how much. They are as fine as the steps of the machine's
  clock, often 10 ns. A round begins after a pause of 20 ms, which takes what both touch out of the caches: its first
  launch is one in a thousand, and told by itself;
- the same of --repeats processes, of which the added quantiles are told: what a tail is worth;
- the CPU time that recording adds at 100,000 launches a second, of recorded and unrecorded runs in alternation, as a
  share of a core;
- the memory that it adds, and what was dropped.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import numpy as np
from record_stub import build, environment, launched, load

SHARES = (0.5, 0.9, 0.99, 0.999, 0.9999)
COUNT = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300, help="of 1000 launches past and 1000 through the recorder")
    parser.add_argument("--repeats", type=int, default=5, help="processes of so many rounds")
    parser.add_argument("--pairs", type=int, default=7, help="runs of --seconds with and without, in alternation")
    parser.add_argument("--seconds", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="record-cost-") as name:
        folder = Path(name)
        program = build(folder)
        print(load())
        for how in ("pairs", "contexts"):
            if how == "contexts":
                print("the context is set anew before each launch:")
            added = np.array([latency(program, folder, options.rounds, how) for _ in range(options.repeats)])
            for share, least, middle, most in zip(SHARES, added.min(0), np.median(added, 0), added.max(0)):
                print(
                    f"  added over {options.repeats} processes at {share:.2%}: {least:.0f} to {most:.0f} ns, the median {middle:.0f}"
                )
        print(load())
        cpu(program, folder, options.pairs, options.seconds)


def latency(program: Path, folder: Path, rounds: int, how: str) -> np.ndarray:
    """Prints quantiles of what one launch takes; by how much those of recorded ones are higher."""
    path = folder / "took"
    told = launched(program, [how, str(COUNT), str(rounds)], environment(folder, RECORD_COST_FILE=str(path)))
    if sum(told[3:]) != rounds * COUNT + 1:  # the first launch is not timed
        raise SystemExit(
            f"{told[3]} launches counted and {told[4]} dropped: the pairs are not one past and one through"
        )
    took = np.fromfile(path, np.int32).reshape(rounds, 2, COUNT)
    direct, through = (np.quantile(took[:, which], SHARES) for which in (0, 1))
    print(f"{rounds * COUNT} launches each, ns:  quantile  unrecorded  recorded  added")
    for share, one, other in zip(SHARES, direct, through):
        print(f"  {share:>8.2%} {one:11.0f} {other:9.0f} {other - one:6.0f}")
    added = np.median(took[:, 1], axis=1) - np.median(took[:, 0], axis=1)
    print(
        f"  added at the median, by rounds: {np.min(added):.0f} to {np.max(added):.0f}, half of them {np.median(added):.0f};"
        f" a round's first launch, median: {np.median(took[:, 0, 0]):.0f} unrecorded, {np.median(took[:, 1, 0]):.0f} recorded"
    )
    return through - direct


def cpu(program: Path, folder: Path, pairs: int, seconds: int) -> None:
    """CPU time of whole processes."""
    arguments = ["rate", str(100_000 * seconds), "100000"]
    shares, threads, resident, dropped = [], [], [], 0
    for _ in range(pairs):
        without = launched(program, arguments, environment(folder, recorded=False))
        with_it = launched(program, arguments, environment(folder))
        shares.append((with_it[0] - without[0]) / (seconds * 1e9))
        threads.append((with_it[1] - without[1]) / (seconds * 1e9))
        resident.append(with_it[2] - without[2])
        dropped += with_it[4]
    print(
        f"100,000 launches a second, {pairs} pairs of {seconds} s: recording adds {statistics.median(shares):.2%} of a core"
        f" ({min(shares):.2%} to {max(shares):.2%}), of which on the launching thread {statistics.median(threads):.2%};"
        f" {max(resident)} KiB; dropped {dropped}"
    )


if __name__ == "__main__":
    main()
