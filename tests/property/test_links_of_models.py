"""What a user says of a machine's links holds for whole models and replays as for a collective alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpusim.cli import run
from gpusim.collective.links import Machine
from gpusim.collective.project import project_collective
from gpusim.collective.shape import Collective
from gpusim.gpus.load import load_gpu
from gpusim.project.limits import remedies
from gpusim.project.network import decoder_of
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.whole import project_model

DECODE = ["project", "llama3_8b", "--phase", "decode", "--batch", "16"]


def record(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert run([*words, "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    return found


def test_a_models_exchanges_go_over_the_links_that_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    gpu = ["--gpu", "rtx4090:4"]
    file = record(capsys, *DECODE, *gpu)
    host = record(capsys, *DECODE, *gpu, "--links", "host")
    slower = record(capsys, *DECODE, *gpu, "--links", "host", "--link-gb-per-s", "8")
    assert file["step_ms"] < host["step_ms"] < slower["step_ms"]
    assert "links" not in file and slower["links"] == "host" and slower["link_gb_per_s"] == 8.0
    # Each exchange is what the collective alone is.
    machine, spec = Machine("host", 8.0), load_gpu("rtx4090")
    found = project_model(
        Prices(spec, machine=machine), decoder_of("llama3_8b"), Plan("decode", batch=16, tensor_parallel=4)
    )
    sums = [item for item in found.items if isinstance(item.operator.op, Collective)]
    assert sums
    for item in sums:
        alone = project_collective(spec, item.operator.op, machine.node(spec, 4))  # type: ignore[arg-type]
        assert item.projection.seconds == alone.seconds


def test_cards_of_a_node_are_shared_by_its_gpus_whatever_a_collectives_size() -> None:
    spec = load_gpu("h100")
    pair = Collective("all_reduce", 2, 1 << 30, apart=8)
    own, same, half = (
        project_collective(spec, pair, Machine(network_gb_per_s=rate).node(spec)).seconds
        for rate in (None, 400.0, 200.0)
    )
    assert own == pytest.approx(same) and half > 1.8 * own
    waits = project_collective(spec, Collective("all_reduce", 16, 8), Machine(network_latency_us=30.0).node(spec))
    assert waits.seconds > project_collective(spec, Collective("all_reduce", 16, 8)).seconds + 45e-6


def test_a_gpu_alone_drives_no_more_cards_than_its_port_has_lanes_for() -> None:
    spec, pair = load_gpu("h100"), Collective("all_reduce", 2, 1 << 26)
    one, four = (Machine(gpus_per_node=1, network_gb_per_s=rate).node(spec) for rate in (50.0, 200.0))
    assert one.card_gb_per_second == 50.0 and four.card_gb_per_second == 64.0
    rate = pair.wire_bytes / project_collective(spec, pair, four).seconds / 1e9
    assert 45 < rate < 62  # NVIDIA/nccl-tests, issue 232: 41 to 50
    assert Machine(network_gb_per_s=400.0).node(spec).card_gb_per_second == 50.0


def test_training_over_a_slower_network_takes_longer_and_nodes_of_four_are_several(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["project", "llama3_8b", "--phase", "train", "--gpu", "h100:8", "--dp", "8", "--batch", "16", "--zero", "3"]
    one = record(capsys, *words)
    several = record(capsys, *words, "--gpus-per-node", "4", "--network-gb-per-s", "50")
    assert several["step_ms"] > one["step_ms"] and several["gpus_per_node"] == 4
    assert run([*words, "--gpus-per-node", "4", "--network-gb-per-s", "50"]) == 0
    assert "4 GPUs a node; 50 GB/s one way of a node's network cards" in capsys.readouterr().out


def test_what_helps_makes_the_said_links_better() -> None:
    """Not the file's, which they replace."""
    prices = Prices(load_gpu("rtx4090"), machine=Machine("host", 4.0))
    network, plan = decoder_of("llama3_8b"), Plan("prefill", batch=4, tensor_parallel=4)
    found = remedies(prices, network, plan, project_model(prices, network, plan))
    assert found[0].name == "links" and found[0].saved > 0.1


def test_gpus_without_peer_access_sum_by_nccl_alone() -> None:
    spec, summed = load_gpu("rtx4090"), Collective("all_reduce", 2, 64 << 10, library="custom")
    peer, host = (project_collective(spec, summed, Machine(links).node(spec)) for links in ("peer", "host"))
    assert "one-shot" in peer.operator and "ring" in host.operator


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--gpu", "rtx3090:4", "--links", "bridge", "--link-gb-per-s", "56.25"], "joins 2 GPUs, not 4"),
        (["--gpu", "rtx4090:2", "--links", "bridge"], "a bridge needs its rate"),
        (["--gpu", "h100:4", "--link-gb-per-s", "100", "--set", "node.link_bytes_per_ns=300"], "say it once"),
        (["--gpu", "h100:4", "--gpus-per-node", "2", "--what-if", "node.gpus=4"], "say it once"),
        (["--sweep", "tp=4", "--gpu", "rtx3090", "--links", "bridge", "--link-gb-per-s", "50"], "joins 2 GPUs"),
    ],
)
def test_links_that_cannot_be_are_refused_in_a_line(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*DECODE, *words]) != 0
    said = capsys.readouterr().err
    assert why in said and said.count("\n") == 1


def test_bridged_pairs_may_be_nodes_and_a_sweep_says_its_links(capsys: pytest.CaptureFixture[str]) -> None:
    pairs = ["--links", "bridge", "--link-gb-per-s", "300", "--gpus-per-node", "2", "--network-gb-per-s", "25"]
    assert run([*DECODE, "--gpu", "a100_pcie_40gb", *pairs, "--sweep", "tp=2,4", "--format", "csv"]) == 0
    two, four = capsys.readouterr().out.splitlines()[1:]
    assert "bridge" in two and "bridge" in four


def test_bridges_of_known_boards_need_no_rate() -> None:
    summed = Collective("all_reduce", 2, 1 << 28)
    for name, rate, channels in (("rtx3090", 56.25, 8), ("rtx2080ti", 50.0, 4), ("a100_pcie_40gb", 300.0, 24)):
        spec = load_gpu(name)
        known, said = Machine("bridge").node(spec), Machine("bridge", rate).node(spec)
        assert known.channels == channels
        assert project_collective(spec, summed, known).seconds == project_collective(spec, summed, said).seconds


def test_a_replay_goes_over_the_links_that_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*DECODE, "--gpu", "rtx4090:2", "--traces", str(tmp_path)]) == 0
    capsys.readouterr()
    words = ["project", "replay", str(tmp_path), "--gpu", "rtx4090", "--alone", "--format", "csv"]
    assert run(words) == run([*words, "--links", "host", "--link-gb-per-s", "8"]) == 0
    own, host = (block.splitlines()[1] for block in capsys.readouterr().out.split("rank,")[1:])
    assert own != host
