"""``gpusim project export``: profile tables for simulators of serving; how it is called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.commands.later import done_by
from gpusim.commands.options import Count, Name, gpu_option, power_limit_option, set_option


@click.command()
@click.argument("simulator", type=Name(("vidur", "aiconfigurator")))
@click.argument("network", metavar="MODEL")
@click.option(
    "--tp", "ways", default="1,2,4,8", show_default=True, help="GPUs that share each layer, for which rows are made."
)
@click.option(
    "--most-tokens",
    type=Count(16, 1 << 20),
    default=8192,
    show_default=True,
    help="Largest number of tokens of a step.",
)
@click.option(
    "-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder to write into."
)
@gpu_option("h100")
@set_option()
@power_limit_option
@done_by("exporting_models")
def export(
    simulator: str,
    network: str,
    ways: str,
    most_tokens: int,
    output: Path,
    gpu: str,
    settings: tuple[str, ...],
    power_limit_watts: float | None,
) -> None:
    """Write the profile tables that SIMULATOR reads of MODEL on a GPU, projected instead of measured: also of GPUs that nobody has.

    \b
    Examples:
      gpusim project export vidur llama3_8b --gpu b200 -o profiles/b200/llama3_8b
      gpusim project export aiconfigurator llama3_70b --gpu h100 --set dram.peak_bytes_per_ns=4800 -o tables
    """
