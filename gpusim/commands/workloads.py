"""``gpusim workloads``: what real networks launch, as kernels of the suite with their shapes; how it is called."""

from __future__ import annotations

import click

from gpusim.cases.networks import network_launches
from gpusim.commands.later import done_by
from gpusim.commands.options import HELP, format_option


@click.group(context_settings=HELP)
def workloads() -> None:
    """Networks whose forward pass is known, and the kernels that it launches.

    \b
    Examples:
      gpusim workloads list
      gpusim workloads show llama3_70b --phase decode --batch 8 --sequence 4096 --tensor-parallel 8
    """


@workloads.command("list")
@format_option()
@done_by("network_facts")
def list_(form: str) -> None:
    """List the networks, with where their sizes were published.

    \b
    Example:
      gpusim workloads list --format md
    """


@workloads.command("show")
@click.argument("network")
@click.option("--phase", default="prefill", show_default=True, help="prefill: whole sequences; decode: the next token.")
@click.option("--batch", type=click.IntRange(min=1), default=1, show_default=True, help="Sequences or images.")
@click.option(
    "--sequence",
    type=click.IntRange(min=0),
    default=0,
    show_default="the network's usual",
    help="Tokens of a sequence; in a decode, those in its cache.",
)
@click.option(
    "--tensor-parallel", type=click.IntRange(min=1), default=1, show_default=True, help="GPUs that share each layer."
)
@click.option("--precision", default="float16", show_default=True, help="float16, float32, int8 or w4a16.")
@format_option()
@done_by("network_facts")
def show(network: str, phase: str, batch: int, sequence: int, tensor_parallel: int, precision: str, form: str) -> None:
    """Print the launches of one forward pass of NETWORK on one GPU: kernel of the suite, shape, how often.

    Each `workload` can be handed to gpusim simulate; `simulate_s` is about how many seconds of a core that takes, in full:
    large ones want --sample.

    \b
    Examples:
      gpusim workloads show llama3_8b --phase decode --batch 8 --sequence 2048
      gpusim workloads show resnet50 --batch 32 --precision float32 --format csv
    """
    network_launches(
        network, phase=phase, batch=batch, sequence=sequence, tensor_parallel=tensor_parallel, precision=precision
    )
