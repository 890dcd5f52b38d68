"""Which measured row belongs to which launch: by machine code where it can, by name and shape otherwise.

Mental model: a launch is identified by its machine code (cubin hash), its grid and block, and its place in the case. A
row that names a cubin hash that some launch has is joined by it. Another row is joined by kernel, shape and index; if
both sides name a hash, the pair then carries the note that the machine code differs. A profiler's row that knows no
kernel of the suite is joined by function name, grid and block. What cannot be joined is listed with the reason, on
either side: nothing is dropped in silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpusim.silicon.row import SiliconRow


@dataclass(frozen=True)
class LaunchFacts:
    """A launch that can be simulated: ``shape`` as :class:`SiliconRow` writes it, ``index`` among the timed launches
    of the case, ``function`` as the program names it."""

    kernel: str
    shape: str
    index: int
    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cubin_hash: str
    alone: bool = False  # the only timed launch of its case

    @property
    def name(self) -> str:
        """``kernel:shape``, and the launch where there are several."""
        launch = "" if self.alone else f" launch {self.index}"
        return f"{self.kernel}:{self.shape}{launch}" if self.shape else f"{self.kernel}{launch}"


@dataclass(frozen=True)
class Pair:
    """A row and the launch that it measured; ``how`` is ``cubin``, ``shape`` or ``function``."""

    row: SiliconRow
    launch: LaunchFacts
    how: str
    note: str = ""


@dataclass(frozen=True)
class Joined:
    """``pairs`` in the order of the rows; rows that fit no launch, with the reason; launches without a row."""

    pairs: tuple[Pair, ...]
    unmatched: tuple[tuple[SiliconRow, str], ...]
    unmeasured: tuple[LaunchFacts, ...]


def join(rows: Sequence[SiliconRow], launches: Sequence[LaunchFacts]) -> Joined:
    """Join every row that can be joined. Several rows may belong to one launch (cold and warm, two methods)."""
    pairs, unmatched = [], []
    for row in rows:
        found = _find(row, launches)
        if isinstance(found, str):
            unmatched.append((row, found))
        else:
            pairs.append(found)
    measured = {pair.launch for pair in pairs}
    return Joined(tuple(pairs), tuple(unmatched), tuple(lau for lau in launches if lau not in measured))


def _find(row: SiliconRow, launches: Sequence[LaunchFacts]) -> Pair | str:
    same_code = [lau for lau in launches if row.cubin_hash and lau.cubin_hash == row.cubin_hash]
    for candidates, how in (
        (same_code, "cubin"),
        ([lau for lau in launches if lau.kernel == row.kernel and _same_shape(row, lau)], "shape"),
        ([lau for lau in launches if row.grid and row.block and _names(row.kernel, lau.function)], "function"),
    ):
        fitting = [lau for lau in candidates if _fits(row, lau)]
        if len(fitting) > 1:  # the place in the case decides, if the row says which
            fitting = [lau for lau in fitting if lau.index == row.launch]
        if len(fitting) == 1:
            return Pair(row, fitting[0], how, _note(row, fitting[0], how))
        if len(fitting) > 1:
            names = ", ".join(sorted(lau.name for lau in fitting)[:3])
            return f"fits {len(fitting)} launches alike ({names}): its shape would tell them apart"
    return _why_not(row, launches)


def _same_shape(row: SiliconRow, launch: LaunchFacts) -> bool:
    return not row.shape or row.shape == launch.shape


def _fits(row: SiliconRow, launch: LaunchFacts) -> bool:
    """Whether nothing that the row says contradicts the launch."""
    if (row.grid and row.grid != launch.grid) or (row.block and row.block != launch.block):
        return False
    if row.kernel == launch.kernel:
        return _same_shape(row, launch) and (launch.alone or row.launch == launch.index)
    return True


def _names(text: str, function: str) -> bool:
    """Whether a profiler's name, mangled or with a signature, is that of ``function``."""
    plain = text.split("(")[0].split("<")[0].split(" ")[-1]
    return plain.split("::")[-1].split(".")[-1] == function or f"{len(function)}{function}" in text


def _note(row: SiliconRow, launch: LaunchFacts, how: str) -> str:
    if how == "shape" and launch.shape and not row.shape:
        return f"no shape was recorded: {launch.shape} taken"
    if row.cubin_hash and row.cubin_hash != launch.cubin_hash:
        return f"other machine code was measured ({row.cubin_hash[:12]}) than is simulated ({launch.cubin_hash[:12]})"
    return ""


def _why_not(row: SiliconRow, launches: Sequence[LaunchFacts]) -> str:
    of_kernel = [lau for lau in launches if lau.kernel == row.kernel]
    if not of_kernel:
        hash_ = f", nor one with its cubin hash {row.cubin_hash[:12]}" if row.cubin_hash else ""
        return f"fits no launch that was asked for: none is of kernel {row.kernel!r}{hash_}"
    of_shape = [lau for lau in of_kernel if _same_shape(row, lau)]
    if not of_shape:
        shapes = "; ".join(sorted({lau.shape for lau in of_kernel})[:3])
        return f"was measured with {row.shape or 'an unknown shape'}, asked for is {shapes}"
    near = of_shape[0]
    for what, measured, simulated in (("grid", row.grid, near.grid), ("block", row.block, near.block)):
        if measured and measured != simulated:
            return f"was measured with {what} {_text(measured)}, the suite launches {_text(simulated)}"
    return f"is launch {row.launch} of its case, which has {len(of_shape)} timed launches"


def _text(sides: tuple[int, int, int]) -> str:
    return "x".join(map(str, sides))
