"""A kernel of a file that is no Python, as a command line names it: ``my.cu:saxpy``, ``libfoo.so:ns::scale<double>``,
and its launch behind it, ``my.cu:saxpy:grid=4,block=256,arg0=int:1024``.

Mental model: what stands behind the file is the kernel, colons and commas and all, up to the first axis of a launch. A
file without a known ending, such as an executable, must be there to be taken for one.
"""

from __future__ import annotations

import re
from pathlib import Path

#: Endings of sources, and of files of machine code.
CUDA_CPP = (".cu", ".cuh", ".cpp")
PTX = ".ptx"
_ENDING = r"\.(?:cu|cuh|cpp|ptx|cubin|fatbin|o|a|exe|so(?:\.\d+)*)"
_AXES = r"(?::(?P<shape>[A-Za-z_]\w*=(?!=).*))?"
_KNOWN = re.compile(rf"^(?P<path>.+?{_ENDING}):(?P<entry>.+?){_AXES}$")
_OTHER = re.compile(rf"^(?P<path>[^:]+):(?P<entry>(?!\w+=).+?){_AXES}$")
_FILE = re.compile(rf"^.+{_ENDING}$")
#: In the place of a kernel: every one of the file.
ALL_KERNELS = "*"
#: How ELF and fat binaries begin.
_MAGICS = (b"\x7fELF", b"\x50\xed\x55\xba", b"!<arch>")


def split_native(text: str) -> tuple[str, str, str] | None:
    """(path, kernel, axes of its launch as written) of a kernel of such a file; None for what names none."""
    found = _KNOWN.match(text)
    if found is None:
        found = _OTHER.match(text)
        if found is None or not is_native_file(found["path"]):
            return None
    return found["path"], found["entry"], found["shape"] or ""


def is_native(name: str) -> bool:
    """Whether ``name`` names a kernel of such a file."""
    return split_native(name) is not None


def is_native_file(text: str) -> bool:
    """Whether ``text`` is the path of such a file: by its ending, or by how the file begins."""
    if _FILE.match(text):
        return True
    try:
        with Path(text).open("rb") as file:
            return file.read(8).startswith(_MAGICS)
    except (OSError, ValueError):
        return False
