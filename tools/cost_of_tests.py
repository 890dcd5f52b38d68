"""Print what processor time the tests took, by folder, file or test.

    GPUSIM_COUNT_CPU=cost make test
    python tools/cost_of_tests.py cost --by file --rows 30
    python tools/cost_of_tests.py cost --by test --sort waits_s

Processor seconds of the tests' own process and of the processes that they started; the last row is the sum over all.
`waits_s` is the wall time beyond that: for a signal, a time limit, a disk, or for a core that somebody else has. Run it
with nothing compiled (a fresh clone, XDG_CACHE_HOME at an empty folder) and again to see what compilation costs.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

import pandas as pd

from gpusim.report.tables import FORMATS, format_records

#: How much of a test's name is one row.
LEVELS = {
    "folder": lambda name: "/".join(name.split("::")[0].split("/")[:2]) if "::" in name else name,
    "file": lambda name: name.split("::")[0],
    "test": lambda name: name,
}

SECONDS = ("own_s", "children_s", "cpu_s", "waits_s")


def read(folder: Path) -> pd.DataFrame:
    """One row a test: name, own_s, children_s (seconds of processor time), wall_s (float64)."""
    columns = {"name": str, "own_s": float, "children_s": float, "wall_s": float}
    files = sorted(folder.glob("*.tsv"))
    if not files:
        sys.exit(f"error: {folder} holds no *.tsv: run the tests with GPUSIM_COUNT_CPU={folder} first")
    tables = [
        pd.read_csv(path, sep="\t", names=list(columns), dtype=columns, quoting=csv.QUOTE_NONE, keep_default_na=False)
        for path in files
    ]
    return pd.concat(tables)


def costs(tests: pd.DataFrame, level: str, rows: int, sort: str = "cpu_s") -> list[dict]:
    """One record a group, the one with most of ``sort`` first, with its share; then the sum over all."""
    tests = tests.assign(cpu_s=tests["own_s"] + tests["children_s"])
    tests["waits_s"] = (tests["wall_s"] - tests["cpu_s"]).clip(lower=0)
    groups = tests.groupby(tests["name"].map(LEVELS[level]))
    table = pd.DataFrame({"tests": groups.size(), **{key: groups[key].sum() for key in SECONDS}})
    total = {"where": "all", **table.sum().to_dict()}
    first = table.sort_values(sort, ascending=False).head(rows)
    records = [{"where": where, **row} for where, row in first.to_dict("index").items()] + [total]
    for record in records:
        record["share"] = f"{record[sort] / max(total[sort], 1e-9):.1%}"
        record["tests"] = int(record["tests"])
        record.update({key: round(record[key], 1) for key in SECONDS})
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--by", choices=LEVELS, default="file")
    parser.add_argument("--sort", choices=SECONDS, default="cpu_s", help="what share is of, too (default cpu_s)")
    parser.add_argument("--rows", type=int, default=40, metavar="N", help="the dearest N (default 40)")
    parser.add_argument("--format", choices=FORMATS, default="table")
    given = parser.parse_args()
    print(format_records(costs(read(given.folder), given.by, given.rows, given.sort), given.format))


if __name__ == "__main__":
    main()
