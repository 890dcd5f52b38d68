"""How much of production's time has a name that says nothing: for each file and each column, the share of the time that
is unknown.

    .venv/bin/python tools/production_names.py TRACE_OR_PRODUCTION...            # shares, and names a second
    .venv/bin/python tools/production_names.py TRACE_OR_PRODUCTION... --list     # each name and what it says, most time first

CSV goes to stdout.
"""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from gpusim.production.amounts import amount_of, grouped, share_percent
from gpusim.production.columns import named
from gpusim.production.names.kernel_name import FIELDS, UNKNOWN
from gpusim.production.names.parse import parse_name
from gpusim.production.sources import read_sources


def main(arguments: list[str]) -> None:
    """What the module's text says."""
    listed = "--list" in arguments
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("file", "percent", "kernel", *FIELDS) if listed else ("file", "kernels", *FIELDS, "us_a_name"))
    for path in (Path(each) for each in arguments if each != "--list"):
        rows = named(read_sources([path]).totals)
        whole = amount_of(rows)
        kernels = grouped(rows, ("kernel", *FIELDS))
        if listed:
            for key, amount in sorted(kernels.items(), key=lambda each: -each[1].time_ns):
                writer.writerow((path.name, f"{share_percent(amount, whole):.3f}", *key))
            continue
        shares = [
            share_percent(amount_of(row for row in rows if getattr(row.name, field) == UNKNOWN), whole)
            for field in FIELDS
        ]
        begin = time.process_time()
        for key in kernels:
            parse_name.__wrapped__(key[0])
        each_us = 1e6 * (time.process_time() - begin) / len(kernels)
        writer.writerow((path.name, len(kernels), *(f"{share:.2f}" for share in shares), f"{each_us:.0f}"))


if __name__ == "__main__":
    main(sys.argv[1:])
