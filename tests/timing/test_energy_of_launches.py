"""The energy of exact launches: what the counters say they did, and the power over their time."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpusim.engine.gpu import simulate
from gpusim.engine.result import Result
from gpusim.gpus.load import load_gpu
from gpusim.report.energy import energy_document, launch_energy, power_over_time, tensor_operands
from gpusim.trace.record import Trace

RECORDED = Path(__file__).parents[2] / "traces" / "recorded"


@pytest.fixture(scope="module")
def saxpy() -> Result:
    return simulate([Trace.load(RECORDED / "saxpy-h200.trace")], load_gpu("h200"), samples=True)


def test_units_of_a_launch_add_up_and_bytes_cost_what_they_cost(saxpy: Result) -> None:
    launch = saxpy.launches[0]
    found = launch_energy(launch, saxpy.spec)
    assert sum(joules for _, joules in found.by_unit) == pytest.approx(found.joules)
    assert dict(found.by_unit)["DRAM"] > 0
    more = replace(
        launch, counters=launch.counters | {"dram__bytes_read.sum": launch.counters["dram__bytes_read.sum"] + 10**9}
    )
    assert launch_energy(more, saxpy.spec, limit_watts=math.inf).joules == pytest.approx(found.joules + 0.038, rel=1e-6)


def test_power_over_time_holds_the_energy(saxpy: Result) -> None:
    launch = saxpy.launches[0]
    power = power_over_time(launch, saxpy.spec)
    ends = np.append(power["cycle"][1:], launch.samples[-1, 0])
    joules = float((power["watts"] * (ends - power["cycle"])).sum()) / saxpy.spec.clock_hz
    assert joules == pytest.approx(launch_energy(launch, saxpy.spec).joules, rel=1e-6)


def test_the_document_says_that_nothing_was_validated(saxpy: Result) -> None:
    document = energy_document(saxpy)
    assert document["average_watts"] > 100 and not document["validated"] and "guess" in document["reason"]
    assert energy_document(replace(saxpy, spec=replace(saxpy.spec, generation="rubin"))) == {}


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("HMMA.16816.F32.BF16 R4, R8, R12, R4", "bf16"),
        ("HMMA.1688.F32.TF32 R4, R8, R12, R4", "tf32"),
        ("HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", "bf16"),
        ("QGMMA.64x128x32.F32.E4M3.E4M3 R24, gdesc[UR4], R24", "fp8"),
        ("IMMA.16832.S8.S8 R4, R8, R12, R4", "int8"),
        ("DMMA.884 R4, R8, R12, R4", "fp64"),
        ("UTCOMMA.4X gdesc[UR4], gdesc[UR6], tmem[UR8]", "fp4"),
        ("UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8]", "bf16"),
    ],
)
def test_products_are_told_by_their_operands(text: str, operands: str) -> None:
    assert tensor_operands(text) == operands
