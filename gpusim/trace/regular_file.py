"""The members of a trace file that holds a few blocks for all: what of :class:`RegularBlocks` goes into the header,
what into arrays.

Mental model: everything is flat arrays of known dtypes, and counts in the header. What comes from outside is checked
here once: every index inside its array, and a block of each class, with one iteration and with two, as any chunk is.
Whatever chunks are made of it later are then as good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from gpusim.trace.layout import RUN, SCATTERED, Launch, Program
from gpusim.trace.regular import BlockClass, RegularBlocks, linear
from gpusim.trace.synthesis import Part, RegularChunks
from gpusim.trace.template import BlockTemplate, Path
from gpusim.trace.validate import check_chunk, refuse

#: Accesses and runs that one block may unfold to.
MAX_UNFOLDED = 1 << 25
MAX_CLASSES = 27
_INT64 = np.dtype("<i8")
#: Array of a template -> dtype, numbers a row.
_ARRAYS = {
    "path": (_INT64, 1), "place": (_INT64, 1), "stride": (np.dtype("<i4"), 1), "mask": (np.dtype("<u4"), 1),
    "pattern": (np.dtype("<i4"), 1), "step": (_INT64, 1), "start": (_INT64, 1), "body": (_INT64, 2),
}  # fmt: skip
Get = Callable[[str, np.dtype], np.ndarray]


def header_of(regular: RegularBlocks) -> dict:
    """What the header says of it."""
    return {
        "held": list(regular.held),
        "classes": [
            {
                "origin": list(each.origin),
                "iterations": each.template.iterations,
                "paths": [[len(path.runs), path.begin, path.end] for path in each.template.paths],
            }
            for each in regular.classes
        ],
    }


def members(count: int) -> Iterator[str]:
    """Names of the arrays of so many classes."""
    yield from ("number.npy", "patterns.npy")
    for index in range(count):
        yield from (f"class{index:02d}.{name}.npy" for name in (*_ARRAYS, "slope", "runs"))


def arrays_of(regular: RegularBlocks) -> Iterator[tuple[str, np.ndarray]]:
    """Name and content of each array, in the order of :func:`members`."""
    yield "number.npy", regular.number.astype(_INT64).reshape(-1)
    yield "patterns.npy", regular.patterns.astype(_INT64).reshape(-1)
    for index, each in enumerate(regular.classes):
        for name, (dtype, _) in _ARRAYS.items():
            yield f"class{index:02d}.{name}.npy", getattr(each.template, name).astype(dtype).reshape(-1)
        yield f"class{index:02d}.slope.npy", each.slope.astype(_INT64).reshape(-1)
        yield f"class{index:02d}.runs.npy", np.concatenate([path.runs for path in each.template.paths]).astype(RUN)


def read_regular(header: object, get: Get, program: Program, launch: Launch) -> RegularBlocks:
    """The blocks that a header and the arrays of a file describe, checked; ``get(name, dtype)`` reads an array."""
    if not isinstance(header, dict) or set(header) != {"held", "classes"}:
        raise refuse("its header does not say which blocks it holds")
    entries = header["classes"]
    if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_CLASSES:
        raise refuse("its header names no classes of blocks")
    number, patterns = get("number.npy", _INT64), get("patterns.npy", _INT64)
    if len(number) != 27 or ((number < 0) | (number >= len(entries))).any() or len(patterns) % 32:
        raise refuse(f"its blocks are of classes that its {len(entries)} do not name")
    held = _integers(header["held"], launch.blocks)
    if not held or any(b <= a for a, b in pairwise(held)):
        raise refuse("the blocks that it holds are not in order")
    classes = tuple(_class(index, entry, get, launch, len(patterns) // 32) for index, entry in enumerate(entries))
    regular = RegularBlocks(launch.grid, classes, number.reshape(3, 3, 3), patterns.reshape(-1, 32), tuple(held))
    for index, each in enumerate(classes):
        _check_class(index, each, regular, program, launch)
    return regular


def _integers(values: object, end: int) -> list[int]:
    if not isinstance(values, list) or any(type(value) is not int or not 0 <= value < end for value in values):
        raise refuse(f"{values!r} where whole numbers below {end} are needed")
    return values


def _class(index: int, entry: object, get: Get, launch: Launch, patterns: int) -> BlockClass:
    where = f"class {index}"
    if (
        not isinstance(entry, dict)
        or set(entry) != {"origin", "iterations", "paths"}
        or not isinstance(entry["paths"], list)
    ):
        raise refuse(f"{where} is {entry!r}")
    origin = _integers(entry["origin"], 1 << 31)
    iterations = _integers([entry["iterations"]], 1 << 31)[0]
    if len(origin) != 3 or any(at >= size for at, size in zip(origin, launch.grid, strict=True)) or iterations < 1:
        raise refuse(f"{where} begins at {origin} and makes {iterations} iterations")
    arrays = {}
    for name, (dtype, columns) in _ARRAYS.items():
        flat = get(f"class{index:02d}.{name}.npy", dtype)
        if len(flat) % columns:
            raise refuse(f"{where}: {name} has {len(flat)} numbers")
        arrays[name] = flat.reshape(-1, columns) if columns > 1 else flat
    slope, runs = get(f"class{index:02d}.slope.npy", _INT64), get(f"class{index:02d}.runs.npy", RUN)
    paths, begin = [], 0
    for counts in entry["paths"]:
        length, first, end = (*_integers(counts, len(runs) + 1), -1, -1, -1)[:3]
        if not 0 <= first <= end <= length or begin + length > len(runs) or length < 1:
            raise refuse(f"{where}: a path of {counts} runs among {len(runs)}")
        paths.append(Path(runs[begin : begin + length], first, end))
        begin += length
    template = BlockTemplate(paths=tuple(paths), iterations=iterations, **arrays)
    _check_template(where, template, slope, launch.warps_per_block, patterns)
    return BlockClass((origin[0], origin[1], origin[2]), template, slope.reshape(-1, 3))


def _check_template(where: str, block: BlockTemplate, slope: np.ndarray, warps: int, patterns: int) -> None:
    n = len(block.place)
    sizes = [len(part) for part in (block.stride, block.mask, block.pattern, block.step)]
    if sizes != [n] * 4 or len(slope) != 3 * n:
        raise refuse(f"{where}: its arrays are of {n}, {sizes} and {len(slope)} accesses")
    if len(block.path) != warps or len(block.start) != warps + 1 or len(block.body) != warps:
        raise refuse(f"{where}: its warps are not the {warps} of a block")
    if ((block.path < 0) | (block.path >= len(block.paths))).any():
        raise refuse(f"{where}: a warp names a path beyond the {len(block.paths)}")
    ends = np.stack((block.start[:-1], block.body[:, 0], block.body[:, 1], block.start[1:]), axis=1)
    if block.start[0] != 0 or block.start[-1] != n or (np.diff(ends, axis=1) < 0).any():
        raise refuse(f"{where}: the accesses of a warp are not in order")
    patterned = block.stride == SCATTERED
    if ((block.pattern >= 0) != patterned).any() or (block.pattern >= patterns).any() or (block.pattern < -1).any():
        raise refuse(f"{where}: an access names a pattern beyond the {patterns}")
    runs = sum(len(path.runs) + (block.iterations - 1) * (path.end - path.begin) for path in block.paths)
    if block.accesses(block.iterations) > MAX_UNFOLDED or runs > MAX_UNFOLDED:
        raise refuse(f"{where}: a block would have {block.accesses(block.iterations)} accesses and {runs} runs")


def _check_class(index: int, each: BlockClass, regular: RegularBlocks, program: Program, launch: Launch) -> None:
    """A block of the class, with one iteration and with two, is one that a capture could have made."""
    alone = replace(regular, classes=(each,), number=np.zeros((3, 3, 3), np.int64))
    for iterations in (1, min(2, each.template.iterations)):
        part = Part(linear(each.origin, regular.grid), 1, iterations)
        for chunk in RegularChunks(alone, launch.warps_per_block, [part]):
            check_chunk(chunk, launch, program, 0)
