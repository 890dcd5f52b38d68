"""The decorators of the interpreter's compiled functions.

Mental model: these functions only read and write arrays that their callers own, so Numba's reference
counting is switched off (``_nrt=False``): it would cost more than the instructions that are emulated, and
twice the compile time. The price: nothing compiled with it may allocate. Division by zero gives what the
machine gives (``error_model``), compiled code is kept on disk.
"""

from __future__ import annotations

from pathlib import Path

from numba import njit

from gpusim.jit_cache import drop_stale

_FOLDER = Path(__file__).parent
drop_stale(
    _FOLDER,
    [*_FOLDER.glob("*.py"), *_FOLDER.parent.glob("sass/*ops.py"), _FOLDER.parent / "sass/opcodes.py"],
)

#: For functions that Python calls.
compiled = njit(cache=True, error_model="numpy", _nrt=False)
#: For functions that only compiled functions call: without the wrapper that lets Python call them, which
#: takes longer to compile than the function itself.
inner = njit(
    cache=True, error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True
)
