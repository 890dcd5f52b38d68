"""What must hold of an energy whatever its figures are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.energy.figures import KINDS, EnergyFigures, evidence_of, figures_for, figures_of
from gpusim.energy.operator import energy_of
from gpusim.energy.power import PowerLimit
from gpusim.errors import SpecError
from gpusim.gpus.load import load_gpu
from gpusim.tile.projection import Projection

OPERATOR = Projection(
    "a product", "h100", 1e-3, 9e-4, 1.1e-3, True, "", "tensor cores", "bf16", flops=2e11, vector_flops=1e9, dram_bytes=3e8,
    l2_bytes=2e9, link_bytes=1e7,
)  # fmt: skip
EVENTS = ("flops", "vector_flops", "dram_bytes", "link_bytes")


@pytest.mark.parametrize("event", EVENTS)
def test_more_events_take_more_joules(event: str) -> None:
    spec = load_gpu("h100")
    more = replace(OPERATOR, **{event: 1.5 * getattr(OPERATOR, event)})
    assert energy_of(spec, more).joules > energy_of(spec, OPERATOR).joules


@given(
    seconds=st.floats(1e-6, 1.0), flops=st.floats(0, 1e15), dram_bytes=st.floats(0, 1e12), watts=st.floats(300, 2000)
)
def test_units_add_up_within_the_limit(seconds: float, flops: float, dram_bytes: float, watts: float) -> None:
    one = replace(OPERATOR, seconds=seconds, flops=flops, dram_bytes=dram_bytes)
    found = energy_of(load_gpu("h100"), one, limit_watts=watts)
    assert sum(joules for _, joules in found.by_unit) == pytest.approx(found.joules)
    assert found.average_watts == pytest.approx(found.joules / seconds)
    assert found.average_watts <= watts * (1 + 1e-9)
    assert (found.clock_share < 1) == (found.average_watts >= watts * (1 - 1e-9))
    assert found.low_joules < found.joules < found.high_joules


def test_a_warmer_die_leaks_more_and_twice_as_much_after_its_doubling() -> None:
    spec, figures = load_gpu("h100"), figures_of("hopper")
    cold, warm = (
        dict(energy_of(spec, OPERATOR, celsius=celsius).by_unit)["leakage"]
        for celsius in (40.0, 40.0 + figures.leakage_doubling_kelvin)
    )
    assert warm == pytest.approx(2 * cold)


@given(low=st.floats(150, 1000), more=st.floats(1, 500), joules=st.floats(1e-6, 10), seconds=st.floats(1e-6, 1e-2))
def test_a_lower_limit_takes_no_less_time(low: float, more: float, joules: float, seconds: float) -> None:
    slow, fast = (PowerLimit(watts, 120.0, 2.5, 2e-4).slowed_seconds(seconds, joules) for watts in (low, low + more))
    assert slow >= fast >= seconds


def test_figures_say_what_they_are() -> None:
    own, others = evidence_of("hopper"), evidence_of("volta")
    assert set(own) == set(EnergyFigures.__dataclass_fields__) == set(others)
    assert {kind for _, kind, _ in own.values()} <= set(KINDS)
    assert {kind for _, kind, _ in others.values()} == {"guess"}


def test_boards_of_another_process_have_its_energy_and_the_rest_of_their_generation() -> None:
    own, others = figures_for(load_gpu("a40")), figures_for(load_gpu("a100_80gb"))
    assert own.tensor_flop_pj("bf16") > others.tensor_flop_pj("bf16")
    assert own.dram_byte_pj == others.dram_byte_pj and own.fma_flop_pj == others.fma_flop_pj


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"limit_watts": 50.0}, "50 W is not above the 120 W"),
        ({"celsius": 400.0}, "not between -50 and 150"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        energy_of(load_gpu("h100"), OPERATOR, **change)


def test_an_unknown_operand_or_generation_is_refused() -> None:
    spec = load_gpu("h100")
    with pytest.raises(SpecError, match="products of 'posit8'"):
        energy_of(spec, replace(OPERATOR, dtype="posit8"))
    with pytest.raises(SpecError, match="generation 'rubin'"):
        energy_of(replace(spec, generation="rubin"), OPERATOR)
