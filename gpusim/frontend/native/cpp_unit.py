"""CUDA C++ to compile, what compilers make of it, and how they refuse; each compiler (:mod:`nvrtc`, :mod:`nvcc`) takes
and gives these."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpusim.errors import CompileError

#: The architecture is the user's own choice where one of these is among the options.
_ARCHITECTURE = re.compile(r"^--?(gpu-architecture|arch|gencode|generate-code)\b")
_MOST_LETTERS = 400
#: As compilers write it, ``error: ``, and as ptxas does, ``error   : ``: its last line, ``ptxas fatal``, has no reason.
_ERROR = re.compile(r"\berror *:|\bfatal\b", re.IGNORECASE)


@dataclass(frozen=True)
class CppUnit:
    """``source`` text of ``file`` (its name, for messages and source lines) with compiler ``options``; ``folders`` are
    searched for includes, ``headers`` are (include name, text) of further ones."""

    source: str = field(repr=False)
    file: str
    options: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def says_architecture(self) -> bool:
        """Whether its options do."""
        return any(map(_ARCHITECTURE.match, self.options))


@dataclass(frozen=True)
class CppBuild:
    """What a compiler made: ``cubin`` (empty for code that is to be linked), ``ptx`` text, ``entry_name``: the kernel's
    symbol;
    ``tools``: name and version of the compiler, as traces keep it."""

    cubin: bytes = field(repr=False)
    ptx: str = field(repr=False)
    entry_name: str
    tools: str = ""


class CppError(CompileError):
    """A compiler's refusal in one line, ``log`` in full; ``no_kernel``: all but the kernel's name is well."""

    log: str = ""
    no_kernel: bool = False


def refusal(message: str, log: str, *, no_kernel: bool = False) -> CppError:
    """A :class:`CppError`, which keeps its log when it is pickled."""
    error = CppError(message)
    error.log, error.no_kernel = log, no_kernel
    return error


def errors_of(log: str) -> list[str]:
    """The errors in a compiler's log, a line each; where there is none, all of it."""
    lines = [" ".join(line.split()) for line in log.splitlines() if line.strip()]
    return [line[:_MOST_LETTERS] for line in lines if _ERROR.search(line)] or [line[:_MOST_LETTERS] for line in lines]
