"""What a GPU would refuse or fault on in a bulk copy: the error says what, of which kernel and warp, and where in the
source."""

from __future__ import annotations

import numpy as np
import pytest
from bulk_kernels import SOURCE, bulk_kernel

import gpusim
from gpusim.errors import AddressError, UsageError
from gpusim.launch.tensor_map import encode

TENSOR = np.zeros((16, 16), np.float32)


def launch(name: str, *args: object, shared_bytes: int = 16384) -> None:
    gpusim.capture(bulk_kernel(SOURCE, name), 1, 32, args, gpu=(9, 0), shared_bytes=shared_bytes)


def load(map_: object, rank: int = 2, shared_bytes: int = 16384, at: tuple[int, ...] = (0,) * 5) -> None:
    launch(f"load_{rank}d", map_, np.zeros(64, np.uint8), 64, 64, *at, 0, 0, 0, shared_bytes=shared_bytes)


def changed(at: int, value: int, map_: gpusim.TensorMap | None = None, address: int = 0) -> bytes:
    """The bytes of a map of two dimensions with one byte changed."""
    data = bytearray(encode((map_ or gpusim.TensorMap(TENSOR, (4, 4))).map(address)))
    data[at] = value
    return bytes(data)


@pytest.mark.parametrize(
    ("map_", "message"),
    [
        (bytes([255]) * 128, "is no tensor map"),
        (changed(9, 0x07), "is no tensor map"),  # a type that there is not
        (bytes(128), "has 1 dimensions, the instruction names another"),
        (changed(8, 0xA3), "has 3 dimensions"),
        (
            changed(8, 0x93),
            "is of another kind: tiled maps, im2col maps and wide im2col maps have instructions of their own",
        ),
        (changed(55, 4), "innermost dimension has 20 bytes, which is not a multiple of 16"),
        (changed(0, 8), "address or a stride, 0x8, is not a multiple of 16"),
        (
            gpusim.TensorMap(TENSOR, (256, 16)),
            "shared address 0x800 .of 16384 bytes. is of no block of the cluster, or out of its",
        ),
    ],
)
def test_a_malformed_map_is_named(map_: object, message: str) -> None:
    with pytest.raises(AddressError, match=message) as caught:
        load(map_, shared_bytes=8192)
    said = str(caught.value)
    assert "load_2d" in said and "block (0, 0, 0), warp 0" in said and "UTMALDG.2D" in said and "\n" not in said


def test_a_swizzle_narrower_than_the_box_is_named() -> None:
    with pytest.raises(AddressError, match="has 64 bytes, more than the 32 of the swizzle"):
        load(changed(55, 15, gpusim.TensorMap(TENSOR, (4, 4), swizzle="32B")))


def test_a_tensor_beyond_its_allocation_is_named() -> None:
    with pytest.raises(AddressError, match=r"global address 0x\w+ \(16 bytes\) is outside every allocation"):
        load(gpusim.TensorMap(TENSOR, (4, 4), shape=(64, 16)), at=(0, 14, 0, 0, 0))
    with pytest.raises(AddressError, match="outside every allocation"):
        load(gpusim.TensorMap(TENSOR, (4, 4)).map(0x1000) and changed(0, 0, address=0x1000))


def test_bytes_that_lie_askew_or_nowhere_are_named() -> None:
    given = np.zeros(4096, np.uint8)
    with pytest.raises(
        AddressError, match="global address 0x1004 is not a multiple of 16, as a bulk copy needs.*UBLKRED"
    ):
        launch("bytes_add_u32", 0x1004, given, 16)
    with pytest.raises(AddressError, match=r"\(1024 bytes\) is outside every allocation.*UBLKRED"):
        launch("bytes_add_u32", np.zeros(128, np.uint8), given, 1024)


def test_integers_of_the_wrong_type_are_not_reduced() -> None:
    with pytest.raises(AddressError, match="elements of type 7 .CUtensorMapDataType. have no such reduction"):
        launch("reduce_xor", gpusim.TensorMap(TENSOR, (4, 4)), np.zeros(64, np.uint8), 64, *(0,) * 5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"box": (4, 300)}, "box size is 300, it must be 1 to 256"), ({"box": (4, 3)}, "12, it must be a multiple of 16"),
        ({"box": (4, 4, 4)}, "as many"), ({"swizzle": "96B"}, "swizzle is '96B'"), ({"box": (4, 16), "swizzle": "32B"}, "swizzle's 32"),
        ({"element_strides": (9, 1), "box": (4, 4)}, "element stride is 9"), ({"box": (4, 4), "element_type": "fp4"}, "not fp4"),
    ],
)  # fmt: skip
def test_a_map_that_cuda_does_not_encode_is_refused(wrong: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        gpusim.TensorMap(TENSOR, **wrong)


def test_a_wait_for_bytes_that_do_not_come_is_a_deadlock() -> None:
    with pytest.raises(gpusim.DeadlockError):
        launch("load_2d", gpusim.TensorMap(TENSOR, (4, 4)), np.zeros(64, np.uint8), 64, 80, *(0,) * 8)


def test_a_whole_launch_in_order_has_no_findings() -> None:
    out = np.zeros(64, np.uint8)
    args = (gpusim.TensorMap(TENSOR, (4, 4)), out, 64, 64, *(0,) * 8)
    checks = ("memory", "race", "sync")
    trace = gpusim.capture(bulk_kernel(SOURCE, "load_2d"), 1, 32, args, gpu=(9, 0), shared_bytes=8192, check=checks)
    assert trace.findings == ()
    assert gpusim.simulate(trace, gpu="h200").counters["l1tex__tmain_requests.sum"] == 1
