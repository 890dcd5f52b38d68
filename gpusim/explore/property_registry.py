"""Properties by name: gpusim's own, those that installed distributions declare, and those that a program registers.

Mental model: a property is an entry point of the group ``gpusim.explore_properties``: its name is what ``--property``
takes, its value the dotted place of a :class:`gpusim.explore.property.Property`. Names are listed without importing
anything of them; a property is imported when it is asked for. One that cannot be imported is a one-line
error, with entry point and distribution, where it is asked for, and disturbs nothing else. A distribution declares its
own in its pyproject.toml::

    [project.entry-points."gpusim.explore_properties"]
    few_elements = "my_package.properties:FewElements"
"""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Callable, Mapping
from typing import Any

from gpusim.errors import GpusimError, UsageError
from gpusim.explore.property import Option, Property
from gpusim.explore.property_names import (
    GROUP,
    OWN,
    REGISTERED,
    Declared,
    declared_properties,
    origin_of,
    property_names,
)
from gpusim.gpus.spec import GpuSpec
from gpusim.io.nearest import hint
from gpusim.io.shown import shown

Maker = Callable[[GpuSpec, Mapping[str, Any]], Property]


_REGISTERED: dict[str, type[Property]] = {}


def register(name: str, make: Maker) -> None:
    """Add a property under ``name`` in this process alone; ``make(gpu, options)`` returns it (a Property's own
    ``make``, or any function). UsageError for a name that is taken."""
    if name in property_names():
        raise UsageError(f"a property called {name} exists already")
    REGISTERED.append(name)
    _REGISTERED[name] = type(f"Registered_{name}", (Property,), {"name": name, "make": staticmethod(make)})


def find_property(name: str) -> type[Property]:
    """The class of the property called ``name``. Raises UsageError for a name that nobody declares, and, naming entry
    point and distribution, for one that cannot be imported, is no property, or is declared by two."""
    if name in _REGISTERED:
        return _REGISTERED[name]
    declared = declared_properties().get(name)
    if not declared:
        raise UsageError(f"no property is called {name!r}; {hint(name, property_names())}")
    first, *others = declared
    if others:
        raise UsageError(f"property {name} is declared twice, as {' and as '.join(map(str, declared))}: uninstall one")
    return _load(first)


def make_property(name: str, gpu: GpuSpec, options: Mapping[str, Any]) -> Property:
    """The property called ``name`` on ``gpu``. ``options``: values of its own options by name, those left out at their
    defaults, and ``threshold`` (a share) for any. Raises what :func:`find_property` and its ``make`` raise."""
    found = find_property(name)
    defaults = {option.name: option.default for option in found.options if option.default is not None}
    try:
        made = found.make(gpu, {**defaults, **options})
    except GpusimError:
        raise
    except Exception as error:
        if name in OWN:
            raise
        raise UsageError(
            f"property {name} cannot be made ({origin_of(name)}): {type(error).__name__}: {error}"
        ) from error
    threshold = options.get("threshold")
    if threshold is not None:
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not math.isfinite(threshold):
            raise UsageError(f"the threshold of property {name} must be a share such as 0.05, not {shown(threshold)}")
        made.threshold = float(threshold)
    return made


def _load(declared: Declared) -> type[Property]:
    point = importlib.metadata.EntryPoint(declared.name, declared.place, GROUP)
    try:
        found = point.load()
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"property {declared.name} cannot be loaded ({declared}): {type(error).__name__}: {error}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Property)):
        raise UsageError(
            f"property {declared.name} cannot be used ({declared}): it is no gpusim.explore.property.Property"
        )
    if not all(isinstance(option, Option) and option.name.isidentifier() for option in found.options):
        raise UsageError(
            f"property {declared.name} cannot be used ({declared}): its options are no gpusim.explore.property.Option"
        )
    return found


__all__ = [
    "GROUP",
    "OWN",
    "Declared",
    "Maker",
    "find_property",
    "make_property",
    "origin_of",
    "property_names",
    "register",
]
