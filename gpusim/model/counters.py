"""What an SM counts, by Nsight Compute's names.

Mental model: two tables an SM group. ``work`` int64[instructions, columns] counts what each SASS
instruction of the program made the SM do, so that a launch's totals are column sums and an attribution to
instructions or source lines adds up by construction. ``counters`` int64[columns] counts what belongs to no
instruction. Derived figures (rates, averages) are the report's business.
"""

from __future__ import annotations

from gpusim.state_tables import Table

# How often an instruction issued is in ``stalls[:, SELECTED]``. What is counted together lies together, eight columns
# to a cache line of the host.
WORK_TABLE = Table(__name__, "work", "an instruction of the program", "What it made the SMs do.")
THREAD_INSTRUCTIONS = WORK_TABLE.column(
    "count", "instructions, each counted once a lane that is on", counter="smsp__thread_inst_executed.sum"
)
TAG_WAVEFRONTS = WORK_TABLE.column("cycles", "in the tag stage", counter="l1tex__t_output_wavefronts_pipe_lsu.sum")
DATA_WAVEFRONTS = WORK_TABLE.column("cycles", "in the data stage", counter="l1tex__data_pipe_lsu_wavefronts.sum")
SHARED_LOADS = WORK_TABLE.column(
    "count", "shared-memory loads and atomics", counter="smsp__inst_executed_op_shared_ld.sum"
)
SHARED_STORES = WORK_TABLE.column("count", "shared-memory stores", counter="smsp__inst_executed_op_shared_st.sum")
SHARED_WAVEFRONTS = WORK_TABLE.column(
    "cycles", "in the data stage for shared memory", counter="l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
)
SHARED_CONFLICTS = WORK_TABLE.column(
    "cycles",
    "of these beyond the least that the access could take",
    counter="l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
)
SHUFFLES = WORK_TABLE.column("count", "shuffles", counter="smsp__inst_executed_op_shfl.sum")
LOAD_REQUESTS = WORK_TABLE.column(
    "count", "loads of global memory", counter="l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
)
LOAD_SECTORS = WORK_TABLE.column("sectors", "that they want", counter="l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum")
LOAD_SECTOR_HITS = WORK_TABLE.column(
    "sectors", "of these that were in the L1", counter="l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"
)
STORE_REQUESTS = WORK_TABLE.column(
    "count", "stores to global memory", counter="l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"
)
STORE_SECTORS = WORK_TABLE.column(
    "sectors", "that they write", counter="l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
)
SECTORS_TO_L2 = WORK_TABLE.column(
    "sectors", "of payload sent to the L2", counter="l1tex__m_l1tex2xbar_write_sectors.sum"
)
ATOMIC_REQUESTS = WORK_TABLE.column(
    "count", "atomics and reductions on global memory", counter="l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum"
)
ATOMIC_SECTORS = WORK_TABLE.column(
    "sectors", "that they change", counter="l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum"
)
LOCAL_LOAD_SECTORS = WORK_TABLE.column(
    "sectors", "that loads of local memory want", counter="l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"
)
LOCAL_LOAD_SECTOR_HITS = WORK_TABLE.column(
    "sectors", "of these that were in the L1", counter="l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_hit.sum"
)
LOCAL_STORE_SECTORS = WORK_TABLE.column(
    "sectors", "that stores to local memory write", counter="l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"
)
BULK_INSTRUCTIONS = WORK_TABLE.column(
    "count", "bulk instructions that its tensor memory accelerator took", counter="l1tex__tmain_requests.sum"
)
BULK_REQUESTS = WORK_TABLE.column("count", "requests that it made to the L2 for them", counter="tma__l2_requests.sum")
WORK_NAMES = WORK_TABLE.counters()

COUNTER_TABLE = Table(__name__, "counters", "", "What an SM group counts that belongs to no instruction.")
WARP_CYCLES = COUNTER_TABLE.column("warp cycles", "of resident warps", counter="sm__warps_active.sum")
WARPS = COUNTER_TABLE.column("count", "warps started", counter="sm__warps_launched.sum")
BLOCKS = COUNTER_TABLE.column("count", "blocks started", counter="sm__ctas_launched.sum")
SECTORS_FROM_L2 = COUNTER_TABLE.column(
    "sectors", "that came from the L2", counter="l1tex__m_xbar2l1tex_read_sectors.sum"
)
FILL_PASSES = COUNTER_TABLE.column(
    "cycles", "in the data stage to write lines that came from the L2", counter="l1tex__data_fill_wavefronts.sum"
)
STORE_PADDING = COUNTER_TABLE.column(
    "sectors",
    "by which stores kept the output port longer than their payload",
    counter="l1tex__m_l1tex2xbar_write_padding.sum",
)
POLL_CYCLES = COUNTER_TABLE.column(
    "warp cycles", "from a first decision to go on polling to the last one", counter="sm__warp_cycles_polling.sum"
)
POLL_INSTRUCTIONS = COUNTER_TABLE.column(
    "instructions", "issued in them: further rounds of polling loops", counter="sm__inst_issued_polling.sum"
)
COUNTER_NAMES = COUNTER_TABLE.counters()
