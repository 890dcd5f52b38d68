"""The parts of the emulated driver beside its core, joined.

Mental model: each part is an object whose marked methods are entry points; what one needs of another it is given here.
"""

from __future__ import annotations

from gpusim.driver.arrays import Arrays
from gpusim.driver.box_copies import BoxCopies
from gpusim.driver.capture_calls import CaptureCalls
from gpusim.driver.captures import Captures
from gpusim.driver.conditions import Conditions
from gpusim.driver.contexts import Contexts
from gpusim.driver.copies import Copies
from gpusim.driver.device import Device
from gpusim.driver.device_facts import DeviceFacts
from gpusim.driver.events import Events
from gpusim.driver.executor import Executor
from gpusim.driver.export_tables import ExportTables
from gpusim.driver.fills import Fills
from gpusim.driver.graph_calls import Graphs
from gpusim.driver.graph_memory import GraphMemory
from gpusim.driver.graph_nodes import NodeWorks
from gpusim.driver.graph_parameters import GraphParameters
from gpusim.driver.graph_runs import GraphRuns
from gpusim.driver.ipc import InterProcess
from gpusim.driver.launches import Launches
from gpusim.driver.links import Links
from gpusim.driver.managed import Managed
from gpusim.driver.memory import Memory
from gpusim.driver.memory_operations import MemoryOperationCalls
from gpusim.driver.modules import Modules
from gpusim.driver.peers import Peers
from gpusim.driver.pointers import Pointers
from gpusim.driver.pools import Pools
from gpusim.driver.streams import Streams
from gpusim.driver.tensor_maps import TensorMaps
from gpusim.driver.textures import Textures
from gpusim.driver.user_objects import UserObjects
from gpusim.driver.virtual_memory import VirtualMemory


def make_parts(
    device: Device,
    contexts: Contexts,
    memory: Memory,
    modules: Modules,
    launches: Launches,
    streams: Streams,
    captures: Captures,
    executor: Executor,
) -> tuple[object, ...]:
    """Every part with entry points that is made of these."""
    submit = streams.submit
    events = Events(contexts, streams, captures)
    arrays = Arrays(memory)
    copies, fills = Copies(memory, contexts, submit, launches.synchronized), Fills(memory, submit)
    box_copies = BoxCopies(memory, arrays, contexts, submit)
    operations = MemoryOperationCalls(memory, submit)
    pools = Pools(memory, contexts, submit)
    graph_memory = GraphMemory(memory, contexts, captures, pools.free)
    objects = UserObjects()
    graphs = Graphs(graph_memory, objects, contexts.here)
    runs = GraphRuns(graphs, graph_memory, objects, streams, executor)
    conditions = Conditions(graphs)
    launches.set_condition = conditions.set
    works = NodeWorks(launches, box_copies, memory, events, operations, graph_memory, graphs.graph, conditions)
    launches.streams, launches.record_event = streams, events.record

    def synchronized(device: int) -> None:
        pools.release(device)
        launches.settle()
        launches.synchronized(device)

    events.on_wait = launches.waits
    streams.on_synchronize, streams.on_other_work = synchronized, launches.settle
    pools.capture_allocation, pools.capture_free = graph_memory.capture_allocation, graph_memory.capture_free
    return (
        DeviceFacts(contexts), Peers(contexts), events, arrays, copies, fills, box_copies, operations, pools, graph_memory, objects, graphs, runs,
        GraphParameters(graphs, runs, works), conditions, CaptureCalls(streams, captures, graphs), Managed(memory, contexts, submit),
        VirtualMemory(memory, contexts), Pointers(memory, contexts, pools), Links(device), TensorMaps(device), Textures(memory, arrays),
        InterProcess(memory, events, pools), ExportTables(contexts, modules),
    )  # fmt: skip
