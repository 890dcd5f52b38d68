"""A kernel in a file of the user's own: ``my.py:saxpy``, and ``my.py:saxpy_case:n=1000`` that launches it.

Mental model: the file is imported as a module (so what stands under ``if __name__ == "__main__"`` does not run), and a
name in it is either a kernel (a ``@cuda.jit`` function, or what another front end takes), of which only the code can be
looked at, or a *case*: a plain function whose parameters are the shape, and which makes the arguments and returns the launch::

    def saxpy_case(n=1 << 20, block=256):
        x, y = np.ones(n, np.float32), np.ones(n, np.float32)
        return saxpy, -(-n // block), block, (np.float32(2), x, y)

It may return a list of such launches, a fifth element (dynamic shared bytes) in each, or an object with ``launches``
and ``check`` as the suite's entries have, for launches that are not timed and results that are compared.

Raises UnknownKernelError for a file or name that is not there, UsageError for one that cannot be used as asked.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from gpusim.cases.names import REFERENCE
from gpusim.errors import GpusimError, UnknownKernelError, UsageError
from gpusim.frontend.registry import is_kernel
from gpusim.io.nearest import hint

_EXAMPLE = "def {name}_case(n=1000): ...; return {name}, grid, block, (its arguments,)"


@dataclass(frozen=True)
class CaseLaunch:
    """A launch as a case writes it, ``kernel[grid, block, 0, shared_bytes](*args)``: not compiled, and for no GPU yet."""

    kernel: Any
    grid: Any
    block: Any
    args: tuple
    shared_bytes: int = 0
    timed: bool = True


@dataclass(frozen=True)
class UserCase:
    """Launches in order, and a check that raises AssertionError for a wrong result (a case that gives none passes)."""

    launches: tuple[CaseLaunch, ...]
    check: Callable[[], None]


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


def make_user_case(reference: str, shape: dict[str, Any], *, small: bool = False) -> UserCase:
    """The case that the function ``reference`` makes of ``shape`` (parameter -> value or its text); with ``small`` a
    parameter of that name, if it has one, is True."""
    function = load_object(reference)
    name = reference.rpartition(":")[2]
    if is_kernel(function):
        raise UsageError(
            f"{reference} is a kernel, and its arguments are not known: name a function that makes them, such as"
            f" {_EXAMPLE.format(name=name)}, or run the whole program with `gpusim run`"
        )
    if not callable(function):
        raise UsageError(f"{reference} is no function but a {type(function).__name__}")
    parameters = inspect.signature(function).parameters
    for axis in shape:
        if axis not in parameters:
            raise UsageError(f"{reference} has no parameter {axis!r}; it has {', '.join(parameters) or 'none'}")
    missing = [
        p.name
        for p in parameters.values()
        if p.default is p.empty and p.name not in shape and p.kind < p.VAR_POSITIONAL
    ]
    if missing:
        raise UsageError(f"{reference} needs {', '.join(missing)}: write {reference}:{missing[0]}=VALUE")
    given = {axis: _value(text) for axis, text in shape.items()}
    if small and "small" in parameters:
        given.setdefault("small", True)
    made = _guarded(reference, lambda: function(**given))
    launches = tuple(_launch(reference, one) for one in _launches_of(made))
    if not launches:
        raise UsageError(f"{reference} returned no launch")
    check = getattr(made, "check", None)
    return UserCase(launches, (lambda: _checked(reference, check)) if check else (lambda: None))


def _import(path: Path) -> ModuleType:
    if not path.is_file():
        raise UnknownKernelError(f"there is no file {path}")
    resolved = path.resolve()
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
        _guarded(str(path), lambda: spec.loader.exec_module(module))
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(resolved.parent))
    return module


def _guarded(where: str, call: Callable[[], Any], through: tuple[type[Exception], ...] = (GpusimError,)) -> Any:
    """What ``call`` returns; an error of the user's code, other than those let ``through``, as one line that says where."""
    try:
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
        own = next((f for f in reversed(frames) if "site-packages" not in f.filename), None)
        place = f" (line {own.lineno} of {Path(own.filename).name})" if own else ""
        text = " ".join(str(error).split()) or "no message"
        advice = ""
        if type(error).__name__ in ("CudaSupportError", "CudaAPIError", "CudaDriverError"):
            advice = "; a case gives NumPy arrays and launches nothing itself: for a whole program use `gpusim run`"
        raise UsageError(f"{where}{place}: {type(error).__name__}: {text}{advice}") from error


def _checked(reference: str, check: Callable[[], None]) -> None:
    """Run a case's own check: AssertionError says that the result is wrong, anything else that the check is."""
    _guarded(f"the check of {reference}", check, (GpusimError, AssertionError))


def _is_own(value: Any, module: ModuleType) -> bool:
    return callable(value) and (is_kernel(value) or getattr(value, "__module__", "") == module.__name__)


def _launches_of(made: Any) -> Iterable[Any]:
    """The launches that a case returned: an object's, a list, or a single one."""
    if hasattr(made, "launches"):
        return made.launches
    if isinstance(made, tuple) and made and is_kernel(made[0]):
        return [made]
    return made if isinstance(made, (list, tuple)) else [made]


def _launch(reference: str, one: Any) -> CaseLaunch:
    if hasattr(one, "kernel") and hasattr(one, "args"):
        return CaseLaunch(
            one.kernel,
            one.grid,
            one.block,
            tuple(one.args),
            getattr(one, "shared_bytes", 0),
            getattr(one, "timed", True),
        )
    if not isinstance(one, tuple) or len(one) not in (4, 5) or not isinstance(one[3], (tuple, list)):
        shown = type(one).__name__ if not isinstance(one, tuple) else f"a tuple of {len(one)}"
        raise UsageError(
            f"{reference} must return (kernel, grid, block, (arguments...)) or (..., shared_bytes), or a list of such;"
            f" it returned {shown}"
        )
    return CaseLaunch(one[0], one[1], one[2], tuple(one[3]), *(one[4:]))


def _value(text: Any) -> Any:
    """A parameter as written: a Python literal, or else text."""
    if not isinstance(text, str):
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
