"""``gpusim capture``: run a kernel of the suite on the CPU and keep its trace."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from gpusim.commands.options import HELP, format_option, gpu_option
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.report.tables import format_records
from gpusim.suite import capture_case, make_case, parse_request

WRONG_RESULT = 1


@click.command(context_settings=HELP)
@click.argument("kernel")
@gpu_option()
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Trace file to write."
)
@click.option("--small", is_flag=True, help="Start from the kernel's small shape instead of its default.")
@format_option()
def capture(kernel: str, gpu: str, output: Path, small: bool, form: str) -> int:
    """Capture KERNEL[:axis=value,...] for a GPU, check its result against NumPy, write its trace.

    A kernel of several launches writes one file each: OUT.0.trace, OUT.1.trace and so on.

    \b
    Examples:
      gpusim capture saxpy:n=65536 --gpu h200 -o saxpy.trace
      gpusim capture pointer_chase --small -o chase.trace
    """
    if not output.parent.is_dir():  # before the work, not after it
        raise UsageError(f"there is no folder {output.parent} to write {output.name} into")
    name, shape = parse_request(kernel)
    spec = load_gpu(gpu)
    case = make_case(name, shape, spec, small=small)
    with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as folder:
        launches = capture_case(case, spec, folder=Path(folder))
        try:
            case.check()
        except AssertionError as error:
            detail = " ".join(str(error).split())
            click.echo(f"error: {name} on {spec.name}: the result differs from NumPy's: {detail}", err=True)
            return WRONG_RESULT
        records = []
        for index, launch in enumerate(launches):
            path = output
            if len(launches) > 1:
                path = output.with_name(f"{output.stem}.{index}{output.suffix or '.trace'}")
            os.replace(Path(folder) / f"{index}.trace", path)
            records.append(
                {
                    "file": str(path),
                    "kernel": launch.trace.launch.kernel,
                    "timed": launch.timed,
                    "blocks": launch.trace.launch.blocks,
                    "warp_instructions": launch.trace.warp_instructions,
                    "bytes": path.stat().st_size,
                }
            )
    click.echo(format_records(records, form))
    return 0
