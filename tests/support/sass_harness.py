"""Run a kernel that is written as SASS text on the emulator: every instruction form, those too that no compiler emits.

Mental model: a Numba kernel of two arrays lends its launch (parameters, constant banks, memory), and the decoded text
stands in the place of its code. So decoding, lowering, encoding and the interpreter itself are run, warps in lockstep
included. Words of the program's input arrive in R8, R9, ... and the words that the program names go out again:

``run(["IADD3 R20, R8, R9, RZ"], uint32[2, threads], ["R20"])`` gives uint32[1, threads].

A line ``name:`` is a label and ``{name}`` its address; ``{parameters:16}`` is byte 16 of the kernel's parameters. R0 is
the thread's number and R2:R3, R4:R5 point to its first word of output and of input; a program leaves these alone, and
at most 64 registers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from unittest import mock

import numpy as np
from numba import cuda

from gpusim import capturing
from gpusim.emulator import emulation
from gpusim.emulator.encode import encode
from gpusim.emulator.prepare import Prepared
from gpusim.emulator.program import make_program
from gpusim.frontend.numba.build import argument_types, build
from gpusim.isa.binary.cubin import INSTRUCTION_BYTES, KernelImage
from gpusim.isa.binary.decode import parse_instruction
from gpusim.isa.form import Instruction
from gpusim.isa.table import lower_all
from gpusim.launch.kernel_launch import KernelLaunch

FIRST_INPUT = 8
_ARRAY = np.zeros(1, np.uint32)
#: Numba passes a one-dimensional array as seven values; the fifth is its address.
_OUT_ADDRESS, _IN_ADDRESS = 4, 11


@cuda.jit
def stand_in(out, values):
    out[0] = values[0]


@dataclass(frozen=True)
class Ran:
    """What a program left: ``words`` uint32[outputs, threads], and which of its mnemonics were executed."""

    words: np.ndarray
    executed: frozenset[str]


@lru_cache
def _image(capability: tuple[int, int]) -> KernelImage:
    return build(stand_in, argument_types(stand_in, (_ARRAY, _ARRAY)), capability, lines=False).image


def assemble(lines: Sequence[str], parameter_base: int = 0) -> tuple[Instruction, ...]:
    """Instructions of text lines, 16 bytes apart; labels become addresses."""
    labels, texts = {}, []
    for line in lines:
        if line.endswith(":"):
            labels[line[:-1]] = len(texts) * INSTRUCTION_BYTES
        else:
            texts.append(line)
    instructions = []
    for i, text in enumerate(texts):
        text = re.sub(r"\{parameters:(\d+)\}", lambda m: hex(parameter_base + int(m.group(1))), text)
        text = re.sub(r"\{(\w+)\}", lambda m: hex(labels[m.group(1)]), text)
        guard, text = text.split(" ", 1) if text.startswith("@") else ("", text)
        opcode, _, operands = text.partition(" ")
        instructions.append(parse_instruction(i * INSTRUCTION_BYTES, guard, opcode, operands, 0))
    return tuple(instructions)


def program(
    lines: Sequence[str], inputs: int, outputs: Sequence[str], threads: int, image: KernelImage, by_warp: bool = False
) -> list[str]:
    """``lines`` with what brings the inputs and takes the outputs away; ``by_warp``: all lanes of a warp get one
    input."""
    out, values = (image.parameter_base + image.parameters[i].offset for i in (_OUT_ADDRESS, _IN_ADDRESS))
    start = [
        "S2R R0, SR_TID.X",
        *(f"MOV R{2 + word}, c[0x0][{out + 4 * word:#x}]" for word in (0, 1)),
        *(f"MOV R{4 + word}, c[0x0][{values + 4 * word:#x}]" for word in (0, 1)),
        "IMAD.WIDE.U32 R2, R0, 0x4, R2",
        "SHF.R.U32.HI R6, RZ, 0x5, R0" if by_warp else "MOV R6, R0",
        "IMAD.WIDE.U32 R4, R6, 0x4, R4",
    ]
    count = threads // 32 if by_warp else threads
    loads = [f"LDG.E R{FIRST_INPUT + i}, [R4+{4 * count * i:#x}]" for i in range(inputs)]
    stores = [f"STG.E [R2+{4 * threads * i:#x}], {register}" for i, register in enumerate(outputs)]
    return [*start, *loads, *lines, *stores, "EXIT"]


@lru_cache(maxsize=64)
def _prepared(lines: tuple[str, ...], capability: tuple[int, int], local_bytes: int, shared_bytes: int) -> Prepared:
    image = replace(
        _image(capability), local_bytes=local_bytes, shared_bytes=shared_bytes, shared_base=0, registers_per_thread=64
    )
    instructions = assemble(lines, image.parameter_base)
    micros = lower_all(instructions, "text")
    return Prepared(
        capability, image, instructions, encode(image, instructions, micros), make_program(instructions, micros, (), {})
    )


def run(
    lines: Sequence[str],
    inputs: np.ndarray,
    outputs: Sequence[str],
    capability: tuple[int, int] = (9, 0),
    *,
    by_warp: bool = False,
    local_bytes: int = 0,
    shared_bytes: int = 0,
) -> Ran:
    """Run ``lines`` in one block of as many threads (warps, if ``by_warp``) as ``inputs`` uint32[n, count] has
    columns."""
    threads = inputs.shape[1] * (32 if by_warp else 1)
    image = _image(capability)
    whole = tuple(program(lines, len(inputs), outputs, threads, image, by_warp))
    prepared = _prepared(whole, capability, local_bytes, shared_bytes)
    out = np.zeros(max(1, len(outputs)) * threads, np.uint32)
    values = np.ascontiguousarray(inputs, np.uint32).reshape(-1)
    with (
        mock.patch.object(emulation, "prepare", lambda _: prepared),
        mock.patch.object(KernelLaunch, "local_bytes", local_bytes),
    ):
        trace = capturing.capture(stand_in, 1, threads, (out, values), gpu=capability, instruction_limit=10_000_000)
    edges = np.zeros(len(prepared.instructions) + 1, np.int64)
    for chunk in trace.chunk_list:
        np.add.at(edges, chunk.runs["first"], 1)
        np.add.at(edges, chunk.runs["first"] + chunk.runs["count"], -1)
    executed = {i.mnemonic for i, times in zip(prepared.instructions, np.cumsum(edges), strict=False) if times}
    return Ran(out.reshape(-1, threads)[: len(outputs)], frozenset(executed))
