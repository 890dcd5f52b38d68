"""Versions of a compiler that an index of packages has, installed one by one as they are needed.

Mental model: pip is asked once which versions there are; a version that a bisection comes to is installed into a folder
of its own in the cache, whole or not at all, and stays there for the next time. Nothing of the running environment
changes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from gpusim.bisect.installed import TOOLS, installed_versions
from gpusim.errors import ToolchainError
from gpusim.io.cache_folder import cache_folder
from gpusim.io.progress import task

#: Wheels of compilers have up to some hundred megabytes.
MOST_SECONDS = 1800


def toolchain_folder() -> Path:
    """Where installed versions lie. Raises ToolchainError where there is no cache folder."""
    folder = cache_folder()
    if folder is None:
        raise ToolchainError(
            "GPUSIM_CACHE_DIR is empty: there is nowhere to install compilers; name their folders with --toolchains"
        )
    return folder / "toolchains"


def offered_versions(tool: str) -> dict[str, str]:
    """Version -> package that brings it, of all that pip's index has. Raises ToolchainError where it has none."""
    found: dict[str, str] = {}
    said = ""
    for package in packages_of(tool):
        done = _pip("index", "versions", package)
        said = said or _last(done.stderr)
        for line in done.stdout.splitlines():
            label, _, listed = line.partition(":")
            if label.strip() == "Available versions":
                found |= {version.strip(): package for version in listed.split(",")}
    if not found:
        raise ToolchainError(f"pip finds no version of {', '.join(packages_of(tool))}: {said or 'no reason given'}")
    return found


def install(tool: str, version: str, package: str) -> Path:
    """What :func:`gpusim.bisect.installed.installed_versions` finds of ``package`` at ``version``, installed if it is
    not. Raises ToolchainError."""
    folder = toolchain_folder() / f"{package}-{version}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (
            task(f"installing {package} {version}"),
            tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as made,
        ):
            whole = Path(made, "packages")
            done = _pip("install", "--quiet", "--no-deps", "--target", str(whole), f"{package}=={version}")
            if done.returncode:
                raise ToolchainError(f"pip cannot install {package}=={version}: {_last(done.stderr)}")
            try:
                whole.rename(folder)
            except OSError:
                if not folder.is_dir():  # else another process was first
                    raise
    found = installed_versions(tool, [folder])
    if not found:
        raise ToolchainError(f"{folder}: {package} {version} brings no {tool}")
    return next(iter(found.values()))


def packages_of(tool: str) -> tuple[str, ...]:
    """The packages that bring ``tool``; a tool that is not known is a package itself."""
    return TOOLS[tool].packages if tool in TOOLS else (tool,)


def _pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=MOST_SECONDS, check=False,
            stdin=subprocess.DEVNULL, env={**os.environ, "PIP_NO_INPUT": "1"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"pip does not run: {error}") from None


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("WARNING")]
    return lines[-1][:300] if lines else ""
