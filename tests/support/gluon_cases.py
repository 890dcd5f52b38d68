"""Small launches of the Gluon kernels beside this file, each with what it has to leave in its arrays.

Mental model: a case is a function that makes the launch anew: kernel, grid, arguments, and a check of the results.
`CASES` names the architectures that have the instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import gluon_kernels as kernels
import gluon_tensor_kernels as tensor
import ml_dtypes
import numpy as np
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor, TensorDescriptorIm2Col

import gpusim

_TYPES = {"float16": gl.float16, "float32": gl.float32, "int32": gl.int32, "uint8": gl.uint8}
_FLOATS = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
ROWS = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
COLUMNS = gl.BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1])
LINE = gl.BlockedLayout([4], [32], [4], [0])


class Launch(NamedTuple):
    """What ``gpusim.capture`` takes, and ``check``, which raises AssertionError."""

    kernel: Any
    grid: tuple[int, ...]
    args: tuple
    check: Callable[[], None]


def whole(*shape: int, dtype: Any = np.float16, low: int = -3, high: int = 4) -> np.ndarray:
    """Whole numbers, so that every order of sums is exact."""
    return np.random.default_rng(sum(shape)).integers(low, high, shape).astype(dtype)


def based(array: np.ndarray, name: str) -> SimpleNamespace:
    """An array as Triton's descriptors take a tensor; on the device it begins where cudaMalloc aligns."""
    base = SimpleNamespace(__array_interface__=array.__array_interface__, dtype=name, of=array)
    base.data_ptr = lambda: 0
    return base


def described(array: np.ndarray, block: tuple[int, ...], kind: Any = None, **layout: Any) -> TensorDescriptor:
    """A descriptor of boxes ``block`` of an array, whose elements are ``kind``; ``layout``: further facts of the layout
    in shared memory."""
    kind = kind or _TYPES[array.dtype.name]
    strides = [stride // array.itemsize for stride in array.strides]
    place = gl.NVMMASharedLayout.get_default_for(list(block), kind, **layout)
    return TensorDescriptor(based(array, kind.name), list(array.shape), strides, list(block), place)


def equal(left: np.ndarray, right: np.ndarray) -> Callable[[], None]:
    """A check that an array holds ``right``."""
    return lambda: np.testing.assert_array_equal(left, right)


def launch(function: Any, grid: tuple[int, ...], args: tuple, check: Callable[[], None], **given: Any) -> Launch:
    """A launch of four warps, unless ``given`` says otherwise."""
    return Launch(gpusim.triton(function, **{"num_warps": 4, **given}), grid, args, check)


def layouts() -> Launch:
    x, y = whole(100, 70, dtype=np.float32), np.zeros((70, 100), np.float32)
    return launch(kernels.turned, (2, 2), (x, y, 100, 70), equal(y, x.T), R=64, C=64, A=ROWS, B=COLUMNS)


def async_copies() -> Launch:
    x, y = whole(1000, dtype=np.float32), np.zeros(1000, np.float32)
    line = gl.BlockedLayout([1], [32], [4], [0])
    return launch(kernels.doubled, (1,), (x, y, 1000), equal(y, 2 * x), BLOCK=128, STAGES=3, L=line)


def copies_that_arrive() -> Launch:
    x, y = whole(1024, dtype=np.float32), np.zeros(1024, np.float32)
    return launch(kernels.tripled, (2,), (x, y), equal(y, 3 * x), BLOCK=512, L=LINE)


def tensor_maps() -> Launch:
    x, y, z = (
        whole(128, 400, dtype=np.float32),
        whole(400, 128, dtype=np.float32).reshape(128, 400),
        np.zeros((128, 400), np.float32),
    )
    maps = tuple(described(each, (64, 64)) for each in (x, y, z))
    return launch(kernels.added, (2,), maps, equal(z, x + y), R=64, C=64, STEPS=7, L=ROWS)


def reductions() -> Launch:
    c = whole(96, 32, dtype=np.int32, low=0, high=1000)
    wanted, tile = c.copy(), np.arange(32)[None] + 3 * np.arange(16)[:, None]
    kinds = (np.add, np.maximum, np.minimum, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
    for place, kind in enumerate(kinds):
        rows = wanted[16 * place : 16 * place + 16]
        for block in range(3):
            rows[...] = kind(rows, block + tile)
    return launch(kernels.reduced, (3,), (described(c, (16, 32)),), equal(c, wanted), R=16, C=32, L=ROWS)


def pixels() -> Launch:
    x, y = whole(1, 6, 6, 32), np.zeros((9, 32, 32), np.float16)
    place = gl.NVMMASharedLayout.get_default_for([32, 32], gl.float16)
    corner = {"pixel_box_lower_corner": [-1, -1], "pixel_box_upper_corner": [-1, -1]}
    columns = TensorDescriptorIm2Col(
        based(x, "fp16"), [1, 6, 6, 32], [1152, 192, 32, 1], [32, 32], place, element_strides=[1, 1, 1, 1], **corner
    )
    padded = np.pad(x[0], ((1, 1), (1, 1), (0, 0)))
    wanted = [padded[i // 3 : i // 3 + 6, i % 3 : i % 3 + 6].reshape(36, 32)[:32] for i in range(9)]
    return launch(kernels.im2col, (1,), (columns, y), equal(y, np.stack(wanted)), R=32, C=32, KW=3, L=ROWS)


def clusters(basis: int) -> Launch:
    x, y, cga = whole(32, 64, dtype=np.float32), np.zeros(64, np.float32), [[basis, 0]]
    rows = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0], cga_layout=cga)
    args = (described(x, (32, 64), cga_layout=cga), y)
    return launch(kernels.shared_rows, (1,), args, equal(y, x.sum(0)), R=32, C=64, L=rows, num_ctas=2)


def register_products() -> Launch:
    a, b, c = whole(64, 32), whole(32, 64), np.zeros((64, 64), np.float32)
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    return launch(kernels.small_product_of_registers, (1,), (a, b, c), equal(c, wanted), M=64, N=64, K=32)


def group_products(from_registers: bool) -> Launch:
    a, b, c = whole(128, 256), whole(256, 128), np.zeros((128, 128), np.float32)
    args = (described(a, (64, 64)), described(b, (64, 64)), described(c, (64, 64)), 256)
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    return launch(
        kernels.group_product,
        (2, 2),
        args,
        equal(c, wanted),
        M=64,
        N=64,
        STEP=64,
        FROM_REGISTERS=from_registers,
        STAGES=3,
    )


def tensor_products(rows: int, in_block: int, columns: int, depth: int, left_in_tensor_memory: bool) -> Launch:
    a, b, c = whole(rows, depth), whole(depth, columns), whole(rows, columns, dtype=np.float32)
    wanted = a.astype(np.float32) @ b.astype(np.float32) + c
    args = (described(a, a.shape), described(b, b.shape), described(c, c.shape))
    sizes = {"M": rows, "N": columns, "K": depth, "ROWS": in_block}
    return launch(
        tensor.small_product, (1,), args, equal(c, wanted), LEFT_IN_TENSOR_MEMORY=left_in_tensor_memory, **sizes
    )


def specialised_warps() -> Launch:
    a, b, c = whole(256, 320), whole(320, 64), np.zeros((256, 64), np.float16)
    args = (described(a, (128, 64)), described(b, (64, 64)), described(c, (128, 64)), 320)
    wanted = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    return launch(tensor.specialised, (2, 1), args, equal(c, wanted), M=128, N=64, STEP=64, STAGES=3)


def pairs() -> Launch:
    a, b, c = whole(256, 128), whole(128, 64), np.zeros((256, 64), np.float32)
    args = (
        described(a, (256, 64), cga_layout=[[1, 0]]), described(b, (64, 64), cga_layout=[[0, 1]]),
        described(c, (256, 64), cga_layout=[[1, 0]]), 128,
    )  # fmt: skip
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    return launch(tensor.paired_product, (1, 1), args, equal(c, wanted), M=256, N=64, STEP=64, num_ctas=2)


def rows_by_number() -> Launch:
    x, y, places = (
        whole(40, 64),
        np.zeros((32, 64), np.float16),
        np.random.default_rng(1).permutation(32).astype(np.int32),
    )
    wanted = np.zeros((32, 64), np.float16)
    wanted[31 - places[:16], 32:] = 2 * x[places[:16], 32:]
    args = (described(x, (1, 32)), described(y, (1, 32)), places, 32)
    return launch(tensor.gathered, (1,), args, equal(y, wanted), R=16, C=32, L=ROWS)


def copies_to_tensor_memory(swizzle: int) -> Launch:
    x = np.random.default_rng(2).random((128, 32), np.float32)
    y = np.zeros_like(x)
    return launch(tensor.copied, (1,), (x, y), equal(y, x), M=128, N=32, S=gl.NVMMASharedLayout(swizzle, 32))


def _operand(kind: str, rows: int, mixed: bool) -> tuple[np.ndarray, TensorDescriptor]:
    """Numbers that any of the formats holds, and a descriptor of them in ``kind``."""
    values = np.random.default_rng(rows).choice([-4, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 4], (rows, 128)).astype(np.float32)
    if kind == "e2m1":
        codes = values.astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 15
        held = (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)
        return values, described(held, held.shape, gl.uint8, fp4_padded=mixed)
    held = values.astype(_FLOATS[kind]).view(np.uint8)
    return values, described(held, held.shape, gl.float8e4nv if kind == "e4m3" else gl.float8e5)


def block_scales(kind_a: str, kind_b: str, group: int) -> Launch:
    mixed = kind_a != kind_b and "e2m1" in (kind_a, kind_b)
    (a, map_a), (b, map_b) = _operand(kind_a, 128, mixed), _operand(kind_b, 64, mixed)
    random, c = np.random.default_rng(group), np.zeros((128, 64), np.float32)
    scales = [2.0 ** random.integers(-2, 3, (rows, 128 // group)) for rows in (128, 64)]
    held = [each.astype(_FLOATS["e4m3"]) if group == 16 else (np.log2(each) + 127).astype(np.uint8) for each in scales]
    wanted = (a * np.repeat(scales[0], group, 1)) @ (b * np.repeat(scales[1], group, 1)).T
    args = (map_a, map_b, c, *held)
    return launch(
        tensor.scaled, (1,), args, equal(c, wanted), M=128, N=64, K=128, KIND_A=kind_a, KIND_B=kind_b, GROUP=group
    )


def work_that_is_taken() -> Launch:
    out = np.zeros(400 * 128, np.int32)
    return launch(tensor.taken, (400,), (out,), equal(out, np.repeat(np.arange(1, 401), 128)), BLOCK=128, L=LINE)


def packed_arithmetic() -> Launch:
    x = whole(128, 64, dtype=np.float32)
    y = np.zeros_like(x)
    return launch(tensor.arithmetic, (1,), (x, y), equal(y, 3 * x * x), M=128, N=64)


def loads_that_reduce() -> Launch:
    x = np.random.default_rng(3).standard_normal((128, 64)).astype(np.float32)
    y, most = np.zeros_like(x), np.zeros(128, np.float32)
    both = equal(y, x), equal(most, x.max(1))
    return launch(tensor.greatest, (1,), (x, y, most), lambda: [each() for each in both] and None, M=128, N=64)


_ALL, _MAPS, _HOPPER, _TENSOR = (
    ("a100_80gb", "h200", "b200", "b300", "rtx5090"),
    ("h200", "b200", "b300", "rtx5090"),
    ("h200",),
    ("b200", "b300"),
)
#: Name -> (how its launch is made, GPUs that have its instructions).
CASES: dict[str, tuple[Callable[[], Launch], tuple[str, ...]]] = {
    "layouts": (layouts, _ALL),
    "async_copies": (async_copies, _ALL),
    "copies_that_arrive": (copies_that_arrive, _MAPS),
    "tensor_maps": (tensor_maps, _MAPS),
    "reductions": (reductions, _MAPS),
    "pixels": (pixels, ("h200", "b200", "b300")),
    "multicast": (partial(clusters, 0), ("h200", "b200", "b300")),
    "split": (partial(clusters, 1), ("h200", "b200", "b300")),
    "register_products": (register_products, ("a100_80gb", "rtx5090")),
    "group_products": (partial(group_products, False), _HOPPER),
    "group_products_from_registers": (partial(group_products, True), _HOPPER),
    "tensor_products": (partial(tensor_products, 128, 128, 64, 64, False), _TENSOR),
    "tensor_products_of_64_rows": (partial(tensor_products, 64, 64, 64, 64, False), _TENSOR),
    "tensor_products_of_twice_64_rows": (partial(tensor_products, 128, 64, 64, 32, False), _TENSOR),
    "tensor_products_from_tensor_memory": (partial(tensor_products, 64, 64, 128, 32, True), _TENSOR),
    "specialised_warps": (specialised_warps, _TENSOR),
    "pairs": (pairs, _TENSOR),
    "rows_by_number": (rows_by_number, _TENSOR),
    "copies_to_tensor_memory": (partial(copies_to_tensor_memory, 64), _TENSOR),
    "copies_to_tensor_memory_128": (partial(copies_to_tensor_memory, 128), _TENSOR),
    "scaled_mxfp8": (partial(block_scales, "e5m2", "e4m3", 32), _TENSOR),
    "scaled_mxfp4": (partial(block_scales, "e2m1", "e2m1", 32), _TENSOR),
    "scaled_nvfp4": (partial(block_scales, "e2m1", "e2m1", 16), _TENSOR),
    "scaled_mixed": (partial(block_scales, "e4m3", "e2m1", 32), _TENSOR),
    "scaled_mixed_a": (partial(block_scales, "e2m1", "e5m2", 32), _TENSOR),
    "work_that_is_taken": (work_that_is_taken, _TENSOR),
    "packed_arithmetic": (packed_arithmetic, _TENSOR),
    "loads_that_reduce": (loads_that_reduce, ("b300",)),
}
