"""Projected square products beside what owners of some 30 GPUs measured: mean errors by GPU and number format.

    python tools/square_products.py                    a row a GPU, of what set nothing
    python tools/square_products.py --gpu h20          a row a size
    python tools/square_products.py --format md        the table of docs/validation/projections/products.md (seconds)
    python tools/square_products.py --record           and keep errors in FP32 and TF32 as the bands of projections (gpusim/tile/square_errors.json)

Mental model: torch.mm of two square matrices of random numbers, 30 times in a row after six, timed by the host's clock
from a synchronisation to the next one; so both operands lie in L2 where they fit. Owners ran the same program and
published what it printed (zzc0721/torch-performance-test-data, issues 42 to 200; of its database.md, whose rows are the
best of the sizes, GPUs that no issue has): traces/library/square_products.csv, in 10^12 operations a second. Nobody
fixed or recorded a clock: boards of one name are up to 15 % apart, and GeForce boards run above the boost clock of
their data sheet. Left out, by the column of that name: ``first``, FP32 below 4,096, which the program runs first, on a
GPU whose clock is still rising (of GPUs without TF32 it runs FP32 a second time, which is taken); ``host``, products of
less than 20 us, which are launched no faster; ``unsteady``, a board whose times vary by half. Products in FP32 of four
GPUs (:data:`SET_BY`) set the rates of the library's kernels on FMA pipes (gpusim/tile/library.toml); nothing else here
set anything.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from operators.shape_bands import band_rows, held_without

from gpusim.gpus.load import load_gpu
from gpusim.io.whole_file import write_whole
from gpusim.report.tables import FORMATS, format_records
from gpusim.tile.bands import REGIONS, region_of
from gpusim.tile.library import named_kernels
from gpusim.tile.product import GemmOp, project_product

MEASURED = ROOT / "traces" / "library" / "square_products.csv"
SIZES = (1024, 2048, 4096, 8192, 10240)
DTYPES = ("fp32", "tf32", "fp16", "bf16")
#: Of a product in a row, warm-up included.
RUN_LAUNCHES = 36
#: GPUs whose products in FP32 set rates.
SET_BY = ("v100", "a10g", "h20", "b200")
RECORD = ROOT / "gpusim" / "tile" / "square_errors.json"
#: Number formats that no other products were measured in, which have their bands from these; a region of rows has one
#: where so many GPUs have a row in it.
RECORDED, LEAST_GPUS = ("fp32", "tf32"), 10


@dataclass(frozen=True)
class Row:
    """A measured product; ``size`` 0: the best of :data:`SIZES`. ``left_out``: why, or empty."""

    gpu: str
    source: str
    dtype: str
    size: int
    tflops: float
    left_out: str

    @property
    def sets(self) -> bool:
        """Whether it set a figure that it would be held against."""
        return self.dtype == "fp32" and self.gpu in SET_BY

    def error(self) -> float:
        """Of the projected time, relative."""
        sizes = (self.size,) if self.size else SIZES
        return self.tflops / max(projected_tflops(self.gpu, self.dtype, size) for size in sizes) - 1


def projected_tflops(gpu: str, dtype: str, size: int) -> float:
    """10^12 operations a second of a product that is repeated."""
    found = project_product(load_gpu(gpu), GemmOp(size, size, size, dtype, warm=True, run_launches=RUN_LAUNCHES))
    return 2e-12 * size**3 / found.seconds


def read(path: Path = MEASURED) -> list[Row]:
    """All rows, those that are left out too."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Row(each["gpu"], each["source"], each["dtype"], int(each["size"]), float(each["tflops"]), each["left_out"])
            for each in csv.DictReader(file)
        ]


def errors_of(rows: list[Row]) -> dict[Row, float]:
    """Errors of those rows that set nothing and are not left out."""
    return {row: row.error() for row in rows if not row.left_out and not row.sets}


def summaries(errors: dict[Row, float]) -> Iterator[dict[str, object]]:
    """A record a GPU and one for all."""
    for gpu in (*sorted({row.gpu for row in errors}), "all"):
        own = {row: error for row, error in errors.items() if gpu in (row.gpu, "all")}
        record: dict[str, object] = {
            "gpu": gpu,
            "boards": len({(row.gpu, row.source) for row in own}),
            "rows": len(own),
        }
        for dtype in DTYPES:
            of_kind = [abs(error) for row, error in own.items() if row.dtype == dtype]
            record[f"{dtype}_percent"] = round(100 * fmean(of_kind), 1) if of_kind else ""
        record["mean_error_percent"] = round(100 * fmean(map(abs, own.values())), 1)
        record["signed_percent"] = round(100 * fmean(own.values()), 1)
        yield record


def bands(errors: dict[Row, float], dtype: str) -> dict[str, Any]:
    """Of products in ``dtype``: the generations that have rows, and of each range of rows the factor that holds the
    next GPU's, with how many shapes of how many GPUs, and the share of them that lie within the factor which the other
    GPUs alone make. ``errors``: of rows that set nothing; a best of all sizes is no row of a size."""
    of_kind = {row: error for row, error in errors.items() if row.dtype == dtype and row.size}
    off = np.array(list(of_kind.values()))
    _, gpus = np.unique([row.gpu for row in of_kind], return_inverse=True)
    regions = [(name, np.array([region_of(row.size) == name for row in of_kind])) for name, _ in REGIONS]
    regions = [(name, inside) for name, inside in regions if len(np.unique(gpus[inside])) >= LEAST_GPUS]
    found = band_rows(regions, off, gpus)
    for name, inside in regions:
        found[name]["held_percent"] = round(100 * float(held_without(inside, off, gpus).mean()))
    return {"generations": sorted({named_kernels(load_gpu(row.gpu)) for row in of_kind}), "regions": found}


def sizes_of(rows: list[Row], gpu: str) -> Iterator[dict[str, object]]:
    """A record a product of ``gpu``, with those that set something or are left out."""
    for row in rows:
        if row.gpu == gpu:
            yield {
                "source": row.source,
                "dtype": row.dtype,
                "size": row.size or "best",
                "tflops": row.tflops,
                "error_percent": round(100 * row.error(), 1),
                "left_out": row.left_out or ("sets a rate" if row.sets else ""),
            }


@click.command(help=__doc__)
@click.option("--gpu", help="A row a size of this one.")
@click.option("--record", is_flag=True, help="Keep errors as the bands of products in FP32 and TF32.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(gpu: str | None, record: bool, form: str) -> None:
    rows = read()
    if gpu and record:
        raise click.UsageError("--record keeps the errors of all GPUs: leave out --gpu")
    if gpu and gpu not in {row.gpu for row in rows}:
        raise click.ClickException(f"no row of {gpu!r}; there are of {', '.join(sorted({row.gpu for row in rows}))}")
    if gpu:
        click.echo(format_records(list(sizes_of(rows, gpu)), form))
        return
    errors = errors_of(rows)
    if record:
        document = {
            "about": "Written by tools/square_products.py --record.",
            "dtypes": {dtype: bands(errors, dtype) for dtype in RECORDED},
        }
        write_whole(RECORD, (json.dumps(document, indent=1) + "\n").encode())
    click.echo(format_records(list(summaries(errors)), form))


if __name__ == "__main__":
    main()
