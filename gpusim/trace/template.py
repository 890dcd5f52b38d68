"""One block of a launch, folded: a loop whose iterations are alike is kept once, with how its addresses move from
iteration to iteration.

Mental model: a warp's path is a sequence of runs, and a loop is a stretch of it that repeats. Where every iteration
also makes the same accesses, each moved by its own fixed number of bytes an iteration, one iteration and the moves say
all: :func:`fold` checks that on every iteration of every warp, so :func:`unfolded` gives the block back exactly. It may
also give it with fewer iterations.

An access is a *place* and the lanes around it: lane 0's address and a stride, or the first lane's address and one of
``patterns`` (offsets of the 32 lanes, as :mod:`gpusim.trace.patterns` makes them). Whatever moves an access adds to its
place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusim.trace.layout import RUN, SCATTERED, Chunk, Program
from gpusim.trace.patterns import split_rows

#: A loop is worth folding from so many iterations on.
LEAST_ITERATIONS = 4
#: Iterations that may be taken together as one, where a loop's buffers alternate.
MOST_TOGETHER = 4
#: Candidates for the number of runs of an iteration that are looked at.
_MOST_PERIODS = 8


@dataclass(frozen=True)
class Path:
    """The runs RUN[r] of a warp, of which ``runs[begin:end]`` is one iteration of the loop (empty: it is not in it)."""

    runs: np.ndarray
    begin: int
    end: int


@dataclass(frozen=True)
class BlockTemplate:
    """A folded block. ``path`` int64[warps] names its ``paths``; each loop makes ``iterations`` iterations (1: nothing
    was folded).

    The accesses of all warps, warp by warp, one iteration of the loop each: ``place`` int64[a], ``stride`` int32[a]
    (SCATTERED with a pattern), ``mask`` uint32[a], ``pattern`` int32[a] (row of the launch's patterns, -1: none),
    ``step`` int64[a] bytes a iteration. Of warp w they are ``start[w]`` to ``start[w + 1]``, those of the iteration
    ``body[w]`` (first, end), int64[warps, 2].
    """

    path: np.ndarray
    paths: tuple[Path, ...]
    iterations: int
    place: np.ndarray
    stride: np.ndarray
    mask: np.ndarray
    pattern: np.ndarray
    step: np.ndarray
    start: np.ndarray
    body: np.ndarray

    def shape(self) -> tuple:
        """What two blocks have in common of which one is the other, moved."""
        parts = (self.path, self.stride, self.mask, self.pattern, self.step, self.start, self.body)
        paths = tuple((path.runs.tobytes(), path.begin, path.end) for path in self.paths)
        return (self.iterations, paths, *(part.tobytes() for part in parts))

    def instructions(self, iterations: int) -> int:
        """Warp instructions of the block with so many iterations."""
        total = 0
        for number, path in enumerate(self.paths):
            counts = path.runs["count"].astype(np.int64)
            iteration = int(counts[path.begin : path.end].sum())
            total += int((self.path == number).sum()) * (int(counts.sum()) + (iterations - 1) * iteration)
        return total

    def accesses(self, iterations: int) -> int:
        """ACCESS records of the block with so many iterations."""
        return len(self.place) + (iterations - 1) * int((self.body[:, 1] - self.body[:, 0]).sum())


class Patterns:
    """The lane patterns of a launch, each once: ``rows`` int64[p, 32]."""

    def __init__(self, rows: np.ndarray | None = None) -> None:
        self._rows = [] if rows is None else [row.copy() for row in rows]
        self._known = {row.tobytes(): number for number, row in enumerate(self._rows)}

    def numbers(self, patterns: np.ndarray) -> np.ndarray:
        """The launch's number of each of ``patterns`` int64[p, 32]."""
        found = np.empty(len(patterns), np.int64)
        for i, row in enumerate(patterns):
            key = row.tobytes()
            if key not in self._known:
                self._known[key] = len(self._rows)
                self._rows.append(row.copy())
            found[i] = self._known[key]
        return found

    @property
    def rows(self) -> np.ndarray:
        return np.array(self._rows, np.int64).reshape(len(self._rows), 32)


def find_loop(runs: np.ndarray) -> tuple[int, int, int]:
    """The loop of a path RUN[r] in which most instructions repeat: (its first run, runs of an iteration, iterations);
    iterations 1 for none."""
    _, ids = np.unique(runs, return_inverse=True)
    ids = ids.reshape(-1)
    counts = np.concatenate(([0], np.cumsum(runs["count"].astype(np.int64))))
    best, saved = (0, 0, 1), 0
    for period in _periods(ids, runs["count"].astype(np.int64)):
        same = np.concatenate(([False], ids[:-period] == ids[period:], [False]))
        edges = np.flatnonzero(np.diff(same.astype(np.int8)))
        for first, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            iterations = (end - first) // period + 1
            gain = int(counts[first + iterations * period] - counts[first + period])
            if iterations >= LEAST_ITERATIONS and gain > saved:
                best, saved = (first, period, iterations), gain
    return best


def _periods(ids: np.ndarray, weight: np.ndarray) -> list[int]:
    """Distances, in runs, at which much of a path comes again; shorter ones first among equals."""
    order = np.argsort(ids, kind="stable")
    gaps, again = np.diff(order), ids[order][1:] == ids[order][:-1]
    if not again.any():
        return []
    periods, number = np.unique(gaps[again], return_inverse=True)
    worth = np.bincount(number.reshape(-1), weight[order][1:][again])
    return periods[np.argsort(-worth, kind="stable")][:_MOST_PERIODS].tolist()


def fold(chunk: Chunk, program: Program, patterns: Patterns) -> BlockTemplate:
    """The one block of ``chunk``, folded where that loses nothing."""
    path, runs = _paths(chunk)
    accesses = _Accesses(chunk, patterns)
    loops = [find_loop(each) for each in runs]
    iterations = {iterations for _, _, iterations in loops}
    # A loop that only some warps are in may hold barriers with the others: then all or nobody.
    if iterations != {1} and len(iterations) == 1:
        for together in range(1, MOST_TOGETHER + 1):
            folded = _folded(path, runs, loops, together, program, accesses)
            if folded is not None:
                return folded
    return _whole(path, runs, accesses)


def _paths(chunk: Chunk) -> tuple[np.ndarray, list[np.ndarray]]:
    """(path of each warp int64[warps], runs RUN[r] of each path), each run as long as it can be: one that was cut where
    the log was full is whole again."""
    known: dict[bytes, int] = {}
    paths, numbers = [], np.empty(len(chunk.path_start) - 1, np.int64)
    for p in range(len(numbers)):
        runs = chunk.runs[chunk.path_start[p] : chunk.path_start[p + 1]]
        end = runs["first"] + runs["count"]
        begins = np.concatenate(([True], (runs["first"][1:] != end[:-1]) | (runs["mask"][1:] != runs["mask"][:-1])))
        first = np.flatnonzero(begins)
        whole = runs[first].copy()
        whole["count"] = np.add.reduceat(runs["count"], first) if len(runs) else whole["count"]
        key = whole.tobytes()
        if key not in known:
            known[key] = len(paths)
            paths.append(whole)
        numbers[p] = known[key]
    used, path = np.unique(numbers[chunk.warps["path"]], return_inverse=True)
    return path.reshape(-1), [paths[p] for p in used]


class _Accesses:
    """A chunk's accesses as places and patterns, warp by warp."""

    def __init__(self, chunk: Chunk, patterns: Patterns) -> None:
        first, count = (chunk.warps[name].astype(np.int64) for name in ("access_start", "access_count"))
        self.start = np.concatenate(([0], np.cumsum(count)))
        order = np.repeat(first - self.start[:-1], count) + np.arange(self.start[-1])
        taken = chunk.accesses[order]
        self.place = taken["address"].astype(np.int64)
        self.stride, self.mask = taken["stride"].copy(), taken["mask"].copy()
        self.pattern = np.full(len(taken), -1, np.int32)
        rows = self.stride == SCATTERED
        if rows.any():
            base, number, shapes = split_rows(chunk.scattered)
            named = self.place[rows]
            self.place[rows] = base[named]
            self.pattern[rows] = patterns.numbers(shapes)[number[named]]


def _whole(path: np.ndarray, runs: list[np.ndarray], of: _Accesses) -> BlockTemplate:
    """The block with nothing folded."""
    ends = of.start[1:]
    return BlockTemplate(
        path, tuple(Path(each.copy(), len(each), len(each)) for each in runs), 1, of.place, of.stride, of.mask, of.pattern,
        np.zeros(len(of.place), np.int64), of.start, np.stack((ends, ends), axis=1),
    )  # fmt: skip


def _folded(
    path: np.ndarray,
    runs: list[np.ndarray],
    loops: list[tuple[int, int, int]],
    together: int,
    program: Program,
    of: _Accesses,
) -> BlockTemplate | None:
    """The block with its loops folded, ``together`` iterations as one; None if its accesses do not move evenly."""
    iterations = loops[0][2] // together
    if iterations < LEAST_ITERATIONS:
        return None
    consumed = np.concatenate(([0], np.cumsum(program.instructions["records"], dtype=np.int64)))
    paths, records = [], []
    for each, (first, period, _) in zip(runs, loops, strict=True):
        begin, end = first, first + period * together
        rest = first + period * together * iterations
        by_run = consumed[each["first"].astype(np.int64) + each["count"]] - consumed[each["first"]]
        paths.append(Path(np.concatenate((each[:end], each[rest:])), begin, end))
        records.append((int(by_run[:begin].sum()), int(by_run[begin:end].sum())))
    kept, steps, start, body = [], [], [0], []
    for warp, number in enumerate(path.tolist()):
        before, of_an_iteration = records[number]
        first, last = int(of.start[warp]), int(of.start[warp + 1])
        begin, behind = first + before, first + before + iterations * of_an_iteration
        step = _even_step(of, begin, iterations, of_an_iteration)
        if step is None:
            return None
        mine = [np.arange(first, begin + of_an_iteration), np.arange(behind, last)]
        kept += mine
        steps += [np.zeros(before, np.int64), step, np.zeros(last - behind, np.int64)]
        body.append((start[-1] + before, start[-1] + before + of_an_iteration))
        start.append(start[-1] + len(mine[0]) + len(mine[1]))
    order = np.concatenate(kept)
    return BlockTemplate(
        path, tuple(paths), iterations, of.place[order], of.stride[order], of.mask[order], of.pattern[order],
        np.concatenate(steps), np.array(start, np.int64), np.array(body, np.int64).reshape(-1, 2),
    )  # fmt: skip


def _even_step(of: _Accesses, begin: int, iterations: int, of_an_iteration: int) -> np.ndarray | None:
    """By how much each access of an iteration moves from iteration to iteration, int64[of_an_iteration]; None if not
    always by as much."""
    stretch = slice(begin, begin + iterations * of_an_iteration)
    for values in (of.stride, of.mask, of.pattern):
        table = values[stretch].reshape(iterations, of_an_iteration)
        if (table[1:] != table[0]).any():
            return None
    place = of.place[stretch].reshape(iterations, of_an_iteration)
    step = place[1] - place[0]
    expected = place[0] + np.arange(iterations)[:, None] * step
    return None if (expected != place).any() else step


def path_runs(path: Path, iterations: int) -> np.ndarray:
    """The runs RUN[r] of a path with so many iterations."""
    iteration = path.runs[path.begin : path.end]
    return np.concatenate((path.runs[: path.begin], np.tile(iteration, iterations), path.runs[path.end :])).astype(RUN)


@dataclass(frozen=True)
class Unfolded:
    """Accesses of a block with some iterations: ``source`` int64[n] the template's access, ``place`` int64[n],
    ``start`` int64[warps + 1]."""

    source: np.ndarray
    place: np.ndarray
    start: np.ndarray


def unfolded(template: BlockTemplate, first_iteration: int, iterations: int) -> Unfolded:
    """The accesses with ``iterations`` iterations of the loop, of which the first is number ``first_iteration`` of the
    block's own."""
    source, iteration, start = [], [], [0]
    for warp in range(len(template.path)):
        first, last = template.start[warp], template.start[warp + 1]
        begin, end = template.body[warp]
        length = end - begin
        source += [np.arange(first, begin), np.tile(np.arange(begin, end), iterations), np.arange(end, last)]
        iteration += [
            np.zeros(begin - first, np.int64), np.repeat(np.arange(first_iteration, first_iteration + iterations), length),
            np.zeros(last - end, np.int64),
        ]  # fmt: skip
        start.append(start[-1] + int(begin - first + iterations * length + last - end))
    order = np.concatenate(source)
    return Unfolded(
        order, template.place[order] + np.concatenate(iteration) * template.step[order], np.array(start, np.int64)
    )
