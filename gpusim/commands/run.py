"""``gpusim run``: an unmodified Numba CUDA program on a machine with no GPU; how it is called."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import click

from gpusim.cases.native_names import is_native_file
from gpusim.commands.later import done_by
from gpusim.commands.options import HELP, instruction_limit_option
from gpusim.commands.output_place import refuse_no_place
from gpusim.commands.run_libraries import open_runtimes
from gpusim.commands.run_request import RunRequest
from gpusim.driver.device import MOST_DEVICES, make_device
from gpusim.driver.programs import is_executable
from gpusim.errors import UsageError
from gpusim.report.tables import FORMATS
from gpusim.sanitizer.checks import CHECKS


def _worker(*, program: str, as_module: bool, library_path: bool, **_options: Any) -> str:
    """What does the work: a program that is not Python needs nothing of the simulator in this process."""
    return "running_programs" if library_path or (not as_module and is_executable(program)) else "running"


@click.command(context_settings={**HELP, "ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--gpu",
    default="h200",
    show_default=True,
    metavar="NAME",
    help="The device that the program finds: a GPU of `gpusim gpus list`, a TOML file, or a capability such as sm_86.",
)
@click.option(
    "--devices",
    type=click.IntRange(1, MOST_DEVICES),
    metavar="N",
    help=f"How many devices of that kind the program finds, 1 to {MOST_DEVICES}; CUDA_VISIBLE_DEVICES then chooses among them.  [default: 1]",
)
@click.option("-m", "as_module", is_flag=True, help="PROGRAM is a module's name, as for python -m.")
@click.option("--simulate", is_flag=True, help="Predict each launch's cycles; CUDA events then tell predicted time.")
@click.option(
    "--sample", is_flag=True, help="With --simulate: leave out the middle of large launches, and say with what error."
)
@click.option(
    "--cold",
    is_flag=True,
    help="With --simulate: sweep L2 before each launch; without it L2 stays warm between launches.",
)
@click.option(
    "--why",
    is_flag=True,
    help="Simulate, and say of the first launch of each kernel and shape what limits it.",
)
@click.option(
    "--check",
    "checks",
    metavar="CHECKS",
    help=f"Look for defects in each launch, as `gpusim capture --check` does: {', '.join(CHECKS)}, separated by commas.",
)
@click.option(
    "--kernel", metavar="REGEX", default="", help="Simulate, record, check and explain launches of these kernels only."
)
@click.option(
    "--launch-skip",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Leave out the first N launches (of those kernels).",
)
@click.option("--launch-count", type=click.IntRange(1), metavar="N", help="Take N launches (of those kernels) at most.")
@instruction_limit_option()
@click.option(
    "--record", type=click.Path(path_type=Path), metavar="DIR", help="Keep each launch's trace in DIR, with index.json."
)
@click.option("--force", is_flag=True, help="Let --record replace the traces of a folder that is not empty.")
@click.option(
    "--leak-check",
    type=click.Choice(("no", "full")),
    default="no",
    show_default=True,
    help="List the device memory that the program has not freed at its end, with the line that allocated it.",
)
@click.option(
    "--pageable-memory",
    is_flag=True,
    help="Kernels reach all memory of the host, as on a Grace Hopper (attribute PAGEABLE_MEMORY_ACCESS).",
)
@click.option(
    "--library-path",
    is_flag=True,
    help="Print the folder of the emulated libcuda.so.1 and libcudart.so, to link with or to load, and end.",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the launches here, not to stderr."
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="How they are written."
)
@click.option(
    "--all-launches", is_flag=True, help="List single launches below their kernels, also where they are many."
)
@click.argument("program", required=False, default="")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@done_by(_worker)
def run(**options: Any) -> None:
    """Run PROGRAM [ARGUMENTS], a Python script or an executable, with an emulated GPU behind the CUDA driver.

    A script of Python's is run as python would; anything else that can be started is, with the emulated libcuda.so.1 and
    libcudart.so in front of the real ones (nvcc -cudart shared). Processes that it starts have the device too.

    Options of gpusim stand before PROGRAM. stdout is the program's own. At the end, also of a program that
    fails or is interrupted, its launches are listed on stderr, many of them by kernel. The exit code is the program's; if it died of a launch
    that failed on the device, that failure's (docs/reference/exit-codes.md); 1 if it ended well but --check or
    --leak-check has found something; 130 and 143 if it died of SIGINT and SIGTERM.

    All launches are emulated, for their results. --kernel, --launch-skip and --launch-count, as ncu has them, choose which
    of them are simulated, recorded, checked and explained. L2 keeps its data from launch to launch, also of launches that
    are not simulated; ncu sweeps it before each, as --cold does.

    \b
    Examples:
      gpusim run saxpy.py --size 100000
      gpusim run --gpu a100_80gb --simulate train.py
      gpusim run --simulate --cold --kernel 'gemm|softmax' --launch-skip 2 --launch-count 4 train.py
      gpusim run --simulate --sample --why train.py
      gpusim run --check memory,race train.py
      gpusim run --leak-check full train.py
      gpusim run --gpu a100_80gb ./vectorAdd 1000000
      gpusim run --devices 2 --simulate ./simpleP2P
      nvcc -cudart shared -L$(gpusim run --library-path) -o saxpy saxpy.cu
      gpusim run --record traces -o launches.json --format json -m package.module
    """
    asked = RunRequest(**options)
    if not asked.program and not asked.library_path:
        raise click.UsageError("Missing argument 'PROGRAM'.")
    refuse_no_place(asked.output)
    wanted = asked.wanted()
    if (asked.sample or asked.cold) and not asked.simulates:
        raise UsageError(f"{'--sample' if asked.sample else '--cold'} says how launches are simulated: add --simulate")
    chooses = asked.kernel or asked.launch_skip or asked.launch_count
    if chooses and not (asked.simulates or asked.record or wanted.checks):
        raise UsageError("there is nothing to choose launches for: add --simulate, --record, --check or --why")
    if asked.as_module and not is_module(asked.program):
        raise UsageError(f"there is no module {asked.program}")
    make_device(asked.gpu, count=asked.devices or 1)
    if not asked.as_module and not Path(asked.program).exists():
        raise UsageError(f"there is no program {asked.program}")
    if not asked.as_module and is_native_file(asked.program) and not is_executable(asked.program):
        raise UsageError(
            f"{asked.program} is no program yet: compile it (nvcc -cudart shared -L$(gpusim run --library-path) ...) and run what"
            f" comes of it, or run one kernel of it: gpusim simulate {asked.program}:KERNEL --grid ... --arg ..."
        )
    if _worker(**options) == "running":
        open_runtimes()


def is_module(name: str) -> bool:
    """Whether the first part of a module's name is found from the working folder; what is in it, only its import
    tells."""
    before = list(sys.path)
    sys.path[:1] = [os.getcwd()]
    try:
        return importlib.util.find_spec(name.partition(".")[0]) is not None
    except ValueError:  # no name at all, or a module that is loaded and says nothing of where from
        return bool(name.partition(".")[0])
    finally:
        sys.path[:] = before
