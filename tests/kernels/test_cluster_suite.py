"""Kernels of the suite for clusters and later asynchronous units: NumPy's result on every architecture they are for,
and the same each time."""

from __future__ import annotations

from pathlib import Path

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
    # Blocks that end inside a tile, that have one tile's end and another's begin, and tiles of one, two and three
    # blocks.
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


@pytest.mark.by_day(5)
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


CUDA_CPP = Path(__file__).parents[2] / "kernels" / "cuda_cpp"


def findings(name: str, left_out: str = "", shape: dict | None = None, folder: Path = CUDA_CPP) -> set[str]:
    """What the checks find in a kernel's small shape; ``left_out`` of its source, which is then compiled in
    ``folder``."""
    entry = find_kernel(name)
    (launch,) = entry.make(**entry.small | (shape or {})).launches
    source = Path(launch.kernel.__cuda_cpp__()["source"]).read_text()
    kernel = launch.kernel
    if left_out:
        assert left_out in source
        for header in CUDA_CPP.glob("*.cuh"):
            (folder / header.name).write_text(header.read_text())
        (folder / "broken.cu").write_text(source.replace(left_out, ""))
        kernel = gpusim.cuda_cpp(folder / "broken.cu", launch.kernel.entry)
    trace = gpusim.capture(
        kernel, launch.grid, launch.block, launch.args, gpu=gpus_of(name)[0], shared_bytes=launch.shared_bytes,
        check=["memory", "race", "sync", "async"],
    )  # fmt: skip
    return {each.what for each in trace.findings}


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_the_checks_find_nothing(name: str) -> None:
    assert findings(name) == set()


#: (entry, its shape, what is left out of its source, what is found then).
BROKEN = [
    (
        "cpp_tma_stencil", {}, "mbarrier_wait(full + 8 * stage, turn / STAGES & 1);",
        "Shared memory read before the bulk load into it is complete",
    ),
    ("cpp_tma_stencil", {}, "fence_async();", "Missing fence between proxies"),
    (
        "cpp_cluster_reduce", {"how": "pull"}, "if (HOW == PULL) cluster_barrier();  // shared memory stays until it has been read",
        "Block ends while another of its cluster may still access its shared memory",
    ),
    (
        "cpp_tcgen05_gemm", {}, "mbarrier_wait(taken + done % 2 * 8, done / 2 + 1 & 1);",
        "Tensor core overwrites tensor memory that a warp may still read",
    ),
    (
        "cpp_paged_decode", {"splits": 1}, "if constexpr (SPLITS > 1) cluster_barrier(); else __syncthreads();",
        "Read-write hazard on __shared__ memory",
    ),
]  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "shape", "left_out", "what"), BROKEN)
def test_what_is_left_out_is_found(name: str, shape: dict, left_out: str, what: str, tmp_path: Path) -> None:
    assert what in findings(name, left_out, shape, tmp_path)


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
