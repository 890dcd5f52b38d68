"""What a run may be called, known without the store's own modules.

Raises UsageError.
"""

from __future__ import annotations

import re

from gpusim.errors import UsageError

#: What a run may be called: no number (that is a run's id), and nothing that a shell or a path would trip over.
RESERVED = ("now",)  # what `gpusim regress` calls a run simulated again
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]{0,99}")


def checked_name(name: str) -> str:
    """``name`` if a run may be called so; UsageError otherwise."""
    if not NAME_PATTERN.fullmatch(name) or name.isdecimal() or name in RESERVED:
        raise UsageError(
            f"a run cannot be called {name!r}: up to 100 letters, digits and ._+/- that begin with a letter or digit, "
            f"no number, and not {', '.join(RESERVED)}"
        )
    return name
