"""From a kernel's name to what it says, for one name or for all of a recording.

Mental model: the library's own rules first, each of which knows its own names and leaves others alone; then words that
people call kernels by. Mangled symbols are resolved together, by the C++ runtime's demangler in a process of its own
(:mod:`gpusim.io.cpp_names`); :func:`parse_name` alone reads what stands in the symbol. Names are read as data: at most
MOST_LETTERS letters of each, each a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from gpusim.io.cpp_names import demangled
from gpusim.production.names.communication import collective, exchange, transfer
from gpusim.production.names.compilers import compiled
from gpusim.production.names.frameworks import pytorch
from gpusim.production.names.kernel_name import UNKNOWN, KernelName
from gpusim.production.names.keywords import by_keywords, library_of
from gpusim.production.names.products import product
from gpusim.production.names.split import split_name
from gpusim.production.names.templates import template

_RULES = (transfer, collective, product, template, pytorch, compiled)
_MOST_FUNCTION = 120


@lru_cache(maxsize=1 << 14)
def parse_name(name: str) -> KernelName:
    """What ``name`` says; all UNKNOWN for the empty one. Raises nothing, whatever it is given."""
    split = split_name(name)
    if not split.text:
        return KernelName()
    found = next((found for rule in _RULES if (found := rule(split)) is not None), None)
    if found is None:
        found = exchange(split) or by_keywords(split)
    if found.library == UNKNOWN:
        found = replace(found, library=library_of(split))
    return replace(found, function=(found.function or UNKNOWN)[:_MOST_FUNCTION])


def parse_names(names: Iterable[str]) -> dict[str, KernelName]:
    """Each of ``names`` with what it says, mangled ones by their declaration."""
    every = tuple(dict.fromkeys(names))
    known = demangled(tuple(name for name in every if name.startswith("_Z")))
    return {name: _fuller(parse_name(known[name]), name) if name in known else parse_name(name) for name in every}


def _fuller(declared: KernelName, name: str) -> KernelName:
    return declared if declared.is_known else parse_name(name)
