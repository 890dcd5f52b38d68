"""Nodes of graphs whose parameters the runtime describes otherwise than the driver.

Mental model: a kernel is named by its host function, a copy by cudaMemcpy3DParms; both become the driver's structures
and go to the driver's functions. Everything else of graphs is the driver's under another name
(:mod:`gpusim.cudart.same`).
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int, c_size_t, c_uint

from gpusim.cudart.box_copies import RuntimeBoxCopies, copy_of
from gpusim.cudart.errors import INVALID_VALUE
from gpusim.cudart.registration import Registration
from gpusim.cudart.state import State
from gpusim.cudart.structures import Copy3D
from gpusim.driver.abi import HOST, WORD, WORD_OUT, DriverError, entry, structure_at
from gpusim.driver.structures import KERNEL_NODE_V1_BYTES, CopyNode, KernelNode, NodeParameters
from gpusim.driver.structures import Copy3D as Box
from gpusim.driver.work import ALLOCATE, CONDITIONAL, COPY, KERNEL

_ADD = (WORD_OUT, WORD, HOST, c_size_t)  # node, graph, what it waits for, of how many nodes
_LINEAR = (HOST, HOST, c_size_t, c_int)  # target, source, bytes, direction
_SYMBOL = (HOST, HOST, c_size_t, c_size_t, c_int)  # target, source, bytes, offset in the variable, direction
_NO_CONTEXT = 0


class GraphNodes:
    """Entry points cudaGraphAdd*Node, cudaGraph*Node*Params and cudaGraphExec*SetParams of kernels, copies and
    fills."""

    def __init__(self, state: State, code: Registration, boxes: RuntimeBoxCopies):
        self._state, self._code, self._boxes = state, code, boxes

    # ---- kernels -----------------------------------------------------------------------------

    def _kernel(self, parameters: int):
        """cudaKernelNodeParams is CUDA_KERNEL_NODE_PARAMS but for the function."""
        self._state.ready()
        if not parameters:
            raise DriverError(INVALID_VALUE, "a pointer to cudaKernelNodeParams is null")
        made = (KernelNode * 1)()
        ctypes.memmove(made, parameters, KERNEL_NODE_V1_BYTES)
        made[0].function = self._code.kernel(made[0].function)
        return ctypes.addressof(made), made

    @entry("cudaGraphAddKernelNode", arguments=(*_ADD, HOST))
    def add_kernel(self, out, graph: int, before: int, count: int, parameters: int) -> None:
        address, _made = self._kernel(parameters)
        self._state.call("cuGraphAddKernelNode_v2", out, graph, before, count, address)

    @entry("cudaGraphKernelNodeGetParams", arguments=(WORD, HOST))
    def kernel(self, node: int, out: int) -> None:
        self._state.call("cuGraphKernelNodeGetParams", node, out)
        found = ctypes.c_uint64.from_address(out)
        found.value = self._code.host_function(found.value)

    @entry("cudaGraphKernelNodeSetParams", arguments=(WORD, HOST))
    def set_kernel(self, node: int, parameters: int) -> None:
        address, _made = self._kernel(parameters)
        self._state.call("cuGraphKernelNodeSetParams_v2", node, address)

    @entry("cudaGraphExecKernelNodeSetParams", arguments=(WORD, WORD, HOST))
    def set_run_kernel(self, executable: int, node: int, parameters: int) -> None:
        address, _made = self._kernel(parameters)
        self._state.call("cuGraphExecKernelNodeSetParams_v2", executable, node, address)

    # ---- copies ------------------------------------------------------------------------------

    def _add_copy(self, out, graph: int, before: int, count: int, copy: Copy3D) -> None:
        box = (Box * 1)(self._boxes.box(copy))
        self._state.call("cuGraphAddMemcpyNode", out, graph, before, count, ctypes.addressof(box), _NO_CONTEXT)

    def _set_copy(self, node: int, copy: Copy3D) -> None:
        box = (Box * 1)(self._boxes.box(copy))
        self._state.call("cuGraphMemcpyNodeSetParams", node, ctypes.addressof(box))

    def _set_run_copy(self, executable: int, node: int, copy: Copy3D) -> None:
        box = (Box * 1)(self._boxes.box(copy))
        self._state.call("cuGraphExecMemcpyNodeSetParams", executable, node, ctypes.addressof(box), _NO_CONTEXT)

    def _to_symbol(self, symbol: int, source: int, size: int, offset: int, kind: int) -> Copy3D:
        return copy_of(self._code.inside_variable(symbol, offset, size), source, size, kind)

    def _from_symbol(self, target: int, symbol: int, size: int, offset: int, kind: int) -> Copy3D:
        return copy_of(target, self._code.inside_variable(symbol, offset, size), size, kind)

    @entry("cudaGraphAddMemcpyNode", arguments=(*_ADD, HOST))
    def add_copy(self, out, graph: int, before: int, count: int, given: int) -> None:
        self._add_copy(out, graph, before, count, structure_at(Copy3D, given))

    @entry("cudaGraphAddMemcpyNode1D", arguments=(*_ADD, *_LINEAR))
    def add_linear(self, out, graph: int, before: int, count: int, *copy: int) -> None:
        self._add_copy(out, graph, before, count, copy_of(*copy))

    @entry("cudaGraphAddMemcpyNodeToSymbol", arguments=(*_ADD, *_SYMBOL))
    def add_to_symbol(self, out, graph: int, before: int, count: int, *copy: int) -> None:
        self._add_copy(out, graph, before, count, self._to_symbol(*copy))

    @entry("cudaGraphAddMemcpyNodeFromSymbol", arguments=(*_ADD, *_SYMBOL))
    def add_from_symbol(self, out, graph: int, before: int, count: int, *copy: int) -> None:
        self._add_copy(out, graph, before, count, self._from_symbol(*copy))

    @entry("cudaGraphMemcpyNodeGetParams", arguments=(WORD, POINTER(Copy3D)))
    def copy(self, node: int, out) -> None:
        if not out:
            raise DriverError(INVALID_VALUE, "a pointer for a result is null")
        box = (Box * 1)()
        self._state.call("cuGraphMemcpyNodeGetParams", node, ctypes.addressof(box))
        out[0] = self._boxes.described(box[0])

    @entry("cudaGraphMemcpyNodeSetParams", arguments=(WORD, HOST))
    def set_copy(self, node: int, given: int) -> None:
        self._set_copy(node, structure_at(Copy3D, given))

    @entry("cudaGraphMemcpyNodeSetParams1D", arguments=(WORD, *_LINEAR))
    def set_linear(self, node: int, *copy: int) -> None:
        self._set_copy(node, copy_of(*copy))

    @entry("cudaGraphMemcpyNodeSetParamsToSymbol", arguments=(WORD, *_SYMBOL))
    def set_to_symbol(self, node: int, *copy: int) -> None:
        self._set_copy(node, self._to_symbol(*copy))

    @entry("cudaGraphMemcpyNodeSetParamsFromSymbol", arguments=(WORD, *_SYMBOL))
    def set_from_symbol(self, node: int, *copy: int) -> None:
        self._set_copy(node, self._from_symbol(*copy))

    @entry("cudaGraphExecMemcpyNodeSetParams", arguments=(WORD, WORD, HOST))
    def set_run_copy(self, executable: int, node: int, given: int) -> None:
        self._set_run_copy(executable, node, structure_at(Copy3D, given))

    @entry("cudaGraphExecMemcpyNodeSetParams1D", arguments=(WORD, WORD, *_LINEAR))
    def set_run_linear(self, executable: int, node: int, *copy: int) -> None:
        self._set_run_copy(executable, node, copy_of(*copy))

    @entry("cudaGraphExecMemcpyNodeSetParamsToSymbol", arguments=(WORD, WORD, *_SYMBOL))
    def set_run_to_symbol(self, executable: int, node: int, *copy: int) -> None:
        self._set_run_copy(executable, node, self._to_symbol(*copy))

    @entry("cudaGraphExecMemcpyNodeSetParamsFromSymbol", arguments=(WORD, WORD, *_SYMBOL))
    def set_run_from_symbol(self, executable: int, node: int, *copy: int) -> None:
        self._set_run_copy(executable, node, self._from_symbol(*copy))

    # ---- fills -------------------------------------------------------------------------------

    @entry("cudaGraphAddMemsetNode", arguments=(*_ADD, HOST))
    def add_fill(self, out, graph: int, before: int, count: int, parameters: int) -> None:
        self._state.call("cuGraphAddMemsetNode", out, graph, before, count, parameters, _NO_CONTEXT)

    @entry("cudaGraphExecMemsetNodeSetParams", arguments=(WORD, WORD, HOST))
    def set_run_fill(self, executable: int, node: int, parameters: int) -> None:
        self._state.call("cuGraphExecMemsetNodeSetParams", executable, node, parameters, _NO_CONTEXT)

    # ---- nodes of any kind -------------------------------------------------------------------

    def _any(self, given: int):
        """cudaGraphNodeParams as CUgraphNodeParams."""
        self._state.ready()
        made = (NodeParameters * 1)(NodeParameters.from_buffer_copy(structure_at(NodeParameters, given)))
        body = ctypes.addressof(made) + NodeParameters.body.offset
        if made[0].type == KERNEL:
            function = ctypes.c_uint64.from_address(body)
            function.value = self._code.kernel(function.value)
        elif made[0].type == COPY:
            place = given + NodeParameters.body.offset + CopyNode.copy.offset
            box = self._boxes.box(Copy3D.from_address(place))
            CopyNode.from_address(body).copy = box
        return made

    def _tell(self, made, given: int) -> None:
        """Write back where an allocation lies, or the graphs of a conditional node."""
        if made[0].type in (ALLOCATE, CONDITIONAL):
            ctypes.memmove(given, made, ctypes.sizeof(NodeParameters))

    @entry("cudaGraphConditionalHandleCreate", arguments=(WORD_OUT, WORD, c_uint, c_uint))
    def condition(self, out, graph: int, default: int, flags: int) -> None:
        self._state.call("cuGraphConditionalHandleCreate", out, graph, _NO_CONTEXT, default, flags)

    @entry("cudaGraphConditionalHandleCreate_v2", arguments=(WORD_OUT, WORD, WORD, c_uint, c_uint))
    def condition_in_context(self, out, graph: int, context: int, default: int, flags: int) -> None:
        self._state.call("cuGraphConditionalHandleCreate", out, graph, context, default, flags)

    @entry("cudaGraphAddNode", arguments=(*_ADD, HOST))
    def add_any(self, out, graph: int, before: int, count: int, parameters: int) -> None:
        self.add_any_with_edges(out, graph, before, 0, count, parameters)

    @entry("cudaGraphAddNode_v2", arguments=(WORD_OUT, WORD, HOST, HOST, c_size_t, HOST))
    def add_any_with_edges(self, out, graph: int, before: int, edges: int, count: int, parameters: int) -> None:
        made = self._any(parameters)
        self._state.call("cuGraphAddNode_v2", out, graph, before, edges, count, ctypes.addressof(made))
        self._tell(made, parameters)

    @entry("cudaGraphNodeSetParams", arguments=(WORD, HOST))
    def set_any(self, node: int, parameters: int) -> None:
        made = self._any(parameters)
        self._state.call("cuGraphNodeSetParams", node, ctypes.addressof(made))

    @entry("cudaGraphExecNodeSetParams", arguments=(WORD, WORD, HOST))
    def set_run_any(self, executable: int, node: int, parameters: int) -> None:
        made = self._any(parameters)
        self._state.call("cuGraphExecNodeSetParams", executable, node, ctypes.addressof(made))
