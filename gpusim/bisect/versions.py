"""A tool and which of its versions, as a command line writes them: ``ptxas=12.9..13.1``, ``nvrtc=12.9.86,13.0.88``,
``python=a/bin/python,b/bin/python``.

Mental model: a range takes every version from the first, with all that begins like it, to the last, with all that
begins like it; a list takes these, in the order written. Raises UsageError.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpusim.errors import UsageError

_TOOL = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
_VERSION = re.compile(r"\d{1,9}(\.\d{1,9}){0,5}")
#: The tool whose versions are interpreters, with all that is installed beside them.
PYTHON = "python"


@dataclass(frozen=True)
class Wanted:
    """Versions of ``tool``: ``listed`` in order, or from ``first`` to ``last``."""

    tool: str
    listed: tuple[str, ...] = ()
    first: str = ""
    last: str = ""

    def takes(self, version: str) -> bool:
        """Whether ``version`` is among them."""
        if self.listed:
            return version in self.listed
        parts = numbers(version)
        low, high = numbers(self.first), numbers(self.last)
        return low <= parts and parts[: len(high)] <= high

    def ordered(self, versions: set[str]) -> list[str]:
        """Those of ``versions`` that are wanted, in order."""
        if self.listed:
            return [version for version in self.listed if version in versions]
        return sorted(filter(self.takes, versions), key=numbers)


def parse_toolchain(text: str) -> Wanted:
    """``TOOL=FIRST..LAST`` or ``TOOL=VERSION,VERSION...``."""
    tool, equals, rest = (part.strip() for part in text.partition("="))
    form = f"--toolchain {text!r:.80}: expected TOOL=FIRST..LAST or TOOL=VERSION,VERSION, such as ptxas=12.9..13.1"
    if not equals or not _TOOL.fullmatch(tool) or not rest:
        raise UsageError(form)
    if tool == PYTHON:
        listed = tuple(part.strip() for part in rest.split(",") if part.strip())
        if len(set(listed)) < 2:
            raise UsageError(
                f"--toolchain {text!r:.80}: name two interpreters or more, python=OLD/bin/python,NEW/bin/python"
            )
        return Wanted(tool, listed)
    first, dots, last = rest.partition("..")
    versions = (first, last) if dots else tuple(part.strip() for part in rest.split(","))
    if not all(_VERSION.fullmatch(version) for version in versions) or len(set(versions)) < 2:
        raise UsageError(form)
    if not dots:
        return Wanted(tool, versions)
    if numbers(first) > numbers(last):
        raise UsageError(f"--toolchain {text!r:.80}: {first} is newer than {last}; name the older one first")
    return Wanted(tool, (), first, last)


def numbers(version: str) -> tuple[int, ...]:
    """``12.9.86`` as (12, 9, 86); what stands behind numbers does not order versions."""
    found = _VERSION.match(version)
    return tuple(map(int, found[0].split("."))) if found else ()
