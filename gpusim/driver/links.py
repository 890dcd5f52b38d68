"""Linking by the driver: cuLink*, on nvJitLink."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint
from dataclasses import dataclass, field
from pathlib import Path

from gpusim.driver.abi import (
    FILE_NOT_FOUND,
    HOST,
    INVALID_IMAGE,
    INVALID_VALUE,
    WORD,
    WORD_OUT,
    DriverError,
    Handles,
    entry,
    put,
)
from gpusim.driver.device import Device
from gpusim.driver.jit import INPUTS, JitOptions, link, options_at
from gpusim.isa.architectures import nearest


@dataclass(eq=False)
class LinkState:
    """``parts`` so far, and the cubin that the program was given the address of."""

    options: JitOptions
    parts: list[tuple[int, str, bytes]] = field(default_factory=list)
    cubin: ctypes.Array | None = None


class Links:
    """Entry points cuLink*."""

    def __init__(self, device: Device):
        self._device = device
        self._states = Handles(0x70_0000)

    def reset(self, device: int) -> None:
        """Forget all links under way, which are of no device."""
        self._states.clear()

    @entry("cuLinkCreate", arguments=(c_uint, HOST, HOST, WORD_OUT))
    def create(self, count: int, options: int, values: int, out) -> None:
        put(out, self._states.new(LinkState(options_at(count, options, values))))

    @entry("cuLinkAddData", arguments=(WORD, c_int, HOST, c_size_t, c_char_p, c_uint, HOST, HOST))
    def add_data(
        self, handle: int, kind: int, data: int, size: int, name, count: int, options: int, values: int
    ) -> None:
        if not data or not size:
            raise DriverError(INVALID_VALUE, "there is nothing to link")
        self._add(handle, kind, ctypes.string_at(data, size), name, options_at(count, options, values))

    def _add(self, handle: int, kind: int, content: bytes, name: bytes | None, options: JitOptions) -> None:
        state = self._states.get(handle)
        if kind not in INPUTS:
            raise DriverError(
                INVALID_VALUE, f"CUjitInputType {kind}: cubins, PTX, fat binaries, objects and libraries are linked"
            )
        if state.cubin is not None:
            raise DriverError(INVALID_VALUE, "the link is complete: nothing can be added")
        state.options.flags += options.flags
        state.parts.append((kind, (name or b"<unnamed>").decode(errors="replace"), content))

    @entry("cuLinkAddFile", arguments=(WORD, c_int, c_char_p, c_uint, HOST, HOST))
    def add_file(self, handle: int, kind: int, path: bytes, count: int, options: int, values: int) -> None:
        self._states.get(handle)
        try:
            content = Path(path.decode()).read_bytes()
        except OSError as error:
            raise DriverError(FILE_NOT_FOUND, f"{path.decode()}: {error.strerror}") from None
        self._add(handle, kind, content, path, options_at(count, options, values))

    @entry("cuLinkComplete", arguments=(WORD, WORD_OUT, POINTER(c_size_t)))
    def complete(self, handle: int, out, size_out) -> None:
        state = self._states.get(handle)
        if not state.parts:
            raise DriverError(INVALID_IMAGE, "there is nothing to link")
        if state.cubin is None:
            cubin = link(state.parts, nearest(self._device.spec.capability).target, state.options)
            state.cubin = ctypes.create_string_buffer(cubin, len(cubin))
        put(out, ctypes.addressof(state.cubin))
        if size_out:
            size_out[0] = len(state.cubin)

    @entry("cuLinkDestroy", arguments=(WORD,))
    def destroy(self, handle: int) -> None:
        self._states.remove(handle)
