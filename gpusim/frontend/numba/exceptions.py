"""Python exceptions that a kernel built with ``debug=True`` has raised, raised again on the host.

Mental model: in a debug build the first thread that raises (``assert``, ``raise``, a division by zero, an index out
of bounds) leaves a number and its place in variables of the kernel's module, and ends; others go on. After the
launch Numba looks the number up and raises that exception, with the source line, ``tid`` and ``ctaid`` (z, y, x)
before its text. This does the same for a captured launch.
"""

from __future__ import annotations

import os

import numpy as np

from gpusim.frontend.numba.build import NumbaBinary

_CODE = "__errcode__"


def raise_pending(binary: NumbaBinary, module_globals: np.ndarray) -> None:
    """Raise what the launch that has just ended has left in ``module_globals`` (uint8[global_bytes]), if anything.

    The exception is of the class that the kernel's author wrote, not of gpusim's.
    """
    places = {name: offset for name, offset, size in binary.image.variables if size == 4}

    def value(suffix: str) -> int:
        offset = places.get(binary.entry_name + suffix)
        return 0 if offset is None else int(module_globals[offset : offset + 4].view(np.int32)[0])

    code = value(_CODE)
    if code == 0 or binary.call_helper is None:
        return
    kind, arguments, place = binary.call_helper.get_exception(code)
    thread, block = ([value(f"__{name}{axis}__") for axis in "zyx"] for name in ("tid", "ctaid"))
    where = f"tid={thread} ctaid={block}"
    if place is not None:
        function, file, line = place
        where = f"In function {function!r}, file {os.path.abspath(file)}, line {line}, {where}"
    text = f"{where}: {arguments[0]}" if arguments else where
    raise kind(text, *(arguments or ())[1:])
