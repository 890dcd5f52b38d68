"""What an SM counts, by Nsight Compute's names.

Mental model: one int64 row an SM group; a component adds to ``counters[NAME]`` by index, and the engine
reports them by ``COUNTER_NAMES``. Derived figures (rates, averages) are the report's business.
"""

from __future__ import annotations

(
    INSTRUCTIONS,
    THREAD_INSTRUCTIONS,
    LOAD_REQUESTS,
    LOAD_SECTORS,
    LOAD_SECTOR_HITS,
    STORE_REQUESTS,
    STORE_SECTORS,
    ATOMIC_REQUESTS,
    ATOMIC_SECTORS,
    LOCAL_LOAD_SECTORS,
    LOCAL_STORE_SECTORS,
    TAG_WAVEFRONTS,
    DATA_WAVEFRONTS,
    SHARED_LOADS,
    SHARED_STORES,
    SHARED_WAVEFRONTS,
    SHARED_CONFLICTS,
    WARP_CYCLES,  # resident warp-cycles
    WARPS,
    BLOCKS,
    SECTORS_FROM_L2,
    SECTORS_TO_L2,
    SHUFFLES,
    COUNT,
) = range(24)

COUNTER_NAMES = (
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
    "l1tex__t_output_wavefronts_pipe_lsu.sum",
    "l1tex__data_pipe_lsu_wavefronts.sum",
    "smsp__inst_executed_op_shared_ld.sum",
    "smsp__inst_executed_op_shared_st.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "sm__warps_active.sum",
    "sm__warps_launched.sum",
    "sm__ctas_launched.sum",
    "l1tex__m_xbar2l1tex_read_sectors.sum",
    "l1tex__m_l1tex2xbar_write_sectors.sum",
    "smsp__inst_executed_op_shfl.sum",
)
