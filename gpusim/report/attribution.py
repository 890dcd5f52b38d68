"""Who did it: a launch's issues, stalls and memory work by SASS instruction and by source line.

Mental model: the engine counts at the instruction (stalls where a warp waited, work where it was caused), so
an instruction's row is read off, a source line's row is the sum of its instructions, and both add up to
the launch's totals exactly. A wait for data stands at the instruction that needs it, a wait at a barrier at the
barrier. Compilers move code: a line's row is what the line tables say, no more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from gpusim.engine.result import LaunchResult
from gpusim.io.source_line import source_text
from gpusim.model import counters as count
from gpusim.model.stall_reasons import SELECTED, STALL_NAMES

#: Column of a row -> the columns of the engine's work table that it sums.
WORK = {
    "thread_instructions": (count.THREAD_INSTRUCTIONS,),
    "sectors": (
        count.LOAD_SECTORS,
        count.STORE_SECTORS,
        count.ATOMIC_SECTORS,
        count.LOCAL_LOAD_SECTORS,
        count.LOCAL_STORE_SECTORS,
    ),
    "l1_hit_sectors": (count.LOAD_SECTOR_HITS, count.LOCAL_LOAD_SECTOR_HITS),
    "tag_wavefronts": (count.TAG_WAVEFRONTS,),
    "data_wavefronts": (count.DATA_WAVEFRONTS,),
    "bank_conflicts": (count.SHARED_CONFLICTS,),
}


@dataclass(frozen=True)
class Share:
    """What one instruction or line did. ``issues``: warp instructions; ``warp_cycles``: resident warp-cycles
    charged here (issuing included), split into ``stalls`` by reason; ``work``: columns of :data:`WORK`."""

    launch: int
    address: int | None  # byte address in the kernel's code; None for a line
    file: str
    line: int
    text: str  # SASS of an instruction, source text of a line
    issues: int
    warp_cycles: int
    stalls: dict[str, int] = field(repr=False)
    work: dict[str, int] = field(repr=False)

    @property
    def top_stall(self) -> str:
        """The reason that most of the waiting here goes to (``selected`` is not waiting), or ``-``."""
        waiting = {reason: cycles for reason, cycles in self.stalls.items() if reason != STALL_NAMES[SELECTED]}
        reason = max(waiting, key=waiting.__getitem__)
        return reason if waiting[reason] else "-"


def by_instruction(launches: Iterable[LaunchResult]) -> list[Share]:
    """A row for each instruction of each launch, in program order."""
    rows = []
    for number, launch in enumerate(launches):
        program = launch.program
        for index, instruction in enumerate(program.instructions):
            file = program.files[instruction["file"]] if 0 <= instruction["file"] < len(program.files) else ""
            rows.append(
                _share(
                    number,
                    int(instruction["address"]),
                    (file, int(instruction["line"])),
                    program.texts[index],
                    launch.stalls_by_instruction[index],
                    launch.work_by_instruction[index],
                )
            )
    return rows


def by_line(launches: Iterable[LaunchResult]) -> list[Share]:
    """A row for each source line of each launch, in order of file and line; code without a line has line 0."""
    sums: dict[tuple[int, str, int], tuple[np.ndarray, np.ndarray]] = {}
    for number, launch in enumerate(launches):
        program = launch.program
        table = program.instructions
        for file, line in sorted(set(zip(table["file"].tolist(), table["line"].tolist(), strict=True))):
            own = (table["file"] == file) & (table["line"] == line)
            name = program.files[file] if line and 0 <= file < len(program.files) else ""
            stalls, work = (t[own].sum(axis=0) for t in (launch.stalls_by_instruction, launch.work_by_instruction))
            before = sums.get((number, name, line), (0, 0))
            sums[number, name, line] = (before[0] + stalls, before[1] + work)
    return [
        _share(number, None, (file, line), source_text(file, line), stalls, work)
        for (number, file, line), (stalls, work) in sorted(sums.items(), key=lambda item: item[0])
    ]


def _share(
    launch: int, address: int | None, place: tuple[str, int], text: str, stalls: np.ndarray, work: np.ndarray
) -> Share:
    return Share(
        launch=launch,
        address=address,
        file=place[0],
        line=place[1],
        text=text,
        issues=int(stalls[SELECTED]),
        warp_cycles=int(stalls.sum()),
        stalls=dict(zip(STALL_NAMES, stalls.tolist(), strict=True)),
        work={name: int(work[list(columns)].sum()) for name, columns in WORK.items()},
    )
