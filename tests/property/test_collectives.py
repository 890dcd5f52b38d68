"""Laws of projected collectives: never faster than the links, no slower for less, chosen as the library chooses."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.cli import run
from gpusim.collective.choice import choices_us, chosen
from gpusim.collective.links import LINKS, linked
from gpusim.collective.node import node_of
from gpusim.collective.overlap import overlapped
from gpusim.collective.project import project_collective
from gpusim.collective.shape import KINDS, Collective
from gpusim.errors import SpecError
from gpusim.gpus.load import load_gpu

SPECS = {name: load_gpu(name) for name in ("a100_80gb", "h100", "b200", "l40s")}
GPUS = st.sampled_from([2, 4, 8])


@given(kind=st.sampled_from(KINDS), gpus=GPUS, power=st.integers(8, 32), gpu=st.sampled_from(sorted(SPECS)))
def test_no_collective_beats_the_links(kind: str, gpus: int, power: int, gpu: str) -> None:
    spec, collective = SPECS[gpu], Collective(kind, gpus, 1 << power)
    found, node = project_collective(spec, collective), node_of(spec)
    least = collective.wire_bytes
    if node.switch_sums and kind == "all_reduce":
        least = collective.message_bytes  # the switch sums
    assert found.seconds > least / node.link_bytes_per_second
    assert found.low_seconds < found.seconds < found.high_seconds
    assert found.link_bytes >= least
    twice = project_collective(spec, replace(collective, message_bytes=2 << power))
    # Where NCCL changes its protocol a larger message may be a little faster.
    assert twice.seconds > 0.85 * found.seconds


@given(power=st.integers(8, 26), gpu=st.sampled_from(["a100_80gb", "h100"]))
def test_more_gpus_take_longer_for_sums_of_their_own(power: int, gpu: str) -> None:
    seconds = [
        project_collective(SPECS[gpu], Collective("all_reduce", gpus, 1 << power, library="custom")).seconds
        for gpus in (2, 8)
    ]
    assert seconds[0] < seconds[1] * 1.01 or power > 23


@pytest.mark.parametrize(
    ("kind", "gpus", "message_bytes", "protocol"),
    [
        # nccl-tests on eight A100 jump where the protocol changes: 512 KiB to 1 MiB (two GPUs), 1 to 2 MiB (four).
        ("all_reduce", 2, 512 << 10, "LL"), ("all_reduce", 2, 2 << 20, "Simple"), ("all_gather", 4, 1 << 20, "LL"), ("all_gather", 4, 4 << 20, "Simple"),
        ("all_gather", 8, 8 << 20, "LL128"), ("all_gather", 8, 64 << 20, "Simple"),
    ],
)  # fmt: skip
def test_protocols_change_where_measured_times_jump(kind: str, gpus: int, message_bytes: int, protocol: str) -> None:
    assert chosen(node_of(SPECS["a100_80gb"]), "ampere", Collective(kind, gpus, message_bytes)) == ("ring", protocol)


def test_small_sums_are_one_shot_large_ones_two_and_larger_ones_the_library_s() -> None:
    operators = [
        project_collective(SPECS["h100"], Collective("all_reduce", 8, size, library="custom")).operator
        for size in (1 << 10, 1 << 20, 1 << 26)
    ]
    assert [each.rpartition("GPUs, ")[2] for each in operators] == ["one-shot", "two-shot", "NVLS, Simple"]


def test_what_nobody_measured_says_so() -> None:
    h100 = SPECS["h100"]
    assert project_collective(h100, Collective("all_reduce", 8, 1 << 20)).validated
    for spec, collective, why in (
        (h100, Collective("all_reduce", 16, 1 << 20), "between nodes"), (h100, Collective("broadcast", 8, 1 << 20), "no measured broadcast"),
        (SPECS["b200"], Collective("all_reduce", 8, 1 << 20), "blackwell"), (SPECS["l40s"], Collective("all_reduce", 8, 1 << 20), "ada"),
    ):  # fmt: skip
        found = project_collective(spec, collective)
        assert not found.validated
        assert why in found.reason
    assert (
        project_collective(h100, Collective("all_reduce", 16, 1 << 28)).seconds
        > project_collective(h100, Collective("all_reduce", 8, 1 << 28)).seconds
    )


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "gossip"},
        {"gpus": 1},
        {"message_bytes": 0},
        {"library": "mine"},
        {"kind": "alltoall", "library": "custom"},
        {"message_bytes": 1 << 60},
    ],
)
def test_a_collective_that_cannot_be_is_refused(values: dict) -> None:
    with pytest.raises(SpecError):
        Collective(**({"kind": "all_reduce", "gpus": 8, "message_bytes": 1024} | values))


@given(
    computation=st.floats(1e-6, 1.0), collective=st.floats(1e-6, 1.0), wanted=st.floats(0, 3e12), also=st.floats(0, 1e12), channels=st.integers(0, 32)
)  # fmt: skip
def test_two_at_once_take_no_less_than_the_longer_and_no_more_than_both(
    computation: float, collective: float, wanted: float, also: float, channels: int
) -> None:
    found = overlapped(computation, wanted, collective, also, 132, channels, 3e12)
    assert found.seconds >= max(computation, collective) * (1 - 1e-9)
    assert found.seconds <= (computation + collective) / (1 - channels / 132) * (1 + 1e-9)
    assert found.seconds == pytest.approx(max(found.computation_seconds, found.collective_seconds))
    with pytest.raises(ValueError, match="leave the computation none"):
        overlapped(computation, wanted, collective, also, 16, 16, 3e12)


def test_the_command_says_what_was_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["project", "collective", "all_reduce", "--bytes", "64MiB", "--gpu", "h100", "--format", "json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["algorithm"] == "NVLS" and record["message_bytes"] == 64 << 20 and record["validated"]
    assert run(["project", "collective", "all_reduce", "--bytes", "12 parsecs"]) == 2
    assert "is no number of bytes" in capsys.readouterr().err


def test_gpus_may_be_counted_as_for_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["project", "collective", "all_reduce", "--bytes", "1MiB"]
    assert run([*words, "--gpu", "h100:4"]) == run([*words, "--gpu", "h100", "--gpus", "4"]) == 0
    first, second = capsys.readouterr().out.split("collective ")[1:]
    assert first == second and "4 x h100" in first
    assert run([*words, "--gpu", "h100:4", "--gpus", "8"]) == 2 and "say it once" in capsys.readouterr().err
    assert run([*words, "--gpu", "h100:1"]) == 2 and "2 GPUs at least" in capsys.readouterr().err


def test_a_gpu_that_inherits_another_has_its_links_and_a_faster_link_is_a_value_of_it(tmp_path: Path) -> None:
    own = tmp_path / "next.toml"
    own.write_text('inherits = "h100"\nsm_count = { value = 160, kind = "guess", source = "a plan" }\n')
    sums = Collective("all_reduce", 8, 1 << 28)
    times = [project_collective(load_gpu(gpu), sums) for gpu in ("h100", own)]
    assert times[0].seconds == times[1].seconds
    own.write_text(own.read_text() + '[node]\nlink_bytes_per_ns = { value = 900, kind = "guess", source = "a plan" }\n')
    faster = project_collective(load_gpu(own), sums)
    assert faster.seconds < 0.6 * times[0].seconds
    assert times[1].validated and not faster.validated


def test_replicas_whose_layers_fill_a_node_sum_over_the_network() -> None:
    spec, message = load_gpu("h100"), 1 << 30
    beside, two, eight = (
        project_collective(spec, Collective("all_reduce", 8, message, apart=apart)) for apart in (1, 4, 8)
    )
    assert beside.seconds < two.seconds < eight.seconds
    node = spec.node
    least = 2 * (7 / 8) * message / (node.network_bytes_per_ns * 1e9)
    assert eight.seconds == pytest.approx(least / 0.96 + 6e-9 * node.network_latency_ns, rel=0.01)
    assert not eight.validated and beside.validated
    near, away = (project_collective(spec, Collective("send_recv", 2, message, apart=apart)) for apart in (4, 8))
    assert away.seconds > message / (node.network_bytes_per_ns * 1e9) > near.seconds
    with pytest.raises(SpecError, match="are 0 apart"):
        Collective("all_reduce", 8, message, apart=0)


def test_rings_over_pcie_reach_what_machines_of_it_reach_and_others_what_they_did() -> None:
    summed = Collective("all_reduce", 8, 1 << 30)
    rates = {name: summed.wire_bytes / project_collective(load_gpu(name), summed).seconds / 1e9 for name in ("rtx5090", "l40s", "a100_80gb")}  # fmt: skip
    # Published of PCIe 5: 22 to 41 GB/s, in the middle 38; half of it over PCIe 4.
    assert 36 < rates["rtx5090"] < 42 and 17 < rates["l40s"] < 21
    assert rates["a100_80gb"] > 200
    assert node_of(load_gpu("l40s")).over_pcie and not node_of(load_gpu("h100_nvl")).over_pcie


def test_sums_over_nodes_reach_what_their_cards_do() -> None:
    """NCCL's maintainers: 192 GB/s over eight cards of 25 GB/s a node, 46 to 48 GB/s over each of 50."""
    for name, gpus, low, high in (("a100_80gb", 32, 190, 193), ("h100", 32, 368, 384), ("h200", 1984, 340, 384)):
        summed = Collective("all_reduce", gpus, 1 << 33)
        assert low < summed.wire_bytes / project_collective(load_gpu(name), summed).seconds / 1e9 < high
    # Two nodes whose switches sum do so in a tree, whose figure is more than their cards' rate (two of eight H200: 468
    # to 489 GB/s); others go around rings.
    pair = Collective("all_reduce", 16, 1 << 33)
    a100, h200 = (
        pair.wire_bytes / project_collective(load_gpu(name), pair).seconds / 1e9 for name in ("a100_80gb", "h200")
    )
    assert 185 < a100 < 200 and 460 < h200 < 500
    # NVIDIA/nccl, issue 1469: 62 us for few bytes on 16 nodes of H100s.
    few = project_collective(load_gpu("h100"), Collective("all_reduce", 128, 64))
    assert 40e-6 < few.seconds < 80e-6


def test_links_that_a_machine_has_beside_its_gpus_file() -> None:
    summed, board = Collective("all_reduce", 2, 1 << 30), node_of(load_gpu("a100_pcie_40gb"))
    spec = load_gpu("a100_pcie_40gb")
    file, peer, host, bridge = (
        project_collective(spec, summed, linked(board, kind, 300.0 if kind == "bridge" else None)) for kind in LINKS
    )
    # NVIDIA/nccl-tests, issue 178: 208 GB/s over a bridge.
    assert 180 < summed.wire_bytes / bridge.seconds / 1e9 < 240
    assert bridge.seconds < peer.seconds < file.seconds < host.seconds
    assert linked(board) == board
    assert not linked(node_of(SPECS["h100"]), link_gb_per_s=300.0).measured


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--gpu", "rtx4090:2", "--links", "bridge"], "a bridge needs its rate"),
        (["--gpu", "rtx3090:4", "--links", "bridge", "--link-gb-per-s", "56.25"], "joins 2 GPUs, not 4"),
        (["--gpu", "h100:4", "--links", "host"], "this GPU has NVLink"),
        (["--gpu", "h100:4", "--network-gb-per-s", "0"], "not in the range"),
    ],
)
def test_links_that_cannot_be_are_refused_in_a_line(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["project", "collective", "all_reduce", "--bytes", "1MiB", *words]) == 2
    said = capsys.readouterr().err
    assert why in said and said.count("\n") == 1


def test_a_network_card_that_several_gpus_share_is_slower_and_the_answer_says_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["project", "collective", "all_reduce", "--bytes", "1GiB", "--gpu", "h100:16", "--format", "json"]
    assert run(words) == run([*words, "--network-gb-per-s", "100"]) == run([*words, "--gpus-per-node", "16"]) == 0
    own, shared, one = (json.loads(line)[0] for line in capsys.readouterr().out.replace("]\n[", "]\0[").split("\0"))
    assert shared["us"] > 2 * own["us"] and one["algorithm"] == "NVLS"
    assert "the quickest of NCCL's" in own["why"] and "NCCL would take" in one["why"]


def test_small_sums_between_nodes_wait_for_steps_not_for_bytes() -> None:
    h100 = load_gpu("h100")
    times = [project_collective(h100, Collective("all_reduce", 16, 1 << power)) for power in range(10, 31)]
    assert all(
        small.seconds <= large.seconds
        for small, large in itertools.pairwise(times)
        if "tree, Simple" not in large.operator
    )
    assert times[0].operator.endswith("LL") and "NVLS tree, Simple" in times[14].operator
    # Two nodes of one GPU each still launch, and wait for a whole piece.
    pair = linked(node_of(h100), gpus_per_node=1)
    assert project_collective(h100, Collective("all_reduce", 2, 1 << 20), pair).seconds > 60e-6


@pytest.mark.parametrize(
    ("gpu", "gpus", "message_bytes", "us", "algorithm"),
    [
        # NVIDIA/nccl-tests, issue 309: H100s, eight a node, eight cards of 400 Gb/s.
        ("h100", 16, 8, 24.9, "tree, LL"),
        ("h100", 32, 8, 34.6, "tree, LL"),
        ("h100", 32, 1 << 20, 82.2, "tree, LL128"),
        ("h100", 32, 1 << 22, 151.1, "tree, Simple"),
        ("h100", 32, 1 << 26, 579.1, "tree, Simple"),
        ("h100", 32, 1 << 30, 5808.8, "ring, Simple"),
        # CoreWeave's kubernetes-cloud: sixteen nodes of eight A100s.
        ("a100_80gb", 128, 8, 55.5, "tree, LL"),
        ("a100_80gb", 128, 1 << 18, 110.2, "tree, LL128"),
    ],
)
def test_nodes_sum_as_nccls_own_latencies_say(
    gpu: str, gpus: int, message_bytes: int, us: float, algorithm: str
) -> None:
    found = project_collective(load_gpu(gpu), Collective("all_reduce", gpus, message_bytes))
    assert found.operator.endswith(algorithm)
    assert 1e6 * found.seconds == pytest.approx(us, rel=0.09)


def test_rings_over_many_nodes_take_a_step_for_every_gpu() -> None:
    """NCCL's reckoning: each of all GPUs' steps 3.4 us, each hop between nodes 14."""
    h100 = load_gpu("h100")
    few, many = (project_collective(h100, Collective("all_gather", gpus, 1 << 26)) for gpus in (64, 512))
    assert 1e6 * (many.seconds - few.seconds) == pytest.approx(3.4 * (448 - 56) + 14 * (63 - 7), rel=0.1)


def test_pcie_keeps_no_128_bytes_together_and_its_steps_are_slower() -> None:
    boards, chips = node_of(load_gpu("rtx4090")), node_of(load_gpu("a100_80gb"))
    summed = Collective("all_reduce", 4, 1 << 18)
    over_pcie, over_nvlink = choices_us(boards, "ampere", summed), choices_us(chips, "ampere", summed)
    assert {protocol for _, protocol in over_pcie} == {"LL", "Simple"}
    assert ("ring", "LL128") in over_nvlink
    few = replace(summed, message_bytes=1)
    steps_us = [choices_us(node, "ampere", few)["ring", "Simple"] for node in (boards, chips)]
    assert steps_us[0] - steps_us[1] == pytest.approx(6 * (5.7 - 3.4), abs=0.01)


def test_sums_in_a_blackwell_switch_reach_less_of_its_links() -> None:
    """NCCL's nvlsEfficiency: 0.74, Hopper's 0.85. Four GPUs sum in rings."""
    message = 1 << 33
    rates = {}
    for name in ("h200", "gb300"):
        spec = load_gpu(name)
        found = project_collective(spec, Collective("all_reduce", 8, message))
        assert "NVLS" in found.operator
        rates[name] = message / found.seconds / (spec.node.link_bytes_per_ns * 1e9)
    assert rates["gb300"] / rates["h200"] == pytest.approx(0.74 / 0.85, rel=0.01)
    assert "ring" in project_collective(load_gpu("gb300"), Collective("all_reduce", 4, message)).operator
