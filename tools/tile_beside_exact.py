"""The same tile program at both levels: kernels of the suite simulated instruction by instruction, and their tiles
projected as a library's would be.

    python tools/tile_beside_exact.py                         a row a kernel, GPU and depth
    python tools/tile_beside_exact.py --only cpp_hgemm --format json
    python tools/tile_beside_exact.py --record                and keep them for the pages (traces/library/tile_beside_exact.json)

Mental model: each program is run with a depth (of a product: k; of an attention: keys) and with twice as much, so that
what a step takes and what a launch takes beside its steps stand apart: a difference in the first grows with the
problem, one in the second does not. At the tile level the tile, the stages, the blocks of an SM (those that the exact
level finds), the format of the result and whether blocks take operands together are the kernel's; all other figures are
the generation's library, fitted to what a library's kernels took. Both levels have the described clock, no power limit,
a cold L2, and no launch: the exact level's cycles to start and to end a launch (``launch.start_cycles``,
``launch.end_cycles``) are left out of its time, as a graph node's nanoseconds are out of the tile level's.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

import gpusim
from gpusim.cases.run_case import run_case
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.io.progress import shown, task
from gpusim.io.whole_file import write_whole
from gpusim.report.tables import FORMATS, format_records
from gpusim.tile.attention import AttentionShape, attention_library_of, project_attention
from gpusim.tile.attention_context import ContextShape, context_library_of, project_context
from gpusim.tile.gemm import GemmShape, project_gemm
from gpusim.tile.library import Choice, Tile, library_of

RECORD = ROOT / "traces" / "library" / "tile_beside_exact.json"
Shape = dict[str, Any]


@dataclass(frozen=True)
class Program:
    """``kernel`` on ``gpu`` with ``shape``, whose axis ``deep`` is doubled; ``step``: of it that one step takes (0:
    blocks become more, too, so that steps do not stand apart); ``seconds``: at the tile level, by GPU, shape and blocks
    of an SM."""

    kernel: str
    gpu: str
    deep: str
    step: int
    shape: Shape
    seconds: Callable[[GpuSpec, Shape, int], float]


def product(
    rows: int, columns: int, depth: int, stages: int, dtype: str = "fp16", result_bytes: int = 2, multicast: bool = False
) -> Callable[[GpuSpec, Shape, int], float]:  # fmt: skip
    """Tiles of ``rows`` x ``columns``, ``depth`` a step and ``stages`` of them ahead; ``multicast``: neighbours take
    operands together, as libraries' do."""

    def seconds(spec: GpuSpec, shape: Shape, blocks: int) -> float:
        library = library_of(spec.generation, dtype)
        shared = library.shared_loads if multicast or spec.crossbar.merges_reads else 1.0
        used = replace(
            library,
            rule=(Choice(Tile(rows, columns, depth, stages, blocks)),),
            launch_ns=0.0,
            shared_loads=shared,
            pairs=library.pairs and multicast,
        )
        of = GemmShape(shape["m"], shape["n"], shape["k"], dtype, result_bytes, cold_a=1.0)
        return project_gemm(spec, of, used, math.inf).seconds

    return seconds


def context(query_rows: int, keys: int) -> Callable[[GpuSpec, Shape, int], float]:
    """Attention over many queries in tiles of ``query_rows`` by ``keys``; nothing is written into a cache or copied, so
    that no bytes pass DRAM beside the kernel's own loads, which run ahead."""

    def seconds(spec: GpuSpec, shape: Shape, blocks: int) -> float:
        used = replace(
            context_library_of(spec.generation, bool(shape["causal"])), query_rows=query_rows, kv_columns=keys, blocks_per_sm=blocks, packs_heads=0,
            launch_ns=0.0, kv_passes=0.0, head_passes=0.0,
        )  # fmt: skip
        queries, depth = shape.get("queries", shape.get("tokens")), shape.get("depth", shape.get("dim"))
        assert queries is not None and depth is not None
        before = shape.get("keys", queries) - queries
        of = ContextShape(
            1, queries, shape["heads"], shape["heads"], depth, "fp16", before, causal=bool(shape["causal"])
        )
        return project_context(spec, of, used, math.inf).seconds

    return seconds


def decode(keys: int) -> Callable[[GpuSpec, Shape, int], float]:
    """Attention of one query, ``keys`` a step; the parts are those that the shape has, which the tile level chooses by
    places and blocks."""

    def seconds(spec: GpuSpec, shape: Shape, blocks: int) -> float:
        used = replace(
            attention_library_of(spec.generation), rule="plain", query_rows=1, kv_columns=keys, blocks_per_sm=blocks, launch_ns=0.0,
            regroup_ns=0.0, splits_single_heads=1, l2_share=1e-9,
        )  # fmt: skip
        of = AttentionShape(1, shape["context"], shape["heads"], shape["heads"], shape["dim"], "fp16")
        return project_attention(spec, of, used).seconds

    return seconds


def _wgmma(step: str, **more: int) -> Shape:
    return {"m": 2048, "n": 1024, "k": 1024, "step": step, "columns": 128, "stages": 4, "blocks": 132} | more


PROGRAMS = (
    Program("cpp_wgmma_gemm", "h100", "k", 64, _wgmma("pipelined"), product(128, 128, 64, 4)),
    Program("cpp_wgmma_gemm", "h100", "k", 64, _wgmma("pipelined", n=2048), product(128, 128, 64, 4)),
    Program("cpp_wgmma_gemm", "h100", "k", 64, _wgmma("cooperative", n=2048), product(128, 128, 64, 4, multicast=True)),
    Program("cpp_wgmma_gemm", "h100", "k", 64, _wgmma("tma"), product(128, 128, 64, 1)),
    Program("cpp_hgemm", "a100_80gb", "k", 32, {"m": 1664, "n": 1024, "k": 512, "tile": "128x128x32", "stages": 3}, product(128, 128, 32, 3, result_bytes=4)),
    Program("cpp_hgemm", "a100_80gb", "k", 32, {"m": 1664, "n": 512, "k": 1024, "tile": "64x64x32", "stages": 4}, product(64, 64, 32, 4, result_bytes=4)),
    Program("triton_matmul_persistent", "a100_80gb", "k", 32, {"m": 1024, "n": 768, "k": 512, "programs": 192, "tile": 64}, product(64, 64, 32, 3)),
    Program("cpp_sgemm", "a100_80gb", "k", 8, {"m": 1664, "n": 1024, "k": 128, "tile": "128x128x8"}, product(128, 128, 8, 2, "fp32", 4)),
    Program("matmul_tiled", "a100_80gb", "k", 32, {"m": 512, "n": 512, "k": 128, "tile": 32}, product(32, 32, 32, 1, "fp32", 4)),
    Program("cpp_wgmma_attention", "h100", "keys", 128, {"heads": 16, "queries": 1024, "keys": 1024, "depth": 128, "stages": 2, "causal": 0, "step": "both"}, context(128, 128)),
    Program("cpp_attention", "a100_80gb", "tokens", 0, {"heads": 16, "tokens": 512, "dim": 64, "causal": False, "warps": 4, "tile": 64}, context(64, 64)),
    Program("cpp_decode", "a100_80gb", "context", 128, {"heads": 32, "context": 2048, "dim": 128, "parts": 16, "block_threads": 128}, decode(128)),
)  # fmt: skip


def exact(program: Program, shape: Shape) -> tuple[float, int, list[str]]:
    """Cycles of all launches without their starts and ends, blocks of an SM of the first, and what the warps of the
    first wait for most."""
    spec = load_gpu(program.gpu)
    ran = run_case(program.kernel, shape, spec, sample=True)
    traces = [launch.trace for launch in ran.launches]
    results = [gpusim.simulate(trace, spec, sample=True) for trace in traces]
    beside = len(results) * (spec.launch.start_cycles + spec.launch.end_cycles)
    stalls = results[0].stalls
    most = sorted((name for name in stalls if name != "selected"), key=lambda name: -stalls[name])[:2]
    return sum(each.cycles for each in results) - beside, results[0].blocks_per_sm, most


def rows_of(program: Program) -> list[dict[str, object]]:
    """Of both depths; the second has what a step takes at both levels, and what is left of the first when its steps are
    taken away."""
    spec = load_gpu(program.gpu)
    found: list[dict[str, object]] = []
    times = []
    for factor in (1, 2):
        shape = program.shape | {program.deep: factor * program.shape[program.deep]}
        cycles, blocks, stalls = exact(program, shape)
        tile = program.seconds(spec, shape, blocks) * spec.clock_hz
        times.append((cycles, tile, shape[program.deep] / (program.step or 1)))
        found.append({
            "kernel": program.kernel, "gpu": program.gpu, "shape": " ".join(f"{name}={value}" for name, value in shape.items()), "blocks_per_sm": blocks,
            "exact_cycles": round(cycles), "tile_cycles": round(tile), "tile_off_percent": round(100 * (tile / cycles - 1), 1), "waits": ", ".join(stalls),
        })  # fmt: skip
    (exact_1, tile_1, steps_1), (exact_2, tile_2, steps_2) = times
    for name, one, two in (("exact", exact_1, exact_2), ("tile", tile_1, tile_2)):
        a_step = (two - one) / (steps_2 - steps_1)
        for row in found:
            row[f"{name}_step_cycles"] = round(a_step, 1) if program.step else None
            row[f"{name}_beside_cycles"] = round(one - steps_1 * a_step) if program.step else None
    return found


@click.command(help=__doc__)
@click.option("--only", help="Programs whose kernel's name has this in it.")
@click.option("--record", is_flag=True, help="Keep the rows for the pages.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(only: str | None, record: bool, form: str) -> None:
    """Print a row a program and depth."""
    if record and only:
        raise click.UsageError("--record keeps the rows of all programs: leave out --only")
    programs = [each for each in PROGRAMS if not only or only in each.kernel]
    if not programs:
        raise click.UsageError(
            f"no program has {only!r} in its name: {', '.join(sorted({p.kernel for p in PROGRAMS}))}"
        )
    rows: list[dict[str, object]] = []
    with shown(), task("simulating", len(programs), "programs") as progress:
        for number, program in enumerate(programs):
            rows += rows_of(program)
            progress.to(number + 1)
    if record:
        write_whole(RECORD, (json.dumps(rows, indent=1) + "\n").encode())
    click.echo(format_records(rows, form))


if __name__ == "__main__":
    main()
