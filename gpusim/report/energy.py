"""Energy of simulated launches: what each counted event takes, and the GPU's power over time.

Mental model: every warp instruction costs its issue, every lane that is on its registers and its arithmetic, every
product its operations, every byte its way out of shared memory, L1, L2 or DRAM; what the GPU takes at rest and for busy
SMs runs for the launch's whole time. Operands are taken to be random. No exact launch was compared with a measured
power, and most of these figures are guesses (:func:`gpusim.energy.figures.evidence_of`).
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from gpusim.energy.bands import EnergyBand
from gpusim.energy.figures import EnergyFigures, figures_for, knows_energy
from gpusim.energy.operator import Energy, energy_within
from gpusim.energy.shared_clock import Work
from gpusim.engine.result import LaunchResult, Result
from gpusim.engine.samples import COLUMNS
from gpusim.gpus.spec import GpuSpec
from gpusim.isa.table import opcode_of_text
from gpusim.model import counters as count
from gpusim.model.stall_reasons import SELECTED, STALL_NAMES
from gpusim.trace.record import PipeClass

_BAND = EnergyBand(2.0, False, "not validated: no measured power of an exact launch; a factor of two is a guess")
_SECTOR_BYTES, _MOST_BYTES_A_CYCLE = 32, 128
#: Operands of products by the opcode's text, the first that matches; half precision where none does.
_TENSOR = (
    ("fp64", re.compile(r"\bDMMA")),
    ("tf32", re.compile(r"TF32")),
    ("int8", re.compile(r"\bU?T?C?I[HG]?MMA|IGMMA|IMMA")),
    ("fp4", re.compile(r"\bOMMA|UTCOMMA|E2M1")),
    ("fp8", re.compile(r"\bQ(G)?MMA|UTCQMMA|E4M3|E5M2")),
)
_ARITHMETIC = {"FP32": "lane_fp32_pj", "FP64": "lane_fp64_pj", "FP16": "lane_fp16_pj"}


def launch_energy(launch: LaunchResult, spec: GpuSpec, limit_watts: float | None = None) -> Energy:
    """Energy of one launch within its simulated time at the described clock; ``limit_watts``: another than the board's.
    Raises SpecError for a generation of which no energy is known."""
    figures = figures_for(spec)
    seconds = float(launch.cycles / spec.clock_hz)
    dynamic = tuple((unit, joules) for unit, joules in _dynamic(launch, figures, spec, seconds).items())
    return energy_within(spec, seconds, dynamic, lambda _: _BAND, limit_watts)


def launch_work(launch: LaunchResult, spec: GpuSpec, seconds: float | None = None) -> Work:
    """A simulated launch as a part of launches that share a clock. ``spec``: with the described clock, at whose voltage
    its events are counted. ``seconds``: what it takes at any clock, as simulated at one; if None, its cycles at
    whichever."""
    units = _dynamic(launch, figures_for(spec), spec, 0.0)
    own = float(launch.cycles / spec.clock_hz)
    clocked = sum(units.values()) - units["DRAM"]
    return Work((lambda share: own / share) if seconds is None else (lambda _: seconds), clocked, units["DRAM"])


def _dynamic(launch: LaunchResult, figures: EnergyFigures, spec: GpuSpec, seconds: float) -> dict[str, float]:
    """Joules by unit at the described clock."""
    code, counted = launch.program.instructions, launch.counters
    lanes = launch.work_by_instruction[:, count.THREAD_INSTRUCTIONS].astype(np.float64)
    issues = launch.stalls_by_instruction[:, SELECTED].astype(np.float64)
    macs = issues * code["matrix_macs"]
    tensor = arithmetic = 0.0
    for index, text in enumerate(launch.program.texts):
        if not issues[index]:
            continue
        opcode, _ = opcode_of_text(text)
        flops = opcode.flops if opcode is not None else None
        kind = flops.kind if flops is not None and flops.each else ""
        if macs[index]:
            tensor += 2.0 * macs[index] * figures.tensor_flop_pj(tensor_operands(text))
        elif kind in _ARITHMETIC:
            arithmetic += lanes[index] * getattr(figures, _ARITHMETIC[kind])
        elif code["pipe"][index] == PipeClass.MUFU:
            arithmetic += lanes[index] * figures.lane_special_pj
        else:
            arithmetic += lanes[index] * figures.lane_integer_pj
    sectors = sum(counted[f"lts__t_sectors_op_{kind}.sum"] for kind in ("read", "write", "atom", "red"))
    shared = counted["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"]
    data_bytes = min(_MOST_BYTES_A_CYCLE, spec.l1.return_bytes_per_cycle)  # of a cycle in the data stage
    picojoules = {
        "issue": figures.issue_pj * float(issues.sum()),
        "registers": figures.lane_register_pj * float(lanes.sum()),
        "tensor cores": tensor,
        "other arithmetic": arithmetic,
        "shared memory": figures.shared_byte_pj * data_bytes * shared,
        "L1": figures.l1_byte_pj * data_bytes * max(0.0, counted["l1tex__data_pipe_lsu_wavefronts.sum"] - shared),
        "L2": figures.l2_byte_pj * _SECTOR_BYTES * sectors,
        "DRAM": figures.dram_byte_pj * (counted["dram__bytes_read.sum"] + counted["dram__bytes_write.sum"]),
    }
    return {"busy SMs": figures.busy_watts * seconds} | {unit: 1e-12 * float(each) for unit, each in picojoules.items()}


def tensor_operands(text: str) -> str:
    """What a product of that instruction multiplies, as :meth:`gpusim.energy.figures.EnergyFigures.tensor_flop_pj`
    names it."""
    return next((name for name, pattern in _TENSOR if pattern.search(text)), "bf16")


def power_over_time(launch: LaunchResult, spec: GpuSpec) -> dict[str, np.ndarray]:
    """``cycle`` (start of each stretch between samples) and ``watts`` of a launch that was simulated with samples:
    bytes of L2 and DRAM as they moved, all else of the SMs by the instructions that were issued. No limit is
    applied."""
    assert launch.samples is not None
    figures = figures_for(spec)
    units = _dynamic(launch, figures, spec, launch.cycles / spec.clock_hz)
    by_issue = sum(joules for unit, joules in units.items() if unit not in ("busy SMs", "L2", "DRAM"))
    table = np.concatenate(
        [np.zeros((1, len(COLUMNS))), launch.samples.astype(np.float64)]
    )  # nothing had happened at the start
    steps = np.diff(table, axis=0)
    keep = steps[:, 0] > 0
    steps, starts = steps[keep], table[:-1, 0][keep]
    column = {name: steps[:, at] for at, name in enumerate(COLUMNS)}
    issued = column[f"stall.{STALL_NAMES[SELECTED]}"]
    bytes_joules = 1e-12 * figures.dram_byte_pj * (column["dram_read_bytes"] + column["dram_write_bytes"])
    bytes_joules += 1e-12 * figures.l2_byte_pj * _SECTOR_BYTES * column["l2_sectors"]
    moving = bytes_joules + by_issue * issued / max(1.0, float(issued.sum()))
    static_watts = figures.constant_watts + figures.leakage_watts + figures.busy_watts
    return {"cycle": starts, "watts": static_watts + moving / (column["cycle"] / spec.clock_hz)}


def energy_document(result: Result) -> dict[str, Any]:
    """A run's energy for JSON: joules, mean watts, joules by unit, and how sure that is; empty where the generation's
    energy is not known."""
    if not knows_energy(result.spec):
        return {}
    found = [launch_energy(launch, result.spec) for launch in result.launches]
    joules = sum(each.joules for each in found)
    by_unit: dict[str, float] = {}
    for each in found:
        for unit, part in each.by_unit:
            by_unit[unit] = by_unit.get(unit, 0.0) + part
    return {
        "energy_joules": joules,
        "energy_joules_low": sum(each.low_joules for each in found),
        "energy_joules_high": sum(each.high_joules for each in found),
        "average_watts": joules / sum(each.seconds for each in found),
        "clock_share": min(each.clock_share for each in found),
        "by_unit_joules": by_unit,
        "validated": all(each.validated for each in found),
        "reason": found[0].reason,
    }


def energy_records(result: Result) -> list[dict[str, Any]]:
    """Joules and share by unit, for the eye; none where the generation's energy is not known."""
    known = energy_document(result)
    if not known:
        return []
    return [
        {"takes_energy": unit, "joules": part, "percent": 100.0 * part / known["energy_joules"]}
        for unit, part in sorted(known["by_unit_joules"].items(), key=lambda item: -item[1])
        if part
    ]
