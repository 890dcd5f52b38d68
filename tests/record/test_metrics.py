"""Metrics: what is collected is what Prometheus' and OpenTelemetry's own readers see; nothing listens unless it is told
to."""

from __future__ import annotations

import socket
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from collect_sender import batch
from msgspec.structs import replace

from gpusim.collect.exposition import send_opentelemetry, serve_prometheus
from gpusim.collect.ledger import Incoming
from gpusim.collect.meter import MOST_KERNELS, Meter
from gpusim.collect.totals import of_process
from gpusim.errors import CollectError
from gpusim.record import wire


def meter() -> Meter:
    made = Meter()
    totals = [of_process(row, 1, "", -1) for row in wire.read_batch(batch(1, 3, 2, 7)[8:]).rows]
    made.add([Incoming(b"s", 1, totals, dropped=4)])
    made.gauges.append(("gpusim_processes", "Processes that are connected", False, lambda: 5))
    return made


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_prometheus_reads_it() -> None:
    parser = pytest.importorskip("prometheus_client.parser", reason="gpusim[collect] is not installed")
    port = free_port()
    end = serve_prometheus(meter(), f"127.0.0.1:{port}")
    try:
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
        with pytest.raises(CollectError, match="cannot be served"):
            serve_prometheus(meter(), f"127.0.0.1:{port}")
    finally:
        end()
    samples = {s.name: s for family in parser.text_string_to_metric_families(text) for s in family.samples}
    assert samples["gpusim_launches_total"].value == 6
    assert samples["gpusim_launches_total"].labels == {"gpu": "0", "kernel": "kernel"}
    assert samples["gpusim_kernel_seconds_total"].value == 6e-6
    assert samples["gpusim_dropped_launches_total"].value == 4 and samples["gpusim_processes"].value == 5


def test_opentelemetry_is_sent_it() -> None:
    pytest.importorskip("opentelemetry.sdk.metrics", reason="gpusim[collect] is not installed")
    service = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
    bodies: list[bytes] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made = Meter()
    end = send_opentelemetry(made, f"http://127.0.0.1:{server.server_port}/v1/metrics", every_s=3600)
    made.add([Incoming(b"s", 1, [of_process(row, 1, "", -1) for row in wire.read_batch(batch(1, 3, 2, 7)[8:]).rows])])
    end()  # the last message
    server.shutdown()
    server.server_close()
    found = {}
    for body in bodies:
        request = service.ExportMetricsServiceRequest.FromString(body)
        for metric in request.resource_metrics[0].scope_metrics[0].metrics:
            point = metric.sum.data_points[0]
            found[metric.name] = (
                point.as_double or point.as_int,
                {a.key: a.value.string_value for a in point.attributes},
            )
    assert (
        found["gpusim_launches"] == (6, {"gpu": "0", "kernel": "kernel"}) and found["gpusim_kernel_seconds"][0] == 6e-6
    )


def test_labels_are_bounded() -> None:
    made = Meter()
    (total,) = [of_process(row, 1, "", -1) for row in wire.read_batch(batch(1, 1, 1, 7)[8:]).rows]
    many = [replace(total, what=replace(total.what, kernel=f"k{i}")) for i in range(MOST_KERNELS + 50)]
    made.add([Incoming(b"s", 1, many)])
    launches = [sample for sample in made.samples() if sample.name == "gpusim_launches"]
    assert len(launches) == MOST_KERNELS + 1 and sum(sample.value for sample in launches) == MOST_KERNELS + 50
