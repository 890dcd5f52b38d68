"""From Numba's intermediate code to LLVM's, in few instructions: variables are values, aggregates stay in parts.

Mental model: Numba gives every variable that two blocks touch a place in memory, an element of an array forty
instructions, and every call a dozen to look at how it went; all but a few are gone once LLVM has optimised them, and
writing them down is what compiling costs. This writes less down of the same meaning. A variable with one assignment is
the value assigned; elements are addressed from parts (:mod:`gpusim.io.jit_values`); a call asks how it went if the
callee can fail at all. What is not met here is left to Numba's own lowering, with values made whole.

Only for functions without reference counting and without ``try``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir as llvm
from numba.core import cgutils, ir, types
from numba.core.analysis import compute_cfg_from_blocks, compute_use_defs
from numba.core.errors import LoweringError, NumbaError, UnsupportedError
from numba.core.lowering import Lower
from numba.core.unsafe import eh
from numba.np import arrayobj

from gpusim.io.jit_calls import InnerCall, declare_inner, result_type_of
from gpusim.io.jit_values import (
    TUPLE,
    ArrayParts,
    PairParts,
    RangeIteration,
    RangeParts,
    TupleParts,
    from_arguments,
    in_parts,
    is_array,
    nested_array,
    whole,
)

#: What has no value at run time.
_NO_VALUE = (types.Function, types.Dispatcher, types.Module, types.NumberClass, types.NamedTupleClass)
_ARITHMETIC = {
    operator.add: "add", operator.iadd: "add", operator.sub: "sub", operator.isub: "sub", operator.mul: "mul",
    operator.imul: "mul",
}  # fmt: skip
_BITWISE = {
    operator.and_: "and_", operator.iand: "and_", operator.or_: "or_", operator.ior: "or_", operator.xor: "xor",
    operator.ixor: "xor",
}  # fmt: skip
_EXTREMES = {min: "<", max: ">"}
_COMPARISONS = {
    operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
}  # fmt: skip


class LeanLower(Lower):
    """See the module docstring. ``inner``: the function takes its arguments in parts; ``from_start``: none of its
    indices counts from an array's end, but for constants."""

    inner = False
    from_start = False

    # ---- variables

    def init(self) -> None:
        """Which variables are values: those with one assignment, which comes before all that they are used in."""
        blocks = self.blocks
        assigned: dict[str, int] = {}
        several = set()
        for offset, block in blocks.items():
            for statement in block.body:
                if statement.__class__ is ir.Assign:
                    name = statement.target.name
                    if name in assigned:
                        several.add(name)
                    assigned[name] = offset
        for name in several:
            del assigned[name]
        if len(blocks) > 1:
            dominators = compute_cfg_from_blocks(blocks).dominators()
            for offset, names in compute_use_defs(blocks).usemap.items():
                for name in names:
                    home = assigned.get(name)
                    if home is not None and (home >= offset or home not in dominators[offset]):
                        del assigned[name]
        self._singly_assigned_vars = set(assigned)
        self._blk_local_varmap: dict[str, Any] = {}
        self._results: dict[Any, Any] = {}  # by type: where callees leave what they return, read at once
        self._keep_parts = False

    def loadvar(self, name: str) -> Any:
        return whole(self.context, self.builder, self._value(name))

    def _value(self, name: str) -> Any:
        """The variable's value, in parts if it is known so."""
        known = self._blk_local_varmap.get(name)
        return self.builder.load(self.getvar(name)) if known is None else known

    def getvar(self, name: str) -> Any:
        place = self.varmap.get(name)
        if place is None:
            place = self.varmap[name] = self.alloca(name, self.typeof(name))
        return place

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = in_parts(self.context, self.builder, self.typeof(name), value)
        else:
            self.builder.store(whole(self.context, self.builder, value), self.getvar(name))

    def delvar(self, name: str) -> None:
        """Nothing: no references are counted."""

    def _cast(self, value: Any, given: Any, wanted: Any) -> Any:
        if given is wanted or given == wanted:
            return value
        return self.context.cast(self.builder, whole(self.context, self.builder, value), given, wanted)

    # ---- functions and blocks

    def setup_function(self, fndesc: Any) -> None:
        if not self.inner:
            super().setup_function(fndesc)
            return
        self.function = declare_inner(self.context, self.module, fndesc)
        self.entry_block = self.function.append_basic_block("entry")
        self.builder = llvm.IRBuilder(self.entry_block)
        self.call_helper = self.call_conv.init_call_helper(self.builder)

    def extract_function_arguments(self) -> list[Any]:
        if not self.inner:
            return super().extract_function_arguments()
        words = iter(self.function.args[2:])
        self.fnargs = [from_arguments(self.context, self.builder, each, words) for each in self.fndesc.argtypes]
        return self.fnargs

    def lower_block(self, block: ir.Block) -> None:
        self._cur_ir_block = block
        statement = None
        try:
            for statement in block.body:
                self.loc = statement.loc
                self.lower_inst(statement)
        except NumbaError:
            raise
        except Exception as error:
            raise LoweringError(f'lowering "{statement}": {type(error).__name__}: {error}', self.loc) from error

    def lower_inst(self, inst: Any) -> None:
        kind = inst.__class__
        if kind is ir.Assign:
            name = self._target = inst.target.name
            self.storevar(self.lower_assign(self.typeof(name), inst), name)
        elif kind is ir.Del:
            pass
        elif kind is ir.SetItem:
            if not self._set_element(inst, inst.index):
                super().lower_inst(inst)
        elif kind is ir.StaticSetItem:
            if not self._set_element(inst, inst.index_var):
                super().lower_inst(inst)
        elif kind is ir.Branch and self.typeof(inst.cond.name) == types.boolean:
            self.builder.cbranch(self._value(inst.cond.name), self.blkmap[inst.truebr], self.blkmap[inst.falsebr])
        elif kind is ir.Return and self.inner and isinstance(self.fndesc.restype, types.Optional):
            raise UnsupportedError("an inner function returns a value, or none, but not either", self.loc)
        else:
            super().lower_inst(inst)

    # ---- values

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        value = inst.value
        kind = value.__class__
        if kind is ir.Expr:
            return self.lower_expr(ty, value)
        if kind is ir.Var:
            return self._cast(self._value(value.name), self.typeof(value.name), ty)
        if kind is ir.Arg:
            given = self.typeof("arg." + value.name)
            if not isinstance(given, types.Omitted):
                return self._cast(self.fnargs[value.index], given, ty)
        elif value.value is eh.exception_check:
            raise UnsupportedError("functions compiled without reference counting take no `try`", self.loc)
        elif isinstance(ty, _NO_VALUE):
            return self.context.get_dummy_value()
        return super().lower_assign(ty, inst)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        shorter = getattr(self, f"_short_{expr.op}", None)
        if shorter is not None:
            value = shorter(resty, expr)
            if value is not None:
                return value
        return super().lower_expr(resty, expr)

    def _short_getattr(self, resty: Any, expr: Any) -> Any:
        if isinstance(resty, _NO_VALUE):
            return self.context.get_dummy_value()
        given = self.typeof(expr.value.name)
        if isinstance(given, types.BaseNamedTuple):
            named: Any = given
            return self._item(given, expr.value.name, named.fields.index(expr.attr), resty)
        if is_array(given) and expr.attr == "shape":
            array = in_parts(self.context, self.builder, given, self._value(expr.value.name))
            return TupleParts(resty, list(array.shape))
        if isinstance(given, types.Record) and isinstance(resty, types.NestedArray):
            kind = self.context.get_data_type(resty.dtype)
            record = self._value(expr.value.name)
            return nested_array(resty, cgutils.get_record_member(self.builder, record, given.offset(expr.attr), kind))
        return None

    def _item(self, given: Any, name: str, index: int, resty: Any) -> Any:
        """Item ``index`` of the tuple in variable ``name``."""
        value = self._value(name)
        item = value.items[index] if isinstance(value, TupleParts) else self.builder.extract_value(value, index)
        return self._cast(item, given[index], resty)

    def _short_build_tuple(self, resty: Any, expr: Any) -> Any:
        if not isinstance(resty, TUPLE) or not len(resty):
            return None
        items = [
            self._cast(self._value(item.name), self.typeof(item.name), wanted)
            for item, wanted in zip(expr.items, resty, strict=True)
        ]
        return TupleParts(resty, items)

    def _short_exhaust_iter(self, resty: Any, expr: Any) -> Any:
        given = self.typeof(expr.value.name)
        return self._value(expr.value.name) if isinstance(given, TUPLE) and given == resty else None

    def _short_cast(self, resty: Any, expr: Any) -> Any:
        return self._cast(self._value(expr.value.name), self.typeof(expr.value.name), resty)

    def _short_binop(self, resty: Any, expr: Any) -> Any:
        return self._integer_operation(expr.fn, resty, expr)

    def _short_inplace_binop(self, resty: Any, expr: Any) -> Any:
        return self._integer_operation(expr.immutable_fn, resty, expr)

    def _integer_operation(self, function: Any, resty: Any, expr: Any) -> Any:
        """An operation on two integers of one type, where its result is of that type or a comparison's."""
        signature = self.fndesc.calltypes[expr]
        kind = signature.args[0]
        if not (kind.__class__ is types.Integer and kind == signature.args[1]):
            return None
        builder, result = self.builder, signature.return_type
        if function in _COMPARISONS and result == types.boolean:
            compare = builder.icmp_signed if kind.signed else builder.icmp_unsigned
            made = compare(_COMPARISONS[function], *self._operands(expr, kind))
        elif result != kind:
            return None
        elif function in _ARITHMETIC:
            flags = ["nsw"] if kind.signed else []
            made = getattr(builder, _ARITHMETIC[function])(*self._operands(expr, kind), flags=flags)
        elif function in _BITWISE:
            made = getattr(builder, _BITWISE[function])(*self._operands(expr, kind))
        else:
            return None
        return self._cast(made, result, resty)

    def _operands(self, expr: Any, kind: Any) -> list[Any]:
        return [self._cast(self._value(each.name), self.typeof(each.name), kind) for each in (expr.lhs, expr.rhs)]

    # ---- elements of arrays and tuples

    def _short_static_getitem(self, resty: Any, expr: Any) -> Any:
        given = self.typeof(expr.value.name)
        if isinstance(given, TUPLE) and isinstance(expr.index, int):
            return self._item(given, expr.value.name, range(len(given))[expr.index], resty)
        return None if expr.index_var is None else self._element(resty, expr, expr.index_var)

    def _short_getitem(self, resty: Any, expr: Any) -> Any:
        return self._element(resty, expr, expr.index)

    def _element(self, resty: Any, expr: Any, index: Any) -> Any:
        """An element of an array, or the part of it that an index short of its dimensions names."""
        given = self.typeof(expr.value.name)
        place = self._place(given, expr.value.name, index)
        if place is None:
            return None
        array, pointer, rest = place
        if rest:
            if given.layout != "C" or not is_array(resty) or resty.layout != "C" or resty.dtype != given.dtype:
                return None
            return ArrayParts(resty, pointer, rest, None)
        item = arrayobj.load_item(self.context, self.builder, array.type, pointer)
        return self._cast(item, given.dtype, resty)

    def _set_element(self, inst: Any, index: Any) -> bool:
        """Store into an element of an array; False if it is anything else."""
        given = self.typeof(inst.target.name)
        if not is_array(given) or not isinstance(given.dtype, (types.Number, types.Boolean)):
            return False
        wanted = self.fndesc.calltypes[inst].args[2]
        if not isinstance(wanted, (types.Number, types.Boolean)):
            return False
        place = self._place(given, inst.target.name, index)
        if place is None or place[2]:
            return False
        value = self._cast(self._value(inst.value.name), self.typeof(inst.value.name), wanted)
        value = self._cast(value, wanted, given.dtype)
        arrayobj.store_item(self.context, self.builder, given, value, place[1])
        return True

    def _place(self, given: Any, name: str, index: Any) -> tuple[ArrayParts, Any, list[Any]] | None:
        """(array, address, shape that remains) of what the variable ``index`` names of the array in ``name``."""
        if not is_array(given) or self.context.enable_boundscheck:
            return None
        kind = self.typeof(index.name)
        kinds = list(kind) if isinstance(kind, TUPLE) else [kind]
        if not kinds or len(kinds) > given.ndim or not all(isinstance(each, types.Integer) for each in kinds):
            return None
        if given.layout != "C" and (given.layout == "F" or len(kinds) < given.ndim):
            return None
        builder = self.builder
        array = in_parts(self.context, builder, given, self._value(name))
        if isinstance(kind, TUPLE):
            parts = in_parts(self.context, builder, kind, self._value(index.name)).items
        else:
            parts = [self._value(index.name)]
        places = [self._axis(*each) for each in zip(kinds, parts, array.shape, strict=False)]
        if array.strides is not None:
            offset: Any = None
            for at, stride in zip(places, array.strides, strict=True):
                step = builder.mul(at, stride)
                offset = step if offset is None else builder.add(offset, step)
            return array, cgutils.pointer_add(builder, array.data, offset), []
        offset = places[0]
        for axis in range(1, given.ndim):
            offset = builder.mul(offset, array.shape[axis])
            if axis < len(places):
                offset = builder.add(offset, places[axis])
        return array, builder.gep(array.data, [offset]), array.shape[len(places) :]

    def _axis(self, kind: Any, value: Any, length: Any) -> Any:
        """An index as it counts from the start: one below zero counts from the end."""
        if isinstance(value, llvm.Constant) and isinstance(value.constant, int):
            at = llvm.IntType(64)(value.constant)
            return at if value.constant >= 0 else self.builder.add(length, at)
        if not kind.signed:
            return self.context.cast(self.builder, value, kind, types.uintp)
        if self.from_start:
            return self.context.cast(self.builder, value, kind, types.intp)
        at = self.context.cast(self.builder, value, kind, types.intp)
        below = self.builder.icmp_signed("<", at, at.type(0))
        return self.builder.select(below, self.builder.add(at, length), at)

    # ---- calls

    def _short_call(self, resty: Any, expr: Any) -> Any:
        signature = self.fndesc.calltypes[expr]
        kind = self.typeof(expr.func.name)
        if isinstance(kind, types.RecursiveCall):
            raise UnsupportedError("functions compiled without reference counting do not call themselves", self.loc)
        if isinstance(kind, types.Dispatcher):
            call = self.context.get_function(kind, signature)._imp
            if isinstance(call, InnerCall):
                return self._cast(self._call_inner(call, kind, signature, expr), signature.return_type, resty)
        elif not isinstance(kind, types.Function) or expr.kws or expr.vararg:
            return None
        elif kind.typing_key in _EXTREMES and isinstance(signature.return_type, types.Integer):
            if all(each == signature.return_type for each in signature.args):
                return self._cast(self._extreme(kind.typing_key, expr.args, signature), signature.return_type, resty)
        elif kind.typing_key is range:
            return self._range(resty, expr, signature)
        elif len(expr.args) == 1:
            given = self.typeof(expr.args[0].name)
            if kind.typing_key is bool and given == types.boolean and resty == types.boolean:
                return self._value(expr.args[0].name)
            if kind.typing_key is len and is_array(given):
                array = in_parts(self.context, self.builder, given, self._value(expr.args[0].name))
                return self._cast(array.shape[0], types.intp, resty)
        return None

    # ---- loops over ranges

    def _range(self, resty: Any, expr: Any, signature: Any) -> RangeParts | None:
        """A range whose step is a constant above zero."""
        kind = resty.dtype
        if not kind.signed or self._target not in self._singly_assigned_vars:
            return None
        values = [self._cast(self._value(each.name), self.typeof(each.name), kind) for each in expr.args]
        word = self.context.get_value_type(kind)
        start, stop, step = [word(0), *values, word(1)] if len(values) == 1 else [*values, word(1)][:3]
        constant = isinstance(step, llvm.Constant) and isinstance(step.constant, int) and step.constant > 0
        return RangeParts(resty, start, stop, step) if constant else None

    def _short_getiter(self, resty: Any, expr: Any) -> RangeIteration | None:
        given = self._value(expr.value.name)
        if not isinstance(given, RangeParts) or self._target not in self._singly_assigned_vars:
            return None
        start, stop, step = given.items
        builder: Any = self.builder
        length = builder.sub(stop, start)
        count = length
        if step.constant > 1:
            count = builder.sdiv(builder.add(length, step.type(step.constant - 1)), step)
        count = builder.select(builder.icmp_signed(">", length, length.type(0)), count, count.type(0))
        with builder.goto_entry_block():
            following, left = builder.alloca(start.type), builder.alloca(start.type)
        builder.store(start, following)
        builder.store(count, left)
        return RangeIteration(following, left, step)

    def _short_iternext(self, resty: Any, expr: Any) -> PairParts | None:
        """The next value; past the end a loop is left, so what is written then does not matter."""
        given = self._value(expr.value.name)
        if not isinstance(given, RangeIteration):
            return None
        builder: Any = self.builder
        left, value = builder.load(given.left), builder.load(given.next)
        builder.store(builder.sub(left, left.type(1), flags=["nsw"]), given.left)
        builder.store(builder.add(value, given.step), given.next)
        return PairParts(resty, value, builder.icmp_signed(">", left, left.type(0)))

    def _short_pair_first(self, resty: Any, expr: Any) -> Any:
        pair = self._value(expr.value.name)
        return pair.items[0] if isinstance(pair, PairParts) else None

    def _short_pair_second(self, resty: Any, expr: Any) -> Any:
        pair = self._value(expr.value.name)
        return pair.items[1] if isinstance(pair, PairParts) else None

    def _extreme(self, function: Any, variables: Any, signature: Any) -> Any:
        """The least or greatest of integers of one type: of equal ones the first."""
        kind = signature.return_type
        values = [self._cast(self._value(each.name), self.typeof(each.name), kind) for each in variables]
        compare = self.builder.icmp_signed if kind.signed else self.builder.icmp_unsigned
        best = values[0]
        for value in values[1:]:
            best = self.builder.select(compare(_EXTREMES[function], value, best), value, best)
        return best

    def _call_inner(self, call: InnerCall, kind: Any, signature: Any, expr: Any) -> Any:
        self._keep_parts = True
        values = self.fold_call_args(kind, signature, expr.args, expr.vararg, expr.kws)
        self._keep_parts = False
        function = declare_inner(self.context, self.module, call.description)
        result_type = result_type_of(function)
        if result_type not in self._results:
            with self.builder.goto_entry_block():
                self._results[result_type] = self.builder.alloca(result_type)
        self.context.add_linking_libs(call.libs)
        return call.emit(self.context, self.builder, function, values, self._results[result_type])

    def _cast_var(self, var: Any, ty: Any) -> Any:
        if self._keep_parts and isinstance(var, ir.Var):
            return self._cast(self._value(var.name), self.typeof(var.name), ty)
        return super()._cast_var(var, ty)


#: What :func:`never_inlined` was told: function -> LLVM's attributes.
_CALLED: dict[Callable, tuple[str, ...]] = {}


def never_inlined(function: Callable, *, seldom: bool) -> Callable:
    """Have LLVM call ``function``, an inner one to be, wherever it is called; ``seldom``: its size matters, not its
    speed."""
    _CALLED[function] = ("noinline", "cold", "optsize") if seldom else ("noinline",)
    return function


class FromStartLower(LeanLower):
    """For functions whose indices count from the start."""

    from_start = True


class LeanInnerLower(LeanLower):
    """For inner functions."""

    inner = True

    def setup_function(self, fndesc: Any) -> None:
        super().setup_function(fndesc)
        for attribute in _CALLED.get(self.func_ir.func_id.func, ()):
            self.function.attributes.add(attribute)


class FromStartInnerLower(LeanInnerLower):
    """For inner functions whose indices count from the start."""

    from_start = True
