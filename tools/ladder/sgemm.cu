// C = alpha A B + beta C, row-major FP32, by seven kernels, each a step up from the one before: the public description of
// siboehm's SGEMM ladder, written anew. A is m x k, B k x n, C m x n. Only `naive` and `coalesced` take any size; the others want whole tiles.

extern "C" __global__ void naive(int m, int n, int k, float alpha, const float *A, const float *B, float beta, float *C) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;  // neighbouring lanes have neighbouring rows
  const int column = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < m && column < n) {
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += A[row * k + i] * B[i * n + column];
    C[row * n + column] = alpha * sum + beta * C[row * n + column];
  }
}

extern "C" __global__ void coalesced(int m, int n, int k, float alpha, const float *A, const float *B, float beta, float *C) {
  const int row = blockIdx.x * 32 + threadIdx.x / 32;
  const int column = blockIdx.y * 32 + threadIdx.x % 32;
  if (row < m && column < n) {
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += A[row * k + i] * B[i * n + column];
    C[row * n + column] = alpha * sum + beta * C[row * n + column];
  }
}

extern "C" __global__ void __launch_bounds__(1024)
shared_tile(int m, int n, int k, float alpha, const float *A, const float *B, float beta, float *C) {
  constexpr int T = 32;
  __shared__ float a_tile[T * T], b_tile[T * T];
  const int row = threadIdx.x / T, column = threadIdx.x % T;
  A += blockIdx.x * T * k;
  B += blockIdx.y * T;
  C += blockIdx.x * T * n + blockIdx.y * T;
  float sum = 0.0f;
  for (int begin = 0; begin < k; begin += T) {
    a_tile[row * T + column] = A[row * k + column];
    b_tile[row * T + column] = B[row * n + column];
    __syncthreads();
    A += T;
    B += T * n;
    for (int i = 0; i < T; ++i) sum += a_tile[row * T + i] * b_tile[i * T + column];
    __syncthreads();
  }
  C[row * n + column] = alpha * sum + beta * C[row * n + column];
}

// 512 threads, a 64 x 64 tile of C, depth 8, eight rows of one column a thread.
extern "C" __global__ void __launch_bounds__(512)
tile_1d(int m, int n, int k, float alpha, const float *A, const float *B, float beta, float *C) {
  constexpr int BM = 64, BN = 64, BK = 8, TM = 8;
  __shared__ float a_tile[BM * BK], b_tile[BK * BN];
  const int row = threadIdx.x / BN, column = threadIdx.x % BN;
  A += blockIdx.y * BM * k;
  B += blockIdx.x * BN;
  C += blockIdx.y * BM * n + blockIdx.x * BN;
  const int a_row = threadIdx.x / BK, a_column = threadIdx.x % BK;
  const int b_row = threadIdx.x / BN, b_column = threadIdx.x % BN;
  float sums[TM] = {0.0f};
  for (int begin = 0; begin < k; begin += BK) {
    a_tile[a_row * BK + a_column] = A[a_row * k + a_column];
    b_tile[b_row * BN + b_column] = B[b_row * n + b_column];
    __syncthreads();
    A += BK;
    B += BK * n;
    for (int i = 0; i < BK; ++i) {
      const float b = b_tile[i * BN + column];
      for (int t = 0; t < TM; ++t) sums[t] += a_tile[(row * TM + t) * BK + i] * b;
    }
    __syncthreads();
  }
  for (int t = 0; t < TM; ++t) {
    float *c = &C[(row * TM + t) * n + column];
    *c = alpha * sums[t] + beta * *c;
  }
}

// 256 threads, a 128 x 128 tile of C, depth 8, 8 x 8 results a thread.
extern "C" __global__ void __launch_bounds__(256)
tile_2d(int m, int n, int k, float alpha, const float *A, const float *B, float beta, float *C) {
  constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8, THREADS = 256;
  __shared__ float a_tile[BM * BK], b_tile[BK * BN];
  const int row = threadIdx.x / (BN / TN), column = threadIdx.x % (BN / TN);
  A += blockIdx.y * BM * k;
  B += blockIdx.x * BN;
  C += blockIdx.y * BM * n + blockIdx.x * BN;
  const int a_row = threadIdx.x / BK, a_column = threadIdx.x % BK;
  const int b_row = threadIdx.x / BN, b_column = threadIdx.x % BN;
  float sums[TM][TN] = {{0.0f}}, a[TM], b[TN];
  for (int begin = 0; begin < k; begin += BK) {
    for (int r = 0; r < BM; r += THREADS / BK) a_tile[(a_row + r) * BK + a_column] = A[(a_row + r) * k + a_column];
    for (int r = 0; r < BK; r += THREADS / BN) b_tile[(b_row + r) * BN + b_column] = B[(b_row + r) * n + b_column];
    __syncthreads();
    A += BK;
    B += BK * n;
    for (int i = 0; i < BK; ++i) {
      for (int t = 0; t < TM; ++t) a[t] = a_tile[(row * TM + t) * BK + i];
      for (int t = 0; t < TN; ++t) b[t] = b_tile[i * BN + column * TN + t];
      for (int y = 0; y < TM; ++y)
        for (int x = 0; x < TN; ++x) sums[y][x] += a[y] * b[x];
    }
    __syncthreads();
  }
  for (int y = 0; y < TM; ++y)
    for (int x = 0; x < TN; ++x) {
      float *c = &C[(row * TM + y) * n + column * TN + x];
      *c = alpha * sums[y][x] + beta * *c;
    }
}

// As tile_2d, by float4, with A's tile transposed in shared memory.
extern "C" __global__ void __launch_bounds__(256)
vectorised(int m, int n, int k, float alpha, const float *A, const float *B, float beta, float *C) {
  constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8;
  __shared__ __align__(16) float a_tile[BK * BM], b_tile[BK * BN];
  const int row = threadIdx.x / (BN / TN), column = threadIdx.x % (BN / TN);
  A += blockIdx.y * BM * k;
  B += blockIdx.x * BN;
  C += blockIdx.y * BM * n + blockIdx.x * BN;
  const int a_row = threadIdx.x / (BK / 4), a_column = threadIdx.x % (BK / 4);
  const int b_row = threadIdx.x / (BN / 4), b_column = threadIdx.x % (BN / 4);
  float sums[TM][TN] = {{0.0f}}, a[TM], b[TN];
  for (int begin = 0; begin < k; begin += BK) {
    const float4 four = *reinterpret_cast<const float4 *>(&A[a_row * k + 4 * a_column]);
    a_tile[(4 * a_column + 0) * BM + a_row] = four.x;
    a_tile[(4 * a_column + 1) * BM + a_row] = four.y;
    a_tile[(4 * a_column + 2) * BM + a_row] = four.z;
    a_tile[(4 * a_column + 3) * BM + a_row] = four.w;
    *reinterpret_cast<float4 *>(&b_tile[b_row * BN + 4 * b_column]) =
        *reinterpret_cast<const float4 *>(&B[b_row * n + 4 * b_column]);
    __syncthreads();
    A += BK;
    B += BK * n;
    for (int i = 0; i < BK; ++i) {
      for (int t = 0; t < TM; ++t) a[t] = a_tile[i * BM + row * TM + t];
      for (int t = 0; t < TN; ++t) b[t] = b_tile[i * BN + column * TN + t];
      for (int y = 0; y < TM; ++y)
        for (int x = 0; x < TN; ++x) sums[y][x] += a[y] * b[x];
    }
    __syncthreads();
  }
  for (int y = 0; y < TM; ++y)
    for (int x = 0; x < TN; x += 4) {
      float4 *c = reinterpret_cast<float4 *>(&C[(row * TM + y) * n + column * TN + x]);
      float4 old = *c;
      old.x = alpha * sums[y][x] + beta * old.x;
      old.y = alpha * sums[y][x + 1] + beta * old.y;
      old.z = alpha * sums[y][x + 2] + beta * old.z;
      old.w = alpha * sums[y][x + 3] + beta * old.w;
      *c = old;
    }
}

// 128 threads, a 128 x 128 tile of C, depth 16; each of 4 warps has 64 x 64 of it, in four steps along its columns; 8 x 4 results a
// thread and step.
extern "C" __global__ void __launch_bounds__(128)
warp_tile(int m, int n, int k, float alpha, const float *A, const float *B, float beta, float *C) {
  constexpr int BM = 128, BN = 128, BK = 16, WM = 64, WN = 64, TM = 8, TN = 4, WN_STEPS = 4, THREADS = 128;
  constexpr int WSUBN = WN / WN_STEPS;  // 16 columns a step: 4 threads of 4; 8 threads of 8 rows
  __shared__ __align__(16) float a_tile[BK * BM], b_tile[BK * BN];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_row = warp / (BN / WN), warp_column = warp % (BN / WN);
  const int row = lane / (WSUBN / TN), column = lane % (WSUBN / TN);
  A += blockIdx.y * BM * k;
  B += blockIdx.x * BN;
  C += (blockIdx.y * BM + warp_row * WM) * n + blockIdx.x * BN + warp_column * WN;
  const int a_row = threadIdx.x / (BK / 4), a_column = threadIdx.x % (BK / 4);
  const int b_row = threadIdx.x / (BN / 4), b_column = threadIdx.x % (BN / 4);
  float sums[WN_STEPS][TM][TN] = {{{0.0f}}}, a[TM], b[WN_STEPS][TN];
  for (int begin = 0; begin < k; begin += BK) {
    for (int r = 0; r < BM; r += THREADS * 4 / BK) {
      const float4 four = *reinterpret_cast<const float4 *>(&A[(a_row + r) * k + 4 * a_column]);
      a_tile[(4 * a_column + 0) * BM + a_row + r] = four.x;
      a_tile[(4 * a_column + 1) * BM + a_row + r] = four.y;
      a_tile[(4 * a_column + 2) * BM + a_row + r] = four.z;
      a_tile[(4 * a_column + 3) * BM + a_row + r] = four.w;
    }
    for (int r = 0; r < BK; r += THREADS * 4 / BN)
      *reinterpret_cast<float4 *>(&b_tile[(b_row + r) * BN + 4 * b_column]) =
          *reinterpret_cast<const float4 *>(&B[(b_row + r) * n + 4 * b_column]);
    __syncthreads();
    for (int i = 0; i < BK; ++i) {
      for (int t = 0; t < TM; ++t) a[t] = a_tile[i * BM + warp_row * WM + row * TM + t];
      for (int s = 0; s < WN_STEPS; ++s)
        for (int t = 0; t < TN; ++t) b[s][t] = b_tile[i * BN + warp_column * WN + s * WSUBN + column * TN + t];
      for (int s = 0; s < WN_STEPS; ++s)
        for (int y = 0; y < TM; ++y)
          for (int x = 0; x < TN; ++x) sums[s][y][x] += a[y] * b[s][x];
    }
    A += BK;
    B += BK * n;
    __syncthreads();
  }
  for (int s = 0; s < WN_STEPS; ++s)
    for (int y = 0; y < TM; ++y) {
      float4 *c = reinterpret_cast<float4 *>(&C[(row * TM + y) * n + s * WSUBN + column * TN]);
      float4 old = *c;
      old.x = alpha * sums[s][y][0] + beta * old.x;
      old.y = alpha * sums[s][y][1] + beta * old.y;
      old.z = alpha * sums[s][y][2] + beta * old.z;
      old.w = alpha * sums[s][y][3] + beta * old.w;
      *c = old;
    }
}
