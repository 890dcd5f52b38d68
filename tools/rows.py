"""List the opcodes of the instruction table that no test has run.

    GPUSIM_COUNT_ROWS=counts make test
    python tools/rows.py counts

Prints each row with how many of its forms ran and how often; exit code 1 when a row never ran.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from gpusim.isa.table import TABLE
from gpusim.report.tables import FORMATS, format_records


def counted(folder: Path) -> Counter[str]:
    """Form -> executions, over all files that tests left in ``folder``."""
    total: Counter[str] = Counter()
    for path in sorted(folder.glob("*.json")):
        total.update(json.loads(path.read_text()))
    return total


def rows(counts: Counter[str]) -> list[dict]:
    """One record a row that accepts anything, rows that never ran first."""
    forms: dict[str, list[str]] = {}
    for form in counts:
        forms.setdefault(form.split()[0].split(".")[0], []).append(form)
    records = [
        {
            "row": mnemonic,
            "forms_run": len(forms.get(mnemonic, ())),
            "executions": sum(counts[form] for form in forms.get(mnemonic, ())),
            "summary": opcode.summary,
        }
        for mnemonic, opcode in TABLE.items()
        if not opcode.refused
    ]
    return sorted(records, key=lambda record: (record["executions"], record["row"]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--format", choices=FORMATS, default="table")
    asked = parser.parse_args()
    counts = counted(asked.folder)
    if not counts:
        print(f"error: no counts in {asked.folder}: run tests with GPUSIM_COUNT_ROWS={asked.folder}", file=sys.stderr)
        return 2
    records = rows(counts)
    print(format_records(records, asked.format))
    never = [record["row"] for record in records if not record["executions"]]
    print(f"{len(records) - len(never)} of {len(records)} rows ran, in {len(counts)} forms", file=sys.stderr)
    if never:
        print(f"never ran: {', '.join(never)}", file=sys.stderr)
    return 1 if never else 0


if __name__ == "__main__":
    sys.exit(main())
