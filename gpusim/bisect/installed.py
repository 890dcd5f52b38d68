"""Which versions of a compiler lie in the folders that the user names, and where.

Mental model: a folder holds one installation (a CUDA toolkit, what ``pip install --target`` made, an environment) or
several beside each other. A program is asked for its version; a library's stands in the description of the package that
it came in, or in the name of a file beside it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_IN_A_FOLDER = ("", "*/", "nvidia/*/", "*/nvidia/*/", "lib/python*/site-packages/nvidia/*/",
                "*/lib/python*/site-packages/nvidia/*/")  # fmt: skip
_RELEASE = re.compile(r"\bV(\d+\.\d+\.\d+)")
_BUILTINS = re.compile(r"libnvrtc-builtins\.so\.(\d+\.\d+)")
_DESCRIPTION = re.compile(r"(?P<name>[A-Za-z0-9_.]+)-(?P<version>\d[\w.]*)\.dist-info")
ANSWER_SECONDS = 60


@dataclass(frozen=True)
class Tool:
    """``file``: the pattern of what is run or loaded, within an installation; ``packages`` that bring it, those of
    older versions first."""

    name: str
    file: str
    packages: tuple[str, ...]


PTXAS = Tool("ptxas", "bin/ptxas", ("nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc"))
NVRTC = Tool("nvrtc", "lib*/libnvrtc.so.*", ("nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc"))
TOOLS = {tool.name: tool for tool in (PTXAS, NVRTC)}


def installed_versions(tool: str, folders: Iterable[Path]) -> dict[str, Path]:
    """Version -> the program, library or folder of packages, of the first folder that has it."""
    found: dict[str, Path] = {}
    for folder in folders:
        if tool in TOOLS:
            for path in _files(folder, TOOLS[tool].file):
                if version := _version_of(TOOLS[tool], path):
                    found.setdefault(version, path)
        else:
            for path in sorted((*folder.glob("*.dist-info"), *folder.glob("*/*.dist-info"))):
                described = _DESCRIPTION.fullmatch(path.name)
                if described and _plain(described["name"]) == _plain(tool):
                    found.setdefault(described["version"], path.parent)
    return found


def _files(folder: Path, pattern: str) -> Iterator[Path]:
    for within in _IN_A_FOLDER:
        yield from sorted(path for path in folder.glob(within + pattern) if path.is_file() and ".alt." not in path.name)


def _version_of(tool: Tool, path: Path) -> str:
    if tool is PTXAS:
        found = _RELEASE.search(_said([str(path), "--version"]))
        return found[1] if found else ""
    packages = {_plain(package) for package in tool.packages}
    for parent in list(path.parents)[:4]:
        for description in parent.glob("*.dist-info"):
            described = _DESCRIPTION.fullmatch(description.name)
            if described and _plain(described["name"]) in packages:
                return described["version"]
    names = (_BUILTINS.fullmatch(beside.name) for beside in sorted(path.parent.glob("libnvrtc-builtins.so.*")))
    return next((named[1] for named in names if named), "")


def _said(command: list[str]) -> str:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=ANSWER_SECONDS, check=False,
            stdin=subprocess.DEVNULL,
        ).stdout  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _plain(package: str) -> str:
    """A package's name as all of its spellings have it."""
    return re.sub(r"[-_.]+", "-", package).lower()
