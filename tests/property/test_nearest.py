"""Is the name that a slip of the pen meant the one that is suggested, and is a list ever too long?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.cases.names import kernel_names
from gpusim.gpus.load import known_keys, list_gpus
from gpusim.io.nearest import MOST_LISTED, MOST_NEAR, hint, near


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("saxpi", "saxpy"),
        ("streamtriad", "stream_triad"),
        ("Softmax", "softmax"),
        ("gemm", "cpp_sgemm"),
        ("implicit_gemm", "conv2d_implicit_gemm"),
        ("flashattention", "flash_attention"),
        ("triad", "stream_triad"),
        ("matmul", "matmul_tiled"),
    ],
)
def test_a_slip_finds_its_kernel(asked: str, meant: str) -> None:
    assert meant in near(asked, kernel_names())


def test_gpus_and_keys_are_found_too() -> None:
    assert near("rtx-4090", list_gpus())[0] == "rtx4090"
    assert near("H100-PCIe", list_gpus())[0] == "h100_pcie"
    assert near("hit_latency_ns", known_keys())[0] == "l2.hit_latency_ns"
    assert near("l2.hit_latency", known_keys())[0] == "l2.hit_latency_ns"


def test_what_is_near_nothing_is_not_answered_with_a_long_list() -> None:
    names = [f"kernel_{i}" for i in range(MOST_LISTED + 1)]
    assert hint("zzz", names, "see the list") == "see the list"
    assert hint("zzz", names[:3], "see the list") == "there are kernel_0, kernel_1, kernel_2"
    assert hint("zzz", [], "see the list") == "see the list"
    assert hint("zzz", names).endswith("kernel_15 and 1 more")


@given(st.lists(st.text("abc_", min_size=1, max_size=6), unique=True, max_size=8), st.data())
def test_dropping_a_letter_of_a_long_name_still_finds_it(names: list[str], data: st.DataObject) -> None:
    known = [f"{name}{i}" for i, name in enumerate(names)] + ["a_long_kernel_name"]
    place = data.draw(st.integers(0, len("a_long_kernel_name") - 1))
    found = near("a_long_kernel_name"[:place] + "a_long_kernel_name"[place + 1 :], known)
    assert found[0] == "a_long_kernel_name"
    assert len(found) <= MOST_NEAR and set(found) <= set(known)
