"""``gpusim watch``: performance over a history of commits, GPUs and toolchains; how it is called."""

from __future__ import annotations

import click

from gpusim.commands.options import HELP


@click.group(context_settings=HELP)
def watch() -> None:
    """Performance over a history: which commit, toolchain or method changed it, and by how much."""
