"""What the checks find in the kernels of the suite, which are right: each finding is a mistake of a check, or of a
kernel or its compiler.

    python tools/checked_kernels.py                            all of Triton's, small shapes, compiled for sm_80 and sm_90
    python tools/checked_kernels.py --kernels cpp_ --gpu h200

Mental model: each case runs beside NumPy under all checks of `--check all`. `found`: what the checks say, with the
place.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from gpusim.capturing import capture
from gpusim.cases.names import kernel_names
from gpusim.cases.suite import find_kernel
from gpusim.errors import GpusimError
from gpusim.launch.memory import DeviceMemory
from gpusim.report.tables import FORMATS, format_records
from gpusim.sanitizer.checks import CHECKS


def _row(name: str, gpu: str) -> dict[str, object]:
    row: dict[str, object] = {"kernel": name, "gpu": gpu, "result": "", "found": ""}
    try:
        case, memory, found = find_kernel(name).make(**find_kernel(name).small), DeviceMemory(), []
        for one in case.launches:
            trace = capture(
                one.kernel, one.grid, one.block, one.args, gpu=gpu, shared_bytes=one.shared_bytes, memory=memory,
                cluster=getattr(one, "cluster", 1) or 1, check=CHECKS,
            )  # fmt: skip
            found += [f"{each.what} at {each.where}" for each in trace.findings]
        case.check()
        row |= {"result": "right", "found": "; ".join(found)}
    except GpusimError as error:
        row["result"] = str(error)[:100]
    except AssertionError:
        row["result"] = "wrong"
    return row


@click.command(help=__doc__)
@click.option("--kernels", "prefix", default="triton_", show_default=True, help="Those whose names begin so.")
@click.option("--gpu", "gpus", multiple=True, default=("sm_80", "sm_90"), show_default=True, help="Repeats.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(prefix: str, gpus: tuple[str, ...], form: str) -> None:
    rows = [_row(name, gpu) for name in kernel_names() if name.startswith(prefix) for gpu in gpus]
    click.echo(format_records(rows, form))
    silent = sum(row["result"] == "right" and not row["found"] for row in rows)
    click.echo(f"{silent} of {len(rows)} are right and have no finding", err=True)
    sys.exit(0 if silent == len(rows) else 5)


if __name__ == "__main__":
    main()
