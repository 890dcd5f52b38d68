"""Which instruction forms a kernel's machine code is made of, and which of them the emulator has rows for.

Mental model: a form is an instruction with the numbers left out: opcode and modifiers as written, and each
operand's kind (``LDG.E.64 R, desc[UR][R.64+imm]``). Special registers and driver functions are named, since each
is supported or not by its name. A :class:`Survey` counts forms over the code of one kernel, so it is static:
an instruction in a loop counts once. Surveys of several kernels add up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from gpusim.errors import CompileError
from gpusim.isa.binary import externals
from gpusim.isa.binary.cubin import KernelImage, kernels_of, load_kernel
from gpusim.isa.binary.decode import decode
from gpusim.isa.binary.elf import parse_elf
from gpusim.isa.form import Instruction, Kind, Operand
from gpusim.isa.table import supported, why_refused

ZERO_REGISTER = 255
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
        self.examples = {**other.examples, **self.examples}
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


def survey(image: KernelImage, instructions: Iterable[Instruction], name: str = "") -> Survey:
    """Count the forms of one kernel's code, and the driver functions that it calls as ``CALL name``."""
    found = Survey(kernels=1)
    kernel = name or image.name
    calls: Counter[int] = Counter()
    for instruction in instructions:
        reason = "" if supported(instruction) else why_refused(instruction)
        form = Form(form_of(instruction), reason)
        found.counts[form] += 1
        if reason:
            found.examples.setdefault(form, _place(image, kernel, instruction))
        calls.update(o.value for o in instruction.operands if o.kind == Kind.LABEL)
    for address, function in image.externals.items():
        form = Form(f"CALL {function}", externals.why_refused(function))
        found.counts[form] += max(1, calls[address])
        if form.refused:
            found.examples.setdefault(form, kernel)
    return found


def survey_cubin(data: bytes) -> tuple[int, dict[str, Survey]]:
    """Of a cubin file's bytes: the architecture (e.g. 90), and the survey of each kernel by symbol.

    Raises CompileError when the bytes are no sound cubin or hold no kernel, ToolchainError without nvdisasm.
    """
    elf = parse_elf(data)
    names = kernels_of(elf)
    if not names:
        raise CompileError("the cubin holds no kernel")
    found = {}
    for name in names:
        image = load_kernel(data, name)
        found[name] = survey(image, decode(image, data), name)
    return elf.architecture, found


def _place(image: KernelImage, kernel: str, instruction: Instruction) -> str:
    file, line = image.lines.get(instruction.address, ("", 0))
    source = f" ({file}:{line})" if line else ""
    return f"{kernel}, 0x{instruction.address:x}: {instruction.text}{source}"


def _operand(operand: Operand) -> str:
    suffix = "".join(f".{m}" for m in operand.modifiers)
    if operand.kind == Kind.MEMORY:
        descriptor = "desc[UR]" if operand.descriptor >= 0 else ""
        return f"{descriptor}[{_address(operand)}]"
    if operand.kind == Kind.CONSTANT:
        bank = "cx[UR]" if operand.descriptor >= 0 else "c[bank]"
        return f"{bank}[{_address(operand)}]"
    if operand.kind in (Kind.SPECIAL, Kind.OTHER):
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
