"""A cubin in, one kernel's machine code and everything its launch must know out.

Mental model: :class:`KernelImage` is what the driver's loader would put on the GPU for one kernel. The
kernel's code and every function that it reaches through relocations lie in one flat code space, the
kernel at address 0; constants, globals, parameters and resource counts stand beside it.
Attribute and relocation numbers were read off cubins by experiment and agree with the names that
NVIDIA's cuobjdump prints for them (EIATTR_*, R_CUDA_*).
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from gpusim.errors import CompileError
from gpusim.isa.binary.elf import (
    SECTION_NOBITS,
    SYMBOL_FUNCTION,
    SYMBOL_OBJECT,
    UNDEFINED,
    Elf,
    Relocation,
    Section,
    Symbol,
    parse_elf,
)
from gpusim.isa.binary.lines import carry_over, line_rows

INSTRUCTION_BYTES = 16
FUNCTION_ALIGNMENT = 128

#: Device addresses of the module's globals, and of the copy of constant bank 3 that pointers see. A
#: launch maps them there; being fixed, they can be patched into the code once.
GLOBALS_ADDRESS = 0x7E00_0000_0000
CONSTANTS_ADDRESS = 0x7E80_0000_0000
#: Where a cooperative launch finds its workspace.
GRID_WORKSPACE_ADDRESS = 0x7E90_0000_0000

# Attributes of .nv.info: (format, number) -> payload.
ATTRIBUTE_MAX_THREADS = 0x05
ATTRIBUTE_PARAMETER_BANK = 0x0A
ATTRIBUTE_FRAME_BYTES = 0x11
ATTRIBUTE_MIN_STACK_BYTES = 0x12
ATTRIBUTE_PARAMETER = 0x17
ATTRIBUTE_REGISTERS = 0x2F
ATTRIBUTE_BARRIERS = 0x4C

# Relocations: which bits of the place take which part of the value.
RELOCATE_WORD32 = (1, 3)
RELOCATE_WORD64 = (2, 4)
RELOCATE_LOW32_AT_32 = 0x38
RELOCATE_HIGH32_AT_32 = 0x39
# Targets of CALL.ABS: the disassembler names them, so that the code itself needs no patch.
RELOCATE_CALL = (0x3A, 0x4B)
# Descriptors of functions for launches from the device: nothing that is emulated can reach them.
RELOCATE_DESCRIPTOR = 0x23

_CODE = ".text."  # what the name of a function's section begins with
#: Most that a module's global variables, or one bank of constants, may be. Constants: CUDA C++ Programming Guide, "Technical
#: Specifications per Compute Capability"; variables: what this process may be asked to hold for a file of any size.
MAX_GLOBAL_BYTES = 1 << 30
MAX_CONSTANT_BYTES = 64 << 10
#: What a thread may have (the same table).
MAX_REGISTERS = 255
MAX_LOCAL_BYTES = 512 << 10
_ZEROS = bytes(1 << 20)

#: Stack of a thread when the compiler cannot bound it (recursion): the driver's default limit.
DEFAULT_STACK_BYTES = 1024


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter: byte ``offset`` from the parameter base, ``size`` in bytes."""

    ordinal: int
    offset: int
    size: int


@dataclass(frozen=True)
class KernelImage:
    """One kernel ready to be loaded; sizes in bytes, addresses in the flat code space.

    ``shared_bytes`` is static shared memory with nothing reserved by the system; ``shared_base`` the
    first shared address that belongs to the kernel. ``constants`` maps bank to initial bytes (bank 0
    without parameters). ``functions`` are (name, address, size); ``externals`` maps the address of a
    stub behind the code to the name of the driver function that it stands for. ``variables`` are the
    module's global variables (name, offset into ``global_data``, size), whose first bytes are ``global_initial`` and whose
    others are zero, ``constant_variables`` likewise those in constant bank 3; ``max_threads`` the largest block that the kernel was compiled for, 0 if it does not say.
    """

    name: str
    architecture: int
    code: bytes
    functions: tuple[tuple[str, int, int], ...]
    sections: tuple[tuple[str, int, int], ...]  # code section name, base, size
    registers_per_thread: int
    shared_bytes: int
    shared_base: int
    local_bytes: int
    barriers: int
    parameter_base: int
    parameter_bytes: int
    parameters: tuple[Parameter, ...]
    constants: dict[int, bytes]
    global_bytes: int
    global_initial: bytes
    externals: dict[int, str]
    sha256: str
    lines: dict[int, tuple[str, int]] = field(default_factory=dict)  # address -> (file, line)
    variables: tuple[tuple[str, int, int], ...] = ()
    constant_variables: tuple[tuple[str, int, int], ...] = ()
    max_threads: int = 0

    @property
    def global_data(self) -> bytes:
        """The initial content of all global variables."""
        return self.global_initial.ljust(self.global_bytes, b"\0")

    def symbol(self, name: str) -> int | None:
        """Flat address of function ``name``, or None."""
        return next((address for known, address, _ in self.functions if known == name), None)


def kernels_of(elf: Elf) -> list[str]:
    """Names of the kernels in a cubin, with parameters or without: functions that are marked as entries."""
    entries = {symbol.name for symbol in elf.symbols if symbol.kind == SYMBOL_FUNCTION and symbol.entry}
    names = [section.name.removeprefix(_CODE) for section in elf.starting(_CODE)]
    return [name for name in names if name in entries]


def load_kernel(data: bytes, name: str | None = None, line_data: bytes = b"") -> KernelImage:
    """Load kernel ``name`` (the only one when None) from cubin bytes.

    ``line_data``: the same kernel built with line information; its lines are used only when its code is
    the same. Raises CompileError for a damaged cubin or a kernel that is not in it.
    """
    cubin = _parsed(data)
    elf = cubin.elf
    names = kernels_of(elf)
    if name is None:
        if len(names) != 1:
            raise CompileError(f"the cubin holds {len(names)} kernels ({', '.join(names)}): name one")
        name = names[0]
    main = elf.named(f".text.{name}")
    if main is None:
        raise CompileError(f"the cubin has no kernel {name}; it has {', '.join(names) or 'none'}")
    image = _Loader(elf, name, main).image()
    lines = _lines(cubin.line_rows, image)
    if not lines and line_data:
        lines = _lines_of_twin(line_data, image)
    return KernelImage(**{**image.__dict__, "lines": lines})


class _Parsed:
    """A cubin's tables and, once asked for, its source lines by section: (address in it, file, line)."""

    def __init__(self, elf: Elf) -> None:
        self.elf = elf

    @cached_property
    def line_rows(self) -> dict[str, list[tuple[int, str, int]]]:
        rows: dict[str, list[tuple[int, str, int]]] = {}
        for row in line_rows(self.elf):
            if 0 <= row.section < len(self.elf.sections):
                rows.setdefault(self.elf.sections[row.section].name, []).append((row.address, row.file, row.line))
        return rows


@lru_cache(maxsize=1)
def _parsed(data: bytes) -> _Parsed:
    """Kept for the next kernel of the same cubin: some have hundreds."""
    return _Parsed(parse_elf(data))


class _Loader:
    """Lays out the reachable code and applies what relocations can be applied before launch."""

    def __init__(self, elf: Elf, name: str, main: Section):
        self.elf, self.name, self.main = elf, name, main
        self.bases: dict[int, int] = {}  # code section -> flat base
        self.code = bytearray()
        self.externals: dict[int, str] = {}
        self.stubs: dict[str, int] = {}  # the same, by name
        self.global_bases: dict[int, int] = {}
        self.global_size = 0
        self.global_initial_size = 0

    def image(self) -> KernelImage:
        elf, name = self.elf, self.name
        self._lay_out_code()
        self._lay_out_globals()
        global_data = bytearray(self.global_initial_size)
        constants = self._constants()
        for section in elf.sections:
            if section.index in self.global_bases and section.kind != SECTION_NOBITS:
                base = self.global_bases[section.index]
                global_data[base : base + section.size] = section.data
        for index, base in self.bases.items():
            for relocation in elf.relocations.get(index, ()):
                self._relocate(relocation, "code", self.code, base)
        for bank in constants:
            section = self._constant_section(bank)
            for relocation in elf.relocations.get(section.index, ()) if section else ():
                self._relocate(relocation, f"constant{bank}", constants[bank], 0)
        for index, base in self.global_bases.items():
            for relocation in elf.relocations.get(index, ()):
                self._relocate(relocation, "globals", global_data, base)
        parameters, parameter_base, parameter_bytes, barriers = self._kernel_attributes()
        registers, local = self._resources()
        shared_base, shared_bytes = self._shared()
        code = bytes(self.code)
        digest = hashlib.sha256()
        for part in (
            str((elf.architecture, registers, shared_bytes, local, barriers, parameter_base, parameters)).encode(),
            code,
            *(bytes(constants[bank]) for bank in sorted(constants) if bank != 0),
        ):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        digest.update(self.global_size.to_bytes(8, "little"))
        digest.update(global_data)
        for start in range(len(global_data), self.global_size, len(_ZEROS)):
            digest.update(_ZEROS[: self.global_size - start])
        return KernelImage(
            name=name,
            architecture=elf.architecture,
            code=code,
            functions=self._functions(),
            sections=tuple(
                (elf.sections[index].name, base, elf.sections[index].size) for index, base in self.bases.items()
            ),
            registers_per_thread=registers,
            shared_bytes=shared_bytes,
            shared_base=shared_base,
            local_bytes=local,
            barriers=barriers,
            parameter_base=parameter_base,
            parameter_bytes=parameter_bytes,
            parameters=parameters,
            constants={bank: bytes(content) for bank, content in constants.items()},
            global_bytes=self.global_size,
            global_initial=bytes(global_data),
            externals=dict(self.externals),
            sha256=digest.hexdigest(),
            variables=self._variables(),
            constant_variables=self._constant_variables(),
            max_threads=self._max_threads(),
        )

    def _symbol(self, index: int) -> Symbol:
        if index >= len(self.elf.symbols):
            raise CompileError(f"damaged cubin: relocation names symbol {index} of {len(self.elf.symbols)}")
        return self.elf.symbols[index]

    def _lay_out_code(self) -> None:
        """Put the kernel first, then every code section that it reaches, through code or constants."""
        todo, seen_places = deque([self.main]), set()
        externals: dict[str, None] = {}  # in order of first use
        while todo:
            section = todo.popleft()
            if section.index in seen_places:
                continue
            seen_places.add(section.index)
            if section.name.startswith(".text"):
                if section.size % INSTRUCTION_BYTES:
                    raise CompileError(f"damaged cubin: {section.name} is no whole number of instructions")
                base = -(-len(self.code) // FUNCTION_ALIGNMENT) * FUNCTION_ALIGNMENT
                self.code.extend(bytes(base - len(self.code)))
                self.bases[section.index] = base
                self.code.extend(section.data)
            for relocation in self.elf.relocations.get(section.index, ()):
                symbol = self._symbol(relocation.symbol)
                if symbol.section == UNDEFINED:
                    if symbol.name and not symbol.name.startswith(".nv."):
                        externals[symbol.name] = None
                elif symbol.section < len(self.elf.sections):
                    target = self.elf.sections[symbol.section]
                    if target.name.startswith(".text"):
                        todo.append(target)
            if section is self.main:
                todo.extend(s for s in (self._constant_section(bank) for bank in (2, 3, 4)) if s is not None)
        base = len(self.code)
        for i, name in enumerate(externals):
            self.stubs[name] = base + i * INSTRUCTION_BYTES
            self.externals[self.stubs[name]] = name

    def _lay_out_globals(self) -> None:
        for section in self.elf.sections:
            if section.name.startswith(".nv.global"):
                base = -(-self.global_size // section.alignment) * section.alignment
                self.global_bases[section.index] = base
                self.global_size = base + section.size
                if section.kind != SECTION_NOBITS:
                    self.global_initial_size = self.global_size
                if self.global_size > MAX_GLOBAL_BYTES:
                    raise CompileError(
                        f"the cubin's global variables take {self.global_size} bytes; {MAX_GLOBAL_BYTES} are allowed"
                    )

    def _constant_section(self, bank: int) -> Section | None:
        return self.elf.named(f".nv.constant{bank}.{self.name}") or self.elf.named(f".nv.constant{bank}")

    def _constants(self) -> dict[int, bytearray]:
        found = {}
        for bank in range(0, 18):
            section = self._constant_section(bank)
            if section is not None:
                if section.size > MAX_CONSTANT_BYTES:
                    raise CompileError(
                        f"damaged cubin: {section.name} has {section.size} bytes, constant memory {MAX_CONSTANT_BYTES}"
                    )
                found[bank] = bytearray(section.data or bytes(section.size))
        return found

    def _relocate(self, relocation: Relocation, place: str, data: bytearray, base: int) -> None:
        symbol = self._symbol(relocation.symbol)
        at = base + relocation.offset
        width = 16 if place == "code" else 8
        if at + (4 if relocation.kind in RELOCATE_WORD32 else width) > len(data):
            raise CompileError(f"damaged cubin: relocation outside {place} at 0x{at:x}")
        value = self._value(symbol, relocation)
        if value is None or relocation.kind == RELOCATE_DESCRIPTOR:
            return
        if relocation.kind in RELOCATE_WORD64:
            data[at : at + 8] = (value & (2**64 - 1)).to_bytes(8, "little")
        elif relocation.kind in RELOCATE_WORD32:
            data[at : at + 4] = (value & (2**32 - 1)).to_bytes(4, "little")
        elif relocation.kind in (RELOCATE_LOW32_AT_32, RELOCATE_HIGH32_AT_32) and place == "code":
            part = value if relocation.kind == RELOCATE_LOW32_AT_32 else value >> 32
            data[at + 4 : at + 8] = (part & 0xFFFFFFFF).to_bytes(4, "little")
        elif relocation.kind in RELOCATE_CALL and place == "code":
            pass
        else:
            raise CompileError(
                f"{self.name}: relocation type 0x{relocation.kind:x} to {symbol.name or 'a section'}"
                f" at {place}+0x{at:x} is not known"
            )

    def _value(self, symbol: Symbol, relocation: Relocation) -> int | None:
        """What the relocation patches in; None for a system symbol that nothing here provides."""
        addend = relocation.addend
        if symbol.section in self.bases:
            return self.bases[symbol.section] + symbol.value + addend
        if symbol.section in self.global_bases:
            return GLOBALS_ADDRESS + self.global_bases[symbol.section] + symbol.value + addend
        if symbol.section == UNDEFINED:
            address = self.stubs.get(symbol.name)
            return None if address is None else address + addend
        if 0 < symbol.section < len(self.elf.sections) and self.elf.sections[symbol.section].name.startswith(
            ".nv.constant3"
        ):
            return CONSTANTS_ADDRESS + symbol.value + addend
        return symbol.value + addend

    def _functions(self) -> tuple[tuple[str, int, int], ...]:
        found = [
            (symbol.name, self.bases[symbol.section] + symbol.value, symbol.size)
            for symbol in self.elf.symbols
            if symbol.section in self.bases and symbol.kind == SYMBOL_FUNCTION and symbol.name
            if self._is_inside(symbol)
        ]
        found.extend((name, address, INSTRUCTION_BYTES) for address, name in self.externals.items())
        return tuple(found)

    def _variables(self) -> tuple[tuple[str, int, int], ...]:
        return tuple(
            (symbol.name, self.global_bases[symbol.section] + symbol.value, symbol.size)
            for symbol in self.elf.symbols
            if symbol.section in self.global_bases and symbol.kind == SYMBOL_OBJECT
            if self._is_inside(symbol)
        )

    def _constant_variables(self) -> tuple[tuple[str, int, int], ...]:
        section = self._constant_section(3)
        return tuple(
            (symbol.name, symbol.value, symbol.size)
            for symbol in self.elf.symbols
            if section is not None and 0 < symbol.section < len(self.elf.sections) and symbol.kind == SYMBOL_OBJECT
            if self.elf.sections[symbol.section] is section and self._is_inside(symbol)
        )

    def _is_inside(self, symbol: Symbol) -> bool:
        """True; raises CompileError for a symbol that leaves its section."""
        section = self.elf.sections[symbol.section]
        if symbol.value + symbol.size > section.size:
            raise CompileError(f"damaged cubin: symbol {symbol.name} leaves {section.name}")
        return True

    def _max_threads(self) -> int:
        info = self.elf.named(f".nv.info.{self.name}")
        for _, number, payload in _attributes(info) if info else ():
            if number == ATTRIBUTE_MAX_THREADS and len(payload) >= 12:
                x, y, z = (int.from_bytes(payload[i : i + 4], "little") for i in (0, 4, 8))
                return x * y * z
        return 0

    def _kernel_attributes(self) -> tuple[tuple[Parameter, ...], int, int, int]:
        info = self.elf.named(f".nv.info.{self.name}")
        parameters, base, size, barriers = [], 0, 0, 0
        for _, number, payload in _attributes(info) if info else ():
            if number == ATTRIBUTE_PARAMETER_BANK and len(payload) >= 8:
                base = int.from_bytes(payload[4:6], "little")
                size = int.from_bytes(payload[6:8], "little")
            elif number == ATTRIBUTE_PARAMETER and len(payload) >= 12:
                ordinal = int.from_bytes(payload[4:6], "little")
                offset = int.from_bytes(payload[6:8], "little")
                parameters.append(Parameter(ordinal, offset, int.from_bytes(payload[8:12], "little") >> 18))
            elif number == ATTRIBUTE_BARRIERS and payload:
                barriers = payload[0]
        return tuple(sorted(parameters, key=lambda p: p.ordinal)), base, size, barriers

    def _resources(self) -> tuple[int, int]:
        """Registers of the kernel and bytes of local memory a thread needs, calls included."""
        registers, stack, frame = 0, 0, 0
        info = self.elf.named(".nv.info")
        for _, number, payload in _attributes(info) if info else ():
            if number not in (ATTRIBUTE_REGISTERS, ATTRIBUTE_MIN_STACK_BYTES, ATTRIBUTE_FRAME_BYTES):
                continue
            if len(payload) < 8:
                continue
            index, value = int.from_bytes(payload[:4], "little"), int.from_bytes(payload[4:8], "little")
            symbol = self.elf.symbols[index] if index < len(self.elf.symbols) else None
            if symbol is None or symbol.section not in self.bases:
                continue
            if number == ATTRIBUTE_REGISTERS:
                registers = max(registers, value)
            elif number == ATTRIBUTE_MIN_STACK_BYTES and symbol.name == self.name:
                stack = DEFAULT_STACK_BYTES if value == 0xFFFFFFFF else value
            elif number == ATTRIBUTE_FRAME_BYTES:
                frame += value
        local = max(stack, frame)
        if registers > MAX_REGISTERS or local > MAX_LOCAL_BYTES:
            raise CompileError(
                f"damaged cubin: {self.name} claims {registers} registers and {local} bytes of local memory a thread;"
                f" {MAX_REGISTERS} and {MAX_LOCAL_BYTES} are allowed"
            )
        return registers, local

    def _shared(self) -> tuple[int, int]:
        """(first address, bytes) of static shared memory. From sm_90 on the first KiB is the system's and
        counts in the section's size."""
        section = self.elf.named(f".nv.shared.{self.name}")
        size = section.size if section else 0
        base = 0x400 if self.elf.architecture >= 90 else 0
        return base, max(0, size - base)


def _attributes(section: Section) -> list[tuple[int, int, bytes]]:
    """(format, number, payload) of every attribute of a .nv.info section."""
    data, at, found = section.data, 0, []
    while at + 4 <= len(data):
        kind, number, value = data[at], data[at + 1], int.from_bytes(data[at + 2 : at + 4], "little")
        at += 4
        if kind == 4:
            if at + value > len(data):
                raise CompileError(f"damaged cubin: attribute outside {section.name}")
            found.append((kind, number, data[at : at + value]))
            at += value
        else:
            found.append((kind, number, value.to_bytes(2, "little")))
    return found


def _lines(rows: dict[str, list[tuple[int, str, int]]], image: KernelImage) -> dict[int, tuple[str, int]]:
    bases = {name: (base, size) for name, base, size in image.sections}
    lines: dict[int, tuple[str, int]] = {}
    for name, (base, size) in bases.items():
        entries = sorted(rows.get(name, ()), key=lambda entry: entry[0])
        for i, (start, file, line) in enumerate(entries):
            stop = entries[i + 1][0] if i + 1 < len(entries) else size
            for address in range(start, min(stop, size), INSTRUCTION_BYTES):
                lines[base + address] = (file, line)
    return lines


def _lines_of_twin(data: bytes, image: KernelImage) -> dict[int, tuple[str, int]]:
    """Lines by the build with line information, as far as its code is the same."""
    try:
        elf = parse_elf(data)
        names = kernels_of(elf)
        twins = [load for load in names if _base_name(load) == _base_name(image.name)] or names
        twin = _Loader(elf, twins[0], elf.named(f".text.{twins[0]}")).image()
    except (CompileError, IndexError, AttributeError):
        return {}
    return carry_over(image.code, twin.code, _lines(_Parsed(elf).line_rows, twin))


def _base_name(mangled: str) -> str:
    """A Numba symbol up to the tag that counts compilations ("B2v12"), which differs between builds."""
    return mangled.split("B", 1)[0]
