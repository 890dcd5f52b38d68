"""``gpusim gpus``: which GPUs are described, and every value with its source."""

from __future__ import annotations

import click

from gpusim.commands.options import HELP, format_option
from gpusim.gpus.load import describe_gpu, list_gpus, load_gpu
from gpusim.report.tables import format_records


@click.group(context_settings=HELP)
def gpus() -> None:
    """The described GPUs.

    \b
    Examples:
      gpusim gpus list
      gpusim gpus show h200
    """


@gpus.command("list")
@format_option()
def list_(form: str) -> None:
    """List the built-in GPUs.

    \b
    Example:
      gpusim gpus list --format json
    """
    records = []
    for name in list_gpus():
        spec = load_gpu(name)
        records.append(
            {
                "gpu": name,
                "title": spec.title,
                "capability": "{}.{}".format(*spec.capability),
                "sms": spec.sm_count,
                "clock_mhz": round(spec.clock_hz / 1e6),
                "l2_mib": round(spec.l2.total_bytes / 2**20, 1),
                "dram_gb_per_s": spec.dram.peak_bytes_per_ns,
            }
        )
    click.echo(format_records(records, form))


@gpus.command("show")
@click.argument("name")
@format_option()
def show(name: str, form: str) -> None:
    """Print every value of the GPU NAME (or TOML file), its kind of evidence and its source.

    \b
    Examples:
      gpusim gpus show a100_80gb
      gpusim gpus show my_gpu.toml --format md
    """
    records = [
        {"key": key, "value": _plain(value), "kind": kind, "source": source}
        for key, value, kind, source in describe_gpu(name)
    ]
    click.echo(format_records(records, form))


def _plain(value: object) -> object:
    return " ".join(map(str, value)) if isinstance(value, (tuple, list)) else value
