// Chains and side by side updates of one function of CUDA's DPX (__viaddmax_s32 and kin), -DFUNCTION and its -DARGUMENTS, of values of -DTYPE, -DROUNDS of them:
// as HPMLL/NVIDIA-Hopper-Benchmark describes and names its measurements, written anew. A number of rounds that is known lets the compiler unroll as it did.
#if ARGUMENTS == 3
#define CALL(a, b, c) FUNCTION(a, b, c)
#elif ARGUMENTS == 2
#define CALL(a, b, c) FUNCTION(a, b)
#elif ARGUMENTS == 4  // it also says which it was
#define CALL(a, b, c) FUNCTION(a, b, &which)
#else  // of each half
#define CALL(a, b, c) FUNCTION(a, b, &which, &other)
#endif

extern "C" __global__ void chain(const TYPE *values, TYPE *out) {
    TYPE a = values[0], b = values[1], c = a + 2;
    bool which = false, other = false;
    for (int i = 0; i < ROUNDS; i++) a = CALL(a, b, c);
    out[0] = a;
}

// Each value from its neighbours; those behind the last stay what they are.
extern "C" __global__ void side_by_side(const TYPE *values, TYPE *out) {
    TYPE first = values[threadIdx.x], second = values[threadIdx.x + blockDim.x] + 1;
    TYPE a = first, b = second, c = first + 2, d = second, e = first, f = second;
    bool which = false, other = false;
    for (int i = 0; i < ROUNDS; i++) {
        a = CALL(a, b, c);
        b = CALL(b, c, d);
        c = CALL(c, d, e);
        d = CALL(d, e, f);
    }
    out[threadIdx.x] = a + b + c + d;
}
