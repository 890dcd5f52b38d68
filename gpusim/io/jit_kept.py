"""Loads compiled functions from disk without getting ready to compile.

Mental model: before Numba loads a function that it has kept, it gets ready to compile it (a quarter of a second: all
that NumPy's functions mean to compiled code), and reads the function's intermediate code, from which callers could
inline it. A function that is loaded needs its machine code and the names in it, no more. Numba gets ready by itself
where a function has to be compiled after all, and the intermediate code is read where another function links it.

Keeping saves time and is no more than that: a full disk keeps nothing, and where no folder can be written, what an
installation brought in its own folder is read, and what it did not bring is compiled in each process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, ClassVar

import llvmlite.binding as llvm
from numba.core.caching import CompileResultCacheImpl, FunctionCache, InTreeCacheLocator, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult
from numba.core.runtime.nrt import rtsys

from gpusim.io.progress import task


class KeptLibrary(JITCodeLibrary):
    """A library that says beside its machine code which names it defines, and reads its intermediate code late."""

    _bitcode: bytes | None = None

    def serialize_using_object_code(self) -> tuple:
        name, kind, (machine_code, bitcode) = super().serialize_using_object_code()
        shared = self._get_module_for_linking()
        symbols = (*shared.functions, *shared.global_variables)
        names = [symbol.name for symbol in symbols if not symbol.is_declaration]
        counts = any(symbol.name.startswith("NRT_") for symbol in shared.functions)
        return name, kind, (machine_code, bitcode, names, counts)

    @classmethod
    def load(cls, context: Any, kept: tuple) -> KeptLibrary:
        """What :meth:`serialize_using_object_code` made."""
        name, _, (machine_code, bitcode, names, counts) = kept
        if counts:  # the code calls Numba's reference counting
            rtsys.initialize(context)
        self = cls(context.codegen(), name)
        self.enable_object_caching()
        self._set_compiled_object(machine_code)
        self._finalize_final_module()
        self._finalized = True
        self._codegen._engine._defined_symbols.update(names)
        self._bitcode = bitcode
        return self

    def _get_module_for_linking(self) -> llvm.ModuleRef:
        if self._bitcode is not None:
            self._shared_module, self._bitcode = llvm.parse_bitcode(self._bitcode), None
        return super()._get_module_for_linking()


class _AsItStands(InTreeCacheLocator):
    """The folder beside a source, which cannot be written: as an image has it that was run once before it was
    closed."""

    def ensure_cache_path(self) -> None:
        if not any(Path(self.get_cache_path()).glob("*.nbi")):
            raise FileNotFoundError(self.get_cache_path())


class _Placed(CompileResultCacheImpl):
    """What stands on disk in Numba's own form, wherever there is a place for it."""

    _locator_classes: ClassVar = [*CompileResultCacheImpl._locator_classes, _AsItStands]


class _Kept(_Placed):
    """What stands on disk, as a compiled function: Numba's own form but for the library's."""

    def rebuild(self, target_context: Any, payload: tuple) -> CompileResult:
        kept, description, environment, signature, object_mode, lifted, annotation, first, referenced = payload
        for function in first:
            function()
        library: Any = KeptLibrary.load(target_context, kept)
        result = CompileResult(
            typing_context=target_context.typing_context,
            target_context=target_context,
            entry_point=target_context.get_executable(library, description, environment),
            typing_error=None,
            type_annotation=annotation,
            signature=signature,
            objectmode=object_mode,
            lifted=lifted,
            fndesc=description,
            library=library,
            call_helper=None,
            environment=environment,
            metadata=None,
            reload_init=first,
            referenced_envs=referenced,
        )
        for each in referenced:
            library.codegen.set_env(each.env_name, each)
        return result


class PlainlyKept(FunctionCache):
    """A function's compiled forms on disk as Numba keeps them, if the disk takes them."""

    _impl_class: Callable[..., Any] = _Placed

    def load_overload(self, sig: Any, target_context: Any) -> CompileResult | None:
        found = self._loaded(sig, target_context)
        if found is None:  # Numba compiles it now
            _compiling.begin((id(self), sig), _ONCE)
        return found

    def _loaded(self, sig: Any, target_context: Any) -> CompileResult | None:
        return super().load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: CompileResult) -> None:
        try:
            with suppress(OSError):  # a full disk, or one that is only read
                super().save_overload(sig, data)
        finally:
            _compiling.end((id(self), sig))


class KeptFunctions(PlainlyKept):
    """A function's compiled forms on disk, loaded as they are: without getting Numba ready, which their library does
    where it must."""

    _impl_class: Callable[..., Any] = _Kept

    def _loaded(self, sig: Any, target_context: Any) -> CompileResult | None:
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)
        return None


class KeptNowhere(NullCache):
    """In the place of a cache where no folder takes one."""

    def load_overload(self, sig: Any, target_context: Any) -> None:
        _compiling.begin((id(self), sig), _EACH_TIME)

    def save_overload(self, sig: Any, cres: Any) -> None:
        _compiling.end((id(self), sig))


def cache_of(function: Callable[..., Any], kind: type[PlainlyKept] = PlainlyKept) -> PlainlyKept | KeptNowhere:
    """Where compiled forms of ``function`` are kept."""
    try:
        return kind(function)
    except RuntimeError as error:
        if "no locator" not in str(error):
            raise
        return KeptNowhere()


#: What is said while gpusim is compiled.
_ONCE = "compiling gpusim itself, once for this version"
_EACH_TIME = "compiling gpusim itself (no folder to keep it in: see gpusim doctor)"


class _Compiling:
    """Says that gpusim compiles itself from when the first function that is not on disk is wanted until it is there:
    those that it calls are compiled within."""

    def __init__(self) -> None:
        self._wanted: list[Any] = []
        self._shown = ExitStack()
        self._lock = threading.Lock()

    def begin(self, key: Any, what: str) -> None:
        with self._lock:
            if not self._wanted:
                self._shown.enter_context(task(what))
            self._wanted.append(key)

    def end(self, key: Any) -> None:
        with self._lock:
            if key in self._wanted:
                del self._wanted[self._wanted.index(key) :]  # with calls within of which nothing came
                if not self._wanted:
                    self._shown.close()


_compiling = _Compiling()
