"""Driver functions that Python serves for a kernel: ``print`` (vprintf), ``malloc`` and ``free``, ``assert``, launches.

Mental model: at such a call the interpreter stops with the lanes that made it already standing behind it; what
they passed is in their registers and memory. :class:`HostCalls` does what was asked for, lane by lane, writes the
result where the caller looks for it, and the interpreter goes on. What is printed comes out in block order when
the launch has ended, so that the same launch prints the same text on every run. The buffer between is finite, as on a
GPU: what no longer fits is dropped and counted, by the interpreter itself from then on.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence

import numpy as np

from gpusim.emulator.control_flow import DROPPED, RESULT_REGISTER
from gpusim.emulator.device_launches import BUFFERS_ADDRESS, MOST_LAUNCHES, DeviceLaunch, DeviceLaunches
from gpusim.emulator.listeners import HeapBlock, Listener
from gpusim.emulator.printf import format_printf
from gpusim.errors import AddressError, ExecutionError, UnsupportedOpcodeError
from gpusim.isa import warp as at
from gpusim.isa.binary.externals import DEVICE_RUNTIME, FAR_COPY, SET_CONDITION
from gpusim.launch.memory import Allocation, DeviceMemory

#: Where arguments and results of a driver function lie, see :mod:`gpusim.isa.binary.externals`.
FIRST_REGISTER = RESULT_REGISTER
RETURN_REGISTER = 20
#: The device heap that ``malloc`` serves: CUDA's default size (cudaLimitMallocHeapSize).
HEAP_ADDRESS = 0x7D00_0000_0000
HEAP_BYTES = 8 << 20
HEAP_ALIGNMENT = 16
MAX_STRING_BYTES = 1 << 16
#: The buffer that ``printf`` fills: CUDA's default size (cudaLimitPrintfFifoSize, 1 MiB).
PRINT_BYTES = 1 << 20
#: What a call takes of it: a head, and each argument. NVIDIA documents neither; an argument is at most 8 bytes in the
#: buffer that the kernel passes (:mod:`gpusim.emulator.printf`).
_PRINT_HEAD_BYTES, _PRINT_ARGUMENT_BYTES = 16, 8
#: Functions that leave nothing behind in a launch that comes to its end.
_WITHOUT_TRACE = ("__assertfail",)
#: Function of the device runtime -> what serves it.
_DEVICE_BODIES = {
    "GetParameterBufferV2": "_parameter_buffer",
    "LaunchDeviceV2": "_launch",
    "SetLastError": "_keep",
    "GetLastError": "_succeed",
    "GetDevice": "_device_number",
    "StreamCreate": "_new_handle",
    "StreamDestroy": "_succeed",
    "StreamWaitEvent": "_succeed",
    "EventCreate": "_new_handle",
    "EventRecord": "_succeed",
    "EventDestroy": "_succeed",
}


class Lane:
    """One lane of a stopped slot: its registers, and memory as it sees it."""

    def __init__(self, state: np.record, registers: np.ndarray, allocations: np.ndarray, lane: int):
        self.state, self.registers, self.allocations, self.lane = state, registers, allocations, lane
        self.warp = int(state.fault_warp)
        group, place = divmod(self.warp, at.GROUP_WARPS)
        self.base = int(state.own_base) + group * int(state.own_stride) + place * at.LANES + lane

    def word(self, register: int) -> int:
        """32-bit register ``register``, unsigned."""
        return int(self.registers[self.base + register * at.ROW]) & at.FULL

    def pair(self, register: int) -> int:
        """64 bits of a register pair, unsigned."""
        return self.word(register) | self.word(register + 1) << 32

    def answer(self, value: int, words: int) -> None:
        """Write the result of the call."""
        for i in range(words):
            word = value >> 32 * i & at.FULL
            self.registers[self.base + (FIRST_REGISTER + i) * at.ROW] = np.uint32(word).astype(np.int32)

    def places(self, address: int, size: int) -> list[tuple[int, int]]:
        """Host memory behind ``size`` bytes at a generic address: (address, bytes) of its pieces. Raises
        AddressError."""
        state = self.state
        if address >> 32 == int(state.local_window) >> 32:
            offset = address & at.FULL
            if offset + size <= int(state.local_bytes):
                start = int(state.local_host) + self.warp * at.LANES * int(state.local_bytes) + 4 * self.lane
                return [(start + (o >> 2) * 4 * at.LANES + (o & 3), 1) for o in range(offset, offset + size)]
        elif address >> 32 == int(state.shared_window) >> 32:
            offset = (address & 0xFFFFFF) - int(state.shared_base)
            if offset >= 0 and offset + size <= int(state.shared_bytes):
                return [(int(state.shared_host) + offset, size)]
        else:
            found = int(np.searchsorted(self.allocations[:, 0], address, side="right")) - 1
            if found >= 0:
                base, length, host = (int(n) for n in self.allocations[found])
                if address + size <= base + length:
                    return [(host + address - base, size)]
        raise AddressError(
            f"{self.who()}: 0x{address:x} ({size} bytes), passed to a driver function, is no valid address"
        )

    def read(self, address: int, size: int) -> bytes:
        """``size`` bytes at a generic address; raises AddressError."""
        return b"".join(ctypes.string_at(place, part) for place, part in self.places(address, size))

    def write(self, address: int, data: bytes) -> None:
        """Write ``data`` at a generic address; raises AddressError."""
        done = 0
        for place, part in self.places(address, len(data)):
            ctypes.memmove(place, data[done : done + part], part)
            done += part

    def read_string(self, address: int) -> str:
        """The zero-terminated string at ``address``."""
        text = bytearray()
        while len(text) < MAX_STRING_BYTES and (byte := self.read(address + len(text), 1)) != b"\0":
            text += byte
        return text.decode("utf-8", "replace")

    def who(self) -> str:
        block = tuple(int(i) for i in self.state.block_index)
        thread = tuple(int(self.state.thread[self.warp, axis, self.lane]) for axis in range(3))
        return f"block {block}, thread {thread}"


class Heap:
    """Device memory that kernels allocate, ``size`` bytes: first the end of the heap, then what has been freed in that
    size."""

    def __init__(self, size: int = HEAP_BYTES) -> None:
        self.data = np.zeros(size, np.uint8)
        self.next = HEAP_ADDRESS
        self.blocks: dict[int, HeapBlock] = {}
        self.freed: dict[int, list[int]] = {}

    def malloc(self, wanted: int, block: int, thread: int, index: int) -> int:
        """Address of ``wanted`` bytes for ``thread`` of ``block``, 0 when the heap is full."""
        size = _whole(wanted)
        if self.freed.get(size):
            address = self.freed[size].pop()
        elif self.next + size <= HEAP_ADDRESS + len(self.data):
            address, self.next = self.next, self.next + size
        else:
            return 0
        self.blocks[address] = HeapBlock(address, wanted, block, thread, index)
        return address

    def free(self, address: int) -> bool:
        """Give ``address`` back; False if it is not allocated."""
        if address and address not in self.blocks:
            return False
        if address:
            self.freed.setdefault(_whole(self.blocks.pop(address).size), []).append(address)
        return True

    def holds(self, block: HeapBlock) -> bool:
        """Whether ``block`` is allocated still; its address may be another's by now."""
        return self.blocks.get(block.address) is block

    def left(self) -> list[HeapBlock]:
        """What is allocated, in the order of those who have allocated it."""
        return sorted(self.blocks.values(), key=lambda held: (held.block, held.thread, held.address))


def _whole(size: int) -> int:
    """Bytes that an allocation of ``size`` takes."""
    return max(HEAP_ALIGNMENT, -(-size // HEAP_ALIGNMENT) * HEAP_ALIGNMENT)


class HostCalls:
    """The driver functions of one launch. ``externals`` as in :class:`gpusim.isa.binary.cubin.KernelImage`,
    ``print_bytes``: size of the buffer that ``printf`` fills; ``dropped``: calls that came when it was full. ``heap``
    outlives the launch; a fresh one when None. ``set_condition`` as in :class:`gpusim.emulator.emulation.Emulation`.
    ``launched``: as in the kernel's image, what stands for kernels that it launches."""

    def __init__(
        self,
        kernel: str,
        externals: dict[int, str],
        print_bytes: int = PRINT_BYTES,
        heap: Heap | None = None,
        launched: dict[int, str] | None = None,
        set_condition: Callable[[int, int], bool] | None = None,
    ):
        self.kernel = kernel
        self.names = [externals[address] for address in sorted(externals)]
        self._heap, self._held = heap, frozenset() if heap is None else frozenset(heap.blocks)
        self.printed: list[tuple[int, str]] = []
        self.listeners: Sequence[Listener] = ()
        self._index_of = np.zeros(0, np.int32)
        self.print_bytes = self._print_room = print_bytes
        self.dropped = 0
        self._set_condition = set_condition
        self._device = DeviceLaunches(launched or {})
        self._bodies: dict[str, Callable[[Lane], None]] = {
            "vprintf": self._print,
            "malloc": self._malloc,
            "free": self._free,
            "__assertfail": self._assert,
            SET_CONDITION: self._conditional,
            **{DEVICE_RUNTIME + name: getattr(self, body) for name, body in _DEVICE_BODIES.items()},
        }

    def map(self, memory: DeviceMemory) -> list[Allocation]:
        """Map the heap if the kernel allocates, or others have, and the parameter buffers if it launches others."""
        own = []
        if "malloc" in self.names or self._heap is not None:
            own.append(memory.add_at(HEAP_ADDRESS, self.heap.data, "device heap"))
        if len(self._device.buffers):
            own.append(memory.add_at(BUFFERS_ADDRESS, self._device.buffers, "parameters of device-side launches"))
        return own

    def launches(self) -> list[DeviceLaunch]:
        """What the kernel has launched."""
        return self._device.made()

    @property
    def heap(self) -> Heap:
        """What kernels allocate from."""
        if self._heap is None:
            self._heap = Heap()
        return self._heap

    def left(self) -> list[HeapBlock]:
        """What the launch has allocated and not freed."""
        if self._heap is None:
            return []
        return [block for block in self._heap.left() if block.address not in self._held]

    @property
    def lasting(self) -> bool:
        """Whether a launch may leave something behind that is not in memory: prints, or blocks of the heap."""
        return any(name not in _WITHOUT_TRACE and not name.startswith(FAR_COPY) for name in self.names)

    def serve(self, state: np.record, registers: np.ndarray, machine: at.Machine) -> None:
        """Do what the lanes noted in the fault fields have called; raises what ends the launch."""
        self._index_of = machine.index_of
        name = self.names[machine.matrix[int(state.fault_index), at.F0]]
        body = self._bodies.get(name, self._far_copy)
        mask = int(state.fault_address)
        for number in range(at.LANES):
            if mask >> number & 1:
                body(Lane(state, registers, machine.allocations, number))

    def flush(self) -> None:
        """Write to stdout what the launch has printed, in block order; to stderr how much of it was dropped."""
        for _, text in sorted(self.printed, key=lambda item: item[0]):
            sys.stdout.write(text)
        self.printed.clear()
        if self.dropped:
            sys.stdout.flush()  # before the line that says what is missing
            sys.stderr.write(
                f"gpusim: {self.kernel}: {self.dropped:,} prints were dropped, the buffer of {self.print_bytes:,} bytes was"
                " full (as on a GPU: cudaLimitPrintfFifoSize)\n"
            )
            self.dropped = 0

    def _print(self, lane: Lane) -> None:
        form, buffer = lane.pair(FIRST_REGISTER), lane.pair(FIRST_REGISTER + 2)
        if form == 0:
            lane.answer(-1, 1)
            return
        if self._print_room < 0:  # lanes of the call that has filled it
            self.dropped += 1
            lane.answer(DROPPED, 1)
            return
        text, count = format_printf(
            lane.read_string(form), lambda offset, size: lane.read(buffer + offset, size), lane.read_string
        )
        self._print_room -= _PRINT_HEAD_BYTES + _PRINT_ARGUMENT_BYTES * count
        if self._print_room < 0:
            self.dropped += 1
            lane.state.dropping_call = 1 + self.names.index("vprintf")
            lane.answer(DROPPED, 1)
            return
        self.printed.append((int(lane.state.linear), text))
        lane.answer(count, 1)

    def _malloc(self, lane: Lane) -> None:
        lane.answer(self.heap.malloc(lane.pair(FIRST_REGISTER), *self._place(lane)), 2)

    def _place(self, lane: Lane) -> tuple[int, int, int]:
        """(number of the block, number of the thread in it, index of the instruction) that the call comes from."""
        behind = lane.pair(RETURN_REGISTER) >> 4
        index = int(self._index_of[behind]) - 1 if behind < len(self._index_of) else -1
        return int(lane.state.linear), lane.warp * at.LANES + lane.lane, index

    def _free(self, lane: Lane) -> None:
        address = lane.pair(FIRST_REGISTER)
        if self.heap.free(address):
            return
        refused = HeapBlock(address, 0, *self._place(lane))
        if not any([listener.free_refused(refused) for listener in self.listeners]):  # all of them hear of it
            raise AddressError(f"{self.kernel}: {lane.who()}: free(0x{address:x}) of what is not allocated")

    # ---- the device runtime --------------------------------------------------------------------

    def _parameter_buffer(self, lane: Lane) -> None:
        # cudaGetParameterBufferV2(void *kernel, dim3 grid, dim3 block, unsigned shared_bytes)
        shape = tuple(lane.word(FIRST_REGISTER + 2 + i) for i in range(7))
        kernel = lane.pair(FIRST_REGISTER)
        if not self._device.is_kernel(kernel):
            raise ExecutionError(
                f"{self.kernel}: {lane.who()}: launches 0x{kernel:x}, which is no kernel that it names"
            )
        address = self._device.buffer(kernel, shape)
        if not address:
            raise ExecutionError(f"{self.kernel}: {lane.who()}: more than {MOST_LAUNCHES:,} launches of other kernels")
        lane.answer(address, 2)

    def _launch(self, lane: Lane) -> None:
        # cudaLaunchDeviceV2(void *buffer, cudaStream_t stream)
        if not self._device.launch(lane.pair(FIRST_REGISTER), lane.pair(FIRST_REGISTER + 2)):
            raise ExecutionError(f"{self.kernel}: {lane.who()}: launches with what is no parameter buffer")
        lane.answer(0, 1)

    def _keep(self, lane: Lane) -> None:
        """What was passed is the result: it is in its place already."""

    def _succeed(self, lane: Lane) -> None:
        lane.answer(0, 1)

    def _new_handle(self, lane: Lane) -> None:
        lane.write(lane.pair(FIRST_REGISTER), self._device.handle().to_bytes(8, "little"))
        lane.answer(0, 1)

    def _device_number(self, lane: Lane) -> None:
        lane.write(lane.pair(FIRST_REGISTER), bytes(4))
        lane.answer(0, 1)

    def _far_copy(self, lane: Lane) -> None:
        raise UnsupportedOpcodeError(
            f"{self.kernel}: {lane.who()}: a bulk copy into another block's shared memory, or by a multicast, which this architecture's"
            " tensor memory accelerator leaves to a function of the driver that is not emulated: copy to the own block (.shared::cta)"
        )

    def _conditional(self, lane: Lane) -> None:
        # cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned value)
        handle = lane.pair(FIRST_REGISTER)
        if self._set_condition is None or not self._set_condition(handle, lane.word(FIRST_REGISTER + 2)):
            raise ExecutionError(f"{self.kernel}: {lane.who()}: 0x{handle:x} is no conditional handle of a graph")

    def _assert(self, lane: Lane) -> None:
        # __assertfail(const char *message, const char *file, unsigned line, const char *function, size_t)
        message, file = (lane.read_string(lane.pair(FIRST_REGISTER + i)) for i in (0, 2))
        line, function = lane.word(FIRST_REGISTER + 4), lane.read_string(lane.pair(FIRST_REGISTER + 6))
        raise ExecutionError(f"{self.kernel}: {lane.who()}: assertion `{message}' failed in {function} ({file}:{line})")
