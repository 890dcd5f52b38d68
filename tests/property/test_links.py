"""Laws of links: shares are fair, nothing is lost, alone a collective takes what its formula says, together they
share."""

from __future__ import annotations

import math

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st
from oracle_packets import arrivals_by_packets

from gpusim.collective.fabric import MOST_LINKS, Fabric, fair_rates
from gpusim.collective.figures import figures_of
from gpusim.collective.messages import Exchange
from gpusim.collective.node import node_of
from gpusim.collective.project import time_of
from gpusim.collective.shape import KINDS, Collective
from gpusim.collective.topology import Topology
from gpusim.errors import SpecError
from gpusim.gpus.load import load_gpu

SPECS = {name: load_gpu(name) for name in ("a100_80gb", "h100", "b200", "l40s")}


def cluster(gpu: str = "h100", gpus: int = 8) -> Topology:
    return Topology(simpy.Environment(), node_of(SPECS[gpu]), gpus)


def begun(topology: Topology, collective: Collective, members: range | list[int], gpu: str = "h100") -> Exchange:
    generation = SPECS[gpu].generation
    return Exchange(topology, generation, figures_of(generation), collective, members)


def seconds(topology: Topology, *events: simpy.Event) -> list[float]:
    """When each happens."""
    environment, ends = topology.fabric.environment, [math.nan] * len(events)
    for place, event in enumerate(events):
        event.callbacks.append(lambda _event, place=place: ends.__setitem__(place, environment.now))  # type: ignore[union-attr]
    environment.run()
    return ends


@given(st.data())
def test_rates_are_fair_and_fill_the_links(data: st.DataObject) -> None:
    capacity = np.array(data.draw(st.lists(st.floats(1.0, 100.0), min_size=1, max_size=5)))
    paths = data.draw(
        st.lists(st.sets(st.integers(0, len(capacity) - 1), min_size=1).map(sorted), min_size=1, max_size=6)
    )
    links, loads = np.full((len(paths), MOST_LINKS), -1), np.zeros((len(paths), MOST_LINKS))
    for row, path in enumerate(paths):
        links[row, : len(path)], loads[row, : len(path)] = path, 1.0
    rates = fair_rates(links, loads, capacity)
    used = np.array(
        [sum(rates[row] for row, path in enumerate(paths) if link in path) for link in range(len(capacity))]
    )
    assert (used <= capacity * (1 + 1e-9)).all() and (rates > 0).all()
    for row, path in enumerate(paths):
        # Each message has a full link on which none gets more than it.
        full = [link for link in path if used[link] >= capacity[link] * (1 - 1e-6)]
        assert any(all(rates[row] >= rates[other] * (1 - 1e-6) for other, way in enumerate(paths) if link in way) for link in full)  # fmt: skip


@given(st.data())
def test_flows_end_when_small_packets_served_in_turn_do(data: st.DataObject) -> None:
    capacity = data.draw(st.lists(st.floats(10.0, 40.0), min_size=3, max_size=3))
    # Of two links each, in one order: packets of a message queue at its narrowest link and then go on.
    way = st.sampled_from([(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
    messages = data.draw(st.lists(st.tuples(st.floats(0.0, 5.0), way, st.floats(50.0, 200.0)), min_size=1, max_size=4))
    environment = simpy.Environment()
    fabric = Fabric(environment)
    links = [fabric.link(f"link{place}", rate) for place, rate in enumerate(capacity)]
    ends = [math.nan] * len(messages)

    def sending(place: int, start: float, path: tuple[int, ...], size: float):
        yield environment.timeout(start)
        yield fabric.send([links[each] for each in path], size)
        ends[place] = environment.now

    for place, message in enumerate(messages):
        environment.process(sending(place, *message))
    environment.run()
    packets = arrivals_by_packets(capacity, messages, 1.0)
    # The last to end cannot be told apart by how queues between two links fill; each link's work is conserved.
    for link in range(3):
        crossing = [place for place, message in enumerate(messages) if message[1] == (link,)]
        if len(crossing) == len([message for message in messages if link in message[1]]):
            for place in crossing:
                assert ends[place] == pytest.approx(packets[place], rel=0.03, abs=0.3)
    assert sum(fabric.carried_bytes().values()) == pytest.approx(sum(len(path) * size for _, path, size in messages))


@given(
    kind=st.sampled_from(KINDS),
    library=st.sampled_from(["nccl", "custom"]),
    gpus=st.sampled_from([2, 3, 4, 8, 16]),
    power=st.integers(8, 30),
    gpu=st.sampled_from(sorted(SPECS)),
)
def test_a_collective_alone_takes_what_its_formula_says(
    kind: str, library: str, gpus: int, power: int, gpu: str
) -> None:
    if kind == "send_recv":
        gpus = 2
    spec = SPECS[gpu]
    collective = Collective(kind, gpus, 1 << power, library=library if kind == "all_reduce" else "nccl")
    topology = cluster(gpu, max(8, gpus))
    (end,) = seconds(topology, begun(topology, collective, range(gpus), gpu).done)
    formula = time_of(node_of(spec), spec.generation, figures_of(spec.generation), collective).seconds
    # Fitted shares may be a little more than what packets leave of a link (two-shot kernels on A100): there the link
    # bounds.
    assert formula * (1 - 1e-9) <= end <= formula * 1.016


def test_two_collectives_on_other_gpus_do_not_meet_and_on_the_same_share_ports() -> None:
    sum_of_four = Collective("all_reduce", 4, 256 << 20)
    alone = seconds(topology := cluster(), begun(topology, sum_of_four, range(4)).done)[0]
    topology = cluster()
    apart = seconds(topology, *(begun(topology, sum_of_four, members).done for members in (range(4), range(4, 8))))
    assert apart == pytest.approx([alone, alone], rel=1e-9)
    topology = cluster()
    together = seconds(topology, *(begun(topology, sum_of_four, range(4)).done for _ in range(2)))
    # Each alone takes four fifths of a port's rate, which is all that packets of 128 bytes leave of it; what each
    # copies within its GPU, and its steps, the other does not miss.
    least = 2 * sum_of_four.wire_bytes * 1.25 / node_of(SPECS["h100"]).link_bytes_per_second
    assert least < together[0] < 2 * alone and together[0] == pytest.approx(together[1], rel=1e-9)
    assert together[0] > 1.8 * alone


def test_a_copy_shares_its_port_with_a_collective_and_only_while_both_last() -> None:
    gather = Collective("all_gather", 8, 512 << 20)
    topology = cluster()
    (copy_alone,) = seconds(topology, topology.copy(0, 5, 64e6))
    assert copy_alone == pytest.approx(64e6 / (450e9 * 256 / 288) + 0.3e-6)
    (alone,) = seconds(topology := cluster(), begun(topology, gather, range(8)).done)
    topology = cluster()
    exchange = begun(topology, gather, range(8))
    copy, both = seconds(topology, topology.copy(0, 5, 64e6), exchange.done)
    assert 1.5 * copy_alone < copy < 2.3 * copy_alone
    # A ring goes at its slowest port's pace; the bytes that the copy took away there it lacks.
    assert alone + 0.5 * copy_alone < both < alone + 1.5 * copy_alone


def test_copies_into_one_gpu_share_its_port_in() -> None:
    topology = cluster()
    ends = seconds(topology, *(topology.copy(source, 7, 90e6) for source in range(3)))
    assert ends == pytest.approx([3 * 90e6 / 400e9 + 0.3e-6] * 3)


def test_a_kernel_that_dram_holds_back_takes_longer() -> None:
    collective = Collective("reduce_scatter", 8, 256 << 20)
    (alone,) = seconds(topology := cluster(), begun(topology, collective, range(8)).done)
    topology = cluster()
    exchange = begun(topology, collective, range(8))
    exchange.slow(3, 0.5)
    (held,) = seconds(topology, exchange.done)
    assert 1.9 * alone < held < 2.1 * alone


def test_a_ring_waits_for_whoever_is_slow_and_then_for_the_next() -> None:
    collective = Collective("reduce_scatter", 8, 256 << 20)
    (alone,) = seconds(topology := cluster(), begun(topology, collective, range(8)).done)
    topology = cluster()
    exchange = begun(topology, collective, range(8))
    exchange.slow(0, 0.5)

    def other():
        yield topology.fabric.environment.timeout(alone)
        exchange.slow(0, 1.0)
        exchange.slow(1, 0.5)

    topology.fabric.environment.process(other())
    (held,) = seconds(topology, exchange.done)
    # Each GPU by itself would have taken half as long again, or would have ended by then; the second is as far as the
    # first let it come.
    assert 1.65 * alone < held < 2 * alone


def test_what_cannot_be_is_refused() -> None:
    topology = cluster()
    with pytest.raises(SpecError, match="its members are"):
        begun(topology, Collective("all_reduce", 4, 1 << 20), [0, 1, 2, 8])
    with pytest.raises(SpecError, match="not between 1 and"):
        cluster(gpus=1 << 20)
    with pytest.raises(ValueError, match="over 0 links"):
        topology.fabric.send((), 1.0)
    with pytest.raises(ValueError, match="bytes a second"):
        topology.fabric.link("broken", 0.0)
