"""Products of the CuTe DSL that use the tensor memory accelerator and tensor memory (sm_100), for tests. Import it
where the DSL is installed."""

import cutlass  # pyright: ignore[reportMissingImports]
from cutlass import cute, pipeline, utils  # pyright: ignore[reportMissingImports]
from cutlass.cute.nvgpu import cpasync, tcgen05  # pyright: ignore[reportMissingImports]
from cutlass.utils import blackwell_helpers  # pyright: ignore[reportMissingImports]

ROWS, COLUMNS, DEPTH, STAGES, THREADS = 128, 64, 64, 2, 128
TILE = (ROWS, COLUMNS, DEPTH)


@cute.struct
class Shared:
    full_and_empty: cute.struct.MemRange[cutlass.Int64, 2 * STAGES]
    sums: cute.struct.MemRange[cutlass.Int64, 2]
    place: cutlass.Int32


@cute.kernel
def product_kernel(
    tiled: cute.TiledMma,
    atom_a: cute.CopyAtom,
    a: cute.Tensor,
    atom_b: cute.CopyAtom,
    b: cute.Tensor,
    c: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
):
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    row, column, _ = cute.arch.block_idx()
    allocator = utils.SmemAllocator()
    shared = allocator.allocate(Shared)
    tile_a = allocator.allocate_tensor(cutlass.Float16, layout_a.outer, byte_alignment=128, swizzle=layout_a.inner)
    tile_b = allocator.allocate_tensor(cutlass.Float16, layout_b.outer, byte_alignment=128, swizzle=layout_b.inner)
    memory = utils.TmemAllocator(
        shared.place, barrier_for_retrieve=pipeline.NamedBarrier(barrier_id=1, num_threads=THREADS)
    )
    memory.allocate(COLUMNS)
    one, all_of_them = (
        pipeline.CooperativeGroup(pipeline.Agent.Thread),
        pipeline.CooperativeGroup(pipeline.Agent.Thread, THREADS),
    )
    arriving = cute.size_in_bytes(cutlass.Float16, cute.select(layout_a, mode=[0, 1, 2]))
    arriving += cute.size_in_bytes(cutlass.Float16, cute.select(layout_b, mode=[0, 1, 2]))
    producer, consumer = pipeline.PipelineTmaUmma.create(
        num_stages=STAGES, producer_group=one, consumer_group=one, tx_count=arriving,
        barrier_storage=shared.full_and_empty.data_ptr(),
    ).make_participants()  # fmt: skip
    sums_producer, sums_consumer = pipeline.PipelineUmmaAsync.create(
        num_stages=1, producer_group=one, consumer_group=all_of_them, barrier_storage=shared.sums.data_ptr()
    ).make_participants()
    mine = tiled.get_slice(0)
    part_a = mine.partition_A(cute.local_tile(a, TILE, (row, column, None), proj=(1, None, 1)))
    part_b = mine.partition_B(cute.local_tile(b, TILE, (row, column, None), proj=(None, 1, 1)))
    part_c = mine.partition_C(cute.local_tile(c, TILE, (row, column, None), proj=(1, 1, None)))
    operand_a, operand_b = tiled.make_fragment_A(tile_a), tiled.make_fragment_B(tile_b)
    sums = tiled.make_fragment_C(tiled.partition_shape_C(TILE[:2]))
    to_a, from_a = cpasync.tma_partition(
        atom_a, 0, cute.make_layout(1), cute.group_modes(tile_a, 0, 3), cute.group_modes(part_a, 0, 3)
    )
    to_b, from_b = cpasync.tma_partition(
        atom_b, 0, cute.make_layout(1), cute.group_modes(tile_b, 0, 3), cute.group_modes(part_b, 0, 3)
    )
    memory.wait_for_alloc()
    place = memory.retrieve_ptr(cutlass.Float32)
    sums = cute.make_tensor(place, sums.layout)
    tile = ((cute.size(sums, mode=[0, 0]), cute.size(sums, mode=[0, 1])),)
    pieces, results = cute.zipped_divide(sums, tile), cute.zipped_divide(part_c, tile)
    load = tcgen05.make_tmem_copy(
        cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x64), cutlass.Float32), pieces[None, 0]
    )
    own = load.get_slice(thread)
    own_sums, own_results = own.partition_S(pieces), own.partition_D(results)
    registers = cute.make_rmem_tensor(own_results[None, None, 0].shape, cutlass.Float32)
    if warp == 0:
        empty = sums_producer.acquire_and_advance()
        for _ in cutlass.range(cute.size(part_a, mode=[3]), prefetch_stages=STAGES - 2):
            slot = producer.acquire_and_advance()
            cute.copy(atom_a, from_a[(None, slot.count)], to_a[(None, slot.index)], tma_bar_ptr=slot.barrier)
            cute.copy(atom_b, from_b[(None, slot.count)], to_b[(None, slot.index)], tma_bar_ptr=slot.barrier)
            full = consumer.wait_and_advance()
            for k in cutlass.range_constexpr(cute.size(operand_a, mode=[2])):
                at = (None, None, k, full.index)
                cute.gemm(tiled, sums, operand_a[at], operand_b[at], sums)
                tiled.set(tcgen05.Field.ACCUMULATE, True)
            full.release()
        empty.commit()
    memory.relinquish_alloc_permit()
    ready = sums_consumer.wait_and_advance()
    for i in cutlass.range(cute.size(own_sums, mode=[2])):
        cute.copy(load, own_sums[None, None, i], registers)
        cute.autovec_copy(registers, own_results[None, None, i])
    ready.release()
    pipeline.sync(barrier_id=1)
    memory.free(place)


@cute.jit
def product(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    """C = A B^T, by TMA and tcgen05: A of m x k, B of n x k halves, C of m x n float32."""
    major = tcgen05.OperandMajorMode.K
    tiled = cute.make_tiled_mma(
        tcgen05.MmaF16BF16Op(
            cutlass.Float16,
            cutlass.Float32,
            (ROWS, COLUMNS, 16),
            tcgen05.CtaGroup.ONE,
            tcgen05.OperandSource.SMEM,
            major,
            major,
        )
    )
    layout_a = blackwell_helpers.make_smem_layout_a(tiled, TILE, cutlass.Float16, STAGES)
    layout_b = blackwell_helpers.make_smem_layout_b(tiled, TILE, cutlass.Float16, STAGES)
    load = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
    one_a, one_b = cute.select(layout_a, mode=[0, 1, 2]), cute.select(layout_b, mode=[0, 1, 2])
    atom_a, tensor_a = cute.nvgpu.make_tiled_tma_atom_A(load, a, one_a, TILE, tiled)
    atom_b, tensor_b = cute.nvgpu.make_tiled_tma_atom_B(load, b, one_b, TILE, tiled)
    m, n = c.shape
    product_kernel(tiled, atom_a, tensor_a, atom_b, tensor_b, c, layout_a, layout_b).launch(
        grid=(m // ROWS, n // COLUMNS, 1), block=(THREADS, 1, 1)
    )
