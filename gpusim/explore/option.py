"""An option that a property declares: what the command line offers for it, and how its text becomes a value."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusim.io.real_path import real_path


@dataclass(frozen=True)
class Option:
    """An option of a property: ``name`` in the options mapping, ``--name`` (with hyphens) on the command line.

    ``help``: a sentence for ``--help``. ``type``: makes the value of a text, raising ValueError with what is wrong with
    it: ``str``, ``int``, ``float``, ``bool`` (then the option takes no value), :func:`existing_file`,
    :func:`existing_path` or a function of one's own; the value must be a text, a number or a bool, since findings keep
    it as JSON. ``default``: the value where none is given, None for none. ``metavar``: what ``--help`` calls the value.
    ``multiple``: may be repeated; the texts are kept as one, with ``separator`` between them.
    """

    name: str
    help: str
    type: Callable[[str], Any] = str
    default: Any = None
    metavar: str | None = None
    multiple: bool = False
    separator: str = "\n"

    @property
    def flag(self) -> str:
        """The option as it is typed: ``--other-gpu``."""
        return f"--{self.name.replace('_', '-')}"

    def texts(self, options: Mapping[str, Any]) -> list[str]:
        """The texts of a ``multiple`` option in ``options``, one by one."""
        return [text for text in str(options.get(self.name) or "").split(self.separator) if text]


def existing_file(text: str) -> str:
    """The path of a file that is there; ValueError for any other."""
    if not Path(text).exists():
        raise ValueError(f"File '{text}' does not exist.")
    if Path(text).is_dir():
        raise ValueError(f"File '{text}' is a directory.")
    if not os.access(text, os.R_OK):
        raise ValueError(f"File '{text}' is not readable.")
    return text


def existing_path(text: str) -> str:
    """The path, resolved, of a file or folder that is there; ValueError for any other."""
    if not Path(text).exists():
        raise ValueError(f"Path '{text}' does not exist.")
    return str(real_path(text))


__all__ = ["Option", "existing_file", "existing_path"]
