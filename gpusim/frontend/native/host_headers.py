"""Headers of the host's C++ library as device code can use them, where no host compiler gives the real ones.

Mental model: NVRTC knows ``assert``, ``printf`` and the mathematical functions without any header, and libcu++ has the standard library's
device part under ``<cuda/std/...>``; so ``<cmath>`` or ``<limits>`` can stand for those, under the names that ``std::`` has. What has no
device part (``<vector>``, ``<iostream>``, ``<cublas_v2.h>``) is an empty header, since only host code could use it.
"""

from __future__ import annotations

_STD = "namespace std { using namespace cuda::std; }\n"
_INTEGERS = ("int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "intptr_t", "uintptr_t",
             "int_fast32_t", "uint_fast32_t")  # fmt: skip
_MATH = {
    "M_E": "2.7182818284590452354", "M_LOG2E": "1.4426950408889634074", "M_LN2": "0.69314718055994530942",
    "M_LN10": "2.30258509299404568402", "M_PI": "3.14159265358979323846", "M_PI_2": "1.57079632679489661923",
    "M_PI_4": "0.78539816339744830962", "M_1_PI": "0.31830988618379067154", "M_2_PI": "0.63661977236758134308",
    "M_SQRT2": "1.41421356237309504880", "M_SQRT1_2": "0.70710678118654752440",
    "INFINITY": "__int_as_float(0x7f800000)", "NAN": "__int_as_float(0x7fffffff)", "HUGE_VALF": "__int_as_float(0x7f800000)",
}  # fmt: skip
#: C++ header -> its C name; both are given by libcu++.
_C_NAMES = {"cmath": "math.h", "cstdint": "stdint.h", "climits": "limits.h", "cfloat": "float.h", "cstddef": "stddef.h"}
_CPP = ("algorithm", "array", "atomic", "bit", "bitset", "complex", "concepts", "functional", "initializer_list", "iterator", "limits",
        "numeric", "optional", "ratio", "span", "tuple", "type_traits", "utility", "variant")  # fmt: skip


#: What only host code can use: of the C and C++ libraries and POSIX, and of libraries whose calls run on the host.
_EMPTY = frozenset(
    """any assert.h barrier cassert cctype cerrno cfenv charconv chrono cinttypes clocale codecvt compare condition_variable
    coroutine csetjmp csignal cstdarg cstdio cstdlib cstring ctime ctype.h cwchar deque errno.h exception execution expected fcntl.h fenv.h
    filesystem format forward_list fstream future getopt.h inttypes.h iomanip ios iosfwd iostream istream libgen.h list locale locale.h
    malloc.h map memory memory.h memory_resource mutex new numbers omp.h ostream print pthread.h queue random ranges regex sched.h
    semaphore set shared_mutex signal.h source_location sstream stack stdarg.h stdbool.h stdexcept stdio.h stdlib.h stop_token streambuf string string.h
    string_view strings.h sys/mman.h sys/resource.h sys/stat.h sys/time.h sys/timeb.h sys/types.h sys/wait.h syncstream system_error thread time.h
    typeindex typeinfo unistd.h unordered_map unordered_set valarray vector version wchar.h windows.h
    cublas.h cublasLt.h cublasXt.h cublas_api.h cublas_v2.h cuda_profiler_api.h cudnn.h cufft.h cufftXt.h cufftw.h curand.h cusolverDn.h cusolverSp.h
    cusparse.h cusparse_v2.h mpi.h nccl.h npp.h nvToolsExt.h nvml.h nvrtc.h nvtx3/nvToolsExt.h
    thrust/copy.h thrust/count.h thrust/device_ptr.h thrust/device_vector.h thrust/fill.h thrust/for_each.h thrust/gather.h thrust/generate.h
    thrust/host_vector.h thrust/inner_product.h thrust/reduce.h thrust/scan.h thrust/sequence.h thrust/sort.h thrust/transform.h
    thrust/transform_reduce.h""".split()
)


def host_header(name: str) -> str | None:
    """The text to stand for the header ``name``: the library's device part, or nothing; None for a header that it is not known of."""
    plain = next((cpp for cpp, c in _C_NAMES.items() if c == name), name)
    if plain not in _C_NAMES and plain not in _CPP:
        return "" if plain in _EMPTY else None
    lines = [f"#include <cuda/std/{plain}>", _STD]
    if plain == "cmath":
        lines += [f"#ifndef {macro}\n#define {macro} {value}\n#endif" for macro, value in _MATH.items()]
    if plain == "cstdint":
        lines += [f"using cuda::std::{each};" for each in _INTEGERS]
    return "#pragma once\n" + "\n".join(lines) + "\n"
