"""Every Triton kernel of the suite, compiled by Triton and captured with no GPU, leaves NumPy's result in its
arrays."""

from __future__ import annotations

from typing import Any

import pytest

from gpusim.capturing import capture
from gpusim.cases.names import kernel_names
from gpusim.cases.suite import find_kernel
from gpusim.launch.memory import DeviceMemory
from gpusim.sanitizer.checks import CHECKS

pytest.importorskip("triton", reason="Triton is not installed: pip install 'gpusim[triton]'")
NAMES = [name for name in kernel_names() if name.startswith("triton_")]
#: A second shape each: sizes that are no multiple of a tile or block, other branches of the kernel.
ODD_SHAPES: dict[str, dict[str, Any]] = {
    "triton_softmax": {"rows": 1, "columns": 33, "warps": 8},
    "triton_layernorm": {"rows": 1, "columns": 1, "warps": 1},
    "triton_layernorm_backward": {"rows": 3, "columns": 33, "programs": 1},
    "triton_rmsnorm": {"rows": 2, "columns": 1025, "warps": 4},
    "triton_cross_entropy": {"rows": 1, "vocabulary": 77, "block": 32},
    "triton_argmax": {"rows": 2, "columns": 1, "warps": 1},
    "triton_add": {"n": 1, "block": 1024},
    "triton_swiglu": {"n": 257, "warps": 1},
    "triton_rotary": {"tokens": 1, "head_dim": 10},
    "triton_dropout": {"n": 33, "probability": 0.0},
    "triton_embedding": {"tokens": 1, "columns": 1100},
    "triton_transpose": {"rows": 1, "columns": 33, "tile": 16},
    "triton_reduce_sum": {"n": 1, "steps": 1},
    "triton_cumsum": {"rows": 1, "columns": 1, "block": 32},
    "triton_recurrence": {"steps": 1, "channels": 3, "tile": 4},
    "triton_sort": {"rows": 1, "columns": 128, "warps": 4},
    "triton_topk": {"rows": 1, "columns": 64, "k": 16},
    "triton_histogram": {"n": 1, "bins": 64},
    "triton_matmul": {"m": 1, "n": 65, "k": 20},
    "triton_matmul_split_k": {"m": 3, "n": 33, "k": 65, "splits": 5},
    "triton_matmul_persistent": {"m": 33, "n": 9, "k": 70, "programs": 5},
    "triton_grouped_matmul": {"problems": 3, "rows": 5, "programs": 1},
    "triton_matmul_int8": {"m": 1, "n": 33, "k": 32, "tile": 64},
    "triton_matmul_int4": {"m": 17, "n": 9, "k": 128, "group": 128},
    "triton_moe_matmul": {"tokens": 3, "experts": 9, "k": 33},
    "triton_conv2d": {"size": 5, "channels": 17, "filters": 33, "side": 1},
    "triton_attention": {"heads": 2, "tokens": 33, "causal": False},
    "triton_attention_backward": {"heads": 2, "tokens": 33, "head_dim": 32},
    "triton_paged_decode": {"sequences": 1, "context": 1, "heads": 3},
}
FURTHER = ("sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


def run(name: str, shape: dict[str, Any], gpu: str) -> list[Any]:
    """Capture all launches of the case on one device memory, and check it; the traces."""
    case = find_kernel(name).make(**shape)
    memory = DeviceMemory()
    traces = [
        capture(launch.kernel, launch.grid, launch.block, launch.args, gpu=gpu, memory=memory)
        for launch in case.launches
    ]
    case.check()
    return traces


@pytest.mark.by_day(15)
@pytest.mark.parametrize("name", NAMES)
def test_small_shape_equals_numpy(name: str) -> None:
    case = find_kernel(name).make(**find_kernel(name).small)
    with pytest.raises(AssertionError):
        case.check()  # nothing has run yet
    traces = run(name, find_kernel(name).small, "sm_80")
    assert 0 < sum(trace.warp_instructions for trace in traces) < 50_000


@pytest.mark.parametrize("name", NAMES)
def test_entries_describe_all_their_axes(name: str) -> None:
    entry = find_kernel(name)
    assert entry.name == name and entry.purpose
    assert set(entry.axes) == set(entry.default) == set(entry.small)
    assert entry.make(**entry.small).work and any(launch.timed for launch in entry.make(**entry.small).launches)
    first, second = (entry.make(**entry.small, seed=3).launches[0].args for _ in range(2))
    assert repr(first) == repr(second)


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_odd_shape_equals_numpy(name: str) -> None:
    run(name, find_kernel(name).small | ODD_SHAPES[name], "sm_80")


@pytest.mark.nightly
@pytest.mark.parametrize("gpu", FURTHER)
@pytest.mark.parametrize("name", NAMES)
def test_every_architecture_equals_numpy(name: str, gpu: str) -> None:
    run(name, find_kernel(name).small, gpu)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("triton_softmax", {"rows": 0}),
        ("triton_rotary", {"head_dim": 7}),
        ("triton_dropout", {"probability": 1.0}),
        ("triton_sort", {"columns": 96}),
        ("triton_topk", {"k": 3}),
        ("triton_histogram", {"bins": 33}),
        ("triton_matmul_int4", {"group": 24}),
        ("triton_conv2d", {"side": 40}),
        ("triton_attention", {"head_dim": 24}),
    ],
)
def test_a_shape_that_makes_no_sense_is_refused(name: str, wrong: dict[str, Any]) -> None:
    entry = find_kernel(name)
    with pytest.raises(ValueError):
        entry.make(**(entry.small | wrong))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "triton_histogram" else pytest.mark.nightly) for name in NAMES]
)
def test_no_check_finds_anything(name: str) -> None:
    """Warps that hold the same part of a tensor store the same values to the same place."""
    entry = find_kernel(name)
    case, memory = entry.make(**entry.small), DeviceMemory()
    for launch in case.launches:
        shape = launch.kernel, launch.grid, launch.block, launch.args
        assert not capture(*shape, gpu="sm_90", memory=memory, check=CHECKS).findings
