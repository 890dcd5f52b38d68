// Seven-point stencil: a block's plane is in shared memory, the planes behind and ahead in registers, and it marches through z.
template <int BX, int BY>
__global__ void __launch_bounds__(BX * BY) stencil3d(const float *__restrict__ in, float *__restrict__ out, int nx, int ny, int nz, float centre, float side)
{
    __shared__ float plane[BY + 2][BX + 2];
    const int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y, tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    const bool inside = x < nx && y < ny;
    const size_t layer = (size_t)nx * ny, at = (size_t)y * nx + x;
    auto read = [&](int z) { return inside ? in[at + z * layer] : 0.0f; };
    float behind = 0.0f, here = read(0), ahead = nz > 1 ? read(1) : 0.0f;
    for (int z = 0; z < nz; ++z) {
        plane[ty][tx] = here;
        if (threadIdx.x == 0) plane[ty][0] = inside && x > 0 ? in[at + z * layer - 1] : 0.0f;
        if (threadIdx.x == BX - 1) plane[ty][BX + 1] = inside && x + 1 < nx ? in[at + z * layer + 1] : 0.0f;
        if (threadIdx.y == 0) plane[0][tx] = inside && y > 0 ? in[at + z * layer - nx] : 0.0f;
        if (threadIdx.y == BY - 1) plane[BY + 1][tx] = inside && y + 1 < ny ? in[at + z * layer + nx] : 0.0f;
        __syncthreads();
        if (inside)
            out[at + z * layer] = centre * here + side * (plane[ty][tx - 1] + plane[ty][tx + 1] + plane[ty - 1][tx] + plane[ty + 1][tx] + behind + ahead);
        __syncthreads();
        behind = here, here = ahead, ahead = z + 2 < nz ? read(z + 2) : 0.0f;
    }
}
