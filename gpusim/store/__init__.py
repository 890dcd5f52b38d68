"""Stored runs: simulated launches and measurements, with what they were made by.

The names are loaded when they are first asked for: most commands keep nothing, and SQLAlchemy takes long to load.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpusim.store.hashes import gpu_hash, model_hash, trace_hash
    from gpusim.store.launch import Instruction, SimulatedLaunch, launch_record
    from gpusim.store.run import RunInfo, StoredRun
    from gpusim.store.store import RunWriter, Store, open_store

__all__ = [
    "Instruction",
    "RunInfo",
    "RunWriter",
    "SimulatedLaunch",
    "Store",
    "StoredRun",
    "gpu_hash",
    "launch_record",
    "model_hash",
    "open_store",
    "trace_hash",
]
_MODULES = {
    "hashes": ("gpu_hash", "model_hash", "trace_hash"),
    "launch": ("Instruction", "SimulatedLaunch", "launch_record"),
    "run": ("RunInfo", "StoredRun"),
    "store": ("RunWriter", "Store", "open_store"),
}


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
