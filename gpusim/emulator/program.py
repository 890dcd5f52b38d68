"""A kernel as the trace describes it: one INSTRUCTION record and the text of each instruction.

Mental model: what the timing model must know of the code, gathered from three places: control fields from
the encoding, pipe class and memory behaviour from the table's row, registers from the operands.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.encode import records_of
from gpusim.isa.form import Instruction, Kind, MicroOp
from gpusim.isa.operands import fixed_constant, register_slots
from gpusim.trace.record import INSTRUCTION, Flag, MemoryKind, PipeClass, Program

NO_REGISTER = 255


def make_program(
    instructions: tuple[Instruction, ...],
    micros: tuple[MicroOp, ...],
    files: tuple[str, ...],
    externals: dict[int, str],
) -> Program:
    """The Program of a kernel; stubs of driver functions follow the instructions."""
    table = np.zeros(len(instructions) + len(externals), INSTRUCTION)
    table["write_barrier"] = table["read_barrier"] = 7
    table["destination"] = -1
    table["sources"] = -1
    table["file"] = -1
    table["stall_cycles"] = 1
    for record, instruction, micro in zip(table, instructions, micros, strict=False):
        control = instruction.control
        record["address"] = instruction.address
        record["pipe"] = micro.pipe
        record["memory_kind"] = micro.memory_kind
        record["space"] = micro.space
        record["access_bytes"] = micro.access_bytes
        record["records"] = records_of(micro)
        record["flags"] = micro.trace_flags
        record["stall_cycles"] = control.stall_cycles
        record["yield_hint"] = control.yield_hint
        record["write_barrier"] = control.write_barrier
        record["read_barrier"] = control.read_barrier
        record["wait_mask"] = control.wait_mask
        record["reuse_mask"] = control.reuse_mask
        record["depbar_index"] = micro.extra.get("depbar_index", 0)
        record["depbar_level"] = micro.extra.get("depbar_level", 0)
        record["barrier_id"] = micro.extra.get("barrier_id", 0)
        record["barrier_threads"] = micro.extra.get("barrier_threads", 0)
        record["line"] = instruction.line
        record["file"] = instruction.file
        record["matrix_type"], record["matrix_macs"] = micro.extra.get("matrix", (0, 0))
        destination = micro.destination
        if destination is not None and destination.kind == Kind.REGISTER and destination.index != NO_REGISTER:
            record["destination"] = destination.index
            record["destination_count"] = micro.words
        if micro.memory_kind == MemoryKind.NONE and micro.pipe != PipeClass.SHUFFLE:
            slots = register_slots(instruction, micro)
        else:
            slots = _sources(micro)[:3]
        for i, (register, words) in enumerate(slots):
            record["sources"][i], record["source_words"][i] = register, words
        record["constant_bytes"], record["constant_bank"], record["constant_offset"] = fixed_constant(
            instruction, micro
        )
        if micro.trace_flags & Flag.SLEEP:
            record["constant_offset"] = micro.extra["sleep_ns"]
    for i, address in enumerate(sorted(externals)):
        table[len(instructions) + i]["address"] = address
        table[len(instructions) + i]["pipe"] = PipeClass.BRANCH
    texts = tuple(i.text for i in instructions) + tuple(f"<{externals[a]}>" for a in sorted(externals))
    return Program(table, texts, files)


def _sources(micro: MicroOp) -> list[tuple[int, int]]:
    """(first vector register, registers) read, the address first; of what takes no memory queue one register each."""
    registers = []
    for name in ("address", "shared_address"):
        recipe = micro.extra.get(name)
        if recipe and recipe["base"] != NO_REGISTER:
            registers.append((recipe["base"], recipe.get("base_words", 1)))
    for source in micro.sources:
        if source is not None and source.operand.kind == Kind.REGISTER and source.operand.index != NO_REGISTER:
            registers.append((source.operand.index, source.words))
    if micro.pipe in (PipeClass.LSU, PipeClass.SHUFFLE):
        return registers
    return [(register, 1) for register, _ in registers]
