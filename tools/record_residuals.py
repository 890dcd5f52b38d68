"""Record validation errors with what limited each launch, in traces/residuals/residuals.csv: what prediction intervals
are made of.

    python tools/record_residuals.py                     everything (an hour of processor time; goes on where it was broken off)
    python tools/record_residuals.py published           curves on the descriptions that ship
    python tools/record_residuals.py datasheet           the same curves on descriptions made from the datasheets alone
    python tools/record_residuals.py small_launches      chains of small launches, on both
    python tools/record_residuals.py liger_forward_a100 --rows 20      rows of an external set, of each half

Mental model: each source's rows take the place of its older ones, of a set those of the same half. Points and rows are
kept by the hash of all that they depend on, as tools/validate.py keeps its own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from microbenchmarks import FIGURES, SmallKernel
from validate import Job, run
from validation.held_out import HELD_OUT, held_out
from validation.recordings import DIGESTS, PUBLISHED, SMALL, key_of, remember
from validation.replayed import Replayed, replayed
from validation.residuals import FILE, Residual, load_residuals, save_residuals
from validation.sets import FINAL, LEARN, MeasuredRow, gpu_of, load_sets, sample, settings_of

from gpusim.compare.run import select
from gpusim.engine.bound import bound_of
from gpusim.errors import GpusimError, UsageError
from gpusim.gpus.load import load_gpu
from gpusim.io.progress import say, shown, task
from gpusim.silicon.published import load_published
from gpusim.uncertainty.table import DATASHEET, FITTED

#: Warp instructions simulated a row of a set, about.
BUDGET = 4e6
#: (series, point) of rows to predict, None: all.
Only = set[tuple[str, str]] | None


def fitted_gpus() -> list[str]:
    """GPUs whose description was set from curves of their own."""
    return sorted({point.gpu for point in load_published() if point.fitted})


def of_curves(gpus: list[str], all_points: bool = False, only: Only = None) -> Iterator[Residual]:
    """The published curves on the descriptions that ship; ``only``: these (series, point) of them."""
    yield from _replayed([(load_gpu(gpu), gpu) for gpu in gpus], FITTED, all_points, only)


def of_datasheets(gpus: list[str], all_points: bool = False, only: Only = None) -> Iterator[Residual]:
    """The same curves on descriptions made from datasheets."""
    yield from _replayed([(held_out(gpu), gpu) for gpu in gpus], DATASHEET, all_points, only)


def _replayed(gpus: list, kind: str, all_points: bool, only: Only) -> Iterator[Residual]:
    groups = [
        (spec, gpu, [each for each in points if only is None or (each.series, each.point) in only])
        for spec, gpu in gpus
        for _, points in select((), [gpu], all_points=all_points or only is not None)
    ]
    with task(f"replaying curves, {kind}", sum(len(points) for *_, points in groups), "points") as bar:
        done = 0
        for spec, gpu, points in groups:
            for each in replayed(spec, points):
                done += 1
                bar.to(done, f"{gpu} {each.point.series}")
                yield _of_point(each, gpu, kind)


def _of_point(each: Replayed, gpu: str, kind: str) -> Residual:
    point = each.point
    is_held_out = kind == DATASHEET or not point.fitted
    return Residual(
        PUBLISHED,
        kind,
        gpu,
        point.series,
        point.point,
        each.limiter,
        int(is_held_out),
        "",
        each.time_ratio,
        each.cpu_s,
        each.tensor,
    )


def of_small_launches(kind: str, gpus: list[str] | None = None) -> Iterator[Residual]:
    """Chains of small launches, on all GPUs or these; the start of a launch was fitted to the smallest of each GPU."""
    figures = [(figure, figure.experiment) for figure in FIGURES if isinstance(figure.experiment, SmallKernel)]
    smallest = {gpu: min(s.elements for f, s in figures if f.gpu == gpu) for gpu in {f.gpu for f, _ in figures}}
    for figure, small in figures:
        gpu = figure.gpu
        if kind == DATASHEET and gpu not in HELD_OUT or gpus is not None and gpu not in gpus:
            continue
        spec = load_gpu(gpu) if kind == FITTED else held_out(gpu)
        begun = time.process_time()
        launches = small.run(spec)
        time_ns = spec.ns(sum(launch.cycles for launch in launches) / len(launches))
        yield Residual(
            SMALL, kind, gpu, SMALL, f"elements={small.elements}", str(bound_of(launches, spec).limiter),
            int(kind == DATASHEET or small.elements > smallest[gpu]), "", time_ns / figure.published,
            time.process_time() - begun,
        )  # fmt: skip


def of_set(
    name: str, rows: int | None, halves: Sequence[str], budget: float = BUDGET, jobs: int = 1, only: Only = None, gpu: str = ""
) -> Iterator[Residual]:  # fmt: skip
    """Rows of an external set, of ``gpu`` where it is named, of each half so many (None: all) or, of these, ``only``
    some (series, identity)."""
    (one,) = load_sets([name])
    if not one.is_predicted:
        raise UsageError(f"{name}: {one.entry['status']}")
    entry = one.entry
    chosen = [
        row
        for half in halves
        for row in sample(
            [r for r in one.rows if r.half == half and gpu in ("", gpu_of(entry, r))], rows, entry["strata"]
        )
        if only is None or (series_of(name, row), row.identity) in only
    ]
    found = {row.identity: row for row in chosen}
    todo = [
        Job(
            name, entry["family"], row.identity, row.values, gpu_of(entry, row), settings_of(entry, row), entry["reduce"], budget, "", entry["cache"], entry["nvrtc"],
            entry["power"], entry.get("measured_by", ""),
        )
        for row in chosen
    ]  # fmt: skip
    for done in run(todo, jobs):
        if done.prediction is None:
            say(f"{name} {done.job.identity}: {done.why}")
            continue
        row = found[done.job.identity]
        own = gpu_of(entry, row)
        yield Residual(
            name, FITTED if own in fitted_gpus() else DATASHEET, own, series_of(name, row), row.identity, done.prediction.limiter, 1,
            row.half, done.prediction.time_us / row.measured_us, done.seconds, done.prediction.tensor,
        )  # fmt: skip


def series_of(name: str, row: MeasuredRow) -> str:
    """What counts as one kernel: the set, and the kernel or rung that the row says."""
    kernel = row.values.get("kernel") or (f"rung {row.values['rung']}" if "rung" in row.values else "")
    return " ".join(filter(None, (name, kernel)))


@click.command(help=(__doc__ or "").replace("\n    python", "\n\n\b\n    python"))
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option("--gpu", "gpus", multiple=True, help="Only these GPUs' curves.")
@click.option("--all-points", is_flag=True, help="Every published point instead of a spread of them.")
@click.option("--rows", type=click.IntRange(1), default=None, help="A sample of so many rows of each half of a set.")
@click.option(
    "--final", is_flag=True, help="Sets: the other half too, which sets no interval and shows whether they hold."
)
@click.option("--budget", default=BUDGET, show_default=True, help="Warp instructions simulated a row of a set, about.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Processes, for sets.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=FILE, show_default=True)
def main(
    sources: tuple[str, ...], gpus: tuple[str, ...], all_points: bool, rows: int | None, final: bool, budget: float, jobs: int,
    out: Path,
) -> None:  # fmt: skip
    try:
        known = [each.name for each in load_sets() if each.is_predicted]
        wanted = sources or (DATASHEET, PUBLISHED, SMALL, *known)
        kept = load_residuals(out) if out.exists() else []
        with shown():
            for source in wanted:
                if source == PUBLISHED:
                    asked = [gpu for gpu in fitted_gpus() if not gpus or gpu in gpus]
                    made = list(of_curves(asked, all_points))
                elif source == DATASHEET:
                    asked = [gpu for gpu in HELD_OUT if not gpus or gpu in gpus]
                    made = list(of_datasheets(asked, all_points))
                elif source == SMALL:
                    made = [row for kind in (FITTED, DATASHEET) for row in of_small_launches(kind)]
                else:
                    made = list(of_set(source, rows, (LEARN, FINAL)[: 1 + final], budget, jobs))
                replaced = {key_of(row) for row in made}
                kept = [row for row in kept if key_of(row) not in replaced] + made
                save_residuals(kept, out)
                remember(replaced, out.with_name(DIGESTS.name))
                say(f"{source}: {len(made)} rows")
    except GpusimError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
