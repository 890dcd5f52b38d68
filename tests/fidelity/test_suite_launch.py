"""Is a launch of the suite predicted as it was measured: what does the program around it launch, and what does that
take?"""

from __future__ import annotations

from validation.suite_launch import work_around

from gpusim.energy.shared_clock import mean_watts, shared_clock
from gpusim.gpus.load import load_gpu
from workloads.external.fp8_loop import Elementwise, Product, operators_around

H800 = load_gpu("h800")


def test_the_loop_of_a_product_goes_over_both_operands_as_its_program_does() -> None:
    m, n, k = 128, 256, 1024
    around = operators_around(m, n, k)
    assert around.count(Product(m, n, k)) == 1
    passes = [each for each in around if isinstance(each, Elementwise)]
    # Drawn in two bytes; a cast reads 2 + 2 + 4 + 2 + 4 bytes and writes 2 + 4 + 4 + 1; B is copied before, as it is a
    # whole number of blocks not behind.
    assert sum(each.read_bytes for each in passes) == 14 * m * k + (2 + 14) * n * k
    assert sum(each.written_bytes for each in passes) == (2 + 11) * m * k + (2 + 4 + 11) * n * k
    ragged = operators_around(m, n - 8, k)
    assert len(ragged) == len(around) + 1 and ragged[-1] == Elementwise((n - 8) * k, (n - 8) * k)


def test_a_loops_kernels_of_little_power_leave_its_products_the_clock() -> None:
    around = work_around(H800, operators_around(4096, 4096, 7168))
    product, *_ = work_around(H800, [Product(4096, 4096, 7168)])
    assert mean_watts(H800, [product]) > 700.0 > mean_watts(H800, around)
    assert shared_clock(H800, [product]).share < 1.0 == shared_clock(H800, around).share
