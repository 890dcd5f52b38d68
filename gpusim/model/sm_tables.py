"""What an SM remembers besides its warps: one row an SM, a sub-core, a queue entry; and what enters and leaves a group.

Mental model: one-number registers of the SM's units (when a stage is free, how many requests are out, where a free
list starts). What belongs to a warp or block is in :mod:`gpusim.model.residency`.
"""

from __future__ import annotations

from gpusim.model.messages import MOST_PEERS
from gpusim.state_tables import Table

SM_TABLE = Table(
    __name__, "sms", "an SM", "Its clock, the stages that all its warps share, and the heads of its free lists."
)
NEXT = SM_TABLE.column("cycle", "next in which anything can happen")
LAST = SM_TABLE.column("cycle", "last in which something did")
START_NEXT = SM_TABLE.column("cycle", "of the next block start")
AGE_COUNT = SM_TABLE.column("count", "warps started so far")
QUEUE_NEXT = SM_TABLE.column("cycle", "next in which the LSU can take an instruction from a queue")
QUEUE_FREE = SM_TABLE.column("cycle", "first in which it could, were there one")
QUEUE_TURN = SM_TABLE.column("index", "sub-core served first next time")
BLOCKED = SM_TABLE.column("flag", "the LSU's instruction waits for a free entry")
TAG_FREE = SM_TABLE.column("cycle", "from which the tag stage is free")
DATA_FREE = SM_TABLE.column("cycle", "from which the data stage is free")
DATA_SPARE = SM_TABLE.column("cycles", "of the data stage's latest access that conflicts added, and no fill has used")
PORT_FREE_TICK = SM_TABLE.column("tick", "from which the output port to the crossbar is free")
FILL_FREE_TICK = SM_TABLE.column("tick", "from which the input port from the crossbar is free")
FILL_SECTORS = SM_TABLE.column("sectors", "come from the L2 that wait for a whole pass over the data banks")
FILLED = SM_TABLE.column("flag", "data have come into the L1 since it was last emptied")
SEQUENCE = SM_TABLE.column("count", "requests sent to the L2 so far")
READS_OUT = SM_TABLE.column("count", "requests to the L2 whose data have not come")
WRITES_OUT = SM_TABLE.column("count", "sectors of writes and reductions not acknowledged")
ARRIVALS = SM_TABLE.column("count", "promised responses in the heap")
PENDING_OUT = SM_TABLE.column("count", "entries of the pending request table in use")
TARGETS_OUT = SM_TABLE.column("count", "targets of MSHR entries in use")
FREE_PENDING = SM_TABLE.column("link", "first free entry of ``pending``, 0: none")
USED_PENDING = SM_TABLE.column("count", "entries of it that have ever been used")
FREE_ENTRY = SM_TABLE.column("link", "first free entry of ``entries``, 0: none")
USED_ENTRY = SM_TABLE.column("count", "entries of it that have ever been used")
FREE_TARGET = SM_TABLE.column("link", "first free entry of ``targets``, 0: none")
USED_TARGET = SM_TABLE.column("count", "entries of it that have ever been used")
FREE_REQUEST = SM_TABLE.column("link", "first free entry of ``requests``, 0: none")
USED_REQUEST = SM_TABLE.column("count", "entries of it that have ever been used")
RESIDENT_BLOCKS = SM_TABLE.column("count", "blocks on the SM")
CODE_PORT_FREE = SM_TABLE.column("cycle", "from which the L1 instruction cache can give a line that a warp waits for")
CODE_STREAM_FREE = SM_TABLE.column("cycle", "from which it can give one to a stream buffer")
CODE_READ = SM_TABLE.column("index", "behind the last line of code that the L1 has asked for since the launch began")
TMA_NEXT = SM_TABLE.column("cycle", "next in which the tensor memory accelerator can make a request")
TMA_HEAD = SM_TABLE.column("index", "oldest bulk instruction in its queue")
TMA_COUNT = SM_TABLE.column("count", "bulk instructions there")
TMA_FED = SM_TABLE.column("count", "of them, from the oldest on, that have nothing more to ask for")
TMA_OUT = SM_TABLE.column("count", "its unanswered requests")
TENSOR_UNIT_FREE = SM_TABLE.column("tick", "from which the tensor core that works on tensor memory is free")
TENSOR_DONE_TICK = SM_TABLE.column("tick", "at which the latest of what it was asked for is done")
COMMITS_OUT = SM_TABLE.column("count", "commits that wait for that")
SUSPENDED_WARPS = SM_TABLE.column("count", "warps that wait for a phase of an mbarrier")
PEERS_OUT = SM_TABLE.column("count", "messages of other blocks of clusters in ``peers``")
PEER_IN_TICK = SM_TABLE.column("tick", "from which its port to the network between SMs can take data in")
PEER_OUT_TICK = SM_TABLE.column("tick", "from which that port can send data out")
PEER_NEXT = SM_TABLE.column("cycle", "of the first of them")
PIPE_TURN = SM_TABLE.column(
    "index", "sub-core that issues first: behind the one that last took a pipe which they share"
)

LSU_TABLE = Table(__name__, "lsu", "an SM", "The instruction that its LSU has taken from a queue.")
LSU_BUSY = LSU_TABLE.column("flag", "there is one")
LSU_WARP = LSU_TABLE.column("index", "that issued it")
LSU_PC = LSU_TABLE.column("index", "of the instruction")
LSU_MASK = LSU_TABLE.column("mask", "lanes that access memory")
LSU_LINES = LSU_TABLE.column("count", "lines in ``lines``")
LSU_TAG_CYCLES = LSU_TABLE.column("cycles", "that it takes in the tag stage")
LSU_DATA_CYCLES = LSU_TABLE.column("cycles", "that it takes in the data stage")
LSU_RETURNS = LSU_TABLE.column(
    "count", "of passes over the data banks that take the way to the registers, or from them"
)
LSU_SPACE = LSU_TABLE.column("code", "memory space, resolved: GENERIC never stands here")
LSU_ACCESS = LSU_TABLE.column("index", "its first access record")
LSU_SIGNAL = LSU_TABLE.column("index", "1 + first row of ``tables.signals`` of its access; 0: none")
LSU_GROUP = LSU_TABLE.column("index", "asynchronous copies: 1 + the copy group's entry")
LSU_REMOTE = LSU_TABLE.column(
    "index", "1 + rank of the other block of the cluster whose shared memory it reaches; 0: of none"
)
LSU_REMOTE_SECTORS = LSU_TABLE.column("count", "sectors that it reads or writes there")

QUEUE_TABLE = Table(__name__, "queue", "an entry of a sub-core's memory queue", "A memory instruction that has issued.")
Q_WARP = QUEUE_TABLE.column("index", "that issued it")
Q_PC = QUEUE_TABLE.column("index", "of the instruction")
Q_ACCESS = QUEUE_TABLE.column("index", "its first access record")
Q_MASK = QUEUE_TABLE.column("mask", "lanes that are on")
Q_GROUP = QUEUE_TABLE.column("index", "asynchronous copies: 1 + the copy group's entry")
Q_READY = QUEUE_TABLE.column("cycle", "from which the LSU can take it")

SUB_TABLE = Table(
    __name__, "subs", "a sub-core", "What it remembers besides its warps, ports and register file.", whole_lines=True
)
LAST_WARP = SUB_TABLE.column("index", "warp that issued last unless it yields, -1")
QUEUE_HEAD = SUB_TABLE.column("index", "oldest entry of its memory queue")
QUEUE_COUNT = SUB_TABLE.column("count", "entries there")
HOLD = SUB_TABLE.column("cycle", "until which operand reads keep it from issuing; 0: none do")
HELD_FROM = SUB_TABLE.column("cycle", "from which they do")
ADDRESS_FREE = SUB_TABLE.column(
    "cycle", "from which it works out another memory instruction's addresses, or collects its registers"
)
TENSOR_FREE_TICK = SUB_TABLE.column("tick", "of its tensor core's clock, from which that is free")
TENSOR_LATE = SUB_TABLE.column(
    "ticks", "by which that clock is behind: other instructions' writes took them from write-back"
)
TENSOR_PRODUCT_TICKS = SUB_TABLE.column("ticks", "interval of the products (wgmma) that it works on; 0: of none")
TENSOR_SPARE = SUB_TABLE.column("ticks", "of write-back that others may take and products are not late")
TENSOR_SPARE_MOST = SUB_TABLE.column("ticks", "the most that this comes to")
TENSOR_SPARE_TICK = SUB_TABLE.column("tick", "of its clock, for which that holds")

START_TABLE = Table(__name__, "starts", "a block slot", "The block that is to start there.")
S_CYCLE = START_TABLE.column("cycle", "of the start; NEVER: none is to start")
S_BLOCK = START_TABLE.column("index", "in the grid")
S_WARP_ROW = START_TABLE.column("index", "where its warps begin in the trace's tables")
S_CLUSTER = START_TABLE.column("index", "its cluster, of those of the grid")
S_CLUSTER_BLOCKS = START_TABLE.column("count", "blocks of the cluster; 0: the launch has none")
S_RANK = START_TABLE.column("index", "of the block in its cluster")
S_PEERS = START_TABLE.column("packed", "where each block of the cluster is: SM << PLACE_SHIFT | slot", span=MOST_PEERS)
S_WARPS = START_TABLE.column("count", "of the block")
S_FIRST_WARP = START_TABLE.column("index", "warp slot of the SM with which they begin")
S_GRID = START_TABLE.column("index", "of the chain")
S_HELD = START_TABLE.column("cycle", "at which the grid before has completed; NEVER: not known yet")

PEER_TABLE = Table(__name__, "peers", "a message of another block of a cluster", "What is on its way to an SM.")
P_CYCLE = PEER_TABLE.column("cycle", "of its arrival")
P_SLOT = PEER_TABLE.column("index", "block slot that it is for")
P_CLUSTER = PEER_TABLE.column("index", "that sender and receiver belong to")
P_KIND = PEER_TABLE.column("code", "PEER_ARRIVED, PEER_ENDED or PEER_WROTE")
P_VALUE = PEER_TABLE.column("index", "rank of the sender; of PEER_WROTE a row of ``tables.signals``")

EXIT_TABLE = Table(__name__, "exits", "a block", "A block that ended in this window, or let the dependent grid begin.")
E_CYCLE = EXIT_TABLE.column("cycle", "of its end")
E_SM = EXIT_TABLE.column("index", "of the machine")
E_SLOT = EXIT_TABLE.column("index", "block slot of the SM")
E_BLOCK = EXIT_TABLE.column("index", "in the grid")
E_KIND = EXIT_TABLE.column("code", "ENDED, ENDED_WRITING, GOES_ON or FLUSHED")

REPORT_TABLE = Table(__name__, "report", "", "What an advance of a group hands back.")
R_REQUESTS = REPORT_TABLE.column("count", "requests in ``out``")
R_EXITS = REPORT_TABLE.column("count", "blocks in ``exits``")
R_NEXT_CYCLE = REPORT_TABLE.column("cycle", "next in which anything can happen in the group")
R_PEERS = REPORT_TABLE.column("count", "messages in ``peers_sent``")
R_LAST_CYCLE = REPORT_TABLE.column("cycle", "last response or block end of the launch")
