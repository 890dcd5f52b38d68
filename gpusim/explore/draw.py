"""Let Hypothesis draw shapes: of several kernels at once, so that ``target()`` may choose the kernel too.

Mental model: a property test whose body only looks at the shape that it is given. Hypothesis generates half of the
draws and, where the body names a ``target()``, climbs towards it with the other half.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st

Shape = dict[str, Any]


#: What Hypothesis keeps of numbers that stand in source files, by its version; under these names since 6.131.
_CONSTANTS = ("_get_local_constants", "CONSTANTS_CACHE")


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
    """Show ``on_shape`` up to ``draws`` shapes, each with its kernel, of ``strategies`` (kernel -> shapes); the same
    ones for the same ``seed``. ``most_begun``: draws that may be begun, None for any number: a climb begins, and gives
    up, thousands where nothing nearby is better, and Hypothesis counts none of them. Raises what ``on_shape``
    raises."""
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

    with contextlib.suppress(_StopDrawing), without_constants_of_source_files():
        draw()


@contextlib.contextmanager
def without_constants_of_source_files() -> Iterator[None]:
    """Hypothesis likes to draw numbers that stand in the project's source. It reads every imported module outside of
    site-packages for them, which takes seconds, and keeps what it finds in a folder .hypothesis where the command was
    called; and the same seed would draw other shapes where gpusim lies elsewhere or other modules have been
    imported."""
    try:
        providers: Any = importlib.import_module("hypothesis.internal.conjecture.providers")
        before = {name: getattr(providers, name) for name in _CONSTANTS}
        nothing = importlib.import_module("hypothesis.internal.constants_ast").Constants()
    except (ImportError, AttributeError):  # a Hypothesis that does not
        yield
        return
    providers._get_local_constants = lambda: nothing
    providers.CONSTANTS_CACHE = type(providers.CONSTANTS_CACHE)(1024)  # what it has found in them is kept there
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(providers, name, value)
