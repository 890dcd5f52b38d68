"""The versions that a bisection goes through, and where each lies or comes from."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from gpusim.bisect.compilers import VersionPlace
from gpusim.bisect.install import offered_versions, packages_of, toolchain_folder
from gpusim.bisect.installed import installed_versions
from gpusim.bisect.versions import PYTHON, Wanted
from gpusim.errors import ToolchainError, UsageError
from gpusim.io.cache_folder import cache_folder


def version_places(
    wanted: Wanted,
    folders: Sequence[Path],
    *,
    install: bool = False,
    ends: tuple[str | None, str | None] = (None, None),
) -> list[VersionPlace]:
    """The wanted versions in order, of ``folders``, of this environment, of what was installed before, and with
    ``install`` of those that pip offers. ``ends``: a first and last version in place of the order's own. Raises
    ToolchainError where there are fewer than two, UsageError for an end that is none of them."""
    if wanted.tool == PYTHON:
        places = [VersionPlace(each, None) for each in wanted.listed]
    else:
        own = [Path(sys.prefix), *([toolchain_folder()] if cache_folder() is not None else [])]
        here = installed_versions(wanted.tool, [*folders, *own])
        offered = offered_versions(wanted.tool) if install else {}
        found = wanted.ordered({*here, *offered})
        places = [VersionPlace(version, here.get(version), offered.get(version, "")) for version in found]
        missing = [version for version in wanted.listed if version not in found]
        if missing or len(places) < 2:
            there = ", ".join(sorted(here)) or "none"
            raise ToolchainError(
                f"{wanted.tool}: {'no version ' + missing[0] if missing else f'{len(places)} of the wanted versions'} is here (found: {there});"
                f" name folders with more by --toolchains DIR (pip install --target DIR/VERSION {packages_of(wanted.tool)[-1]}==VERSION), or give --install"
            )
    names = [place.version for place in places]
    for end in filter(None, ends):
        if end not in names:
            raise UsageError(f"{end} is none of the versions of {wanted.tool}: {', '.join(names)}")
    first = names.index(ends[0]) if ends[0] else 0
    last = names.index(ends[1]) if ends[1] else len(names) - 1
    if first >= last:
        raise UsageError(f"{names[first]} does not come before {names[last]}: GOOD is the older version")
    return places[first : last + 1]
