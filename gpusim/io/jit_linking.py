"""How compiled functions are put together: each function's code is optimised once, inside the function that Python
calls.

Mental model: Numba optimises and assembles every function as a library of its own, together with all that it calls:
in a tree of calls ten deep, the code of a leaf is optimised ten times over, and nine of the results are thrown away.
Here an inner function, one that only compiled functions call, stops at LLVM's intermediate code, optimised without that
of its callees (what is inlined later depends on how small it is then). The function that Python calls links that of its
whole tree, each member once, optimises it, and alone is assembled.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable

import llvmlite.binding as llvm
from llvmlite.binding import ModuleRef
from numba.core.codegen import CodeLibrary, CPUCodegen, JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager
from numba.core.dispatcher import Dispatcher
from numba.core.typed_passes import NativeLowering

from gpusim.io.jit_kept import KeptLibrary
from gpusim.io.jit_passes import FromStartInnerLowering, FromStartLowering, InnerLowering, LeanLowering, shorter
from gpusim.io.jit_typing import Options, remembering

#: LLVM's level for the code of an inner function alone.
_INNER_LEVEL = 2


class _NoEnvironment:
    """A code generator as inner functions see it: nothing of theirs has an address yet, so Numba's environment object
    cannot be put there (it serves exceptions with arguments known at run time and calls into Python alone)."""

    def __init__(self, codegen: CPUCodegen):
        self._codegen = codegen

    def __getattr__(self, name: str) -> object:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: object) -> None:
        pass


class InnerLibrary(JITCodeLibrary):
    """The intermediate code of one inner function, without that of the functions it calls."""

    @property
    def codegen(self) -> _NoEnvironment:
        return _NoEnvironment(self._codegen)

    def _optimize_functions(self, ll_module: ModuleRef) -> None:
        """As a whole, when it is final."""
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Without what makes loops longer: the whole is optimised once more, and what is longer then takes longer."""
        options = llvm.create_pipeline_tuning_options(speed_level=_INNER_LEVEL)
        options.loop_unrolling = options.loop_vectorization = options.slp_vectorization = False
        builder = llvm.create_pass_builder(self._codegen._tm, options)
        builder.getModulePassManager().run(self._final_module, builder)

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._optimize_final_module()
        self._finalize_dynamic_globals()
        self._finalized = True

    def names(self) -> list[str]:
        """The functions that it defines."""
        return [function.name for function in self._final_module.functions if not function.is_declaration]

    def own_module(self) -> ModuleRef:
        """Its code alone, as ordinary functions: those that Numba marks as shared are left out where nothing linked so
        far calls them, though what is linked later may."""
        self._ensure_finalized()
        return self._final_module

    def _get_module_for_linking(self) -> ModuleRef:
        """For a library of Numba's own kind, which links no others than those that it is given: all that is called."""
        whole = self.own_module().clone()
        for library in _with_their_own(self._linking_libraries):
            if isinstance(library, InnerLibrary):
                whole.link_in(library.own_module(), preserve=True)
            else:
                whole.link_in(library._get_module_for_linking(), preserve=True)
        for function in whole.functions:
            if not function.is_declaration:
                function.linkage = "linkonce_odr"  # another inner function may bring it too
        return whole

    def get_pointer_to_function(self, name: str) -> int:
        """0, as of every function that Python cannot call."""
        return 0


class _Own:
    """An inner library as an outer one links it: its code alone, for the outer one links those that it calls too."""

    def __init__(self, library: InnerLibrary):
        self.library = library

    def __getattr__(self, name: str) -> object:
        return getattr(self.library, name)

    def _get_module_for_linking(self) -> ModuleRef:
        return self.library.own_module()


class OuterLibrary(KeptLibrary):
    """The machine code of a function that Python calls, and of all that it calls."""

    def finalize(self) -> None:
        whole = _with_their_own(self._linking_libraries)
        self._linking_libraries = [_Own(each) if isinstance(each, InnerLibrary) else each for each in whole]
        super().finalize()

    def _optimize_final_module(self) -> None:
        """What was linked is nobody else's: where all calls are inlined, nothing of it is left."""
        linked = [each.library for each in self._linking_libraries if isinstance(each, _Own)]
        inner = {name for library in linked for name in library.names()}
        for function in self._final_module.functions:
            if function.name in inner:
                function.linkage = "internal"
        super()._optimize_final_module()


def _with_their_own(libraries: Iterable[CodeLibrary]) -> Iterable[CodeLibrary]:
    """``libraries`` and those that their intermediate code calls, each once."""
    seen, waiting = set(), list(libraries)
    while waiting:
        library = waiting.pop(0)
        if library in seen:
            continue
        seen.add(library)
        yield library
        if isinstance(library, InnerLibrary):
            waiting.extend(library._linking_libraries)


class _Compiler(Compiler):
    """Numba's own passes, into a library of the given kind."""

    kind: type[JITCodeLibrary]
    #: The pass to LLVM's code, but for functions that count references.
    lowering: type[NativeLowering]

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        options = Options(flags)
        super().__init__(remembering(typingctx, options), targetctx, library, args, return_type, options, locals)

    def compile_extra(self, function: Callable) -> object:
        self.state.library = self.kind(self.state.targetctx.codegen(), function.__qualname__)
        self.state.library.enable_object_caching()
        collecting = gc.isenabled()
        gc.disable()  # the code of hundreds of functions lives until the last is compiled: looking through it frees nothing
        try:
            return super().compile_extra(function)
        finally:
            if collecting:
                gc.enable()

    def define_pipelines(self) -> list[PassManager]:
        built = DefaultPassBuilder.define_nopython_pipeline(self.state)
        return [shorter(built, None if self.state.flags.nrt else self.lowering)]


class InnerCompiler(_Compiler):
    """For functions that only compiled functions call."""

    kind, lowering = InnerLibrary, InnerLowering


class OuterCompiler(_Compiler):
    """For functions that Python calls."""

    kind, lowering = OuterLibrary, LeanLowering


class InnerFromStart(InnerCompiler):
    """For inner functions whose indices never count from an array's end, which costs three instructions an index."""

    lowering = FromStartInnerLowering


class OuterFromStart(OuterCompiler):
    """The same for functions that Python calls."""

    lowering = FromStartLowering


def called_as(outer: Dispatcher, inner: Dispatcher) -> Dispatcher:
    """``outer`` for Python, and ``inner``, compiled from the same function, for compiled functions that call it: those
    need neither its wrapper nor its machine code."""
    if not isinstance(outer, Dispatcher):  # NUMBA_DISABLE_JIT: both are the function itself
        return outer
    outer.get_call_template, outer.get_overload = inner.get_call_template, inner.get_overload
    return outer
