"""Accesses that hit nothing, or lie askew, as findings: which lanes of the instruction, and what lies near.

Mental model: the interpreter stops before an access with a bad lane and names the addresses of all lanes. Every bad
one is counted and its thread ends there, as under compute-sanitizer; the other lanes make the access, and all other
threads of the block run on. So the count is of all threads of the launch that come to a bad access.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.faults import peer_fault, place_of
from gpusim.emulator.listeners import Fault, HeapBlock, Listener
from gpusim.isa import warp as at
from gpusim.launch.memory import DeviceMemory
from gpusim.sanitizer.findings import Finding, Findings, block_index, thread_index
from gpusim.trace.record import Launch, MemoryKind, Program, Space

_SPACES = {
    int(Space.SHARED): "__shared__",
    int(Space.LOCAL): "__local__",
    int(Space.GENERIC): "generic",
    int(Space.CLUSTER): "shared::cluster",
}
_ACTS = {MemoryKind.STORE: "write", MemoryKind.ATOMIC: "atomic", MemoryKind.REDUCTION: "reduction"}


class MemoryCheck(Listener):
    """Collects the bad accesses of one launch, and lets the threads end that make them."""

    def __init__(self, program: Program, launch: Launch, memory: DeviceMemory):
        self.program, self.launch, self.memory = program, launch, memory
        allocations = memory.sorted()  # none comes or goes while the launch runs
        self._base = np.array([allocation.base for allocation in allocations], np.int64)
        self._end = np.array([allocation.end for allocation in allocations], np.int64)
        self._found = Findings()

    def warp_faulted(self, fault: Fault) -> int:
        status, state, address, mask = fault
        index, size, space = int(state.fault_index), int(state.fault_bytes), int(state.fault_space)
        bad = self._bad(status, state, address, size, space) & ((mask >> np.arange(at.LANES)) & 1 != 0)
        bad[int(state.fault_lane)] = True
        first = int(np.argmax(bad))

        def finding() -> Finding:
            act = _ACTS.get(MemoryKind(int(self.program.instructions["memory_kind"][index])), "read")
            kind = "Invalid" if status == at.BAD_ADDRESS else "Misaligned"
            return Finding(
                "memcheck",
                f"{kind} {_SPACES.get(space, '__global__')} {act} of size {size} bytes",
                1,
                block_index(self.launch, int(state.linear)),
                thread_index(self.launch, int(state.fault_warp) * at.LANES + first),
                place_of(self.program, index),
                detail=self._near(status, state, int(address[first]), size, space),
            )

        self._found.add((status, index, space), int(bad.sum()), finding)
        return int((bad.astype(np.int64) << np.arange(at.LANES)).sum())

    def free_refused(self, freed: HeapBlock) -> bool:
        def finding() -> Finding:
            block, thread = block_index(self.launch, freed.block), thread_index(self.launch, freed.thread)
            where = place_of(self.program, freed.instruction)
            detail = f"0x{freed.address:x} is not allocated, or not any more"
            return Finding("memcheck", "Invalid pointer to free", 1, block, thread, where, detail=detail)

        self._found.add(("free", freed.instruction), 1, finding)
        return True

    def findings(self) -> list[Finding]:
        """What has been found so far, in the order of its first occurrence."""
        return self._found.listed()

    def _bad(self, status: int, state: np.record, address: np.ndarray, size: int, space: int) -> np.ndarray:
        """Which of the 32 addresses are bad in the way of ``status``, bool[32]."""
        if status == at.MISALIGNED:
            return address % size != 0
        offset = address - int(state.shared_base)
        outside_shared = (offset < 0) | (offset + size > int(state.shared_bytes))
        outside_local = (address < 0) | (address + size > int(state.local_bytes))
        if space == Space.SHARED:
            return outside_shared
        if space == Space.LOCAL:
            return outside_local
        if space == Space.CLUSTER:
            return self._outside_cluster(state, address, size)
        outside = self._outside(address, size)
        if space == Space.GENERIC:
            shared, local = (address >> 32 == int(window) >> 32 for window in (state.shared_window, state.local_window))
            outside[shared] = self._outside_cluster(state, address, size)[shared]
            outside[local] = ((address & at.FULL) + size > int(state.local_bytes))[local]
        return outside

    def _outside_cluster(self, state: np.record, address: np.ndarray, size: int) -> np.ndarray:
        """Which shared::cluster addresses are in the shared memory of no block of the cluster that is there,
        bool[32]."""
        return np.array([bool(peer_fault(state, int(each), size, Space.CLUSTER)) for each in address])

    def _outside(self, address: np.ndarray, size: int) -> np.ndarray:
        """Which addresses are in no allocation, bool[32]."""
        below = np.searchsorted(self._base, address, side="right") - 1
        if not len(self._base):
            return below < 0
        return (below < 0) | (address + size > self._end[below])

    def _near(self, status: int, state: np.record, address: int, size: int, space: int) -> str:
        """The address and what lies about it."""
        if space == Space.SHARED:
            return f"shared address {address - int(state.shared_base)} of {int(state.shared_bytes)} bytes"
        if space == Space.LOCAL:
            return f"local address {address} of {int(state.local_bytes)} bytes a thread"
        if status == at.MISALIGNED:
            return f"address 0x{address:x} is not a multiple of {size}"
        if peer := peer_fault(state, address, size, space):
            return f"address 0x{address:x}, {peer}"
        return f"address 0x{address & (2**64 - 1):x}, {self.memory.describe(address)}"
