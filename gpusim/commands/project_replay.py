"""``gpusim project replay`` and ``durations``: execution traces on described GPUs; how they are called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.collective.shape import SIMULATED
from gpusim.commands.later import done_by
from gpusim.commands.links_options import links_options
from gpusim.commands.options import Count, Name, format_option, gpu_option, power_limit_option, set_option

_PATHS = click.argument("paths", metavar="TRACE...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))  # fmt: skip


@click.command()
@_PATHS
@click.option("--groups", type=click.Path(exists=True, dir_okay=False, path_type=Path), help='Members of groups, as ASTRA-sim has them: {"1": [0, 1], ...}. [default: groups.json beside the traces]')  # fmt: skip
@click.option("--ranks", type=Count(1, 1 << 14), help="GPUs of the cluster. [default: as many as traces and groups name]")  # fmt: skip
@click.option("--library", type=Name(SIMULATED), default="nccl", show_default=True, help="Whose all-reduces.")
@click.option("--alone", is_flag=True, help="Collectives by their formulas, as if no two shared a link: quicker.")
@click.option("--show", type=Name(("ranks", "path", "nodes")), default="ranks", show_default=True, help="A row a rank, what the critical path consists of, or every node.")  # fmt: skip
@gpu_option("h100")
@set_option()
@links_options
@format_option()
@done_by("replaying")
def replay(
    paths: tuple[Path, ...], groups: Path | None, ranks: int | None, library: str, alone: bool, show: str, gpu: str, settings: tuple[str, ...], links: str,
    link_gb_per_s: float | None, gpus_per_node: int | None, network_gb_per_s: float | None, network_latency_us: float | None, form: str,
) -> None:  # fmt: skip
    """Replay Chakra execution traces (.et), a file a rank or a folder of them, on GPUs and their links.

    Nodes wait for what they depend on and for their stream; computations take the durations of the trace; collectives, sends and receives are simulated as messages
    over the cluster's links, where those of other collectives share them; what runs on a GPU beside a collective lacks its SMs and its DRAM bandwidth. Members
    of a group without a trace are taken to come with the last one that has one.

    Exposed is the time in which a rank waits for other GPUs and computes nothing.

    \b
    Examples:
      gpusim project llama3_8b --gpu h100:8 --phase decode --batch 32 --traces step
      gpusim project replay step --gpu h100
      gpusim project replay step --gpu a100_80gb --show path --format csv | head
      gpusim project replay gpt.0.et --ranks 64 --groups groups.json --format json
    """


@click.command()
@_PATHS
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder to write into.")  # fmt: skip
@gpu_option("h100")
@set_option()
@power_limit_option
@done_by("replaying")
def durations(
    paths: tuple[Path, ...], output: Path, gpu: str, settings: tuple[str, ...], power_limit_watts: float | None
) -> None:
    """Fill Chakra execution traces (.et) with durations of their computations on a GPU, projected from shapes, operations and bytes.

    All else of a trace stays as it is, and so do durations of nodes of which nothing is known; those are named. What is written simulators like ASTRA-sim read.

    \b
    Examples:
      gpusim project durations gpt.0.et gpt.1.et --gpu b200 -o on_b200
      gpusim project durations traces --gpu h100 --set dram.peak_bytes_per_ns=4800 -o faster
    """
