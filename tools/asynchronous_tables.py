"""Tables of Hopper's and Blackwell's asynchronous units beside what GPUs were measured at, each re-created as a kernel.

    python tools/asynchronous_tables.py                        all tables, every 8th row of the long ones, every 64th of the multicast
    python tools/asynchronous_tables.py tensor --every 1       one table, all of it (minutes)
    python tools/asynchronous_tables.py products shared --format csv

Mental model: a table is a generator of rows (what, measured, simulated); a time is what a longer launch takes more,
over its rounds.

tensor    products into tensor memory (tcgen05) on a B200: a round of one product with its commit and wait, and rounds of 16 and 64 products
products  a chain of mma.sync of two warps a sub-core on an RTX 5090
workloads products of whole matrices by one warp as mma.sync, two warps a sub-core, on an RTX 5090: 4 to 256 products
and the wait for the last functions functions of DPX on H800, A100 and RTX 4090: cycles a call, calls a cycle and SM
shared    loads of another block's shared memory on an H800: mean, least and most over the pairs of a cluster of 16
network   a ring of blocks of an H800 that read each other's shared memory: bytes a cycle and SM
loads     TMA loads on an H800 by what they move: plain copies and boxes of tensors of one to three dimensions
copies    bulk copies on an H800 by size and blocks an SM, and a hop of a chase (tools/bulk_copies.py)
chase     a hop of one thread's chase by loads and by bulk copies through L1, L2 and DRAM on A100, H800 and RTX 4090
multicast tiles that the blocks of a cluster share on a B200, each loading them or one for all: a round of four tiles an
SM

Measured: lookup1980/microbench-blackwell, commit a5eef42 (tensor, products, multicast), HPMLL/NVIDIA-Hopper-Benchmark,
commit ded6f57 (the others), arXiv 2402.13499 (network). Of `tensor` the source fits cycles a product = interval + b /
depth; the table has the interval and a round of depth 1. Of `products` the source's throughput figures are an eighth of
its latencies, eight times the datasheet's peak; one product of the loop is what counts here.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import bulk_copies
from asynchronous.chase import chase_rows
from asynchronous.dynamic_programming import programming_rows
from asynchronous.rounds import Row, cycles_a_round
from asynchronous.tma_loads import load_rows

import gpusim
from gpusim.errors import GpusimError
from gpusim.gpus.load import load_gpu
from gpusim.io.progress import shown, task
from gpusim.report.tables import FORMATS, format_records

FOLDER = Path(__file__).parent / "asynchronous"

#: Kind of the instruction, and the bits of its descriptor that say what is multiplied, by the name of a format.
_FORMATS = {
    "BF16": ("f16", 1 << 7 | 1 << 10 | 1 << 4), "E4M3": ("f8f6f4", 1 << 4), "F4": ("f8f6f4", 1 << 4 | 5 << 7 | 5 << 10),
    "S8": ("i8", 2 << 4 | 1 << 7 | 1 << 10), "MXF8": ("mxf8f6f4", 1 << 23), "MXF4": ("mxf8f6f4", 1 << 23 | 5 << 7 | 5 << 10),
}  # fmt: skip
_DEPTHS = (16, 64)


def tensor_rows(every: int) -> Iterator[Row]:
    spec = replace(load_gpu("b200"), sm_count=2)
    with open(FOLDER / "tensor_products.csv", newline="") as file:
        measured = list(csv.DictReader(file))[::every]
    for row in measured:
        group, rows, columns = int(row["group"]), int(row["rows"]), int(row["columns"])
        kind, descriptor = _FORMATS[row["format"]]
        options = [
            "-arch=sm_100a", f"-DGROUP={group}", f'-DKIND="{kind}"', f"-DROWS={rows}", f"-DCOLUMNS={columns}",
            f"-DIDESC={descriptor | columns >> 3 << 17 | rows >> 4 << 24}",
        ]  # fmt: skip
        options += ["-DA_IN_MEMORY"] * (row["operands"] == "TS") + ["-DSCALED"] * row["format"].startswith("MX")
        what = f"{row['format']} {row['operands']} {rows} x {columns}, {group} block{'s'[: group - 1]}"
        rest = {"gpu": "b200", "shared_bytes": 32 * (rows // group + columns)}
        interval, once = float(row["interval_cycles"]), float(row["round_cycles"])
        for depth in (1, *_DEPTHS):
            kernel = gpusim.cuda_cpp(FOLDER / "tensor_products.cu", "multiply_rounds", [*options, f"-DDEPTH={depth}"])
            cycles = cycles_a_round(
                kernel, group, 128, (2, 4), spec, lambda n: (np.zeros(1, np.uint64), np.int32(n)), **rest
            )  # fmt: skip
            yield f"{what}, {depth} a round", once + (depth - 1) * interval, cycles


#: Name -> shape of the dense product, its types, type of D's registers, measured cycles a product of each of two warps
#: of a sub-core.
_PRODUCTS = {
    "f16": ("m16n8k", 16, "f32.f16.f16.f32", "float", 64.06), "f16f16": ("m16n8k", 16, "f16.f16.f16.f16", "unsigned", 32.02),
    "bf16": ("m16n8k", 16, "f32.bf16.bf16.f32", "float", 64.06), "tf32": ("m16n8k", 8, "f32.tf32.tf32.f32", "float", 64.06),
    "e4m3": ("m16n8k", 32, "f32.e4m3.e4m3.f32", "float", 64.06), "e5m2": ("m16n8k", 32, "f32.e5m2.e5m2.f32", "float", 64.06),
    "u8": ("m16n8k", 32, "s32.u8.u8.s32", "unsigned", 34.02), "s8": ("m16n8k", 32, "s32.s8.s8.s32", "unsigned", 34.02),
}  # fmt: skip


def product_cycles(name: str, sparse: bool, rounds: tuple[int, int], packets: int = 0) -> float:
    """Cycles a round of a chain of products of each of two warps a sub-core; ``packets``: turns of a round's inner
    loop, which is there if not 0. A packet multiplies as much dense as sparse: two products, or one."""
    shape, depth, types, kept, _ = _PRODUCTS[name]
    instruction = f"mma{'.sp::ordered_metadata' * sparse}.sync.aligned.{shape}{depth << sparse}.row.col.{types}"
    options = [
        "-arch=sm_120a", f'-DNAME="{instruction}"', f"-DB_WORDS={2 << sparse}", f"-DTYPE_D={kept}",
        f"-DD_WORDS={2 if name == 'f16f16' else 4}", f'-DOF_D="{"f" if kept == "float" else "r"}"',
        *(("-DPACKETS", f"-DPRODUCTS={2 - sparse}") if packets else ()),
    ]  # fmt: skip
    further = (np.int32(packets),) if packets else ()
    kernel = gpusim.cuda_cpp(FOLDER / "warp_products.cu", "chain", options)
    spec = replace(load_gpu("rtx5090"), sm_count=1)
    out = np.zeros(256, np.float32 if kept == "float" else np.uint32)
    return cycles_a_round(kernel, 1, 256, rounds, spec, lambda n: (out, np.int32(n), *further), gpu="rtx5090")


def product_rows(_every: int) -> Iterator[Row]:
    for name, (*_, measured) in _PRODUCTS.items():
        for sparse in (False, True):
            yield f"{name}, {'sparse' if sparse else 'dense'}", measured, product_cycles(name, sparse, (4, 12)) / 4


def workload_rows(every: int) -> Iterator[Row]:
    with open(FOLDER / "warp_workloads.csv", newline="") as file:
        measured = list(csv.DictReader(file))[::every]
    for row in measured:
        name, sparse, products = row["format"], row["sparse"] == "1", int(row["products"])
        cycles = product_cycles(name, sparse, (2, 6), products if sparse else products // 2)
        yield f"{name}, {products} {'sparse' if sparse else 'dense'}", float(row["cycles"]), cycles


#: An own load through the cluster's address; others: mean, least and most of all pairs (whole cycles, half a one
#: added).
_SHARED = {"own block": 33.5, "mean of pairs": 199.6, "nearest pair": 180.5, "farthest pair": 213.5}
_CLUSTER = 16


def shared_rows(_every: int) -> Iterator[Row]:
    spec = replace(load_gpu("h100_pcie"), sm_count=_CLUSTER)
    kernel = gpusim.cuda_cpp(FOLDER / "shared_chase.cu", "chase")
    times = {
        (start, to): cycles_a_round(
            kernel, _CLUSTER, 1, (32, 96), spec,
            lambda n, start=start, to=to: (np.zeros(1, np.int32), np.int32(start), np.int32(to), np.int32(n)),
            gpu="h100_pcie", cluster=_CLUSTER,
        )
        for start in range(0, _CLUSTER, 3) for to in range(_CLUSTER)
    }  # fmt: skip
    others = np.array([cycles for (start, to), cycles in times.items() if start != to])
    simulated = (times[0, 0], float(others.mean()), float(others.min()), float(others.max()))
    for (what, measured), cycles in zip(_SHARED.items(), simulated, strict=True):
        yield what, measured, cycles


#: Blocks of a cluster -> bytes a cycle and SM: arXiv 2402.13499, figure 8, on an H800 (114 SMs, 1,755 MHz): 3.27 and
#: 2.65 TB/s.
_RING = {2: 16.3, 4: 13.2}
_RING_THREADS = 1024


def network_rows(_every: int) -> Iterator[Row]:
    spec = replace(load_gpu("h100_pcie"), sm_count=max(_RING))
    kernel = gpusim.cuda_cpp(FOLDER / "shared_ring.cu", "ring", ["-DWRITES=0"])
    for cluster, measured in _RING.items():
        cycles = cycles_a_round(
            kernel, max(_RING), _RING_THREADS, (2, 6), spec, lambda n: (np.zeros(1, np.uint32), np.int32(n)),
            gpu="h100_pcie", cluster=cluster, shared_bytes=1 << 16,
        )  # fmt: skip
        yield f"clusters of {cluster}, bytes a cycle and SM", measured, 16 * _RING_THREADS / cycles


def copy_rows(_every: int) -> Iterator[Row]:
    for (size, blocks), measured in bulk_copies.MEASURED.items():
        yield f"{size} bytes, {blocks} an SM", measured, bulk_copies.copy_cycles(size, blocks)
    hop = bulk_copies.hop_cycles("chase_bulk") - bulk_copies.hop_cycles("chase_load")
    yield "a hop beyond a load's", bulk_copies.CHASE_CYCLES, hop


_TILE_ROUNDS = (4, 12)


def multicast_rows(every: int) -> Iterator[Row]:
    """Every eight times ``every``-th row: each is of all SMs."""
    spec = load_gpu("b200")
    with open(FOLDER / "multicast.csv", newline="") as file:
        measured = list(csv.DictReader(file))[:: 8 * every]
    for row in measured:
        cluster, width, rows = int(row["cluster"]), int(row["width"]), int(row["rows"])
        options = ["-arch=sm_100a", f"-DWIDTH={width}", f"-DROWS={rows}", f"-DCLUSTER={cluster}"]
        options.append(f"-DMULTICAST={int(row['mode'] == 'multicast')}")
        kernel = gpusim.cuda_cpp(FOLDER / "multicast.cu", "load_tiles", options)

        def args(rounds: int, width: int = width, rows: int = rows, cluster: int = cluster) -> tuple:
            tiles = np.zeros((spec.sm_count // cluster * rounds * 4 * rows, width), np.float32)
            return gpusim.TensorMap(tiles, (rows, width)), np.zeros(1, np.uint64), np.int32(rounds)

        shared_bytes = 4 * 4 * width * rows
        cycles = cycles_a_round(
            kernel, spec.sm_count, 128, _TILE_ROUNDS, spec, args, gpu="b200", shared_bytes=max(shared_bytes, 120_000)
        )  # fmt: skip
        yield f"{row['mode']}, {cluster} blocks, {width} x {rows}", float(row["round_cycles"]), cycles


TABLES = {
    "tensor": tensor_rows, "products": product_rows, "workloads": workload_rows, "functions": programming_rows, "shared": shared_rows, "network": network_rows, "loads": load_rows,
    "copies": copy_rows, "chase": chase_rows, "multicast": multicast_rows,
}  # fmt: skip


@click.command(help=__doc__)
@click.argument("tables", nargs=-1, type=click.Choice(list(TABLES)))
@click.option(
    "--every", default=8, show_default=True, type=click.IntRange(1), help="Of long tables: each so-many-th row."
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(tables: tuple[str, ...], every: int, form: str) -> None:
    records, means = [], []
    with shown():
        for name in tables or TABLES:
            rows = []
            try:
                with task(f"simulating the table {name}"):
                    rows.extend(TABLES[name](every))
            except GpusimError as error:  # a compiler that a table was measured with is not installed
                raise click.ClickException(f"table {name}: {error}") from None
            errors = [100 * (simulated / measured - 1) for _, measured, simulated in rows]
            means.append(f"{name}: mean absolute error {np.mean(np.abs(errors)):.1f} % of {len(rows)} rows")
            records += [
                {
                    "table": name, "what": what, "measured_cycles": round(measured, 1),
                    "simulated_cycles": round(simulated, 1), "error_percent": round(error, 1),
                }
                for (what, measured, simulated), error in zip(rows, errors, strict=True)
            ]  # fmt: skip
    click.echo(format_records(records, form))
    click.echo("\n".join(means), err=True)


if __name__ == "__main__":
    main()
