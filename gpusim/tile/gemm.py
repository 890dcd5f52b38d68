"""A matrix product of a library, projected: its tile is chosen, its grid is simulated, the clock is held to the board's
power.

Mental model: cuBLAS and its kin choose a tile, and how often the depth is split, so that waves come out well. Here each
choice is bounded first (arithmetic by waves, bytes by DRAM), the few with the least bound are simulated
(:mod:`gpusim.tile.grid`), and the fastest is taken. Which tiles there are, and what they cost beside their arithmetic,
is the library's (:mod:`gpusim.tile.library`); all else is the GPU's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpusim.energy.power import limited_by_power, slowed_beside_dram, slowed_by_power
from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.described import library_on
from gpusim.tile.fewest_waves import MULTICAST_ROWS, fewest_waves
from gpusim.tile.grid import EVENTS, RASTER_ROWS, run_groups
from gpusim.tile.library import SCALE_DEPTH, SCALE_ROWS, SCALED_DEPTH, Library, Tile
from gpusim.tile.machine import MOST_DRAM_SHARE, OPERANDS, TileMachine, tile_machine
from gpusim.tile.moe_waves import PAIR_ROWS, wave_tile

#: Parts that the depth may be split into.
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
#: How many choices are simulated, those with the least bound.
SIMULATED = 6
#: The same of a launch of many products, whose blocks are many.
_MANY_PRODUCTS, _SIMULATED_OF_MANY = 8, 2
#: Waves of blocks that are simulated of a grid of many: its middle, whose bands of rows take equal times, is left out,
#: and two shorter grids tell what a period of so many waves takes, as nearly whole waves as bands make.
_MOST_WAVES, _LEAST_PERIOD_WAVES, _MOST_PERIOD_WAVES = 24, 8, 32
#: Waves that the parts of a split depth fill at most: of a deep product whose last wave of whole tiles would be nearly
#: empty, parts make many waves, of which the last costs little.
_MOST_PART_WAVES = 8
#: Steps a part of the depth has at least.
_LEAST_STEPS = 4
_SUM_BYTES = 8.0  # a partial sum in FP32 is written and read once
#: Of the tensor cores' peak that an inner loop reaches.
_MOST_SHARE = 0.995
_WIDE_BYTES = 2.0
#: L2-fuls of operands from which on a launch reaches more of DRAM's rate, the longer it lasts.
_LONG_L2S = 4.0
_LARGEST = 1 << 31


@dataclass(frozen=True)
class GemmShape:
    """``rows`` x ``columns`` results, each a sum over ``depth``; ``dtype`` of the operands
    (:data:`gpusim.tile.machine.OPERANDS`).
    ``cold_a``, ``cold_b``: the share (0 to 1) of the operand (rows x depth, columns x depth) that lies in DRAM when the
    launch starts; of one that does not fit into L2 all does. ``group_rows``: several products in one launch, each of so
    many of the rows and with a second operand of its own. ``a_bytes``, ``b_bytes``: an element of the operand in
    memory, block scales included, where that is not the dtype's (0)."""

    rows: int
    columns: int
    depth: int
    dtype: str = "bf16"
    result_bytes: int = 2
    cold_a: float = 0.0
    cold_b: float = 1.0
    group_rows: tuple[int, ...] = ()
    a_bytes: float = 0.0
    b_bytes: float = 0.0

    def __post_init__(self) -> None:
        for name in ("rows", "columns", "depth"):
            value = getattr(self, name)
            if not 1 <= value < _LARGEST:
                raise SpecError(f"a product's {name} is {value}, not between 1 and {_LARGEST - 1}")
        for name in ("cold_a", "cold_b"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise SpecError(f"a product's {name} is {getattr(self, name)}, not a share between 0 and 1")
        if self.group_rows and (min(self.group_rows) < 1 or sum(self.group_rows) != self.rows):
            raise SpecError(f"the rows of a launch's products, {sum(self.group_rows)}, are not its rows, {self.rows}")

    @property
    def operand_bytes(self) -> tuple[float, float]:
        """Of an element of either operand, in memory."""
        own = OPERANDS[self.dtype][0]
        return self.a_bytes or own, self.b_bytes or own

    @property
    def most_rows(self) -> int:
        """Of the product that has the most."""
        return max(self.group_rows, default=self.rows)

    def tiles(self, tile_rows: int, cluster_rows: int = 1) -> int:
        """Rows of tiles of all products, those that clusters add counted."""
        clustered = tile_rows * cluster_rows
        return sum(-(-rows // clustered) for rows in self.group_rows or (self.rows,)) * cluster_rows

    @property
    def flops(self) -> float:
        """Operations, a multiply-add counting two."""
        return 2.0 * self.rows * self.columns * self.depth


@dataclass(frozen=True)
class GemmProjection:
    """``seconds``: of the launch as a node of a CUDA graph; ``tile``, ``splits``: what was chosen; ``limiter``: the
    busiest of "tensor cores" ("FMA pipes" for fp32), "L2", "DRAM", or "latency" where none is busy for half of the
    time, "launch" where the launch itself takes half, "power" where the board's limit holds the clock."""

    shape: GemmShape
    gpu: str
    seconds: float
    tile: Tile
    splits: int
    l2_bytes: float
    dram_bytes: float
    limiter: str

    @property
    def flops_per_second(self) -> float:
        """Useful operations a second."""
        return self.shape.flops / self.seconds


@dataclass(frozen=True)
class _Choice:
    least_cycles: float
    arithmetic_cycles: float
    tile: Tile
    splits: int


def project_gemm(
    spec: GpuSpec, shape: GemmShape, library: Library | None = None, limit_watts: float | None = None,
    run_launches: float = 0.0, simulated: int = 0,
) -> GemmProjection:  # fmt: skip
    """Time of ``shape`` by a library's kernel on ``spec``; ``library``: other figures than the generation's own;
    ``limit_watts``: another power limit than the board's (``inf``: none); ``run_launches``: as
    :func:`gpusim.energy.power.power_limit` has it; ``simulated``: how many choices are (0: of a launch of many
    products, as experts are, fewer). Raises SpecError where the GPU has no such products, its generation's libraries
    are not known, or the limit is not above what the GPU takes at rest."""
    machine = tile_machine(spec, shape.dtype)
    library = library or library_on(spec, shape.dtype)
    choices = sorted(_choices(machine, library, shape), key=lambda each: (each.least_cycles, each.arithmetic_cycles))
    few = SIMULATED if len(shape.group_rows) < _MANY_PRODUCTS else _SIMULATED_OF_MANY
    choices = choices[: simulated or few]
    best: tuple[float, _Choice, tuple[float, float, float, float]] | None = None
    for choice in choices:
        if best is not None and choice.least_cycles >= best[0]:
            break
        ran = _run(machine, library, shape, choice)
        # Rounds of a grid that repeat are not all run, which may leave out a part of one: no SM multiplies faster for
        # that.
        at_peak = shape.flops / (machine.flops_per_cycle * machine.sm_count)
        cycles = max(ran[0], at_peak) + _joining_cycles(machine, library, shape, choice.tile, choice.splits)
        if best is None or cycles < best[0]:
            best = cycles, choice, ran
    assert best is not None  # SPLITS has 1, so there is a choice
    cycles, choice, (_, l2_bytes, dram_bytes, tensor_cycles) = best
    unlimited_seconds = cycles / machine.clock_hz
    scaling_flops = shape.flops / (2 * SCALED_DEPTH) * library.scaling_lanes
    # The scales of one row are one column of another order, as those of one column are.
    ragged = shape.rows % SCALE_ROWS and shape.rows > 1 and shape.depth > SCALE_DEPTH
    launch_seconds = 1e-9 * (library.launch_ns + library.ns_of_ragged(shape.rows) * bool(ragged))
    busy = {
        "FMA pipes" if shape.dtype == "fp32" else "tensor cores": tensor_cycles / cycles,
        "L2": l2_bytes / (machine.l2_bytes_per_cycle * library.l2_rate_share) / cycles,
        "DRAM": dram_bytes / _dram_bytes_per_cycle(machine, library, shape) / cycles,
    }
    limiter = max(busy, key=lambda unit: busy[unit])
    work = shape.dtype, shape.flops, dram_bytes, l2_bytes, scaling_flops, run_launches
    if limiter == "DRAM":
        # What DRAM bounds keeps its time where the clock falls, until the next of the units is as busy.
        waited = min(1.0, busy["DRAM"])
        clocked = max(share for unit, share in busy.items() if unit != "DRAM")
        seconds = slowed_beside_dram(
            spec,
            limit_watts,
            lambda share: unlimited_seconds * max(waited + (1.0 - waited) / share, clocked / share),
            *work,
        )
    else:
        seconds = slowed_by_power(spec, limit_watts, unlimited_seconds, *work)
    if launch_seconds > seconds:
        limiter = "launch"
    elif limited_by_power(seconds, unlimited_seconds):
        limiter = "power"
    elif busy[limiter] < 0.5:
        limiter = "latency"
    return GemmProjection(
        shape, spec.name, launch_seconds + seconds, choice.tile, choice.splits, l2_bytes, dram_bytes, limiter
    )


def _choices(machine: TileMachine, library: Library, shape: GemmShape) -> Iterator[_Choice]:
    """Each tile with each split whose parts fill no more than so many waves, and what it takes at least."""
    (a_bytes, b_bytes), deeper = shape.operand_bytes, _deeper(shape)
    products = max(1, len(shape.group_rows))
    moved = b_bytes * shape.columns * shape.depth * products * shape.cold_b
    least_moved_cycles = moved / _dram_bytes_per_cycle(machine, library, shape)
    ruled = library.ruled(shape.most_rows, shape.columns, shape.depth)
    offered = library.offered_for(shape.rows, shape.columns, shape.depth)
    for tile in (*_taken(machine, library, shape), *offered):
        most_blocks = ruled.most_blocks if ruled else _MOST_PART_WAVES * machine.sm_count * tile.blocks
        tile_depth = tile.depth * deeper
        tiles = shape.tiles(tile.rows, tile.cluster_rows) * -(-shape.columns // tile.columns)
        work = 2.0 * tile.outputs * tile_depth / _reached_flops(machine, library, shape, tile)
        for splits in (1,) if tile in offered else _splits(library, shape.depth / tile_depth):
            if splits > 1 and (tiles * splits > most_blocks or shape.depth // splits < _LEAST_STEPS * tile_depth):
                break
            if 0 < library.most_splits < splits:
                break
            part = -(-shape.depth // splits)
            steps = -(-part // tile_depth)
            if tile.one_wave and tiles * splits > machine.sm_count * tile.blocks:
                break
            sharing = min(tile.blocks, -(-tiles * splits // machine.sm_count))
            waves = -(-tiles * splits // (machine.sm_count * tile.blocks))
            tile_cycles = steps * max(work + library.cycles_a_step(tile), work * sharing)
            tile_cycles += library.cycles_to_store(tile) + tile.outputs / library.epilogue_elements_per_cycle
            joining = _joining_cycles(machine, library, shape, tile, splits)
            arithmetic = waves * tile_cycles + joining
            loaded = (
                (tile.rows * a_bytes + tile.columns * b_bytes) * shape.depth * tiles * _shared(library, shape, tile)
            )
            l2_cycles = loaded / (machine.l2_bytes_per_cycle * library.l2_rate_share)
            # Where DRAM bounds several choices alike, the one with the least arithmetic is tried first.
            least = max(arithmetic, max(least_moved_cycles, l2_cycles) + joining)
            yield _Choice(least, arithmetic, tile, splits)


def _splits(library: Library, whole_steps: float) -> Sequence[int]:
    """Parts that the depth may be split into."""
    if not library.whole_parts:
        return SPLITS
    most = int(library.most_splits) or max(SPLITS)
    # A last step that is partly filled is a step.
    steps = math.ceil(whole_steps)
    return [parts for parts in range(1, most + 1) if not steps % parts]


def _taken(machine: TileMachine, library: Library, shape: GemmShape) -> tuple[Tile, ...]:
    """The tiles that are tried."""
    if library.counts_waves and not shape.group_rows:
        return (fewest_waves(library.tiles, shape.rows, shape.columns, machine.sm_count),)
    if library.fills_waves and not shape.group_rows:
        return (wave_tile(machine.sm_count, shape.rows, shape.columns, shape.depth, experts=1, exchanged_below=0),)
    return library.tiles_for(shape.most_rows, shape.columns, shape.depth)


def _deeper(shape: GemmShape) -> int:
    """How many times as many elements as of 16 bits a step of the same bytes has."""
    return max(1, round(2.0 / OPERANDS[shape.dtype][0]))


def _reached_flops(machine: TileMachine, library: Library, shape: GemmShape, tile: Tile) -> float:
    """Of one SM a cycle in a tile's inner loop. What feeds tensor cores (shared memory, registers, issue) is alike on
    GPUs of a generation: where these are slower than those that the library's share was set on, it is a larger one. FMA
    pipes are alike."""
    if tile.work_cycles:
        return 2.0 * tile.outputs * tile.depth / tile.work_cycles
    share, taken_bytes = library.rate(tile.outputs), machine.flops_per_cycle * OPERANDS[shape.dtype][0]
    if shape.dtype != "fp32" and taken_bytes < library.fed_bytes_per_cycle:
        share = max(share, min(_MOST_SHARE, share * library.fed_bytes_per_cycle / taken_bytes))
    reached = machine.flops_per_cycle * share
    return min(reached, library.issued_flops_per_cycle) if library.issued_flops_per_cycle else reached


def _dram_bytes_per_cycle(machine: TileMachine, library: Library, shape: GemmShape) -> float:
    """What the loads of all SMs reach of DRAM. Products of 8 bits and less keep the library's share: rows of them on
    GPUs with little of DRAM's rate for each SM do not show another."""
    fed = library.dram_fed_bytes_per_ns if OPERANDS[shape.dtype][0] >= _WIDE_BYTES else 0.0
    share = machine.dram_share(library.dram_share, fed)
    a_bytes, b_bytes = shape.operand_bytes
    # Products in one launch and operands of fewer bits have shares of their own rows, which set no other figure.
    if library.dram_share_per_doubling and not shape.group_rows and min(a_bytes, b_bytes) >= _WIDE_BYTES:
        moved = (a_bytes * shape.rows + b_bytes * shape.columns) * shape.depth
        doublings = max(0.0, math.log2(moved / (_LONG_L2S * machine.l2_bytes)))
        share = max(share, min(MOST_DRAM_SHARE, share * (1.0 + library.dram_share_per_doubling * doublings)))
    return machine.dram_bytes_per_cycle * share


def _shared(library: Library, shape: GemmShape, tile: Tile) -> float:
    """Share of a tile's loads that L2 delivers: neighbours of large tiles take some of them together, pairs of blocks
    the larger operand. A library that counts waves has such pairs from so many rows on."""
    of_pair = 1.0 - max(tile.rows, tile.columns) / (tile.rows + tile.columns) / 2
    if library.counts_waves and not shape.group_rows:
        return of_pair if shape.rows >= MULTICAST_ROWS else 1.0
    if library.pairs:
        return of_pair if tile.outputs >= library.least_shared_outputs else 1.0
    if library.fills_waves and shape.rows < PAIR_ROWS:
        return 1.0
    return library.shared_loads if tile.outputs >= library.least_shared_outputs else 1.0


def _joining_cycles(machine: TileMachine, library: Library, shape: GemmShape, tile: Tile, splits: int) -> float:
    """What adding up the parts of a split depth takes: by a kernel over all SMs, or by one block of each tile, which
    reads the parts of all others."""
    if splits == 1:
        return 0.0
    alone = library.part_cycles * splits
    if library.joined_elements_per_cycle:
        outputs = min(tile.rows, shape.rows) * min(tile.columns, shape.columns)
        alone += outputs * splits / library.joined_elements_per_cycle
    moved_cycles = shape.rows * shape.columns * _SUM_BYTES * splits / machine.l2_bytes_per_cycle
    return library.split_k_cycles + alone + moved_cycles


def _run(
    machine: TileMachine, library: Library, shape: GemmShape, choice: _Choice
) -> tuple[float, float, float, float]:
    """Of the whole grid. One of many waves is simulated without its middle: by a grid with some bands less (of rows,
    or, where all rows are one, of columns) and one with more of them less, whose difference is what the left-out bands
    take, each."""
    tile, whole = choice.tile, (shape.rows, shape.columns)
    down, across = -(-shape.rows // tile.rows), -(-shape.columns // tile.columns)
    by_rows = down > RASTER_ROWS or across == 1
    size, band = (shape.rows, RASTER_ROWS * tile.rows) if by_rows else (shape.columns, tile.columns)
    band_waves = (RASTER_ROWS * across if by_rows else down) / (machine.sm_count * tile.blocks)
    most = int((size - band) / band - _MOST_WAVES / band_waves)
    if shape.group_rows or choice.splits > 1 or most * band_waves < 2 * _MOST_PERIOD_WAVES:
        return _simulated(machine, library, shape, choice, *whole)
    periods = range(math.ceil(_LEAST_PERIOD_WAVES / band_waves), max(1, int(_MOST_PERIOD_WAVES / band_waves)) + 1)
    period = min(periods, key=lambda bands: abs(bands * band_waves - round(bands * band_waves)) / (bands * band_waves))
    left_out = (most // period - 1) * period
    if left_out <= 0:
        return _simulated(machine, library, shape, choice, *whole)
    cuts = [size - bands * band for bands in (left_out, left_out + period)]
    long, short = (
        _simulated(machine, library, shape, choice, *((cut, shape.columns) if by_rows else (shape.rows, cut)))
        for cut in cuts
    )
    cycles, l2_bytes, dram_bytes, tensor = (a + left_out / period * (a - b) for a, b in zip(long, short, strict=True))
    return cycles, l2_bytes, dram_bytes, tensor


def _simulated(
    machine: TileMachine, library: Library, shape: GemmShape, choice: _Choice, rows: int, columns: int
) -> tuple[float, float, float, float]:
    return run_groups(*grid_arguments(machine, library, shape, choice.tile, choice.splits, rows, columns))


def grid_arguments(
    machine: TileMachine, library: Library, shape: GemmShape, tile: Tile, splits: int, rows: int, columns: int
) -> tuple[Any, ...]:
    """What :func:`gpusim.tile.grid.run_groups` takes of the first ``rows`` and ``columns`` of a product that is cut
    so."""
    a_bytes, b_bytes = shape.operand_bytes
    found_bytes = machine.l2_bytes * library.l2_share
    # Of operands and results that do not fit, little or nothing is found where a launch before left it.
    warm_bytes = a_bytes * shape.rows * shape.depth + shape.result_bytes * shape.rows * shape.columns
    weight_bytes = b_bytes * shape.columns * shape.depth * max(1, len(shape.group_rows))
    cold_a = max(float(shape.cold_a), machine.lost_share(warm_bytes, library.l2_share))
    cold_b = max(float(shape.cold_b), machine.lost_share(warm_bytes + weight_bytes, library.l2_share))
    return (
        np.array(shape.group_rows or (rows,)), columns, shape.depth, tile.rows, tile.columns,
        tile.depth * _deeper(shape), tile.stages, tile.blocks, splits, a_bytes, b_bytes, float(shape.result_bytes), machine.sm_count,
        _reached_flops(machine, library, shape, tile), library.fill_bytes_per_cycle,
        machine.l2_bytes_per_cycle * library.l2_rate_share,
        _dram_bytes_per_cycle(machine, library, shape), machine.l2_latency_cycles, machine.dram_latency_cycles,
        found_bytes, cold_a, cold_b,
        library.cycles_a_step(tile), library.block_start_cycles, library.cycles_to_store(tile),
        library.epilogue_elements_per_cycle, _shared(library, shape, tile), library.outside_loads, library.outside_fill, tile.box_rows or min(tile.rows, shape.rows),
        tile.cluster_rows, library.overlap, max(1, EVENTS * rows * columns // (shape.rows * shape.columns)),
    )  # fmt: skip
