"""``gpusim explore`` and ``gpusim replay``: search for divergences, and run one again; how it is called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from gpusim.cases.names import refuse_unknown_kernel, refuse_unknown_request
from gpusim.cases.native_names import is_native
from gpusim.cases.requests import split_request
from gpusim.commands.later import done_by
from gpusim.commands.launch_options import launch_options
from gpusim.commands.options import HELP, Figure, format_option, gpu_option, set_option
from gpusim.commands.property_options import PropertyCommand, PropertyName
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu


@click.command(context_settings=HELP, cls=PropertyCommand)
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...")
@click.option(
    "--property",
    "name",
    type=PropertyName(),
    default="bounds",
    show_default=True,
    help="What to look for.",
)
@gpu_option()
@set_option()
@click.option(
    "--threshold", type=Figure(min=0), metavar="SHARE", help="How large a divergence is a finding (0.05: 5 %)."
)
@click.option(
    "--max-examples", type=click.IntRange(min=1), default=100, show_default=True, help="Workloads to try in all."
)
@click.option("--max-time", type=Figure(min=0), metavar="SECONDS", help="Stop trying after so long.")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="The same seed, jobs and examples give the same search."
)
@click.option(
    "--growth",
    type=Figure(min=1),
    default=16.0,
    show_default=True,
    help="Most work of a workload, as a multiple of the kernel's small shape: product of its sizes, and its launch's blocks and bytes.",
)
@click.option(
    "--around",
    multiple=True,
    metavar="NETWORK[:phase=decode,batch=8,...]",
    help="Draw half of the shapes at and beside those that this forward pass launches (gpusim workloads).",
)
@click.option("--no-steer", is_flag=True, help="Draw blindly: no target(), kernels in turn.")
@click.option("--first", is_flag=True, help="Stop drawing once something has diverged; it is still made small.")
@click.option("--resume", is_flag=True, help="Go on from the runs in the folder.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    show_default="number of cores",
    help="Worker processes; with --dask shares of the search.",
)
@click.option("--dask", metavar="ADDRESS", help="Run the shares on the Dask cluster of this scheduler (gpusim[dask]).")
@click.option(
    "--production",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE",
    help="Say how much of the time of this file of gpusim production each region covers.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("explore"),
    show_default=True,
    help="Folder for runs, coverage and findings.",
)
@format_option()
@launch_options("kernels")
@click.pass_context
@done_by("exploring")
def explore(
    context: click.Context,
    kernels: tuple[str, ...],
    name: str,
    gpu: str,
    settings: tuple[str, ...],
    threshold: float | None,
    max_examples: int,
    max_time: float | None,
    seed: int,
    growth: float,
    around: tuple[str, ...],
    no_steer: bool,
    first: bool,
    resume: bool,
    jobs: int,
    dask: str | None,
    production: tuple[Path, ...],
    output: Path,
    form: str,
    **_of_properties: Any,
) -> None:
    """Let Hypothesis make workloads of KERNELs (`all` for the whole suite) and look for divergences.

    A KERNEL may be FILE.py:FUNCTION of your own: its parameters are the axes, their defaults, Literal[...] or annotated
    bounds the values. Of a kernel FILE:KERNEL of CUDA C++, PTX or machine code they are the axes that its launch gives a range
    (n=1..1Mi) or several values.

    Each finding is kept as its worst case, its smallest case and the region they stand for, in a file that
    `gpusim replay` runs again. Exit 0 without a finding, 1 with one or more.

    \b
    Examples:
      gpusim explore saxpy transpose --property metamorphic --max-examples 200
      gpusim explore all --property metamorphic --jobs 64 --dask tcp://scheduler:8786
      gpusim explore my.py:saxpy_case --property builds --other-kernel my.py:saxpy_before
      gpusim explore "my.cu:saxpy:n=1..1Mi,block=128,256" --grid "cdiv(n,block)" --arg int:n --arg float:2 --arg "float[n]" --arg "float[n]"
      gpusim explore --property gpus --other-gpu my_gpu.toml --threshold 0.1
      gpusim explore spmv_csr --property builds --other-kernel spmv_csr_vector
      gpusim explore --property versions --other-gpusim ../gpusim-of-last-week
      gpusim explore --around llama3_8b:phase=decode,batch=8,tensor_parallel=8 --growth 64
      gpusim explore --resume --max-examples 1000
    """
    if kernels != ("all",):
        for kernel in kernels:
            if is_native(kernel):
                refuse_unknown_kernel(kernel)
            else:
                name_alone, shape = split_request(kernel)
                refuse_unknown_request(name_alone)
                if shape:
                    raise UsageError(
                        f"{kernel}: a search draws the shapes itself, of every axis of the kernel and of as much work as --growth allows: name"
                        f" {name_alone} alone (ranges and values are for a launch of a kernel in a file of CUDA C++, PTX or machine code)"
                    )
    override_gpu(load_gpu(gpu), settings)
    # A search's matrices are small: a second thread of OpenBLAS spins beside them, a fifth of the processor time of 250
    # workloads. Read when NumPy is loaded, which is behind this.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@click.command(context_settings=HELP)
@click.argument("finding", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--worst", is_flag=True, help="Run the worst case instead of the smallest.")
@click.option(
    "--run-code", is_flag=True, help="Run code that the finding names even if it lies outside of this folder."
)
@format_option()
@done_by("exploring")
def replay(finding: Path, worst: bool, run_code: bool, form: str) -> None:
    """Run the smallest case of FINDING again, and lay what it says now beside what it said.

    Exit 1 while the divergence lasts, 0 once it is gone. A finding may name code (FILE.py:FUNCTION): it is run from
    this folder and below, and from elsewhere with --run-code alone.

    \b
    Examples:
      gpusim replay explore/bounds-saxpy-1a2b3c4d.finding.json
      gpusim replay --worst explore/gpus-transpose-5e6f7a8b.finding.json --format json
    """
