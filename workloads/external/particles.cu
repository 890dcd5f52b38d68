// Written after the description in github.com/artinZareie/electric-n-body-cuda (REPORT.md, IMPROVEMENT_REPORT.md, compute.cu), a simulation of charged particles: the electric and magnetic force of each particle on each other one, as a matrix of float4 whose
// rows are then summed, or summed at once by tiles in shared memory; then a step of all. Numbers of particles and indices have 64 bits, as there.

constexpr float electric = 1.0f / (4.0f * 3.14159265358979323846 * 8.8541878188e-12f);
constexpr float magnetic = 1.25663706212e-6f / (4.0f * 3.14159265358979323846);
constexpr float soft = 1e-6f * 1e-6f;
constexpr int tile = 256;
typedef unsigned long long index;

static __device__ float3 vec(float x, float y, float z) { return make_float3(x, y, z); }
static __device__ float3 times(float a, float3 v) { return vec(a * v.x, a * v.y, a * v.z); }
static __device__ float3 plus(float3 a, float3 b) { return vec(a.x + b.x, a.y + b.y, a.z + b.z); }
static __device__ float3 minus(float3 a, float3 b) { return vec(a.x - b.x, a.y - b.y, a.z - b.z); }
static __device__ float dot(float3 a, float3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

// The electric and the magnetic part of the force on a particle (at, moving, charge) by another one.
struct both { float3 electric, magnetic; };
static __device__ both force(float3 at, float3 moving, float charge, float3 other, float3 its, float other_charge) {
    const float3 r = minus(at, other);
    const float inverse = rsqrtf(r.x * r.x + r.y * r.y + r.z * r.z + soft), cubed = inverse * inverse * inverse;
    const float3 first = times(electric * other_charge * charge * cubed, r);
    const float share = magnetic * other_charge * charge * cubed;
    return {first, times(share, minus(times(dot(moving, r), its), times(dot(moving, its), r)))};
}

// `rows`: of the matrix, all of it but for a part of the launch.
extern "C" __global__ void forces(
    const float *x, const float *y, const float *z, const float *vx, const float *vy, const float *vz, const float *q, float4 *matrix, index rows, index count) {
    const index first = threadIdx.x + blockDim.x * blockIdx.x, top = threadIdx.y + blockDim.y * blockIdx.y;
    const index across = blockDim.x * gridDim.x, down = blockDim.y * gridDim.y;
    for (index i = top; i < rows; i += down) {
        const float3 at = vec(x[i], y[i], z[i]), moving = vec(vx[i], vy[i], vz[i]);
        const float charge = q[i];
        for (index j = first; j < count; j += across) {
            if (i == j) {
                matrix[i * count + j] = make_float4(0.f, 0.f, 0.f, 0.f);
                continue;
            }
            const both made = force(at, moving, charge, vec(x[j], y[j], z[j]), vec(vx[j], vy[j], vz[j]), q[j]);
            const float3 sum = plus(made.electric, made.magnetic);
            matrix[i * count + j] = make_float4(sum.x, sum.y, sum.z, 0.0f);
        }
    }
}

extern "C" __global__ void sums_of_rows(const float4 *matrix, float4 *net, index columns, index count) {
    extern __shared__ float4 kept[];
    const index row = blockIdx.x, thread = threadIdx.x, threads = blockDim.x;
    if (row >= count) return;
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
    for (index j = thread; j < count; j += threads) {
        const float4 one = matrix[row * columns + j];
        sum.x += one.x, sum.y += one.y, sum.z += one.z;
    }
    kept[thread] = sum;
    __syncthreads();
    for (index half = threads / 2; half > 0; half >>= 1) {
        if (thread < half) {
            kept[thread].x += kept[thread + half].x;
            kept[thread].y += kept[thread + half].y;
            kept[thread].z += kept[thread + half].z;
        }
        __syncthreads();
    }
    if (thread == 0) net[row] = kept[0];
}

// `of`: how many of the others are summed over, all of them but for a run to some depth.
extern "C" __global__ void forces_by_tiles(
    const float *x, const float *y, const float *z, const float *vx, const float *vy, const float *vz, const float *q, float4 *net, index count, index of) {
    __shared__ float tx[tile], ty[tile], tz[tile], tvx[tile], tvy[tile], tvz[tile], tq[tile];
    const index i = blockIdx.x * blockDim.x + threadIdx.x, thread = threadIdx.x;
    float3 total = vec(0.0f, 0.0f, 0.0f);
    if (i < count) {
        const float3 at = vec(x[i], y[i], z[i]), moving = vec(vx[i], vy[i], vz[i]);
        const float charge = q[i];
        for (index begin = 0; begin < of; begin += tile) {
            const index mine = begin + thread;
            if (mine < count) {
                tx[thread] = x[mine], ty[thread] = y[mine], tz[thread] = z[mine];
                tvx[thread] = vx[mine], tvy[thread] = vy[mine], tvz[thread] = vz[mine];
                tq[thread] = q[mine];
            }
            __syncthreads();
            const index end = begin + tile < of ? begin + tile : of;
            for (index j = begin; j < end; j++) {
                const index here = j - begin;
                if (i == j) continue;
                const both made = force(at, moving, charge, vec(tx[here], ty[here], tz[here]), vec(tvx[here], tvy[here], tvz[here]), tq[here]);
                total = plus(plus(total, made.electric), made.magnetic);
            }
            __syncthreads();
        }
        net[i] = make_float4(total.x, total.y, total.z, 0.0f);
    }
}

extern "C" __global__ void step(
    float *x, float *y, float *z, float *vx, float *vy, float *vz, const float *mass, const float3 *net, float dt, index count) {
    const index all = blockDim.x * gridDim.x;
    for (index i = threadIdx.x + blockDim.x * blockIdx.x; i < count; i += all) {
        const float3 sum = net[i];
        const float m = mass[i];
        const float3 a = vec(sum.x / m, sum.y / m, sum.z / m);
        vx[i] += a.x * dt, vy[i] += a.y * dt, vz[i] += a.z * dt;
        x[i] += vx[i] * dt, y[i] += vy[i] * dt, z[i] += vz[i] * dt;
    }
}
