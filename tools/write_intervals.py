"""Write gpusim/uncertainty/intervals.json, the factors of the prediction intervals, from traces/residuals, and say how often they hold.

    python tools/write_intervals.py                write the table, print it and the shares of left-out rows inside
    python tools/write_intervals.py --check        exit 1 if the table is not what the residuals make
    python tools/write_intervals.py --pools        how often and how wide, by how much a class leans on all launches: what POOL_SETS was chosen by

Run tools/record_validation.py --run before, which takes hours and calls this, which takes seconds.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from validation.coverage import by_part, calibrated_quantile, held, left_out, share_percent
from validation.intervals import LEAST_SETS, LEVEL, calibration, gpu_of, limiter_of, rows_at, set_of
from validation.residuals import Residual, load_residuals

from gpusim.errors import GpusimError
from gpusim.gpus.load import load_gpu
from gpusim.io.whole_file import write_whole
from gpusim.report.tables import FORMATS, format_records
from gpusim.silicon.published import load_published
from gpusim.uncertainty.table import FILE

TABLE = ROOT / "gpusim" / "uncertainty" / FILE


#: Weights of all launches that --pools compares.
POOLS = (1.0, 2.0, 4.0, 8.0)
PARTS = {"set": set_of, "gpu": gpu_of, "limiter": limiter_of}


def document(residuals: list[Residual]) -> dict:
    """What the file holds."""
    known = calibration(residuals)
    fitted = sorted({point.gpu for point in load_published() if point.fitted})
    capabilities = {load_gpu(row.gpu).capability for row in known}
    quantile = calibrated_quantile(known)
    return {
        "about": "Written by tools/write_intervals.py from traces/residuals/residuals.csv; see docs/validation/intervals.md.",
        "level_percent": 100 * LEVEL,
        "least_sets": LEAST_SETS,
        "quantile_percent": round(100 * quantile, 1),
        "fitted_gpus": fitted,
        "architectures": ["{}.{}".format(*each) for each in sorted(capabilities)],
        "rows": rows_at(known, quantile),
    }


def pools(residuals: list[Residual]) -> list[dict]:
    """A line a weight of all launches: the quantile it needs, the shares of left-out sets and GPUs inside, and the mean factor of validated classes."""
    known = calibration(residuals)
    lines = []
    for pool_sets in POOLS:
        quantile = calibrated_quantile(known, pool_sets)
        inside = {name: share_percent(left_out(known, part, quantile, pool_sets), part) for name, part in PARTS.items()}
        rows = [row for row in rows_at(known, quantile, pool_sets) if not row["coarser"]]
        lines.append(
            {"pool_sets": pool_sets, "quantile_percent": 100 * quantile, "inside_sets_percent": inside["set"],
             "inside_gpus_percent": inside["gpu"], "mean_factor": sum(row["factor"] for row in rows) / len(rows)}
        )  # fmt: skip
    return lines


@click.command(help=(__doc__ or "").replace("\n    python", "\n\n\b\n    python"))
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if the table would change.")
@click.option("--pools", "pools_it", is_flag=True, help="Write nothing; compare weights of all launches in a class.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(check: bool, pools_it: bool, form: str) -> None:
    try:
        residuals = load_residuals()
        if pools_it:
            click.echo(format_records(pools(residuals), form))
            return
        made = document(residuals)
    except GpusimError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    text = json.dumps(made, indent=2) + "\n"
    if check:
        sys.exit(0 if TABLE.read_text() == text else 1)
    write_whole(TABLE, text.encode())
    known, quantile = calibration(residuals), made["quantile_percent"] / 100
    tables = [format_records([dict(row) for row in made["rows"]], form)]
    for name, part in PARTS.items():
        judged = left_out(known, part, quantile)
        tables.append(format_records([{"left_out": name, **asdict(each)} for each in by_part(judged, part)], form))
        tables.append(format_records([{"left_out": name, **asdict(each)} for each in held(judged, part)], form))
    click.echo("\n\n".join(tables))


if __name__ == "__main__":
    main()
