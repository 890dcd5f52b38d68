"""Whose a kernel is: rules as in a CODEOWNERS file, by path and by kernel's name; the last one that fits says it.

Mental model: a rule names a pattern and its owners. A pattern of a path is what GitHub's CODEOWNERS takes (``*`` within
a folder, ``**`` over folders, a folder's name for all within, ``/`` in front for the top); one of a kernel is a shell's
(``softmax*``), of a case in a file of one's own (``ops.py:softmax``) it may leave the file out. A CODEOWNERS file is a
list of rules of paths; negated and bracketed patterns, which GitHub refuses as well, are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from gpusim.errors import PlanError

MOST_BYTES = 3 << 20  # GitHub's own limit


@dataclass(frozen=True)
class OwnerRule:
    """``path`` or ``kernel``, whichever is given (both: both must fit), belongs to ``owners``. With a ``cause``
    (``toolchain``, ``model`` and so on) it speaks of alerts of that change of method alone, whose owners are no
    kernel's."""

    owners: tuple[str, ...] = ()
    path: str = ""
    kernel: str = ""
    cause: str = ""

    def fits(self, path: str, kernel: str) -> bool:
        """Whether it speaks of ``kernel``, which stands in ``path`` (relative to the repository, empty where
        unknown)."""
        if not self.path and not self.kernel and not self.cause:
            return False
        by_path = not self.path or bool(path) and _path_pattern(self.path).fullmatch(path) is not None
        return by_path and (not self.kernel or fits_kernel(self.kernel, kernel))


def fits_kernel(pattern: str, kernel: str) -> bool:
    """Whether a shell's ``pattern`` names ``kernel``, with its file or, as ``softmax`` for ``ops.py:softmax``,
    without."""
    return any(fnmatchcase(name, pattern) for name in (kernel, kernel.rpartition(":")[2]))


def owners_of(rules: Iterable[OwnerRule], path: str, kernel: str, cause: str = "") -> tuple[str, ...]:
    """The owners that the last fitting rule names, of those of ``cause``; none where no rule fits."""
    found: tuple[str, ...] = ()
    for rule in rules:
        if rule.cause == cause and rule.fits(path, kernel):
            found = rule.owners
    return found


def read_owners(path: Path) -> tuple[OwnerRule, ...]:
    """The rules of a CODEOWNERS file. Raises PlanError with the line that is none."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PlanError(f"{path}: owners cannot be read ({error.strerror})") from None
    if len(data) > MOST_BYTES:
        raise PlanError(f"{path}: {len(data)} bytes are more than a CODEOWNERS file may have ({MOST_BYTES})")
    rules = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        words = re.sub(r"(^|\s)#.*", "", line).split()
        if not words or words[0].startswith("[") and words[0].endswith("]") or words[0].startswith("^["):
            continue  # a section of GitLab's
        if words[0].startswith("!") or "[" in words[0]:
            raise PlanError(f"{path}:{number}: pattern {words[0]!r} is none that CODEOWNERS knows")
        rules.append(OwnerRule(tuple(words[1:]), path=words[0]))
    return tuple(rules)


def _path_pattern(pattern: str) -> re.Pattern[str]:
    """A pattern of CODEOWNERS as a regular expression of a relative path."""
    anchored = "/" in pattern.rstrip("/")
    body = pattern.strip("/")
    text = ""
    for part in re.split(r"(\*\*/|/\*\*|\*\*|\*|\?)", body):
        text += {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
    # A folder is all within; a pattern that ends in /* is what lies right there.
    within = "" if body.endswith(("/*", "**")) else "(?:/.*)?"
    if pattern.endswith("/"):
        within = "/.*"
    return re.compile(("" if anchored else "(?:.*/)?") + text + within)
