"""A product of matrices over (min, +), the inner step of shortest paths between all pairs (min_plus.cu)."""

from __future__ import annotations

import numpy as np

from ..case import Case, Kernel, Launch, require_choice, require_multiples
from .source import CudaSource

#: Of a side of a tile, in words of four bytes along n; elements of a step along k.
_TILE, _DEPTH = 32, 16
_THREADS = 256
_C_TYPES = {"int32": "int", "int16": "short"}


def make_min_plus(*, m: int, n: int, k: int, dtype: str, seed: int = 0) -> Case:
    require_choice("dtype", dtype, ("int32", "int16"))
    require_multiples(m=(m, _TILE), n=(n, _TILE), k=(k, _DEPTH))
    columns = _TILE * 4 // np.dtype(dtype).itemsize
    require_multiples(n=(n, columns))
    rng = np.random.default_rng(seed)
    most = np.iinfo(dtype).max // 2  # no sum overflows
    a, b = (rng.integers(-most, most, shape, dtype) for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), dtype)
    kernel = CudaSource("min_plus.cu", f"min_plus<{_C_TYPES[dtype]}>")

    def check() -> None:
        right = np.full((m, n), np.iinfo(dtype).max, dtype)
        for step in range(k):
            np.minimum(right, a[:, step, None] + b[step], out=right)
        np.testing.assert_array_equal(c, right)

    args = (c, a, b, np.int32(n), np.int32(k))
    return Case(
        launches=(Launch(kernel, (n // columns, m // _TILE), (_THREADS,), args),),
        check=check,
        work={
            "bytes_read": float(a.nbytes + b.nbytes),
            "bytes_written": float(c.nbytes),
            "additions": float(m * n * k),
        },
    )


KERNELS = {
    "cpp_min_plus": Kernel(
        name="cpp_min_plus",
        purpose="a product of matrices over (min, +): one DPX instruction a step since Hopper, two 16-bit halves at once",
        axes={
            "m": (256, 1024, 4096),
            "n": (256, 1024, 4096),
            "k": (256, 1024, 4096),
            "dtype": ("int32", "int16"),
        },
        default={"m": 512, "n": 512, "k": 512, "dtype": "int32"},
        small={"m": 64, "n": 64, "k": 32, "dtype": "int32"},
        make=make_min_plus,
    ),
}
