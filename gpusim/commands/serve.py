"""``gpusim serve``: the dashboard; how it is called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.commands.later import done_by
from gpusim.commands.options import HELP

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(context_settings=HELP)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen at; 0.0.0.0 for all of this machine."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0 takes any that is free."
)
@click.option("--tokens", type=_FILE, metavar="FILE", help="Who may edit alerts (gpusim watch token).")
@click.option("--private", is_flag=True, help="Reading takes a token too.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Another name that browsers reach it by.")
@click.option("--behind-proxy", is_flag=True, help="A proxy on this machine adds HTTPS: trust its X-Forwarded headers.")
@click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes that answer.")
@done_by("serving")
def serve(
    host: str, port: int, tokens: Path | None, private: bool, hosts: tuple[str, ...], behind_proxy: bool, processes: int
) -> None:
    """Serve the dashboard of the store: what changed, what is open and whose, histories, GPU against GPU, coverage, accuracy.

    Everybody who reaches it reads; who has an editor's token changes alerts. The store is that of GPUSIM_STORE, a file or a
    PostgreSQL URL. Needs gpusim[serve].

    \b
    Examples:
      gpusim serve
      gpusim serve --host 0.0.0.0 --tokens tokens.json --processes 2
      gpusim serve --private --tokens tokens.json --behind-proxy --allow-host perf.example.com
    """
