"""What a framework launches around a library's product: the conversion of the first operand, and products in batches.

Mental model: the inner loop of a product is the library's, or worked out from the GPU's description; what a framework
puts around it (launches, a kernel that converts) are times and shares that its software has on every GPU alike.
``software.toml`` has them and what they were set from.
"""

from __future__ import annotations

import functools
import math
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.described import SHARED_BYTES_PER_CYCLE, library_on
from gpusim.tile.library import (
    FRAMEWORKS,
    SCALE_DEPTH,
    Library,
    Tile,
    has_rows,
    kernels_of,
    library_of,
    mean_rates,
    named_kernels,
)
from gpusim.tile.machine import fma_lanes, tile_machine
from gpusim.tile.moe_waves import STEP_DEPTH, WIDEST_OUTPUTS

_FILE = Path(__file__).with_name("software.toml")
#: Rows of formats whose first operand a framework converts by kernels of its own.
CONVERTED = ("fp8", "fp8_block")
#: Rows that a framework may be named for whether or not it has figures of its own: where it has none, the generation's
#: are taken.
TOLD_APART = ("int4_wo",)
#: Framework and row -> what its kernels multiply weights of that row as, after converting the other operand (SGLang's
#: of int8, above the peak of 16-bit products on an H100).
MULTIPLIED = {("sglang", "int8_wo"): "int8"}
#: The row of products in batches, whichever framework calls them.
_BATCH, _ANY = "batch", "any"
_WIDE_BYTES = 2
#: Figures of a conversion, which software and libraries have by the same names.
_CONVERSION = ("convert_rate", "convert_bytes_per_cycle", "convert_start_cycles", "convert_blocks")


@dataclass(frozen=True)
class Software:
    """``launch_ns``: of all launches beside their blocks; ``convert_rate``: share of what kernels that move data reach,
    ``convert_bytes_per_cycle``, ``convert_start_cycles``, ``convert_blocks``: as :class:`gpusim.tile.library.Library`
    has them (0: no such bound; as other kernels that move data); ``own_on``: generations whose product is
    ``library.toml``'s for the format. ``packed_ns``, ``ragged_ns``: of kernels that lay scales anew for tensor cores
    which take them, always and where rows are no multiple of :data:`gpusim.tile.library.SCALE_ROWS`. ``splits``:
    whether its products split the depth; ``promoted``: whether their sums of :data:`gpusim.tile.library.SCALE_DEPTH`
    products are scaled and added up outside the tensor cores where these take no scales; ``fills_waves``: whether it
    takes the tile that fills the fewest waves where these are warp groups' (:mod:`gpusim.tile.moe_waves`);
    ``beside_launch``: whether ``launch_ns`` comes on top of what the library's products take; ``l2_share``: of L2, in
    which a launch finds what the one before read and wrote (0: the library's); ``alone``: whether an SM with tensor
    memory multiplies alone, so that its port of shared memory writes and reads both operands of a tile, of which a pair
    of SMs would share one.
    """

    launch_ns: float
    convert_rate: float
    own_on: tuple[str, ...]
    packed_ns: float = 0.0
    ragged_ns: float = 0.0
    splits: bool = True
    promoted: bool = False
    convert_bytes_per_cycle: float = 0.0
    convert_start_cycles: float = 0.0
    convert_blocks: float = 0.0
    fills_waves: bool = False
    alone: bool = False
    beside_launch: bool = False
    l2_share: float = 0.0


@functools.cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


@functools.cache
def software_of(framework: str, row: str, without: str = "") -> Software:
    """What ``framework`` launches around products of ``row`` (a format with a conversion, or "batch" of "any");
    ``without``: as rows of generations but this one have it. Raises SpecError for a framework or a row of which nothing
    is known."""
    if row not in _tables().get(framework, {}):
        raise SpecError(
            f"nothing is known of {framework!r} around products of {row}: known are {', '.join(FRAMEWORKS)} for {', '.join(CONVERTED)}"
        )
    found = dict(_tables()[framework][row])
    others = {name: found.pop(name) for name in tuple(found) if name.startswith("without_")}
    found |= others.get(f"without_{without}", {})
    return Software(**found | {"own_on": tuple(found["own_on"])})


def followed(generation: str) -> str:
    """Whose kernels are taken on GPUs of ``generation`` where no framework is named."""
    return _tables()["followed"].get(generation, _tables()["default"])


def followed_in(generation: str, row: str) -> str:
    """The same of products of ``row``: of formats that no software converts for alone, the framework whose rows they
    were set from."""
    return followed(generation) if row in (*CONVERTED, _BATCH) else _tables()["rows_of"].get(row, "")


def widest_columns(generation: str, row: str) -> float:
    """Columns of the widest product among the rows that set ``row`` of ``library.toml`` for ``generation``; infinite
    where products of all widths are among them."""
    return _tables()["widest"].get(generation, {}).get(row, math.inf)


def product_library(spec: GpuSpec, row: str, framework: str = "", columns: int = 1) -> Library:
    """The kernels of products of ``row`` on ``spec`` (a format's ``library``, or "batch"): those of the generation's
    own rows, where ``framework`` ("": none named) is the one that they follow; else its products of 16 bits, or what
    its description says of them, with what the framework launches around. Products of more ``columns`` than the row's
    have the kernels of 16 bits too, as a library's of one width at either format: what figures of narrow products leave
    undetermined, a wide one would be made of. Raises SpecError for a framework that has no software around such
    products."""
    name = named_kernels(spec)
    if framework and has_rows(name, f"{row}_{framework}"):  # kernels of its own
        return library_of(kernels_of(spec), f"{row}_{framework}")
    if (framework, row) in MULTIPLIED:
        return with_software(spec, library_on(spec), software_of(framework, row))
    if framework and row not in (*CONVERTED, *TOLD_APART) and framework != followed_in(name, row):
        raise SpecError(f"frameworks differ in products of {', '.join(CONVERTED)}: none is named for {row}")
    if row not in (*CONVERTED, _BATCH):
        return library_on(spec, row)
    whose = _ANY if row == _BATCH else framework or followed(name)
    measured = has_rows(name, row)
    if measured and (row == _BATCH or whose == followed(name)):
        own = library_of(kernels_of(spec), row)
        if columns <= widest_columns(name, row):
            return own
        return with_software(spec, library_on(spec), Software(own.launch_ns, own_on=(), **_conversion_of(own)))
    around = software_of(whose, row)
    if measured and name in around.own_on:
        return replace(library_of(name, row), launch_ns=around.launch_ns, **_conversion_of(around))
    return with_software(spec, library_on(spec), around)


def _conversion_of(figures: Software | Library) -> dict[str, Any]:
    """Those of the kernel that converts the first operand."""
    return {name: getattr(figures, name) for name in _CONVERSION}


def with_software(spec: GpuSpec, dense: Library, around: Software) -> Library:
    """Products of 16 bits' kernels on ``spec`` with what a framework launches around products of another format, and
    what these do otherwise."""
    found = replace(
        dense,
        launch_ns=around.launch_ns + dense.launch_ns * around.beside_launch,
        l2_share=around.l2_share or dense.l2_share,
        **_conversion_of(around),
    )
    if not around.splits:
        found = replace(found, split_k_cycles=math.inf)
    if spec.tensor_memory.columns_per_cycle:
        if around.alone:
            found = replace(found, **_rates_alone(spec, found))
        if around.packed_ns:
            # Blocks of the kernel that lays scales go through all rows once more.
            found = replace(found, convert_rate=found.convert_rate / 2)
        return replace(found, launch_ns=found.launch_ns + around.packed_ns, ragged_ns=around.ragged_ns)
    if around.promoted:
        lanes = fma_lanes(spec)
        # A step of 64 elements of 16 bits has as many bytes as one of 128 of 8.
        added = [tile.outputs / lanes * tile.depth * _WIDE_BYTES / SCALE_DEPTH for tile in found.tiles]
        tiles = [
            replace(tile, step_cycles=found.cycles_a_step(tile) + more)
            for tile, more in zip(found.tiles, added, strict=True)
        ]
        found = replace(found, tiles=tuple(tiles))
        if around.fills_waves and spec.tensor.warpgroup_f16_macs_per_cycle:
            # Of its widest tile.
            widest = WIDEST_OUTPUTS / lanes * STEP_DEPTH * _WIDE_BYTES / SCALE_DEPTH
            found = replace(found, fills_waves=True, step_cycles=found.step_cycles + widest)
    return found


def _rates_alone(spec: GpuSpec, dense: Library) -> dict[str, float]:
    """Shares of the tensor cores' peak that tiles reach whose operands an SM's port of shared memory writes once and
    reads once."""
    flops_per_cycle = tile_machine(spec, "fp16").flops_per_cycle

    def share(tile: Tile) -> float:
        port_cycles = 2.0 * (tile.rows + tile.columns) * _WIDE_BYTES / SHARED_BYTES_PER_CYCLE
        return min(1.0, 2.0 * tile.outputs / flops_per_cycle / port_cycles)

    return {name: min(getattr(dense, name), rate) for name, rate in mean_rates(dense.tiles, share).items()}
