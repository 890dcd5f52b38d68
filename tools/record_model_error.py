"""Record what the model misses by: simulate the published series and write traces/published/model_error.json.

Run ``python tools/record_model_error.py`` after the GPU descriptions or the model have changed; a few minutes. With
``--rows FILE`` it takes what ``gpusim compare --against published --format json`` has printed instead of simulating
again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from gpusim.compare.error import ComparedPoint, Summary, summarise
from gpusim.compare.known_error import FILE
from gpusim.compare.run import compare
from gpusim.errors import GpusimError
from gpusim.io.whole_file import write_whole

PUBLISHED = Path(__file__).parents[1] / "traces" / "published"


@click.command()
@click.option("--gpu", "gpus", multiple=True, default=("a100_80gb", "gh200", "h200"), show_default=True)
@click.option("--all-points", is_flag=True, help="Every published point instead of a spread of them.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--rows", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Rows printed by gpusim compare."
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=PUBLISHED / FILE, show_default=True)
def main(gpus: tuple[str, ...], all_points: bool, jobs: int, rows: Path | None, out: Path) -> None:
    """Simulate the published series of the GPUs and write their mean absolute errors."""
    if rows is not None:
        groups: dict[tuple[str, str], list[ComparedPoint]] = {}
        for record in json.loads(rows.read_text("utf-8")):
            for name in ("error_percent", "simulated_low", "simulated_high"):
                record.pop(name, None)
            groups.setdefault((record["gpu"], record["series"]), []).append(ComparedPoint(**record))
        summaries = [summarise(gpu, series, points) for (gpu, series), points in groups.items()]
        count = sum(map(len, groups.values()))
        write_document(error_document(summaries, f"gpusim compare --against published over {count} points"), out)
        return
    compared = compare((), gpus, all_points=all_points, jobs=jobs, progress=lambda line: click.echo(line, err=True))
    for (gpu, series), (_, message) in compared.failures.items():
        click.echo(f"left out: {gpu} {series}: {message}", err=True)
    which = "all published points" if all_points else "the default points of gpusim compare"
    write_document(error_document(compared.summaries, f"gpusim compare --against published over {which}"), out)


def error_document(summaries: Sequence[Summary], method: str) -> dict:
    """The file's content: mean absolute error of each series, by GPU; beside it, for the docs' tables, the mean signed
    error and the number of points."""
    gpus: dict[str, dict[str, float]] = {}
    bias: dict[str, dict[str, float]] = {}
    points: dict[str, dict[str, int]] = {}
    for summary in summaries:
        if summary.points:
            gpus.setdefault(summary.gpu, {})[summary.series] = round(summary.mape_percent, 2)
            bias.setdefault(summary.gpu, {})[summary.series] = round(summary.bias_percent, 1)
            points.setdefault(summary.gpu, {})[summary.series] = summary.points
    return {
        "method": method,
        "unit": "percent, mean absolute",
        "gpus": gpus,
        "mean_signed_percent": bias,
        "points": points,
    }


def write_document(document: dict, path: Path) -> None:
    """Write the file whole or not at all."""
    write_whole(path, (json.dumps(document, indent=2) + "\n").encode())


if __name__ == "__main__":
    try:
        main(standalone_mode=True)
    except GpusimError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
