"""Capture: a kernel and its arguments in, the trace of its machine code out, with no GPU.

``gpusim.capture`` is this package and, since users want one name for one act, also its main function:
calling it is calling :func:`gpusim.capture.launch.capture`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


class _CallablePackage(ModuleType):
    """A package that is called like the function it is known for; the function loads when called."""

    def __call__(self, *args, **kwargs):
        return import_module("gpusim.capture.launch").capture(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
