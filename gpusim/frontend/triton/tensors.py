"""Arrays of any library in host memory, as Triton sees tensors: an element type and an address in a buffer.

Mental model: a tensor is a place in a buffer (PyTorch: its storage; NumPy: the array that owns the memory). Tensors of
one buffer share it on the device, so that views overlap as they do on a GPU, and keep their distance from its start, on
which Triton's choice of vector widths depends.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpusim.errors import UsageError
from gpusim.launch.memory import extent


@dataclass(frozen=True, eq=False)
class HostTensor:
    """``dtype``: its name ("float32", "bfloat16"); ``offset`` bytes into ``buffer`` where its first element lies. To
    Triton it looks as a tensor on a GPU does whose storage is aligned as ``cudaMalloc`` aligns."""

    dtype: str
    offset: int
    buffer: np.ndarray

    def data_ptr(self) -> int:
        """The address that alignment is read from."""
        return self.offset


def as_tensor(value: Any, where: str) -> HostTensor | None:
    """``value`` if it is an array of some library, None for anything else. Raises UsageError, naming ``where``, for one
    on a GPU."""
    if isinstance(value, HostTensor):
        return value
    if isinstance(value, np.generic):
        return None
    if isinstance(value, np.ndarray):
        return _of_numpy(value, value.dtype.name)
    if hasattr(value, "untyped_storage"):
        return _of_torch(value, where)
    if hasattr(value, "__dlpack__"):
        try:
            array = np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            raise UsageError(f"{where}: {error}; give an array in host memory") from None
        return _of_numpy(array, array.dtype.name)
    if hasattr(value, "__cuda_array_interface__"):
        raise UsageError(
            f"{where} lies on a device; capture takes arrays in host memory: a whole program runs in `gpusim run`"
        )
    if hasattr(value, "__array_interface__"):
        array = np.asarray(value)
        return _of_numpy(array, array.dtype.name)
    return None


def pointers_of(values: list[Any]) -> HostTensor:
    """A list of arrays as Triton sees it: the addresses that a program would have gathered in a tensor of int64."""
    return HostTensor("int64", 0, np.zeros(len(values), np.int64))


def _of_numpy(array: np.ndarray, dtype: str) -> HostTensor:
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return HostTensor(dtype, array.ctypes.data - extent(owner)[0], owner)


def _of_torch(tensor: Any, where: str) -> HostTensor:
    if tensor.device.type != "cpu":
        raise UsageError(
            f"{where} lies on {tensor.device}; capture takes tensors in host memory (device='cpu'): a whole program runs in"
            " `gpusim run`"
        )
    torch, storage = sys.modules["torch"], tensor.untyped_storage()
    flat = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()  # keeps the storage alive
    return HostTensor(str(tensor.dtype).removeprefix("torch."), tensor.data_ptr() - storage.data_ptr(), flat)
