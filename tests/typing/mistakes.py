"""Mistakes that a type checker must find before anything runs: each line that ends in ``# wrong`` is one.

``tests/test_typing.py`` checks that pyright finds exactly these; nothing runs it.
"""

from __future__ import annotations

import gpusim

kernel: object = None
memory = gpusim.DeviceMemory()

gpusim.capture(kernel, 1, 32)  # wrong: no arguments
gpusim.capture(kernel, 1.5, 32, ())  # wrong: a grid of a block and a half
gpusim.capture(kernel, 1, 32, (), "h200")  # wrong: what follows args has names
gpusim.capture(kernel, 1, 32, (), gpus="h200")  # wrong: no such parameter
gpusim.capture(kernel, 1, 32, (), shared_bytes="48 KiB")  # wrong: a number of bytes
trace = gpusim.capture(kernel, 1, 32, (), memory=memory)
trace.write("kernel.trace")  # wrong: no such method
gpusim.simulate("kernel.trace")  # wrong: a path is no trace
result = gpusim.simulate(trace, gpu=90)  # wrong: no name and no description
result.cycles = 1  # wrong: results do not change
print(result.cycle)  # wrong: no such attribute
print(result.counters[0])  # wrong: counters have names
print(result.cycles.upper())  # wrong: cycles are a number
gpusim.explain([trace], "h200", result)  # wrong: a description, not its name
gpusim.load_gpu(gpusim.GpuSpec)  # wrong: a name or a path
gpusim.simulat(trace)  # wrong: no such function
error: gpusim.UnknownGpuError = gpusim.UsageError("text")  # wrong: a class above it
