"""How far off a GPU is that is described from its datasheet alone.

    python tools/datasheet_error.py                       what was last recorded, a line a GPU and series
    python tools/datasheet_error.py --run                 replay the curves anew, where a description or the model changed (half an hour; kept by point)
    python tools/datasheet_error.py --run --gpu l40 --all-points

Mental model: each GPU with published curves is held out in turn: `gpus make` describes it from its datasheet (`gpusim/gpus/datasheets`) on top of a
related GPU, from which everything that the held-out GPU's own curves set was taken away (tools/validation/held_out.py), and its curves are replayed on
that description. Printed beside it: the same curves on the description that ships. GH200 and H200 are described from the A100, a
generation earlier. The A100 80 GB, from which all others inherit, cannot be held out.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from record_residuals import main as record
from validation.held_out import HELD_OUT, like_of
from validation.residuals import FILE, Residual, load_residuals

from gpusim.compare.error import higher_is_faster
from gpusim.errors import GpusimError, NoDataError
from gpusim.report.tables import FORMATS, format_records
from gpusim.silicon.published import load_published
from gpusim.uncertainty.table import DATASHEET, FITTED

#: The mean error that a GPU described from its datasheet should not exceed.
TARGET_PERCENT = 12.0


@dataclass(frozen=True)
class SheetError:
    """Mean absolute errors in percent, as `gpusim compare` takes them, over the points of one series, or of all (``all``)."""

    gpu: str
    like: str
    series: str
    points: int
    datasheet_percent: float
    shipped_percent: float | None
    worst_percent: float


def sheet_errors(residuals: list[Residual]) -> list[SheetError]:
    """A line a series, and one for each GPU as a whole behind its series."""
    units = {(point.gpu, point.series): point.unit for point in load_published()}

    def errors(kind: str, gpu: str) -> dict[tuple[str, str], float]:
        """(series, point) -> signed percent of the value."""
        found = {}
        for row in residuals:
            if (row.source, row.kind, row.gpu) == ("published", kind, gpu):
                ratio = 1 / row.time_ratio if higher_is_faster(units[gpu, row.series]) else row.time_ratio
                found[row.series, row.point] = 100 * (ratio - 1)
        return found

    lines = []
    for gpu in HELD_OUT:
        sheet, shipped = errors(DATASHEET, gpu), errors(FITTED, gpu)
        for series in [*dict.fromkeys(name for name, _ in sheet), "all"]:
            own = [key for key in sheet if series in (key[0], "all")]
            if own:
                both = [abs(shipped[key]) for key in own if key in shipped]
                lines.append(
                    SheetError(
                        gpu, like_of(gpu), series, len(own), float(np.mean([abs(sheet[key]) for key in own])),
                        float(np.mean(both)) if len(both) == len(own) else None, max((sheet[key] for key in own), key=abs),
                    )
                )  # fmt: skip
    return lines


@click.command(help=(__doc__ or "").replace("\n    python", "\n\n\b\n    python"))
@click.option("--run", "run_it", is_flag=True, help="Replay the curves, and record them.")
@click.option("--gpu", "gpus", multiple=True, type=click.Choice(HELD_OUT), help="Only these GPUs.")
@click.option("--all-points", is_flag=True, help="Every published point instead of a spread of them.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.pass_context
def main(context: click.Context, run_it: bool, gpus: tuple[str, ...], all_points: bool, form: str) -> None:
    if run_it:
        for source in (DATASHEET, "published"):
            context.invoke(
                record,
                sources=(source,),
                gpus=gpus,
                all_points=all_points,
                rows=None,
                final=False,
                budget=4e6,
                jobs=1,
                out=FILE,
            )
    try:
        lines = [line for line in sheet_errors(load_residuals()) if not gpus or line.gpu in gpus]
        if not lines:
            raise NoDataError("nothing is recorded of these GPUs: run it with --run")
    except GpusimError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    click.echo(format_records([asdict(line) for line in lines], form))
    for line in lines:
        if line.series == "all":
            verdict = "within" if line.datasheet_percent <= TARGET_PERCENT else "above"
            click.echo(
                f"{line.gpu}: {line.datasheet_percent:.1f} % over {line.points} points, {verdict} {TARGET_PERCENT:.0f} %",
                err=True,
            )


if __name__ == "__main__":
    main()
