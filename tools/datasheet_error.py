"""How far off a GPU is that is described from its datasheet alone.

    python tools/datasheet_error.py [GPU...] [--jobs 2] [--all-points] [--kernels stream_triad ...]

Mental model: each GPU with published curves is left out in turn: `gpus make` describes it from its datasheet
(`gpusim/gpus/datasheets`) on top of a related GPU that none of its curves set, and its curves are simulated on that description.
Printed beside it: the same curves on the description that ships. The related GPU of each stands in the first line of its datasheet.
GH200 and H200 are described from the A100, a generation earlier. The A100's own file, from which all others inherit, cannot be left out.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from gpusim.compare.run import ComparedGpu, compare_groups, select
from gpusim.gpus.datasheet import read_datasheet
from gpusim.gpus.load import load_gpu
from gpusim.gpus.make import make_gpu
from gpusim.report.tables import format_records

SHEETS = Path(__file__).parents[1] / "gpusim" / "gpus" / "datasheets"
LEFT_OUT = ("a40", "l40", "h100_pcie", "gh200", "h200")
_LIKE = re.compile(r"--like (\S+)")


def from_datasheet(name: str) -> tuple[ComparedGpu, str]:
    """``name`` as its datasheet alone describes it, and the GPU that it is made like."""
    path = SHEETS / f"{name}.toml"
    found = _LIKE.search(path.read_text().splitlines()[0])
    if found is None:
        raise SystemExit(f"{path}: its first line does not say --like")
    return ComparedGpu(make_gpu(f"{name}_datasheet", read_datasheet(path), found[1]).spec, name), found[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gpus", nargs="*", default=LEFT_OUT, metavar="GPU")
    parser.add_argument("--kernels", nargs="+", default=())
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--all-points", action="store_true")
    options = parser.parse_args()
    records = []
    for name in options.gpus:
        made, like = from_datasheet(name)
        shipped = select(options.kernels, [name], all_points=options.all_points)
        groups = [*shipped, *((made, points) for _, points in shipped)]
        done = compare_groups(groups, jobs=options.jobs)
        half = len(shipped)
        for own, other in zip(done.summaries[:half], done.summaries[half:], strict=True):
            records.append(
                {
                    "gpu": name, "like": like, "series": own.series, "points": own.points,
                    "shipped_mape_percent": own.mape_percent, "datasheet_mape_percent": other.mape_percent,
                }
            )  # fmt: skip
    print(format_records(records, "table"))
    for name in options.gpus:
        own = [r for r in records if r["gpu"] == name]
        points = sum(r["points"] for r in own)
        for column in ("shipped", "datasheet"):
            mean = sum(r[f"{column}_mape_percent"] * r["points"] for r in own) / points
            print(f"{name}: {column} {mean:.1f} % over {points} points of {load_gpu(name).title}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
