"""What a generation's library kernels are like: the tiles that they choose from, and what they cost beside their
arithmetic.

Mental model: the GPU's description says what the machine can do, this table how much of it a library's kernels of that
generation take. It is read from ``library.toml``, which says what each figure is and what it was set from.
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec

_FILE = Path(__file__).with_name("library.toml")
#: Kernels for the tensor memory of Blackwell, for warp groups (Hopper), for warps: a generation that has rows of its
#: own, of each.
_TENSOR_MEMORY, _WARP_GROUPS, _WARPS = "blackwell", "hopper", "ampere"
#: What kernels of Blackwell without tensor memory (sm_120) are called, which are those of warps.
_BLACKWELL_OF_WARPS = "blackwell_of_warps"
#: Generations whose library kernels are taken to be like another's, for want of measurements (Blackwell's: where a
#: table has none of its own).
LIKE = {"ada": _WARPS, "turing": _WARPS, "volta": _WARPS, _BLACKWELL_OF_WARPS: _WARPS, _TENSOR_MEMORY: _WARP_GROUPS}


#: Serving frameworks whose kernels are followed; the first is taken where none is named.
FRAMEWORKS = ("vllm", "sglang", "trtllm")


def multiplies_by_warps(spec: GpuSpec) -> bool:
    """Whether tensor cores of ``spec`` are fed by warps alone, neither by warp groups nor from tensor memory."""
    return not (spec.tensor_memory.columns_per_cycle or spec.tensor.warpgroup_f16_macs_per_cycle)


def newest_kernels(spec: GpuSpec) -> str:
    """The generation whose kernels feed tensor cores as those of ``spec`` are fed: from tensor memory, by warp groups,
    by warps."""
    if spec.tensor_memory.columns_per_cycle:
        return _TENSOR_MEMORY
    return _WARP_GROUPS if spec.tensor.warpgroup_f16_macs_per_cycle else _WARPS


@functools.cache
def is_known(generation: str) -> bool:
    """Whether it is known whose kernels run on GPUs of ``generation``."""
    return generation in LIKE or generation in tomllib.loads(_FILE.read_text(encoding="utf-8"))


def kernels_of(spec: GpuSpec) -> str:
    """Whose library kernels run on ``spec``: its generation's, but that what its tensor cores are fed by decides where
    a generation has both: Blackwell without tensor memory takes kernels for warps as Ampere does. A generation that no
    table has goes by the same features."""
    newest = newest_kernels(spec)
    if spec.generation == newest or LIKE.get(spec.generation) == newest:
        return spec.generation
    return _BLACKWELL_OF_WARPS if spec.generation == _TENSOR_MEMORY else newest


def named_kernels(spec: GpuSpec) -> str:
    """The same, but that a generation that no table names stays itself: what is known of measured ones is not known of
    it."""
    return kernels_of(spec) if is_known(spec.generation) else spec.generation


#: A column of FP32 scales, one for each row, is aligned to 16 bytes where the rows are a multiple of this (CUDA driver
#: API, cuTensorMapEncodeTiled: strides).
SCALE_ROWS = 4
#: Rows from which on kernels that lay columns of scales anew take no longer: a B200's by its learning half, 5.5 us at 9
#: to 17, 7.3 at 65, 8.2 at 257, 9.4 at 1,025, 9.8 from 2,049 on.
MOST_RAGGED_ROWS, _FEW_ROWS = 2048, 8
#: A row has a scale for each so many elements (DeepSeek-V3, section 3.3.2); one column of scales needs no other order.
SCALE_DEPTH = 128
#: The same of weights of llama.cpp (ggml-common.h, QK4_0 and QK8_0), whose sums of so many products are scaled outside
#: the tensor cores.
SCALED_DEPTH = 32


#: Figures that are 0 where a table says nothing.
_OPTIONAL = (
    "overlap", "ragged_ns", "ragged_doubling_ns", "outside_loads", "outside_fill", "convert_start_cycles", "convert_blocks", "convert_bytes_per_cycle", "dram_fed_bytes_per_ns", "l2_fed_bytes_per_cycle", "dram_share_per_doubling", "issued_flops_per_cycle", "scaling_lanes", "joined_elements_per_cycle", "part_cycles", "most_splits",
)  # fmt: skip
#: By which rule a library counts waves, where it does, whether its blocks multiply in pairs, and whether it splits the
#: depth into parts of whole steps alone.
_FLAGS = ("counts_waves", "fills_waves", "pairs", "whole_parts")
#: Share of the peak -> the least outputs of the tiles that it is of, and one beyond the most.
RATES = {
    "rate_small": (0, 8192),
    "rate_medium": (8192, 16384),
    "rate_large": (16384, 24576),
    "rate_largest": (24576, 1 << 31),
}


@dataclass(frozen=True)
class Tile:
    """A block's part of a product: ``rows`` x ``columns`` outputs, ``depth`` multiply-adds a step, ``stages`` steps
    loaded ahead, ``blocks`` of them an SM. ``step_cycles``, ``epilogue_cycles``: what a step costs beside its
    arithmetic and a block between its sums and its first store, where that is not the library's (0). ``one_wave``:
    taken only where all of its blocks run at once. ``one_wave_step_cycles``: of a library that counts waves, what a
    step costs there (0: as elsewhere), ``one_wave_full``: only where the last row of tiles is filled. ``box_rows``:
    rows of its first operand that one load has, where blocks of a cluster load a part each (0: all); ``cluster_rows``:
    tiles below one another that a cluster has, which are launched even where rows are missing."""

    rows: int
    columns: int
    depth: int
    stages: int
    blocks: int
    step_cycles: float = 0.0
    epilogue_cycles: float = 0.0
    one_wave: bool = False
    one_wave_step_cycles: float = 0.0
    one_wave_full: bool = False
    box_rows: int = 0
    cluster_rows: int = 1
    work_cycles: float = 0.0

    @property
    def outputs(self) -> int:
        """Elements of the result."""
        return self.rows * self.columns


@dataclass(frozen=True)
class Choice:
    """``tile`` where rows and columns of the result and the depth are no more and no less than these. ``most_blocks``:
    the depth is split, but into no more parts than make so many blocks of all tiles (0: it is not split)."""

    tile: Tile
    most_rows: float = math.inf
    most_columns: float = math.inf
    least_rows: int = 0
    least_depth: int = 0
    least_columns: int = 0
    most_depth: float = math.inf
    most_blocks: int = 0

    def holds(self, rows: int, columns: int, depth: int) -> bool:
        """For a product of this shape."""
        return (
            self.least_rows <= rows <= self.most_rows
            and self.least_columns <= columns <= self.most_columns
            and self.least_depth <= depth <= self.most_depth
        )


_BOUNDS = tuple(each.name for each in fields(Choice) if each.name != "tile")


@dataclass(frozen=True)
class Library:
    """The figures of ``library.toml`` for one generation, units in the names; shares are of 1. ``rule``: of which the
    first choice that holds is taken, and the depth is not split but where it says so. ``ragged_ns``: what scales for
    blocks cost besides where the rows are no multiple of :data:`SCALE_ROWS`, so that a column of them is not aligned
    for the units that load it, ``ragged_doubling_ns``: more for each doubling of the rows from 8 to
    :data:`MOST_RAGGED_ROWS`. ``outside_loads``: what a row outside of an operand takes of L2, as many rows inside,
    where other rows of its box lie inside, ``outside_fill``: of its SM's port. ``convert_start_cycles``,
    ``convert_blocks``: of a block of the kernel that converts the first operand beside its bytes, and how many an SM
    holds, where that is not what other kernels that move data have (0); ``convert_bytes_per_cycle``: that an SM reads
    and writes in it where its bytes lie in DRAM (0: a share of DRAM's rate). ``dram_share_per_doubling``: by how much
    of itself ``dram_share`` grows with each doubling of the operands beyond four L2-fuls. ``issued_flops_per_cycle``:
    of one SM, that the instructions around products of tensor cores leave at most (0: no such bound),
    ``scaling_lanes``: operations of a lane that scale each sum of :data:`SCALED_DEPTH` products. ``overlap``: what a
    block does between two tiles (:data:`gpusim.tile.grid.STARTS_ANEW` and what follows it), ``least_shared_outputs``:
    of the tiles from which on neighbours share loads. ``counts_waves``: whether it takes the tile with the fewest waves
    (:mod:`gpusim.tile.fewest_waves`), and no other; ``fills_waves``: the same by the older rule
    (:mod:`gpusim.tile.moe_waves`), whatever its tiles. ``pairs``: whether two blocks take the larger operand together,
    of tiles of ``least_shared_outputs`` and more; ``joined_elements_per_cycle``: at which one block of a tile adds up
    the parts of a split depth (0: a kernel over all SMs does), ``part_cycles``: what each part takes besides;
    ``most_splits``: into how many parts the depth is split at most (0: as many as make waves), ``whole_parts``: of as
    many whole steps each. ``offered``: kernels that are tried beside ``tiles`` where a choice holds, on the whole
    depth. Where no choice holds it chooses from ``tiles`` by the shape."""

    generation: str
    tiles: tuple[Tile, ...]
    step_cycles: float
    rate_small: float
    rate_medium: float
    rate_large: float
    rate_largest: float
    block_start_cycles: float
    epilogue_cycles: float
    epilogue_elements_per_cycle: float
    split_k_cycles: float
    shared_loads: float
    fill_bytes_per_cycle: float
    dram_share: float
    l2_rate_share: float
    l2_share: float
    launch_ns: float
    fed_bytes_per_cycle: float
    convert_rate: float
    least_shared_outputs: float
    overlap: float = 0.0
    ragged_ns: float = 0.0
    ragged_doubling_ns: float = 0.0
    outside_loads: float = 0.0
    outside_fill: float = 0.0
    convert_start_cycles: float = 0.0
    convert_blocks: float = 0.0
    convert_bytes_per_cycle: float = 0.0
    dram_fed_bytes_per_ns: float = 0.0
    l2_fed_bytes_per_cycle: float = 0.0
    dram_share_per_doubling: float = 0.0
    issued_flops_per_cycle: float = 0.0
    scaling_lanes: float = 0.0
    joined_elements_per_cycle: float = 0.0
    part_cycles: float = 0.0
    most_splits: float = 0.0
    rule: tuple[Choice, ...] = ()
    offered: tuple[Choice, ...] = ()
    counts_waves: bool = False
    fills_waves: bool = False
    pairs: bool = False
    whole_parts: bool = False

    def ns_of_ragged(self, rows: int) -> float:
        """What scales for blocks cost besides where ``rows`` are no multiple of :data:`SCALE_ROWS`."""
        return self.ragged_ns + self.ragged_doubling_ns * math.log2(
            min(max(rows, _FEW_ROWS), MOST_RAGGED_ROWS) / _FEW_ROWS
        )

    def ruled(self, rows: int, columns: int, depth: int) -> Choice | None:
        """The choice of :attr:`rule` that holds for a product of this shape, where one does."""
        return next((each for each in self.rule if each.holds(rows, columns, depth)), None)

    def tiles_for(self, rows: int, columns: int, depth: int) -> tuple[Tile, ...]:
        """From which one is chosen for a product of this shape."""
        ruled = self.ruled(rows, columns, depth)
        return (ruled.tile,) if ruled else self.tiles

    def offered_for(self, rows: int, columns: int, depth: int) -> tuple[Tile, ...]:
        """Those that are tried beside the tiles, on the whole depth."""
        return tuple(each.tile for each in self.offered if each.holds(rows, columns, depth))

    def cycles_a_step(self, tile: Tile) -> float:
        """What a step of ``tile`` costs a block beside its arithmetic."""
        return float(tile.step_cycles or self.step_cycles * tile.depth / 64)

    def cycles_to_store(self, tile: Tile) -> float:
        """From a block's sums of ``tile`` to its first store."""
        return float(tile.epilogue_cycles or self.epilogue_cycles)

    def rate(self, outputs: int) -> float:
        """Share of the tensor cores' peak that the inner loop of a tile of ``outputs`` results reaches."""
        return next(getattr(self, name) for name, (_, beyond) in RATES.items() if outputs < beyond)


def mean_rates(tiles: Sequence[Tile], share: Callable[[Tile], float]) -> dict[str, float]:
    """Each of :data:`RATES` that is of any of ``tiles``: the mean of the ``share`` of the peak that these reach."""
    rates = {}
    for name, (least, beyond) in RATES.items():
        found = [share(tile) for tile in tiles if least <= tile.outputs < beyond]
        if found:
            rates[name] = sum(found) / len(found)
    return rates


@functools.cache
def has_rows(generation: str, dtype: str) -> bool:
    """Whether the table says of ``generation``, or of the one that it is taken to be like, what is another figure for
    ``dtype``."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    name = generation if generation in table else LIKE.get(generation, "")
    return dtype in table.get(name, {})


@functools.cache
def library_of(generation: str, dtype: str = "bf16") -> Library:
    """The library kernels of a GPU generation ("hopper"), or of the one that it is taken to be like (:data:`LIKE`),
    with what the table says otherwise of operands of ``dtype``. Raises SpecError for a generation of which nothing is
    known."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    name = generation if generation in table else LIKE.get(generation, "")
    if name not in table:
        raise SpecError(
            f"no library kernels are known for generation {generation!r}: known are {', '.join(sorted(table))}"
        )
    row = {key: value for key, value in table[name].items() if not isinstance(value, dict)}
    own = dict(table[name].get(dtype, {}))
    of, _, like = own.pop("like", "").partition(".")
    row |= (table[of][like] if like else {}) | own
    tiles = tuple(Tile(**each) for each in row.pop("tiles"))
    flags = {name: bool(row.pop(name, False)) for name in _FLAGS}
    rule, offered = (tuple(_choice(each) for each in row.pop(name, ())) for name in ("rule", "offered"))
    expected = {each.name for each in fields(Library)} - {"generation", "tiles", "rule", "offered", *_FLAGS}
    row = dict.fromkeys(_OPTIONAL, 0.0) | row
    if set(row) != expected:
        raise SpecError(f"{_FILE.name}, {name}: missing or unknown: {', '.join(sorted(set(row) ^ expected))}")
    for key, value in row.items():
        if not (isinstance(value, int | float) and math.isfinite(value) and (value > 0 or key in _OPTIONAL)):
            raise SpecError(f"{_FILE.name}, {name}.{key} is {value!r}, not a positive number")
    # Whole numbers would make compiled functions anew for each mixture of them.
    figures: dict[str, Any] = {key: float(value) for key, value in row.items()} | flags
    return Library(generation=name, tiles=tiles, rule=rule, offered=offered, **figures)


def _choice(row: dict[str, Any]) -> Choice:
    bounds = {name: row[name] for name in _BOUNDS if name in row}
    return Choice(Tile(**{name: value for name, value in row.items() if name not in bounds}), **bounds)
