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

#: What every function of the device runtime is called in the driver, before its own name (read off libcudadevrt.a of
#: CUDA 13).
DEVICE_RUNTIME = "__cuda_syscall_cnpv2"
#: Those that are served: launches, and streams and events, which only bring launches into an order.
DEVICE_RUNTIME_CALLS = (
    "GetParameterBufferV2", "LaunchDeviceV2", "SetLastError", "GetLastError", "GetDevice", "StreamCreate", "StreamDestroy",
    "StreamWaitEvent", "EventCreate", "EventRecord", "EventDestroy",
)  # fmt: skip
#: What a kernel of a graph calls to choose what a conditional node does (cuda_device_runtime_api.h).
SET_CONDITION = "cudaGraphSetConditional"
#: How the names begin of what copies into another block's shared memory where the tensor memory accelerator cannot: for
#: sm_120 ptxas (13.0) makes of a copy to .shared::cluster the instruction, and beside it, for an address that is not
#: the own block's, a call.
FAR_COPY = "__cuda_syscall_cp_"
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


def what_stub_does(function: str) -> int | None:
    """What the stub of a driver function does; None if nothing serves it. Copies to other blocks are refused where one
    is called, not before: kernels of one block have such calls too, and never come to them."""
    return ops.CALL_HOST if function.startswith(FAR_COPY) else CALLS.get(function)


def why_refused(function: str) -> str:
    """Why calls to a driver function are refused; empty if they are served."""
    if what_stub_does(function) is not None:
        return ""
    return f"{function} is a driver function that is not emulated; {', '.join(CALLS)} are"


def refuse_unknown(image: KernelImage, kernel: str) -> None:
    """Raise UnsupportedOpcodeError naming the first driver function that nothing serves."""
    for function in image.externals.values():
        reason = why_refused(function)
        if reason:
            raise UnsupportedOpcodeError(f"kernel {kernel} calls {reason}")
