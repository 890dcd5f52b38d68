"""What the words of a function's name say, where no library's own rule reads it.

Mental model: people call kernels by what they do. The letters of a name, without its underscores and capitals, are
looked through for a list of fragments in an order in which the more special come first (``softmax`` in ``topk_softmax``
is a gate of experts); short ones count as whole words only, since letters of two words that stand side by side make
others. Namespaces name the library.
"""

from __future__ import annotations

from functools import lru_cache

from gpusim.production.names.kernel_name import UNKNOWN, KernelName
from gpusim.production.names.split import SplitName, parts_of
from gpusim.production.names.types import type_of

#: family, then fragments -> operation; a fragment that begins with "=" is a whole word, or several with "_" between
#: them.
_FRAGMENTS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("kv_cache", (("reshapeandcache", "write"), ("concatandcache", "write"), ("appendpagedkv", "write"), ("setkvbuffer", "write"),
                  ("storekvcache", "write"), ("copyblocks", "copy"), ("swapblocks", "copy"), ("setmlakv", "write"),
                  ("gathercache", "gather"), ("cachegather", "gather"))),
    ("mixture_of_experts", (("fusedmoe", "gemm"), ("topkgating", "gate"), ("topksoftmax", "gate"), ("moe", "moe"), ("expert", "expert"),
                            ("groupedtopk", "gate"), ("expandinputrows", "expand"), ("permutetokens", "permute"), ("unpermute", "permute"))),
    ("position_embedding", (("rotary", "rotary"), ("applyrope", "rotary"), ("=rope", "rotary"), ("qknormrope", "rotary"))),
    ("attention", (("pagedattention", "paged"), ("batchdecode", "decode"), ("singledecode", "decode"), ("batchprefill", "prefill"),
                   ("singleprefill", "prefill"), ("prefillwithkv", "prefill"), ("mergestate", "merge"), ("mergeattnstate", "merge"),
                   ("variablelengthmerge", "merge"), ("unifiedattention", "unified"), ("decodeattention", "decode"), ("flashattn", "flash"),
                   ("flashattention", "flash"), ("flashmla", "flash"), ("fmha", "fmha"), ("mhafwd", "fmha"), ("mhabwd", "fmha"),
                   ("sdpa", "sdpa"), ("attention", "attention"), ("attn", "attention"), ("=mla", "mla"), ("pageddecode", "decode"), ("=gqa", "gqa"), ("=mha", "mha"), ("=mqa", "mqa"))),
    ("kv_cache", (("kvcache", "cache"),)),
    ("convolution", (("convolve", "convolution"), ("convolution", "convolution"), ("conv1d", "conv1d"), ("conv2d", "conv2d"),
                     ("conv3d", "conv3d"), ("convdepthwise", "depthwise"), ("depthwise", "depthwise"), ("winograd", "winograd"),
                     ("fprop", "fprop"), ("dgrad", "dgrad"), ("wgrad", "wgrad"), ("im2col", "im2col"), ("col2im", "col2im"),
                     ("computeoffsets", "offsets"), ("=conv", "convolution"), ("scudnn", "convolution"))),
    ("normalisation", (("layernorm", "layer_norm"), ("rmsnorm", "rms_norm"), ("batchnorm", "batch_norm"), ("bnfw", "batch_norm"),
                       ("bnbw", "batch_norm"), ("groupnorm", "group_norm"), ("instancenorm", "instance_norm"), ("rowwisemoments", "moments"),
                       ("=bn", "batch_norm"), ("l2norm", "l2_norm"), ("qknorm", "qk_norm"), ("gammabeta", "layer_norm"), ("=norm", "norm"))),
    ("embedding", (("embedding", "embedding"), ("=lookup", "embedding"), ("permutepooledembs", "permute"), ("boundscheckindices", "bounds_check"),
                   ("permute2d", "permute"), ("permute1d", "permute"), ("bucketize", "bucketize"), ("jagged", "jagged"),
                   ("linearizeindex", "linearize"), ("=tbe", "embedding"), ("lxucache", "cache"))),
    ("layout", (("repack", "repack"),)),
    ("kv_cache", (("=cache", "cache"),)),
    ("matrix_product", (("matrixmul", "gemm"), ("splitkreduce", "split_k_reduce"), ("gemv", "gemv"), ("groupedgemm", "grouped_gemm"), ("gemm", "gemm"),
                        ("matmul", "gemm"), ("marlin", "gemm"), ("scaledmm", "gemm"), ("=mm", "gemm"), ("=bmm", "bmm"), ("addmm", "gemm"),
                        ("mulmatvec", "gemv"), ("mulmat", "gemm"), ("=dot", "dot"), ("dotkernel", "dot"), ("gevm", "gemv"), ("cublaslt", "epilogue"),
                        ("einsum", "gemm"), ("nvjet", "gemm"), ("=linear", "gemm"))),
    ("optimizer", (("=adam", "adam"), ("adamw", "adam"), ("=lamb", "lamb"), ("=sgd", "sgd"), ("adagrad", "adagrad"), ("rmsprop", "rmsprop"),
                   ("=lars", "lars"), ("optimizer", "optimizer"), ("=muon", "muon"), ("newtonschulz", "muon"))),
    ("loss", (("crossentropy", "cross_entropy"), ("nllloss", "nll"), ("mseloss", "mse"), ("=cce", "cross_entropy"), ("=loss", "loss"), ("ctcloss", "ctc"), ("=jsd", "jsd"), ("kldiv", "kl_divergence"), ("=kl_div", "kl_divergence"))),
    ("sampling", (("sampling", "sample"), ("multinomial", "sample"), ("=topp", "top_p"), ("=top_p", "top_p"), ("topkmask", "top_k"), ("=minp", "min_p"), ("=min_p", "min_p"),
                  ("rejectionsample", "rejection"), ("=sample", "sample"), ("=temperature", "temperature"), ("samplertopk", "top_k"), ("=penalties", "penalty"), ("repetitionpenalt", "penalty"))),
    ("softmax", (("softmax", "softmax"),)),
    ("state_space", (("selectivescan", "scan"), ("chunkscan", "scan"), ("chunkstate", "state"), ("statepassing", "state"), ("=ssd", "scan"),
                     ("ssm", "scan"), ("mamba", "scan"), ("deltarule", "delta_rule"), ("chunkfwd", "chunk"), ("chunkgated", "delta_rule"))),
    ("quantisation", (("dequant", "dequantise"), ("quant", "quantise"), ("scaledfp8", "quantise"), ("fp8cast", "quantise"))),
    ("fourier", (("=fft", "fft"), ("vectorfft", "fft"), ("regularfft", "fft"), ("=rfft", "fft"), ("multibluestein", "fft"), ("dftkernel", "fft"))),
    ("sparse", (("spmm", "spmm"), ("spmv", "spmv"), ("=csr", "csr"), ("csrmv", "spmv"), ("csrmm", "spmm"), ("cusparse", "sparse"), ("sddmm", "sddmm"))),
    ("solver", (("getrf", "getrf"), ("potrf", "potrf"), ("geqrf", "geqrf"), ("trsv", "trsv"), ("trsm", "trsm"), ("syevj", "syevj"),
                ("gesvd", "svd"), ("laswp", "laswp"), ("larf", "larf"))),
    ("recurrent", (("lstm", "lstm"), ("=gru", "gru"), ("=rnn", "rnn"), ("rnncell", "rnn"))),
    ("sort_scan", (("radixsort", "radix_sort"), ("mergesort", "merge_sort"), ("bitonicsort", "bitonic_sort"), ("=sort", "sort"),
                   ("sortkeys", "sort"), ("segmentedsort", "sort"), ("radixtopk", "top_k"), ("topk", "top_k"), ("gathertopk", "top_k"),
                   ("radixfindkth", "top_k"), ("reducebykey", "reduce_by_key"), ("devicescan", "scan"), ("=scan", "scan"), ("cumsum", "scan"),
                   ("cumprod", "scan"), ("tensorkernelscan", "scan"), ("deviceselect", "select"), ("devicepartition", "select"),
                   ("devicecompact", "select"), ("compactinit", "select"), ("=unique", "unique"), ("histogram", "histogram"),
                   ("runlength", "run_length"), ("devicemerge", "merge"), ("onesweep", "radix_sort"), ("prefixsum", "scan"), ("scanby", "scan"))),
    ("random", (("dropout", "dropout"), ("philox", "philox"), ("curand", "generate"), ("generateseed", "generate"), ("randperm", "randperm"),
                ("=bernoulli", "bernoulli"), ("=uniform", "uniform"), ("=rand", "rand"), ("=randn", "randn"), ("gensequenced", "generate"))),
    ("pooling", (("maxpool", "max_pool"), ("avgpool", "average_pool"), ("averagepool", "average_pool"), ("=pool", "pool"), ("pooling", "pool"),
                 ("adaptiveaverage", "average_pool"))),
    ("resampling", (("upsample", "upsample"), ("gridsampl", "grid_sample"), ("interpolat", "interpolate"), ("=resize", "resize"), ("roialign", "roi_align"))),
    ("layout", (("nchwtonhwc", "nchw_to_nhwc"), ("nhwctonchw", "nhwc_to_nchw"), ("transpose", "transpose"), ("permute", "permute"),
                ("tensortransform", "transform"), ("reflectionpad", "pad"), ("replicationpad", "pad"), ("=pad", "pad"), ("swizzle", "swizzle"),
                ("=roll", "roll"), ("=cat", "concatenate"), ("catarray", "concatenate"), ("concat", "concatenate"), ("=split", "split"),
                ("chunkcat", "concatenate"), ("splitwithsizes", "split"), ("nchwaddpadding", "pad"), ("convertformat", "convert"), ("reformat", "convert"))),
    ("indexing", (("indexselect", "index_select"), ("indexadd", "index_add"), ("indexput", "index_put"), ("indexfunc", "index"),
                  ("scatter", "scatter"), ("gather", "gather"), ("nonzero", "nonzero"), ("masked", "masked"), ("=index", "index"), ("=take", "take"),
                  ("triutril", "triangle"), ("=tril", "triangle"), ("=triu", "triangle"), ("writeindices", "index"), ("advancestep", "advance"),
                  ("preparei", "prepare"))),
    ("fill", (("memset", "memset"), ("=fill", "fill"), ("=zero", "fill"), ("=zeros", "fill"), ("arange", "arange"), ("scalinit", "fill"),
              ("scaninit", "fill"), ("=iota", "arange"), ("fillfunctor", "fill"), ("uninitializedfill", "fill"), ("broadcastin", "fill"))),
    ("reduction", (("segmentedreduce", "sum"), ("argmax", "argmax"), ("argmin", "argmin"), ("devicereduce", "reduce"), ("=reduce", "reduce"),
                   ("reduction", "reduce"), ("reducewgrad", "reduce"), ("=sum", "sum"), ("=mean", "mean"), ("=amax", "amax"), ("=max", "max"),
                   ("=min", "min"), ("=var", "variance"), ("welford", "variance"), ("reduce", "reduce"), ("=any", "any"), ("=all", "all"),
                   ("sumof", "sum"), ("=prod", "product"))),
    ("elementwise", (("actandmul", "act_and_mul"), ("siluandmul", "act_and_mul"), ("geluandmul", "act_and_mul"), ("swiglu", "swiglu"),
                     ("geglu", "geglu"), ("silu", "silu"), ("gelu", "gelu"), ("relu", "relu"), ("sigmoid", "sigmoid"), ("tanh", "tanh"),
                     ("activation", "activation"), ("elementwise", "elementwise"), ("elemwise", "elementwise"), ("pointwise", "elementwise"),
                     ("optensor", "op_tensor"), ("opgenerictensor", "op_tensor"), ("addtensor", "add"), ("scaletensor", "scale"), ("=add", "add"), ("=mul", "mul"), ("=sub", "sub"),
                     ("=div", "div"), ("=bias", "bias"), ("=scale", "scale"), ("=cast", "cast"), ("=clamp", "clamp"), ("=exp", "exp"), ("=pow", "pow"),
                     ("=where", "where"), ("=select", "where"), ("=compare", "compare"), ("parallelfor", "for_each"), ("=axpy", "axpy"), ("=scal", "scale"), ("multiply", "mul"),
                     ("subtract", "sub"), ("divide", "div"), ("convert", "cast"), ("=neg", "neg"), ("=rsqrt", "rsqrt"), ("=sqrt", "sqrt"), ("=log", "log"),
                     ("=maximum", "maximum"), ("foreach", "foreach"), ("unaryfunctor", "unary"), ("transform", "transform"))),
    ("copy", (("memcpy", "memcpy"), ("=copy", "copy"), ("copykernel", "copy"), ("bfloat162float", "cast"), ("=clone", "copy"))),
    ("matrix_product", (("magma", "gemm"), ("cublas", UNKNOWN), ("epilogue", "epilogue"))),
)  # fmt: skip
_LIBRARIES = {
    "at": "pytorch", "c10": "pytorch", "cudnn": "cudnn", "cask_cudnn_infer": "cudnn", "cask_cudnn": "cudnn", "cask__5x_cudnn": "cudnn",
    "cublasLt": "cublas", "cublas": "cublas", "vllm": "vllm", "flashinfer": "flashinfer", "cub": "cub", "thrust": "thrust",
    "fbgemm_gpu": "fbgemm", "cutlass": "cutlass", "flash": "flash_attention", "deep_gemm": "deep_gemm", "deep_ep": "deep_ep",
    "tensorrt_llm": "tensorrt_llm", "moe": "tensorrt_llm", "sglang": "sglang", "transformer_engine": "transformer_engine", "marlin": "marlin",
    "cusparse": "cusparse", "xformers": "xformers", "faiss": "faiss", "raft": "raft", "cudf": "cudf", "cuml": "cuml",
    "onnxruntime": "onnxruntime", "tensorflow": "tensorflow", "torch": "pytorch", "cask_cudnn_train": "cudnn", "deepspeed": "deepspeed",
    "mscclpp": "mscclpp", "nvshmem": "nvshmem", "bitsandbytes": "bitsandbytes", "paddle": "paddle", "gemvx": "cublas", "apex": "apex",
    "epilogue": "cublas",
}  # fmt: skip
_PREFIXES = (
    ("cudnn", "cudnn"), ("nvjet", "cublas"), ("cublas", "cublas"), ("gemv", "cublas"), ("gemmk1", "cublas"), ("gemmSN", "cublas"),
    ("splitKreduce", "cublas"), ("split_embedding", "fbgemm"), ("magma_", "magma"), ("implicit_convolve", "cudnn"), ("DeviceScan", "cub"), ("DeviceRadix", "cub"),
    ("DeviceReduce", "cub"), ("fmhaSm", "tensorrt_llm"), ("kernel_cutlass_", "cute_dsl"), ("__myl_", "tensorrt"), ("cuApply", "apex"),
    ("cuCompute", "apex"), ("softmax_warp_", "pytorch"), ("cunn_", "pytorch"), ("dot_kernel", "cublas"), ("wrapped_", "xla"), ("winograd", "cudnn"), ("regular_fft", "cufft"), ("vector_fft", "cufft"), ("cusparse", "cusparse"),
)  # fmt: skip
_BACKWARD = frozenset(("bwd", "backward", "grad", "bw", "gradinput"))
_MOST_PARTS = 80


@lru_cache(maxsize=1 << 14)
def named_family(name: str) -> tuple[str, str]:
    """(family, operation) by the words of ``name``; UNKNOWN both where none is known."""
    parts = parts_of(name[:2000])[:_MOST_PARTS]
    joined = "".join(parts)
    words = f"_{'_'.join(parts)}_"
    for family, fragments in _FRAGMENTS:
        for fragment, operation in fragments:
            if f"_{fragment[1:]}_" in words if fragment[0] == "=" else fragment in joined:
                return family, operation
    return UNKNOWN, UNKNOWN


def library_of(split: SplitName) -> str:
    """The library that the namespaces, or the first letters of the function, name."""
    for scope in split.path[:-1]:
        if scope in _LIBRARIES:
            return _LIBRARIES[scope]
    function = split.function
    return next((library for prefix, library in _PREFIXES if function.startswith(prefix)), UNKNOWN)


def by_keywords(split: SplitName) -> KernelName:
    """What the function's own words say, else those of its namespaces, else those of its arguments."""
    function = split.function
    family, operation = named_family(function)
    if family == UNKNOWN and len(split.path) > 1:
        family, operation = named_family("_".join(split.path[-4:-1]))
    if family == UNKNOWN:
        family, operation = named_family("_".join(split.words[:24]))
    if family == UNKNOWN and any(word.startswith("cublas") for word in split.parameters[:24]):
        family, operation = "matrix_product", "epilogue"
    if family == "matrix_product" and any("moe" in parts_of(scope) for scope in split.path[-4:-1]):
        family = "mixture_of_experts"
    parts = frozenset(parts_of(function[:2000]))
    if operation != UNKNOWN and parts & _BACKWARD and "backward" not in operation:
        operation += "_backward"
    dtype = type_of(split.words)
    return KernelName(
        family, operation, library_of(split), dtype=type_of(split.parameters, integers=False) if dtype == UNKNOWN else dtype, function=function or UNKNOWN,
    )  # fmt: skip
