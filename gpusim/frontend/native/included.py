"""Which files a kernel's sources include: by these, and not by its own text alone, it is known to be the kernel that it
was.

Mental model: ``#include`` of a file in the source's own folder or in one that the user names, and what that includes in
turn. Headers of the CUDA toolkit are not followed: they are many and do not change between two captures. A file's names
are read once for as long as it stays as it is, since a library of templates has hundreds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG

from gpusim.frontend.native.kernels import CudaCppKernel

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include(?:_next)?[ \t]*(?:<([^>\n]+)>|"([^"\n]+)")', re.M)
_FOLDER = re.compile(r"^(?:-I|--include-path=)(.+)$")
_SOURCES = (".cu", ".cuh", ".cpp")

#: Path, size in bytes, time of change in ns.
State = tuple[str, int, int]


def included_by(kernel: CudaCppKernel) -> tuple[State, ...]:
    """Each file that ``kernel`` is made of beside its own, as it is now: what its source, its headers and the sources
    that it is linked with include."""
    linked = [code.decode(errors="replace") for name, code in kernel.link if Path(name).suffix in _SOURCES]
    texts = [(kernel.source, kernel.folder), *((text, "") for _, text in kernel.headers), *((text, "") for text in linked)]  # fmt: skip
    return included(texts, [*folders_named(kernel.options), *kernel.folders])


def folders_named(options: Iterable[str]) -> list[str]:
    """The folders that a compiler's options have files included from."""
    return [found[1] for found in map(_FOLDER.match, options) if found]


def included(texts: Iterable[tuple[str, str]], folders: Sequence[str] = ()) -> tuple[State, ...]:
    """The files that ``texts`` include, each a text and the folder that it lies in (empty: none), from there and from
    ``folders``."""
    return tuple(sorted({state for _, state in spelled(texts, folders) if state is not None}))


def spelled(texts: Iterable[tuple[str, str]], folders: Sequence[str] = ()) -> Iterator[tuple[str, State | None]]:
    """As :func:`included`, each file with every name that it is included by; None of a name that no folder has."""
    found: set[tuple[str, str]] = set()
    known: set[str] = set()
    waiting = [(_names(text), folder) for text, folder in texts]
    while waiting:
        names, folder = waiting.pop()
        for name, quoted in names:
            state = _first(name, [folder, *folders] if quoted and folder else folders)
            path = "" if state is None else state[0]
            if (name, path) in found:
                continue
            found.add((name, path))
            yield name, state
            if state is not None and path not in known:
                known.add(state[0])
                waiting.append((_names_of(state), str(Path(state[0]).parent)))


def _first(name: str, folders: Sequence[str]) -> State | None:
    """The file ``name`` of the first of ``folders`` that has it, in its folder's own name: headers that include each
    other by ``../`` would give one file a longer path each time round."""
    for folder in folders:
        path = Path(folder).absolute() / name
        try:
            about = path.stat()
        except (OSError, ValueError):
            continue
        if S_ISREG(about.st_mode):
            if ".." in path.parts:
                path = Path(os.path.realpath(path.parent)) / path.name
            return str(path), about.st_size, about.st_mtime_ns
    return None


@lru_cache(maxsize=4096)
def _names_of(state: State) -> tuple[tuple[str, bool], ...]:
    try:
        return _names(Path(state[0]).read_text(errors="replace"))
    except OSError:
        return ()


def _names(text: str) -> tuple[tuple[str, bool], ...]:
    """(name, whether it stands in quotation marks) of each file that ``text`` includes."""
    return tuple((pointed or quoted, bool(quoted)) for pointed, quoted in _INCLUDE.findall(text))
