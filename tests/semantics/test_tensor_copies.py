"""Boxes of tensors, copied by the tensor memory accelerator: held against an oracle that goes element by element."""

from __future__ import annotations

import numpy as np
import pytest
from bulk_kernels import ROWS_SOURCE, SOURCE, bulk_kernel
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_oracle import column_elements, loaded, row_elements, stored, tile_elements, wide_elements

import gpusim
from gpusim.errors import AddressError, UsageError
from gpusim.trace.record import MemoryKind, Trace

SHARED = 32768
SWIZZLES = ("none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B")
SPANS = {"none": 1 << 20, "32B": 32, "64B": 64}


def launch(name: str, *args: object, source: str = SOURCE, gpu: tuple[int, int] = (9, 0), grid: int = 1) -> Trace:
    return gpusim.capture(bulk_kernel(source, name, gpu), grid, 32, args, gpu=gpu, shared_bytes=SHARED)


def five(values) -> tuple[int, ...]:
    return (*values, *(0,) * (5 - len(values)))


def room(rows: int, row_bytes: int, swizzle: str) -> int:
    """Bytes of shared memory that rows take, and 64 beyond."""
    return rows * max(row_bytes, 0 if swizzle == "none" else min(SPANS.get(swizzle, 128), 128)) + 64


def numbered(shape, dtype) -> np.ndarray:
    """A C-contiguous tensor of different values, each row's length a multiple of 16 bytes (the rest is not the
    tensor's)."""
    dtype = np.dtype(dtype)
    inner = -(-shape[-1] * dtype.itemsize // 16) * 16 // dtype.itemsize
    count = int(np.prod(shape[:-1])) * inner
    values = np.random.default_rng(count).integers(1, 2 ** (8 * min(dtype.itemsize, 2) - 2), count)
    return values.astype(dtype).reshape(*shape[:-1], inner)[..., : shape[-1]]


@st.composite
def tiles(draw):
    """(tensor, box, steps, coordinates, swizzle, NaN fill): sizes innermost first."""
    dtype = np.dtype(draw(st.sampled_from(["u1", "<u2", "<f2", "<f4", "<i4", "<f8", "<u8"])))
    rank = draw(st.integers(1, 5))
    swizzle = draw(st.sampled_from(SWIZZLES))
    parts = draw(st.integers(1, min(4, SPANS.get(swizzle, 128) // 16)))
    box = [16 * parts // dtype.itemsize]
    box += [draw(st.integers(1, (6, 4, 3, 2)[i])) for i in range(rank - 1)]
    steps = [1] + [draw(st.integers(1, 3)) for _ in range(rank - 1)]
    shape = [draw(st.integers(1, 12 if i else 2 * box[0])) for i in range(rank)]
    at = [draw(st.integers(-size - 1, size + 1)) for size in shape]
    return numbered(shape[::-1], dtype), box, steps, at, swizzle, dtype.kind == "f" and draw(st.booleans())


def tile_map(tensor, box, steps, swizzle, nan=False) -> gpusim.TensorMap:
    return gpusim.TensorMap(tensor, box[::-1], element_strides=steps[::-1], swizzle=swizzle, fill_nan=nan)


def counted(box, steps) -> int:
    return int(np.prod([-(-size // step) for size, step in zip(box[1:], steps[1:], strict=True)]))


def check_load(tensor, box, steps, at, swizzle, nan) -> Trace:
    rows, row_bytes = counted(box, steps), box[0] * tensor.itemsize
    out = np.zeros(room(rows, row_bytes, swizzle), np.uint8)
    expected = rows * row_bytes
    map_ = tile_map(tensor, box, steps, swizzle, nan)
    trace = launch(f"load_{len(box)}d", map_, out, len(out), expected, *five(at), 0, 0, 0)
    elements = tile_elements(tensor.shape[::-1], box, steps, at)
    np.testing.assert_array_equal(out, loaded(tensor, elements, row_bytes, swizzle, 0, len(out), nan))
    return trace


@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("rank", range(1, 6))
def test_a_tile_is_loaded_and_filled_beyond_the_tensor(rank: int, swizzle: str) -> None:
    shape, box = (40, 7, 3, 4, 2)[:rank], (8, 5, 2, 2, 2)[:rank]
    at = (-3, 4, -1, 3, 1)[:rank]
    check_load(numbered(shape[::-1], "<f4"), box, (1, 1, 2, 1, 1)[:rank], at, swizzle, rank % 2 == 0)


@settings(max_examples=12)
@given(tiles())
def test_any_tile_is_loaded(case) -> None:
    check_load(*case)


@pytest.mark.nightly
@settings(max_examples=600)
@given(tiles())
def test_very_many_tiles_are_loaded(case) -> None:
    check_load(*case)


def test_the_trace_has_the_part_of_a_tile_in_bounds() -> None:
    tensor = numbered((9, 20, 36), "<f4")
    trace = check_load(tensor, (8, 6, 4), (1, 2, 1), (-2, 17, 7), "none", False)
    (chunk,) = trace.chunks()
    (box,) = chunk.bulks
    assert box["kind"] == MemoryKind.BULK_LOAD and box["bytes"] == 3 * 4 * 32 and box["blocks"] == 0
    # 6 of 8 columns; rows 17, 19 of 17, 19, 21; planes 7, 8 of 7 to 10
    assert box["row_bytes"] == 24 and box["count"].tolist() == [2, 2, 1, 1]
    assert box["stride"].tolist()[:2] == [2 * 36 * 4, 20 * 36 * 4]
    base = [a for a, size in trace.launch.allocations if size == tensor.nbytes]
    assert box["address"] - (17 * 36 + 7 * 20 * 36) * 4 in base
    written = chunk.signals[(chunk.signals["access"] == box["access"]) & (chunk.signals["polls"] == 0)]
    assert len(written) and set(written["address"].tolist()) <= {0, 4}
    assert (chunk.signals["polls"] == 1).any()  # who asked for the copy waits for it too


@st.composite
def stores(draw):
    tensor, box, steps, at, swizzle, _ = draw(tiles())
    return tensor, box, steps, at, swizzle


def check_store(tensor, box, steps, at, swizzle) -> None:
    rows, row_bytes = counted(box, steps), box[0] * tensor.itemsize
    given_bytes = np.random.default_rng(rows).integers(0, 256, room(rows, row_bytes, swizzle)).astype(np.uint8)
    wanted = stored(tensor, tile_elements(tensor.shape[::-1], box, steps, at), row_bytes, swizzle, 0, given_bytes)
    launch(f"store_{len(box)}d", tile_map(tensor, box, steps, swizzle), given_bytes, len(given_bytes), *five(at))
    assert tensor.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("rank", range(1, 6))
def test_a_tile_is_stored_within_the_tensor(rank: int) -> None:
    shape, box = (40, 7, 3, 4, 2)[:rank], (8, 5, 2, 2, 2)[:rank]
    check_store(numbered(shape[::-1], "<f4"), box, (1, 1, 2, 1, 1)[:rank], (-3, 4, -1, 3, 1)[:rank], SWIZZLES[rank])


@settings(max_examples=6)
@given(stores())
def test_any_tile_is_stored(case) -> None:
    check_store(*case)


@pytest.mark.nightly
@settings(max_examples=300)
@given(stores())
def test_very_many_tiles_are_stored(case) -> None:
    check_store(*case)


# ---- reductions
# ------------------------------------------------------------------------------------------------------------
def _wrapped_inc(old, new):
    return old.dtype.type(0) if old >= new else old.dtype.type(old + 1)


def _wrapped_dec(old, new):
    return new if old == 0 or old > new else old.dtype.type(old - 1)


COMBINE = {
    "add": lambda a, b: a.dtype.type(a + b), "min": min, "max": max, "inc": _wrapped_inc, "dec": _wrapped_dec,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
}  # fmt: skip


@pytest.mark.parametrize(
    ("operation", "dtype"),
    [
        ("add", "<f4"), ("add", "<f2"), ("add", "<u8"), ("add", "<i4"), ("min", "<i4"), ("max", "<u4"), ("max", "<f2"), ("min", "<u8"),
        ("min", "<i8"), ("inc", "<u4"), ("dec", "<u4"), ("and", "<u4"), ("or", "<i8"), ("xor", "<u8"),
    ],
)  # fmt: skip
def test_a_tile_is_reduced_into_the_tensor(operation: str, dtype: str) -> None:
    tensor = numbered((6, 40), dtype)
    if tensor.dtype.kind == "f":
        tensor -= tensor.dtype.type(5000)
    box, at = (32 // tensor.itemsize, 4), (-2, 3)
    shared = numbered((4, 64), dtype).reshape(-1)[: 4 * box[0]] + tensor.dtype.type(3)
    given_bytes = shared.view(np.uint8).copy()
    combine = lambda old, new: COMBINE[operation](tensor.dtype.type(old), tensor.dtype.type(new))  # noqa: E731
    with np.errstate(over="ignore"):
        wanted = stored(tensor, tile_elements((40, 6), box, (1, 1), at), 32, "32B", 0, given_bytes, combine)
    launch(f"reduce_{operation}", tile_map(tensor, box, (1, 1), "32B"), given_bytes, len(given_bytes), *five(at))
    assert tensor.tobytes() == wanted.tobytes()


def test_bfloat16_sums_round_once_to_the_nearest_even() -> None:
    old = np.array([0x3F80, 0x3F80, 0x4000, 0xFF80, 0x0001, 0x7F7F, 0, 0], np.uint16)
    new = np.array([0x3B80, 0x3C00, 0xC000, 0x7F80, 0x0001, 0x7F7F, 0x8000, 0], np.uint16)
    wanted = [0x3F80, 0x3F81, 0x0000, 0x7FFF, 0x0002, 0x7F80, 0, 0]
    tensor = np.zeros((1, 8), np.uint16)
    tensor[:] = old
    launch(
        "reduce_add", gpusim.TensorMap(tensor, (1, 8), element_type="bfloat16"), new.view(np.uint8), 16, *five((0, 0))
    )
    assert [hex(v) for v in tensor[0]] == [hex(v) for v in wanted]


# ---- im2col
# ----------------------------------------------------------------------------------------------------------------
@st.composite
def columns(draw):
    """(tensor, lower, upper, channels, pixels, steps, coordinates, offsets, swizzle), sizes innermost first."""
    rank = draw(st.integers(3, 5))
    shape = [draw(st.integers(4, 20))] + [draw(st.integers(3, 6)) for _ in range(rank - 2)] + [draw(st.integers(1, 3))]
    limit = {3: 4, 4: 3, 5: 2}[rank]
    lower = [draw(st.integers(-limit, 1)) for _ in range(rank - 2)]
    upper = [draw(st.integers(-limit, 1)) for _ in range(rank - 2)]
    for i, size in enumerate(shape[1:-1]):
        upper[i] = max(upper[i], lower[i] - size + 1)
    steps = [1] + [draw(st.integers(1, 2)) for _ in range(rank - 2)] + [1]
    at = [draw(st.integers(-2, shape[0]))]
    at += [draw(st.integers(low, size - 1 + up)) for low, size, up in zip(lower, shape[1:-1], upper, strict=True)]
    at.append(draw(st.integers(0, shape[-1] - 1)))
    offsets = [draw(st.integers(0, 3)) for _ in range(rank - 2)]
    swizzle = draw(st.sampled_from(("none", "32B", "128B")))
    return numbered(shape[::-1], "<f4"), lower, upper, 8, draw(st.integers(1, 40)), steps, at, offsets, swizzle


def column_map(tensor, lower, upper, channels, pixels, steps, swizzle) -> gpusim.TensorMap:
    return gpusim.TensorMap(
        tensor, lower=lower[::-1], upper=upper[::-1], channels=channels, pixels=pixels, element_strides=steps[::-1],
        swizzle=swizzle,
    )  # fmt: skip


def check_columns(tensor, lower, upper, channels, pixels, steps, at, offsets, swizzle) -> Trace:
    map_ = column_map(tensor, lower, upper, channels, pixels, steps, swizzle)
    out = np.zeros(room(pixels, 4 * channels, swizzle), np.uint8)
    more = (*offsets, *(0,) * (3 - len(offsets)))
    trace = launch(f"columns_{tensor.ndim}d", map_, out, len(out), 4 * channels * pixels, *five(at), *more)
    elements = list(column_elements(tensor.shape[::-1], lower, upper, channels, pixels, steps, at, offsets))
    np.testing.assert_array_equal(out, loaded(tensor, elements, 4 * channels, swizzle, 0, len(out)))
    (chunk,) = trace.chunks()
    check_rows(chunk.bulks, tensor, elements, channels)
    return trace


def check_rows(bulks, tensor, elements, channels) -> None:
    """The boxes of the trace are the rows in bounds."""
    rows = []
    for start in range(0, len(elements), channels):
        inside = [e for e in elements[start : start + channels] if e is not None]
        if inside:
            rows.append((sum(i * s for i, s in zip(reversed(inside[0]), tensor.strides, strict=True)), 4 * len(inside)))
    found = []
    for box in bulks:
        for j in range(box["count"][1]):
            for i in range(box["count"][0]):
                place = int(box["address"]) + i * int(box["stride"][0]) + j * int(box["stride"][1])
                found.append((place, int(box["row_bytes"])))
    base = min((place for place, _ in found), default=0) - min((place for place, _ in rows), default=0)
    assert [(place - base, size) for place, size in found] == rows


@pytest.mark.parametrize("rank", range(3, 6))
def test_the_pixels_of_a_column_are_loaded(rank: int) -> None:
    shape = (*(12, 5, 4, 3)[: rank - 1], 2)
    spatial = rank - 2
    check_columns(
        numbered(shape[::-1], "<f4"), (-1, -2, 0)[:spatial], (-1, 1, -1)[:spatial], 8, 23, (1, *(1, 2, 1)[:spatial], 1),
        (6, *(2, 0, 1)[:spatial], 0), (2, 1, 1)[:spatial], "32B",
    )  # fmt: skip


@settings(max_examples=8)
@given(columns())
def test_any_column_is_loaded(case) -> None:
    check_columns(*case)


@pytest.mark.nightly
@settings(max_examples=400)
@given(columns())
def test_very_many_columns_are_loaded(case) -> None:
    check_columns(*case)


@pytest.mark.parametrize("rank", range(3, 6))
def test_columns_are_stored_without_offsets(rank: int) -> None:
    shape = (*(12, 5, 4, 3)[: rank - 1], 2)
    spatial = rank - 2
    tensor = numbered(shape[::-1], "<f4")
    lower, upper, steps = [0] * spatial, [0] * spatial, [1] * rank
    at = [4, *(3, 1, 0)[:spatial], 0]
    given_bytes = np.random.default_rng(1).integers(0, 256, 17 * 32).astype(np.uint8)
    elements = column_elements(tensor.shape[::-1], lower, upper, 8, 17, steps, at, [0] * spatial)
    wanted = stored(tensor, elements, 32, "none", 0, given_bytes)
    map_ = column_map(tensor, lower, upper, 8, 17, steps, "none")
    launch(f"store_columns_{rank}d", map_, given_bytes, len(given_bytes), *five(at))
    assert tensor.tobytes() == wanted.tobytes()


# ---- wide im2col
# -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("rank", "kind", "lower", "upper", "step", "w", "halo", "offset", "swizzle"),
    [
        (4, "w", 0, 0, 1, 2, 2, 0, "128B"),
        (3, "w", -1, 0, 2, -1, 1, 1, "64B"),
        (5, "w", -1, -1, 3, -2, 0, 2, "128B_ATOM_32B"),
        (4, "w128", 0, 0, 1, 2, 2, 0, "128B"),
        (3, "w128", -1, 1, 1, -1, 3, 1, "64B"),
        (5, "w128", 0, -1, 2, 0, 0, 1, "128B"),
    ],
)
def test_the_pixels_of_a_wide_column_are_loaded(rank, kind, lower, upper, step, w, halo, offset, swizzle) -> None:
    shape = (20, 9, *(4, 3)[: rank - 3], 12)
    tensor, channels, pixels = numbered(shape[::-1], "<f4"), 16, 128 if kind == "w128" else 37
    map_ = gpusim.TensorMap(
        tensor, lower=[lower], upper=[upper], channels=channels, pixels=7 if kind == "w128" else pixels, swizzle=swizzle,
        element_strides=[1] * (rank - 2) + [step, 1], wide=kind,
    )  # fmt: skip
    at = (8, w, *(2, 1)[: rank - 3], 1)
    elements = list(
        wide_elements(shape, lower, upper, channels, pixels, step, at, halo, offset, 32 if kind == "w128" else 0)
    )
    moved = 4 * len(elements)
    out = np.zeros(room(moved // 64, 64, swizzle), np.uint8)
    name = f"wide_{'128_' if kind == 'w128' else ''}{rank}d"
    trace = launch(name, map_, out, len(out), moved, *five(at), halo, offset, 0, source=ROWS_SOURCE, gpu=(10, 0))
    np.testing.assert_array_equal(out, loaded(tensor, elements, 64, swizzle, 0, len(out)))
    (chunk,) = trace.chunks()
    assert chunk.bulks["bytes"].sum() == moved
    if kind == "w":
        check_rows(chunk.bulks, tensor, elements, channels)


def test_a_wide_map_and_others_have_instructions_of_their_own() -> None:
    tensor, out = numbered((4, 3, 6, 16), "<f4"), np.zeros(64, np.uint8)
    wide = gpusim.TensorMap(tensor, lower=[0], upper=[0], channels=16, pixels=1, swizzle="64B", wide="w")
    narrow = gpusim.TensorMap(tensor, lower=[0, 0], upper=[0, 0], channels=16, pixels=1, swizzle="64B")
    for name, map_, source in (("wide_4d", narrow, ROWS_SOURCE), ("columns_4d", wide, SOURCE)):
        with pytest.raises(AddressError, match="of another kind: tiled maps, im2col maps and wide im2col maps have"):
            launch(name, map_, out, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0, source=source, gpu=(10, 0))
    with pytest.raises(UsageError, match="swizzle is 0, it must be 64B, 128B or 128B in atoms of 32B for a wide map"):
        gpusim.TensorMap(tensor, lower=[0], upper=[0], channels=16, pixels=1, wide="w")


# ---- rows, types, blocks
# ---------------------------------------------------------------------------------------------------
def test_four_rows_are_gathered_and_scattered() -> None:
    tensor = numbered((30, 20), "<f4")
    map_ = gpusim.TensorMap(tensor, (1, 8), swizzle="32B")
    at, out = (-2, 29, 3, 30, 17), np.zeros(128 + 64, np.uint8)
    elements = list(row_elements((20, 30), 8, at[0], at[1:]))
    trace = launch("gather", map_, out, len(out), 128, *at, 0, 0, 0, source=ROWS_SOURCE, gpu=(10, 0))
    np.testing.assert_array_equal(out, loaded(tensor, elements, 32, "32B", 0, len(out)))
    (chunk,) = trace.chunks()
    assert chunk.bulks["bytes"].sum() == 128 and (chunk.bulks["count"].prod(axis=1)).sum() == 3
    given_bytes = np.random.default_rng(2).integers(0, 256, 128).astype(np.uint8)
    wanted = stored(tensor, elements, 32, "32B", 0, given_bytes)
    launch("scatter", map_, given_bytes, 128, *at, source=ROWS_SOURCE, gpu=(10, 0))
    assert tensor.tobytes() == wanted.tobytes()


def test_elements_are_converted_as_their_type_says() -> None:
    values = np.array([1.0, 1e-40, -1e-40, np.inf, 1.00048828125, 1.0009765625, 1.001, -3.3], np.float32)
    tensor, flushed = np.tile(values, (1, 1)), np.where(np.abs(values) < 1.2e-38, np.copysign(0, values), values)
    bits = values.view(np.uint32).astype(np.int64)
    rounded = ((bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000).astype(np.uint32)
    rounded[3] = bits[3]
    for name, wanted in (
        ("float32_ftz", flushed.astype(np.float32).view(np.uint32)), ("tfloat32", rounded),
        ("tfloat32_ftz", np.where(flushed == 0, flushed.view(np.uint32), rounded)),
    ):  # fmt: skip
        out = np.zeros(32, np.uint8)
        launch("load_2d", gpusim.TensorMap(tensor, (1, 8), element_type=name), out, 32, 32, 0, 0, 0, 0, 0, 0, 0, 0)
        assert [hex(v) for v in out.view(np.uint32)] == [hex(v) for v in wanted.astype(np.uint32)], name


@pytest.mark.parametrize(("name", "packed"), [("packed_4_in_8", 16), ("packed_4_in_16", 8), ("packed_6_in_16", 12)])
def test_packed_elements_are_spread_over_sixteen_bytes(name: str, packed: int) -> None:
    """The mbarrier is told of the bytes that they take in global memory: with any other number the kernel would
    hang."""
    bits = 6 if "6" in name.split("_")[1] else 4
    shape = (4, 256)
    tensor = np.random.default_rng(3).integers(0, 256, (4, 256 * bits // 8)).astype(np.uint8)
    map_ = gpusim.TensorMap(tensor, (2, 128), element_type=name, shape=shape)
    row = 128 * bits // 8 if packed == 16 else 128
    out = np.zeros(2 * row, np.uint8)
    told = 2 * 128 * bits // 8
    launch("load_2d", map_, out, len(out), told, 128, 3, 0, 0, 0, 0, 0, 0, gpu=(10, 0))
    wanted = np.zeros(2 * row, np.uint8)
    parts = tensor[3, 128 * bits // 8 :].reshape(-1, packed)
    wanted.reshape(2, -1, 16)[0, :, :packed] = parts
    np.testing.assert_array_equal(out, wanted)


def test_one_copy_reaches_several_blocks_of_the_cluster() -> None:
    tensor, out = numbered((12, 8), "<f4"), np.zeros((4, 256), np.uint8)
    trace = launch("multicast", gpusim.TensorMap(tensor, (8, 8)), out, 0b1101, grid=4)
    wanted = tensor[1:9].tobytes()
    assert [row.tobytes() == wanted for row in out] == [True, False, True, True] and (out[1] == 0xEE).all()
    bulks = np.concatenate([chunk.bulks for chunk in trace.chunks()])
    assert bulks["blocks"].tolist() == [0b1101] and bulks["bytes"].tolist() == [256]


@pytest.mark.parametrize("name", ["replace_in_shared", "replace_in_global"])
def test_a_kernel_builds_its_own_map(name: str) -> None:
    tensor, out, place = numbered((9, 20), "<f4"), np.zeros(128, np.uint8), np.zeros(192, np.uint8)
    memory = gpusim.DeviceMemory()
    offset = -place.ctypes.data % 64
    at = memory.keep(tensor.ctypes.data, tensor.nbytes, "tensor", tensor).base
    args = (place[offset:], out, at, 20, 9, 80)
    gpusim.capture(bulk_kernel(SOURCE, name, (9, 0)), 1, 32, args, gpu=(9, 0), shared_bytes=SHARED, memory=memory)
    np.testing.assert_array_equal(out.view(np.float32).reshape(4, 8), tensor[2:6, 1:9])
