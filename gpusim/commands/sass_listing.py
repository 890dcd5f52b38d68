"""``gpusim sass``: a kernel's machine code, listed or surveyed; the work."""

from __future__ import annotations

import click

from gpusim.cases.case_forms import launches_ahead
from gpusim.cases.names import is_reference
from gpusim.cases.native_names import is_native, is_native_file
from gpusim.cases.native_shapes import load_native
from gpusim.cases.suite import make_case, parse_request
from gpusim.cases.user_kernels import load_object
from gpusim.emulator.prepare import prepare
from gpusim.errors import UsageError
from gpusim.frontend.registry import compile_kernel, front_end_of, is_kernel
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.report.tables import format_records
from gpusim.trace.layout import NO_BARRIER, PipeClass
from gpusim.trace.record import Program


def show(kernel: str, gpu: str, signature: str | None, form: str) -> None:
    """What :func:`gpusim.commands.sass.show` declares, with its arguments."""
    program = _program(kernel, signature, load_gpu(gpu))
    records = [
        {
            "address": f"{row['address']:04x}",
            "stall": int(row["stall_cycles"]),
            "yield": int(row["yield_hint"]),
            "write": _barrier(row["write_barrier"]),
            "read": _barrier(row["read_barrier"]),
            "wait": "".join(str(i) for i in range(6) if row["wait_mask"] >> i & 1) or "-",
            "pipe": PipeClass(row["pipe"]).name.lower(),
            "line": int(row["line"]),
            "sass": text,
        }
        for row, text in zip(program.instructions, program.texts, strict=True)
    ]
    click.echo(format_records(records, form))


def _program(kernel: str, signature: str | None, spec: GpuSpec) -> Program:
    name, shape = parse_request(kernel)
    if is_native_file(name):
        raise UsageError(f"{name} is a file of kernels: name one of them, {name}:KERNEL")
    function = load_object(name) if is_reference(name) and not shape else None
    if is_native(name):
        function = load_native(name, shape)
    major, minor = spec.capability
    capability = (major, minor)
    if function is not None and is_kernel(function):
        return prepare(front_end_of(function).compile_signature(function, signature, capability)).program
    if signature is not None:
        raise UsageError(f"--signature says the argument types of a kernel FILE.py:NAME, and {kernel} is none")
    launch = launches_ahead(make_case(name, shape, spec, small=True))[-1]
    return prepare(compile_kernel(launch.kernel, launch.args, capability)).program


def _barrier(index: int) -> str:
    return "-" if index == NO_BARRIER else str(index)
