"""Do the kernels over grids that are predicted for validation leave NumPy's result, and is each row predicted on its
own GPU?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from validation.recordings import recordings
from validation.sets import described_as, gpu_of, load_sets

import gpusim
from gpusim.gpus.load import list_gpus
from workloads.external import grid_families as families
from workloads.external.launches import CudaKernel
from workloads.external.relaxation_families import laplace

pytestmark = pytest.mark.usefixtures("without_source_lines")

_SIDE = 4
_PAIRS = np.array(
    [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1), (1, -1, 0), (1, 0, -1), (0, 1, -1)]
)
#: Velocities in the kernel's order, and their weights.
_VELOCITIES = np.concatenate([[(0, 0, 0)], np.stack([_PAIRS, -_PAIRS], 1).reshape(-1, 3)])
_WEIGHTS = np.array([1 / 3, *(6 * [1 / 18]), *(12 * [1 / 36])])
_RATE = 1 / 3.5


def run(timed: Any, args: tuple) -> None:
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu="a100_80gb", shared_bytes=timed.shared_bytes)


def stepped(held: np.ndarray) -> np.ndarray:
    """What an odd step makes of populations less their weights, [19, z, y, x]: taken from where they lie, relaxed, and
    put back crosswise."""
    cells = held.reshape(19, _SIDE, _SIDE, _SIDE).astype(np.float64)

    def from_neighbour(plane: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        return np.roll(plane, tuple(-velocity[::-1]), (0, 1, 2))

    f = cells.copy()
    for i in range(1, 19, 2):
        f[i + 1] = from_neighbour(cells[i + 1], _VELOCITIES[i])
    density = 1 + f.sum(0)
    u = np.einsum("ia,izyx->azyx", _VELOCITIES, f) / density
    along = np.einsum("ia,azyx->izyx", _VELOCITIES, u)
    square = (u**2).sum(0)
    wanted = _WEIGHTS[:, None, None, None] * (density * (1 + 3 * along + 4.5 * along**2 - 1.5 * square) - 1)
    f += _RATE * (wanted - f)
    out = f.copy()
    for i in range(1, 19, 2):
        out[i + 1] = np.roll(f[i], tuple(_VELOCITIES[i][::-1]), (0, 1, 2))
        out[i] = f[i + 1]
    return out.reshape(held.shape)


def held_as(form: str, values: np.ndarray) -> np.ndarray:
    if form == "fp32":
        return values.astype(np.float32)
    if form == "fp16s":
        return (values * 2.0**15).astype(np.float16).view(np.uint16)
    sign = (values < 0).astype(np.uint16) << 15
    fraction, exponent = np.frexp(np.abs(values))  # 0.5 <= fraction < 1
    return (sign | (exponent + 14).astype(np.uint16) << 11 | ((2 * fraction - 1) * 2048).astype(np.uint16)).astype(
        np.uint16
    )


def value_of(form: str, held: np.ndarray) -> np.ndarray:
    if form == "fp32":
        return held
    if form == "fp16s":
        return held.view(np.float16).astype(np.float64) / 2**15
    exponent, mantissa = (held >> 11 & 15).astype(int), (held & 2047).astype(float)
    size = np.where(exponent > 0, (1 + mantissa / 2048) * 2.0 ** (exponent - 15), mantissa * 2.0**-25)
    return np.where(held >> 15, -size, size)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("form", "error"), [("fp32", 1e-6), ("fp16s", 4e-5), ("fp16c", 4e-5)])
def test_a_step_of_the_lattice(form: str, error: float) -> None:
    timed = families.lattice({"format": form, "side": _SIDE}, None)
    cells, flags, step = timed.arguments(None)
    cells[...] = held_as(form, np.random.default_rng(0).uniform(-0.02, 0.02, cells.shape))
    flags[7] = 1
    before = cells.copy()
    run(timed, (cells, np.zeros_like(flags), step))
    np.testing.assert_allclose(value_of(form, cells), stepped(value_of(form, before)), atol=error)
    again = before.copy()
    run(timed, (again, flags, step))
    assert np.any(again[0] != before[0]) and again[0, 7] == before[0, 7]


def filtered(row: dict[str, Any], folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(input, mask, what the kernel leaves), the input and the mask drawn at random; a mask in constant memory is
    written into the source."""
    timed = families.filters(row, None)
    args = timed.arguments(None)
    values, *others = [each for each in args if isinstance(each, np.ndarray)]
    width = row["mask"] ** 2 if row["kernel"].startswith("image") else row["mask"]
    weights = np.random.default_rng(1).uniform(-0.5, 1, width).astype(np.float32)
    values[...] = np.random.default_rng(0).random(values.shape, np.float32)
    kernel = timed.kernel
    if len(others) == 2:
        others[0][...] = weights
    else:
        given = "mask_of[MOST] = {" + ", ".join(f"{w:.9g}f" for w in weights) + "};"
        source = folder / "filters.cu"
        source.write_text(timed.kernel.source.read_text().replace("mask_of[MOST];", given))
        kernel = CudaKernel(source, timed.kernel.entry)
    run(dataclasses.replace(timed, kernel=kernel), args)
    return values, weights, others[-1]


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel", ["row_global", "row_constant", "row_tiled", "row_cached"])
def test_a_filter_of_rows(kernel: str, tmp_path: Path) -> None:
    row = {"kernel": kernel, "size": 128, "mask": 5, "block": 64, "channels": 1}
    values, weights, left = filtered(row, tmp_path)
    wanted = np.correlate(np.pad(values, 2).astype(np.float64), weights, "valid")
    np.testing.assert_allclose(left, np.clip(wanted, 0, 1), rtol=1e-5)
    assert 0 < (left == 1).sum() < left.size


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel", ["image_global", "image_constant", "image_tiled"])
def test_a_filter_of_an_image(kernel: str, tmp_path: Path) -> None:
    row = {"kernel": kernel, "size": 16, "mask": 3, "block": 8, "channels": 2}
    values, weights, left = filtered(row, tmp_path)
    image = np.pad(values.reshape(16, 16, 2).astype(np.float64), ((1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(0, 1))
    wanted = np.clip((windows * weights.reshape(3, 3)).sum(axis=(-2, -1)), 0, 1)
    np.testing.assert_allclose(left.reshape(16, 16, 2), wanted, rtol=1e-5)


def test_a_set_of_several_gpus_is_recorded_gpu_by_gpu() -> None:
    (one,) = load_sets(["lattice_boltzmann"])
    own = {gpu_of(one.entry, row) for row in one.rows}
    assert len(own) == 15 and own <= set(list_gpus()) and described_as(one.entry) == ("each row's gpu",)
    halves: dict[str, set[str]] = {}
    for row in one.rows:
        assert families.lattice(row.values, None).grid == (1 << 18,)
        halves.setdefault(gpu_of(one.entry, row), set()).add(row.half)
    assert all(len(half) == 1 for half in halves.values())
    never = [each for each in recordings([], {}) if each.source == "lattice_boltzmann"]
    assert {each.gpu for each in never} == own and all(each.rows == 3 for each in never)
    (filters,) = load_sets(["filters_rtx3060"])
    assert filters.left_out == 7 and all(families.filters(row.values, None).streams for row in filters.rows)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("element", ["float", "half", "float4", "half2"])
def test_a_relaxation_takes_the_mean_of_four_neighbours_and_the_copy_takes_it_back(element: str) -> None:
    side, row = 128, {"element": element, "side": "128"}
    kind = np.float16 if element.startswith("half") else np.float32
    lanes = {"float4": 4, "half2": 2}.get(element, 1)
    now = np.random.default_rng(5).integers(0, 9, (side, side)).astype(kind)
    around, flat = np.zeros(side * side, np.float64), now.reshape(-1).astype(np.float64)
    for step in (-side, -1, 1, side):
        around += np.roll(flat, -step)
    # Vectors leave the first one of a row alone, single elements the first and the last one.
    inside = np.s_[1:-1, lanes : side if lanes > 1 else -1]
    wanted = np.zeros((side, side))
    wanted[inside] = around.reshape(side, side)[inside] / 4

    following, before = np.zeros_like(now), now.copy()
    held = (array.view(np.uint16) if kind is np.float16 else array for array in (following, now))
    args = (side - 2, side - 2, *held)
    run(laplace(row | {"kernel": "relax"}), args)
    np.testing.assert_array_equal(following, wanted.astype(kind))

    run(laplace(row | {"kernel": "take_back"}), args)
    before[inside] = following[inside]
    np.testing.assert_array_equal(now, before)
