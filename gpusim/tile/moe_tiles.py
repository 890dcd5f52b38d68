"""Tiles of experts' products that a search found, as a framework ships them.

Mental model: vLLM has files of tiles for some numbers of experts and inner widths; of a launch of any number of tokens
the nearest searched number's tile is taken. How many of its blocks an SM holds follows from the GPU's shared memory and
registers. Table: ``moe_tiles.toml``.
"""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

from gpusim.gpus.spec import GpuSpec
from gpusim.tile.library import LIKE, Tile, kernels_of

_FILE = Path(__file__).with_name("moe_tiles.toml")
_ELEMENT_BYTES = 2
#: Registers of a thread beside its accumulators (addresses, fragments of the operands): guess, from kernels of the kind
#: that Triton compiles.
_OTHER_REGISTERS = 56
_MOST_REGISTERS = 255


@functools.cache
def _table() -> dict[tuple[str, int, int], tuple[tuple[int, ...], ...]]:
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {
        (generation, each["experts"], each["width"]): tuple(map(tuple, each["tiles"]))
        for generation, searched in table.items()
        for each in searched
    }


def searched_tile(spec: GpuSpec, experts: int, width: int, tokens: int) -> Tile | None:
    """The tile for ``tokens`` on ``experts`` of this GPU whose inner width is ``width``; None where nothing was
    searched, or what was found on another GPU of the generation does not fit into a block's shared memory."""
    known = _table()
    own = kernels_of(spec)
    generation = own if any(own == each[0] for each in known) else LIKE.get(own, "")
    found = known.get((generation, experts, width))
    if found is None:
        return None
    _, rows, columns, depth, warps, stages = min(found, key=lambda each: abs(each[0] - tokens))
    if _shared_bytes(rows, columns, depth, stages) > spec.sm.shared_per_block_max_bytes:
        return None
    return Tile(rows, columns, depth, stages, blocks_per_sm(spec, rows, columns, depth, warps, stages))


def blocks_per_sm(spec: GpuSpec, rows: int, columns: int, depth: int, warps: int, stages: int) -> int:
    """Blocks of 16-bit operands that an SM holds: by shared memory (a step's operands ``stages`` times) and registers
    (FP32 accumulators)."""
    shared_bytes = _shared_bytes(rows, columns, depth, stages) + spec.sm.shared_reserved_bytes
    threads = 32 * warps
    registers = threads * min(_MOST_REGISTERS, rows * columns / threads + _OTHER_REGISTERS)
    held = min(
        spec.sm.shared_max_bytes // shared_bytes, int(spec.sm.registers // registers), spec.sm.max_warps // warps
    )
    return max(1, int(held))


def _shared_bytes(rows: int, columns: int, depth: int, stages: int) -> int:
    return (rows + columns) * depth * _ELEMENT_BYTES * stages
