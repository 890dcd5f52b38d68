"""Launches, and what a program asks or sets of its kernels.

Mental model: ``kernel<<<grid, block, shared, stream>>>(...)`` becomes a push of the configuration and a call of the
kernel's host function, which pops it and launches. The rest is the driver's, with host functions in the place of
handles.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int, c_size_t, c_uint

from gpusim.cudart.errors import INVALID_CONFIGURATION, MISSING_CONFIGURATION
from gpusim.cudart.registration import Registration
from gpusim.cudart.state import State, write_number, write_word
from gpusim.driver.abi import HOST, INT_OUT, WORD, WORD_OUT, DriverError, entry
from gpusim.driver.launches import LaunchConfig
from gpusim.isa.architectures import BLOCK_LIMITS, GRID_LIMITS


class Dim3(ctypes.Structure):
    """dim3, which is passed by value."""

    _fields_ = [("x", c_uint), ("y", c_uint), ("z", c_uint)]

    def sizes(self) -> tuple[int, int, int]:
        """(x, y, z)."""
        return self.x, self.y, self.z


class RuntimeLaunchConfig(ctypes.Structure):
    """cudaLaunchConfig_t of driver_types.h."""

    _fields_ = [
        ("grid", Dim3),
        ("block", Dim3),
        ("dynamic_shared_bytes", c_size_t),
        ("stream", WORD),
        ("attributes", HOST),
        ("attribute_count", c_uint),
    ]


class FunctionAttributes(ctypes.Structure):
    """cudaFuncAttributes of driver_types.h."""

    _fields_ = [
        ("shared_bytes", c_size_t),
        ("constant_bytes", c_size_t),
        ("local_bytes", c_size_t),
        *((name, c_int) for name in (
            "max_threads", "registers", "ptx_version", "binary_version", "cache_ca", "max_dynamic_shared_bytes", "carveout",
            "cluster_must_be_set", "cluster_width", "cluster_height", "cluster_depth", "cluster_policy", "cluster_non_portable",
        )),
        ("reserved", c_int * 16),
    ]  # fmt: skip


#: CUfunction_attribute of each field: they are numbered otherwise.
_ATTRIBUTES = {
    "shared_bytes": 1, "constant_bytes": 2, "local_bytes": 3, "max_threads": 0, "registers": 4, "ptx_version": 5,
    "binary_version": 6, "cache_ca": 7, "max_dynamic_shared_bytes": 8, "carveout": 9, "cluster_must_be_set": 10,
    "cluster_width": 11, "cluster_height": 12, "cluster_depth": 13, "cluster_non_portable": 14, "cluster_policy": 15,
}  # fmt: skip
_MAX_THREADS_PER_BLOCK = 1  # CUdevice_attribute


class Launching:
    """Entry points cudaLaunch*, cudaFunc* and cudaOccupancy*."""

    def __init__(self, state: State, code: Registration):
        self._state, self._code = state, code

    @entry("__cudaPushCallConfiguration", arguments=(Dim3, Dim3, c_size_t, WORD))
    def push(self, grid: Dim3, block: Dim3, shared: int, stream: int) -> None:
        self._state.thread.configurations.append((grid.sizes(), block.sizes(), shared, stream))

    @entry("__cudaPopCallConfiguration", arguments=(HOST, HOST, HOST, HOST))
    def pop(self, grid: int, block: int, shared: int, stream: int) -> None:
        if not self._state.thread.configurations:
            raise DriverError(MISSING_CONFIGURATION, "a kernel's host function was called without <<<...>>>")
        found = self._state.thread.configurations.pop()
        for address, sizes in ((grid, found[0]), (block, found[1])):
            (c_uint * 3).from_address(address)[:] = sizes
        write_word(shared, found[2])
        write_word(stream, found[3])

    @entry("cudaLaunchKernel", "__cudaLaunchKernel", arguments=(HOST, Dim3, Dim3, HOST, c_size_t, WORD))
    def launch(self, host: int, grid: Dim3, block: Dim3, arguments: int, shared: int, stream: int) -> None:
        kernel = self._kernel(host, grid, block)
        self._state.call("cuLaunchKernel", kernel, *grid.sizes(), *block.sizes(), shared, stream, arguments, 0)

    @entry("cudaLaunchCooperativeKernel", arguments=(HOST, Dim3, Dim3, HOST, c_size_t, WORD))
    def launch_cooperative(self, host: int, grid: Dim3, block: Dim3, arguments: int, shared: int, stream: int) -> None:
        kernel = self._kernel(host, grid, block)
        self._state.call("cuLaunchCooperativeKernel", kernel, *grid.sizes(), *block.sizes(), shared, stream, arguments)

    @entry("cudaLaunchKernelExC", arguments=(POINTER(RuntimeLaunchConfig), HOST, HOST))
    def launch_with_attributes(self, config, host: int, arguments: int) -> None:
        given = config[0]
        kernel = self._kernel(host, given.grid, given.block)
        native = (LaunchConfig * 1)()
        native[0].grid[:], native[0].block[:] = given.grid.sizes(), given.block.sizes()
        native[0].dynamic_shared_bytes, native[0].stream = given.dynamic_shared_bytes, given.stream
        native[0].attributes, native[0].attribute_count = given.attributes, given.attribute_count
        self._state.call("cuLaunchKernelEx", native, kernel, arguments, 0)

    def _kernel(self, host: int, grid: Dim3, block: Dim3) -> int:
        """The kernel's handle; raises DriverError for a shape that no kernel can have."""
        kernel = self._code.kernel(host)
        self._state.ready()
        most = self._state.number("cuDeviceGetAttribute", _MAX_THREADS_PER_BLOCK, 0)
        threads = block.x * block.y * block.z
        for sizes, limits in ((grid.sizes(), GRID_LIMITS), (block.sizes(), BLOCK_LIMITS)):
            if any(not 0 < size <= limit for size, limit in zip(sizes, limits, strict=True)) or threads > most:
                raise DriverError(
                    INVALID_CONFIGURATION,
                    f"a launch of grid {grid.sizes()} and block {block.sizes()}: a block has at most {most} threads and"
                    f" {BLOCK_LIMITS} in each direction, a grid {GRID_LIMITS} blocks, and neither is empty",
                )
        return kernel

    # ---- kernels -----------------------------------------------------------------------------

    @entry("cudaFuncGetAttributes", arguments=(POINTER(FunctionAttributes), HOST))
    def attributes(self, out, host: int) -> None:
        self._state.ready()
        kernel = self._code.kernel(host)
        ctypes.memset(out, 0, ctypes.sizeof(FunctionAttributes))
        for name, number in _ATTRIBUTES.items():
            setattr(out[0], name, self._state.number("cuFuncGetAttribute", number, kernel))

    @entry("cudaFuncSetAttribute", arguments=(HOST, c_int, c_int))
    def set_attribute(self, host: int, attribute: int, value: int) -> None:
        self._state.ready()
        self._state.call("cuFuncSetAttribute", self._code.kernel(host), attribute, value)

    @entry("cudaKernelSetAttributeForDevice", arguments=(HOST, c_int, c_int, c_int))
    def set_kernel_attribute(self, kernel: int, attribute: int, value: int, device: int) -> None:
        self.set_attribute(kernel, attribute, value)

    @entry("cudaFuncSetCacheConfig", "cudaFuncSetSharedMemConfig", arguments=(HOST, c_int))
    def set_preference(self, host: int, config: int) -> None:
        self._state.ready()
        self._code.kernel(host)

    @entry("cudaFuncGetParamInfo", arguments=(HOST, c_size_t, WORD_OUT, WORD_OUT))
    def parameter(self, host: int, index: int, offset, size) -> None:
        self._state.ready()
        self._state.call("cuFuncGetParamInfo", self._code.kernel(host), index, offset, size)

    @entry("cudaFuncGetParamCount", arguments=(HOST, HOST))
    def parameter_count(self, host: int, out: int) -> None:
        self._state.ready()
        count = (ctypes.c_uint64 * 1)()
        self._state.call("cuFuncGetParamCount", self._code.kernel(host), count)
        write_word(out, count[0])

    # ---- occupancy ---------------------------------------------------------------------------

    @entry("cudaOccupancyMaxActiveBlocksPerMultiprocessor", arguments=(INT_OUT, HOST, c_int, c_size_t))
    def active_blocks(self, out, host: int, threads: int, shared: int) -> None:
        self._state.ready()
        kernel = self._code.kernel(host)
        self._state.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", out, kernel, threads, shared)

    @entry("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", arguments=(INT_OUT, HOST, c_int, c_size_t, c_uint))
    def active_blocks_with_flags(self, out, host: int, threads: int, shared: int, flags: int) -> None:
        self.active_blocks(out, host, threads, shared)

    @entry("cudaOccupancyAvailableDynamicSMemPerBlock", arguments=(WORD_OUT, HOST, c_int, c_int))
    def available_shared(self, out, host: int, blocks: int, threads: int) -> None:
        self._state.ready()
        self._state.call("cuOccupancyAvailableDynamicSMemPerBlock", out, self._code.kernel(host), blocks, threads)

    @entry("cudaOccupancyMaxActiveClusters", arguments=(INT_OUT, HOST, HOST))
    def clusters(self, out, host: int, config: int) -> None:
        self._ask_clusters("cuOccupancyMaxActiveClusters", out, host, config)

    @entry("cudaOccupancyMaxPotentialClusterSize", arguments=(INT_OUT, HOST, HOST))
    def largest_cluster(self, out, host: int, config: int) -> None:
        self._ask_clusters("cuOccupancyMaxPotentialClusterSize", out, host, config)

    def _ask_clusters(self, function: str, out, host: int, config: int) -> None:
        self._state.ready()
        given = RuntimeLaunchConfig.from_address(config)
        native = (LaunchConfig * 1)()
        native[0].grid[:], native[0].block[:] = given.grid.sizes(), given.block.sizes()
        native[0].dynamic_shared_bytes, native[0].stream = given.dynamic_shared_bytes, given.stream
        native[0].attributes, native[0].attribute_count = given.attributes, given.attribute_count
        self._state.call(function, out, self._code.kernel(host), native)

    @entry("cudaCtxResetPersistingL2Cache")
    def reset_persisting(self) -> None:
        self._state.ready()

    @entry("cudaGetDriverEntryPoint", arguments=(ctypes.c_char_p, HOST, ctypes.c_uint64, HOST))
    def driver_function(self, name: bytes, out: int, flags: int, status: int) -> None:
        self.driver_function_of_version(name, out, self._state.version // 10 * 10, flags, status)

    @entry("cudaGetDriverEntryPointByVersion", arguments=(ctypes.c_char_p, HOST, c_uint, ctypes.c_uint64, HOST))
    def driver_function_of_version(self, name: bytes, out: int, version: int, flags: int, status: int) -> None:
        found, result = (ctypes.c_uint64 * 1)(), (c_int * 1)()
        code = self._state.function("cuGetProcAddress_v2")(name, found, version, flags, result)
        write_word(out, found[0])
        if status:
            write_number(status, result[0])
        elif code:
            self._state.check(code)
