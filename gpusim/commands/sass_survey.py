"""``gpusim sass survey``: which instruction forms a kernel has on each architecture, and what is supported."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from gpusim.cases.case_forms import launches_ahead
from gpusim.cases.names import is_reference, kernel_names
from gpusim.cases.native_cases import load_native
from gpusim.cases.native_names import is_native, is_native_file
from gpusim.cases.suite import make_case, parse_request
from gpusim.cases.user_kernels import load_object
from gpusim.commands.options import HELP, format_option
from gpusim.errors import CompileError, ToolchainError, UnsupportedOpcodeError, UsageError
from gpusim.frontend.registry import compile_kernel, front_end_of, is_kernel
from gpusim.io.progress import task
from gpusim.isa.architectures import SURVEYED
from gpusim.isa.survey import Survey, survey_cubin
from gpusim.isa.survey import survey as survey_code
from gpusim.isa.target import make_target
from gpusim.launch.binary import KernelBinary
from gpusim.report.tables import format_records

ALL = "all"


def signature_option() -> Callable:
    """``--signature TYPES``: what a kernel of the user's own is compiled for."""
    return click.option(
        "--signature",
        metavar="TYPES",
        help='Argument types of a kernel of your own, as Numba writes them: "float32, float32[:]".',
    )


@click.command(context_settings=HELP)
@click.argument("kernels", nargs=-1, required=True, metavar="KERNEL...")
@click.option(
    "--gpu", "gpus", multiple=True, metavar="NAME", help="Survey for this GPU's architecture; may be repeated."
)
@click.option(
    "--arch",
    "architectures",
    multiple=True,
    metavar="SM",
    help="Survey for this architecture (sm_90), or for all; may be repeated. Without --gpu and --arch: all.",
)
@signature_option()
@format_option()
def survey(
    kernels: tuple[str, ...], gpus: tuple[str, ...], architectures: tuple[str, ...], signature: str | None, form: str
) -> int:
    """Count the instruction forms of KERNELs and say which are supported.

    KERNEL is a kernel of the suite as NAME[:axis=value,...], "all" for the whole suite, the path of a cubin, fat binary, object,
    archive, shared library or executable (without --gpu and --arch: for all architectures that it has machine code for), of
    CUDA C++ (.cu) or PTX, a kernel of such a file as FILE:KERNEL, or FILE.py:FUNCTION: a kernel, such as a @cuda.jit function, whose argument
    types --signature says, or a case (see `gpusim capture --help`). Counts are static: how often a form stands in the code. The exit
    code is 5 if any form is unsupported.

    \b
    Examples:
      gpusim sass survey saxpy --gpu a100_80gb
      gpusim sass survey matmul_tiled softmax --arch sm_75 --arch sm_120
      gpusim sass survey all --format csv
      gpusim sass survey libfoo.so
      gpusim sass survey my.cu --gpu b200
      gpusim sass survey my.py:saxpy --signature "float32, float32[:], float32[:]" --arch all
    """
    paths = [Path(k) for k in kernels if _is_path(k)]
    others = [k for k in kernels if not _is_path(k)]
    bare = {k: load_object(k) for k in others if is_reference(k)}
    bare = {k: value for k, value in bare.items() if is_kernel(value)}
    bare |= {k: load_native(k) for k in others if is_native(k)}
    names = [k for k in others if k not in bare]
    if signature is not None and not bare:
        raise UsageError("--signature says the argument types of a kernel FILE.py:NAME, and none is named")
    found: dict[str, Survey] = {}
    asked = list(_capabilities(gpus, architectures).values()) if gpus or architectures else None
    for path in paths:
        for architecture, one in _of_file(path, asked):
            found.setdefault(architecture, Survey()).add(one)
    for architecture, one in _of_suite(names, _capabilities(gpus, architectures)) if names else ():
        found.setdefault(architecture, Survey()).add(one)
    for architecture, capability in (_capabilities(gpus, architectures) if bare else {}).items():
        for name, kernel in bare.items():
            binary = front_end_of(kernel).compile_signature(kernel, signature, capability)
            found.setdefault(architecture, Survey()).add(_of_binary(binary, name))
    click.echo(_text(found, form))
    refused = [(architecture, one) for architecture, one in found.items() if one.refused()]
    for architecture, one in refused:
        for form_ in one.refused():
            click.echo(f"unsupported on {architecture}: {form_.refused}: {one.examples[form_]}", err=True)
    return UnsupportedOpcodeError.exit_code if refused else 0


def _is_path(kernel: str) -> bool:
    if is_native(kernel) or is_reference(parse_request(kernel)[0]):
        return False
    path = Path(kernel)
    return path.is_file() or is_native_file(kernel) or path.parent != Path(".")


def _capabilities(gpus: tuple[str, ...], architectures: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Architecture -> capability of all that is asked for, each once."""
    asked = [name for name in architectures if name != ALL]
    if ALL in architectures or not gpus and not architectures:
        asked = [row.name for row in SURVEYED]
    targets = [make_target(name) for name in (*gpus, *asked)]
    return {"sm_{}{}".format(*target.capability): target.capability for target in targets}


def _of_suite(requests: list[str], capabilities: dict[str, tuple[int, int]]) -> Iterator[tuple[str, Survey]]:
    """The survey of each kernel that the requested entries launch, on each architecture."""
    requests = kernel_names() if ALL in requests else requests
    cases = []
    for request in requests:
        name, shape = parse_request(request)
        cases.append((name, make_case(name, shape, small=True)))
    steps = [(name, case, sm) for name, case in cases for sm in capabilities]
    with task("compiling", len(steps), "kernels") as shown:
        for number, (name, case, architecture) in enumerate(steps):
            shown.to(number, f"{name} for {architecture}")
            seen = set()
            for launch in launches_ahead(case):
                binary = compile_kernel(launch.kernel, launch.args, capabilities[architecture])
                if binary not in seen:
                    seen.add(binary)
                    yield architecture, _of_binary(binary, name)
        shown.to(len(steps))


def _of_binary(binary: KernelBinary, name: str) -> Survey:
    return survey_code(binary.image, binary.decode(), f"{name} ({binary.name})")


def _of_file(path: Path, capabilities: list[tuple[int, int]] | None) -> Iterator[tuple[str, Survey]]:
    """The survey of each kernel in the file, for all architectures that it has code for where none is asked for."""
    try:
        cubins_of = importlib.import_module("gpusim.frontend.native.file_images").cubins_of
    except ImportError as error:  # not on Linux
        raise ToolchainError(f"{path}: a survey of a file needs the CUDA toolchain ({error})") from None
    try:
        for code in cubins_of(path, capabilities):
            architecture, surveys = survey_cubin(code)
            for one in surveys.values():
                yield f"sm_{architecture}", one
    except CompileError as error:
        said = str(error)
        raise UsageError(said if said.startswith(str(path)) else f"{path}: {said}") from error
    except ToolchainError as error:  # nvdisasm is not here, or cannot read this
        raise ToolchainError(f"{path}: {error}") from error


def _text(found: dict[str, Survey], form: str) -> str:
    """Forms with their counts by architecture, refused ones first, and the totals."""
    every = {f for one in found.values() for f in one.counts}
    total = {f: sum(one.counts[f] for one in found.values()) for f in every}
    forms: list[dict[str, Any]] = [
        {
            "form": f.text,
            **{architecture: one.counts[f] for architecture, one in found.items()},
            "supported": "no" if f.refused else "yes",
            "reason": f.refused,
        }
        for f in sorted(every, key=lambda f: (not f.refused, -total[f], f))
    ]
    totals = [
        {
            "architecture": architecture,
            "kernels": one.kernels,
            "instructions": one.instructions,
            "forms": len(one.counts),
            "supported": len(one.counts) - len(one.refused()),
            "covered_percent": 100 * one.covered(),
        }
        for architecture, one in found.items()
    ]
    if form == "json":
        return json.dumps({"forms": forms, "totals": totals}, indent=2)
    if form == "csv":
        click.echo(format_records(totals, "csv"), err=True)
        return format_records(forms, form)
    return format_records(forms, form) + "\n\n" + format_records(totals, form)
