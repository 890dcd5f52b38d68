"""Numba's passes as functions without reference counting need them.

Mental model: each of Numba's passes over the code of a function ends by working out anew where every variable lives and
dies, which only reference counting and generators ask for: a tenth of the compilation. These are the same passes
without.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

from numba.core.compiler import _LowerResult
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.funcdesc import PythonFunctionDescriptor, default_mangler
from numba.core.ir_utils import build_definitions
from numba.core.lowering import Lower
from numba.core.rewrites.registry import rewrite_registry
from numba.core.ssa import reconstruct_ssa
from numba.core.typed_passes import IRLegalization, NativeLowering, NopythonRewrites, PreLowerStripPhis
from numba.core.untyped_passes import GenericRewrites, ReconstructSSA

from gpusim.io.jit_calls import InnerCall, can_fail
from gpusim.io.jit_lowering import FromStartInnerLower, FromStartLower, LeanInnerLower, LeanLower

#: Numba's passes for ``with``, functions inside functions, ``raise`` with arguments that are not constants,
#: ``inline="always"`` and the literal_unroll and literally functions.
_NEVER_USED = {
    "WithLifting",
    "InlineClosureLikes",
    "RewriteDynamicRaises",
    "MakeFunctionToJitFunction",
    "InlineInlinables",
    "FindLiterallyCalls",
    "LiteralUnroll",
    "LiteralPropagationSubPipelinePass",
    "InlineOverloads",
}


class _Rewrites(GenericRewrites):
    """Indices, raised exceptions and the like that are constants."""

    _name = "lean_rewrites"

    def run_pass(self, state: Any) -> Literal[True]:
        for rewrite_class in rewrite_registry.rewrites["before-inference"]:
            rewrite, waiting = rewrite_class(state), list(state.func_ir.blocks.items())
            while waiting:
                offset, block = waiting.pop()
                if rewrite.match(state.func_ir, block, state.typemap, state.calltypes):
                    block = state.func_ir.blocks[offset] = rewrite.apply()
                    waiting.append((offset, block))
        return True


class _Variables(ReconstructSSA):
    """One variable an assignment."""

    _name = "lean_ssa"

    def run_pass(self, state: Any) -> Literal[True]:
        state.func_ir = reconstruct_ssa(state.func_ir)
        self._patch_locals(state)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


class _Assignments(PreLowerStripPhis):
    """Where branches meet, variables are assigned to."""

    _name = "lean_strip_phis"

    def run_pass(self, state: Any) -> Literal[True]:
        state.func_ir = self._strip_phi_nodes(state.func_ir)
        return True


class LeanLowering(NativeLowering):
    """Numba's pass with :class:`LeanLower`."""

    _name = "lean_lowering"

    @property
    def lowering_class(self) -> type[Lower]:
        return LeanLower


class FromStartLowering(LeanLowering):
    """The same with :class:`FromStartLower`."""

    _name = "from_start_lowering"

    @property
    def lowering_class(self) -> type[Lower]:
        return FromStartLower


class InnerLowering(NativeLowering):
    """The same for inner functions, which have neither wrappers nor machine code of their own."""

    _name = "lean_inner_lowering"
    _lower = LeanInnerLower

    def run_pass(self, state: Any) -> Literal[True]:
        context, library, flags = state.targetctx.subtarget(mangler=_short_name), state.library, state.flags
        description = PythonFunctionDescriptor.from_specialized_function(
            state.func_ir,
            state.typemap,
            state.return_type,
            state.calltypes,
            mangler=_short_name,
            inline=flags.forceinline,
            noalias=False,
            abi_tags=[],
        )
        with context.push_code_library(library):
            lower = self._lower(context, library, description, state.func_ir, metadata=state.metadata)
            lower.lower()
        function = context.get_executable(library, description, lower.env)  # Python cannot call it
        call = InnerCall(description, library, can_fail(lower.function))
        context._defns[function].append(call, call.signature)
        state["cr"] = _LowerResult(description, lower.call_helper, cfunc=function, env=lower.env)
        return True


class FromStartInnerLowering(InnerLowering):
    """The same with :class:`FromStartInnerLower`."""

    _name = "from_start_inner_lowering"
    _lower = FromStartInnerLower


def _short_name(name: str, types: tuple, *, abi_tags: tuple = (), uid: int | None = None) -> str:
    """A name of an inner function without the names of its argument types, of which some have thousands of letters."""
    digest = hashlib.sha256(repr(types).encode()).hexdigest()
    return default_mangler(f"{name}.{digest[:16]}", (), abi_tags=abi_tags, uid=uid)


for _each in (
    LeanLowering,
    FromStartLowering,
    InnerLowering,
    FromStartInnerLowering,
    _Rewrites,
    _Variables,
    _Assignments,
):
    register_pass(mutates_CFG=True, analysis_only=False)(_each)

#: What stands in for Numba's pass, or None if nothing need: rewriting expressions on whole arrays, which allocate, and
#: saying where variables die.
_INSTEAD: dict[type, type | None] = {
    GenericRewrites: _Rewrites,
    ReconstructSSA: _Variables,
    PreLowerStripPhis: _Assignments,
    NopythonRewrites: None,
    IRLegalization: None,
}


def shorter(passes: PassManager, lowering: type[NativeLowering] | None) -> PassManager:
    """``passes`` without those that no function here needs; ``lowering`` is the pass to LLVM's code for functions
    without reference counting, None for others."""
    instead = {} if lowering is None else {**_INSTEAD, NativeLowering: lowering}
    made = PassManager(passes.pipeline_name)
    for step, reason in passes.passes:
        step = instead.get(step, step)
        if step is not None and step.__name__ not in _NEVER_USED:
            made.add_pass(step, reason)
    made.finalize()
    return made
