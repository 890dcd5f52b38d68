"""Is a board that an external set was measured on described by its own file as by the settings with which the set is
predicted?"""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest
from validation.sets import load_sets

from gpusim.gpus import load_gpu, override_gpu
from gpusim.gpus.load import known_keys
from gpusim.gpus.spec import GpuSpec
from gpusim.silicon.names import gpu_of_device

SETS = {one.name: one.entry for one in load_sets()}
#: Set -> the file of its board, and the clocks of the run, which are not the data sheet's.
BOARDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "patterns_rtx2080ti": ("rtx2080ti", ("clock_hz",)),
    "patterns_titan_v": ("titan_v", ("clock_hz",)),
    "textbook_rtx3080": ("rtx3080", ("clock_hz",)),
    "training_rtx3070": ("rtx3070", ("clock_hz",)),
    "filters_rtx3060": ("rtx3060", ("clock_hz",)),
    "teaching_rtx4060ti": ("rtx4060ti", ("clock_hz",)),
    "patterns_rtx4070": ("rtx4070", ("clock_hz",)),
    "warp_ladder_rtx4070ti_super": ("rtx4070ti_super", ("clock_hz", "dram.peak_bytes_per_ns")),
    "gems_h20": ("h20_141gb", ()),
    "column_sums_rtx2070_super": ("rtx2070_super", ()),
    "mixed_intensity_rtx2070": ("rtx2070", ("clock_hz",)),
    "ladders_rtx3070ti_laptop": ("rtx3070ti_laptop", ("clock_hz",)),
    "operators_rtx5080_laptop": ("rtx5080_laptop", ("clock_hz",)),
}
#: Sets whose boards have no file: one that NVIDIA lists nowhere (an H100's SMs beside six stacks of HBM2e).
WITHOUT_FILE = {"study_h100"}
#: What the settings leave as the relative has it because no row of theirs asks for it: what the board is called, may
#: take and is linked by.
BESIDE = ("title", "board.", "node.")
#: Rates of tensor cores that differ from the relative's, which no row of the sets uses.
TENSOR = {"rtx2080ti": {"tensor.f16_macs_per_cycle"}}


def values(spec: GpuSpec) -> dict[str, Any]:
    """Key -> value, but for the link between L2's partitions where there is one."""

    def part(owner: Any, name: str) -> Any:
        return owner.get(name) if isinstance(owner, dict) else getattr(owner, name)

    found = {key: reduce(part, key.split("."), spec) for key in known_keys()}
    if spec.l2.partitions == 1:
        del found["l2.partition_link_bytes_per_ns"]
    return {key: value for key, value in found.items() if not key.startswith(BESIDE)}


def same(own: object, wanted: object) -> bool:
    """Files state five digits."""
    return own == (pytest.approx(wanted, rel=1e-4) if isinstance(wanted, float) else wanted)


@pytest.mark.parametrize("name", BOARDS)
def test_a_boards_file_at_the_clocks_of_the_run_is_what_the_settings_make(name: str) -> None:
    measured, (board, clocks) = SETS[name], BOARDS[name]
    of_run = [each for each in measured["settings"] if each.partition("=")[0] in clocks]
    assert len(of_run) == len(clocks)
    own = values(override_gpu(load_gpu(board), of_run))
    wanted = values(override_gpu(load_gpu(measured["gpu"]), measured["settings"]))
    differing = {key for key, value in wanted.items() if not same(own[key], value)}
    assert differing == TENSOR.get(board, set())


def test_every_set_that_is_predicted_by_more_settings_than_clocks_has_its_boards_file() -> None:
    settings = {name: {each.partition("=")[0] for each in one["settings"]} for name, one in SETS.items()}
    assert {name for name, keys in settings.items() if keys - {"clock_hz"}} == BOARDS.keys() | WITHOUT_FILE


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA GeForce RTX 2080 Ti", "rtx2080ti"),
        ("TITAN V", "titan_v"),
        ("NVIDIA TITAN RTX", "titan_rtx"),
        ("NVIDIA GeForce RTX 2070 SUPER", "rtx2070_super"),
        ("NVIDIA GeForce RTX 2070", "rtx2070"),
        ("NVIDIA GeForce RTX 3070 Ti Laptop GPU", "rtx3070ti_laptop"),
        ("NVIDIA GeForce RTX 5080 Laptop GPU", "rtx5080_laptop"),
        ("NVIDIA GeForce RTX 4060 Ti", "rtx4060ti"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "rtx4070ti_super"),
        ("NVIDIA GeForce RTX 4070 Ti", ""),
        ("NVIDIA GeForce RTX 3080", ""),  # of 10 or 12 GB
        ("NVIDIA GeForce RTX 4070", ""),  # with GDDR6X or GDDR6
    ],
)
def test_a_drivers_name_maps_to_a_board_where_it_tells_the_variant(device: str, name: str) -> None:
    assert gpu_of_device(device) == name
