"""NCCL's kernels, and copies and fills of the driver.

Mental model: ``ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)`` says the collective, the operator, the type, the
algorithm and the protocol; before NCCL 2.19 the order is ``ncclKernel_AllReduce_RING_LL_Sum_float``. A kernel that is
not specialised (``ncclDevKernel_Generic``) runs any collective. One that sends to peers is called SendRecv.

Source: NCCL's ``src/device/generate.py`` (2.19 and later), ``src/collectives/device/common.h`` (before).
"""

from __future__ import annotations

from gpusim.production.names.kernel_name import UNKNOWN, KernelName
from gpusim.production.names.split import SplitName, parts_of
from gpusim.production.names.types import SHORT, type_of

_PREFIXES = ("ncclDevKernel_", "ncclKernel_", "ncclSymkDevKernel_", "ncclSymDevKernel_")
_COLLECTIVES = {
    "AllReduce": "all_reduce", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter", "Broadcast": "broadcast",
    "Reduce": "reduce", "SendRecv": "send_recv", "AllToAll": "all_to_all", "Generic": UNKNOWN, "Main": UNKNOWN,
}  # fmt: skip
_COPIES = ("memcpy", "[cuda memcpy")
_FILLS = ("memset", "[cuda memset")
_PLACES = {"htod": "host_to_device", "dtoh": "device_to_host", "dtod": "device_to_device", "ptop": "peer_to_peer", "htoh": "host_to_host",
           "host-to-device": "host_to_device", "device-to-host": "device_to_host", "device-to-device": "device_to_device",
           "peer-to-peer": "peer_to_peer", "dtoa": "device_to_array", "atod": "array_to_device", "h2d": "host_to_device",
           "d2h": "device_to_host", "d2d": "device_to_device", "p2p": "peer_to_peer"}  # fmt: skip


def collective(split: SplitName) -> KernelName | None:
    """A kernel of NCCL."""
    function = split.function
    prefix = next((prefix for prefix in _PREFIXES if function.startswith(prefix)), None)
    if prefix is None:
        return None
    words = function[len(prefix) :].split("_", 12)
    dtype = next((SHORT[word] for word in words[1:] if word in SHORT), UNKNOWN)
    if dtype == UNKNOWN and "int8" in words:
        dtype = "int8"
    way = "_".join(
        word
        for word in words
        if word in ("RING", "TREE", "COLLNET", "DIRECT", "CHAIN", "NVLS", "PAT", "LL", "LL128", "SIMPLE")
    )
    return KernelName(
        "communication", _COLLECTIVES.get(words[0], UNKNOWN), "nccl", dtype=dtype, layout=way.lower() or UNKNOWN,
        function=f"nccl_{words[0]}",
    )  # fmt: skip


def transfer(split: SplitName) -> KernelName | None:
    """``Memcpy DtoH (Device -> Pinned)`` of Kineto, ``[CUDA memcpy Host-to-Device]`` of Nsight Systems."""
    text = split.text[:80].lower()
    if text.startswith(_COPIES):
        words = [text[6:9], *text.strip("[]").split(" ", 6)]  # XLA writes MemcpyD2H
        place = next((_PLACES[word] for word in words if word in _PLACES), UNKNOWN)
        return KernelName("copy", place, "driver", function="memcpy")
    if text.startswith(_FILLS):
        return KernelName("fill", "memset", "driver", function="memset")
    return None


def exchange(split: SplitName) -> KernelName | None:
    """Collectives that are no NCCL's: kernels of frameworks that read peers' memory."""
    name = "".join(parts_of(split.function))
    found = next(
        (operation for word, operation in (
            ("allreduce", "all_reduce"), ("crossdevicereduce", "all_reduce"), ("allgather", "all_gather"),
            ("reducescatter", "reduce_scatter"), ("alltoall", "all_to_all"), ("sendrecv", "send_recv"), ("userbuffers", "userbuffers"),
        ) if word in name), None,
    )  # fmt: skip
    if found is None and (
        {"nvshmem", "deep_ep", "internode", "intranode", "internode_ll", "symmetric_memory"} & set(split.path[:-1])
    ):
        found = "_".join(parts_of(split.function)[:2])
    if found is None:
        return None
    return KernelName("communication", found, dtype=type_of(split.words), function=split.function)
