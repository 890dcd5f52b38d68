"""``gpusim project collective``: what GPUs exchange over their links; how it is called."""

from __future__ import annotations

import re

import click

from gpusim.collective.shape import KINDS, LIBRARIES
from gpusim.commands.later import done_by
from gpusim.commands.links_options import links_options
from gpusim.commands.options import Count, Name, format_option, gpu_option

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


class Bytes(click.ParamType):
    """A number of bytes: 1048576, 64KiB, 1.5GB."""

    name = "bytes"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """A whole number of at least 1."""
        found = re.fullmatch(r"(\d{1,15})(\.\d{1,6})? ?([A-Za-z]{0,3})", str(value))
        unit = found and _UNITS.get(found[3].upper())
        if not found or unit is None:
            self.fail(f"{value!r} is no number of bytes: write e.g. 1048576, 64KiB or 1.5GB", param, ctx)
        number = int(float(found[1] + (found[2] or "")) * unit)
        if number < 1:
            self.fail(f"{value!r} is less than a byte", param, ctx)
        return number


@click.command()
@click.argument("kind", type=Name(KINDS))
@click.option(
    "--bytes",
    "message_bytes",
    required=True,
    type=Bytes(),
    help="Of the message, as nccl-tests counts: of the gathered buffer, else of one GPU's.",
)
@click.option(
    "--gpus", type=Count(2, 1 << 20), help="That take part, also --gpu NAME:COUNT as of a model.  [default: 8]"
)
@click.option(
    "--library",
    type=Name(LIBRARIES),
    default="nccl",
    show_default=True,
    help="NCCL, or the all-reduce kernels of serving frameworks: custom of today, copied of TensorRT-LLM before 2025.",
)
@links_options
@gpu_option("h100")
@format_option()
@done_by("projecting_collectives")
def collective(
    kind: str, message_bytes: int, gpus: int | None, library: str, links: str, link_gb_per_s: float | None, gpus_per_node: int | None,
    network_gb_per_s: float | None, network_latency_us: float | None, gpu: str, form: str,
) -> None:  # fmt: skip
    """Time of a collective among GPUs of one node, or of several.

    Algorithm and protocol are chosen as the library does; steps and bytes are timed on the links. In brackets the interval in which four of five measurements
    should lie, from rows that set nothing.

    \b
    Examples:
      gpusim project collective all_reduce --bytes 64MiB --gpus 8 --gpu h100
      gpusim project collective all_reduce --bytes 32KiB --library custom --gpu a100_80gb
      gpusim project collective alltoall --bytes 16MB --gpus 4 --format json
      gpusim project collective all_reduce --bytes 1GiB --gpu a100_pcie_40gb:2 --links bridge
    """
