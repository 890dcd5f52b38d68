"""The join finds the launch that a row measured, by whatever the row says, and never a wrong one."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpusim.compare.join import LaunchFacts, join
from gpusim.silicon.row import SiliconRow

KERNELS = ("saxpy", "transpose", "softmax")


def launches_of(kernel: str, shape: int, count: int) -> list[LaunchFacts]:
    return [
        LaunchFacts(
            kernel, f"n={shape}", i, f"{kernel}_step", (shape, 1, i + 1), (128, 1, 1), f"{kernel}-code", count == 1
        )
        for i in range(count)
    ]


suites = st.dictionaries(
    st.tuples(st.sampled_from(KERNELS), st.integers(1, 4)), st.integers(1, 3), min_size=1, max_size=6
).map(lambda cases: [lau for (kernel, shape), count in cases.items() for lau in launches_of(kernel, shape, count)])


def row_of(launch: LaunchFacts, **changes) -> SiliconRow:
    row = SiliconRow(
        launch.kernel, launch.shape, launch.index, launch.grid, launch.block, cubin_hash=launch.cubin_hash, gpu="h200"
    )
    return replace(row, **changes)


@given(suites, st.integers(0, 99))
def test_every_row_finds_its_launch_by_machine_code(launches, seed) -> None:
    rows = [row_of(launch) for launch in launches]
    random.Random(seed).shuffle(rows)
    joined = join(rows, launches)
    assert not joined.unmatched and not joined.unmeasured
    assert all(p.how == "cubin" and p.row == row_of(p.launch) and not p.note for p in joined.pairs)


@given(suites)
def test_other_machine_code_joins_by_shape_and_says_so(launches) -> None:
    joined = join([row_of(launch, cubin_hash="other") for launch in launches], launches)
    assert [p.launch for p in joined.pairs] == launches
    assert all(p.how == "shape" and "other machine code" in p.note for p in joined.pairs)


@given(suites)
def test_a_profilers_name_joins_by_function_grid_and_block_or_not_at_all(launches) -> None:
    for launch in launches:
        mangled = f"_ZN6kernel{len(launch.function)}{launch.function}B2v1E"
        for name in (mangled, f"{launch.function}(float, int)", f"ns::{launch.function}"):
            joined = join([SiliconRow(name, grid=launch.grid, block=launch.block)], launches)
            assert [(p.launch, p.how) for p in joined.pairs] == [(launch, "function")]
    assert not join([SiliconRow(launches[0].function)], launches).pairs  # without a grid a name is not enough


@given(suites, st.data())
def test_a_contradiction_is_named_and_never_joined(launches, data) -> None:
    launch = data.draw(st.sampled_from(launches))
    for change, word in (
        ({"shape": "n=99", "cubin_hash": ""}, "measured with n=99"),
        ({"grid": (77, 7, 7)}, "grid 77x7x7"),
        ({"block": (64, 1, 1)}, "measured with"),
        ({"kernel": "gemm", "cubin_hash": "gone", "grid": None}, "gemm"),
    ):
        joined = join([row_of(launch, **change)], launches)
        assert not joined.pairs and word in joined.unmatched[0][1], joined
        assert set(joined.unmeasured) == set(launches)


def test_a_row_without_a_shape_joins_where_only_one_launch_fits() -> None:
    one, two = launches_of("saxpy", 1, 1)[0], launches_of("saxpy", 2, 1)[0]
    bare = SiliconRow("saxpy", cubin_hash="saxpy-code")
    assert [p.launch for p in join([bare], [one]).pairs] == [one]
    ((_, reason),) = join([bare], [one, two]).unmatched
    assert "fits 2 launches" in reason
    (pair,) = join([SiliconRow("saxpy")], [one]).pairs
    assert pair.note == "no shape was recorded: n=1 taken"


def test_cold_and_warm_rows_share_a_launch() -> None:
    (launch,) = launches_of("saxpy", 1, 1)
    joined = join([row_of(launch, cache="cold"), row_of(launch, cache="warm")], [launch])
    assert [p.launch for p in joined.pairs] == [launch, launch]
