"""A kernel in a file of the user's own: ``my.py:saxpy``, and ``my.py:saxpy_case:n=1000`` that launches it.

Mental model: the file is imported as a module (so what stands under ``if __name__ == "__main__"`` does not run), and a
name in it is either a kernel (a ``@cuda.jit`` function, or what another front end takes), of which only the code can be
looked at, or a *case*: a plain function whose parameters are the shape, and which makes the arguments and returns the
launch::

    def saxpy_case(n=1 << 20, block=256):
        x, y = np.ones(n, np.float32), np.ones(n, np.float32)
        return saxpy, -(-n // block), block, (np.float32(2), x, y)

What else it may return stands in :mod:`gpusim.cases.case_forms`: a check behind the arguments, several launches, an
object with ``launches`` and ``check`` as the suite's entries have.

Raises UnknownKernelError for a file or name that is not there, UsageError for one that cannot be used as asked.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from gpusim.cases.arguments import parse_argument
from gpusim.cases.case_forms import UserCase, as_case
from gpusim.cases.names import REFERENCE
from gpusim.cases.signature import axis_of, parameters_of
from gpusim.cases.user_source import no_parameter
from gpusim.errors import GpusimError, ToolchainError, UnknownKernelError, UsageError
from gpusim.frontend.registry import is_device_function, is_kernel
from gpusim.io.nearest import hint
from gpusim.io.real_path import real_path, refuse_no_text

#: A parameter of this name is True where the small shape is asked for.
SMALL = "small"
_EXAMPLE = "def {name}_case(n=1000): ...; return {name}, grid, block, (its arguments,), check"


def load_object(reference: str) -> Any:
    """What the file of ``path.py:name`` calls ``name``."""
    match = REFERENCE.match(reference)
    if match is None:
        raise UnknownKernelError(f"{reference!r} does not name a function of a file: write path.py:function")
    path, name = Path(match["path"]), match["name"]
    module = _import(path)
    if not hasattr(module, name):
        found = [n for n, value in vars(module).items() if _is_own(value, module)]
        raise UnknownKernelError(f"{path} has no {name}; {hint(name, found) if found else 'it has no function'}")
    return getattr(module, name)


def case_function(reference: str) -> Callable[..., Any]:
    """The function ``path.py:name``, which makes a case. Raises UsageError for what makes none, such as a kernel."""
    function = load_object(reference)
    name = reference.rpartition(":")[2]
    if is_device_function(function):
        raise UsageError(
            f"{reference} is a device function: name a function that makes a launch of a kernel that calls it"
        )
    if is_kernel(function):
        raise UsageError(
            f"{reference} is a kernel, and its arguments are not known: name a function that makes them, such as"
            f" {_EXAMPLE.format(name=name)}, or run the whole program with `gpusim run`"
        )
    if not callable(function):
        raise UsageError(f"{reference} is no function but a {type(function).__name__}")
    return function


def complete_user_shape(reference: str, shape: dict[str, Any], *, small: bool = False) -> dict[str, Any]:
    """Every parameter of ``reference`` with its value, in their order: ``shape`` (parameter -> value or its text),
    completed from the defaults. With ``small`` a parameter of that name, if it has one, is True; else sizes are the
    simplest ones."""
    parameters = parameters_of(case_function(reference))
    for axis in shape:
        if axis not in parameters:
            raise no_parameter(reference, axis, parameters)
    values, missing = {}, []
    for name, parameter in parameters.items():
        axis = axis_of(parameter)
        if name in shape:
            values[name] = parse_argument(reference, parameter, shape[name])
            _refuse_beyond(reference, name, values[name], axis.bounds)
        elif name == SMALL and small:
            values[name] = True
        elif axis.default is parameter.empty:
            missing.append(name)
        else:
            values[name] = axis.small if small and SMALL not in parameters else axis.default
    if missing:
        raise UsageError(f"{reference} needs {', '.join(missing)}: write {reference}:{missing[0]}=VALUE")
    return values


def _refuse_beyond(reference: str, name: str, value: Any, bounds: range | None) -> None:
    if bounds is not None and isinstance(value, int) and value not in bounds:
        step = f" in steps of {bounds.step}" if bounds.step != 1 else ""
        raise UsageError(f"{reference}: {name}={value} is outside {bounds[0]} to {bounds[-1]}{step}")


def make_user_case(reference: str, shape: dict[str, Any], *, small: bool = False) -> UserCase:
    """The case that the function ``reference`` makes of ``shape``, completed as by :func:`complete_user_shape`."""
    given = complete_user_shape(reference, shape, small=small)
    function = load_object(reference)
    asked = ",".join(f"{axis}={value}" for axis, value in given.items())
    made = guarded(f"{reference}:{asked}" if asked else reference, lambda: function(**given))
    # An assertion is a check's word on the result, other errors are slips of who wrote it.
    return as_case(reference, made, lambda what, call: guarded(what, call, (GpusimError, AssertionError)))


def _import(path: Path) -> ModuleType:
    if not path.is_file():
        raise UnknownKernelError(f"there is no file {path}")
    resolved = real_path(path)
    refuse_no_text(resolved)
    name = f"gpusim_user_{resolved.stem}_{abs(hash(resolved)):x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, resolved)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as an import does: its own classes and pickles look there
    sys.path.insert(0, str(resolved.parent))
    try:
        guarded(str(path), lambda: spec.loader.exec_module(module))
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(resolved.parent))
    return module


#: Modules that a kernel's file imports -> the extra of gpusim's package that brings them.
_EXTRAS = {"cutlass": "cute", "triton": "triton", "torch": "torch"}


def guarded(where: str, call: Callable[[], Any], through: tuple[type[Exception], ...] = (GpusimError,)) -> Any:
    """What ``call`` returns; an error of the user's code, other than those let ``through``, as one line that says
    where. What it prints goes to stderr: the command's own answer stands on stdout."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return call()
    except through:
        raise
    except SystemExit as error:
        raise UsageError(
            f'{where} ends the program ({error.code!r}): put that under if __name__ == "__main__"'
        ) from None
    except Exception as error:
        frames = [
            f
            for f in traceback.extract_tb(error.__traceback__)
            if f.filename != __file__ and "importlib" not in f.filename
        ]
        # The user's own line: compiled modules of a library name files that are not there.
        own = next(
            (f for f in reversed(frames) if "site-packages" not in f.filename and Path(f.filename).is_file()), None
        )
        place = f" (line {own.lineno} of {Path(own.filename).name})" if own else ""
        text = " ".join(str(error).split()) or "no message"
        missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
        if missing in _EXTRAS:
            raise ToolchainError(
                f"{where}{place} needs {missing}, which is not installed: pip install 'gpusim[{_EXTRAS[missing]}]'"
            ) from error
        advice = ""
        if type(error).__name__ in ("CudaSupportError", "CudaAPIError", "CudaDriverError"):
            advice = "; a case gives NumPy arrays and launches nothing itself: for a whole program use `gpusim run`"
        raise UsageError(f"{where}{place}: {type(error).__name__}: {text}{advice}") from error


def _is_own(value: Any, module: ModuleType) -> bool:
    return callable(value) and (is_kernel(value) or getattr(value, "__module__", "") == module.__name__)
