"""The attributes of a launch (CUlaunchAttribute), read and checked.

Mental model: what decides results is heeded: cooperative launches, clusters, events. What only decides when a GPU does
something (priority, cache policy, scheduling) is checked and kept, since here a launch has ended before the next one
begins; programmatic serialization is kept for the simulated time, in which the next one may begin before.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from ctypes import c_int
from dataclasses import dataclass, field

from gpusim.driver.abi import INVALID_VALUE, NOT_SUPPORTED, DriverError
from gpusim.driver.structures import LaunchConfig

ATTRIBUTE_BYTES = 72  # sizeof(CUlaunchAttribute): number, padding, a union of 64 bytes
VALUE_BYTES = 64
# CUlaunchAttributeID
(
    IGNORE, ACCESS_POLICY, COOPERATIVE, SYNCHRONIZATION, CLUSTER, CLUSTER_POLICY, SERIALIZATION, PROGRAMMATIC_EVENT, PRIORITY,
    SYNC_DOMAIN_MAP, SYNC_DOMAIN, PREFERRED_CLUSTER, COMPLETION_EVENT, UPDATABLE_NODE, CARVEOUT,
) = range(15)  # fmt: skip
_MOST_KNOWN = 18
#: What cuGraphKernelNodeGetAttribute knows, with the bytes of each value.
NODE_ATTRIBUTES = {
    ACCESS_POLICY: 32, COOPERATIVE: 4, CLUSTER: 12, CLUSTER_POLICY: 4, PRIORITY: 4, SYNC_DOMAIN_MAP: 2, SYNC_DOMAIN: 4,
    PREFERRED_CLUSTER: 12, CARVEOUT: 4,
}  # fmt: skip


@dataclass(frozen=True)
class LaunchOptions:
    """``cluster``: its blocks in x, y, z, None where the launch does not say; ``events``: handles to be recorded with
    the launch; ``values``: bytes of every attribute that was given, by CUlaunchAttributeID."""

    cooperative: bool = False
    cluster: tuple[int, int, int] | None = None
    events: tuple[int, ...] = ()
    values: dict[int, bytes] = field(default_factory=dict)


def options_of(values: dict[int, bytes]) -> LaunchOptions:
    """The options that these attributes say; raises DriverError for one that is unknown or wrong."""
    cooperative, cluster, events = False, None, []
    for kind, value in values.items():
        words = [int.from_bytes(value[i : i + 4].ljust(4, b"\0"), "little") for i in (0, 4, 8)]
        if not 0 <= kind < _MOST_KNOWN:
            raise DriverError(INVALID_VALUE, f"launch attribute {kind} is not known")
        if kind == UPDATABLE_NODE and words[0]:
            raise DriverError(NOT_SUPPORTED, "kernel nodes that a kernel updates are not emulated")
        if kind == COOPERATIVE:
            cooperative = bool(words[0])
        elif kind == CLUSTER:
            cluster = words[0], words[1], words[2]
            if not all(cluster):
                raise DriverError(INVALID_VALUE, f"a cluster of {cluster} blocks")
        elif kind in (PROGRAMMATIC_EVENT, COMPLETION_EVENT):
            events.append(int.from_bytes(value[:8], "little"))
    return LaunchOptions(cooperative, cluster, tuple(events), values)


def options_at(config: LaunchConfig) -> LaunchOptions:
    """The options of a CUlaunchConfig; raises DriverError."""
    if config.attribute_count and not config.attributes:
        raise DriverError(INVALID_VALUE, "the launch's attributes are null")
    return options_of(dict(_read(config)))


def _read(config: LaunchConfig) -> Iterable[tuple[int, bytes]]:
    for i in range(config.attribute_count):
        place = config.attributes + i * ATTRIBUTE_BYTES
        kind = c_int.from_address(place).value
        if kind != IGNORE:
            yield kind, ctypes.string_at(place + 8, VALUE_BYTES)
