"""How far the model is from kernels that others wrote and measured, and that nobody fitted.

    python tools/validate.py                                   every set that can be predicted, its learning half
    python tools/validate.py convolution_a100 --rows 60        a sample of 60 rows, the same whoever takes it
    python tools/validate.py convolution_a100 --rows 60 --worst 10 --format json
    python tools/validate.py --list                            the sets, where they come from, and what is left out
    python tools/validate.py filters_blocks --tables           order and regret of each table of configurations
    python tools/validate.py sgemm_ladder_a6000 --gpu a40      the same kernels on another description
    python tools/validate.py --checkout convolution_a100=~/benchmark_hub/kernels   compile the published file itself
    python tools/validate.py --compiler installed              not with the compilers of their time (most sets name one)
    python tools/validate.py published                         the published curves, fitted and held out (minutes)
    python tools/validate.py --final                           the other half too: only when a change is finished
    python tools/validate.py --final --record                  and keep the figures for docs/validation/external.md

Mental model: a set (traces/external) is a table of timed launches; a family (workloads/external) makes a row's launch;
the launch is captured and simulated on a machine description that nothing of the set has touched. Rows are predicted in
--jobs processes, kept by the hash of all that they depend on, so that a run that was broken off goes on where it stood.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]
if __name__ == "__main__":  # Ctrl-C in the seconds of the imports below ends it without a traceback of one of them
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from validation import kept
from validation.figures import NO_FIGURES, Figures, figures
from validation.predict import Prediction, machine_of, predict
from validation.published import NAME as PUBLISHED
from validation.published import summaries as published_summaries
from validation.sets import (
    FINAL,
    FOLDER,
    LEARN,
    MeasuredRow,
    MeasuredSet,
    described_as,
    gpu_of,
    load_sets,
    sample,
    settings_of,
)
from validation.tables import tables

from gpusim.cli import INTERRUPTED
from gpusim.errors import GpusimError, UsageError
from gpusim.io.progress import say, shown, task
from gpusim.io.signalled import listen
from gpusim.io.whole_file import write_whole
from gpusim.report.tables import FORMATS, format_records
from gpusim.silicon.methods import method_named
from gpusim.workers import worker_pool
from workloads.external.families import FAMILIES, file_of

RESULTS = FOLDER / "results.json"
#: What is said of a set whose halves are both open.
BOTH = "both"


@dataclass(frozen=True)
class Job:
    """One row to predict, as a worker is told it."""

    set_name: str
    family: str
    identity: str
    values: dict[str, str]
    gpu: str
    settings: tuple[str, ...]
    reduce: str
    budget: float
    checkout: str
    cache: str
    nvrtc: str = ""
    power: str = ""
    method: str = ""

    def key(self) -> str:
        """Of what is kept of it."""
        checkout = Path(self.checkout) if self.checkout else None
        timed = FAMILIES[self.family](self.values, checkout)
        spec = machine_of(self.gpu, list(self.settings))
        return kept.key_of(
            (
                self.family,
                self.identity,
                timed.options,
                spec,
                self.reduce,
                self.budget,
                self.cache,
                self.nvrtc,
                self.power,
                *([method_named(self.method)] if self.method else []),
            ),
            (*timed.sources, file_of(self.family)),
        )


@dataclass(frozen=True)
class Done:
    """A job's prediction, or why there is none; ``seconds`` of a processor that it took, now or when it was kept."""

    job: Job
    prediction: Prediction | None
    why: str
    seconds: float


def work(job: Job) -> Done:
    """Predict one row, in whatever process."""
    begun = time.process_time()
    try:
        spec = machine_of(job.gpu, list(job.settings))
        checkout = Path(job.checkout) if job.checkout else None
        made = predict(
            job.family, job.values, spec, job.reduce, job.budget, checkout, job.cache, job.nvrtc, job.power, job.method
        )
        took = round(time.process_time() - begun, 2)
        kept.write(job.key(), made, took)
        return Done(job, made, "", took)
    except (GpusimError, ImportError) as error:
        return Done(job, None, " ".join(f"{type(error).__name__}: {error}".split()), time.process_time() - begun)


def run(jobs: Sequence[Job], processes: int) -> Iterator[Done]:
    """Every job done, those that were kept first; the rest in ``processes``."""
    left = []
    for job in jobs:
        try:
            made = kept.read(job.key())
        except ImportError as error:
            yield Done(job, None, f"{error}: python -m pip install 'gpusim[triton]' ml_dtypes", 0.0)
            continue
        if made is None:
            left.append(job)
        else:
            yield Done(job, made[0], "", made[1])
    if len(left) < len(jobs):
        say(f"{len(jobs) - len(left)} of {len(jobs)} rows were kept from before")
    with task("predicting", len(left), "rows") as bar:
        if processes == 1 or len(left) < 2:
            for number, job in enumerate(left):
                bar.to(number, f"{job.set_name} {job.identity}")
                yield work(job)
            bar.to(len(left))
            return
        with worker_pool(processes) as pool:
            waiting = [pool.submit(work, job) for job in left]
            for number, future in enumerate(as_completed(waiting), 1):
                done = future.result()
                bar.to(number, f"{done.job.set_name} {done.job.identity}")
                yield done


def record(row: MeasuredRow, done: Done) -> dict[str, Any]:
    """A row as it is printed and kept."""
    base: dict[str, Any] = {
        "set": done.job.set_name,
        "half": row.half,
        "row": row.identity,
        "measured_us": row.measured_us,
    }
    if done.prediction is None:
        return {**base, "failed": done.why}
    made = done.prediction
    base |= {
        "predicted_us": round(made.time_us, 3),
        "error_percent": round(100 * (made.time_us / row.measured_us - 1), 1),
        "noise_percent": row.noise_percent,
        "bound_by": made.bound_by,
        "roof": f"{made.roof} {made.roof_percent:.0f} %",
    }
    return base | {"detail": asdict(made)}


def summary(chosen: MeasuredSet, half: str, records: Sequence[dict[str, Any]], gpu: str) -> dict[str, Any]:
    """The figures of one half of a set, or of both."""
    mine = [each for each in records if each["set"] == chosen.name and half in (BOTH, each["half"])]
    rows = [each for each in mine if "failed" not in each]
    facts: dict[str, Any] = {
        "set": chosen.name, "half": half, "gpu": gpu, "of_rows": sum(half in (BOTH, row.half) for row in chosen.rows),
        "failed": len(mine) - len(rows),
    }  # fmt: skip
    if not rows:
        return facts | NO_FIGURES
    found: Figures = figures(
        [each["row"] for each in rows],
        [each["predicted_us"] for each in rows],
        [each["measured_us"] for each in rows],
        [each["noise_percent"] for each in rows],
        chosen.entry["one_problem"],
    )
    return facts | asdict(found)


def checkouts_of(texts: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Set -> folder. Raises UsageError."""
    found = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        path = Path(folder).expanduser()
        if not equals or name not in names:
            raise UsageError(f"--checkout {text!r}: write SET=DIR, of a set that is asked for: {', '.join(names)}")
        if not path.is_dir():
            raise UsageError(f"--checkout {text!r}: {path} is no folder")
        found[name] = str(path.resolve())
    return found


def listing(sets: Sequence[MeasuredSet]) -> list[dict[str, Any]]:
    """The sets, as a table."""
    return [
        {
            "set": each.name,
            "measured_on": each.entry["measured_on"],
            "predicted_on": " ".join(described_as(each.entry)),
            "rows": len(each.rows),
            "learn": sum(row.half == LEARN for row in each.rows),
            "final": sum(row.half == FINAL for row in each.rows),
            "left_out": each.left_out,
            "source": f"{each.entry['source']['repository'].split('//')[1]} at {each.entry['source']['commit']}",
            "status": each.entry["status"],
        }
        for each in sets
    ]


@click.command(help=(__doc__ or "").replace("\n    python", "\n\n\b\n    python"))
@click.argument("names", nargs=-1, metavar="[SET]...")
@click.option("--rows", type=click.IntRange(1), default=None, help="Predict a sample of so many rows of each half.")
@click.option("--final", is_flag=True, help="Open the half that is looked at when a change is finished.")
@click.option(
    "--worst", default=0, show_default=True, help="Print so many rows of the largest errors, and what bounds them."
)
@click.option("--each", is_flag=True, help="Print every row.")
@click.option("--tables", "by_table", is_flag=True, help="Print rank and regret of each table of configurations.")
@click.option("--gpu", default="", help="Predict on this description instead of the set's own.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a value of the description, e.g. clock_hz=1410e6.",
)
@click.option(
    "--checkout",
    "checkouts",
    multiple=True,
    metavar="SET=DIR",
    help="Compile the published kernel in DIR instead of ours.",
)
@click.option(
    "--compiler",
    type=click.Choice(("own", "installed")),
    default="own",
    show_default=True,
    help="Compile CUDA C++ with the release that the set was measured with, or with the installed one.",
)
@click.option("--budget", default=4e6, show_default=True, help="Warp instructions simulated a row, about.")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Processes.")
@click.option(
    "--record", "record_it", is_flag=True, help="Keep the figures in traces/external/results.json, for the page."
)
@click.option("--list", "list_it", is_flag=True, help="List the sets.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(
    names: tuple[str, ...], rows: int | None, final: bool, worst: int, each: bool, by_table: bool, gpu: str,
    settings: tuple[str, ...], checkouts: tuple[str, ...], compiler: str, budget: float, jobs: int, record_it: bool,
    list_it: bool, form: str,
) -> None:  # fmt: skip
    try:
        asked = [name for name in names if name != PUBLISHED]
        sets = load_sets(asked) if asked or not names else []
        if list_it:
            click.echo(format_records(listing(sets), form))
            return
        chosen = [one for one in sets if one.is_predicted]
        for one in sets:
            if not one.is_predicted:
                say(f"{one.name}: {len(one.rows)} rows, {one.entry['status']}")
        if not chosen and PUBLISHED not in names:
            raise UsageError("none of these sets can be predicted yet")
        folders = checkouts_of(checkouts, [one.name for one in chosen])
        halves = (LEARN, FINAL) if final else (LEARN,)
        found: dict[tuple[str, str], MeasuredRow] = {}
        todo: list[Job] = []
        for one in chosen:
            for half in halves:
                for row in sample([r for r in one.rows if r.half == half], rows, one.entry["strata"]):
                    found[one.name, row.identity] = row
                    todo.append(
                        Job(
                            one.name, one.entry["family"], row.identity, row.values, gpu or gpu_of(one.entry, row),
                            (*(() if gpu else settings_of(one.entry, row)), *settings), one.entry["reduce"], budget,
                            folders.get(one.name, ""), one.entry["cache"], one.entry["nvrtc"] if compiler == "own" else "",
                            one.entry["power"], one.entry.get("measured_by", ""),
                        )
                    )  # fmt: skip
        with shown():
            records = [record(found[done.job.set_name, done.job.identity], done) for done in run(todo, jobs)]
    except GpusimError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        say("interrupted; the rows predicted so far are kept, and the same command goes on from them")
        sys.exit(INTERRUPTED)
    for failed in (r for r in records if "failed" in r):
        say(f"{failed['set']} {failed['row']}: {failed['failed']}")
    summaries = [
        summary(one, half, records, gpu or " ".join(described_as(one.entry)))
        for one in chosen
        for half in (*halves, *((BOTH,) if final else ()))
    ]
    for each_half in (one for one in summaries if not one["rows"]):
        say(f"{each_half['set']}, {each_half['half']}: no row could be predicted, {each_half['failed']} failed")
    if PUBLISHED in names:
        with shown():
            summaries += published_summaries(jobs)
    good = sorted((r for r in records if "failed" not in r), key=lambda r: -abs(r["error_percent"]))
    printed = good if each else good[:worst]
    ordered = [table for one in chosen for table in tables(one, records, found)] if by_table else []
    if form == "json":
        click.echo(json.dumps({"summaries": summaries, "rows": printed, "tables": ordered}, indent=2))
    else:
        if ordered:
            click.echo(format_records(ordered, form) + "\n")
        flat = [{key: value for key, value in r.items() if key != "detail"} for r in printed]
        if flat:
            click.echo(format_records(flat, form) + "\n")
        click.echo(format_records(summaries, form))
    if record_it:
        keep_results(summaries, rows)
    if not good and not any(each["rows"] for each in summaries):
        sys.exit(3)


def keep_results(summaries: Sequence[dict[str, Any]], rows: int | None) -> None:
    """Put the figures into the results file, in the place of older ones of the same set and half."""
    old = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"about": "", "summaries": []}
    fresh = {(each["set"], each["half"]) for each in summaries}
    stay = [each for each in old["summaries"] if (each["set"], each["half"]) not in fresh]
    document = {
        "about": "Written by tools/validate.py --record; docs/validation/external.md and gpusim.tune read it.",
        "summaries": sorted((*stay, *summaries), key=lambda each: (each["set"], each["half"] != LEARN)),
    }
    write_whole(RESULTS, (json.dumps(document, indent=2) + "\n").encode())
    say(
        f"{len(summaries)} figures kept in {os.path.relpath(RESULTS)}"
        + (f", of samples of {rows} rows" if rows else "")
    )


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    listen(interrupts=True)
    main()
