"""Where the cycles of an alert went: regress's attribution between the two stored launches of its most-moved series.

Mental model: nothing is simulated again; what the store has kept of both launches (stall reasons by instruction and
line, counters, the GPU's figures) is laid side by side, as ``gpusim regress`` does with two runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from gpusim.regress.attribution import IN_FLIGHT
from gpusim.regress.comparand import Comparand, ComparedLaunch
from gpusim.regress.explain import with_steps
from gpusim.regress.judge import judge
from gpusim.regress.outcome import Outcome
from gpusim.regress.records import document
from gpusim.regress.thresholds import Thresholds
from gpusim.regress.units import with_units
from gpusim.store.launch import SimulatedLaunch
from gpusim.store.run import read_gpu, read_launch
from gpusim.store.schema import gpus, launches
from gpusim.store.store import Store

#: Of each list of terms so many are kept with the alert; the launches have the rest.
MOST_TERMS = 20
_LISTS = ("by_stall", "by_line", "by_instruction", "gpu_figures", "by_unit", "counters")
EXECUTED = "smsp__inst_executed.sum"


@dataclass(frozen=True)
class Place:
    """``share`` of a difference, from 0 to 1, that a stall reason has at a source line; ``code``: its text as the
    launches kept it."""

    file: str
    line: int
    share: float
    code: str = ""


def compare_launches(store: Store, before_id: int, after_id: int) -> Outcome | None:
    """What changed between two stored launches; None where one is not there any more."""
    with store.reading() as connection:
        if connection is None:
            return None
        query = select(launches).where(launches.c.id.in_([before_id, after_id]))
        rows = {row["id"]: row for row in connection.execute(query).mappings()}
        if set(rows) != {before_id, after_id}:
            return None
        hashes = {row["gpu_hash"] for row in rows.values()}
        machines = connection.execute(select(gpus).where(gpus.c.hash.in_(hashes))).mappings()
        figures = {row["hash"]: read_gpu(row) for row in machines}
    old, new = (
        ComparedLaunch(record, figures=figures.get(record.gpu_hash, {}))
        for record in (read_launch(rows[number]) for number in (before_id, after_id))
    )
    (outcome,) = judge(Comparand("before", (old,)), Comparand("after", (new,)), Thresholds(percent=0.0))
    return with_units(with_steps(outcome))


def attribution_record(outcome: Outcome) -> dict[str, Any]:
    """``outcome`` as an alert keeps it: as :func:`gpusim.regress.records.document` has it, its lists shortened, and the
    machine code's size."""
    (record,) = document([outcome])
    for name in _LISTS:
        record[name] = record[name][:MOST_TERMS]
    old, new = launches_of(outcome)
    record["code"] = {
        "instructions": [len(old.instructions), len(new.instructions)],
        "executed": [old.counters.get(EXECUTED), new.counters.get(EXECUTED)],
        "registers": [old.registers_per_thread, new.registers_per_thread],
        "shared_bytes": [old.shared_bytes, new.shared_bytes],
        "changed": len(outcome.attribution.changed) if outcome.attribution else 0,
    }
    return record


def launches_of(outcome: Outcome) -> tuple[SimulatedLaunch, SimulatedLaunch]:
    """Both launches of an outcome that has two."""
    assert outcome.items is not None
    return outcome.items[0].record, outcome.items[1].record


def leading_place(outcome: Outcome, stall: str) -> Place | None:
    """The source line at which most of what a stall reason added (or saved) stands; None where no line is known."""
    old, new = launches_of(outcome)
    difference = new.cycles - old.cycles
    if outcome.attribution is None or stall == IN_FLIGHT or not (difference and old.warp_cycles and new.warp_cycles):
        return None
    cost = (old.cycles / old.warp_cycles + new.cycles / new.warp_cycles) / 2
    cycles: dict[tuple[str, int], float] = {}
    for term in outcome.attribution.instructions:
        instruction = term.pair.head or term.pair.base
        if instruction is not None and instruction.line:
            place = instruction.file, instruction.line
            cycles[place] = cycles.get(place, 0.0) + cost * term.pair.stalls.get(stall, 0)
    sign = 1 if difference > 0 else -1
    best = max(cycles, key=lambda place: sign * cycles[place], default=None)
    if best is None or sign * cycles[best] <= 0:
        return None
    return Place(*best, cycles[best] / difference, new.source_line(*best) or old.source_line(*best))
