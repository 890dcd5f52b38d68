"""What the tensor memory accelerator (TMA) is asked for: bulk copies, reductions and prefetches, of bytes or of boxes
of tensors.

Mental model: one instruction of a warp, on uniform registers, moves a whole box. The first operand names consecutive
uniform registers (read off what the compiler fills them with): of a load the shared destination, the mbarrier, the
coordinates; of a store or reduction the shared source, the coordinates; of a prefetch the coordinates. The second is
the address of the tensor map or the other side of the copy. The third has two halves: offsets of an im2col map (16
bits, twice 8, three times 5) or, of bytes, their number divided by 16, below (of im2col::w the halo's pixels, 11 bits,
and the offset); a mask of the cluster's blocks or of bytes above. ``desc[]`` is a cache policy. Source: PTX ISA,
cp.async.bulk and its kin.
"""

from __future__ import annotations

from collections.abc import Callable

from gpusim.isa import bulk_ops as bulk
from gpusim.isa import system_ops as ops
from gpusim.isa.form import Instruction, Kind, MicroOp, Operand, Source
from gpusim.isa.forms.memory import NO_REGISTER
from gpusim.isa.opcode import NO_FLOPS, Opcode
from gpusim.trace.record import Flag, MemoryKind, PipeClass, Space

_OPERATIONS = {
    "ADD": ops.ADD, "MIN": ops.MIN, "MAX": ops.MAX, "INC": ops.INC, "DEC": ops.DEC, "AND": ops.AND, "OR": ops.OR,
    "XOR": ops.XOR,
}  # fmt: skip
_TYPES = {
    "S32": bulk.S32, "U64": bulk.U64, "S64": bulk.S64, "F16": bulk.F16, "BF16": bulk.BF16, "F32": bulk.F32,
    "F64": bulk.F64,
}  # fmt: skip
_RANKS = {f"{rank}D": rank for rank in range(1, 6)}
_MODES = {
    "IM2COL": bulk.MODE_IM2COL, "GATHER4": bulk.MODE_ROWS, "SCATTER4": bulk.MODE_ROWS, "W": bulk.MODE_WIDE,
    "W128": bulk.MODE_WIDE_128,
}  # fmt: skip
_IM2COL_MODES = (bulk.MODE_IM2COL, bulk.MODE_WIDE, bulk.MODE_WIDE_128)
_TENSORS = {
    "UTMALDG": (bulk.TENSOR_LOAD, MemoryKind.BULK_LOAD),
    "UTMASTG": (bulk.TENSOR_STORE, MemoryKind.BULK_STORE),
    "UTMAREDG": (bulk.TENSOR_REDUCE, MemoryKind.BULK_REDUCTION),
    "UTMAPF": (bulk.TENSOR_PREFETCH, MemoryKind.BULK_PREFETCH),
}
_BYTES: dict[tuple[str, ...], tuple[int, MemoryKind]] = {
    ("UBLKCP", "S", "G"): (bulk.BYTES_LOAD, MemoryKind.BULK_LOAD),
    ("UBLKCP", "G", "S"): (bulk.BYTES_STORE, MemoryKind.BULK_STORE),
    ("UBLKCP", "S", "S"): (bulk.SHARED_COPY, MemoryKind.BULK_SHARED_COPY),
    ("UBLKRED", "G", "S"): (bulk.BYTES_REDUCE, MemoryKind.BULK_REDUCTION),
    ("UBLKRED", "S", "S"): (bulk.SHARED_REDUCE, MemoryKind.BULK_SHARED_REDUCTION),
}
#: Those that tell an mbarrier, whose address is the second register of the first operand.
_TELL = (bulk.TENSOR_LOAD, bulk.BYTES_LOAD, bulk.SHARED_COPY, bulk.SHARED_REDUCE)
_STORES = (bulk.TENSOR_STORE, bulk.TENSOR_REDUCE, bulk.BYTES_STORE, bulk.BYTES_REDUCE)


def _registers(instruction: Instruction) -> tuple[list[int], Operand | None] | None:
    """First uniform registers of the operands in brackets, and the one without; None for operands of other kinds."""
    addresses, plain = [], None
    for operand in instruction.operands:
        if operand.kind == Kind.MEMORY and operand.descriptor >= 0 or operand.text.startswith("desc["):
            continue  # the cache policy
        if operand.kind == Kind.MEMORY:
            if (
                operand.index != NO_REGISTER
                or operand.value
                or operand.modifiers
                or operand.uniform_index == NO_REGISTER
            ):
                return None
            addresses.append(operand.uniform_index)
        elif operand.kind == Kind.UNIFORM and not operand.modifiers and plain is None:
            plain = operand
        else:
            return None
    return addresses, plain


def _uniform(first: int, words: int) -> Source:
    return Source(Operand(Kind.UNIFORM, first), words=words)


def _micro(
    form: int,
    kind: MemoryKind,
    addresses: list[int],
    words: tuple[int, int],
    third: Operand | None,
    flags: tuple[int, int, int],
) -> MicroOp:
    """The access that the trace gets: of the mbarrier, else of what lies in shared memory, else in global memory."""
    what, operation, element = flags
    first, bits = addresses[0], (bulk.HAS_THIRD if third is not None else 0) | form
    register, space = first, Space.GLOBAL
    if what & bulk.FORM_MASK in _TELL:
        register, space = first + 1, Space.CLUSTER
    elif what & bulk.FORM_MASK in _STORES:
        register, space = (
            first if what & bulk.FORM_MASK in (bulk.TENSOR_STORE, bulk.TENSOR_REDUCE) else addresses[1],
            Space.SHARED,
        )
    elif len(addresses) > 1:
        register = addresses[1]
    wide = space == Space.GLOBAL
    recipe = {
        "base": NO_REGISTER, "base_words": 2 if wide else 1, "base_signed": False, "shift": 0, "uniform": register,
        "uniform_words": 2 if wide else 1, "offset": 0,
    }  # fmt: skip
    return MicroOp(
        ops.BULK,
        sources=(
            _uniform(first, words[0]),
            _uniform(addresses[1], words[1]) if len(addresses) > 1 else None,
            Source(third) if third is not None else None,
        ),
        flags=(what, operation, element, bits),
        memory_kind=kind,
        space=space,
        access_bytes=8 if space == Space.CLUSTER else 16,
        trace_flags=int(Flag.BYPASS_L1),
        extra={"address": recipe},
    )


def lower_tensor(instruction: Instruction) -> MicroOp | None:
    """``UTMALDG.2D[.IM2COL|.W|.W128|.GATHER4][.MULTICAST][.2CTA] [URa], [URb][, URc][, desc[]]``, UTMASTG,
    UTMAREDG.2D.ADD, UTMAPF.L2."""
    found = _registers(instruction)
    what, kind = _TENSORS[instruction.mnemonic]
    rank = mode = operation = bits = 0
    for modifier in instruction.modifiers:
        if modifier in _RANKS:
            rank = _RANKS[modifier]
        elif modifier in _MODES:
            mode = _MODES[modifier]
        elif modifier in _OPERATIONS and what == bulk.TENSOR_REDUCE:
            operation = _OPERATIONS[modifier]
        elif modifier in ("MULTICAST", "2CTA") and what == bulk.TENSOR_LOAD:
            bits |= bulk.MULTICAST if modifier == "MULTICAST" else bulk.PAIRED
        elif modifier != "L2" or what != bulk.TENSOR_PREFETCH:
            return None
    if found is None or len(found[0]) != 2 or not rank:
        return None
    before = {bulk.TENSOR_LOAD: 2, bulk.TENSOR_PREFETCH: 0}.get(what, 1)
    words = before + (5 if mode == bulk.MODE_ROWS else rank)
    needs_third = bool(bits & bulk.MULTICAST) or (
        mode in _IM2COL_MODES and what in (bulk.TENSOR_LOAD, bulk.TENSOR_PREFETCH)
    )
    if needs_third != (found[1] is not None):
        return None
    if mode in _IM2COL_MODES and (rank < 3 or (mode != bulk.MODE_IM2COL and what in _STORES)):
        return None
    form = what | rank << bulk.RANK_SHIFT | mode << bulk.MODE_SHIFT
    return _micro(bits, kind, found[0], (words, 2), found[1], (form, operation, 0))


def lower_bytes(instruction: Instruction) -> MicroOp | None:
    """``UBLKCP.S.G[.MULTICAST] [URa], [URb], URc``, UBLKCP.G.S[.DST_G_BYTE_MASK], UBLKCP.S.S,
    UBLKRED.G.S.ADD.F32.RN."""
    found = _registers(instruction)
    named = _BYTES.get((instruction.mnemonic, *instruction.modifiers[:2]))
    if found is None or named is None or len(found[0]) != 2 or found[1] is None:
        return None
    (what, kind), operation, element, bits = named, None, bulk.U32, 0
    for modifier in instruction.modifiers[2:]:
        if modifier in _OPERATIONS and operation is None and instruction.mnemonic == "UBLKRED":
            operation = _OPERATIONS[modifier]
        elif modifier in _TYPES and operation is not None:
            element = _TYPES[modifier]
        elif modifier == "MULTICAST" and what == bulk.BYTES_LOAD:
            bits |= bulk.MULTICAST
        elif modifier == "DST_G_BYTE_MASK" and what == bulk.BYTES_STORE:
            bits |= bulk.BYTE_MASK
        elif modifier != "RN" or element not in (bulk.F16, bulk.BF16, bulk.F32, bulk.F64):
            return None
    if (operation is None) == (instruction.mnemonic == "UBLKRED"):
        return None
    words = {bulk.BYTES_LOAD: (2, 2), bulk.BYTES_STORE: (2, 1), bulk.BYTES_REDUCE: (2, 1)}.get(what, (2, 1))
    return _micro(bits, kind, found[0], words, found[1], (what, operation or 0, element))


def lower_bytes_prefetch(instruction: Instruction) -> MicroOp | None:
    """``UBLKPF.L2 [URa], URc``."""
    found = _registers(instruction)
    if found is None or instruction.modifiers != ("L2",) or len(found[0]) != 1 or found[1] is None:
        return None
    return _micro(0, MemoryKind.BULK_PREFETCH, found[0], (2, 0), found[1], (bulk.BYTES_PREFETCH, 0, 0))


def lower_map_cache(instruction: Instruction) -> MicroOp | None:
    """``UTMACCTL.PF [UR]`` and ``.IV``: maps are read from memory each time, so that their cache is never stale."""
    return MicroOp(ops.NOP) if instruction.modifiers in (("PF",), ("IV",), ("IVALL",)) else None


def lower_group(instruction: Instruction) -> MicroOp | None:
    """``UTMACMDFLUSH`` closes a group of bulk copies (the emulator has done them already)."""
    return None if instruction.modifiers else MicroOp(ops.NOP, trace_flags=int(Flag.BULK_GROUP))


def _opcode(mnemonic: str, summary: str, lowering: Callable[[Instruction], MicroOp | None], space: Space) -> Opcode:
    moves = space != Space.NONE
    return Opcode(
        mnemonic=mnemonic, summary=summary, lowering=lowering, bodies=(ops.BULK,) if moves else (ops.NOP,),
        pipe=PipeClass.TMA, coverage="async copy", flops=NO_FLOPS, space=space, bytes_moved=(16,) if moves else (),
    )  # fmt: skip


OPCODES = (
    _opcode("UTMALDG", "copy of a tensor's box to shared memory", lower_tensor, Space.GLOBAL),
    _opcode("UTMASTG", "copy of a tensor's box from shared memory", lower_tensor, Space.GLOBAL),
    _opcode("UTMAREDG", "reduction of shared memory into a tensor's box", lower_tensor, Space.GLOBAL),
    _opcode("UTMAPF", "prefetch of a tensor's box", lower_tensor, Space.GLOBAL),
    _opcode("UBLKCP", "bulk copy to or from shared memory", lower_bytes, Space.GLOBAL),
    _opcode("UBLKRED", "bulk reduction of shared memory", lower_bytes, Space.GLOBAL),
    _opcode("UBLKPF", "bulk prefetch", lower_bytes_prefetch, Space.GLOBAL),
    _opcode("UTMACCTL", "cache of tensor maps", lower_map_cache, Space.NONE),
    _opcode("UTMACMDFLUSH", "close a group of bulk copies", lower_group, Space.NONE),
)
