"""Triton in a program: its own driver and launcher, where PyTorch has no GPU.

Mental model: Triton's launcher is C code on the CUDA driver and needs nothing of PyTorch; only its Python class asks
PyTorch for the device once PyTorch is imported. A build of PyTorch for the CPU knows of none. Then the class is told to
ask the driver, as it does where PyTorch is not imported, and to give the CPU as the device on which a program makes its
tensors. Triton's files stay as they are.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_DRIVER, _TESTING, _AUTOTUNER = "triton.backends.nvidia.driver", "triton.testing", "triton.runtime.autotuner"
#: Between two lines that tell which configuration an autotuner tries; the first is told at once.
TOLD_SECONDS = 2.0


class TritonDriver(importlib.abc.MetaPathFinder):
    """Put first on ``sys.meta_path``: what Triton's driver for NVIDIA GPUs defines is adapted as it is imported.
    ``now_ms``: the device's time, which benchmarks are told; ``warn``: told once that it is the emulator's, where
    launches are not simulated; ``say``: told how far an autotuner is."""

    def __init__(
        self, now_ms: Callable[[], float], synchronize: Callable[[], None], warn: Callable[[str], None] | None = None,
        say: Callable[[str], None] = lambda line: None,
    ):  # fmt: skip
        self._now_ms, self._synchronize, self._warn, self._say = now_ms, synchronize, warn, say

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        then = {_DRIVER: self.adapt, _TESTING: self.adapt_testing, _AUTOTUNER: self.adapt_autotuner}.get(fullname)
        if then is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Adapting(spec.loader, then)
        return spec

    def adapt(self, module: ModuleType) -> None:
        """Let the class ask the driver where PyTorch has no GPU."""
        driver: Any = module.CudaDriver
        plain_init, plain_active = driver.__init__, driver.is_active
        of = self

        def is_active() -> bool:
            return getattr(module, "_cuda_driver_is_active")() if _on_cpu() else plain_active()  # noqa: B009

        def init(self: Any) -> None:
            torch = sys.modules.pop("torch", None) if _on_cpu() else None
            try:
                plain_init(self)
            finally:
                if torch is not None:
                    sys.modules["torch"] = torch
            if _on_cpu():
                self.utils.get_device_properties = _of_the_device(self.utils.get_device_properties)

        def device(self: Any) -> Any:
            torch = sys.modules["torch"]
            return torch.device("cpu") if _on_cpu() else torch.device("cuda", self.get_current_device())

        def interface(self: Any) -> Any:
            return DeviceTime(of._now_ms, of._synchronize) if _on_cpu() else sys.modules["torch"].cuda

        def cache(self: Any) -> Any:
            torch = sys.modules["torch"]
            return torch.empty(0, dtype=torch.int)

        def benchmarker(self: Any) -> Any:
            return of.bench

        driver.get_benchmarker = benchmarker
        driver.is_active = staticmethod(is_active)
        driver.__init__ = init
        driver.get_active_torch_device = device
        driver.get_device_interface = interface
        driver.get_empty_cache_for_benchmark = cache

    def bench(
        self, kernel_call: Callable[[], Any], *_: Any, quantiles: Sequence[float] | None = None, **options: Any
    ) -> Any:
        """As ``triton.testing.do_bench``, of one run after another that warms up: an emulated device takes the same
        time again."""
        if self._warn is not None:
            self._warn(
                "Triton's benchmarks time the emulator here: with --simulate they, and autotuning, get predicted time"
            )
            self._warn = None
        kernel_call()
        self._synchronize()
        start = self._now_ms()
        kernel_call()
        self._synchronize()
        elapsed_ms = self._now_ms() - start
        if quantiles is not None:
            return [elapsed_ms] * len(quantiles)
        return [elapsed_ms] if options.get("return_mode") == "all" else elapsed_ms

    def adapt_testing(self, module: ModuleType) -> None:
        """Let ``do_bench`` run a kernel twice, and not for a tenth of a second of the device's time."""
        setattr(module, "do_bench", self.bench)  # noqa: B010

    def adapt_autotuner(self, module: ModuleType) -> None:
        """Let an autotuner say which of its configurations it tries: each is compiled and emulated, which takes
        seconds."""
        tuner: Any = module.Autotuner
        plain_prune, plain_bench, say = tuner.prune_configs, tuner._bench, self._say
        tried, told_at, total = 0, 0.0, 0

        def prune_configs(self: Any, *args: Any, **given: Any) -> Any:
            nonlocal tried, told_at, total
            configurations = plain_prune(self, *args, **given)
            tried, told_at, total = 0, 0.0, len(configurations)
            return configurations

        def bench(self: Any, *args: Any, config: Any, **given: Any) -> Any:
            nonlocal tried, told_at
            tried += 1
            if tried == 1 or time.monotonic() - told_at >= TOLD_SECONDS:
                told_at = time.monotonic()
                name = getattr(getattr(self, "base_fn", None), "__name__", "a kernel")
                say(f"autotuning {name}: configuration {tried} of {total} ({config})")
            return plain_bench(self, *args, config=config, **given)

        tuner.prune_configs, tuner._bench = prune_configs, bench


class DeviceTime:
    """What Triton's benchmarks ask of ``torch.cuda``: events that tell the device's time, and waiting."""

    def __init__(self, now_ms: Callable[[], float], synchronize: Callable[[], None]):
        self._now_ms, self.synchronize = now_ms, synchronize

    def Event(self, enable_timing: bool = False) -> _Event:
        """As ``torch.cuda.Event``."""
        return _Event(self._now_ms)

    def current_device(self) -> int:
        """The one device."""
        return 0


def _of_the_device(properties: Callable[[int], Any]) -> Callable[[int | None], Any]:
    """``properties`` also for the index that PyTorch gives the CPU, None: programs ask for those of the device of their
    tensors."""
    return lambda index: properties(0 if index is None else index)


class _Event:
    def __init__(self, now_ms: Callable[[], float]):
        self._now_ms, self._at_ms = now_ms, 0.0

    def record(self, stream: object = None) -> None:
        """Note the time."""
        self._at_ms = self._now_ms()

    def elapsed_time(self, end: _Event) -> float:
        """Milliseconds from this event to ``end``."""
        return end._at_ms - self._at_ms


class _Adapting(importlib.abc.Loader):
    """A loader that does something more once it has run the module."""

    def __init__(self, loader: Any, then: Callable[[ModuleType], None]):
        self._loader, self._then = loader, then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """As the loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then adapt it."""
        self._loader.exec_module(module)
        self._then(module)


def _on_cpu() -> bool:
    """Whether PyTorch has been imported and sees no GPU."""
    torch = sys.modules.get("torch")
    return torch is not None and not torch.cuda.is_available()
