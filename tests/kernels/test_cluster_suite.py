"""Kernels of the suite for clusters and later asynchronous units: NumPy's result on every architecture they are for, and the same each time."""

from __future__ import annotations

import pytest

import gpusim
from gpusim.cases.run_case import run_case
from gpusim.cases.suite import find_kernel
from gpusim.gpus.load import load_gpu

pytestmark = pytest.mark.usefixtures("without_source_lines")

HOPPER, BLACKWELL = "h200", "b200"
BOTH = (HOPPER, BLACKWELL)
#: Entries for the units of one architecture.
ALONE = {
    "cpp_stream_k_gemm": HOPPER,
    "cpp_grouped_gemm": HOPPER,
    "cpp_tcgen05_gemm": BLACKWELL,
    "cpp_nvf4_gemm": BLACKWELL,
}

#: (entry, what is not its small shape, GPUs of an ordinary day): others run at night.
SHAPES = [
    ("cpp_cluster_reduce", {"how": "push"}, (HOPPER,)),
    ("cpp_cluster_reduce", {"how": "pull", "columns": 77, "cluster": 8}, (BLACKWELL,)),
    ("cpp_cluster_reduce", {"cluster": 1, "rows": 1}, ()),
    ("cpp_cluster_histogram", {}, (BLACKWELL,)),
    ("cpp_cluster_histogram", {"cluster": 8, "bins": 8, "n": 999}, ()),
    # Tiles that reach over every edge, and a buffer that is used again.
    ("cpp_tma_stencil", {}, (HOPPER,)),
    ("cpp_tma_stencil", {"rows": 7, "columns": 4, "stages": 1}, (BLACKWELL,)),
    ("cpp_tma_stencil", {"rows": 40, "columns": 300, "tile_x": 128, "tile_y": 16, "blocks": 1}, ()),
    ("cpp_paged_decode", {}, (BLACKWELL,)),
    ("cpp_paged_decode", {"splits": 4, "context": 20, "depth": 128}, ()),  # blocks that have no page
    ("cpp_paged_decode", {"splits": 1, "group": 4, "page": 64, "kv_heads": 2}, ()),
    # Blocks that end inside a tile, that have one tile's end and another's begin, and tiles of one, two and three blocks.
    ("cpp_stream_k_gemm", {}, (HOPPER,)),
    ("cpp_stream_k_gemm", {"blocks": 12, "columns": 192, "m": 256}, ()),
    ("cpp_stream_k_gemm", {"blocks": 1}, ()),
    # Groups that end inside a tile, and blocks that come to one after another.
    ("cpp_grouped_gemm", {}, (HOPPER,)),
    ("cpp_grouped_gemm", {"groups": 5, "rows": 4}, ()),  # a group without rows
    ("cpp_grouped_gemm", {"groups": 2, "rows": 400, "columns": 128, "stages": 3, "blocks": 1}, ()),
    # Three tiles for two places in tensor memory, three steps for two buffers.
    ("cpp_tcgen05_gemm", {}, (BLACKWELL,)),
    ("cpp_tcgen05_gemm", {"pair": 0, "columns": 128, "n": 128}, ()),
    ("cpp_tcgen05_gemm", {"columns": 256, "n": 256, "m": 512, "blocks": 4}, ()),
    ("cpp_nvf4_gemm", {}, (BLACKWELL,)),
    ("cpp_nvf4_gemm", {"m": 256, "n": 128, "stages": 4, "blocks": 2}, ()),
]


def gpus_of(name: str) -> tuple[str, ...]:
    return (ALONE[name],) if name in ALONE else BOTH


def points():
    for name, shape, everyday in SHAPES:
        for gpu in gpus_of(name):
            marks = () if gpu in everyday else (pytest.mark.nightly,)
            yield pytest.param(name, shape, gpu, marks=marks)


@pytest.mark.parametrize(("name", "shape", "gpu"), points())
def test_a_kernel_equals_numpy_and_is_simulated(name: str, shape: dict, gpu: str) -> None:
    ran = run_case(name, find_kernel(name).small | shape, load_gpu(gpu))
    assert ran.checked
    assert all(gpusim.simulate(each.trace, gpu).cycles > 0 for each in ran.launches)


NAMES = sorted({name for name, _, _ in SHAPES})


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_declares_its_shape_and_its_check_can_fail(name: str) -> None:
    entry = find_kernel(name)
    assert entry.name == name and entry.purpose and set(entry.axes) == set(entry.default) == set(entry.small)
    case = entry.make(**entry.small)
    assert case.work
    with pytest.raises(AssertionError):
        case.check()


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_takes_the_same_cycles_each_time(name: str) -> None:
    entry = find_kernel(name)
    gpu = load_gpu(gpus_of(name)[0])
    first, second = (
        [gpusim.simulate(each.trace, gpu).cycles for each in run_case(name, entry.small, gpu).launches]
        for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize(
    ("name", "wrong", "told"),
    [
        ("cpp_cluster_reduce", {"how": "tell"}, "how must be one of pull, push"),
        ("cpp_cluster_histogram", {"bins": 1 << 20}, "shared memory"),
        ("cpp_tma_stencil", {"columns": 33}, "columns must be a positive multiple of 4"),
        ("cpp_tcgen05_gemm", {"blocks": 3}, "blocks must be a positive multiple of 2"),
        ("cpp_stream_k_gemm", {"columns": 256, "n": 256, "stages": 8}, "shared memory"),
        ("cpp_paged_decode", {"page": 128, "depth": 128, "stages": 4}, "shared memory"),
    ],
)
def test_a_shape_that_makes_no_sense_is_refused(name: str, wrong: dict, told: str) -> None:
    entry = find_kernel(name)
    with pytest.raises(ValueError, match=told):
        entry.make(**entry.small | wrong)
