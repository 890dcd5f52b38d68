"""Let Hypothesis draw shapes: of several kernels at once, so that ``target()`` may choose the kernel too.

Mental model: a property test whose body only looks at the shape that it is given. Hypothesis generates half of the draws
and, where the body names a ``target()``, climbs towards it with the other half.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st

Shape = dict[str, Any]


class _StopDrawing(KeyboardInterrupt):
    """Ends Hypothesis's drawing early, as somebody at the keyboard would: anything else it takes for a finding."""


def draw_shapes(
    strategies: Mapping[str, st.SearchStrategy[Shape]],
    seed: int,
    draws: int,
    on_shape: Callable[[str, Shape], None],
    *,
    most_begun: int | None = None,
) -> None:
    """Show ``on_shape`` up to ``draws`` shapes, each with its kernel, of ``strategies`` (kernel -> shapes); the same ones for the
    same ``seed``. ``most_begun``: draws that may be begun, None for any number: a climb begins, and gives up, thousands
    where nothing nearby is better, and Hypothesis counts none of them. Raises what ``on_shape`` raises."""
    begun = 0

    def begin(kernel: str) -> st.SearchStrategy[tuple[str, Shape]]:
        nonlocal begun
        begun += 1
        if most_begun is not None and begun > most_begun:
            raise _StopDrawing(f"{begun} draws were begun for {draws}")
        return st.tuples(st.just(kernel), strategies[kernel])

    @with_seed(seed)
    @settings(
        max_examples=draws,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.target),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(list(strategies)).flatmap(begin))
    def draw(drawn: tuple[str, Shape]) -> None:
        on_shape(*drawn)

    with contextlib.suppress(_StopDrawing):
        draw()
