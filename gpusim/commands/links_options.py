"""Options of a machine's links, which projections of collectives, models and traces share."""

from __future__ import annotations

from collections.abc import Callable

import click

from gpusim.collective.links import LINKS
from gpusim.commands.options import Count, Name

_RATE = click.FloatRange(min=0.01, max=1e5)


def links_options(command: Callable) -> Callable:
    """``--links`` and its kin: what a user says of a machine beside its GPUs' file."""
    options = (
        click.option(
            "--links",
            type=Name(LINKS),
            default="file",
            show_default=True,
            help="Within a node: as the GPU's file has them; PCIe with peer access, or through the host's memory; an NVLink bridge.",
        ),
        click.option("--link-gb-per-s", type=_RATE, help="Of a GPU's link, one way.  [default: the GPU's]"),
        click.option("--gpus-per-node", type=Count(1, 1 << 10), help="[default: the GPU's]"),
        click.option(
            "--network-gb-per-s",
            type=_RATE,
            help="Of all network cards of a node, one way.  [default: the GPU's]",
        ),
        click.option(
            "--network-latency-us",
            type=click.FloatRange(min=0.1, max=1e4),
            help="Of few bytes from node to node.  [default: the GPU's]",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command
