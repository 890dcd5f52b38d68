"""Write gpusim/uncertainty/intervals.json, the factors of the prediction intervals, from traces/residuals, and say how
often they hold.

    python tools/write_intervals.py                write the table, print it and the shares of left-out rows inside
    python tools/write_intervals.py --check        exit 1 if the table is not what the residuals make
    python tools/write_intervals.py --rules        how often, how wide and how good, by how much a class leans on all launches: what POOL_SETS was chosen by

Run tools/record_validation.py --run before, which takes hours and calls this, which takes seconds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from validation.coverage import LEFT_OUT, by_part, held, left_out, rule_of, settled_rule, too_seldom, unsure
from validation.intervals import LEAST_SETS, LEVEL, calibration, rows_at, set_of
from validation.residuals import Residual, load_residuals

from gpusim.errors import GpusimError
from gpusim.gpus.load import load_gpu
from gpusim.io.whole_file import write_whole
from gpusim.report.tables import FORMATS, format_records
from gpusim.silicon.published import load_published
from gpusim.uncertainty.table import FILE

TABLE = ROOT / "gpusim" / "uncertainty" / FILE
#: Weights of all launches that --rules compares.
POOLS = (0.0, 1.0, 2.0, 4.0, 8.0)


def document(residuals: list[Residual]) -> dict:
    """What the file holds."""
    known = calibration(residuals)
    fitted = sorted({point.gpu for point in load_published() if point.fitted})
    capability_of = {name: "{}.{}".format(*load_gpu(name).capability) for name in {row.gpu for row in known}}
    tensor: dict[str, set[str]] = {}
    for row in known:
        if row.tensor:
            tensor.setdefault(capability_of[row.gpu], set()).update(row.tensor.split("+"))
    beyond = missed(known, capability_of)
    return {
        "about": "Written by tools/write_intervals.py from traces/residuals/residuals.csv; see docs/validation/intervals.md.",
        "level_percent": 100 * LEVEL,
        "least_sets": LEAST_SETS,
        "fitted_gpus": fitted,
        "architectures": sorted(set(capability_of.values())),
        "missed": beyond,
        "tensor": {capability: sorted(formats) for capability, formats in sorted(tensor.items())},
        "rows": rows_at(known, unsure=unsure(known, beyond, capability_of)),
    }


def missed(known: list[Residual], capability_of: Mapping[str, str]) -> list[str]:
    """Compute capabilities whose rows, each set as one, lie within the intervals that the rows of all others make too
    seldom: what is known of the others is not known of them."""
    judged = left_out(known, lambda row: capability_of[row.gpu])
    of_each = {name: [each for each in judged if capability_of[each.row.gpu] == name] for name in set(capability_of.values())}  # fmt: skip
    return sorted(name for name, own in of_each.items() if too_seldom(own, set_of))


def rules(residuals: list[Residual]) -> list[dict]:
    """A line a weight of all launches and a thing left out: the share inside, the worst of validated limiters, the
    median half-width and the interval score."""
    known = calibration(residuals)
    lines = []
    for pool_sets in POOLS:
        rule = rule_of(pool_sets)
        validated = {row["limiter"] for row in rule(known) if not row["coarser"]}
        for name, (parts, part) in LEFT_OUT.items():
            shares = {(each.kind, each.limiter): each for each in held(left_out(known, *parts, rule=rule), part)}
            every = shares["all", "all"]
            lines.append(
                {"pool_sets": pool_sets, "left_out": name, "inside_percent": every.inside_parts_percent,
                 "least_limiter_percent": min(each.inside_parts_percent for (kind, of), each in shares.items() if kind == "all" and of in validated),
                 "half_width_percent": every.half_width_percent, "score": every.score}
            )  # fmt: skip
    return lines


@click.command(help=(__doc__ or "").replace("\n    python", "\n\n\b\n    python"))
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if the table would change.")
@click.option("--rules", "rules_it", is_flag=True, help="Write nothing; compare weights of all launches in a class.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(check: bool, rules_it: bool, form: str) -> None:
    try:
        residuals = load_residuals()
        if rules_it:
            click.echo(format_records(rules(residuals), form))
            return
        made = document(residuals)
    except GpusimError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    text = json.dumps(made, indent=2) + "\n"
    if check:
        sys.exit(0 if TABLE.read_text() == text else 1)
    write_whole(TABLE, text.encode())
    known = calibration(residuals)
    tables = [format_records([dict(row) for row in made["rows"]], form)]
    for name, (parts, part) in LEFT_OUT.items():
        judged = left_out(known, *parts, rule=settled_rule(made["rows"]))
        tables.append(format_records([{"left_out": name, **asdict(each)} for each in by_part(judged, part)], form))
        tables.append(format_records([{"left_out": name, **asdict(each)} for each in held(judged, part)], form))
    click.echo("\n\n".join(tables))


if __name__ == "__main__":
    main()
