"""Stored runs: simulated launches and measurements, with what they were made by."""

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
