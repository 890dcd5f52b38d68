"""How many tokens each expert of a GPU gets.

Mental model: a router gives every token ``top_k`` of the experts. "balanced": all get the same. "power_law_a": the
experts' shares are drawn from a power law p(x) ~ x^-a between 1 and eight tenths of the tokens (between 0.01 and 2
where there are fewer choices than experts) and rounded, and the GPU is the one of ``ep`` with the most: the others wait
for it. Experts that GPUs cannot share out evenly are one more on the first of them (vLLM, determine_expert_map). What
is missing or too much after rounding goes by GPUs in turn, to the least or from the most loaded expert of each.
"power_law_a_together" gives it to the least loaded experts of all, the last ones among equals, so that few choices are
all on one GPU; "power_law_a_heaped" to the most loaded, so that few tokens reach fewer experts. All these are as
aiconfigurator's collector draws them (collector/helper.py, as of 2026, and twice before). "uniform": a router of random
numbers, as vLLM's and SGLang's tuners have (benchmark_moe.py): each token chooses its experts with equal chances, so
that each expert's rows are binomial, and few tokens reach fewer experts than "balanced" ones. Draws are the law's own
quantiles, in a fixed order.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from gpusim.errors import SpecError

_DRAWS = 5
_MOST_OF_TOKENS = 0.8
_PREFIX, _TOGETHER, _HEAPED = "power_law_", "_together", "_heaped"


def expert_rows(tokens: int, experts: int, top_k: int, ep: int, distribution: str) -> tuple[int, ...]:
    """Rows of each expert of the most loaded of ``ep`` GPUs that has any. Raises SpecError for a distribution that is
    not known."""
    return all_expert_rows(tokens, experts, top_k, ep, distribution)[0]


@functools.lru_cache(4096)
def all_expert_rows(
    tokens: int, experts: int, top_k: int, ep: int, distribution: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """:func:`expert_rows`, and the rows of each expert of all other GPUs that has any."""
    if distribution == "balanced":
        return _balanced(tokens, experts, top_k, ep)
    if distribution == "uniform":
        return _most_loaded(_uniform_rows(tokens, experts, top_k), tokens, top_k, ep, False, False)
    if not distribution.startswith(_PREFIX):
        raise SpecError(
            f"a routing's distribution is {distribution!r}: known are balanced, uniform, power_law_A (power_law_1.2), power_law_A_together, power_law_A_heaped"
        )
    together, heaped = distribution.endswith(_TOGETHER), distribution.endswith(_HEAPED)
    try:
        alpha = float(distribution.removeprefix(_PREFIX).removesuffix(_TOGETHER).removesuffix(_HEAPED))
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
    return _most_loaded(shares / shares.sum() * tokens * top_k, tokens, top_k, ep, together, heaped)


def _uniform_rows(tokens: int, experts: int, top_k: int) -> np.ndarray:
    """Quantiles of the number of ``tokens`` that choose an expert, each with a chance of ``top_k`` in ``experts``; what
    these miss of all choices is of the experts with the most."""
    if top_k >= experts:
        return np.full(experts, float(tokens))
    chance, count = top_k / experts, np.arange(tokens)
    # Each number's chance from that of the number before.
    steps = np.log(tokens - count) - np.log(count + 1) + math.log(chance) - math.log1p(-chance)
    chances = np.exp(tokens * math.log1p(-chance) + np.concatenate(([0.0], np.cumsum(steps))))
    rows = np.searchsorted(np.cumsum(chances), (np.arange(experts) + 0.5) / experts)
    missing = tokens * top_k - int(rows.sum())
    for at in range(abs(missing)):
        rows[-1 - at % experts] += np.sign(missing)
    return np.minimum(rows, tokens).astype(float)


def _most_loaded(
    wanted: np.ndarray, tokens: int, top_k: int, ep: int, together: bool, heaped: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rows of the experts of the most loaded of ``ep`` GPUs, which have ``wanted`` in an order by chance, and of those
    of all others: the middle one of :data:`_DRAWS` orders."""
    random = np.random.default_rng(0)
    found = []
    for _ in range(_DRAWS if ep > 1 else 1):
        drawn = random.permutation(wanted)
        if heaped:
            parts = np.array_split(_whole_heaped(drawn, tokens, top_k), ep)
        else:
            parts = np.array_split(_whole_together(drawn, tokens), ep) if together else _whole(drawn, tokens, ep)
        most_loaded = int(np.argmax([part.sum() for part in parts]))
        others = [part for at, part in enumerate(parts) if at != most_loaded]
        found.append((parts[most_loaded], np.concatenate(others) if others else parts[0][:0]))
    own, others = sorted(found, key=lambda part: int(part[0].sum()))[len(found) // 2]
    return _with_rows(own) or (1,), _with_rows(others)


def dispatched_tokens(tokens: int, top_k: int, ep: int, distribution: str, rows: tuple[int, ...]) -> int:
    """Tokens of which the most loaded GPU's experts, which have ``rows`` each, are one choice or more. Of balanced
    choices, which go by GPUs in turn, each is another GPU's as long as there are such; of others, as many as there are
    if experts are chosen independently."""
    if distribution == "balanced":
        return max(1, -(-tokens * min(top_k, ep) // ep))
    none = math.prod(1.0 - min(1.0, each / tokens) for each in rows)
    return max(1, math.ceil(tokens * (1.0 - none)))


def even_expert_rows(tokens: int, experts: int, top_k: int, ep: int) -> tuple[int, ...]:
    """Rows of each expert of a GPU that has any, if all have as many choices."""
    return _balanced(tokens, experts, top_k, ep)[0]


def _with_rows(rows: np.ndarray) -> tuple[int, ...]:
    return tuple(int(each) for each in rows if each)


def _balanced(tokens: int, experts: int, top_k: int, ep: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Choices given out in turn; a GPU has every ``ep``-th expert, so that each has its part."""
    each, more = divmod(tokens * top_k, experts)
    own = np.full(experts, each)
    own[:more] += 1
    first = np.arange(experts) % ep == 0
    return _with_rows(own[first]) or (1,), _with_rows(own[~first])


def _rounded(wanted: np.ndarray, tokens: int) -> tuple[np.ndarray, int]:
    """Whole numbers, no expert more than once a token, and how much is missing."""
    found = np.minimum(np.rint(wanted).astype(np.int64), tokens)
    return found, round(float(wanted.sum())) - int(found.sum())


def _whole_together(wanted: np.ndarray, tokens: int) -> np.ndarray:
    """Rounded; what is missing goes to the least loaded in turn, what is too much comes from these, or where one has
    none from the most loaded."""
    found, missing = _rounded(wanted, tokens)
    order = np.argsort(-found, kind="stable")
    while missing > 0:
        room = order[::-1][found[order[::-1]] < tokens][:missing]
        found[room] += 1
        missing -= len(room)
    for at in range(-missing):
        least = order[-1 - at % len(order)]
        found[least if found[least] else found.argmax()] -= 1
    return found


def _whole_heaped(wanted: np.ndarray, tokens: int, top_k: int) -> np.ndarray:
    """Rounded; what is missing goes to the most loaded in turn, what is too much comes from the least loaded. Of an
    expert that a token has more than once the token takes others instead, the first that it has not."""
    found = np.rint(wanted).astype(np.int64)
    missing = tokens * top_k - int(found.sum())
    order = np.argsort(-found, kind="stable")
    if missing > 0:
        each, more = divmod(missing, len(order))
        found += each
        found[order[:more]] += 1
    for at in range(-missing):
        least = order[-1 - at % len(order)]
        found[least if found[least] else found.argmax()] -= 1
    beyond = int(np.maximum(found - tokens, 0).sum())
    found = np.minimum(found, tokens)
    for at in range(len(found)):
        taken = min(beyond, tokens - int(found[at]))
        found[at] += taken
        beyond -= taken
    return found


def _whole(wanted: np.ndarray, tokens: int, ep: int) -> list[np.ndarray]:
    """Rounded, a part a GPU; what is missing or too much is shared out among the GPUs, and within each levels the least
    or the most loaded."""
    found, missing = _rounded(wanted, tokens)
    parts = np.array_split(found, ep)
    sign = 1 if missing > 0 else -1
    left, most = abs(missing), tokens if missing > 0 else 0
    while left > 0:
        room = [int((most - part).sum()) * sign for part in parts]
        ready = [at for at in range(ep) if room[at]]
        each, more = divmod(left, len(ready))
        for place, at in enumerate(ready):
            share = min(room[at], each + (place < more))
            parts[at] = sign * _levelled(sign * parts[at], share)
            left -= share
    return parts


def _levelled(rows: np.ndarray, more: int) -> np.ndarray:
    """``rows`` after ``more`` was added one by one to whichever is the least."""
    order = np.argsort(rows, kind="stable")
    found = rows[order]
    # To raise the first n rows to the n-th takes so much.
    needed = np.arange(len(found)) * found - np.concatenate(([0], np.cumsum(found)[:-1]))
    raised = int((needed <= more).sum())
    level, rest = divmod(int(more - needed[raised - 1]), raised)
    found[:raised] = found[raised - 1] + level
    found[:rest] += 1
    back = np.empty_like(found)
    back[order] = found
    return back
