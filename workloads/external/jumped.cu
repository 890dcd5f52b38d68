// Written after the description of github.com/arminms/p2rng (include/p2rng/algorithm/generate.hpp): each thread takes one number of a sequence of its own place in it. The generator is
// O'Neill's PCG XSH RR with 64 bits of state (pcg-random.org), which jumps ahead as F. Brown describes it (Random Number Generation with Arbitrary Strides, 1994).

typedef unsigned long long Bits;

// The state `steps` further on: one turn for each bit of `steps`, which squares the step that it takes.
static __device__ Bits ahead(Bits state, Bits steps, Bits factor, Bits addend) {
    Bits whole_factor = 1, whole_addend = 0;
    while (steps > 0) {
        if (steps & 1) {
            whole_factor *= factor;
            whole_addend = whole_addend * factor + addend;
        }
        addend = (factor + 1) * addend;
        factor *= factor;
        steps >>= 1;
    }
    return whole_factor * state + whole_addend;
}

static __device__ unsigned shuffled(Bits state) {
    const unsigned turns = state >> 59, mixed = (state >> 18 ^ state) >> 27;
    return mixed >> turns | mixed << (-turns & 31);
}

template <class Real> struct Least;
template <> struct Least<float> { static constexpr float value = 1.1920928955078125e-7f; };
template <> struct Least<double> { static constexpr double value = 2.2204460492503131e-16; };

// `apart` and `among` say which blocks of the whole launch these are (1 and all bits: the first ones): steps grow with the block, so a part of them must lie all over the launch.
template <class Real>
__global__ void jumped(Real *out, Bits count, Real from, Real width, Bits addend, Bits state, unsigned apart, unsigned among) {
    const unsigned mine = (blockIdx.x * apart & among) * blockDim.x + threadIdx.x;
    if (mine < count) {
        const Bits here = ahead(state, mine, 6364136223846793005ull, addend);
        const Real drawn = static_cast<Real>(static_cast<long>(shuffled(here)));
        out[mine] = width * (drawn * (Real(1) / Real(4294967295u) * (Real(1) - Least<Real>::value))) + from;
    }
}
