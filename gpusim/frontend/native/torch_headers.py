"""What device code uses of PyTorch's headers, where PyTorch is not installed or its headers are for a host compiler.

Mental model: a file of a PyTorch extension is kernels with host code around them that takes tensors. Of the headers
that it includes (``torch/extension.h``, ``ATen/...``, ``c10/...``) its kernels need a few names: the two 16-bit floats,
whose arithmetic goes by way of float, the accessors that carry a tensor's sizes and strides, an atomic sum of any type,
and macros. These have one text, which stands for each header; the host code is left out with what it needs.
"""

from __future__ import annotations

import re

#: Headers by PyTorch, and those with which it binds to Python.
_NAMES = re.compile(r"(torch|ATen|c10|THC|caffe2|pybind11)/|Python\.h$")

#: A float of 16 bits. As PyTorch's: a sum of two is one of floats, rounded; with a float it is a float.
_FLOAT16 = """
struct alignas(2) NAME {
  unsigned short x;
  struct from_bits_t {};
  static constexpr __host__ __device__ from_bits_t from_bits() { return {}; }
  NAME() = default;
  constexpr __device__ NAME(unsigned short bits, from_bits_t) : x(bits) {}
  __device__ NAME(float value) : x(AS_SHORT(FROM_FLOAT(value))) {}
  __device__ NAME(const NATIVE &value) : x(AS_SHORT(value)) {}
  __device__ operator float() const { return TO_FLOAT(AS_NATIVE(x)); }
  __device__ operator NATIVE() const { return AS_NATIVE(x); }
};
__device__ inline NAME operator-(const NAME &a) { return -float(a); }
"""
_OPERATORS = "+-*/"
_OPERATOR = """
__device__ inline NAME operator@(const NAME &a, const NAME &b) { return float(a) @ float(b); }
__device__ inline NAME &operator@=(NAME &a, const NAME &b) { return a = a @ b; }
__device__ inline float operator@(const NAME &a, float b) { return float(a) @ b; }
__device__ inline float operator@(float a, const NAME &b) { return a @ float(b); }
__device__ inline float &operator@=(float &a, const NAME &b) { return a @= float(b); }
__device__ inline double operator@(const NAME &a, double b) { return float(a) @ b; }
__device__ inline double operator@(double a, const NAME &b) { return a @ float(b); }
__device__ inline NAME operator@(const NAME &a, int b) { return a @ NAME(float(b)); }
__device__ inline NAME operator@(int a, const NAME &b) { return NAME(float(a)) @ b; }
__device__ inline NAME operator@(const NAME &a, long b) { return a @ NAME(float(b)); }
__device__ inline NAME operator@(long a, const NAME &b) { return NAME(float(a)) @ b; }
"""
#: Of 8 bits. What is too large is NaN, or an infinity where there is one.
_FLOAT8 = """
struct NAME {
  uint8_t x;
  struct from_bits_t {};
  static constexpr __host__ __device__ from_bits_t from_bits() { return {}; }
  NAME() = default;
  constexpr __device__ NAME(uint8_t bits, from_bits_t) : x(bits) {}
  __device__ NAME(float value) : x(__nv_cvt_float_to_fp8(value, __NV_NOSAT, KIND)) {}
  __device__ operator float() const { return __half2float(__half(__nv_cvt_fp8_to_halfraw(x, KIND))); }
};
"""
#: A complex number, real part first, as PyTorch lays it out; functions of it are in ``std`` there too. BOTH: the marks
#: of a function of host and device.
_COMPLEX = """
template <typename T> struct alignas(2 * sizeof(T)) complex {
  using value_type = T;
  T real_ = T(0), imag_ = T(0);
  constexpr complex() = default;
  BOTH constexpr complex(const T &re, const T &im = T()) : real_(re), imag_(im) {}
  template <typename U> BOTH explicit constexpr complex(const complex<U> &o) : real_(o.real_), imag_(o.imag_) {}
  BOTH constexpr T real() const { return real_; }
  BOTH constexpr T imag() const { return imag_; }
  BOTH constexpr void real(T value) { real_ = value; }
  BOTH constexpr void imag(T value) { imag_ = value; }
  BOTH constexpr complex &operator+=(const T &b) { real_ += b; return *this; }
  BOTH constexpr complex &operator-=(const T &b) { real_ -= b; return *this; }
  BOTH constexpr complex &operator*=(const T &b) { real_ *= b; imag_ *= b; return *this; }
  BOTH constexpr complex &operator/=(const T &b) { real_ /= b; imag_ /= b; return *this; }
  BOTH constexpr complex &operator+=(const complex &b) { real_ += b.real_, imag_ += b.imag_; return *this; }
  BOTH constexpr complex &operator-=(const complex &b) { real_ -= b.real_; imag_ -= b.imag_; return *this; }
  BOTH constexpr complex &operator*=(const complex &b) {
    T re = real_ * b.real_ - imag_ * b.imag_;
    imag_ = real_ * b.imag_ + imag_ * b.real_; real_ = re;
    return *this;
  }
  BOTH complex &operator/=(const complex &b) {
    T larger = fabs(b.real_) > fabs(b.imag_) ? fabs(b.real_) : fabs(b.imag_);
    T c = b.real_ / larger, d = b.imag_ / larger, size = c * c + d * d;
    T re = (real_ / larger * c + imag_ / larger * d) / size;
    imag_ = (imag_ / larger * c - real_ / larger * d) / size; real_ = re;
    return *this;
  }
};
template <typename T> BOTH constexpr complex<T> operator+(const complex<T> &a) { return a; }
template <typename T> BOTH constexpr complex<T> operator-(const complex<T> &a) { return {-a.real_, -a.imag_}; }
template <typename T> BOTH constexpr bool operator==(const complex<T> &a, const complex<T> &b) {
  return a.real_ == b.real_ && a.imag_ == b.imag_;
}
template <typename T> BOTH constexpr bool operator!=(const complex<T> &a, const complex<T> &b) { return !(a == b); }
"""
_OF_COMPLEX = """
template <typename T> BOTH constexpr complex<T> operator@(complex<T> a, const complex<T> &b) { return a @= b; }
template <typename T> BOTH constexpr complex<T> operator@(complex<T> a, const T &b) { return a @= b; }
template <typename T> BOTH constexpr complex<T> operator@(T a, const complex<T> &b) { return complex<T>(a) @= b; }
"""
#: Written out, since those of the CUDA type are as near as those of float.
_COMPARED = "".join(
    f"__device__ inline bool operator{each}(const NAME &a, const NAME &b) {{ return float(a) {each} float(b); }}\n"
    for each in ("<", ">", "<=", ">=", "==", "!=")
)
#: Of an accessor, whether its sizes and strides are its own or lie elsewhere.
_ELEMENTS = """\
  __device__ index_t size(int i) const { return sizes_[i]; }
  __device__ index_t stride(int i) const { return strides_[i]; }
  __device__ PtrType data() const { return data_; }
  __device__ decltype(auto) operator[](index_t i) const {
    if constexpr (N == 1) return (data_[strides_[0] * i]);
    else return TensorAccessor<T, N - 1, Traits, index_t>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
  }"""
_TEXT = """#ifndef GPUSIM_TORCH
#define GPUSIM_TORCH
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>
namespace c10 {
FLOATS
FLOAT8S
COMPLEX
}
namespace std {
template <typename T> BOTH constexpr T real(const c10::complex<T> &a) { return a.real_; }
template <typename T> BOTH constexpr T imag(const c10::complex<T> &a) { return a.imag_; }
template <typename T> BOTH constexpr T norm(const c10::complex<T> &a) { return a.real_ * a.real_ + a.imag_ * a.imag_; }
template <typename T> BOTH T abs(const c10::complex<T> &a) { return hypot(a.real_, a.imag_); }
template <typename T> BOTH T arg(const c10::complex<T> &a) { return atan2(a.imag_, a.real_); }
template <typename T> BOTH constexpr c10::complex<T> conj(const c10::complex<T> &a) { return {a.real_, -a.imag_}; }
}
namespace at {
using c10::Half; using c10::BFloat16; using c10::Float8_e4m3fn; using c10::Float8_e5m2;
using c10::complex;
template <typename T> struct OpMathType { using type = T; };
template <> struct OpMathType<Half> { using type = float; };
template <> struct OpMathType<BFloat16> { using type = float; };
template <typename T> using opmath_type = typename OpMathType<T>::type;
template <typename T, bool is_cuda> using acc_type = opmath_type<T>;
template <typename T> struct DefaultPtrTraits { using PtrType = T *; };
template <typename T> struct RestrictPtrTraits { using PtrType = T *__restrict__; };
template <typename T, size_t N, template <typename> class Traits = DefaultPtrTraits, typename index_t = int64_t>
class TensorAccessor {
 public:
  using PtrType = typename Traits<T>::PtrType;
  __device__ TensorAccessor(PtrType data, const index_t *sizes, const index_t *strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
ELEMENTS
 private:
  PtrType data_;
  const index_t *sizes_, *strides_;
};
template <typename T, size_t N, template <typename> class Traits = DefaultPtrTraits, typename index_t = int64_t>
class GenericPackedTensorAccessor {
 public:
  using PtrType = typename Traits<T>::PtrType;
ELEMENTS
 private:
  PtrType data_;
  index_t sizes_[N], strides_[N];
};
template <typename T, size_t N, template <typename> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <typename T, size_t N, template <typename> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;
template <typename T, size_t N, template <typename> class Traits = DefaultPtrTraits, typename index_t = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, index_t>;
namespace cuda {
template <typename T> __device__ constexpr T ATenCeilDiv(T a, T b) { return (a + b - 1) / b; }
namespace detail {
constexpr int most_dimensions = 25;
template <typename T, typename index_t> struct TensorInfo {
  T *data;
  index_t sizes[most_dimensions], strides[most_dimensions];
  int dims;
};
template <typename T, typename index_t, int Dims> struct IndexToOffset {
  static __device__ index_t get(index_t linear, const TensorInfo<T, index_t> &info) {
    index_t offset = 0;
    for (int i = (Dims < 0 ? info.dims : Dims) - 1; i > 0; --i) {
      offset += linear % info.sizes[i] * info.strides[i];
      linear /= info.sizes[i];
    }
    return offset + linear * info.strides[0];
  }
};
}
}
}
namespace torch {
using namespace at;
namespace headeronly { using namespace at; }
}
__device__ inline c10::Half __ldg(const c10::Half *at_) { return __ldg(reinterpret_cast<const __half *>(at_)); }
__device__ inline c10::BFloat16 __ldg(const c10::BFloat16 *at_) {
  return __ldg(reinterpret_cast<const __nv_bfloat16 *>(at_));
}
template <typename T> __device__ inline T gpuAtomicAdd(T *at_, T value) { return atomicAdd(at_, value); }
__device__ inline int64_t gpuAtomicAdd(int64_t *at_, int64_t value) {
  return atomicAdd(reinterpret_cast<unsigned long long *>(at_), static_cast<unsigned long long>(value));
}
__device__ inline c10::Half gpuAtomicAdd(c10::Half *at_, c10::Half value) {
  return atomicAdd(reinterpret_cast<__half *>(at_), static_cast<__half>(value));
}
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
__device__ inline c10::BFloat16 gpuAtomicAdd(c10::BFloat16 *at_, c10::BFloat16 value) {
  return atomicAdd(reinterpret_cast<__nv_bfloat16 *>(at_), static_cast<__nv_bfloat16>(value));
}
#endif
template <typename T> __device__ inline void gpuAtomicAddNoReturn(T *at_, T value) { gpuAtomicAdd(at_, value); }
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#define C10_ALWAYS_INLINE inline __attribute__((always_inline))
#define C10_WARP_SIZE 32
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
#define CUDA_KERNEL_ASSERT(condition) assert(condition)
#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type) \\
  int64_t i##_next = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; \\
  for (index_type i = i##_next; i##_next < (n); i##_next += blockDim.x * gridDim.x, i = i##_next)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
template <typename T> __device__ inline T WARP_SHFL(T v, int lane, int width = 32, unsigned mask = 0xffffffffu) { return __shfl_sync(mask, v, lane, width); }
template <typename T> __device__ inline T WARP_SHFL_XOR(T v, int lanes, int width = 32, unsigned mask = 0xffffffffu) { return __shfl_xor_sync(mask, v, lanes, width); }
template <typename T> __device__ inline T WARP_SHFL_UP(T v, unsigned lanes, int width = 32, unsigned mask = 0xffffffffu) { return __shfl_up_sync(mask, v, lanes, width); }
template <typename T> __device__ inline T WARP_SHFL_DOWN(T v, unsigned lanes, int width = 32, unsigned mask = 0xffffffffu) { return __shfl_down_sync(mask, v, lanes, width); }
__device__ inline unsigned WARP_BALLOT(int predicate, unsigned mask = 0xffffffffu) { return __ballot_sync(mask, predicate); }
#endif
"""


def torch_header(name: str) -> str | None:
    """The text to stand for the header ``name`` where it is one of PyTorch's, None of any other."""
    return _WHOLE if _NAMES.match(name) else None


def _float16(name: str, native: str, as_short: str, as_native: str, from_float: str, to_float: str) -> str:
    text = _FLOAT16 + "".join(_OPERATOR.replace("@", each) for each in _OPERATORS) + _COMPARED
    words = {"AS_SHORT": as_short, "AS_NATIVE": as_native, "FROM_FLOAT": from_float, "TO_FLOAT": to_float}
    for word, value in {**words, "NATIVE": native, "NAME": name}.items():
        text = re.sub(rf"\b{word}\b", value, text)
    return text


_FLOATS = _float16("Half", "__half", "__half_as_ushort", "__ushort_as_half", "__float2half_rn", "__half2float") + _float16(
    "BFloat16", "__nv_bfloat16", "__bfloat16_as_ushort", "__ushort_as_bfloat16", "__float2bfloat16_rn", "__bfloat162float"
)  # fmt: skip
_FLOAT8S = "".join(
    _FLOAT8.replace("NAME", name).replace("KIND", kind)
    for name, kind in (("Float8_e4m3fn", "__NV_E4M3"), ("Float8_e5m2", "__NV_E5M2"))
)
_COMPLEXES = _COMPLEX + "".join(_OF_COMPLEX.replace("@", each) for each in _OPERATORS)
_WHOLE = (
    _TEXT.replace("FLOATS", _FLOATS)
    .replace("FLOAT8S", _FLOAT8S)
    .replace("COMPLEX\n", _COMPLEXES)
    .replace("ELEMENTS", _ELEMENTS)
)
_WHOLE = re.sub(r"\bBOTH\b", "__host__ __device__", _WHOLE)
