"""Figures of library kernels on a GPU of a generation that no table names: worked out from its description.

Mental model: what a library's kernels cost beside their arithmetic is either a time (a launch, a block's start, an
epilogue, adding up parts), which GPUs have alike, a share of a described rate, or follows from how the tensor cores are
fed: how much of shared memory's port the operands of warps take, how long a warp waits between steps.
``described.toml`` has the few constants and what they were set from; the tiles are those of the newest generation whose
tensor cores are fed alike (``library.toml``).
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.library import (
    RATES,
    Library,
    Tile,
    is_known,
    kernels_of,
    library_of,
    mean_rates,
    multiplies_by_warps,
    newest_kernels,
)
from gpusim.tile.machine import fma_lanes, loaded_bytes_per_cycle, tile_machine

_FILE = Path(__file__).with_name("described.toml")
_ELEMENT_BYTES = 2
#: The row of a generation that says nothing of a number format.
_BASE = ""
#: FP32 lanes of an SM whose kernels of FMA pipes have a row of their own: twice those of Volta, Turing and GA100.
_WIDE_LANES = 128
#: Operands of products that rows have been measured of on GPUs of several generations.
_DTYPES = ("bf16", "fp16")
#: What shared memory reads or writes a cycle: 32 banks of 4 bytes.
SHARED_BYTES_PER_CYCLE = 128
#: Results of a warp of mma.sync (64 x 64), and of warps that a block has at least.
_WARP_OUTPUTS, _LEAST_WARPS = 4096, 4


@dataclass(frozen=True)
class Constants:
    """Of ``described.toml``; units in the names, shares are of 1. ``tensor_memory_launch_ns``: ``launch_ns`` of kernels
    for tensor memory; ``dram_share``, ``warps_dram_share``: of the rate that DRAM's pins have, as a data sheet says it;
    ``fill_share``: of the described rate at which an SM takes lines from L2 by loads;
    ``step_cycles``, ``epilogue_elements_per_cycle`` and ``shared_loads``: of kernels whose operands the tensor cores
    read from shared memory themselves;
    ``warps_l2_rate_share``, ``warps_dram_share``, ``warps_epilogue_elements_per_cycle``: of kernels of warps, whose
    lanes load and store themselves."""

    launch_ns: float
    tensor_memory_launch_ns: float
    block_start_ns: float
    epilogue_ns: float
    split_k_ns: float
    dram_share: float
    l2_rate_share: float
    l2_share: float
    fill_share: float
    rate: float
    step_cycles: float
    epilogue_elements_per_cycle: float
    shared_loads: float
    warps_l2_rate_share: float
    warps_dram_share: float
    warps_epilogue_elements_per_cycle: float


@functools.cache
def constants_of(table: str = "all") -> Constants:
    """A table of the file: "all", or "without_hopper" and so on, which rows of that generation did not set. Raises
    SpecError for one that it has not."""
    tables = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    if table not in tables:
        raise SpecError(f"{_FILE.name} has no table {table!r}: it has {', '.join(sorted(tables))}")
    row = tables[table]
    if set(row) != {each.name for each in fields(Constants)}:
        raise SpecError(
            f"{_FILE.name}, {table}: its figures are not {', '.join(each.name for each in fields(Constants))}"
        )
    return Constants(**row)


def library_on(spec: GpuSpec, dtype: str = "bf16") -> Library:
    """Whose kernels multiply operands of ``dtype`` (a row of ``library.toml``) on ``spec``: those that its generation
    is known to run, or, of 16-bit operands on a generation that no table names, what its description says."""
    if dtype in _DTYPES and not is_known(spec.generation):
        return described_library(spec)
    wide = dtype == "fp32" and fma_lanes(spec) >= _WIDE_LANES
    return library_of(kernels_of(spec), f"{dtype}_wide" if wide else dtype)


def described_library(spec: GpuSpec, constants: Constants | None = None) -> Library:
    """The kernels of 16-bit products on ``spec``, as its description and ``constants`` (those of all measured rows)
    have them."""
    used = constants or constants_of()
    # The constants were set beside these tiles, and not beside those that a newer library's 16-bit products have.
    feed = library_of(newest_kernels(spec), _BASE)
    ghz = spec.clock_hz / 1e9
    of_warps = multiplies_by_warps(spec)
    flops_per_cycle = tile_machine(spec, "fp16").flops_per_cycle
    tiles = feed.tiles
    if of_warps:
        # Between steps a warp passes a barrier, loads its operands and waits for its first product.
        waited = spec.l1.barrier_latency_cycles + spec.l1.shared_latency_cycles + spec.pipes["tensor"].latency_cycles
        tiles = tuple(replace(tile, step_cycles=float(waited)) for tile in tiles)
    # Tensor cores that read shared memory themselves are not held back by its port on the GPUs that were measured.
    fed = mean_rates(tiles if of_warps else (), lambda tile: _fed_share(tile, flops_per_cycle))
    rates = {name: min(used.rate, fed.get(name, used.rate)) for name in RATES}
    return replace(
        feed,
        generation=f"described {spec.name}",
        tiles=tiles,
        launch_ns=used.tensor_memory_launch_ns if spec.tensor_memory.columns_per_cycle else used.launch_ns,
        block_start_cycles=used.block_start_ns * ghz,
        epilogue_cycles=used.epilogue_ns * ghz,
        split_k_cycles=used.split_k_ns * ghz,
        # What a described GPU's streams reach of its pins' rate is measured on that GPU, or taken from another: of
        # shares of it, those of the pins' rate are the more alike.
        dram_share=(used.warps_dram_share if of_warps else used.dram_share)
        / (spec.dram.read_efficiency or spec.dram.efficiency),
        dram_share_per_doubling=0.0,
        l2_rate_share=used.warps_l2_rate_share if of_warps else used.l2_rate_share,
        l2_share=used.l2_share,
        fill_bytes_per_cycle=used.fill_share * loaded_bytes_per_cycle(spec),
        step_cycles=used.step_cycles,
        epilogue_elements_per_cycle=(
            used.warps_epilogue_elements_per_cycle if of_warps else used.epilogue_elements_per_cycle
        ),
        fed_bytes_per_cycle=_ELEMENT_BYTES * flops_per_cycle,
        shared_loads=1.0 if of_warps else used.shared_loads,
        **rates,
    )


def _fed_share(tile: Tile, flops_per_cycle: float) -> float:
    """Of the tensor cores' peak, what the inner loop of a tile of warps can reach: shared memory's port writes each
    operand once, and reads it for each warp of the same rows or columns."""
    work_cycles = 2.0 * tile.outputs * tile.depth / flops_per_cycle
    return min(1.0, work_cycles / operand_cycles(tile, _WARP_OUTPUTS))


def operand_cycles(tile: Tile, warp_outputs: int) -> float:
    """That shared memory's port of an SM takes for a step of a tile of warps of ``warp_outputs`` results each: it
    writes each operand once, and reads it for each warp of the same rows or columns."""
    warps = max(_LEAST_WARPS, tile.outputs // warp_outputs)
    down = min(warps, max(1, round((warps * tile.rows / tile.columns) ** 0.5)))
    read = tile.rows * (warps // down) + tile.columns * down
    return (read + tile.rows + tile.columns) * tile.depth * _ELEMENT_BYTES / SHARED_BYTES_PER_CYCLE
