# tests/contributing/architecture_row.py
from dataclasses import replace

from gpusim.isa.architectures import Architecture, architecture

#: An architecture that does not exist: Hopper's machine code and constant bank, with more shared memory.
SM_95: Architecture = replace(architecture((9, 0)), capability=(9, 5), block_shared_bytes=300 << 10)
