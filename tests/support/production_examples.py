"""Files of production, and rows for them, as tests want them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpusim.production.columns import NamedTotal, named
from gpusim.production.file import Production, write
from gpusim.production.launches import Launch, LaunchTotal

GEMM = "ampere_sgemm_128x64_tn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int)"
SECRET = "my_secret_kernel"


def row(kernel: str, durations_ns, weight: float = 1.0, **what) -> LaunchTotal:
    """Launches of ``kernel`` with these durations (None: not timed)."""
    total = LaunchTotal(Launch(kernel, **what))
    for duration_ns in durations_ns:
        total.launch(None if duration_ns is None else int(duration_ns), weight)
    return total


def rows(*totals: LaunchTotal) -> list[NamedTotal]:
    return named(totals)


def week() -> list[LaunchTotal]:
    """Three kernels: 60 %, 30 % and 10 % of 1 ms, with grids and phases."""
    return [
        row(GEMM, [60_000] * 10, grid=(8, 4, 1), block=(128, 1, 1), phase="forward", rank=0, device="0"),
        row(ADD, [10_000] * 30, grid=(32, 1, 1), block=(128, 1, 1), phase="backward", rank=0, device="0"),
        row(SECRET, [50_000] * 2, rank=1, device="1"),
    ]


def write_week(path: Path) -> Path:
    write(path, Production([], [], week(), []))
    return path


def drawn(seed: int, median_ns: float, launches: int, spread: float = 0.2) -> list[int]:
    """Log-normal durations."""
    return [int(each) for each in np.random.default_rng(seed).lognormal(np.log(median_ns), spread, launches)]
