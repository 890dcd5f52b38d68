"""Is a launch of the suite predicted as it was measured: what its loop takes, and what two depths say of a third?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hand_traces import Asm, build, small_gpu
from validation.suite_launch import extrapolated, work_around

from gpusim.energy.shared_clock import mean_watts, shared_clock
from gpusim.engine.gpu import simulate
from gpusim.gpus.load import load_gpu
from gpusim.trace.record import PipeClass
from workloads.external.families import scaled_products
from workloads.external.fp8_loop import Elementwise, Product, operators_around

H800 = load_gpu("h800")


def test_cycles_and_counts_go_on_along_the_line_through_two_depths() -> None:
    long = simulate(build(Asm().op(PipeClass.FMA, 4).exit()), small_gpu())
    launch = long.launches[0]
    counters = {name: value / 2 for name, value in launch.counters.items()}
    shorter = replace(
        launch, cycles=launch.cycles - 100, counters=counters, work_by_instruction=launch.work_by_instruction // 2
    )
    found = extrapolated(replace(long, cycles=shorter.cycles, launches=(shorter,)), long, 2.0)
    assert found.cycles == found.launches[0].cycles == launch.cycles + 200
    assert all(found.counters[name] == 2 * value for name, value in launch.counters.items())
    further = launch.work_by_instruction + 2 * (launch.work_by_instruction - shorter.work_by_instruction)
    assert (found.launches[0].work_by_instruction == further).all()
    assert extrapolated(long, long, 7.0).cycles == long.cycles


def test_the_loop_of_a_product_goes_over_both_operands_as_its_program_does() -> None:
    m, n, k = 128, 256, 1024
    around = operators_around(m, n, k)
    assert around.count(Product(m, n, k)) == 1
    passes = [each for each in around if isinstance(each, Elementwise)]
    # Drawn in two bytes; a cast reads 2 + 2 + 4 + 2 + 4 bytes and writes 2 + 4 + 4 + 1; B is copied before, as it is a whole number of blocks not behind.
    assert sum(each.read_bytes for each in passes) == 14 * m * k + (2 + 14) * n * k
    assert sum(each.written_bytes for each in passes) == (2 + 11) * m * k + (2 + 4 + 11) * n * k
    ragged = operators_around(m, n - 8, k)
    assert len(ragged) == len(around) + 1 and ragged[-1] == Elementwise((n - 8) * k, (n - 8) * k)


def test_a_loops_kernels_of_little_power_leave_its_products_the_clock() -> None:
    around = work_around(H800, operators_around(4096, 4096, 7168))
    product, *_ = work_around(H800, [Product(4096, 4096, 7168)])
    assert mean_watts(H800, [product]) > 700.0 > mean_watts(H800, around)
    assert shared_clock(H800, [product]).share < 1.0 == shared_clock(H800, around).share


@pytest.mark.parametrize(("m", "n", "k", "steps"), [("64", "2112", "7168", 56), ("4096", "7168", "16384", 14 * 128)])
def test_the_busiest_sm_has_so_many_steps(m: str, n: str, k: str, steps: int) -> None:
    launch = scaled_products({"m": m, "n": n, "k": k})
    assert launch.steps_per_sm(H800.sm_count) == steps and launch.depth == int(k)
