"""Accesses that hit nothing, or lie askew, as findings: which lanes of the instruction, and what lies near.

Mental model: the interpreter stops at the first bad lane and says where. The access that it had just logged
names the addresses of all lanes, so that every bad one of the warp is counted. The block is then given up, as a
GPU ends a kernel at such an access, and the next one runs.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.faults import place_of
from gpusim.emulator.listeners import Fault, Listener
from gpusim.isa import warp as at
from gpusim.launch.memory import DeviceMemory
from gpusim.sanitizer.findings import Finding, thread_index
from gpusim.trace.record import Launch, MemoryKind, Program, Space

_SPACES = {int(Space.SHARED): "__shared__", int(Space.LOCAL): "__local__", int(Space.GENERIC): "generic"}
_ACTS = {MemoryKind.STORE: "write", MemoryKind.ATOMIC: "atomic", MemoryKind.REDUCTION: "reduction"}


class MemoryCheck(Listener):
    """Collects the bad accesses of one launch, and takes their faults."""

    def __init__(self, program: Program, launch: Launch, memory: DeviceMemory):
        self.program, self.launch, self.memory = program, launch, memory
        self._found: dict[tuple[int, int], tuple[Finding, int]] = {}

    def warp_faulted(self, fault: Fault) -> bool:
        status, state, address, mask = fault
        if status not in (at.BAD_ADDRESS, at.MISALIGNED):
            return False
        index, size, space = int(state.fault_index), int(state.fault_bytes), int(state.fault_space)
        lanes = [lane for lane in range(at.LANES) if mask >> lane & 1]
        bad = [lane for lane in lanes if self._is_bad(status, state, int(address[lane]), size, space)]
        first = bad[0] if bad else int(state.fault_lane)
        where = int(address[first]) if bad else int(state.fault_address)
        known, count = self._found.get((status, index), (None, 0))
        if known is None:
            act = _ACTS.get(MemoryKind(int(self.program.instructions["memory_kind"][index])), "read")
            kind = "Invalid" if status == at.BAD_ADDRESS else "Misaligned"
            known = Finding(
                "memcheck",
                f"{kind} {_SPACES.get(space, '__global__')} {act} of size {size} bytes",
                0,
                tuple(int(i) for i in state.block_index),
                thread_index(self.launch, int(state.fault_warp) * at.LANES + first),
                place_of(self.program, index),
                detail=self._near(status, state, where, size, space),
            )
        self._found[status, index] = known, count + max(1, len(bad))
        return True

    def findings(self) -> list[Finding]:
        """What has been found so far, in the order of its first occurrence."""
        return [Finding(**{**vars(finding), "count": count}) for finding, count in self._found.values()]

    def _is_bad(self, status: int, state: np.record, address: int, size: int, space: int) -> bool:
        if status == at.MISALIGNED:
            return address % size != 0
        if space == Space.GENERIC:
            if address >> 32 == int(state.shared_window) >> 32:
                space, address = int(Space.SHARED), address & 0xFFFFFF
            elif address >> 32 == int(state.local_window) >> 32:
                space, address = int(Space.LOCAL), address & at.FULL
        if space == Space.SHARED:
            offset = address - int(state.shared_base)
            return offset < 0 or offset + size > int(state.shared_bytes)
        if space == Space.LOCAL:
            return address < 0 or address + size > int(state.local_bytes)
        return not any(a.base <= address and address + size <= a.end for a in self.memory.sorted())

    def _near(self, status: int, state: np.record, address: int, size: int, space: int) -> str:
        """The address and what lies about it."""
        if space == Space.SHARED:
            return f"shared address {address - int(state.shared_base)} of {int(state.shared_bytes)} bytes"
        if space == Space.LOCAL:
            return f"local address {address} of {int(state.local_bytes)} bytes a thread"
        if status == at.MISALIGNED:
            return f"address 0x{address:x} is not a multiple of {size}"
        return f"address 0x{address & (2**64 - 1):x}, {self.memory.describe(address)}"
