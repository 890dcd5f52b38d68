"""``gpusim sass survey``: which instruction forms a kernel has on each architecture, and what is supported; the
work."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from gpusim.cases.case_forms import launches_ahead
from gpusim.cases.names import general_names, is_reference
from gpusim.cases.native_names import ALL_KERNELS, is_native
from gpusim.cases.native_shapes import load_native
from gpusim.cases.suite import make_case, parse_request
from gpusim.cases.user_kernels import load_object
from gpusim.commands.sass_survey import ALL, is_file
from gpusim.errors import CompileError, ToolchainError, UnsupportedOpcodeError, UsageError
from gpusim.frontend.registry import compile_kernel, front_end_of, is_kernel
from gpusim.io.progress import task
from gpusim.isa.architectures import SURVEYED
from gpusim.isa.survey import Survey, survey_cubin
from gpusim.isa.survey import survey as survey_code
from gpusim.isa.target import make_target
from gpusim.launch.binary import KernelBinary
from gpusim.report.tables import format_records


def survey(
    kernels: tuple[str, ...], gpus: tuple[str, ...], architectures: tuple[str, ...], signature: str | None, form: str
) -> int:
    """What :func:`gpusim.commands.sass_survey.survey` declares, with its arguments."""
    paths = [k for k in kernels if is_file(k)]
    others = [k for k in kernels if not is_file(k)]
    bare = {k: load_object(k) for k in others if is_reference(k)}
    bare = {k: value for k, value in bare.items() if is_kernel(value)}
    bare |= {k: load_native(*parse_request(k)) for k in others if is_native(k)}
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


def _capabilities(gpus: tuple[str, ...], architectures: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Architecture -> capability of all that is asked for, each once."""
    asked = [name for name in architectures if name != ALL]
    if ALL in architectures or not gpus and not architectures:
        asked = [row.name for row in SURVEYED]
    targets = [make_target(name) for name in (*gpus, *asked)]
    return {"sm_{}{}".format(*target.capability): target.capability for target in targets}


def _of_suite(requests: list[str], capabilities: dict[str, tuple[int, int]]) -> Iterator[tuple[str, Survey]]:
    """The survey of each kernel that the requested entries launch, on each architecture."""
    requests = general_names() if ALL in requests else requests
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


def _of_file(file: str, capabilities: list[tuple[int, int]] | None) -> Iterator[tuple[str, Survey]]:
    """The survey of each kernel in the file, for all architectures that it has code for where none is asked for."""
    name, shape = parse_request(file) if is_native(file) else (file, {})
    path = Path(name.removesuffix(f":{ALL_KERNELS}"))
    source = load_native(name, shape) if shape else None
    try:
        cubins_of = importlib.import_module("gpusim.frontend.native.file_images").cubins_of
    except ImportError as error:  # not on Linux
        raise ToolchainError(f"{path}: a survey of a file needs the CUDA toolchain ({error})") from None
    try:
        for code in cubins_of(path, capabilities, source):
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
