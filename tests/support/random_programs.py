"""Hypothesis draws small launches that use every unit of an SM, for laws that hold for any of them."""

from __future__ import annotations

import numpy as np
from hand_traces import FULL, Asm, build
from hypothesis import strategies as st

from gpusim.trace.record import Flag, MemoryKind, PipeClass, Space, Trace

_PLAIN = [PipeClass.FMA, PipeClass.ALU, PipeClass.IMAD, PipeClass.FP64, PipeClass.HALF, PipeClass.NONE]
_VARIABLE = [PipeClass.MUFU, PipeClass.CONVERT, PipeClass.SPECIAL, PipeClass.CONSTANT, PipeClass.VOTE]
_FOOTPRINTS = [1 << 10, 1 << 14, 1 << 22]


def _addresses(seed: int, width: int, footprint: int, scattered: bool):
    def where(block: int, warp: int):
        rng = np.random.default_rng((seed, block, warp))
        if scattered:
            return (1 << 30) + rng.integers(0, footprint // width, 32).astype(np.uint64) * np.uint64(width)
        return (1 << 30) + int(rng.integers(0, footprint // width)) * width, width * int(rng.choice([0, 1, 1, 2, 33]))

    return where


@st.composite
def programs(draw, steps: int = 14) -> Asm:
    """A straight program of up to ``steps`` steps that ends with EXIT."""
    asm = Asm()
    for step in range(draw(st.integers(1, steps))):
        wait = draw(st.sampled_from([0, 0, 1, 2, 3, 63]))
        stall = draw(st.integers(1, 12))
        hint = draw(st.sampled_from([0, 0, 0, 1]))
        what = draw(st.sampled_from(["plain", "plain", "variable", "load", "load", "store", "shared", "other"]))
        common = {"wait_mask": wait, "yield_hint": hint}
        width = draw(st.sampled_from([4, 4, 8, 16]))
        where = _addresses(step, width, draw(st.sampled_from(_FOOTPRINTS)), draw(st.booleans()))
        mask = draw(st.sampled_from([FULL, FULL, 0, 1, 0x0F0F00FF]))
        if what == "plain":
            registers = tuple(draw(st.lists(st.integers(-1, 6), min_size=3, max_size=3)))
            operands = {"sources": registers, "source_words": (1, 1, 2), "reuse_mask": draw(st.integers(0, 7))}
            constant = draw(st.sampled_from([{}, {}, {"constant_bytes": 4, "constant_offset": 64 * step}]))
            asm.op(draw(st.sampled_from(_PLAIN)), stall, **operands, **constant, **common)
        elif what == "variable":
            asm.op(draw(st.sampled_from(_VARIABLE)), stall, write_barrier=draw(st.integers(0, 5)), **common)
        elif what == "load":
            flags = draw(st.sampled_from([0, 0, int(Flag.BYPASS_L1)]))
            asm.load(where, width, barrier=draw(st.integers(0, 5)), mask=mask, stall=2, flags=flags, **common)
        elif what == "store":
            kind = draw(st.sampled_from([MemoryKind.STORE, MemoryKind.REDUCTION, MemoryKind.ATOMIC]))
            barrier = 2 if kind == MemoryKind.ATOMIC else 7
            asm.memory(kind, Space.GLOBAL, width, where, mask, stall, read_barrier=1, write_barrier=barrier, **common)
        elif what == "shared":
            where = _addresses(step, width, 1 << 10, draw(st.booleans()))
            kind = draw(st.sampled_from([MemoryKind.LOAD, MemoryKind.STORE, MemoryKind.ATOMIC]))
            asm.memory(kind, Space.SHARED, width, _shared(where), mask, stall, write_barrier=4, **common)
        else:
            kind = draw(st.sampled_from(["barrier", "shuffle", "fence", "local"]))
            if kind == "barrier":
                asm.op(PipeClass.BARRIER, stall, flags=int(Flag.BARRIER_WAIT), **common)
            elif kind == "shuffle":
                asm.op(PipeClass.SHUFFLE, stall, write_barrier=5, **common)
            elif kind == "fence":
                asm.op(PipeClass.NONE, stall, flags=int(Flag.FENCE), **common)
            else:
                kind = draw(st.sampled_from([MemoryKind.LOAD, MemoryKind.STORE]))
                asm.memory(kind, Space.LOCAL, 4, lambda b, w: (16, 0), mask, stall, write_barrier=3, **common)
    return asm.exit()


def _shared(where):
    def inside(block: int, warp: int):
        value = where(block, warp)
        return value - np.uint64(1 << 30) if isinstance(value, np.ndarray) else (value[0] - (1 << 30), value[1])

    return inside


@st.composite
def launches(draw, most_blocks: int = 12) -> Trace:
    """A launch of a drawn program."""
    return build(
        draw(programs()),
        blocks=draw(st.integers(1, most_blocks)),
        threads=draw(st.sampled_from([1, 32, 40, 128, 256])),
        shared_bytes=draw(st.sampled_from([4096, 60000])),
        blocks_per_chunk=draw(st.sampled_from([1, 3, 64])),
    )
