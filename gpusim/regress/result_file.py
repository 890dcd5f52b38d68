"""A result of ``gpusim simulate --save`` as launches that can be compared.

Mental model: the document sums stalls and counters over its launches and keeps instructions launch by launch; so each
launch's stalls are added up from its instructions, and counters go to a launch only where there is one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpusim.regress.comparand import ComparedLaunch
from gpusim.report.saved import load_result
from gpusim.store.launch import Instruction, SimulatedLaunch

_PLACE = ("launch", "address", "file", "line", "code", "issues", "warp_cycles")
_STALL = "stall."


def read_result(path: Path) -> tuple[ComparedLaunch, ...]:
    """The launches of a result file. Raises ResultFileError as :func:`gpusim.report.saved.load_result` does."""
    document = load_result(path)
    launches = document["launches"]
    seen: dict[str, int] = {}
    by_launch: dict[int, list[dict[str, Any]]] = {}
    for row in document["by_instruction"]:
        by_launch.setdefault(row["launch"], []).append(row)
    lines: dict[int, list[dict[str, Any]]] = {}
    for row in document["by_line"]:
        lines.setdefault(row["launch"], []).append(row)
    items = []
    for index, launch in enumerate(launches):
        rows = by_launch.get(index, [])
        number = seen[launch["kernel"]] = seen.get(launch["kernel"], -1) + 1
        items.append(
            ComparedLaunch(_launch(document, launch, rows, lines.get(index, []), number, alone=len(launches) == 1))
        )
    return tuple(items)


def _launch(
    document: dict[str, Any],
    launch: dict[str, Any],
    rows: list[dict[str, Any]],
    lines: list[dict[str, Any]],
    number: int,
    *,
    alone: bool,
) -> SimulatedLaunch:
    instructions = tuple(_instruction(row) for row in rows)
    stalls: dict[str, int] = {}
    for instruction in instructions:
        for reason, cycles in instruction.stalls.items():
            stalls[reason] = stalls.get(reason, 0) + cycles
    grid, block = (tuple((*launch[name], 1, 1, 1)[:3]) for name in ("grid", "block"))
    return SimulatedLaunch(
        kernel=launch["kernel"],
        gpu=document["gpu"],
        cycles=launch["cycles"],
        clock_hz=float(document["clock_hz"]),
        launch=number,
        function=launch["kernel"],
        grid=grid,
        block=block,
        registers_per_thread=launch["registers_per_thread"],
        shared_bytes=launch["shared_bytes"],
        stalls=stalls,
        counters={name: float(value) for name, value in document["counters"].items()} if alone else {},
        instructions=instructions,
        source=tuple((row["file"], row["line"], row["code"]) for row in lines if row["code"]),
    )


def _instruction(row: dict[str, Any]) -> Instruction:
    counts = {name: value for name, value in row.items() if type(value) is int and value and name not in _PLACE}
    stalls = {name.removeprefix(_STALL): value for name, value in counts.items() if name.startswith(_STALL)}
    work = {name: value for name, value in counts.items() if not name.startswith(_STALL)}
    return Instruction(row["address"], row["file"], row["line"], row["code"], stalls, work)
