"""``gpusim gpus``: which GPUs are described, and every value with its source."""

from __future__ import annotations

import click

from gpusim.commands.options import HELP, format_option
from gpusim.gpus.describe import describe_gpu, diff_gpus
from gpusim.gpus.load import list_gpus, load_gpu
from gpusim.report.tables import format_records


@click.group(context_settings=HELP)
def gpus() -> None:
    """The described GPUs.

    \b
    Examples:
      gpusim gpus list
      gpusim gpus show h200
      gpusim gpus diff gh200 h200
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
    """Print every value of the GPU NAME (or TOML file), its kind of evidence, its source and the file that
    states it: what another file states is inherited.

    \b
    Examples:
      gpusim gpus show a100_80gb
      gpusim gpus show my_gpu.toml --format md
    """
    records = [{**row._asdict(), "value": _plain(row.value)} for row in describe_gpu(name)]
    click.echo(format_records(records, form))


@gpus.command("diff")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@format_option()
def diff(a: str, b: str, form: str) -> None:
    """Print the values in which the GPUs A and B (names or TOML files) differ, with their sources.

    \b
    Examples:
      gpusim gpus diff gh200 h200
      gpusim gpus diff h200 my_gpu.toml --format md
    """
    records = [
        {
            "key": ours.key,
            "a": _plain(ours.value),
            "b": _plain(theirs.value),
            "a_source": f"{ours.kind}: {ours.source}",
            "b_source": f"{theirs.kind}: {theirs.source}",
        }
        for ours, theirs in diff_gpus(a, b)
    ]
    if not records:
        click.echo(f"{a} and {b} differ in no value", err=True)
    click.echo(format_records(records, form))


def _plain(value: object) -> object:
    return " ".join(map(str, value)) if isinstance(value, (tuple, list)) else value
