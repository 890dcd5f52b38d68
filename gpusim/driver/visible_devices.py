"""Which devices of the node a program finds: ``CUDA_VISIBLE_DEVICES``, as the driver reads it when it is initialised.

Mental model: the variable is a list of numbers or UUIDs, separated by commas; the devices that it names are there in
its order, numbered from 0. An element that names none ends the list, and one device named twice leaves no device at all
(as PyTorch's ``torch.cuda._parse_visible_devices`` has found the driver to do). Without the variable all devices are
there.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence

from gpusim.driver.device import Device
from gpusim.driver.programs import CHOICE

_UUID_START = "GPU-"
_NUMBER = re.compile(r"[+-]?\d+")  # what strtol would take


def setting() -> str | None:
    """The variable as the C library has it: a program that is not Python may have set it behind Python's back."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype, getenv.argtypes = ctypes.c_char_p, [ctypes.c_char_p]
    found = getenv(CHOICE.encode())
    return None if found is None else found.decode(errors="replace")


def visible(devices: Sequence[Device], wanted: str | None) -> tuple[Device, ...]:
    """Those of ``devices`` that a process with the variable set to ``wanted`` (None: not set) finds, in its order."""
    if wanted is None:
        return tuple(devices)
    found: list[Device] = []
    for part in wanted.split(","):
        device = _named(devices, part.strip())
        if device is None:
            break
        if device in found:
            return ()
        found.append(device)
    return tuple(found)


def uuid_text(device: Device) -> str:
    """As ``nvidia-smi -L`` prints it."""
    text = device.uuid.hex()
    return _UUID_START + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _named(devices: Sequence[Device], name: str) -> Device | None:
    """The one device that ``name`` is the number of, or the start of its UUID."""
    if name.startswith(_UUID_START):
        matching = [device for device in devices if uuid_text(device).startswith(name)]
        return matching[0] if len(matching) == 1 else None
    number = _NUMBER.match(name)
    return devices[int(number[0])] if number and 0 <= int(number[0]) < len(devices) else None
