"""``gpusim serve``, ``gpusim watch export`` and ``gpusim watch token``; the work."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from gpusim.serve.export import export_pages
from gpusim.serve.tokens import add_token, revoke_token
from gpusim.store import open_store


def serve(
    host: str, port: int, tokens: Path | None, private: bool, hosts: tuple[str, ...], behind_proxy: bool, processes: int
) -> None:
    """What :func:`gpusim.commands.serve.serve` declares, with its arguments."""
    process = importlib.import_module("gpusim.serve.process")  # whose packages an export does not need
    settings = process.ServerSettings(
        host, port, processes, tokens=str(tokens.resolve()) if tokens else "", private=private, behind_proxy=behind_proxy,
        hosts=hosts,
    )  # fmt: skip
    process.serve(settings, lambda address: click.echo(f"serving at {address} (Ctrl-C ends it)", err=True))


def export(folder: Path) -> None:
    """What :func:`gpusim.commands.watch.export` declares, with its arguments."""
    with open_store() as store:
        count = export_pages(store, folder)
    click.echo(f"wrote {count} pages; open {folder / 'index.html'}")


def token(name: str, role: str, tokens: Path, revoke: bool) -> None:
    """What :func:`gpusim.commands.watch.token` declares, with its arguments."""
    if revoke:
        revoke_token(tokens, name)
        click.echo(f"the token of {name} is worth nothing now", err=True)
        return
    click.echo(add_token(tokens, name, role))
    click.echo(f"this is the {role}'s token of {name}, shown this once; {tokens} keeps its hash", err=True)
