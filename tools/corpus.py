"""State how much of a large corpus of kernels the emulator has rows for.

Mental model: the corpus is all kernels of the suite, and all kernels that the installed numba-cuda package's own
tests compile (read from the package each time), for every generation from Turing to Blackwell. Each architecture
is compiled in a few processes by ``tools/corpus_compile.py``; what they print is added up here::

    python tools/corpus.py                                  # all of it: some minutes a core
    python tools/corpus.py --arch sm_90 --every 10 --jobs 1 # a tenth of the test methods, for one architecture

Exit code 0 when every form is supported, 5 otherwise (as ``gpusim sass survey``).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from gpusim.isa.architectures import SURVEYED
from gpusim.report.tables import format_records

ARCHITECTURES = tuple(row.name for row in SURVEYED)
COMPILE = Path(__file__).with_name("corpus_compile.py")
#: Stands for the suite among the names of test modules.
SUITE = "suite"
#: Processes an architecture's modules are dealt out to.
PARTS = 4


@dataclass
class Statement:
    """What is known of one architecture, or of all: ``cubins`` are distinct by their code's hash."""

    cubins: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    instructions: int = 0
    forms: Counter[str] = field(default_factory=Counter)
    refused: dict[str, str] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)
    methods: int = 0

    def take(self, record: dict) -> None:
        """Count in one line of ``corpus_compile.py``."""
        if "kernel" in record:
            if record["sha256"] in self.cubins:
                return
            self.cubins.add(record["sha256"])
            self.names.add(f"{record['test']} {record['kernel']}")
            self.instructions += record["instructions"]
            for form, reason, count in record["forms"]:
                self.forms[form] += count
                if reason:
                    self.refused[form] = reason
            for form, place in record["examples"].items():
                self.examples.setdefault(form, f"{record['test']}: {place}")
        elif "failed" in record:
            self.failed[f"{record['test']} {record['failed']}"] = record["reason"]
        elif "skipped" in record:
            self.skipped[record["module"]] = record["skipped"]
        else:
            self.modules.add(record["module"])
            self.methods += record["methods"]

    def row(self, title: str) -> dict:
        """One line of the statement."""
        supported = len(self.forms) - len(self.refused)
        return {
            "architecture": title,
            "kernels": len(self.names),
            "cubins": len(self.cubins),
            "instructions": self.instructions,
            "forms": len(self.forms),
            "supported": supported,
            "covered_percent": 100 * supported / max(1, len(self.forms)),
            "not_linked": len(self.failed),
        }


def modules() -> list[str]:
    """The test modules of the installed numba-cuda package, and the suite."""
    package = find_spec("numba.cuda.tests")
    folder = Path(package.submodule_search_locations[0])
    found = sorted(folder.rglob("test_*.py"))
    return [SUITE, *(".".join(("numba.cuda.tests", *p.relative_to(folder).with_suffix("").parts)) for p in found)]


def compile_shares(shares: Mapping[str, Sequence[str]], every: int = 1, pick: int = 0, most: int = 0) -> list[dict]:
    """The lines that ``corpus_compile.py`` prints for ``shares`` (architecture -> modules); RuntimeError if it dies."""
    command = [sys.executable, str(COMPILE), "--every", str(every), "--pick", str(pick), "--most", str(most)]
    root = str(COMPILE.parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}
    words = [f"{architecture}={','.join(names)}" for architecture, names in shares.items()]
    done = subprocess.run([*command, *words], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"the compiling process died ({done.returncode}): {done.stderr[-800:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def state(
    architectures: Sequence[str], every: int = 1, jobs: int | None = None, parts: int = PARTS
) -> dict[str, Statement]:
    """Compile and survey the corpus for ``architectures``; of each module every ``every``-th test method."""
    names = modules()
    tasks = [
        (architecture, [n for n in names if zlib.crc32(n.encode()) % parts == part])
        for architecture in architectures
        for part in range(parts)
    ]
    statements = {architecture: Statement() for architecture in architectures}
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        results = pool.map(lambda task: compile_shares(dict([task]), every), tasks)
        for i, records in enumerate(results, 1):
            for record in records:
                statements[record["architecture"]].take(record)
            print(f"{i}/{len(tasks)} parts compiled", file=sys.stderr)
    return statements


def together(statements: Iterable[Statement]) -> Statement:
    """All architectures as one."""
    total = Statement()
    for one in statements:
        for name in ("cubins", "names", "modules"):
            getattr(total, name).update(getattr(one, name))
        for name in ("forms", "refused", "examples", "failed", "skipped"):
            getattr(total, name).update(getattr(one, name))
        total.instructions += one.instructions
        total.methods = max(total.methods, one.methods)
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", action="append", choices=ARCHITECTURES)
    parser.add_argument("--every", type=int, default=1, help="of each module, every N-th test method by hash")
    parser.add_argument("--jobs", type=int, help="processes at a time (one a core)")
    parser.add_argument("--format", choices=("table", "md", "csv", "json"), default="table")
    asked = parser.parse_args()
    statements = state(asked.arch or ARCHITECTURES, asked.every, asked.jobs)
    total = together(statements.values())
    rows = [one.row(architecture) for architecture, one in statements.items()]
    print(format_records([*rows, total.row("all")], asked.format))
    print(f"{total.methods} test methods of {len(total.modules)} modules ran", file=sys.stderr)
    for form, reason in sorted(total.refused.items(), key=lambda item: -total.forms[item[0]]):
        print(f"unsupported, {total.forms[form]} times: {form}: {reason}: {total.examples[form]}", file=sys.stderr)
    for where, reason in sorted({**total.skipped, **total.failed}.items()):
        print(f"left out: {where}: {reason}", file=sys.stderr)
    return 5 if total.refused else 0


if __name__ == "__main__":
    sys.exit(main())
