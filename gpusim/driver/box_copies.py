"""Copies of two- and three-dimensional boxes, and from and to arrays, as the driver API has them."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import POINTER, c_size_t

from gpusim.driver.abi import HOST, INVALID_VALUE, WORD, DriverError, entry
from gpusim.driver.arrays import Arrays
from gpusim.driver.contexts import Contexts
from gpusim.driver.copies import LEGACY
from gpusim.driver.memory import Memory
from gpusim.driver.structures import Copy2D, Copy3D
from gpusim.driver.transfers import IN_ARRAY, ON_DEVICE, ON_HOST, BoxCopy
from gpusim.driver.work import Work

_BOX_2D, _BOX_3D = POINTER(Copy2D), POINTER(Copy3D)


class BoxCopies:
    """Entry points cuMemcpy2D*, cuMemcpy3D* and cuMemcpy*A*; ``submit`` puts work into a stream."""

    def __init__(self, memory: Memory, arrays: Arrays, contexts: Contexts, submit: Callable[[int, Work], None]):
        self._memory, self._arrays, self._contexts, self._submit = memory, arrays, contexts, submit

    def work(self, box: Copy3D) -> BoxCopy:
        """The copy that ``box`` describes; raises DriverError for one that makes no sense."""
        return BoxCopy(self._memory, self._arrays, Copy3D.from_buffer_copy(box)).check()

    @entry("cuMemcpy2D", "cuMemcpy2DUnaligned", arguments=(_BOX_2D,))
    def copy_2d(self, box) -> None:
        self.copy_2d_async(box, LEGACY)

    @entry("cuMemcpy2DAsync", arguments=(_BOX_2D, WORD))
    def copy_2d_async(self, box, stream: int) -> None:
        if not box:
            raise DriverError(INVALID_VALUE, "the description of the copy is null")
        flat, whole = box[0], Copy3D(depth=1)
        for name, *_ in Copy2D._fields_:
            setattr(whole, name, getattr(flat, name))
        self._submit(stream, self.work(whole))

    @entry("cuMemcpy3D", arguments=(_BOX_3D,))
    def copy_3d(self, box) -> None:
        self.copy_3d_async(box, LEGACY)

    @entry("cuMemcpy3DAsync", arguments=(_BOX_3D, WORD))
    def copy_3d_async(self, box, stream: int) -> None:
        if not box:
            raise DriverError(INVALID_VALUE, "the description of the copy is null")
        self._submit(stream, self.work(box[0]))

    @entry("cuMemcpy3DPeer", arguments=(_BOX_3D,))
    def copy_3d_peer(self, box) -> None:
        self.copy_3d_peer_async(box, LEGACY)

    @entry("cuMemcpy3DPeerAsync", arguments=(_BOX_3D, WORD))
    def copy_3d_peer_async(self, box, stream: int) -> None:
        if not box:
            raise DriverError(INVALID_VALUE, "the description of the copy is null")
        for context in (box[0].source_context, box[0].target_context):
            self._contexts.find(context)
        self._submit(stream, self.work(box[0]))

    # ---- one-dimensional arrays -----------------------------------------------------------------

    def _flat(self, stream: int, size: int, target: dict[str, int], source: dict[str, int]) -> None:
        for end in (target, source):
            if end["type"] == IN_ARRAY:
                self._arrays.get(end["array"]).flat(end["x"], size)
        box = Copy3D(width=size, height=1, depth=1)
        for side, end in (("target", target), ("source", source)):
            for name, value in end.items():
                setattr(box, f"{side}_{name}", value)
        self._submit(stream, self.work(box))

    @entry("cuMemcpyDtoA", arguments=(WORD, c_size_t, WORD, c_size_t))
    def device_to_array(self, array: int, offset: int, source: int, size: int) -> None:
        self._flat(LEGACY, size, _in_array(array, offset), {"type": ON_DEVICE, "device": source})

    @entry("cuMemcpyAtoD", arguments=(WORD, WORD, c_size_t, c_size_t))
    def array_to_device(self, target: int, array: int, offset: int, size: int) -> None:
        self._flat(LEGACY, size, {"type": ON_DEVICE, "device": target}, _in_array(array, offset))

    @entry("cuMemcpyHtoA", arguments=(WORD, c_size_t, HOST, c_size_t))
    def host_to_array(self, array: int, offset: int, source: int, size: int) -> None:
        self.host_to_array_async(array, offset, source, size, LEGACY)

    @entry("cuMemcpyHtoAAsync", arguments=(WORD, c_size_t, HOST, c_size_t, WORD))
    def host_to_array_async(self, array: int, offset: int, source: int, size: int, stream: int) -> None:
        self._flat(stream, size, _in_array(array, offset), {"type": ON_HOST, "host": source})

    @entry("cuMemcpyAtoH", arguments=(HOST, WORD, c_size_t, c_size_t))
    def array_to_host(self, target: int, array: int, offset: int, size: int) -> None:
        self.array_to_host_async(target, array, offset, size, LEGACY)

    @entry("cuMemcpyAtoHAsync", arguments=(HOST, WORD, c_size_t, c_size_t, WORD))
    def array_to_host_async(self, target: int, array: int, offset: int, size: int, stream: int) -> None:
        self._flat(stream, size, {"type": ON_HOST, "host": target}, _in_array(array, offset))

    @entry("cuMemcpyAtoA", arguments=(WORD, c_size_t, WORD, c_size_t, c_size_t))
    def array_to_array(self, target: int, target_offset: int, source: int, source_offset: int, size: int) -> None:
        self._flat(LEGACY, size, _in_array(target, target_offset), _in_array(source, source_offset))


def _in_array(array: int, offset: int) -> dict[str, int]:
    return {"type": IN_ARRAY, "array": array, "x": offset}
