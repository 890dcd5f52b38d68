"""What an SM counts, by Nsight Compute's names.

Mental model: two tables an SM group. ``work`` int64[instructions, WORK_COLUMNS] counts what each SASS
instruction of the program made the SM do, so that a launch's totals are column sums and an attribution to
instructions or source lines adds up by construction. ``counters`` int64[COUNT] counts what belongs to no
instruction. Derived figures (rates, averages) are the report's business.
"""

from __future__ import annotations

# columns of ``work``; how often the instruction issued is in ``stalls[:, SELECTED]``. What is counted together lies
# together, eight to a cache line of the host.
(
    THREAD_INSTRUCTIONS,
    TAG_WAVEFRONTS,
    DATA_WAVEFRONTS,
    SHARED_LOADS,
    SHARED_STORES,
    SHARED_WAVEFRONTS,
    SHARED_CONFLICTS,
    SHUFFLES,
    LOAD_REQUESTS,
    LOAD_SECTORS,
    LOAD_SECTOR_HITS,
    STORE_REQUESTS,
    STORE_SECTORS,
    SECTORS_TO_L2,
    ATOMIC_REQUESTS,
    ATOMIC_SECTORS,
    LOCAL_LOAD_SECTORS,
    LOCAL_LOAD_SECTOR_HITS,
    LOCAL_STORE_SECTORS,
    WORK_COLUMNS,
) = range(20)

WORK_NAMES = (
    "smsp__thread_inst_executed.sum",
    "l1tex__t_output_wavefronts_pipe_lsu.sum",
    "l1tex__data_pipe_lsu_wavefronts.sum",
    "smsp__inst_executed_op_shared_ld.sum",
    "smsp__inst_executed_op_shared_st.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "smsp__inst_executed_op_shfl.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l1tex__m_l1tex2xbar_write_sectors.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_hit.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
)

# ``counters``
(
    WARP_CYCLES,  # resident warp-cycles
    WARPS,
    BLOCKS,
    SECTORS_FROM_L2,
    COUNT,
) = range(5)

COUNTER_NAMES = (
    "sm__warps_active.sum",
    "sm__warps_launched.sum",
    "sm__ctas_launched.sum",
    "l1tex__m_xbar2l1tex_read_sectors.sum",
)
