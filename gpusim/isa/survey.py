"""Which instruction forms a kernel's machine code is made of, and which of them the emulator has rows for.

Mental model: a form is an instruction with the numbers left out: opcode and modifiers as written, and each
operand's kind (``LDG.E.64 R, desc[UR][R.64+imm]``). Special registers and driver functions are named, since each
is supported or not by its name. A :class:`Survey` counts forms over the code of one kernel, so it is static:
an instruction in a loop counts once. Surveys of several kernels add up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpusim.errors import CompileError
from gpusim.isa.binary import externals
from gpusim.isa.binary.cubin import KernelCode, kernels_of, lines_of_section, load_code
from gpusim.isa.binary.cubin_tables import cubin_tables
from gpusim.isa.binary.decode import decode_sections
from gpusim.isa.form import Instruction, Kind, Operand
from gpusim.isa.table import supported, why_refused

ZERO_REGISTER = 255
#: What the kernels of a cubin may reach in all, functions and relocations, and bytes of code. Those of libraries call
#: few functions each; in a file made for it each of 65,000 could call all others.
MAX_REACHED = 1 << 22
MAX_REACHED_BYTES = 1 << 34
_PLAIN = {
    Kind.REGISTER: "R",
    Kind.UNIFORM: "UR",
    Kind.PREDICATE: "P",
    Kind.UNIFORM_PREDICATE: "UP",
    Kind.IMMEDIATE: "imm",
    Kind.BARRIER: "B",
    Kind.LABEL: "label",
    Kind.SCOREBOARD: "SB",
}


@dataclass(frozen=True, order=True)
class Form:
    """``text``: the form; ``refused``: why nothing emulates it, empty when something does."""

    text: str
    refused: str = ""


@dataclass
class Survey:
    """``counts``: occurrences of each form; ``examples``: for each refused form, one place as a user would
    look for it (kernel, address, SASS text, source line)."""

    counts: Counter[Form] = field(default_factory=Counter)
    examples: dict[Form, str] = field(default_factory=dict)
    kernels: int = 0

    def add(self, other: Survey) -> None:
        """Count in what ``other`` has counted."""
        self.counts.update(other.counts)
        for form, place in other.examples.items():
            self.examples.setdefault(form, place)
        self.kernels += other.kernels

    @property
    def instructions(self) -> int:
        return sum(self.counts.values())

    def refused(self) -> list[Form]:
        """The unsupported forms, commonest first."""
        found = [form for form in self.counts if form.refused]
        return sorted(found, key=lambda form: (-self.counts[form], form))

    def covered(self) -> float:
        """Share of the forms that are supported, 0 to 1; 1 of nothing."""
        return 1 - len(self.refused()) / len(self.counts) if self.counts else 1.0


def form_of(instruction: Instruction) -> str:
    """The form of ``instruction`` as text; its guard does not belong to it."""
    opcode = ".".join((instruction.mnemonic, *instruction.modifiers))
    return f"{opcode} {', '.join(_operand(o) for o in instruction.operands)}".rstrip()


@dataclass
class _Part:
    """The survey of some code, wherever it lies: ``refused``: the first instruction of each unsupported form, with its
    offset and source; ``calls``: how often each driver function is named."""

    counts: Counter[Form] = field(default_factory=Counter)
    refused: dict[Form, tuple[int, str]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)


def survey(image: KernelCode, instructions: Iterable[Instruction], name: str = "") -> Survey:
    """Count the forms of one kernel's code, and the driver functions that it calls as ``CALL name``."""
    return _joined(image, name or image.name, [(0, _part(image, instructions, 0, image.lines))])


def survey_cubin(data: bytes) -> tuple[int, dict[str, Survey]]:
    """Of a cubin file's bytes: the architecture (e.g. 90), and the survey of each kernel by symbol. A function that
    many kernels call is looked at once.

    Raises CompileError when the bytes are no sound cubin or hold no kernel, ToolchainError without nvdisasm.
    """
    elf = cubin_tables(data).elf
    names = kernels_of(elf)
    if not names:
        raise CompileError("the cubin holds no kernel")
    found: dict[str, Survey] = {}
    parts: dict[str, _Part] = {}
    reached = reached_bytes = 0
    for name in dict.fromkeys(names):
        image = load_code(data, name)
        sections = [section for section, _, _ in image.sections]
        own = [elf.named(section) for section in sections]
        reached += sum(1 + len(elf.relocations.get(section.index, ())) for section in own if section)
        reached_bytes += len(image.code)
        if reached > MAX_REACHED or reached_bytes > MAX_REACHED_BYTES:
            raise CompileError(
                f"the cubin's {len(names)} kernels call each other without end: they reach more than {MAX_REACHED} functions and"
                f" relocations, or {MAX_REACHED_BYTES} bytes of code, in all"
            )
        bases = {section: base for section, base, _ in image.sections}
        fresh = decode_sections(image, data, (section for section in sections if section not in parts))
        for section, instructions in fresh.items():
            parts[section] = _part(image, instructions, bases[section], lines_of_section(data, section))
        found[name] = _joined(image, name, [(bases[section], parts[section]) for section in sections])
    return elf.architecture, found


def _part(
    image: KernelCode, instructions: Iterable[Instruction], base: int, lines: Mapping[int, tuple[str, int]]
) -> _Part:
    """``lines``: by what is left of an address behind ``base``."""
    found = _Part()
    for instruction in instructions:
        reason = "" if supported(instruction) else why_refused(instruction)
        form = Form(form_of(instruction), reason)
        found.counts[form] += 1
        if reason and form not in found.refused:
            offset = instruction.address - base
            file, line = lines.get(offset, ("", 0))
            source = f" ({file}:{line})" if line else ""
            found.refused[form] = offset, f"{instruction.text}{source}"
        found.calls.update(
            image.externals[o.value]
            for o in instruction.operands
            if o.kind == Kind.LABEL and o.value in image.externals
        )
    return found


def _joined(image: KernelCode, kernel: str, parts: Iterable[tuple[int, _Part]]) -> Survey:
    """The survey of a kernel, of what it reaches, each part with its base."""
    found = Survey(kernels=1)
    calls: Counter[str] = Counter()
    for base, part in parts:
        found.counts.update(part.counts)
        calls.update(part.calls)
        for form, (offset, text) in part.refused.items():
            found.examples.setdefault(form, f"{kernel}, 0x{base + offset:x}: {text}")
    for function in image.externals.values():
        form = Form(f"CALL {function}", externals.why_refused(function))
        found.counts[form] += max(1, calls[function])
        if form.refused:
            found.examples.setdefault(form, kernel)
    return found


#: Within brackets: a numbered register, and what is added to it.
_NUMBERED = re.compile(r"\b(U?[RP])\d+\b")
_OFFSET = re.compile(r"\+-?0x[0-9a-f]+(?=[\]+])")


def _operand(operand: Operand) -> str:
    suffix = "".join(f".{m}" for m in operand.modifiers)
    if operand.kind == Kind.MEMORY:
        descriptor = "desc[UR]" if operand.descriptor >= 0 else ""
        return f"{descriptor}[{_address(operand)}]"
    if operand.kind == Kind.CONSTANT:
        bank = "cx[UR]" if operand.descriptor >= 0 else "c[bank]"
        return f"{bank}[{_address(operand)}]"
    if operand.kind == Kind.OTHER:  # gdesc[UR24], tmem[UR8+0x40]: whichever register, and wherever it points
        return _NUMBERED.sub(r"\1", _OFFSET.sub("+imm", operand.text))
    if operand.kind == Kind.SPECIAL:
        return operand.text
    return _PLAIN[operand.kind] + suffix


def _address(operand: Operand) -> str:
    """``R.64+UR+imm``; modifiers of the uniform register are kept as "UR.x"."""
    own = "".join(f".{m}" for m in operand.modifiers if not m.startswith("UR."))
    uniform = "".join(f".{m.removeprefix('UR.')}" for m in operand.modifiers if m.startswith("UR."))
    parts = []
    if operand.index != ZERO_REGISTER or own:
        parts.append(f"R{own}")
    if operand.uniform_index != ZERO_REGISTER or uniform:
        parts.append(f"UR{uniform}")
    if operand.value or not parts:
        parts.append("imm")
    return "+".join(parts)
