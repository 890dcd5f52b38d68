// A step of a lattice Boltzmann method in place, after the descriptions of a program that others measured: 19 velocities (D3Q19), one relaxation time, populations
// less their weights, which lie one velocity after another in one array and are streamed where they lie ("Esoteric Pull"): a step reads of each pair of opposite
// velocities one from the cell and one from its neighbour, and writes them back crosswise. FORMAT: 0 single precision; 1 half precision scaled by 2^15; 2 sixteen bits
// with four of exponent and eleven of mantissa, converted by integer arithmetic. SIDE: cells along each axis of a periodic cube, a power of two.
constexpr unsigned VELOCITIES = 19, SOLID = 1;
constexpr float RATE = 1.0f / (3.0f * 1.0f + 0.5f), FASTEST = 0.57735027f;

template <int FORMAT> struct Held { using Type = unsigned short; };
template <> struct Held<0> { using Type = float; };

template <int FORMAT>
__device__ float loaded(const unsigned short *from)
{
    const unsigned bits = *from;
    if (FORMAT == 1) {
        float wide;
        asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(static_cast<unsigned short>(bits)));
        return wide * 3.0517578e-5f;
    }
    const unsigned exponent = (bits & 0x7800u) >> 11, mantissa = (bits & 0x07ffu) << 12, place = __float_as_uint(static_cast<float>(mantissa)) >> 23;
    const unsigned normal = (exponent != 0) * ((exponent + 112u) << 23 | mantissa);
    const unsigned denormal = ((exponent == 0) & (mantissa != 0)) * ((place - 37u) << 23 | ((mantissa << (150u - place)) & 0x007ff000u));
    return __uint_as_float((bits & 0x8000u) << 16 | normal | denormal);
}

template <int FORMAT>
__device__ float loaded(const float *from) { return *from; }

template <int FORMAT>
__device__ void stored(float *to, float value) { *to = value; }

template <int FORMAT>
__device__ void stored(unsigned short *to, float value)
{
    if (FORMAT == 1) {
        unsigned short narrow;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow) : "f"(value * 32768.0f));
        *to = narrow;
        return;
    }
    const unsigned bits = __float_as_uint(value) + 0x00000800u, exponent = (bits & 0x7f800000u) >> 23, mantissa = bits & 0x007fffffu;
    const unsigned normal = (exponent > 112u) * ((((exponent - 112u) << 11) & 0x7800u) | mantissa >> 12);
    const unsigned denormal = ((exponent < 113u) & (exponent > 100u)) * ((((0x007ff800u + mantissa) >> (124u - exponent)) + 1u) >> 1);
    *to = static_cast<unsigned short>((bits & 0x80000000u) >> 16 | normal | denormal);
}

// Velocity i of the pairs (1, 2), (3, 4) ...: the first of each pair, the second is its opposite.
__device__ constexpr int ALONG_X[9] = {1, 0, 0, 1, 1, 0, 1, 1, 0};
__device__ constexpr int ALONG_Y[9] = {0, 1, 0, 1, 0, 1, -1, 0, 1};
__device__ constexpr int ALONG_Z[9] = {0, 0, 1, 0, 1, 1, 0, -1, -1};

template <int FORMAT, unsigned SIDE>
__global__ void lattice(typename Held<FORMAT>::Type *populations, const unsigned char *flags, unsigned long long step)
{
    constexpr unsigned CELLS = SIDE * SIDE * SIDE;
    const unsigned n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= CELLS) return;
    if (flags[n] & SOLID) return;
    const unsigned x = n % SIDE, y = n / SIDE % SIDE, z = n / (SIDE * SIDE);
    const unsigned xs[3] = {(x + SIDE - 1) % SIDE, x, (x + 1) % SIDE};
    const unsigned ys[3] = {(y + SIDE - 1) % SIDE * SIDE, y * SIDE, (y + 1) % SIDE * SIDE};
    const unsigned zs[3] = {(z + SIDE - 1) % SIDE * (SIDE * SIDE), z * (SIDE * SIDE), (z + 1) % SIDE * (SIDE * SIDE)};
    const bool odd = step % 2 != 0;
    const auto place = [&](unsigned cell, unsigned velocity) { return populations + (static_cast<unsigned long long>(velocity) * CELLS + cell); };

    float f[VELOCITIES];
    unsigned next[9];
    f[0] = loaded<FORMAT>(place(n, 0));
    #pragma unroll
    for (int pair = 0; pair < 9; ++pair) {
        const unsigned i = 2 * pair + 1;
        next[pair] = xs[1 + ALONG_X[pair]] + ys[1 + ALONG_Y[pair]] + zs[1 + ALONG_Z[pair]];
        f[i] = loaded<FORMAT>(place(n, odd ? i : i + 1));
        f[i + 1] = loaded<FORMAT>(place(next[pair], odd ? i + 1 : i));
    }

    float density = f[0], ux = 0.0f, uy = 0.0f, uz = 0.0f;
    #pragma unroll
    for (int i = 1; i < VELOCITIES; ++i) density += f[i];
    density += 1.0f;
    #pragma unroll
    for (int pair = 0; pair < 9; ++pair) {
        const float plus = f[2 * pair + 1], minus = f[2 * pair + 2];
        if (ALONG_X[pair]) ux = ux + plus - minus;
        if (ALONG_Y[pair] > 0) uy = uy + plus - minus;
        if (ALONG_Y[pair] < 0) uy = uy - plus + minus;
        if (ALONG_Z[pair] > 0) uz = uz + plus - minus;
        if (ALONG_Z[pair] < 0) uz = uz - plus + minus;
    }
    ux = fminf(fmaxf(ux / density, -FASTEST), FASTEST);
    uy = fminf(fmaxf(uy / density, -FASTEST), FASTEST);
    uz = fminf(fmaxf(uz / density, -FASTEST), FASTEST);

    const float square = -3.0f * (ux * ux + uy * uy + uz * uz), excess = density - 1.0f;
    ux *= 3.0f;
    uy *= 3.0f;
    uz *= 3.0f;
    f[0] = fmaf(1.0f - RATE, f[0], RATE * ((1.0f / 3.0f) * fmaf(density, 0.5f * square, excess)));
    #pragma unroll
    for (int pair = 0; pair < 9; ++pair) {
        const float weight = pair < 3 ? 1.0f / 18.0f : 1.0f / 36.0f, share = weight * density, less = weight * excess;
        const float u = ALONG_X[pair] * ux + ALONG_Y[pair] * uy + ALONG_Z[pair] * uz, even = fmaf(u, u, square);
        f[2 * pair + 1] = fmaf(1.0f - RATE, f[2 * pair + 1], RATE * fmaf(share, fmaf(0.5f, even, u), less));
        f[2 * pair + 2] = fmaf(1.0f - RATE, f[2 * pair + 2], RATE * fmaf(share, fmaf(0.5f, even, -u), less));
    }

    stored<FORMAT>(place(n, 0), f[0]);
    #pragma unroll
    for (int pair = 0; pair < 9; ++pair) {
        const unsigned i = 2 * pair + 1;
        stored<FORMAT>(place(next[pair], odd ? i + 1 : i), f[i]);
        stored<FORMAT>(place(n, odd ? i : i + 1), f[i + 1]);
    }
}
