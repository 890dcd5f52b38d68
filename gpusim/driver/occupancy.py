"""What the driver API tells of a kernel: attributes, parameters, and how many blocks fit on an SM.

Mental model: the cubin says what a thread and a block need, the GPU's description what an SM has; occupancy
is the engine's own (:mod:`gpusim.model.occupancy`), so that a program that asks and a simulation agree.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_uint

from gpusim.driver.abi import HOST, INT_OUT, INVALID_VALUE, WORD, WORD_OUT, DriverError, entry, put
from gpusim.driver.device import Device
from gpusim.driver.modules import Kernel, Modules
from gpusim.errors import LaunchError
from gpusim.model.occupancy import occupancy
from gpusim.trace.record import Launch

#: What a block may have without asking (CUDA C++ Programming Guide, "Shared Memory").
DEFAULT_SHARED_BYTES = 48 << 10
# CUfunction_attribute
(
    MAX_THREADS, _SHARED_BYTES, _CONSTANT_BYTES, _LOCAL_BYTES, _REGISTERS, _PTX_VERSION, _BINARY_VERSION, _CACHE_CA,
    MAX_DYNAMIC_SHARED, _CARVEOUT,
) = range(10)  # fmt: skip
#: Those that can be set: the two of shared memory, and what belongs to clusters.
_SETTABLE = (MAX_DYNAMIC_SHARED, _CARVEOUT, 11, 12, 13, 14, 15)
_SHARED_OF_BLOCK = ctypes.CFUNCTYPE(c_size_t, c_int)


class KernelFacts:
    """Entry points cuKernel*, cuFunc* and cuOccupancy* that ask for facts or set preferences."""

    def __init__(self, device: Device, modules: Modules):
        self._device, self._modules = device, modules

    # ---- attributes --------------------------------------------------------------------------

    @entry("cuKernelGetAttribute", arguments=(INT_OUT, c_int, WORD, c_int))
    def kernel_attribute(self, out, attribute: int, handle: int, number: int) -> None:
        put(out, self.attribute(self._modules.kernel(handle), attribute))

    @entry("cuFuncGetAttribute", arguments=(INT_OUT, c_int, WORD))
    def function_attribute(self, out, attribute: int, handle: int) -> None:
        put(out, self.attribute(self._modules.kernel(handle), attribute))

    def attribute(self, kernel: Kernel, attribute: int) -> int:
        """The value of a CUfunction_attribute."""
        image, sm = kernel.image, self._device.spec.sm
        version = 10 * self._device.spec.capability[0] + self._device.spec.capability[1]
        if attribute == MAX_THREADS:
            unit = sm.register_allocation_unit
            per_warp = -(-max(1, image.registers_per_thread) * 32 // unit) * unit
            by_registers = sm.registers // per_warp // sm.sub_cores * sm.sub_cores * 32
            return min(image.max_threads or sm.max_threads_per_block, sm.max_threads_per_block, by_registers)
        if attribute == MAX_DYNAMIC_SHARED:
            return kernel.settings.get(attribute, DEFAULT_SHARED_BYTES - image.shared_bytes)
        if attribute == _CARVEOUT:
            return kernel.settings.get(attribute, -1)
        return {
            _SHARED_BYTES: image.shared_bytes,
            _CONSTANT_BYTES: len(image.constants.get(3, b"")),
            _LOCAL_BYTES: image.local_bytes,
            _REGISTERS: image.registers_per_thread,
            _PTX_VERSION: version,
            _BINARY_VERSION: version,
            _CACHE_CA: 0,
        }.get(attribute, 0)

    @entry("cuKernelSetAttribute", arguments=(c_int, c_int, WORD, c_int))
    def set_kernel_attribute(self, attribute: int, value: int, handle: int, number: int) -> None:
        self.set_function_attribute(handle, attribute, value)

    @entry("cuFuncSetAttribute", arguments=(WORD, c_int, c_int))
    def set_function_attribute(self, handle: int, attribute: int, value: int) -> None:
        kernel = self._modules.kernel(handle)
        if attribute not in _SETTABLE:  # such as 17, SHARED_MEMORY_MODE: whoever asks has another way
            raise DriverError(INVALID_VALUE, f"{kernel.name}: function attribute {attribute} cannot be set")
        limit = self._device.spec.sm.shared_per_block_max_bytes - kernel.image.shared_bytes
        if attribute == MAX_DYNAMIC_SHARED and not 0 <= value <= limit:
            raise DriverError(
                INVALID_VALUE, f"{kernel.name}: at most {limit} bytes of dynamic shared memory are possible"
            )
        kernel.settings[attribute] = value

    @entry("cuKernelSetCacheConfig", "cuFuncSetCacheConfig", arguments=(WORD, c_int, c_int))
    def set_cache_config(self, handle: int, config: int, number: int) -> None:
        self._modules.kernel(handle)

    @entry("cuKernelGetParamInfo", "cuFuncGetParamInfo", arguments=(WORD, c_size_t, WORD_OUT, WORD_OUT))
    def parameter(self, handle: int, index: int, offset_out, size_out) -> None:
        parameters = self._modules.kernel(handle).image.parameters
        if index >= len(parameters):
            raise DriverError(INVALID_VALUE)
        put(offset_out, parameters[index].offset)
        if size_out:
            size_out[0] = parameters[index].size

    @entry("cuKernelGetParamCount", "cuFuncGetParamCount", arguments=(WORD, WORD_OUT))
    def parameter_count(self, handle: int, out) -> None:
        put(out, len(self._modules.kernel(handle).image.parameters))

    @entry("cuFuncIsLoaded", arguments=(INT_OUT, WORD))
    def is_loaded(self, out, handle: int) -> None:
        self._modules.kernel(handle)
        put(out, 1)

    # ---- occupancy ---------------------------------------------------------------------------

    def blocks_per_sm(self, kernel: Kernel, threads: int, dynamic_shared: int) -> int:
        """Blocks of ``threads`` threads that an SM holds at once; 0 if not even one fits."""
        image, spec = kernel.image, self._device.spec
        if not 0 < threads <= self.attribute(kernel, MAX_THREADS):
            return 0
        facts = Launch(
            kernel=kernel.name,
            capability=tuple(spec.capability),
            grid=(1, 1, 1),
            block=(threads, 1, 1),
            registers_per_thread=image.registers_per_thread,
            shared_bytes=image.shared_bytes + dynamic_shared,
            local_bytes=image.local_bytes,
            cubin_sha256=image.sha256,
            gpu=spec.name,
        )
        try:
            return occupancy(facts, spec).blocks_per_sm
        except LaunchError:
            return 0

    @entry("cuOccupancyMaxActiveBlocksPerMultiprocessor", arguments=(INT_OUT, WORD, c_int, c_size_t))
    def active_blocks(self, out, handle: int, threads: int, dynamic_shared: int) -> None:
        put(out, self.blocks_per_sm(self._modules.kernel(handle), threads, dynamic_shared))

    @entry("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", arguments=(INT_OUT, WORD, c_int, c_size_t, c_uint))
    def active_blocks_with_flags(self, out, handle: int, threads: int, dynamic_shared: int, flags: int) -> None:
        self.active_blocks(out, handle, threads, dynamic_shared)

    @entry("cuOccupancyMaxPotentialBlockSize", arguments=(INT_OUT, INT_OUT, WORD, HOST, c_size_t, c_int))
    def best_block(self, grid_out, block_out, handle: int, shared_of: int, dynamic_shared: int, limit: int) -> None:
        kernel = self._modules.kernel(handle)
        most = self.attribute(kernel, MAX_THREADS)
        most = min(most, limit) if limit > 0 else most
        best = (0, 0, 0)
        for threads in dict.fromkeys((most, *range(most // 32 * 32, 0, -32))):
            shared = _SHARED_OF_BLOCK(shared_of)(threads) if shared_of else dynamic_shared
            blocks = self.blocks_per_sm(kernel, threads, shared)
            best = max(best, (blocks * threads, threads, blocks))
        put(block_out, best[1])
        put(grid_out, best[2] * self._device.spec.sm_count)

    @entry(
        "cuOccupancyMaxPotentialBlockSizeWithFlags", arguments=(INT_OUT, INT_OUT, WORD, HOST, c_size_t, c_int, c_uint)
    )
    def best_block_with_flags(
        self, grid, block, handle: int, shared_of: int, shared: int, limit: int, flags: int
    ) -> None:
        self.best_block(grid, block, handle, shared_of, shared, limit)

    @entry("cuOccupancyAvailableDynamicSMemPerBlock", arguments=(WORD_OUT, WORD, c_int, c_int))
    def available_shared(self, out, handle: int, blocks: int, threads: int) -> None:
        kernel, sm = self._modules.kernel(handle), self._device.spec.sm
        share = (
            sm.shared_max_bytes // max(1, blocks) // sm.shared_allocation_unit_bytes * sm.shared_allocation_unit_bytes
        )
        free = min(share - sm.shared_reserved_bytes, sm.shared_per_block_max_bytes) - kernel.image.shared_bytes
        put(out, max(0, free))
