"""The emulated driver called as C code calls it, in this process and without being installed in it.

``Api`` has every driver function as an attribute: C types by ctypes, structures of cuda.bindings by their address. A
call raises ``CallError`` with the CUresult's name, ``api.code(...)`` returns that name instead.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

from gpusim.driver.device import make_device
from gpusim.driver.driver import Driver
from gpusim.driver.interrupts import Interrupts
from gpusim.driver.ledger import Ledger

DRIVER_VERSION = 13000

#: y[i] = a * x[i] + y[i] for i < n; one block a thread block, no shared memory.
AXPY = """
.version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 counter = 7;
.visible .entry axpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)
{
    .reg .pred %p<2>; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %d<8>;
    ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.f32 %f1, [a]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1; @%p1 bra DONE;
    cvta.to.global.u64 %d3, %d1; cvta.to.global.u64 %d4, %d2; mul.wide.u32 %d5, %r5, 4;
    add.s64 %d6, %d3, %d5; add.s64 %d7, %d4, %d5;
    ld.global.f32 %f2, [%d6]; ld.global.f32 %f3, [%d7]; fma.rn.f32 %f3, %f1, %f2, %f3; st.global.f32 [%d7], %f3;
DONE: ret;
}
"""


class CallError(Exception):
    """A driver function has returned something else than CUDA_SUCCESS."""


class Api:
    """Emulated GPUs, one unless ``devices`` says more, and their driver; ``visible``: what CUDA_VISIBLE_DEVICES is set
    to. ``launches``: the account of what ran; ``folder``: their traces are kept there."""

    def __init__(self, gpu: str = "h200", folder: Path | None = None, devices: int = 1, visible: str | None = None):
        self.ledger = Ledger(folder=folder)
        self.driver = Driver(make_device(gpu, count=devices), self.ledger, Interrupts(lambda: None))
        self.driver.contexts.setting = lambda: visible
        self._calls: dict[str, tuple[int, Any]] = {}
        self._versions: dict[str, dict[int, Any]] = {}
        for signature, call in self.driver.functions().values():
            function = ctypes.CFUNCTYPE(ctypes.c_int, *signature.arguments)(call)
            self._versions.setdefault(signature.name, {})[signature.since] = function
        self.cuInit(0)
        self.on(0)

    def on(self, device: int) -> int:
        """Make the primary context of a device current; its handle."""
        context = self.word("cuDevicePrimaryCtxRetain", device)
        self.cuCtxSetCurrent(context)
        return context

    def at(self, name: str, version: int = DRIVER_VERSION) -> Callable[..., int]:
        """The function as cuGetProcAddress would find it for a program of that CUDA version."""
        forms = self._versions[name]
        function = forms[max(since for since in forms if since <= version)]
        kinds = function.argtypes

        def call(*arguments: Any) -> int:
            assert len(arguments) == len(kinds or ()), f"{name} takes {len(kinds or ())} arguments"
            return function(
                *(ctypes.cast(a, k) if _is_pointer(k, a) else a for a, k in zip(arguments, kinds or (), strict=True))
            )

        return call

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*arguments: Any) -> None:
            code = self.at(name)(*arguments)
            if code:
                raise CallError(f"{name}: {cu.CUresult(code).name}: {'; '.join(self.driver.details[-1:])}")

        return call

    def code(self, name: str, *arguments: Any, version: int = DRIVER_VERSION) -> str:
        """The name of the CUresult, without ``CUDA_``."""
        return cu.CUresult(self.at(name, version)(*arguments)).name.removeprefix("CUDA_").removeprefix("ERROR_")

    # ---- short forms ----------------------------------------------------------------------------

    def word(self, name: str, *arguments: Any, kind: type = ctypes.c_uint64) -> int:
        """What ``name`` writes through its first argument, before ``arguments``."""
        out = kind()
        getattr(self, name)(ctypes.byref(out), *arguments)
        return out.value

    def word_of_second(self, name: str, first: Any) -> int:
        """What ``name`` writes through its second argument."""
        out = ctypes.c_uint64()
        getattr(self, name)(first, ctypes.byref(out))
        return out.value

    def upload(self, array: np.ndarray) -> int:
        """Device memory with the array's content."""
        address = self.word("cuMemAlloc", array.nbytes)
        self.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes)
        return address

    def download(self, address: int, dtype: Any, *shape: int) -> np.ndarray:
        """Device memory as an array."""
        array = np.zeros(shape, dtype)
        self.cuMemcpyDtoH(array.ctypes.data, address, array.nbytes)
        return array

    def kernel(self, text: str, name: str) -> int:
        """A function of a PTX module."""
        module = self.word("cuModuleLoadData", ctypes.addressof(keep(ctypes.create_string_buffer(text.encode()))))
        return self.word("cuModuleGetFunction", module, ctypes.c_char_p(name.encode()))

    @property
    def launches(self) -> list[tuple[str, int]]:
        """(kernel, how often) of what has run."""
        return [(row.facts["kernel"], row.count) for row in self.ledger.rows]


_kept: list[Any] = []


def keep(thing: Any) -> Any:
    """Hold on to C memory that the driver may read later."""
    _kept.append(thing)
    return thing


def parameters(*values: Any) -> int:
    """The address of an array of pointers to kernel parameters."""
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(keep(value)) for value in values))
    return ctypes.addressof(keep(pointers))


def axpy_parameters(x: int, y: int, a: float, n: int) -> int:
    """Those of :data:`AXPY`."""
    return parameters(ctypes.c_uint64(x), ctypes.c_uint64(y), ctypes.c_float(a), ctypes.c_uint32(n))


def address_of(structure: Any) -> int:
    """Where a structure of cuda.bindings or ctypes lies."""
    keep(structure)
    return structure.getPtr() if hasattr(structure, "getPtr") else ctypes.addressof(structure)


def _is_pointer(kind: Any, value: Any) -> bool:
    return isinstance(value, int) and hasattr(kind, "contents")
