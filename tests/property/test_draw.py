"""Does Hypothesis draw what a search asks for, the same for the same seed, and stop where it should?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis import target

from gpusim.explore.draw import draw_shapes

FREE = {
    "wide": st.fixed_dictionaries({"n": st.integers(1, 1000)}),
    "tall": st.fixed_dictionaries({"m": st.integers(1, 1000), "k": st.integers(1, 9)}),
}


def drawn(seed: int, draws: int = 40, **options: Any) -> list[tuple[str, dict[str, int]]]:
    seen: list[tuple[str, dict[str, int]]] = []
    draw_shapes(FREE, seed, draws, lambda kernel, shape: seen.append((kernel, shape)), **options)
    return seen


def test_the_same_seed_draws_the_same_of_every_kernel() -> None:
    assert drawn(3) == drawn(3) != drawn(4)
    assert {kernel for kernel, _ in drawn(3)} == set(FREE)
    assert len(drawn(3)) == 40


def test_half_of_the_draws_climb_towards_a_target() -> None:
    seen: list[int] = []

    def on_shape(kernel: str, shape: dict[str, int]) -> None:
        seen.append(shape.get("n", 0))
        target(float(seen[-1]), label="n")

    draw_shapes(FREE, 0, 60, on_shape)
    assert max(seen[30:]) > max(seen[:30])


def test_no_more_draws_are_begun_than_allowed() -> None:
    begun = 0

    def count(value: int) -> dict[str, int]:
        nonlocal begun
        begun += 1
        return {"n": value % 2}

    draw_shapes({"few": st.integers(0, 10**6).map(count)}, 0, 1000, lambda kernel, shape: None, most_begun=70)
    assert begun <= 70
    assert drawn(3, most_begun=10) == drawn(3)[: len(drawn(3, most_begun=10))]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_stops_the_search_comes_through(error: type[BaseException]) -> None:
    def on_shape(kernel: str, shape: dict[str, int]) -> None:
        raise error

    with pytest.raises(error):
        draw_shapes(FREE, 0, 40, on_shape)


def test_numbers_of_source_files_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis would look for some in every module of gpusim, whichever are imported, and keep them in a folder."""
    providers = pytest.importorskip("hypothesis.internal.conjecture.providers")
    looked: list[None] = []
    monkeypatch.setattr(providers, "_get_local_constants", lambda: looked.append(None), raising=False)
    assert len(drawn(3)) == 40 and not looked
    assert providers._get_local_constants() is None and looked  # it is put back
