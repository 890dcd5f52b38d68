"""Element-wise transforms of a library of parallel algorithms, as launches.

Mental model: a row names an operation, the type of an element, how many there are, and the way by which the library's
release ran it (``algorithm``). As the library does it on the host, elements a thread are found from the bytes that
shall be under way in an SM; where the release spreads small problems over all SMs, there are fewer. Nothing depends on
data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .launches import HERE, CudaKernel, Row, Timed

_SOURCE = HERE / "transforms.cu"
#: Type as the source has it, and as NumPy holds its bytes.
_TYPES: Mapping[str, tuple[str, np.dtype]] = {
    "I8": ("signed char", np.dtype(np.int8)),
    "I16": ("short", np.dtype(np.int16)),
    "F16": ("__half", np.dtype(np.float16)),
    "BF16": ("__nv_bfloat16", np.dtype(np.uint16)),
    "F32": ("float", np.dtype(np.float32)),
    "F64": ("double", np.dtype(np.float64)),
    "I128": ("int128", np.dtype([("low", np.uint64), ("high", np.int64)])),
}
#: Operation -> the source's name of it, and how many arrays it reads.
_OPERATIONS = {
    "mul": ("mul", 1),
    "add": ("add", 2),
    "triad": ("triad", 2),
    "nstream": ("nstream", 3),
    "relu": ("relu", 1),
    "gelu": ("gelu", 1),
    "tanh": ("hyperbolic", 1),
    "exp": ("exponential", 1),
    "ge": ("not_less", 2),
    "fmin": ("lesser", 2),
}
#: Elements a thread of kernels that have a fixed number, and the most that any has.
_TWO, _EIGHT, _MOST_EACH = 2, 8, 32
#: Shared memory of a block that the driver takes, and what a tile is followed by.
_RESERVED_BYTES, _BULK_PADDING = 1024, 128
_SCALAR = 3
#: Of the measured GPUs: SMs, and shared memory and threads of each.
_GPUS = {
    "a100_80gb": (108, 164 << 10, 2048),
    "h100_pcie": (114, 228 << 10, 2048),
    "h200": (132, 228 << 10, 2048),
    "gh200": (132, 228 << 10, 2048),
    "b200": (148, 228 << 10, 2048),
    "rtx5090": (170, 100 << 10, 1536),
}


@dataclass(frozen=True)
class Way:
    """How a release runs a transform: ``kernel`` of the source, ``threads`` of a block, ``flight_bytes`` that an SM
    shall have under way; ``padding`` bytes behind each tile in shared memory and before the first, None where there are
    none; ``spreads``: whether a small problem is spread over all SMs."""

    kernel: str
    threads: int
    flight_bytes: int
    padding: int | None = None
    spreads: bool = False


#: By the name that the library gives the algorithm, and the year of the release where that matters.
WAYS: Mapping[str, Way] = {
    "for": Way("scattered", 256, 0),
    "prefetch": Way("prefetched", 256, 48 << 10, spreads=True),
    "bulk": Way("bulk<256", 256, 48 << 10, _BULK_PADDING),
    "bulk-128": Way("bulk<128", 128, 48 << 10, _BULK_PADDING),
    "bulk-2026": Way("bulk<128", 128, 64 << 10, _BULK_PADDING, spreads=True),
    "copies": Way("copied", 256, 16 << 10, 0, spreads=True),
    "fill": Way("filled", 256, 0),
    "fill-vectors": Way("filled_by_vectors", 256, 0),
}


def elements_each(way: Way, element_bytes: int, arrays: int, elements: int, gpu: str) -> int:
    """Elements that a thread has."""
    if not way.flight_bytes:
        return _TWO
    sms, shared_bytes, sm_threads = _GPUS[gpu]
    blocks = sm_threads // way.threads
    loaded = arrays * element_bytes
    if way.padding is None:
        each = -(-way.flight_bytes // (blocks * way.threads * loaded))
    else:
        each = 1
        while (
            _resident(blocks, way, loaded, arrays, each, shared_bytes) * way.threads * each * loaded < way.flight_bytes
        ):
            each += 1
    if way.spreads:
        at_once = sms * way.threads * blocks
        # Prefetches of 2024 round down, copies of 2025 and later up.
        each = min(each, elements // at_once if way.padding is None else -(-elements // at_once))
    return min(max(each, 1), _MOST_EACH)


def _resident(blocks: int, way: Way, loaded: int, arrays: int, each: int, shared_bytes: int) -> int:
    return min(blocks, shared_bytes // (_shared_bytes(way, loaded, arrays, each) + _RESERVED_BYTES))


def _shared_bytes(way: Way, loaded: int, arrays: int, each: int) -> int:
    if way.padding is None:
        return 0
    return way.threads * each * loaded + way.padding * (arrays + 1)


def transforms(row: Row, checkout: Path | None = None) -> Timed:
    """A transform of ``elements`` elements."""
    way, elements, gpu = WAYS[str(row["algorithm"])], int(row["elements"]), str(row["gpu"])
    name, kind = _TYPES[str(row["dtype"])]
    if way.kernel.startswith("filled"):
        made = CudaKernel(_SOURCE, f"{way.kernel}<{name}>")
        blocks = -(-elements // ((_TWO if way.kernel == "filled" else _EIGHT) * way.threads))
        return Timed(
            made, (blocks,), (way.threads,), lambda _: (np.zeros(elements, kind), _SCALAR, elements), (_SOURCE,),
            cut_axis=0, streams=True,
        )  # fmt: skip
    operation, arrays = _OPERATIONS[str(row["operation"])]
    each = elements_each(way, kind.itemsize, arrays, elements, gpu)
    made = CudaKernel(_SOURCE, f"{way.kernel}{', ' if '<' in way.kernel else '<'}{operation}, {name}>")

    def arguments(_: int | None) -> tuple:
        read = [np.zeros(elements, kind) for _ in range(arrays)]
        # What nstream writes is its first array.
        out = read[0] if operation == "nstream" else np.zeros(elements, kind)
        return out, *read, *(None for _ in range(3 - arrays)), _SCALAR, elements, each

    blocks = -(-elements // (way.threads * each))
    return Timed(
        made, (blocks,), (way.threads,), arguments, (_SOURCE,), cut_axis=0, streams=True,
        shared_bytes=_shared_bytes(way, arrays * kind.itemsize, arrays, each),
    )  # fmt: skip


TRANSFORM_FAMILIES: dict[str, Callable[[Row, Path | None], Timed]] = {"transforms": transforms}
