"""What the kernels of a device reach of the memory of all.

Mental model: a launch sees a part of the process' address space: its device's memory, the host's, managed memory, and
what others let it reach. The rest is not there for it, so that touching it is an illegal address, and the message says
whose memory it is.
"""

from __future__ import annotations

from collections.abc import Collection

from gpusim.driver.memory import DEVICE, MAPPED, Block, Memory
from gpusim.launch.memory import Allocation, DeviceMemory


class Reach(DeviceMemory):
    """The part of ``memory`` that a launch on ``device`` sees, which has access to the memory of the devices ``peers``.
    What the launch adds is for it alone."""

    def __init__(self, memory: Memory, device: int, peers: Collection[int]):
        super().__init__()
        self._device = device
        self._whole = memory.space
        self._hidden = {
            block.allocation.base: block for block in memory.blocks() if not is_reached(block, device, peers)
        }
        self._allocations = [each for each in memory.space.sorted() if each.base not in self._hidden]
        self.textures = memory.space.textures
        others = [
            block
            for block in memory.blocks()
            if block.device != device and block.kind in (DEVICE, MAPPED) and block.allocation.base not in self._hidden
        ]
        #: the other devices of which it sees memory, and whether some of that is mapped
        self.peers = {block.device for block in others}
        self.sees_mapped = any(block.kind == MAPPED for block in others)

    def describe(self, address: int) -> str:
        """As of all memory; of what is another device's, that it is."""
        for block in self._hidden.values():
            allocation: Allocation = block.allocation
            if allocation.base <= address < allocation.end:
                return (
                    f"{address - allocation.base} bytes into {allocation.label} of device {block.device}, which device {self._device}"
                    f" has no access to ({_remedy(block)})"
                )
        return super().describe(address)


def is_reached(block: Block, device: int, peers: Collection[int]) -> bool:
    """Whether kernels of ``device``, which has access to the devices ``peers``, reach ``block``."""
    if block.kind not in (DEVICE, MAPPED):
        return True
    if block.granted is not None:
        return device in block.granted
    return block.device == device or block.device in peers


def _remedy(block: Block) -> str:
    if block.granted is None:
        return "cuCtxEnablePeerAccess, cudaDeviceEnablePeerAccess"
    return "cuMemPoolSetAccess" if block.kind == DEVICE else "cuMemSetAccess"
