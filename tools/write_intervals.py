"""Write gpusim/uncertainty/intervals.json, the factors of the prediction intervals, from traces/residuals, and say how often they hold.

    python tools/write_intervals.py                write the table, print it and the shares of left-out rows inside
    python tools/write_intervals.py --check        exit 1 if the table is not what the residuals make

Run tools/record_residuals.py before, which takes an hour; this takes a second.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from validation.intervals import LEAST_UNITS, LEVEL, calibration, gpu_of, held, kernel_of, left_out, rows_of
from validation.residuals import Residual, load_residuals

from gpusim.errors import GpusimError
from gpusim.gpus.load import load_gpu
from gpusim.io.whole_file import write_whole
from gpusim.report.tables import FORMATS, format_records
from gpusim.silicon.published import load_published
from gpusim.uncertainty.table import FILE

TABLE = ROOT / "gpusim" / "uncertainty" / FILE


def document(residuals: list[Residual]) -> dict:
    """What the file holds."""
    fitted = sorted({point.gpu for point in load_published() if point.fitted})
    capabilities = {load_gpu(row.gpu).capability for row in calibration(residuals)}
    return {
        "about": "Written by tools/write_intervals.py from traces/residuals/residuals.csv; see docs/validation/intervals.md.",
        "level_percent": 100 * LEVEL,
        "least_units": LEAST_UNITS,
        "fitted_gpus": fitted,
        "architectures": ["{}.{}".format(*each) for each in sorted(capabilities)],
        "rows": rows_of(residuals),
    }


@click.command(help=(__doc__ or "").replace("\n    python", "\n\n\b\n    python"))
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if the table would change.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(check: bool, form: str) -> None:
    try:
        residuals = load_residuals()
        made = document(residuals)
    except GpusimError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    text = json.dumps(made, indent=2) + "\n"
    if check:
        sys.exit(0 if TABLE.read_text() == text else 1)
    write_whole(TABLE, text.encode())
    tables = [format_records([dict(row) for row in made["rows"]], form)]
    for part in (kernel_of, gpu_of):
        tables.append(
            format_records(
                [{"left_out": part.__name__, **asdict(each)} for each in held(left_out(residuals, part))], form
            )
        )
    click.echo("\n\n".join(tables))


if __name__ == "__main__":
    main()
