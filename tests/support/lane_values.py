"""Values for all lanes of a warp, drawn at once.

Mental model: Hypothesis draws one seed, and the lanes' values come of it: edges half of the time, else any value of the
range. Drawn one by one, a hundred values take Hypothesis longer than the emulator takes to run what they are for. What
is lost is shrinking a lane's value; an assertion that compares lanes names the one that differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import strategies as st

LANES = 32
SEEDS = st.integers(0, 2**64 - 1)


def values(random: Random, edges: Sequence[int], most: int, count: int = LANES) -> list[int]:
    """``count`` values from 0 to ``most``, every other one of ``edges``."""
    return [random.choice(edges) if random.random() < 0.5 else random.randint(0, most) for _ in range(count)]


def lanes(edges: Sequence[int], most: int, count: int = LANES) -> st.SearchStrategy[list[int]]:
    """Lists of ``count`` values, each an edge or anything from 0 to ``most``."""
    edges = list(edges)
    return SEEDS.map(lambda seed: values(Random(seed), edges, most, count))
