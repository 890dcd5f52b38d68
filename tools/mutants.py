"""Which planted faults does the search find? A table: mutant, caught by, examples, smallest case, region, seconds.

Mental model: each mutant of ``tools/mutant_list.py`` is searched as a user would who changed that file and knows no
more: ``gpusim explore`` with its default kernels, examples and thresholds, one property after the other until one finds
something. Faults in gpusim's code run in a copy of the package (``tools/mutant_copy.py``), and the property
``versions`` asks that copy with nothing planted; a GPU's description is compared with the right one, a kernel's build
with the suite's. Each finding is replayed, with the fault and without it. The control is the same searches, whole, with
nothing planted, ``versions`` asking the package that this file belongs to::

    python tools/mutants.py                        # all of them: about a quarter of an hour on two cores
    python tools/mutants.py --only description     # those with that word in the name
    python tools/mutants.py --folder /tmp/planted  # keep the copy and its compiled code

Exit code 0 when all but ``--may-miss`` were caught, each with a small case that replays to the digit, and the control
found nothing; else 1.
"""

from __future__ import annotations

import json
import math
import os
import queue
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from mutant_copy import Server, compile_copy, make_copy
from mutant_list import BUILDS, CODE, GPUS, PROPERTIES, BuildMutant, CodeMutant, GpuMutant

from gpusim.cases.suite import make_case, parse_request
from gpusim.explore.property_registry import find_property, property_names
from gpusim.report.tables import FORMATS, format_records

Mutant = CodeMutant | GpuMutant | BuildMutant

#: An H200 cut down to two SMs, one for each half of its L2: a few blocks fill it, so that waves, tails and occupancy
#: are within reach of small workloads.
MACHINE = ("--gpu", "h200", "--set", "sm_count=2")
#: A case of so many blocks is small on that machine.
FEW_BLOCKS = 16
THRESHOLDS = {name: find_property(name).threshold for name in property_names()}
TO_THE_DIGIT = "to the digit"


@dataclass
class Row:
    """What became of a mutant."""

    mutant: str
    caught_by: str = ""
    examples: int = 0
    worst_percent: float = 0.0
    kernel: str = ""
    minimal: str = ""
    blocks: int = 0
    region: str = ""
    behaviour: str = ""
    findings: int = 0
    replays: str = ""
    seconds: float = 0.0
    problem: str = ""


@dataclass
class Servers:
    """The processes of one worker: one with the copy, one with the package as it is."""

    copy: Server
    plain: Server


def searches(mutant: Mutant | None, folder: Path, copy: Path) -> list[tuple[str, list[str]]]:
    """(property, arguments) of the searches for ``mutant`` (None: nothing is planted), in their order."""
    if isinstance(mutant, GpuMutant):
        return [("gpus", [*MACHINE, "--other-set", mutant.setting])]
    if isinstance(mutant, BuildMutant):
        path = folder / mutant.file
        text = (ROOT / "kernels" / mutant.file).read_text()
        if text.count(mutant.old) != 1:
            raise ValueError(f"{mutant.name}: its lines stand {text.count(mutant.old)} times in {mutant.file}")
        path.write_text(text.replace(mutant.old, mutant.new).replace("from .", "from gpusim.kernels."))
        return [("builds", [mutant.kernel, *MACHINE, "--other-kernel", f"{path}:{mutant.make}"])]
    part = mutant.file.partition("/")[0] if mutant else ""
    # A process of the copy in which nothing was switched on is the right gpusim; that it is, the control finds out.
    more = {"versions": ["--other-gpusim", str(copy if mutant else ROOT)]}
    return [(name, [*MACHINE, *more.get(name, [])]) for name in PROPERTIES[part]]


def look_for(
    mutant: Mutant | None, number: int, servers: Servers, folder: Path, seed: int, say: Callable[[str], None]
) -> Row:
    """Search until one property has found something, and replay what it found."""
    row = Row(mutant.name if mutant else "control: nothing is planted")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    start = time.monotonic()
    in_code = mutant is None or isinstance(mutant, CodeMutant)
    server = servers.copy if in_code else servers.plain
    for name, more in searches(mutant, folder, servers.copy.folder):
        out = folder / name
        arguments = ["explore", *more, "--property", name, *(["--first"] if mutant else []), "--seed", str(seed)]
        code, said, errors = server.run(number, [*arguments, "--jobs", "1", "-o", str(out), "--format", "json"])
        if code not in (0, 1):
            row.problem = f"{name}: exit code {code}: {' '.join(errors.split())[-160:]}"
            break
        examples, caught_at = _examples(out, THRESHOLDS[name])
        row.examples += caught_at or examples
        if code == 1:
            record = max(json.loads(said), key=lambda each: abs(each["worst_percent"]))
            row.caught_by, row.findings = name, len(json.loads(said))
            row.kernel, row.minimal, row.region = record["kernel"], record["minimal"], record["region"]
            row.behaviour = record["behaviour"]
            row.worst_percent = round(record["worst_percent"], 2)
            row.blocks = _blocks(row.kernel, row.minimal)
            row.replays = _replays(record["file"], number if in_code else None, server)
            break
        if mutant is None:
            say(f"{row.mutant}: {name} found nothing in {examples} examples")
    row.seconds = round(time.monotonic() - start, 1)
    say(f"{row.mutant}: {row.problem or row.caught_by or 'not found'} ({row.seconds} s)")
    return row


def _examples(folder: Path, threshold: float) -> tuple[int, int]:
    """(examples that were drawn, the first of them that diverged, 0 if none did)."""
    # The first file of the session is the worker's; what was run to make findings small lies in the next one.
    (path,) = folder.glob("runs-*-000-*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    diverged = (place for place, line in enumerate(lines, start=1) if abs(line["divergence"]) > threshold)
    return len(lines), next(diverged, 0)


def _replays(file: str, number: int | None, server: Server) -> str:
    """Whether the finding in ``file`` comes back to the digit, and is gone without fault ``number`` (None: the fault
    is in what the finding itself names)."""
    code, said, errors = server.run(number or 0, ["replay", "--run-code", file, "--format", "json"])
    if code != 1 or not json.loads(said)[0]["same_digits"]:
        return f"no: exit code {code}: {(said + errors).strip()[-160:]}"
    if number is not None and server.run(0, ["replay", "--run-code", file])[0] != 0:
        return "no: it lasts without the fault"
    return TO_THE_DIGIT


def _blocks(kernel: str, shape: str) -> int:
    """Blocks that the smallest case launches, all timed launches together."""
    launches = make_case(*parse_request(f"{kernel}:{shape}")).launches
    return sum(math.prod(launch.grid) for launch in launches if launch.timed)


def table(
    only: str, folder: Path, *, seed: int = 0, jobs: int = 2, control: bool = True, say: Callable[[str], None] = print
) -> list[Row]:
    """Look for all mutants with ``only`` in their names, ``jobs`` at a time; the control comes first."""
    chosen: list[tuple[int, Mutant | None]] = [(0, None)] if control else []
    chosen += [(number, mutant) for number, mutant in enumerate((*CODE, *GPUS, *BUILDS), 1) if only in mutant.name]
    outdated: dict[str, str] = {}
    if any(mutant is None or isinstance(mutant, CodeMutant) for _, mutant in chosen):
        start = time.monotonic()
        outdated = make_copy(folder / "copy", CODE)
        compile_copy(folder / "copy")
        say(f"a copy with {len(CODE)} faults is compiled ({time.monotonic() - start:.0f} s)")
    free: queue.SimpleQueue[Servers] = queue.SimpleQueue()
    workers = [Servers(Server(folder / "copy"), Server(ROOT)) for _ in range(jobs)]
    for worker in workers:
        free.put(worker)

    def work(number: int, mutant: Mutant | None) -> Row:
        if mutant and mutant.name in outdated:
            return Row(mutant.name, problem=outdated[mutant.name])
        servers = free.get()
        try:
            return look_for(mutant, number, servers, folder / f"search-{number}", seed, say)
        finally:
            free.put(servers)

    try:
        with ThreadPoolExecutor(jobs) as pool:
            return [row.result() for row in [pool.submit(work, *each) for each in chosen]]
    finally:
        for worker in workers:
            worker.copy.close()
            worker.plain.close()


@click.command()
@click.option("--only", default="", help="A word of the names of the mutants to look for.")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help="Keep copy and findings here.")
@click.option("--seed", default=0, show_default=True)
@click.option("--jobs", default=os.cpu_count() or 1, show_default="number of cores")
@click.option("--may-miss", default=1, show_default=True, help="Mutants that may stay unfound.")
@click.option("--no-control", is_flag=True)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(only: str, folder: Path | None, seed: int, jobs: int, may_miss: int, no_control: bool, form: str) -> None:
    """Print the table of planted faults."""
    with tempfile.TemporaryDirectory() as temporary:
        rows = table(
            only, folder or Path(temporary), seed=seed, jobs=jobs, control=not no_control,
            say=lambda line: click.echo(line, err=True),
        )  # fmt: skip
    click.echo(format_records([vars(row) for row in rows], form))
    faults = rows if no_control else rows[1:]
    good = [row for row in faults if row.replays == TO_THE_DIGIT and row.blocks <= FEW_BLOCKS]
    clean = no_control or not (rows[0].caught_by or rows[0].problem)
    click.echo(
        f"{sum(1 for row in faults if row.caught_by)} of {len(faults)} faults found, {len(good)} with a case of at most "
        f"{FEW_BLOCKS} blocks that replays to the digit; the control is {'clean' if clean else 'not clean'}",
        err=True,
    )
    sys.exit(0 if clean and len(faults) - len(good) <= may_miss else 1)


if __name__ == "__main__":
    main()
