"""What ``--check`` may name; :mod:`gpusim.sanitizer.findings` says what each looks for."""

from __future__ import annotations

from collections.abc import Iterable

from gpusim.errors import UsageError

CHECKS = ("memory", "race", "sync", "leak", "async")


def parse_checks(names: Iterable[str]) -> frozenset[str]:
    """``names`` as a set; raises UsageError for one that does not exist."""
    chosen = frozenset(names)
    for name in sorted(chosen - set(CHECKS)):
        raise UsageError(f"there is no check {name!r}; there are {', '.join(CHECKS)}")
    return chosen


def checks_of(text: str | None) -> frozenset[str]:
    """The checks that a command line names, separated by commas; none for None. Raises UsageError."""
    return parse_checks(filter(None, (name.strip() for name in text.split(",")))) if text else frozenset()
