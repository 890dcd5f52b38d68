"""``gpusim doctor``: what works on this machine, what does not, and the command that would mend it; how it is
called."""

from __future__ import annotations

import click

from gpusim.commands.later import done_by
from gpusim.commands.options import HELP, format_option


@click.command(context_settings=HELP)
@click.option("--quick", is_flag=True, help="Leave out the checks that compile a kernel.")
@format_option()
@done_by("examining")
def doctor(quick: bool, form: str) -> None:
    """Say what works here: packages, compilers, caches, store, machine, GPU, profilers; and how to mend what does not.

    Exit code 0 when kernels can be simulated here (a GPU is not needed for that), else 3.

    \b
    Examples:
      gpusim doctor
      gpusim doctor --quick --format json
    """
