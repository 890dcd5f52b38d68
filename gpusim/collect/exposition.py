"""A meter for monitoring systems, through their own libraries: Prometheus asks for it, OpenTelemetry is sent it. Both
are off unless told.

Needs ``gpusim[collect]``; raises ToolchainError without, CollectError where a place cannot be listened at.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from gpusim.collect.meter import Meter, Sample
from gpusim.errors import CollectError, ToolchainError

EXPORT_EVERY_S = 60.0
#: For one message, and so for the last at the daemon's end.
PATIENCE_S = 3


def serve_prometheus(meter: Meter, place: str) -> Callable[[], None]:
    """Answer HTTP at "HOST:PORT" in Prometheus' text format; what ends it is returned."""
    client, core = _library("prometheus_client"), _library("prometheus_client.core")

    class Samples:
        def collect(self) -> Iterable[Any]:
            families: dict[str, Any] = {}
            for sample in meter.samples():
                if sample.name not in families:
                    kind = core.CounterMetricFamily if sample.counts else core.GaugeMetricFamily
                    families[sample.name] = kind(sample.name, sample.help, labels=[name for name, _ in sample.labels])
                families[sample.name].add_metric([value for _, value in sample.labels], sample.value)
            return families.values()

    registry = client.CollectorRegistry()
    registry.register(Samples())
    host, _, port = place.rpartition(":")
    try:
        server, thread = client.start_http_server(int(port), host.strip("[]") or "127.0.0.1", registry)
    except OSError as error:
        raise CollectError(f"metrics cannot be served at {place}: {error.strerror}") from error

    def end() -> None:
        server.shutdown()
        server.server_close()
        thread.join(5)

    return end


def send_opentelemetry(meter: Meter, url: str, every_s: float = EXPORT_EVERY_S) -> Callable[[], None]:
    """Send OTLP over HTTP to ``url`` (".../v1/metrics") every ``every_s``; what ends it, after a last message, is
    returned."""
    metrics, export = _library("opentelemetry.sdk.metrics"), _library("opentelemetry.sdk.metrics.export")
    api = _library("opentelemetry.metrics")
    resources = _library("opentelemetry.sdk.resources")
    exporter = _library("opentelemetry.exporter.otlp.proto.http.metric_exporter").OTLPMetricExporter(
        endpoint=url, timeout=PATIENCE_S
    )
    reader = export.PeriodicExportingMetricReader(exporter, export_interval_millis=every_s * 1000)
    resource = resources.Resource.create({"service.name": "gpusim-collect"})
    provider = metrics.MeterProvider(metric_readers=[reader], resource=resource, shutdown_on_exit=False)
    own = provider.get_meter("gpusim.collect")

    def observed(name: str) -> Callable[[Any], list[Any]]:
        return lambda _: [api.Observation(s.value, dict(s.labels)) for s in meter.samples() if s.name == name]

    for name, (text, counts) in _known(meter).items():
        make = own.create_observable_counter if counts else own.create_observable_gauge
        make(name, callbacks=[observed(name)], description=text)
    return lambda: provider.shutdown(timeout_millis=PATIENCE_S * 1000)


def _known(meter: Meter) -> dict[str, tuple[str, bool]]:
    """Every name that the meter will ever have; those by kernel are there before the first kernel is."""
    first = [Sample("gpusim_launches", "Kernel launches collected", 0), Sample("gpusim_kernel_seconds", "Time of kernels on the GPU, where CUPTI told it", 0)]  # fmt: skip
    return {sample.name: (sample.help, sample.counts) for sample in (*first, *meter.samples())}


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ToolchainError(f"metrics need their libraries: pip install 'gpusim[collect]' ({error})") from None
