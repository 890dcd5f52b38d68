"""Devices and each other's memory: who can reach whose, and who does.

Mental model: all devices are of one node and alike, so that each pair can or none can. A context's kernels reach the
memory of another device's context once the first has enabled access to the second, in this direction; copies need no
access. Memory of pools and of virtual memory management has access rights of its own. Rules and error codes: CUDA
Driver API, "Peer Context Memory Access".
"""

from __future__ import annotations

from ctypes import c_int, c_uint

from gpusim.driver.abi import (
    INT_OUT,
    INVALID_CONTEXT,
    INVALID_DEVICE,
    INVALID_VALUE,
    NOT_SUPPORTED,
    PEER_ACCESS_ALREADY_ENABLED,
    PEER_ACCESS_NOT_ENABLED,
    PEER_ACCESS_UNSUPPORTED,
    UINT_OUT,
    WORD,
    DriverError,
    entry,
    put,
)
from gpusim.driver.contexts import Context, Contexts

# CUdevice_P2PAttribute
_RANK, _ACCESS, _ATOMICS, _ARRAYS, _SOME_ATOMICS = 1, 2, 3, 4, 5


class Peers:
    """Entry points cuDeviceCanAccessPeer, cuDeviceGetP2P* and cuCtxEnable- and DisablePeerAccess."""

    def __init__(self, contexts: Contexts):
        self._contexts = contexts

    def _can(self, one: int, other: int) -> bool:
        devices = self._contexts.device(one), self._contexts.device(other)
        return one != other and all(device.reaches_peers for device in devices)

    @entry("cuDeviceCanAccessPeer", arguments=(INT_OUT, c_int, c_int))
    def can_access(self, out, one: int, other: int) -> None:
        put(out, int(self._can(one, other)))

    # ---- contexts -------------------------------------------------------------------------------

    def _pair(self, handle: int) -> tuple[Context, Context]:
        """The current context and the one of ``handle``; raises DriverError for two that cannot be peers."""
        if not handle:
            raise DriverError(INVALID_CONTEXT, "the peer's context is null")
        here, there = self._contexts.find(0), self._contexts.find(handle)
        if here is there:
            raise DriverError(INVALID_CONTEXT, "a context is no peer of itself")
        return here, there

    @entry("cuCtxEnablePeerAccess", arguments=(WORD, c_uint))
    def enable(self, handle: int, flags: int) -> None:
        if flags:
            raise DriverError(INVALID_VALUE, f"peer access is enabled with flags of 0, not 0x{flags:x}")
        here, there = self._pair(handle)
        if not self._can(here.device, there.device):
            raise DriverError(
                PEER_ACCESS_UNSUPPORTED,
                f"device {here.device} cannot reach the memory of device {there.device} (cuDeviceCanAccessPeer)",
            )
        if there in here.peers:
            raise DriverError(
                PEER_ACCESS_ALREADY_ENABLED, f"device {here.device} has access to the memory of device {there.device}"
            )
        here.peers.append(there)

    @entry("cuCtxDisablePeerAccess", arguments=(WORD,))
    def disable(self, handle: int) -> None:
        here, there = self._pair(handle)
        if there not in here.peers:
            raise DriverError(
                PEER_ACCESS_NOT_ENABLED, f"device {here.device} has no access to the memory of device {there.device}"
            )
        here.peers.remove(there)

    # ---- what lies between two devices ----------------------------------------------------------

    def _check(self, one: int, other: int) -> None:
        for number in (one, other):
            self._contexts.device(number)
        if one == other:
            raise DriverError(INVALID_DEVICE, f"device {one} is no peer of itself")

    @entry("cuDeviceGetP2PAttribute", arguments=(INT_OUT, c_int, c_int, c_int))
    def between(self, out, attribute: int, one: int, other: int) -> None:
        self._check(one, other)
        access = self._can(one, other)
        nvlink = access and self._contexts.device(one).has_nvlink
        values = {
            _RANK: 0,  # all pairs are alike: none performs better than another
            _ACCESS: int(access),
            _ATOMICS: int(nvlink),  # PCIe carries no atomics of a GPU's
            _ARRAYS: int(access),
            _SOME_ATOMICS: 0,
        }
        if attribute not in values:
            raise DriverError(INVALID_VALUE, f"attribute {attribute} of two devices is none of 1 to 5")
        put(out, values[attribute])

    @entry("cuDeviceGetP2PAtomicCapabilities", arguments=(UINT_OUT, INT_OUT, c_uint, c_int, c_int))
    def atomics_between(self, out, operations, count: int, one: int, other: int) -> None:
        self._check(one, other)
        raise DriverError(
            NOT_SUPPORTED,
            "which atomic operations a link carries is not described; cuDeviceGetP2PAttribute says whether it carries any",
        )
