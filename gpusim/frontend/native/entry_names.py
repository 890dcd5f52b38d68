"""Which kernel of a file a user means: by its symbol, or by the name that the C++ source has."""

from __future__ import annotations

from collections.abc import Sequence

from gpusim.errors import CompileError, UsageError
from gpusim.io.cpp_names import demangled, spellings

#: So many names stand in a message.
MOST_SHOWN = 12
_MOST_LETTERS = 160


def one_of(entry: str | None, names: Sequence[str], file: str) -> str:
    """The symbol among ``names`` that ``entry`` names (None: the only one): as it is, or as C++ has it,
    ``ns::scale<double>``, where only one is called so. Raises UsageError where a choice must be made, CompileError
    where there is none such."""
    if entry is None:
        if len(names) == 1:
            return names[0]
        raise UsageError(f"{file} holds {len(names)} kernels ({shown(names)}): name one with entry=")
    if entry in names:
        return entry
    wanted, known = entry.replace(" ", ""), demangled(tuple(names))
    alike = [name for name, text in known.items() if wanted in spellings(text)]
    if not known:  # no demangler: the plain name stands in the symbol behind its length
        alike = [name for name in names if f"{len(entry)}{entry}" in name and name.startswith("_Z")]
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise CompileError(f"{file} has {len(alike)} kernels called {entry} ({shown(alike)})")
    raise CompileError(f"{file} has no kernel {entry}; it has {shown(names)}")


def shown(names: Sequence[str]) -> str:
    """The first of ``names`` as a message lists them, C++ declarations in place of symbols."""
    if not names:
        return "none"
    known = demangled(tuple(names[:MOST_SHOWN]))
    texts = [known.get(name, name).removeprefix("void ") for name in names[:MOST_SHOWN]]
    texts = [text if len(text) <= _MOST_LETTERS else text[: _MOST_LETTERS - 3] + "..." for text in texts]
    return ", ".join(texts) + f" and {len(names) - MOST_SHOWN} more" * (len(names) > MOST_SHOWN)
