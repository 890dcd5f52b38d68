"""The names of the properties that there are, and who declares each, without importing any of them.

Mental model: as :mod:`gpusim.explore.property_registry` says, which finds and makes the properties themselves.
"""

from __future__ import annotations

import functools
import importlib.metadata
import sys
from dataclasses import dataclass

from gpusim.explore.own_properties import OWN_PROPERTIES

GROUP = "gpusim.explore_properties"
OWN_DISTRIBUTION = "gpusim"
#: gpusim's own with their places, as pyproject.toml declares them.
OWN = {name: own.place for name, own in OWN_PROPERTIES.items()}
#: Names of those that this process alone knows (:func:`gpusim.explore.property_registry.register`).
REGISTERED: list[str] = []


@dataclass(frozen=True)
class Declared:
    """A property that is declared: by which ``distribution`` and at which dotted place, ``module:class``."""

    name: str
    place: str
    distribution: str

    def __str__(self) -> str:
        return f"entry point {self.name} = {self.place} of distribution {self.distribution}"


def property_names() -> list[str]:
    """All properties: gpusim's own, then those of other distributions by name, then those that were registered."""
    return [*declared_properties(), *(name for name in REGISTERED if name not in declared_properties())]


def origin_of(name: str) -> str:
    """Who declares the property called ``name``: entry point and distribution, or this process."""
    declared = declared_properties().get(name)
    return str(declared[0]) if declared else "registered in this process"


def declared_properties() -> dict[str, tuple[Declared, ...]]:
    """Name -> who declares it; several only where two differ."""
    return _declared_on(tuple(sys.path))


@functools.lru_cache(maxsize=4)
def _declared_on(_path: tuple[str, ...]) -> dict[str, tuple[Declared, ...]]:
    """Name -> who declares it on the path of modules; several only where two differ."""
    found: dict[str, tuple[Declared, ...]] = {
        name: (Declared(name, place, OWN_DISTRIBUTION),) for name, place in OWN.items()
    }
    others = {
        Declared(point.name, point.value, point.dist.name if point.dist else "unknown")
        for point in importlib.metadata.entry_points(group=GROUP)
    }
    for each in sorted(others, key=lambda each: (each.name, each.distribution, each.place)):
        # gpusim's own stand above, whatever metadata of an older day or another distribution says of their names.
        if each.name not in OWN and each.distribution != OWN_DISTRIBUTION:
            found[each.name] = (*found.get(each.name, ()), each)
    return found
