"""How far off a GPU is that is described from its datasheet alone.

    python tools/datasheet_error.py                       what was last recorded, a line a GPU and series
    python tools/datasheet_error.py --run                 replay the curves anew, where a description or the model changed (half an hour; kept by point)
    python tools/datasheet_error.py --run --gpu l40 --all-points

Mental model: each GPU with published curves is held out in turn: `gpus make` describes it from its datasheet
(`gpusim/gpus/datasheets`) on top of a related GPU, from which everything that the held-out GPU's own curves set was
taken away (tools/validation/held_out.py), and its curves are replayed on that description. Printed beside it: the same
curves on the description that ships. GH200 and H200 are described from the A100, a generation earlier. The A100 80 GB,
from which all others inherit, cannot be held out.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from record_residuals import main as record
from validation.held_out import HELD_OUT
from validation.residuals import FILE, load_residuals
from validation.sheet_errors import TARGET_PERCENT, sheet_errors

from gpusim.errors import GpusimError, NoDataError
from gpusim.report.tables import FORMATS, format_records
from gpusim.uncertainty.table import DATASHEET


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
