"""How many tokens each expert of a GPU gets.

Mental model: a router gives every token ``top_k`` of the experts. "balanced": all get the same. "power_law_a": the experts' shares are drawn from a power
law p(x) ~ x^-a between 1 and eight tenths of the tokens (between 0.01 and 2 where there are fewer choices than experts), as aiconfigurator's collector draws
them, and the GPU is the one of ``ep`` with the most: the others wait for it. Here the draws are the law's own quantiles, in a fixed order.
"""

from __future__ import annotations

import functools

import numpy as np

from gpusim.errors import SpecError

_DRAWS = 15
_MOST_OF_TOKENS = 0.8
_PREFIX = "power_law_"


@functools.lru_cache(4096)
def expert_rows(tokens: int, experts: int, top_k: int, ep: int, distribution: str) -> tuple[int, ...]:
    """Rows of each expert of the most loaded of ``ep`` GPUs that has any. Raises SpecError for a distribution that is not known."""
    if distribution == "balanced":
        return _balanced(tokens, experts, top_k, ep)
    if not distribution.startswith(_PREFIX):
        raise SpecError(
            f"a routing's distribution is {distribution!r}: known are balanced, power_law_A (power_law_1.2)"
        )
    try:
        alpha = float(distribution.removeprefix(_PREFIX))
    except ValueError:
        alpha = 0.0
    if not 0 < alpha < 10:
        raise SpecError(f"a routing's distribution is {distribution!r}: its exponent is no number between 0 and 10")
    least, most = (1.0, max(1.0, tokens * _MOST_OF_TOKENS)) if tokens * top_k > experts else (0.01, 2.0)
    place = (np.arange(experts) + 0.5) / experts
    power = 1.0 - alpha
    if abs(power) < 1e-6:
        shares = least * (most / least) ** place
    else:
        shares = (least**power + place * (most**power - least**power)) ** (1.0 / power)
    rows = _whole(shares / shares.sum() * tokens * top_k, tokens)
    return tuple(int(each) for each in _most_loaded(rows, ep) if each) or (1,)


def _balanced(tokens: int, experts: int, top_k: int, ep: int) -> tuple[int, ...]:
    """Choices given out in turn; a GPU has every ``ep``-th expert, so that each has its part."""
    each, more = divmod(tokens * top_k, experts)
    own = np.full(experts, each)
    own[:more] += 1
    return tuple(int(rows) for rows in own[::ep] if rows) or (1,)


def _whole(rows: np.ndarray, tokens: int) -> np.ndarray:
    """Whole numbers with the same sum; no expert gets a token twice."""
    total = round(float(rows.sum()))
    found = np.minimum(np.floor(rows), tokens).astype(np.int64)
    for at in np.argsort(-(rows - np.floor(rows))):
        if found.sum() >= total:
            break
        found[at] += found[at] < tokens
    while (missing := total - int(found.sum())) > 0:
        room = np.flatnonzero(found < tokens)
        found[room[-missing:]] += 1
    return found


def _most_loaded(rows: np.ndarray, ep: int) -> np.ndarray:
    """Of several orders of the experts the one whose most loaded GPU is in the middle, and that GPU's."""
    if ep == 1:
        return rows
    random = np.random.default_rng(0)
    found = []
    for _ in range(_DRAWS):
        parts = random.permutation(rows).reshape(ep, -1)
        found.append(parts[int(parts.sum(axis=1).argmax())])
    return sorted(found, key=lambda part: int(part.sum()))[_DRAWS // 2]
