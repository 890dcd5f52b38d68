"""A GPU as people write it: ``H200``, ``H200 SXM``, ``a100-80gb``, ``NVIDIA GeForce RTX 4090``.

Mental model: case, spaces, dashes and underscores do not count, nor do the maker and the kind of memory. A description
goes by its name and by its product's name, of which form factor and memory may be left out, unless two descriptions
would then be called the same: then the name is unknown, and the error offers both.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping

_MAKERS = ("nvidia", "geforce", "tesla")
_SIZE = re.compile(r"(\d+)\s*gi?b\b")
_FORM = re.compile(r"sxm\d?|pcie|nvl")
_ARCHITECTURE = re.compile(r"^(?:sm_?|compute_)(\d+)(\d)[af]?$")
_MEMORY_KIND = re.compile(r"hbm\d?e?|gddr\d?x?")


def squeeze(text: str) -> str:
    """``text`` without what does not count."""
    letters = re.sub(r"[^a-z0-9]+", " ", text.casefold()).split()
    return "".join(each for each in letters if each not in _MAKERS and not _MEMORY_KIND.fullmatch(each))


def capability_of(name: str) -> tuple[int, int] | None:
    """``(9, 0)`` of ``sm_90``, ``sm_90a``, ``sm90`` or ``compute_90``; None for what is no architecture's name."""
    match = _ARCHITECTURE.match(name)
    return (int(match.group(1)), int(match.group(2))) if match else None


def called(text: str, titles: Mapping[str, str]) -> list[str]:
    """The names of ``titles`` (name of a description -> its product's name) that ``text`` may mean; one where it is
    clear."""
    asked = squeeze(text)
    exact = [name for name in titles if squeeze(name) == asked]
    return exact or [name for name, title in titles.items() if asked in set(_aliases(title))]


def _aliases(title: str) -> Iterable[str]:
    """The product's name, squeezed, whole and without its form factor or its memory's size."""
    text = title.casefold()
    sizes = [f"{number}gb" for number in _SIZE.findall(text)]
    words = [each for each in re.sub(r"[^a-z0-9]+", " ", _SIZE.sub(" ", text)).split() if each not in _MAKERS]
    forms = [each for each in words if _FORM.fullmatch(each)]
    model = "".join(each for each in words if each not in forms and not _MEMORY_KIND.fullmatch(each))
    form_choices = {"", *forms, *(each.rstrip("0123456789") for each in forms)}
    for chosen in itertools.product(form_choices, {"", *sizes}):
        for order in itertools.permutations(chosen):
            yield model + "".join(order)
