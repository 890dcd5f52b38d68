"""Which code a finding's file would run, and whether it may.

Mental model: a finding names its kernel, and whatever its property compares with, by file: to run it again is to run
these files. From the folder that the user stands in that is what was asked for, and is said; a file that came from
elsewhere may name any other, so code outside of that folder runs only where the user says so (``--run-code``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click

from gpusim.cases.names import is_reference
from gpusim.cases.native_names import split_native
from gpusim.errors import UsageError
from gpusim.explore.finding import Finding
from gpusim.io.real_path import real_path


def code_of(finding: Finding) -> Iterator[Path]:
    """The files and folders whose code running ``finding`` again runs, beside gpusim's own."""
    if is_reference(finding.kernel):
        yield Path(finding.kernel.rpartition(":")[0])
    native = split_native(finding.kernel)
    if native is not None:
        yield Path(native[0])
    for value in map(str, finding.options.values()):
        if is_reference(value):
            yield Path(value.rpartition(":")[0])
        elif Path(value).is_dir() or os.access(value, os.X_OK):  # another gpusim: its folder, or its Python
            yield Path(value)


def announce_code(path: Path, finding: Finding, run_code: bool) -> None:
    """Say on stderr whose code the finding at ``path`` is about to run. Raises UsageError for code outside of the
    current folder unless ``run_code``."""
    here = real_path(Path.cwd())
    for code in dict.fromkeys(code_of(finding)):
        if not run_code and not real_path(code).is_relative_to(here):
            raise UsageError(
                f"{path} would run the code of {code}, which lies outside of this folder; read it, then say --run-code"
            )
        click.echo(f"running the code of {code}", err=True)
