"""Functions of the driver that a kernel may call: the machine code has only their names.

Mental model: a cubin is linked but for these. The loader of a GPU fills their addresses in; here each gets a
stub behind the kernel's code, which the interpreter serves itself. Calling convention (read off compiled
kernels of every generation): arguments from R4 on, 64-bit ones in even pairs, the result from R4 on, the return
address in R20:R21. A function that is not listed is refused before anything runs.
"""

from __future__ import annotations

from gpusim.errors import UnsupportedOpcodeError
from gpusim.isa import system_ops as ops
from gpusim.isa.binary.cubin import KernelImage

#: What every function of the device runtime is called in the driver, before its own name (read off libcudadevrt.a of CUDA 13).
DEVICE_RUNTIME = "__cuda_syscall_cnpv2"
#: Those that are served: launches, and streams and events, which only bring launches into an order.
DEVICE_RUNTIME_CALLS = (
    "GetParameterBufferV2", "LaunchDeviceV2", "SetLastError", "GetLastError", "GetDevice", "StreamCreate", "StreamDestroy",
    "StreamWaitEvent", "EventCreate", "EventRecord", "EventDestroy",
)  # fmt: skip
#: What a kernel of a graph calls to choose what a conditional node does (cuda_device_runtime_api.h).
SET_CONDITION = "cudaGraphSetConditional"
#: Driver function -> what its stub does.
CALLS = {
    "__cuda_syscall_CGS_get_intrinsic_handle": ops.CALL_GRID_HANDLE,
    "__cuda_syscall_CGS_sync": ops.CALL_GRID_SYNC,
    "vprintf": ops.CALL_HOST,
    "malloc": ops.CALL_HOST,
    "free": ops.CALL_HOST,
    "__assertfail": ops.CALL_HOST,
    SET_CONDITION: ops.CALL_HOST,
    **{DEVICE_RUNTIME + name: ops.CALL_HOST for name in DEVICE_RUNTIME_CALLS},
}


def why_refused(function: str) -> str:
    """Why calls to a driver function are refused; empty if they are served."""
    if function in CALLS:
        return ""
    return f"{function} is a driver function that is not emulated; {', '.join(CALLS)} are"


def refuse_unknown(image: KernelImage, kernel: str) -> None:
    """Raise UnsupportedOpcodeError naming the first driver function that nothing serves."""
    for function in image.externals.values():
        reason = why_refused(function)
        if reason:
            raise UnsupportedOpcodeError(f"kernel {kernel} calls {reason}")
