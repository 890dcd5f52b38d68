"""``gpusim collect``: the daemon of a node; how it is called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.commands.later import done_by
from gpusim.commands.options import HELP, format_option

_PATH = click.Path(path_type=Path)
SOCKET = "/run/gpusim/collect.sock"


@click.group(context_settings=HELP)
def collect() -> None:
    """Add up what recorded processes launch: one daemon a node, in a tree over nodes.

    \b
    Examples:
      gpusim collect serve --data /var/lib/gpusim --all-users
      gpusim collect serve --data /var/lib/gpusim --forward head:8766 --token token
      gpusim collect show --data /var/lib/gpusim
      gpusim collect capture --seconds 5
    """


@collect.command()
@click.option("--data", type=_PATH, required=True, metavar="FOLDER", help="Where totals lie (mode 0700).")
@click.option("--socket", type=_PATH, default=SOCKET, show_default=True, help="Where processes connect (mode 0600).")
@click.option("--all-users", is_flag=True, help="Processes of all users may connect; each is told by the kernel.")
@click.option("--listen", metavar="HOST:PORT", help="Take what other collectors forward; needs --token.")
@click.option("--forward", metavar="TARGET", help="Another collector, HOST:PORT or a Unix socket's path.")
@click.option(
    "--token",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Shared by collectors that talk over TCP.",
)
@click.option(
    "--period",
    type=click.FloatRange(0.05, 3600),
    default=10.0,
    show_default=True,
    help="Seconds between forwarded messages.",
)
@click.option("--coarse", is_flag=True, help="Forward without GPU, rank and container: what was launched, not where.")
@click.option("--metrics", metavar="HOST:PORT", help="Answer Prometheus there (gpusim[collect]).")
@click.option("--otlp", metavar="URL", help="Send OpenTelemetry's metrics there, by HTTP (gpusim[collect]).")
@done_by("collecting")
def serve(
    data: Path, socket: Path, all_users: bool, listen: str | None, forward: str | None, token: Path | None, period: float,
    coarse: bool, metrics: str | None, otlp: str | None,
) -> None:  # fmt: skip
    """Run the daemon. What it has acknowledged is on the disk.

    \b
    Examples:
      gpusim collect serve --data /var/lib/gpusim --all-users
      gpusim collect serve --data spool --socket spool/collect.sock --forward head:8766 --token token
      gpusim collect serve --data spool --socket spool/collect.sock --metrics 127.0.0.1:9464
    """


@collect.command()
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    metavar="FOLDER",
    help="As of serve.",
)
@click.option("--most", type=click.IntRange(1), default=50, show_default=True, help="Rows, by time, then by launches.")
@format_option()
@done_by("collecting")
def show(data: Path, most: int, form: str) -> None:
    """List what a collector has, over all minutes.

    \b
    Example:
      gpusim collect show --data /var/lib/gpusim --format csv
    """


@collect.command()
@click.option("--socket", type=_PATH, default=SOCKET, show_default=True, help="Of the daemon.")
@click.option("--seconds", type=click.IntRange(1, 3600), default=10, show_default=True, help="How long.")
@done_by("collecting")
def capture(socket: Path, seconds: int) -> None:
    """Have every process that is connected send single launches; the daemon writes them to captures/ in its folder.

    A file a process, a Chrome trace (gzip, mode 0600): trace viewers read it. Only root and the daemon's own
    user may ask.

    \b
    Example:
      gpusim collect capture --seconds 5
    """
