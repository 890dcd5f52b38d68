"""A cubin in, one kernel's machine code and everything its launch must know out.

Mental model: :class:`KernelImage` is what the driver's loader would put on the GPU for one kernel. The
kernel's code and every function that it reaches through relocations lie in one flat code space, the
kernel at address 0; constants, globals, parameters and resource counts stand beside it. What a program sees of a
function's address is of a space of the module's own (:mod:`gpusim.isa.binary.function_pointers`).
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from gpusim.errors import CompileError
from gpusim.isa.binary.cubin_tables import (
    ATTRIBUTE_FRAME_BYTES,
    ATTRIBUTE_MIN_STACK_BYTES,
    ATTRIBUTE_REGISTERS,
    CubinTables,
    cubin_tables,
    is_inside,
)
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
from gpusim.isa.binary.function_pointers import calls_through_pointers
from gpusim.isa.binary.kernel_attributes import Parameter, kernel_attributes
from gpusim.isa.binary.lines import carry_over
from gpusim.isa.binary.relocations import (
    RELOCATE_ADDRESS,
    RELOCATE_CALL,
    RELOCATE_DESCRIPTOR,
    RELOCATE_HIGH32_AT_32,
    RELOCATE_KERNEL,
    RELOCATE_KERNEL_LOW32_AT_32,
    RELOCATE_LOW32_AT_32,
    RELOCATE_WORD32,
    RELOCATE_WORD64,
)
from gpusim.isa.binary.system_memory import PAIR_ALLOCATION, pair_allocation, static_shared

INSTRUCTION_BYTES = 16
FUNCTION_ALIGNMENT = 128

#: Device addresses of the module's globals, and of the copy of constant bank 3 that pointers see. A
#: launch maps them there; being fixed, they can be patched into the code once.
GLOBALS_ADDRESS = 0x7E00_0000_0000
CONSTANTS_ADDRESS = 0x7E80_0000_0000
#: Where a cooperative launch finds its workspace.
GRID_WORKSPACE_ADDRESS = 0x7E90_0000_0000

#: The driver function that a kernel launches others with.
LAUNCH = "__cuda_syscall_cnpv2LaunchDeviceV2"
#: What stands for a kernel is this and 16 times its symbol's number, an address at which nothing is.
KERNELS_ADDRESS = 0x7B00_0000_0000

_CODE = ".text."  # what the name of a function's section begins with
#: Most of one bank of constants: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
MAX_CONSTANT_BYTES = 64 << 10
#: What a thread may have (the same table).
MAX_REGISTERS = 255
MAX_LOCAL_BYTES = 512 << 10
_ZEROS = bytes(1 << 20)

#: Stack of a thread when the compiler cannot bound it (recursion): the driver's default limit.
DEFAULT_STACK_BYTES = 1024


@dataclass(frozen=True, kw_only=True)
class KernelCode:
    """The machine code that a kernel can reach; sizes in bytes, addresses in the flat code space.

    ``functions`` are (name, address, size); ``externals`` maps the address of a stub behind the code to the name of the
    driver function that it stands for; ``launched`` likewise what stands for a kernel that the code launches, to its
    name; ``pointers`` what a pointer to a function holds, to its address: of those that a call through one can reach.
    """

    name: str
    architecture: int
    code: bytes
    functions: tuple[tuple[str, int, int], ...]
    sections: tuple[tuple[str, int, int], ...]  # code section name, base, size
    externals: dict[int, str]
    lines: dict[int, tuple[str, int]] = field(default_factory=dict)  # address -> (file, line)
    launched: dict[int, str] = field(default_factory=dict)
    pointers: dict[int, int] = field(default_factory=dict)

    def symbol(self, name: str) -> int | None:
        """Flat address of function ``name``, or None."""
        return next((address for known, address, _ in self.functions if known == name), None)


@dataclass(frozen=True, kw_only=True)
class KernelImage(KernelCode):
    """One kernel ready to be loaded.

    ``local_bytes`` is a thread's local memory, with the driver's default stack where ``open_stack``: the compiler
    cannot bound it (recursion). ``shared_bytes`` is static shared memory with nothing reserved by the system;
    ``shared_base`` the first shared address that belongs to the kernel. ``constants`` maps bank to initial bytes (bank
    0 without parameters). ``variables`` are the module's global variables (name, offset into ``global_data``, size),
    whose first bytes are ``global_initial`` and whose others are zero; ``pair_allocation`` as in :mod:`system_memory`;
    what a :class:`KernelAttributes` has is as there.
    """

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
    sha256: str
    variables: tuple[tuple[str, int, int], ...] = ()
    constant_variables: tuple[tuple[str, int, int], ...] = ()
    max_threads: int = 0
    cluster: tuple[int, int, int] | None = None
    max_cluster: int = 0
    needs_cluster: bool = False
    uses_reserved: bool = False
    open_stack: bool = False
    pair_allocation: tuple[int, int] = PAIR_ALLOCATION

    @property
    def global_data(self) -> bytes:
        """The initial content of all global variables."""
        return self.global_initial.ljust(self.global_bytes, b"\0")


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
    tables = cubin_tables(data)
    image = _loader(tables, name).image()
    lines = _lines(tables, image)
    if not lines and line_data:
        lines = _lines_of_twin(line_data, image)
    return replace(image, lines=lines)


def load_code(data: bytes, name: str) -> KernelCode:
    """The code of kernel ``name`` of a cubin, without source lines; raises CompileError as :func:`load_kernel`."""
    return _loader(cubin_tables(data), name).reached()


def lines_of_section(data: bytes, name: str) -> dict[int, tuple[str, int]]:
    """Address in code section ``name`` of a cubin -> (file, line)."""
    tables = cubin_tables(data)
    section = tables.elf.named(name)
    return _lines_in(tables, name, section.size) if section else {}


def _loader(tables: CubinTables, name: str | None) -> _Loader:
    main = None if name is None else tables.elf.named(f"{_CODE}{name}")
    if name is None or main is None:
        names = kernels_of(tables.elf)
        if name is None and len(names) != 1:
            raise CompileError(f"the cubin holds {len(names)} kernels ({', '.join(names)}): name one")
        name = names[0] if name is None else name
        main = tables.elf.named(f"{_CODE}{name}")
        if main is None:
            raise CompileError(f"the cubin has no kernel {name}; it has {', '.join(names) or 'none'}")
    return _Loader(tables, name, main)


class _Loader:
    """Lays out the reachable code and applies what relocations can be applied before launch."""

    def __init__(self, tables: CubinTables, name: str, main: Section):
        self.tables, self.elf, self.name, self.main = tables, tables.elf, name, main
        self.bases: dict[int, int] = {}  # code section -> flat base
        self.code = bytearray()
        self.externals: dict[int, str] = {}
        self.stubs: dict[str, int] = {}  # the same, by name
        self.calls_through_pointers = False
        self.pointed: set[int] = set()  # code sections that are there for pointers from elsewhere
        self._lay_out_code()
        self.globals = tables.globals

    def reached(self) -> KernelCode:
        for index, base in self.bases.items():
            for relocation in self.elf.relocations.get(index, ()):
                self._relocate(relocation, "code", self.code, base)
        return KernelCode(
            name=self.name,
            architecture=self.elf.architecture,
            code=bytes(self.code),
            functions=self._functions(),
            sections=tuple(
                (self.elf.sections[index].name, base, self.elf.sections[index].size)
                for index, base in self.bases.items()
            ),
            externals=dict(self.externals),
            launched=self._launched(),
            pointers=self._pointers(),
        )

    def image(self) -> KernelImage:
        elf = self.elf
        reached = self.reached()
        global_data = bytearray(self.globals.initial_size)
        constants = self._constants()
        for index, base in self.globals.bases.items():
            section = elf.sections[index]
            if section.kind != SECTION_NOBITS:
                global_data[base : base + section.size] = section.data
        for bank in constants:
            section = self._constant_section(bank)
            for relocation in elf.relocations.get(section.index, ()) if section else ():
                self._relocate(relocation, f"constant{bank}", constants[bank], 0)
        for index, base in self.globals.bases.items():
            for relocation in elf.relocations.get(index, ()):
                self._relocate(relocation, "globals", global_data, base)
        own = kernel_attributes(elf, self.name)
        registers, local, open_stack = self._resources()
        shared_base, shared_bytes = static_shared(elf, self.name)
        digest = hashlib.sha256()
        for part in (
            str(
                (elf.architecture, registers, shared_bytes, local, own.barriers, own.parameter_base, own.parameters)
            ).encode(),
            reached.code,
            *(bytes(constants[bank]) for bank in sorted(constants) if bank != 0),
        ):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        digest.update(self.globals.size.to_bytes(8, "little"))
        digest.update(global_data)
        for start in range(len(global_data), self.globals.size, len(_ZEROS)):
            digest.update(_ZEROS[: self.globals.size - start])
        return KernelImage(
            **reached.__dict__,
            registers_per_thread=registers,
            shared_bytes=shared_bytes,
            shared_base=shared_base,
            pair_allocation=pair_allocation(elf),
            local_bytes=local,
            barriers=own.barriers,
            parameter_base=own.parameter_base,
            parameter_bytes=own.parameter_bytes,
            parameters=own.parameters,
            constants={bank: bytes(content) for bank, content in constants.items()},
            global_bytes=self.globals.size,
            global_initial=bytes(global_data),
            sha256=digest.hexdigest(),
            variables=self.globals.variables,
            constant_variables=self._constant_variables(),
            max_threads=own.max_threads,
            cluster=own.cluster,
            max_cluster=own.max_cluster,
            needs_cluster=own.needs_cluster,
            uses_reserved=own.uses_reserved,
            open_stack=open_stack,
        )

    def _symbol(self, index: int) -> Symbol:
        if index >= len(self.elf.symbols):
            raise CompileError(f"damaged cubin: relocation names symbol {index} of {len(self.elf.symbols)}")
        return self.elf.symbols[index]

    def _lay_out_code(self) -> None:
        """Put the kernel first, then every code section that it reaches, through code or constants, and last those that
        a pointer from elsewhere may name."""
        todo, seen_places = deque([self.main]), set()
        externals: dict[str, None] = {}  # in order of first use
        while todo:
            section = todo.popleft()
            if section.index not in seen_places:
                seen_places.add(section.index)
                todo.extend(self._reach(section, externals))
            if not todo and self.calls_through_pointers:
                missing = [index for index in self.tables.function_addresses.taken if index not in seen_places]
                self.pointed.update(missing)
                todo.extend(self.elf.sections[index] for index in missing)
        base = len(self.code)
        for i, name in enumerate(externals):
            self.stubs[name] = base + i * INSTRUCTION_BYTES
            self.externals[self.stubs[name]] = name

    def _reach(self, section: Section, externals: dict[str, None]) -> Iterator[Section]:
        """Put a section's code behind the rest; gives what it reaches, and adds the driver functions that it names."""
        if section.name.startswith(".text"):
            if section.size % INSTRUCTION_BYTES:
                raise CompileError(f"damaged cubin: {section.name} is no whole number of instructions")
            base = -(-len(self.code) // FUNCTION_ALIGNMENT) * FUNCTION_ALIGNMENT
            self.code.extend(bytes(base - len(self.code)))
            self.bases[section.index] = base
            self.code.extend(section.data)
            self.calls_through_pointers |= calls_through_pointers(section.data)
        for relocation in self.elf.relocations.get(section.index, ()):
            symbol = self._symbol(relocation.symbol)
            if relocation.kind in (*RELOCATE_KERNEL, RELOCATE_DESCRIPTOR):
                continue  # a kernel that is launched is code of its own
            if symbol.section == UNDEFINED:
                if symbol.name and not symbol.name.startswith(".nv."):
                    externals[symbol.name] = None
            elif symbol.section < len(self.elf.sections):
                target = self.elf.sections[symbol.section]
                if target.name.startswith(".text"):
                    yield target
        if section is self.main:
            yield from (s for s in (self._constant_section(bank) for bank in (2, 3, 4)) if s is not None)

    def _pointers(self) -> dict[int, int]:
        """What pointers to the functions in the code hold, for calls through them; driver functions have but their
        stubs."""
        if not self.calls_through_pointers:
            return {}
        starts = self.tables.function_addresses.starts
        found = {
            address: self.bases[section] + offset
            for (section, offset), address in starts.items()
            if section in self.bases
        }
        return found | {address: address for address in self.externals}

    def _launched(self) -> dict[int, str]:
        """The kernels that the code may launch, if it launches any."""
        if LAUNCH not in self.stubs:
            return {}
        return {_handle(symbol): symbol.name for symbol in self.elf.symbols if symbol.entry}

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
        if relocation.kind == RELOCATE_DESCRIPTOR:
            data[at : at + 8] = _handle(symbol).to_bytes(8, "little")
            return
        value = self._value(symbol, relocation)
        if value is None:
            return
        if relocation.kind in RELOCATE_WORD64:
            data[at : at + 8] = (value & (2**64 - 1)).to_bytes(8, "little")
        elif relocation.kind in RELOCATE_WORD32:
            data[at : at + 4] = (value & (2**32 - 1)).to_bytes(4, "little")
        elif relocation.kind in RELOCATE_KERNEL and place == "code":
            part = _handle(symbol) >> (0 if relocation.kind == RELOCATE_KERNEL_LOW32_AT_32 else 32)
            data[at + 4 : at + 8] = (part & 0xFFFFFFFF).to_bytes(4, "little")
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
        if relocation.kind in RELOCATE_ADDRESS:
            function = self.tables.function_addresses.starts.get((symbol.section, symbol.value + addend))
            if function is not None:
                return function
        if symbol.section in self.bases:
            return self.bases[symbol.section] + symbol.value + addend
        if symbol.section in self.globals.bases:
            return GLOBALS_ADDRESS + self.globals.bases[symbol.section] + symbol.value + addend
        if symbol.section == UNDEFINED:
            address = self.stubs.get(symbol.name)
            return None if address is None else address + addend
        if 0 < symbol.section < len(self.elf.sections) and self.elf.sections[symbol.section].name.startswith(
            ".nv.constant3"
        ):
            return CONSTANTS_ADDRESS + symbol.value + addend
        return symbol.value + addend

    def _functions(self) -> tuple[tuple[str, int, int], ...]:
        known = self.tables.functions
        symbols = sorted((each for index in self.bases for each in known.get(index, ())), key=lambda each: each.index)
        found = [
            (symbol.name, self.bases[symbol.section] + symbol.value, symbol.size)
            for symbol in symbols
            if is_inside(self.elf, symbol)
        ]
        found.extend((name, address, INSTRUCTION_BYTES) for address, name in self.externals.items())
        return tuple(found)

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

    def _resources(self) -> tuple[int, int, bool]:
        """Registers of the kernel, bytes of local memory a thread needs, calls included, and whether that has no
        bound."""
        own, registers, stack, frame, unbounded = 0, 0, 0, 0, False
        for index in self.bases:
            for number, symbol, value in self.tables.resources.get(index, ()):
                if number == ATTRIBUTE_REGISTERS:
                    own = value if symbol.name == self.name else own
                    registers = max(registers, value)
                elif number == ATTRIBUTE_MIN_STACK_BYTES and symbol.name == self.name:
                    unbounded = value == 0xFFFFFFFF
                    stack = DEFAULT_STACK_BYTES if unbounded else value
                elif number == ATTRIBUTE_FRAME_BYTES and index not in self.pointed:
                    frame += value
        local = max(stack, frame)
        if registers > MAX_REGISTERS or local > MAX_LOCAL_BYTES:
            raise CompileError(
                f"damaged cubin: {self.name} claims {registers} registers and {local} bytes of local memory a thread;"
                f" {MAX_REGISTERS} and {MAX_LOCAL_BYTES} are allowed"
            )
        # The linker counts in the kernel's own number what it calls, through pointers the functions of their type.
        return own or registers, local, unbounded


def _lines(tables: CubinTables, code: KernelCode) -> dict[int, tuple[str, int]]:
    lines: dict[int, tuple[str, int]] = {}
    for name, base, size in code.sections:
        for address, place in _lines_in(tables, name, size).items():
            lines[base + address] = place
    return lines


def _lines_in(tables: CubinTables, name: str, size: int) -> dict[int, tuple[str, int]]:
    lines: dict[int, tuple[str, int]] = {}
    entries = sorted(tables.line_rows.get(name, ()), key=lambda entry: entry[0])
    for i, (start, file, line) in enumerate(entries):
        stop = entries[i + 1][0] if i + 1 < len(entries) else size
        for address in range(start, min(stop, size), INSTRUCTION_BYTES):
            lines[address] = (file, line)
    return lines


def _lines_of_twin(data: bytes, image: KernelImage) -> dict[int, tuple[str, int]]:
    """Lines by the build with line information, as far as its code is the same."""
    try:
        tables = CubinTables(parse_elf(data))
        names = kernels_of(tables.elf)
        twins = [load for load in names if _base_name(load) == _base_name(image.name)] or names
        twin = _loader(tables, twins[0]).image()
    except (CompileError, IndexError):
        return {}
    return carry_over(image.code, twin.code, _lines(tables, twin))


def _base_name(mangled: str) -> str:
    """A Numba symbol up to the tag that counts compilations ("B2v12"), which differs between builds."""
    return mangled.split("B", 1)[0]


def _handle(kernel: Symbol) -> int:
    """What stands for a kernel in code that launches it."""
    return KERNELS_ADDRESS + 16 * kernel.index
