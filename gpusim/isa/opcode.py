"""What is known of an opcode: one declaration, from which all that gpusim says or does about it derives.

Mental model: an :class:`Opcode` stands in one file of ``gpusim/isa/forms/`` and holds the facts: its names on both
datapaths, which forms of it are emulated and how they are lowered (operands and modifiers), which bodies then execute
them, the pipe that they are issued to, the class that coverage counts them in, the floating-point operations that the
roofline counts, the space and bytes that they move, a line for humans. Numbers of bodies and their dispatch
(:mod:`gpusim.isa.body`), ``gpusim sass survey``, coverage, the roofline and the reference page
(``docs/reference/instructions.md``) read it here; nobody keeps a list of opcodes beside it.

A declaration that lacks a fact is refused at import with a ValueError that names the opcode and the fact: a zero is
written as a zero (:data:`NO_FLOPS`), never assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpusim.isa.body import Body
from gpusim.isa.form import Instruction, Lower, MicroOp
from gpusim.trace.record import PipeClass, Space

OTHER = "other"
#: Classes of instructions in the order in which coverage reports them: what a person would call an instruction whatever
#: its modifiers, width or datapath. Shuffles are told apart by how lanes are chosen, since each way has its own rule
#: for lanes that have no partner.
COVERAGE_CLASSES = (
    "integer add", "integer multiply", "integer compare", "logic and shift", "bit count", "move and select",
    "predicate logic", "float32 add or multiply", "float32 fma", "float32 compare", "float16 arithmetic",
    "float16 compare", "float64 arithmetic", "float64 compare", "transcendental", "convert", "matrix multiply",
    "matrix move", "load", "store", "atomic", "reduction", "async copy", "constant load", "shuffle.idx", "shuffle.up",
    "shuffle.down", "shuffle.bfly", "vote", "match", "warp reduction", "branch", "indirect branch", "call",
    "reconvergence", "block barrier", "fence", "wait", "special register", OTHER,
)  # fmt: skip


@dataclass(frozen=True)
class Flops:
    """Floating-point operations: ``kind`` FP32, FP64, FP16, tensor or empty; ``each``: done by a lane, on the uniform
    datapath by a warp; of a tensor-core instruction by each of its multiply-adds, whose number the trace records."""

    kind: str
    each: int


NO_FLOPS = Flops("", 0)
TENSOR = Flops("tensor", 2)


def fp32(each: int) -> Flops:
    """``each`` FP32 operations a lane."""
    return Flops("FP32", each)


def fp64(each: int) -> Flops:
    """``each`` FP64 operations a lane."""
    return Flops("FP64", each)


def fp16(each: int) -> Flops:
    """``each`` half-precision or bfloat16 operations a lane."""
    return Flops("FP16", each)


@dataclass(frozen=True, kw_only=True)
class Opcode:
    """One declaration. Raises ValueError when a fact is missing or makes no sense.

    ``lowering`` returns None for a form that it does not accept (an unknown modifier, an unexpected operand): the form
    is then unsupported. ``bodies``: all that it chooses from, with numbers of the interpreter's own micro-ops
    (gpusim/isa/system_ops.py) among them. ``pipe``: of a form whose lowering asks for none of ``other_pipes``.
    ``coverage``: a class, or the class by first modifier. ``twin``: the uniform datapath has it too, with a U before
    its name and nothing else changed. ``space`` and ``bytes_moved`` (by a lane, as the width modifiers say): of memory
    instructions. ``refused``: why no form of it is emulated; then no other fact is asked for.
    """

    mnemonic: str
    summary: str = ""
    lowering: Lower | None = None
    bodies: tuple[Body | int, ...] | None = None
    pipe: PipeClass | None = None
    other_pipes: tuple[PipeClass, ...] = ()
    coverage: str | Mapping[str, str] | None = None
    flops: Flops | None = None
    twin: bool = False
    uniform: bool = False
    space: Space = Space.NONE
    bytes_moved: tuple[int, ...] = ()
    refused: str = ""

    def __post_init__(self) -> None:
        if self.refused:
            return
        for fact in ("summary", "lowering", "bodies", "pipe", "coverage", "flops"):
            if getattr(self, fact) in (None, "", (), {}):
                raise ValueError(f"opcode {self.mnemonic} is declared without {fact}")
        for name in self.coverage_classes:
            if name not in COVERAGE_CLASSES:
                raise ValueError(f"opcode {self.mnemonic}: no coverage class is called {name!r}")
        if bool(self.bytes_moved) != (self.space != Space.NONE):
            missing = "bytes_moved" if self.space != Space.NONE else "space"
            raise ValueError(f"opcode {self.mnemonic} is declared without {missing}")

    @property
    def coverage_classes(self) -> tuple[str, ...]:
        """The classes that its forms are counted in."""
        if self.coverage is None:
            return ()
        return (self.coverage,) if isinstance(self.coverage, str) else tuple(self.coverage.values())

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of the micro-ops that its forms become."""
        return tuple(body if isinstance(body, int) else body.number for body in self.bodies or ())

    def lower(self, instruction: Instruction) -> MicroOp | None:
        """The micro-op of a form of this opcode, or None for one that is not emulated. Raises ValueError when the
        lowering contradicts the declaration."""
        micro = None if self.refused or self.lowering is None else self.lowering(instruction)
        if micro is None:
            return None
        if micro.op not in self.numbers:
            raise ValueError(
                f"{instruction.text}: its lowering chose micro-op {micro.op}, which is none of the declared"
            )
        if micro.pipe is None or self.uniform:
            micro.pipe = self.pipe
        elif micro.pipe not in self.other_pipes:
            raise ValueError(f"{instruction.text}: its lowering chose pipe {micro.pipe.name}, which is not declared")
        return micro

    def coverage_class(self, modifiers: tuple[str, ...]) -> str:
        """The class of a form with these modifiers."""
        if self.refused or self.coverage is None:
            return OTHER
        if isinstance(self.coverage, str):
            return self.coverage
        return self.coverage.get(modifiers[0] if modifiers else "", OTHER)

    def on_the_uniform_datapath(self) -> Opcode:
        """The declaration of its uniform twin."""
        return replace(
            self, mnemonic="U" + self.mnemonic, summary=f"{self.summary} (uniform)", pipe=PipeClass.UNIFORM,
            other_pipes=(), twin=False, uniform=True,
        )  # fmt: skip


def collect(families: Iterable[Iterable[Opcode]]) -> dict[str, Opcode]:
    """Every opcode and uniform twin by mnemonic; raises ValueError when two declarations claim one."""
    table: dict[str, Opcode] = {}
    for opcodes in families:
        for declared in opcodes:
            for opcode in (declared, declared.on_the_uniform_datapath()) if declared.twin else (declared,):
                if opcode.mnemonic in table:
                    raise ValueError(f"two declarations serve {opcode.mnemonic}")
                table[opcode.mnemonic] = opcode
    return table
