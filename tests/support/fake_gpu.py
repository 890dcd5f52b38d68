"""A GPU for tests of `gpusim measure`: one stream whose work takes time of its own while the host goes on.

It keeps two clocks, the host's (each call costs ``call_us``) and the stream's; work enqueued starts when the stream is
free or, if it is idle, when it arrives. Events take the stream's time when reached. Memory is bytes; the suite's saxpy
and the helper kernels do what they do on a GPU. It follows the CUDA driver API's documentation (streams, events), not a
GPU.
"""

from __future__ import annotations

import random
import struct

import numpy as np

from gpusim.launch.kernel_launch import KernelLaunch
from gpusim.measure.driver import DeviceFacts


class FakeGpu:
    """``cold_us``, ``warm_us``: saxpy's time after a sweep and otherwise; ``launch_us``: what any launch takes besides;
    ``noise``: relative spread of saxpy's time; ``clock_mhz(us)``: SM clock over time; ``wrong``: saxpy forgets one
    element."""

    def __init__(self, *, cold_us=5.0, warm_us=3.0, launch_us=2.0, call_us=4.0, noise=0.0, wrong=False, seed=1):
        self.cold_us, self.warm_us, self.launch_us, self.call_us = cold_us, warm_us, launch_us, call_us
        self.noise, self.wrong = noise, wrong
        self.clock_mhz = lambda us: 1980.0
        self.reasons: int | None = None
        self.host_us = self.stream_us = 0.0
        self.cupti_problem, self.tracing, self.records = "", False, []
        self.swept = False
        self.memory: dict[int, bytearray] = {}
        self.launched: list[str] = []
        self._random = random.Random(seed)
        self._next = 0x7F0000000000
        self._entries: list[str] = []
        self._bound: list[tuple[int, KernelLaunch]] = []
        self._events: list[float | None] = []

    # ---- time ----
    def _call(self) -> None:
        self.host_us += self.call_us

    def _work(self, us: float) -> None:
        self._call()
        self.stream_us = max(self.stream_us, self.host_us) + us

    def now_seconds(self) -> float:
        return self.host_us / 1e6

    def synchronize(self) -> None:
        self._call()
        self.host_us = max(self.host_us, self.stream_us)

    def event(self) -> int:
        self._events.append(None)
        return len(self._events) - 1

    def record(self, event: int) -> None:
        self._work(0.0)
        self._events[event] = self.stream_us

    def has_passed(self, event: int) -> bool:
        self._call()
        return self._events[event] <= self.host_us

    def elapsed_us(self, start: int, end: int) -> float:
        assert self._events[end] <= self.host_us, "the event has not passed: CUDA_ERROR_NOT_READY"
        return round((self._events[end] - self._events[start]) / 0.032) * 0.032

    def throttle_reasons(self) -> int | None:
        return self.reasons

    # ---- memory ----
    def allocate(self, size: int) -> int:
        address, self._next = self._next, self._next + (size + 511) // 512 * 512 + 512
        self.memory[address] = bytearray(b"\xa5" * size)
        return address

    def free(self, address: int) -> None:
        del self.memory[address]

    def upload(self, address: int, data: np.ndarray) -> None:
        self.synchronize()
        self.memory[address][: data.nbytes] = data.tobytes()

    def download(self, address: int, size: int) -> np.ndarray:
        self.synchronize()
        return np.frombuffer(bytes(self.memory[address][:size]), np.uint8).copy()

    def copy(self, target: int, source: int, size: int) -> None:
        self._work(1.0)
        self.memory[target][:size] = self.memory[source][:size]

    def fill(self, address: int, word: int, words: int) -> None:
        self._work(1.0)
        self.memory[address][: 4 * words] = struct.pack("<I", word) * words

    # ---- kernels ----
    def facts(self) -> DeviceFacts:
        return DeviceFacts(
            "NVIDIA H200", "0123456789abcdef", "580.1, CUDA 13.0", (9, 0), 132, 1 << 16, 1 << 30, 1980000, 3201000
        )

    def load(self, cubin: bytes, entry: str, dynamic_shared_bytes: int) -> int:
        assert cubin.startswith(b"\x7fELF")
        self._entries.append(entry)
        return len(self._entries) - 1

    def bind(self, function: int, launch: KernelLaunch) -> int:
        self._bound.append((function, launch))
        return len(self._bound)

    def launch(self, bound: int) -> None:
        function, launch = self._bound[bound - 1]
        bank, offsets = launch.parameters, [parameter.offset for parameter in launch.image.parameters]
        name = next(n for n in ("saxpy", "spin", "sweep", "clock", "empty") if n in self._entries[function])
        self.launched.append(name)
        before = max(self.stream_us, self.host_us + self.call_us)
        words = [struct.unpack_from("<q", bank, at)[0] if at + 8 <= len(bank) else 0 for at in offsets]
        if name == "saxpy":
            self._saxpy(launch, words)
        elif name == "spin":
            self._work(words[0] / 1e3)
        elif name == "sweep":
            self._work(50.0)
            self.swept = True
        elif name == "clock":
            self._work(200.0)
            cycles = 200 * self.clock_mhz(self.stream_us)  # of the nanoseconds that %globaltimer counts
            self.memory[words[4]][:16] = struct.pack("<qq", 200_000, round(cycles))
        else:
            self._work(self.launch_us)
        if self.tracing:  # a kernel begins when half of what a launch takes has passed, and ends when it has ended
            start, end = before + (self.launch_us / 2 if name in ("saxpy", "empty") else 0), self.stream_us
            end -= self.launch_us / 2 if name in ("saxpy", "empty") else 0
            self.records.append([round(1e3 * start) + 1, round(1e3 * end) + 1, *launch.grid, *launch.block])

    def _saxpy(self, launch: KernelLaunch, words: list[int]) -> None:
        (a,) = struct.unpack_from("<f", launch.parameters, launch.image.parameters[0].offset)
        x, y, out = (np.frombuffer(self.memory[words[i]], np.float32) for i in (5, 12, 19))
        assert not out.any(), "the output was not put back before the launch"
        fused = a * x.astype(np.float64) + y  # rounded once, as the GPU does
        out[: len(out) - self.wrong] = fused[: len(out) - self.wrong]
        us = self.cold_us if self.swept else self.warm_us
        # A long right tail, as kernel times have.
        us *= (
            1
            + self.noise * self._random.expovariate(1.0)
            + (1.0 if self.noise and self._random.random() < 0.02 else 0.0)
        )
        self._work(self.launch_us + us)
        self.swept = False

    def trace(self, on: bool) -> str:
        if not self.cupti_problem:
            self.tracing, self.records = on, []
        return self.cupti_problem

    def traced(self, least: int) -> list[list[int]]:
        assert self.tracing, "nobody traces"
        self.synchronize()
        found, self.records = self.records, []
        return found

    def profile(self, on: bool) -> None:
        self.launched.append("profile on" if on else "profile off")

    def close(self) -> None:
        pass
