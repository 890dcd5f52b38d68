"""Kernels' names: what each library's own spelling says, and that no name costs more than its length."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.io.cpp_names import demangled
from gpusim.production.names import communication, compilers, frameworks, keywords, products, split, templates
from gpusim.production.names.kernel_name import FAMILIES, FIELDS, UNKNOWN, KernelName
from gpusim.production.names.parse import parse_name, parse_names
from gpusim.production.names.shortened import WHOLE, shortened
from gpusim.production.names.split import MOST_LETTERS, split_name

#: Names as profilers write them: family, operation, library, dtype, tile, architecture.
NAMES = {
    "ampere_sgemm_128x64_tn": "matrix_product gemm cublas fp32 128x64 sm80",
    "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn": "matrix_product gemm cublas fp16 128x128 sm70",
    "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn": "matrix_product gemm cublas bf16 128x256x64 sm80",
    "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT": "matrix_product gemm cublas fp16 128x256x64 sm90",
    "nvjet_sm100_tst_64x32_64x16_2x1_2cta_h_bz_splitK_TNT": "matrix_product gemm_split_k cublas bf16 64x32x64 sm100",
    "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32_stage4_warpsize2x2x1_tensor16x8x16_kernel": "matrix_product gemm cublas fp16 128x128x32 sm80",
    "sm89_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x64_stage4_warpsize2x2x1_tensor16x8x32_execute_kernel__5x_cublas": "matrix_product gemm cublas fp8_e4m3 128x128x64 sm89",
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x128x32_stage5_warpsize2x2x1_g1_tensor16x8x8_execute_kernel_cudnn_infer": "convolution fprop cudnn tf32 64x128x32 sm80",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8::Params)": "matrix_product gemm cublas bf16 256x128x32 sm80",
    "cutlass3x_sm90_tensorop_s64x256x16gemm_bf16_bf16_f32_bf16_bf16_128x256x64_2x1x1_0_tnn_align8_warpspecialized_cooperative": "matrix_product gemm cutlass bf16 128x256x64 sm90",
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<7, cute::tuple<cute::C<2>, cute::C<1>, cute::C<1> >, cutlass::gemm::KernelTmaWarpSpecializedCooperative>, cute::tuple<cute::C<128>, cute::C<128>, cute::C<64> >, cutlass::bfloat16_t, cute::tuple<long, cute::C<1>, long>": "matrix_product gemm cutlass bf16 128x128x64 sm90",
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, float, true, true, false>(cublasLt::cublasSplitKParams<float>, float const*)": "matrix_product split_k_reduce cublas fp32 ? ?",
    "void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128, 16, 4, 4, false, false>(float)": "matrix_product gemv cublas bf16 ? ?",
    "bmm_E4m3_E4m3E4m3_Fp32_t128x64x128u2_s6_et64x64_m64x64x32_cga1x1x1_16dp256b_TN_transOut_schedS_sm100a": "matrix_product bmm tensorrt_llm fp8_e4m3 128x64x128 sm100a",
    "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false, false, true>(int, int)": "convolution convolution cudnn fp32 ? ?",
    "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(cudnn::winograd_nonfused::Params)": "convolution winograd cudnn fp32 ? ?",
    "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float)": "normalisation batch_norm_backward cudnn fp32 ? ?",
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t, Flash_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t> >, false, false>(flash::Flash_fwd_params)": "attention flash_forward flash_attention bf16 128x64x128 ?",
    "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<(int)128, (int)64, (int)128, (int)4, (bool)0, (bool)0, cutlass::half_t": "attention flash_split_kv flash_attention fp16 64x128x128 ?",
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, cute::tuple<cute::C<128>, cute::C<80>, cute::C<256> >, 256, cutlass::bfloat16_t, float": "attention flash_forward flash_attention bf16 128x80x256 sm90",
    "fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::half_t, cutlass::arch::Sm80, true, 64, 64, 64, true, true>::Params)": "attention efficient_forward cutlass fp16 64x64 sm80",
    "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u, 4u, 8u, 16u, 1u, 8u, __half>(int)": "attention decode flashinfer fp16 ? ?",
    "void flashinfer::norm::RMSNormKernel<(unsigned int)8, __half>(T2 *, T2 *, T2 *)": "normalisation rms_norm flashinfer fp16 ? ?",
    "void vllm::paged_attention_v1_kernel<__nv_bfloat16, __nv_bfloat16, 128, 16, 128>(float*)": "attention paged vllm bf16 ? ?",
    "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>(int)": "kv_cache write vllm bf16 ? ?",
    "std::enable_if<((8)>(0))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)": "normalisation rms_norm vllm bf16 ? ?",
    "fused_moe_kernel": "mixture_of_experts gemm ? ? ? ?",
    "triton_poi_fused_add_mul_silu_3": "elementwise add_mul_silu inductor ? ? ?",
    "triton_per_fused_native_layer_norm_7": "normalisation native_layer_norm inductor ? ? ?",
    "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0": "reduction mean inductor ? ? ?",
    "triton_tem_fused_mm_12": "matrix_product mm inductor ? ? ?",
    "triton__0d1d2d3d": "? ? inductor ? ? ?",
    "matmul_kernel_0d1d2d3d4d5d6d7c8d9c10d11c": "matrix_product gemm triton ? ? ?",
    "loop_add_fusion_12": "elementwise add xla ? ? ?",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "communication all_reduce nccl bf16 ? ?",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)": "communication all_reduce nccl fp32 ? ?",
    "ncclDevKernel_Generic(ncclDevComm*, unsigned long, ncclWork*)": "communication ? nccl ? ? ?",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(int)": "communication all_reduce vllm bf16 ? ?",
    "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >, at::detail::Array<char*, 2> >(int)": "elementwise mul pytorch fp32 ? ?",
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}>(at::TensorIteratorBase&)::{lambda(int)#1}>(int)": "copy direct_copy pytorch fp32 ? ?",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<double, at::native::func_wrapper_t<double, at::native::sum_functor<double, double, double>::operator()(at::TensorIterator&)::{lambda(double, double)#1}>, unsigned int, double, 4> >(int)": "reduction sum pytorch fp64 ? ?",
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<long, unsigned int, 2, 128, 1>(long*)": "layout concatenate pytorch int64 ? ?",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>, float const*>(int)": "optimizer adam pytorch fp32 ? ?",
    "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float>(int, int volatile*)": "optimizer adam apex fp32 ? ?",
    "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4, void at::native::templates::cuda::normal_and_transform<float, float>(int)": "random normal pytorch fp32 ? ?",
    "void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int, int>::Policy800, false, long, int, int, int>(int*)": "sort_scan radix_sort cub int64 ? ?",
    "void fbgemm_gpu::permute_2D_data_kernel<true, int, int, float>(int)": "embedding permute fbgemm fp32 ? ?",
    "void marlin_moe_wna16::Marlin<(long)1125899906909960, (long)5629499": "mixture_of_experts gemm ? ? ? ?",
    "void at::native::elementwise_kernel<128, 2, at::nati...": "elementwise ? pytorch ? ? ?",
    "void <unnamed>::sparse_attention_kernel<(bool)1>(<unnamed>::SparseAttentionParams)": "attention attention ? ? ? ?",
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 3)]::operator ()() const::[lambda(long) (instance 1)]>(int)": "copy direct_copy pytorch int64 ? ?",
    "MemcpyD2H": "copy device_to_host driver ? ? ?",
    "Memcpy HtoD (Pinned -> Device)": "copy host_to_device driver ? ? ?",
    "[CUDA memcpy Device-to-Host]": "copy device_to_host driver ? ? ?",
    "Memset (Device)": "fill memset driver ? ? ?",
    "my_secret_kernel": "? ? ? ? ? ?",
    "": "? ? ? ? ? ?",
}
MODULES = (communication, compilers, frameworks, keywords, products, split, templates)


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:48] or "empty")
def test_a_name_says_what_it_says(name: str) -> None:
    found = parse_name(name)
    said = (found.family, found.operation, found.library, found.dtype, found.tile, found.architecture)
    assert " ".join(said).replace(UNKNOWN, "?") == NAMES[name]


def test_names_that_set_nothing_have_their_family() -> None:
    """Written down from what libraries call their kernels before the parser had read them (189 of 203 were right at
    once, and 83 of the 87 of which none had been looked at)."""
    lines = (Path(__file__).parent / "names_of_libraries.tsv").read_text().splitlines()
    families = {name: family.split("|") for family, name in (line.split("\t") for line in lines)}
    said = parse_names(families)
    assert {name: said[name].family for name, each in families.items() if said[name].family not in each} == {}


def test_the_rest_of_what_products_say() -> None:
    nvjet = parse_name("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT")
    assert (nvjet.accumulator, nvjet.stages, nvjet.cluster, nvjet.layout) == ("fp32", "4", "1x2", "nnt")
    xmma = parse_name("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas")  # fmt: skip
    assert (xmma.unit, xmma.stages, xmma.accumulator, xmma.layout) == ("simt", "3", "fp32", "tn")
    # Of m16n8k8 only the TF32 form has operands of 32 bits; the name of CUTLASS then says no type.
    cutlass = parse_name("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1>(int)")
    assert (cutlass.dtype, cutlass.accumulator, cutlass.stages, cutlass.unit) == ("tf32", "fp32", "4", "tensor core")


def test_a_name_is_shortened_for_a_table() -> None:
    long = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int, char*)"
    assert shortened(long) == "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunct...>(...)"
    assert shortened("void k<int>(int*)") == "void k<int>(int*)"
    assert (
        len(shortened("a" * 9999)) == WHOLE
        and len(shortened("<" * 9999)) <= WHOLE
        and len(shortened(">" * 9999)) <= WHOLE
    )


def test_mangled_symbols() -> None:
    symbol = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIlEESt5arrayIPcLm1EEEEviT0_T1_"
    conv = "_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_11threadblock22ImplicitGemmMultistageINS_4gemm9GemmShapeILi64ELi128ELi32EEE"  # fmt: skip
    found = parse_name(symbol)
    assert (found.family, found.operation, found.library) == ("fill", "fill", "pytorch")
    assert parse_name(conv).tile == "64x128x32" and parse_name(conv).library == "cudnn"
    grouped = "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalINS1_17GroupProblemShapeIN4cute5tupleIJiiiEEEEENS1_10collective13CollectiveMmaINS1_40MainloopSm90ArrayTmaGmmaWarpSpecializedILi8ENS5_IJNS4_1CILi2EEENSC_ILi1EEESE_EEENS1_"  # fmt: skip
    assert parse_name(grouped).operation == "grouped_gemm" and parse_name(grouped).stages == "8"
    if demangled((symbol,)):  # where there is a demangler, built-in types are told too
        assert parse_names([symbol])[symbol].dtype == "int64"


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200) | st.from_regex(r"(_Z[A-Z0-9a-z_]{0,60}|[a-z_0-9x<>(),: ]{0,80})", fullmatch=True))
def test_any_text_is_a_name(name: str) -> None:
    found = parse_name(name)
    assert isinstance(found, KernelName) and found.family in FAMILIES
    assert all(isinstance(getattr(found, field), str) and getattr(found, field) for field in FIELDS)


ADVERSARIAL = (
    "<", ">", "(", "<>", "a<b>::", "::", "_", "0x0_", "1", "A", "Ab", "aA", "S1_", "Li1E", "1a", "99999999", "L", "tuple C 1 ", "GemmShape ",
    "cutlass_80_", "triton_poi_", "_0d1d", "e4m3", "int ", "unsigned long long ", "{lambda()#1}", "(anonymous namespace)::", " ",
    "16816gemm", "x", "nvjet_", "FlashAttn",
)  # fmt: skip
HEADS = (
    "",
    "_Z",
    "_ZN",
    "void a<",
    "nvjet_",
    "sm80_xmma_gemm_",
    "void cutlass::Kernel<",
    "triton_",
    "ampere_",
    "void flash::f<",
    "k_0d",
)


def steps(call, *arguments) -> int:
    """Lines of Python that a call executes."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call(*arguments)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("piece", ADVERSARIAL)
def test_work_grows_with_the_length_at_most(piece: str) -> None:
    for head in HEADS:
        one, two = (head + piece * (letters // len(piece)) for letters in (500, 2000))
        short, long = (steps(parse_name.__wrapped__, name) for name in (one, two))
        assert long < 5 * short + 400, head


def test_what_is_too_long_is_cut() -> None:
    name = "void k<" + "a::b<" * (1 << 20)
    assert len(split_name(name).text) <= MOST_LETTERS and len(parse_name(name).function) <= 120


def test_no_pattern_can_backtrack() -> None:
    """An unbounded repetition holds no other repetition."""
    patterns = [each for module in MODULES for each in vars(module).values() if isinstance(each, re.Pattern)]
    assert len(patterns) >= 5
    for pattern in patterns:
        tree = re._parser.parse(pattern.pattern)  # type: ignore[attr-defined]
        assert not nested(tree), pattern.pattern


def nested(tree, inside: bool = False) -> bool:
    repeats = ("MAX_REPEAT", "MIN_REPEAT")
    for code, argument in tree:
        kind = str(code)
        if kind in repeats:
            unbounded = int(argument[1]) > 100
            if inside or nested(argument[2], unbounded):
                return True
        elif kind == "SUBPATTERN" and nested(argument[3], inside):
            return True
        elif kind == "BRANCH" and any(nested(each, inside) for each in argument[1]):
            return True
    return False
