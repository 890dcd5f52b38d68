"""Record the exact model's validation anew: what may be old, what it costs, and all of it in one command.

    python tools/record_validation.py                      each recording: rows, processor seconds, whether gpusim's source is still that which made it
    python tools/record_validation.py --stale              only those of another source and those never recorded; exit 1 if there are any
    python tools/record_validation.py --probe 2            the two cheapest rows of each predicted anew: did the figures move? (minutes)
    python tools/record_validation.py --probe 1 --confirm --minutes 20   the same of what is not of today's source; where no digit moved, that is noted
    python tools/record_validation.py --run --minutes 40   record what is not of today's source, the cheapest first, as far as the minutes go
    python tools/record_validation.py --run --final        final halves of external sets too: when a change is finished
    python tools/record_validation.py --run convolution_a100 --gpu a100_pcie_40gb          only these sources and GPUs

Mental model: a recording is one source's rows on one description (validation/recordings.py). Recording costs what the
last time cost, which the rows say (``expected_s``); each is saved as soon as it is made; what does not fit is named and
left. Behind it the intervals, the figures of external sets and the pages are written anew. All of it takes two to three
hours of one core; rows are kept, so a run that was broken off goes on.

A change that is to change no figure, one that makes the engine faster, say, need not be paid for with all of that: a
probe predicts a few rows of each recording, and with ``--confirm`` one whose rows come out to the recorded digit counts
as confirmed for today's source ("a probe the same", and of how many rows), one after the other, so that it too goes on
where it was broken off. That says nothing of the rows that were not predicted, and the cheapest ones may be just those
that a change does not reach: for a change of the model record anew.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from record_residuals import Only, of_curves, of_datasheets, of_set, of_small_launches
from validation.recordings import (
    NEVER,
    PROBED,
    PUBLISHED,
    SAME,
    SMALL,
    Key,
    Recording,
    key_of,
    known_digests,
    known_probes,
    name_of,
    note_probe,
    recordings,
    remember,
    row_s,
)
from validation.residuals import Residual, load_residuals, save_residuals
from validation.sets import FINAL

from gpusim.errors import GpusimError, NoDataError, UsageError
from gpusim.io.progress import say, shown
from gpusim.report.tables import FORMATS, format_records
from gpusim.uncertainty.table import DATASHEET, FITTED

#: A time ratio is recorded to five digits: what differs by more has moved.
MOVED_PERCENT = 0.01


def made_anew(key: Key, rows: int, only: Only = None) -> Iterator[Residual]:
    """A recording's rows by today's model."""
    source, kind, gpu, half = key
    if source == PUBLISHED:
        of_kind: Callable[..., Iterator[Residual]] = {FITTED: of_curves, DATASHEET: of_datasheets}[kind]
        yield from of_kind([gpu], only=only)
    elif source == SMALL:
        yield from of_small_launches(kind, [gpu])
    else:
        yield from of_set(source, rows, (half,), only=only, gpu=gpu)


def cheapest_rows(rows: Iterable[Residual], count: int) -> list[Residual]:
    """So many of a recording's rows, those of unknown cost last."""
    return sorted(rows, key=lambda row: (row.cpu_s == 0, row.cpu_s, row.series, row.point))[:count]


def probed(key: Key, rows: list[Residual], count: int) -> dict[str, object]:
    """How far the cheapest ``count`` rows of a recording have moved; ``to_the_digit``: what would be recorded of them is
    what is."""
    cheapest = cheapest_rows(rows, count)
    old = {(row.series, row.point): row.time_ratio for row in cheapest}
    begun = time.process_time()
    new = {(row.series, row.point): row.time_ratio for row in made_anew(key, len(rows), set(old))}
    moved = [100 * (new[each] / old[each] - 1) for each in old if each in new]
    worst = max(moved, key=abs, default=0.0)
    verdict = "not predicted" if len(moved) < len(old) else "moved" if abs(worst) > MOVED_PERCENT else "the same"
    exactly = bool(old) and all(each in new and f"{new[each]:.5f}" == f"{old[each]:.5f}" for each in old)
    source, kind, gpu, half = key
    return {
        "source": source, "kind": kind, "gpu": gpu, "half": half, "rows": len(moved), "largest_move_percent": round(worst, 2),
        "figures": verdict, "to_the_digit": exactly, "cpu_s": round(time.process_time() - begun, 1),
    }  # fmt: skip


def probe_all(
    chosen: list[Recording], rows: list[Residual], count: int, minutes: float, confirm: bool
) -> tuple[list[dict[str, object]], list[Recording]]:
    """(what :func:`probed` says of each that fits into ``minutes`` of processor time, those that were left), the
    cheapest probe first; ``confirm``: note each at once of which no digit has moved."""

    def of(each: Recording) -> list[Residual]:
        return [row for row in rows if key_of(row) == each.key]

    def expected_s(each: Recording) -> float:
        return sum(row.cpu_s or row_s(rows, row.source) for row in cheapest_rows(of(each), count))

    lines, left, begun = [], [], time.process_time()
    for each in sorted(chosen, key=expected_s):
        if time.process_time() - begun + expected_s(each) > 60 * minutes:
            left.append(each)
            continue
        line = probed(each.key, of(each), count)
        lines.append(line)
        if confirm and line["to_the_digit"]:
            note_probe(each.key, int(str(line["rows"])))
    return lines, left


def record(chosen: list[Recording], minutes: float) -> list[Recording]:
    """Record what fits into ``minutes`` of processor time, each at once into the file; those that were left."""
    left, begun = [], time.process_time()
    for place, each in enumerate(chosen):
        spent = time.process_time() - begun
        if spent + each.expected_s > 60 * minutes:
            left.append(each)
            continue
        behind = sum(later.expected_s for later in chosen[place + 1 :])
        say(
            f"{place + 1} of {len(chosen)}: {name_of(each.key)}, {each.rows} rows, about {each.expected_s:.0f} s; {behind:.0f} s behind it"
        )
        made = list(made_anew(each.key, each.rows))
        if len(made) < each.rows:  # each says why; a compiler of the set's own, say, is not installed
            say(
                f"{name_of(each.key)}: {len(made)} of {each.rows} rows could be predicted; the recording stays as it was"
            )
            left.append(each)
            continue
        save_residuals([row for row in load_residuals() if key_of(row) != each.key] + made)
        remember([each.key])
        say(f"{name_of(each.key)}: {len(made)} rows, {time.process_time() - begun - spent:.0f} s of processor time")
    return left


def most_rows(known: Iterable[Recording], sources: set[str]) -> dict[str, int]:
    """Of each of the sources the rows of its larger half, of which so many are taken at most: all that are recorded,
    whether they were made just now or before."""
    of_half: Counter[tuple[str, str]] = Counter()
    for each in known:  # a set's half may be on several GPUs, a recording each
        if each.source in sources and each.state != NEVER:
            of_half[each.source, each.half] += each.rows
    found: dict[str, int] = {}
    for (source, _), count in of_half.items():
        found[source] = max(count, found.get(source, 0))
    return found


def write_the_rest(sources: set[str], rows: dict[str, int], final: bool) -> None:
    """Intervals, figures of the external sets, and pages, of what was recorded."""
    sets = sorted(sources - {PUBLISHED, SMALL})
    record_sets = [["validate.py", name, "--rows", str(rows[name]), "--record", *["--final"] * final] for name in sets]
    for words in (*record_sets, ["write_intervals.py"], ["write_docs.py"]):
        subprocess.run([sys.executable, str(ROOT / "tools" / words[0]), *words[1:]], check=True, stdout=sys.stderr)


@click.command(help=(__doc__ or "").replace("\n    python", "\n\n\b\n    python"))
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option("--gpu", "gpus", multiple=True, help="Only recordings of these GPUs.")
@click.option("--probe", type=click.IntRange(1), default=None, help="Predict so many rows of each anew.")
@click.option("--confirm", is_flag=True, help="With --probe, of another source only: note where no digit has moved.")
@click.option(
    "--stale",
    "stale_only",
    is_flag=True,
    help="Only recordings of another source that no probe has confirmed; exit 1 if there are any.",
)
@click.option("--run", "run_it", is_flag=True, help="Record anew what is not of today's source, nor confirmed for it.")
@click.option("--probed-too", is_flag=True, help="With --run: also what a probe has confirmed.")
@click.option("--minutes", default=180.0, show_default=True, help="Processor time that recording or probing may take.")
@click.option("--final", is_flag=True, help="Final halves of external sets too.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(
    sources: tuple[str, ...], gpus: tuple[str, ...], probe: int | None, confirm: bool, stale_only: bool, run_it: bool, probed_too: bool,
    minutes: float, final: bool, form: str,
) -> None:  # fmt: skip
    try:
        if confirm and not probe:
            raise UsageError("--confirm notes what a probe finds; say --probe 1 --confirm")
        rows = load_residuals()
        chosen = [
            each
            for each in recordings(rows, known_digests(), known_probes())
            if (not sources or each.source in sources)
            and not (probe and each.state == NEVER)
            and (not gpus or each.gpu in gpus)
            and (final or each.half != FINAL or not (run_it or probe))
        ]
        if not chosen:
            raise NoDataError("no recording has this source and GPU")
        if probe:
            if confirm:  # what stands needs none
                chosen = [each for each in chosen if each.state != SAME and each.probed < min(probe, each.rows)]
            with shown():
                lines, left = probe_all(chosen, rows, probe, minutes, confirm)
            if lines:
                click.echo(format_records(lines, form))
            for each in left:
                say(f"left, no probe: {name_of(each.key)}")
            unlike = [
                line for line in lines if not (line["to_the_digit"] if confirm else line["figures"] == "the same")
            ]
            sys.exit(int(bool(unlike or confirm and left)))
        old = [each for each in chosen if each.state != SAME and (each.state != PROBED or run_it and probed_too)]
        if stale_only and not run_it:
            if old:
                click.echo(format_records([asdict(each) for each in old], form))
            say(
                f"{len(old)} of {len(chosen)} recordings are stale, {sum(each.expected_s for each in old):.0f} s of processor time"
            )
            sys.exit(int(bool(old)))
        if not run_it:
            click.echo(format_records([asdict(each) for each in chosen], form))
            return
        with shown():
            left = record(old, minutes)
        for each in left:
            say(f"left, about {each.expected_s:.0f} s: {name_of(each.key)}")
        done = {each.source for each in old if each not in left}
        write_the_rest(done, most_rows(recordings(load_residuals(), known_digests()), done), final)
    except GpusimError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
