"""Structures of driver_types.h that more than one part of the runtime reads."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t

from gpusim.driver.abi import WORD


class ChannelFormat(ctypes.Structure):
    """cudaChannelFormatDesc: bits of each channel; ``kind``: signed, unsigned, float."""

    _fields_ = [("x", c_int), ("y", c_int), ("z", c_int), ("w", c_int), ("kind", c_int)]


class PitchedPointer(ctypes.Structure):
    """cudaPitchedPtr, passed by value."""

    _fields_ = [("address", WORD), ("pitch", c_size_t), ("width", c_size_t), ("height", c_size_t)]


class Extent(ctypes.Structure):
    """cudaExtent, passed by value: bytes (elements of an array), rows, slices."""

    _fields_ = [("width", c_size_t), ("height", c_size_t), ("depth", c_size_t)]


class Position(ctypes.Structure):
    """cudaPos."""

    _fields_ = [("x", c_size_t), ("y", c_size_t), ("z", c_size_t)]


class Copy3D(ctypes.Structure):
    """cudaMemcpy3DParms."""

    _fields_ = [
        ("source_array", WORD), ("source_position", Position), ("source", PitchedPointer),
        ("target_array", WORD), ("target_position", Position), ("target", PitchedPointer),
        ("extent", Extent), ("kind", c_int),
    ]  # fmt: skip


class PeerCopy3D(ctypes.Structure):
    """cudaMemcpy3DPeerParms."""

    _fields_ = [
        ("source_array", WORD), ("source_position", Position), ("source", PitchedPointer), ("source_device", c_int),
        ("target_array", WORD), ("target_position", Position), ("target", PitchedPointer), ("target_device", c_int),
        ("extent", Extent),
    ]  # fmt: skip
