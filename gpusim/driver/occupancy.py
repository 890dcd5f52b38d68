"""What the driver API tells of a kernel: attributes, parameters, and how many blocks fit on an SM.

Mental model: the cubin says what a thread and a block need, the GPU's description what an SM has; occupancy
is the engine's own (:mod:`gpusim.model.occupancy`), so that a program that asks and a simulation agree.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int, c_size_t, c_uint

from gpusim.driver.abi import (
    HOST,
    INT_OUT,
    INVALID_CLUSTER_SIZE,
    INVALID_VALUE,
    NOT_PERMITTED,
    NOT_SUPPORTED,
    WORD,
    WORD_OUT,
    DriverError,
    entry,
    put,
)
from gpusim.driver.device import Device
from gpusim.driver.launch_options import LaunchOptions, options_at
from gpusim.driver.modules import Kernel, Modules
from gpusim.driver.structures import LaunchConfig
from gpusim.errors import LaunchError
from gpusim.isa.target import CLUSTER_CAPABILITY, LARGEST_CLUSTER, PORTABLE_CLUSTER
from gpusim.model.occupancy import occupancy
from gpusim.trace.record import Launch

#: What a block may have without asking (CUDA C++ Programming Guide, "Shared Memory").
DEFAULT_SHARED_BYTES = 48 << 10
# CUfunction_attribute
(
    MAX_THREADS, _SHARED_BYTES, _CONSTANT_BYTES, _LOCAL_BYTES, _REGISTERS, _PTX_VERSION, _BINARY_VERSION, _CACHE_CA,
    MAX_DYNAMIC_SHARED, CARVEOUT, _CLUSTER_MUST_BE_SET, _CLUSTER_WIDTH, _CLUSTER_HEIGHT, _CLUSTER_DEPTH, LARGE_CLUSTER,
    _CLUSTER_POLICY, _NODE_UPDATE, _SHARED_MEMORY_MODE,
) = range(18)  # fmt: skip
_SETTABLE = (
    MAX_DYNAMIC_SHARED,
    CARVEOUT,
    _CLUSTER_WIDTH,
    _CLUSTER_HEIGHT,
    _CLUSTER_DEPTH,
    LARGE_CLUSTER,
    _CLUSTER_POLICY,
)
_CLUSTER_SIDES = (_CLUSTER_WIDTH, _CLUSTER_HEIGHT, _CLUSTER_DEPTH)
_KNOWN = range(18)
_CACHE_CONFIGS, _BANK_CONFIGS, _CARVEOUTS = range(4), range(3), range(-1, 101)
_GPC_SMS = 16  # of H100 (at most 18, some are switched off): NVIDIA H100 Tensor Core GPU Architecture
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
        if attribute not in _KNOWN:
            raise DriverError(INVALID_VALUE, f"function attribute {attribute} is not known")
        if attribute == MAX_THREADS:
            unit = sm.register_allocation_unit
            per_warp = -(-max(1, image.registers_per_thread) * 32 // unit) * unit
            by_registers = sm.registers // per_warp // sm.sub_cores * sm.sub_cores * 32
            return min(image.max_threads or sm.max_threads_per_block, sm.max_threads_per_block, by_registers)
        if attribute == MAX_DYNAMIC_SHARED:
            return kernel.settings.get(attribute, DEFAULT_SHARED_BYTES - image.shared_bytes)
        if attribute in _CLUSTER_SIDES and image.cluster is not None:
            return image.cluster[_CLUSTER_SIDES.index(attribute)]
        if attribute in _SETTABLE:
            return kernel.settings.get(attribute, -1 if attribute == CARVEOUT else 0)
        return {
            _SHARED_BYTES: image.shared_bytes,
            _CONSTANT_BYTES: len(image.constants.get(3, b"")),
            _LOCAL_BYTES: image.local_bytes,
            _REGISTERS: image.registers_per_thread,
            _PTX_VERSION: kernel.module.made_for[0],
            _BINARY_VERSION: kernel.module.made_for[1],
            _CACHE_CA: 0,
            _CLUSTER_MUST_BE_SET: int(image.cluster is None and image.needs_cluster),
        }.get(attribute, 0)

    @entry("cuKernelSetAttribute", arguments=(c_int, c_int, WORD, c_int))
    def set_kernel_attribute(self, attribute: int, value: int, handle: int, number: int) -> None:
        self.set_function_attribute(handle, attribute, value)

    @entry("cuFuncSetAttribute", arguments=(WORD, c_int, c_int))
    def set_function_attribute(self, handle: int, attribute: int, value: int) -> None:
        kernel = self._modules.kernel(handle)
        limit = self._device.spec.sm.shared_per_block_max_bytes - kernel.image.shared_bytes
        if attribute == _SHARED_MEMORY_MODE:
            raise DriverError(
                NOT_SUPPORTED, "shared memory beyond what a block may have (oversized mode) is not emulated"
            )
        if attribute not in _SETTABLE or (attribute == CARVEOUT and value not in _CARVEOUTS):
            raise DriverError(INVALID_VALUE, f"{kernel.name}: function attribute {attribute} cannot be set to {value}")
        if attribute == MAX_DYNAMIC_SHARED and not 0 <= value <= limit:
            raise DriverError(
                INVALID_VALUE, f"{kernel.name}: at most {limit} bytes of dynamic shared memory are possible"
            )
        if attribute in _CLUSTER_SIDES and kernel.image.cluster is not None:
            raise DriverError(NOT_PERMITTED, f"{kernel.name}: its cluster was set when it was compiled")
        kernel.settings[attribute] = value

    @entry("cuFuncSetCacheConfig", arguments=(WORD, c_int))
    def set_cache_config(self, handle: int, config: int) -> None:
        self._modules.kernel(handle)
        if config not in _CACHE_CONFIGS:
            raise DriverError(INVALID_VALUE, f"cache configuration {config} is none of 0 to 3")

    @entry("cuKernelSetCacheConfig", arguments=(WORD, c_int, c_int))
    def set_kernel_cache_config(self, handle: int, config: int, number: int) -> None:
        self.set_cache_config(handle, config)

    @entry("cuFuncSetSharedMemConfig", arguments=(WORD, c_int))
    def set_bank_config(self, handle: int, config: int) -> None:
        self._modules.kernel(handle)
        if config not in _BANK_CONFIGS:
            raise DriverError(INVALID_VALUE, f"shared memory configuration {config} is none of 0 to 2")

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

    # ---- clusters ----------------------------------------------------------------------------

    def most_cluster(self, kernel: Kernel) -> int:
        """Blocks that a cluster of the kernel may have."""
        most = LARGEST_CLUSTER if kernel.settings.get(LARGE_CLUSTER) else PORTABLE_CLUSTER
        return min(most, kernel.image.max_cluster or most)

    def cluster_of(self, kernel: Kernel, options: LaunchOptions) -> tuple[int, int, int]:
        """Blocks along x, y, z of the clusters that a launch of the kernel has: as it was compiled
        (``__cluster_dims__``), as its attributes or those of the launch say, else one. Raises DriverError where these
        differ."""
        required = kernel.image.cluster
        if required is None:
            x, y, z = (kernel.settings.get(side, 0) for side in _CLUSTER_SIDES)
            required = (x, y, z) if x and y and z else None
        if required is not None and options.cluster not in (None, required):
            raise DriverError(
                INVALID_CLUSTER_SIZE, f"a cluster of {options.cluster} blocks: {kernel.name} requires {required}"
            )
        return required or options.cluster or (1, 1, 1)

    def _needs_clusters(self) -> None:
        if self._device.spec.capability < CLUSTER_CAPABILITY:
            raise DriverError(INVALID_VALUE, "clusters need compute capability 9.0")

    @entry("cuOccupancyMaxPotentialClusterSize", arguments=(INT_OUT, WORD, POINTER(LaunchConfig)))
    def largest_cluster(self, out, handle: int, config) -> None:
        kernel = self._modules.kernel(handle)
        self._needs_clusters()
        if not config:
            raise DriverError(INVALID_VALUE, "the launch's configuration is null")
        block, shared = config[0].block, config[0].dynamic_shared_bytes
        a_sm = self.blocks_per_sm(kernel, block[0] * block[1] * block[2], shared)
        size = self.most_cluster(kernel)
        while size > 1 and a_sm * self._sms_a_cluster() < size:
            size //= 2
        put(out, size if a_sm else 0)

    @entry("cuOccupancyMaxActiveClusters", arguments=(INT_OUT, WORD, POINTER(LaunchConfig)))
    def active_clusters(self, out, handle: int, config) -> None:
        kernel = self._modules.kernel(handle)
        self._needs_clusters()
        if not config:
            raise DriverError(INVALID_VALUE, "the launch's configuration is null")
        cluster = self.cluster_of(kernel, options_at(config[0]))
        blocks = cluster[0] * cluster[1] * cluster[2]
        if blocks > self.most_cluster(kernel):
            raise DriverError(INVALID_CLUSTER_SIZE, f"a cluster of {cluster} blocks")
        block, shared = config[0].block, config[0].dynamic_shared_bytes
        a_sm = self.blocks_per_sm(kernel, block[0] * block[1] * block[2], shared)
        groups, sms = divmod(self._device.spec.sm_count, self._sms_a_cluster())
        put(
            out,
            groups * (a_sm * self._sms_a_cluster() // blocks) + a_sm * sms // blocks,
        )

    def _sms_a_cluster(self) -> int:
        """SMs that a cluster may spread over: those of one GPC, which the GPU's description does not tell apart."""
        return min(_GPC_SMS, self._device.spec.sm_count)
