"""Triton kernels of the suite, each with a NumPy reference, launches and shape axes, as the entries beside this folder
have them.

Mental model: an entry here is a ``triton.jit`` function; what a launch gives by keyword (warps, stages) is bound by
``functools.partial``, compile-time parameters stand among the arguments, and the block is None, since Triton fixes it
when it compiles. Triton need not be installed to list them.
"""
