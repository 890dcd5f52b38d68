"""What to say behind "there is no ... called NAME": the names that are near it, or where all of them are listed.

Mental model: a slip of the pen wants the one right name, not a screenful of wrong ones. Near are names that hold the
asked one as a part (``gemm``: ``conv2d_implicit_gemm``), or are like it letter by letter (difflib).
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

MOST_NEAR = 3
#: Likeness (difflib's ratio) from which a name counts as near, and what counts as a part of another.
LEAST_LIKENESS = 0.6
LEAST_PART_LETTERS = 3
#: Names this much less like the asked one than the nearest is are not what was meant.
MOST_BEHIND = 0.25
#: Up to so many names are listed where none is near.
MOST_LISTED = 16


def near(name: str, known: Iterable[str]) -> list[str]:
    """Up to :data:`MOST_NEAR` of the ``known`` names that ``name`` may have meant, the nearest first."""
    asked = name.casefold()
    scored = []
    for place, other in enumerate(known):
        matcher = SequenceMatcher(None, asked, other.casefold(), autojunk=False)
        is_part = len(asked) >= LEAST_PART_LETTERS and asked in other.casefold()
        # Two upper bounds first: the likeness itself takes as long as both names multiplied.
        if not is_part and not all(
            bound() >= LEAST_LIKENESS for bound in (matcher.real_quick_ratio, matcher.quick_ratio)
        ):
            continue
        likeness = matcher.ratio() + LEAST_LIKENESS * is_part
        if likeness >= LEAST_LIKENESS:
            scored.append((-likeness, place, other))
    scored.sort()
    return [other for score, _, other in scored[:MOST_NEAR] if score <= scored[0][0] + MOST_BEHIND]


def hint(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """``did you mean a or b?``; where nothing is near, ``otherwise``, or ``there are a, b, c``
    if they are few or there is no ``otherwise``."""
    names = list(dict.fromkeys(known))
    close = near(name, names)
    if close:
        return f"did you mean {' or '.join(close)}?"
    if otherwise and not 0 < len(names) <= MOST_LISTED:
        return otherwise
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(names[:MOST_LISTED]) or 'none'}{more}"
