"""Which measured runs of experts took longer than more work did: rows that no rule of work can project.

    python tools/experts_runs.py ROWS               a row a kind: how many of the learning half's rows took over 1.5 times what no less work took
    python tools/experts_runs.py ROWS --kind moe_fp8   and the runs (a network shared out in one way, of one distribution) where a fifth of the rows did

Mental model: a GPU that has some of the experts, or a part of each one's columns, has no more to do than one that has
more of both, for no fewer tokens (tools/operators/tuned_runs.py). Where it took longer, it was not the work:
TensorRT-LLM times tiles before it is measured and takes the fastest; a run for which it found none takes whatever comes
first. ROWS: the folder of tools/tile_operators.py. No projection is made.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import click
import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import tile_operators
from operators.kinds import KINDS
from operators.tuned_runs import LONGER, RUN, SHARE, over_more_work

from gpusim.report.tables import FORMATS, format_records


@click.command(help=(__doc__ or "").replace("\n    python", "\n\n\b\n    python"))
@click.argument("rows", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--kind", type=click.Choice(sorted(name for name in KINDS if name.startswith("moe_"))))
@click.option("--format", "form", type=click.Choice(FORMATS), default="table")
def main(rows: Path, kind: str | None, form: str) -> None:
    printed: list[dict[str, object]] = []
    for name in [kind] if kind else [each for each in KINDS if each.startswith("moe_")]:
        for gpu in KINDS[name].sources:
            shapes = tile_operators.measured_shapes(name, rows, gpu, False, None)
            times = over_more_work(shapes)
            known = ~np.isnan(times)
            longer = pd.Series(times[known] > LONGER)
            share = cast("pd.Series", longer.groupby([shapes[column].to_numpy()[known] for column in RUN]).mean())
            bad = cast("pd.Series", share[share >= SHARE])
            if kind:
                for run, value in bad.to_dict().items():
                    named = dict(zip(RUN, cast("tuple[object, ...]", run), strict=True))
                    printed.append({"gpu": gpu, **named, "longer_percent": round(100 * value)})
                continue
            printed.append({"kind": name, "gpu": gpu, "rows": int(known.sum()), "longer_percent": round(100 * float(longer.mean()), 1), "runs": len(share), "runs_longer": len(bad)})  # fmt: skip
    click.echo(format_records(printed, form))


if __name__ == "__main__":
    main()
