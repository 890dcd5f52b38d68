// Products of matrices over (min, +), as shortest paths take them: c[i][j] = min over k of a[i][k] + b[k][j]. The sum and the least of two are
// one instruction of compute capability 9.0 (DPX: __viaddmin), two halves at once where numbers have 16 bits; others do it in several.
constexpr int TILE = 32, DEPTH = 16, PER_THREAD = 4, THREADS = TILE * TILE / PER_THREAD;

template <typename T> struct Of;
template <> struct Of<int> {
    using Packed = int;
    static constexpr int WIDTH = 1;
    static __device__ __forceinline__ int both(int value) { return value; }
    static __device__ __forceinline__ int step(int a, int b, int least) { return __viaddmin_s32(a, b, least); }
    static constexpr int MOST = 0x7fffffff;
};
template <> struct Of<short> {
    using Packed = unsigned;
    static constexpr int WIDTH = 2;
    static __device__ __forceinline__ unsigned both(short value) { return (unsigned short)value * 0x10001u; }
    static __device__ __forceinline__ unsigned step(unsigned a, unsigned b, unsigned least) { return __viaddmin_s16x2(a, b, least); }
    static constexpr unsigned MOST = 0x7fff7fff;
};

// A is m x k, B k x n, C m x n, of whole tiles: TILE rows by TILE words of columns. A thread has PER_THREAD rows of a word of columns.
template <typename T>
__global__ void __launch_bounds__(THREADS) min_plus(T *c, const T *a, const T *b, int n, int k)
{
    using Packed = typename Of<T>::Packed;
    constexpr int WIDTH = Of<T>::WIDTH;
    __shared__ T of_a[TILE][DEPTH];
    __shared__ Packed of_b[DEPTH][TILE];
    const int x = threadIdx.x % TILE, y = threadIdx.x / TILE, row = blockIdx.y * TILE, column = blockIdx.x * TILE, words = n / WIDTH;
    const Packed *b_words = reinterpret_cast<const Packed *>(b);
    Packed least[PER_THREAD];
    #pragma unroll
    for (int i = 0; i < PER_THREAD; ++i) least[i] = Of<T>::MOST;
    for (int step = 0; step < k; step += DEPTH) {
        for (int i = threadIdx.x; i < TILE * DEPTH; i += THREADS) {
            of_a[i / DEPTH][i % DEPTH] = a[(size_t)(row + i / DEPTH) * k + step + i % DEPTH];
            of_b[i / TILE][i % TILE] = b_words[(size_t)(step + i / TILE) * words + column + i % TILE];
        }
        __syncthreads();
        #pragma unroll
        for (int depth = 0; depth < DEPTH; ++depth) {
            const Packed right = of_b[depth][x];
            #pragma unroll
            for (int i = 0; i < PER_THREAD; ++i) least[i] = Of<T>::step(Of<T>::both(of_a[y * PER_THREAD + i][depth]), right, least[i]);
        }
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < PER_THREAD; ++i)
        reinterpret_cast<Packed *>(c)[(size_t)(row + y * PER_THREAD + i) * words + column + x] = least[i];
}
