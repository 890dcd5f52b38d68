"""Headers of the host's C++ library as device code can use them, where no host compiler gives the real ones.

Mental model: NVRTC knows ``assert``, ``printf`` and the mathematical functions without any header, and libcu++ has the
standard library's device part under ``<cuda/std/...>``; so ``<cmath>`` or ``<limits>`` can stand for those, under the
names that ``std::`` has. What has no device part (``<vector>``, ``<iostream>``, ``<cublas_v2.h>``) is an empty header,
since only host code could use it.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from gpusim.frontend.native.nvrtc import include_folders
from gpusim.frontend.native.torch_headers import torch_header

_INTEGERS = """int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t intptr_t uintptr_t int_fast32_t uint_fast32_t int_least32_t
    uint_least32_t intmax_t uintmax_t"""
#: The mathematical functions, which NVRTC has without a header.
_FUNCTIONS = """abs fabs sqrt sin cos tan asin acos atan exp log log2 log10 pow floor ceil fmin fmax fmod round trunc cbrt hypot atan2 isnan isinf
    isfinite erf erfc lgamma tgamma nearbyint rint copysign exp2 expm1 log1p sinh cosh tanh asinh acosh atanh remainder fma ldexp frexp modf
    lround signbit"""
_MATH = {
    "M_E": "2.7182818284590452354", "M_LOG2E": "1.4426950408889634074", "M_LN2": "0.69314718055994530942",
    "M_LN10": "2.30258509299404568402", "M_PI": "3.14159265358979323846", "M_PI_2": "1.57079632679489661923",
    "M_PI_4": "0.78539816339744830962", "M_1_PI": "0.31830988618379067154", "M_2_PI": "0.63661977236758134308",
    "M_SQRT2": "1.41421356237309504880", "M_SQRT1_2": "0.70710678118654752440",
    "INFINITY": "__int_as_float(0x7f800000)", "NAN": "__int_as_float(0x7fffffff)", "HUGE_VALF": "__int_as_float(0x7f800000)",
}  # fmt: skip
#: C++ header -> its C name.
_C_NAMES = {"cmath": "math.h", "cstdint": "stdint.h", "climits": "limits.h", "cfloat": "float.h", "cstddef": "stddef.h"}
#: Header -> what programs use of it and libcu++ has. Named one by one: all of cuda::std would make plain ``abs``
#: ambiguous.
_CPP = {
    "algorithm": "min max clamp fill fill_n copy copy_n equal lower_bound upper_bound min_element max_element",
    "array": "array",
    "bit": "bit_cast popcount countl_zero countr_zero",
    "complex": "complex",
    "functional": "plus minus multiplies divides less greater less_equal greater_equal equal_to",
    "limits": "numeric_limits",
    "numeric": "iota accumulate",
    "optional": "optional nullopt",
    "span": "span",
    "tuple": "tuple make_tuple tie get",
    "type_traits": """is_same is_same_v enable_if enable_if_t conditional conditional_t is_integral is_integral_v is_floating_point
        is_floating_point_v is_signed is_signed_v is_unsigned_v is_pointer_v is_const_v is_base_of_v is_convertible_v remove_reference
        remove_reference_t remove_cv remove_cv_t remove_const_t decay decay_t integral_constant true_type false_type make_unsigned_t
        make_signed_t underlying_type_t common_type_t void_t is_void_v is_trivially_copyable_v""",
    "utility": "pair make_pair swap exchange declval integer_sequence index_sequence make_index_sequence",
}
#: What only host code can use of the C and C++ libraries and POSIX.
_HOST_NAMES = """any assert.h atomic barrier bitset cassert cctype cerrno cfenv charconv chrono cinttypes concepts initializer_list iterator ratio variant clocale codecvt compare condition_variable
    coroutine csetjmp csignal cstdarg cstdio cstdlib cstring ctime ctype.h cwchar deque errno.h exception execution expected fcntl.h fenv.h
    filesystem format forward_list fstream future getopt.h inttypes.h iomanip ios iosfwd iostream istream libgen.h list locale locale.h
    malloc.h map memory memory.h memory_resource mutex new numbers omp.h ostream print pthread.h queue random ranges regex sched.h
    semaphore set shared_mutex signal.h source_location sstream stack stdarg.h stdbool.h stdexcept stdio.h stdlib.h stop_token streambuf string string.h
    string_view strings.h sys/mman.h sys/resource.h sys/stat.h sys/time.h sys/timeb.h sys/types.h sys/wait.h syncstream system_error thread time.h
    typeindex typeinfo unistd.h unordered_map unordered_set valarray vector version wchar.h windows.h"""
#: Of libraries whose calls run on the host.
_LIBRARIES = """cublas.h cublasLt.h cublasXt.h cublas_api.h cublas_v2.h cuda_profiler_api.h cudnn.h cufft.h cufftXt.h cufftw.h curand.h cusolverDn.h cusolverSp.h
    cusparse.h cusparse_v2.h exception.h helper_cuda.h helper_functions.h helper_image.h helper_string.h helper_timer.h mpi.h nccl.h npp.h nvToolsExt.h nvml.h nvrtc.h nvtx3/nvToolsExt.h
    thrust/copy.h thrust/count.h thrust/device_ptr.h thrust/device_vector.h thrust/fill.h thrust/for_each.h thrust/gather.h thrust/generate.h
    thrust/host_vector.h thrust/inner_product.h thrust/reduce.h thrust/scan.h thrust/sequence.h thrust/sort.h thrust/transform.h
    thrust/transform_reduce.h"""
_HEADER_OF = {
    name: header
    for header, names in [*_CPP.items(), ("cmath", _FUNCTIONS), ("cstdint", _INTEGERS)]
    for name in names.split()
}
#: CUB as a whole, and the parts of it that are not for host code, which its device-wide algorithms are.
CUB, _CUB_PARTS = "cub/cub.cuh", ("thread", "warp", "block")
#: libcu++ asks whether the host has these.
_ASKED_FOR = ("version",)
_OF_CPP = frozenset(
    name
    for name in [*_CPP, *_HOST_NAMES.split()]
    if not re.search(r"\.|^c|^(version|new|initializer_list|exception|typeinfo|type_traits|limits|utility|bit)$", name)
)
_EMPTY = frozenset([*_HOST_NAMES.split(), *_LIBRARIES.split()])
#: Types that declarations of host functions name; NVRTC has ``printf`` and no file to print to.
_FILES = "#pragma once\nstruct _IO_FILE;\ntypedef struct _IO_FILE FILE;\nnamespace std { using ::FILE; }\n"


def host_header(name: str) -> str | None:
    """The text to stand for the header ``name``: the library's device part, or nothing; None for a header that it is
    not known of."""
    plain = next((cpp for cpp, c in _C_NAMES.items() if c == name), name)
    if name == CUB:
        return _cub()
    if plain in ("stdio.h", "cstdio"):
        return _FILES
    if plain not in _C_NAMES and plain not in _CPP:
        return torch_header(name) if plain not in _EMPTY else ""
    if plain == "cmath":
        macros = "".join(f"#ifndef {macro}\n#define {macro} {value}\n#endif\n" for macro, value in _MATH.items())
        return f"#pragma once\n{macros}namespace std {{ {_using('::', _FUNCTIONS)} }}\n"
    names = _CPP.get(plain, "")
    text = f"#pragma once\n#include <cuda/std/{plain}>\nnamespace std {{ {_using('cuda::std::', names)} }}\n"
    if plain == "cstdint":
        text += f"{_using('cuda::std::', _INTEGERS)}\nnamespace std {{ {_using('cuda::std::', _INTEGERS)} }}\n"
    return text


@cache
def _cub() -> str:
    """Those of CUB's headers that are for device code: of a thread, a warp and a block."""
    files = [
        file for folder in include_folders() for part in _CUB_PARTS for file in Path(folder).glob(f"cub/{part}/*.cuh")
    ]
    names = sorted({f"cub/{file.parent.name}/{file.name}" for file in files})
    return "#pragma once\n" + "".join(f"#include <{name}>\n" for name in names)


def header_of(name: str) -> str:
    """The header that device code has ``std::name`` from, empty where it has none."""
    return _HEADER_OF.get(name, "")


@cache
def language_headers() -> dict[str, str]:
    """Name and text of all that stand for headers of the C and C++ libraries: a source that misses one mostly misses
    several, and NVRTC tells the first alone."""
    names = [*_C_NAMES, *_C_NAMES.values(), *_CPP, *_HOST_NAMES.split()]
    return {name: text for name in names if name not in _ASKED_FOR and (text := host_header(name)) is not None}


def includes_others(name: str) -> bool:
    """Whether the header is one of the C++ library's that bring parts of others: containers, streams, algorithms; not
    what is below those."""
    return name in _OF_CPP


def _using(scope: str, names: str) -> str:
    return " ".join(f"using {scope}{name};" for name in names.split())
