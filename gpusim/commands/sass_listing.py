"""``gpusim sass``: a kernel's machine code, listed or surveyed; the work."""

from __future__ import annotations

import click

from gpusim.cases.case_forms import launches_ahead
from gpusim.cases.names import is_reference
from gpusim.cases.native_names import is_native, is_native_file
from gpusim.cases.native_shapes import load_native
from gpusim.cases.suite import make_case, parse_request
from gpusim.cases.user_kernels import load_object
from gpusim.errors import UsageError
from gpusim.frontend.registry import compile_kernel, front_end_of, is_kernel
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.isa.binary.externals import why_refused as why_function_refused
from gpusim.isa.form import Instruction
from gpusim.isa.table import TABLE, why_refused
from gpusim.launch.binary import KernelBinary
from gpusim.report.tables import format_records
from gpusim.trace.layout import NO_BARRIER, PipeClass

#: Stands for the pipe class of an instruction that no declaration accepts.
NOT_EMULATED = "-"


def show(kernel: str, gpu: str, signature: str | None, form: str) -> None:
    """What :func:`gpusim.commands.sass.show` declares, with its arguments."""
    binary = _binary(kernel, signature, load_gpu(gpu))
    instructions = binary.decode()
    pipes = [_pipe(instruction) for instruction in instructions]
    records = [
        {
            "address": f"{instruction.address:04x}",
            "stall": int(instruction.control.stall_cycles),
            "yield": int(instruction.control.yield_hint),
            "write": _barrier(instruction.control.write_barrier),
            "read": _barrier(instruction.control.read_barrier),
            "wait": "".join(str(i) for i in range(6) if instruction.control.wait_mask >> i & 1) or "-",
            "pipe": pipe,
            "line": int(instruction.line),
            "sass": instruction.text or f"0x{instruction.word:032x}",
        }
        for instruction, pipe in zip(instructions, pipes, strict=True)
    ]
    externals = binary.image.externals
    records += [
        {
            "address": f"{address:04x}", "stall": 1, "yield": 0, "write": "-", "read": "-", "wait": "-",
            "pipe": PipeClass.BRANCH.name.lower(), "line": 0, "sass": f"<{externals[address]}>",
        }
        for address in sorted(externals)
    ]  # fmt: skip
    refused = {
        f"{instruction.address:04x}": why_refused(instruction)
        for instruction, pipe in zip(instructions, pipes, strict=True)
        if pipe == NOT_EMULATED
    }
    refused |= {f"{a:04x}": reason for a, name in externals.items() if (reason := why_function_refused(name))}
    if refused:
        records = [{**record, "emulated": "no" if record["address"] in refused else "yes"} for record in records]
    click.echo(format_records(records, form))
    reasons: dict[str, list[str]] = {}
    for address, reason in refused.items():
        reasons.setdefault(reason, []).append(f"0x{address}")
    for reason, places in reasons.items():
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        click.echo(f"not emulated: {binary.name}, address {places[0]}{more}: {reason}", err=True)


def _pipe(instruction: Instruction) -> str:
    opcode = TABLE.get(instruction.mnemonic)
    micro = opcode.lower(instruction) if opcode is not None else None
    return NOT_EMULATED if micro is None else PipeClass(micro.pipe or 0).name.lower()


def _binary(kernel: str, signature: str | None, spec: GpuSpec) -> KernelBinary:
    name, shape = parse_request(kernel)
    if is_native_file(name):
        raise UsageError(f"{name} is a file of kernels: name one of them, {name}:KERNEL")
    function = load_object(name) if is_reference(name) and not shape else None
    if is_native(name):
        function = load_native(name, shape)
    major, minor = spec.capability
    capability = (major, minor)
    if function is not None and is_kernel(function):
        return front_end_of(function).compile_signature(function, signature, capability)
    if signature is not None:
        raise UsageError(f"--signature says the argument types of a kernel FILE.py:NAME, and {kernel} is none")
    launch = launches_ahead(make_case(name, shape, spec, small=True))[-1]
    return compile_kernel(launch.kernel, launch.args, capability)


def _barrier(index: int) -> str:
    return "-" if index == NO_BARRIER else str(index)
