"""Whether a kernel needs a helper library of Numba's, told without its PTX.

Mental model: Numba compiles every kernel to PTX and looks in there for the names of functions that it has in files of
its own (reshaping an array, reference counts). A kernel with link-time optimisation, which all but debug builds are, is
then compiled once more, to what the linker takes, and nobody looks at the PTX again: a fifth of the time that a small
kernel takes. PTX calls nothing that the LLVM code, which is there already, does not name; so where the LLVM code names
no helper, the PTX need not be made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.cuda import codegen, dispatcher

#: Without the types that a checker knows from an older copy of these modules, in Numba itself.
_LIBRARY: Any = codegen.CUDACodeLibrary
_DISPATCHER: Any = dispatcher
#: What Numba looks for: https://github.com/NVIDIA/numba-cuda, numba_cuda/numba/cuda/dispatcher.py, _Kernel.__init__ and
#: maybe_link_nrt.
HELPERS: tuple[str, ...] = (*_DISPATCHER.reshape_funcs, *_DISPATCHER._Kernel.NRT_functions)


def names_helper(library: Any) -> bool:
    """Whether the LLVM code of ``library`` (CUDACodeLibrary) names a function that Numba keeps in a file of its own."""
    return any(name in text for text in library.llvm_strs for name in HELPERS)


@contextmanager
def without_unread_ptx() -> Iterator[None]:
    """Within, kernels that are linked from LTO IR and name no helper are compiled without PTX; their ``get_asm_str()``
    is empty."""
    plain: Callable[..., str] = _LIBRARY.get_asm_str

    def get_asm_str(library: Any, cc: Any = None) -> str:
        return "" if library._lto and not names_helper(library) else plain(library, cc)

    _LIBRARY.get_asm_str = get_asm_str
    try:
        yield
    finally:
        _LIBRARY.get_asm_str = plain
