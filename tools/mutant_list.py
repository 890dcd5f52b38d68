"""The planted faults: named small changes of gpusim's own code, of a GPU's description, and of a kernel's source.

Mental model: a mutant is what somebody could get wrong in an afternoon. ``CODE`` replaces whole lines of a function of
gpusim by other lines; ``GPUS`` are settings that a GPU file would have wrong; ``BUILDS`` replace lines of a kernel of
the suite. None says how it could be noticed: which property is searched follows from the folder alone (``PROPERTIES``).
A fault must be in lines that kernels of the suite execute on the machine of the searches: none else could show it.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Folder of gpusim that was changed -> properties that are searched, in this order, until one finds something:
#: ``versions`` late, since a gpusim without the fault is more than somebody may have at hand.
PROPERTIES = {
    "capture": ("numpy", "versions"),
    "model": ("counts", "bounds", "versions", "metamorphic"),
    "engine": ("counts", "invariance", "bounds", "versions", "metamorphic"),
    "": ("numpy", "counts", "bounds", "invariance", "metamorphic", "versions"),  # nothing was changed: the control
}


@dataclass(frozen=True)
class CodeMutant:
    """``file`` under gpusim/; ``old``: whole lines that stand there once, ``new``: what stands there instead. Both
    without the indentation of the first line."""

    name: str
    file: str
    old: str
    new: str


@dataclass(frozen=True)
class GpuMutant:
    """``setting``: KEY=VALUE that differs from the GPU's file."""

    name: str
    setting: str


@dataclass(frozen=True)
class BuildMutant:
    """``kernel`` of the suite, from ``file`` under kernels/; ``old`` -> ``new`` in its text; ``make``: the file's
    function that makes a case."""

    name: str
    kernel: str
    file: str
    old: str
    new: str
    make: str = "make"


CODE = (
    CodeMutant(
        "coalescer: off by one sector",
        "model/coalescer.py",
        "last = min(end - 1, LINE_BYTES - 1) >> SECTOR_SHIFT",
        "last = min(end, LINE_BYTES - 1) >> SECTOR_SHIFT",
    ),
    CodeMutant(
        "coalescer: the last lane is left out",
        "model/coalescer.py",
        "address = addresses[lane]\nline = address & ~(LINE_BYTES - 1)\noffset = address - line",
        "address = addresses[lane - lane // 31]\nline = address & ~(LINE_BYTES - 1)\noffset = address - line",
    ),
    CodeMutant(
        "banks: one conflict too few",
        "model/shared_memory.py",
        "depth = 1",
        "depth = 0",
    ),
    CodeMutant(
        "banks: atomics on one word share it",
        "model/shared_memory.py",
        "first_of_bank[bank] += 1",
        "first_of_bank[bank] = 1",
    ),
    CodeMutant(
        "L1 tags: a line keeps only its newest sectors",
        "model/cache.py",
        "sets_of[sm, row, way] = entry | sectors",
        "sets_of[sm, row, way] = tag << SECTOR_BITS | sectors",
    ),
    CodeMutant(
        "L1: hit latency doubled",
        "model/l1_access.py",
        "done += timing[HIT_LATENCY]",
        "done += 2 * timing[HIT_LATENCY]",
    ),
    CodeMutant(
        "L2 hash: a stride of eight slices",
        "model/address_hash.py",
        "return (chunk - turn * slices + fold(turn)) % slices",
        "return (8 * chunk) % slices",
    ),
    CodeMutant(
        "L2: the far half costs nothing",
        "model/l2.py",
        "schedule(s, end + p.hit + p.far, child)",
        "schedule(s, end + p.hit, child)",
    ),
    CodeMutant(
        "L2: every read asks for whole lines",
        "model/l2.py",
        "wanted = _wait_for(p, s, slot, node, missing, p.fetch_sectors)\nif wanted:\n"
        "    ask_dram(p, s, end + p.hit, s.nodes[node, LINE], slot, wanted)",
        "wanted = _wait_for(p, s, slot, node, missing, p.line_sectors)\nif wanted:\n"
        "    ask_dram(p, s, end + p.hit, s.nodes[node, LINE], slot, wanted)",
    ),
    CodeMutant(
        "DRAM: a row change takes four times as long",
        "model/hbm.py",
        "return begin + p.row_change",
        "return begin + 4 * p.row_change",
    ),
    CodeMutant(
        "atomics: contention is free",
        "model/l2_atomics.py",
        "more = max(0, field(s, node, AMOUNT) - sectors)",
        "more = 0",
    ),
    CodeMutant(
        "scheduler: the youngest block and of that the oldest warp",
        "model/scheduler.py",
        "if last >= 0 and candidates >> (last - first) & 1:\n    chosen = last\nelse:\n"
        "    chosen = first + highest(candidates)\n    rest = candidates & slots[chosen, BEFORE]\n"
        "    while rest:\n        chosen = first + highest(rest)\n        rest &= slots[chosen, BEFORE]",
        "chosen = first + highest(candidates)\n"
        "rest = candidates & ~(slots[chosen, BEFORE] | 1 << (chosen - first))\nwhile rest:\n"
        "    chosen = first + highest(rest)\n"
        "    rest &= ~(slots[chosen, BEFORE] | 1 << (chosen - first))",
    ),
    CodeMutant(
        "scoreboard: nobody waits for counter 0",
        "model/scoreboard.py",
        "for counter in range(COUNTERS):\n"
        "    if (wait_mask >> counter) & 1:\n"
        "        if pending(board, warp, counter) > 0:\n"
        "            return NEVER, counter\n"
        "        if board[warp, counter] > cycle:\n"
        "            cycle = board[warp, counter]\n"
        "            last = counter",
        "for counter in range(1, COUNTERS):\n"
        "    if (wait_mask >> counter) & 1:\n"
        "        if pending(board, warp, counter) > 0:\n"
        "            return NEVER, counter\n"
        "        if board[warp, counter] > cycle:\n"
        "            cycle = board[warp, counter]\n"
        "            last = counter",
    ),
    CodeMutant(
        "occupancy: registers do not count",
        "model/occupancy.py",
        "limiter = min(limits, key=limits.__getitem__)",
        'limiter = min(("warps", "blocks", "shared_mem"), key=limits.__getitem__)',
    ),
    CodeMutant(
        "occupancy: half the blocks",
        "model/occupancy.py",
        "blocks = limits[limiter]",
        "blocks = -(-limits[limiter] // 2)",
    ),
    CodeMutant(
        "barrier: opens without its latency",
        "engine/issue.py",
        "if blocks[block, ARRIVED + number] >= expected_warps(blocks, block, number):\n"
        "    end = now + timing[BARRIER_LATENCY]\n"
        "    release_barrier(resident, program, timing, sm, block, number, end, now)",
        "if blocks[block, ARRIVED + number] >= expected_warps(blocks, block, number):\n"
        "    release_barrier(resident, program, timing, sm, block, number, now + 1, now)",
    ),
    CodeMutant(
        "accounting: stall counts are charged to nothing",
        "engine/issue.py",
        "stalls[pc, stall.WAIT] += fixed",
        "stalls[pc, stall.WAIT] += 0",
    ),
    CodeMutant(
        "dispatch: one SM is filled before the next",
        "engine/block_dispatcher.py",
        "sm, slot = dispatcher[0, FIRST_SERVED] % p.sm_count, dispatcher[0, FIRST_SERVED] // p.sm_count",
        "each = (dispatcher[0, SLOTS] + p.sm_count - 1) // p.sm_count\n"
        "sm, slot = dispatcher[0, FIRST_SERVED] // each, dispatcher[0, FIRST_SERVED] % each",
    ),
    CodeMutant(
        "engine: windows twice as long as the least latency",
        "engine/graph.py",
        "return min(route.latency_ticks for route in self.routes) // TICKS_PER_CYCLE",
        "return 2 * min(route.latency_ticks for route in self.routes) // TICKS_PER_CYCLE",
    ),
    CodeMutant(
        "reconvergence: nobody waits at BSYNC",
        "emulator/control_flow.py",
        "if executing == mask and wanted & ~mask == 0:\n    return FALLS_THROUGH, pc + 1, mask",
        "if executing == mask:\n    return FALLS_THROUGH, pc + 1, mask",
    ),
    CodeMutant(
        "predicates: lanes that are off are written too",
        "isa/bodies/masked.py",
        "predicates[place] = (predicates[place] & ~executing) | (hits & executing)",
        "predicates[place] = hits & at.FULL",
    ),
    CodeMutant(
        "rounding: a fused multiply-add rounds twice",
        "isa/bodies/wide.py",
        "total = float_fused(load(x + i * sx), load(y + i * sy), load(z + i * sz))",
        "total = float_add(float_multiply(load(x + i * sx), load(y + i * sy)), load(z + i * sz))",
    ),
    CodeMutant(
        "atomics: the new value is returned",
        "emulator/atomics.py",
        "registers[w] = old\nif kind == ops.F32 or kind == ops.F32_FTZ:\n"
        "    store32(address, signed32(_add_float(old, operand, kind == ops.F32_FTZ)))\n"
        "    return",
        "registers[w] = signed32(old + operand)\nif kind == ops.F32 or kind == ops.F32_FTZ:\n"
        "    store32(address, signed32(_add_float(old, operand, kind == ops.F32_FTZ)))\n"
        "    return",
    ),
    CodeMutant(
        "shuffle: the highest lane gives nothing",
        "isa/bodies/lanes.py",
        "source = lane + step\nvalid = source <= highest",
        "source = lane + step\nvalid = source < highest",
    ),
    CodeMutant(
        "launch: gridDim one too small",
        "emulator/state.py",
        'put(layout.grid_shape, "<3I", *launch.grid)',
        'put(layout.grid_shape, "<3I", *(max(1, side - 1) for side in launch.grid))',
    ),
    CodeMutant(
        "comparison: ties go wrong",
        "isa/bodies/masked.py",
        "hits = lower & -(f0 & 1) | greater & -(f0 >> 2 & 1) | ties & low",
        "hits = lower & -(f0 & 1) | greater & -(f0 >> 2 & 1) | ties & ~low",
    ),
)

GPUS = (
    GpuMutant("description: L2 latency doubled", "l2.hit_latency_ns=90.0"),
    GpuMutant("description: half the warps an SM", "sm.max_warps=32"),
    GpuMutant("description: half the banks", "l1.bank_count=16"),
)

BUILDS = (
    BuildMutant(
        "build: a spilled register",
        "matmul_tiled",
        "matmul.py",
        "    @cuda.jit\n    def matmul_tiled",
        "    @cuda.jit(max_registers=16)\n    def matmul_tiled",
        "make_tiled",
    ),
    BuildMutant(
        "build: an inner loop not unrolled",
        "matmul_tiled",
        "matmul.py",
        "for k in range(tile):",
        "for k in range(min(tile, 64 * a.shape[1])):",
        "make_tiled",
    ),
    BuildMutant(
        "build: a barrier in the loop",
        "transpose",
        "transpose.py",
        "        for j in range(0, TILE, rows_per_block):\n            if x < target",
        "        for j in range(0, TILE, rows_per_block):\n            cuda.syncthreads()\n            if x < target",
    ),
    BuildMutant(
        "build: padding forgotten",
        "transpose",
        "transpose.py",
        "pitch = TILE + padding",
        "pitch = TILE",
    ),
    BuildMutant(
        "build: scalar instead of vector access",
        "gelu",
        "gelu.py",
        "width = vector_width(dtype, n)",
        "width = 1",
    ),
)
