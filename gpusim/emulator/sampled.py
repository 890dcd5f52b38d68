"""A launch captured from a few of its blocks, where the others follow from them; or of all of them, without the data
that they move.

Mental model: two questions. Can what a block does depend on memory, and so on other blocks? The machine code says
(:mod:`gpusim.emulator.oblivious`). Are all blocks one block moved? A few are run alone and held against each other
(:mod:`gpusim.trace.regular`). Two times yes, and the trace of every block is known without running it. Where only the
first is answered so, as of clusters and of blocks that wait for asynchronous units, all blocks run, but bulk copies
move nothing and products are not computed.
"""

from __future__ import annotations

from collections.abc import Callable

from gpusim.emulator.emulation import Emulation
from gpusim.emulator.oblivious import what_depends
from gpusim.isa import system_ops as ops
from gpusim.isa.table import lower_all
from gpusim.launch.binary import KernelBinary
from gpusim.trace.regular import IrregularError, Place, RegularBlocks, fit, linear
from gpusim.trace.template import BlockTemplate, Patterns, fold

#: Blocks below which all of them are run: finding out what they have in common takes up to some fifty.
LEAST_BLOCKS = 64
#: Accesses and loop-free instructions of a folded block beyond which holding some dozens of them is too much.
MOST_ACCESSES = 1 << 21


def dependence(binary: KernelBinary) -> str:
    """Why the launch counts as dependent: how what a block does may depend on memory, where other blocks may write.
    Empty: it cannot."""
    instructions = binary.decode()
    if binary.image.externals:
        return f"it calls {', '.join(sorted(set(binary.image.externals.values())))}"
    if binary.cooperative:
        return "it is a cooperative launch"
    return what_depends(instructions, lower_all(instructions, binary.name, ()))


def moves_data(binary: KernelBinary) -> bool:
    """Whether the kernel has bulk copies or products of warp groups, which are nearly all of an emulator's work."""
    instructions = binary.decode()
    return any(micro.op in (ops.BULK, ops.WARPGROUP_PRODUCT) for micro in lower_all(instructions, binary.name, ()))


def regular_blocks(emulation: Emulation, ran: Callable[[int], None]) -> RegularBlocks:
    """All blocks of a launch that depends on nothing, from a few, which are run; ``ran`` is told how many so far.
    Raises IrregularError where the others do not follow, and what running raises."""
    grid = emulation.facts.grid
    if emulation.facts.blocks < LEAST_BLOCKS:
        raise IrregularError(f"it has fewer than {LEAST_BLOCKS} blocks")
    patterns, count = Patterns(), 0

    def run(place: Place) -> BlockTemplate:
        nonlocal count
        chunk = emulation.run_block(linear(place, grid))
        if len(chunk.signals) or len(chunk.polls):
            raise IrregularError("its warps poll memory")
        if len(chunk.bulks):
            raise IrregularError("it makes bulk copies, or products into tensor memory")
        template = fold(chunk, emulation.program, patterns)
        if len(template.place) > MOST_ACCESSES:
            raise IrregularError(f"a block makes {len(template.place)} memory accesses that no loop sums up")
        count += 1
        ran(count)
        return template

    return fit(grid, run, lambda: patterns.rows, seed=int(emulation.facts.cubin_sha256[:8] or "0", 16))
