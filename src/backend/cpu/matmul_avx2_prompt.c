/* Prompt kernels for AVX2 and FMA: tiles of 3 tokens x 4 rows, lanes over K, from a panel of weights in f32.  12 sums
 * and 3 vectors of activations fill the 16 registers. */
#include "backend/cpu/matmul_avx2.h"

enum { TOKENS = 3, ROWS = 4 };

SL_INLINE void fill(sl_dtype dtype, uint8_t *to, size_t apart, const uint8_t *weights, int n) {
  __m256 w[2];
  for (int k = 0; k < n; k += 16, weights += 16 * sl_size_of(dtype)) {
    if (n - k >= 16)
      sl_widen_16(dtype, w, weights);
    else
      sl_widen_tail(dtype, w, weights, n - k);
    for (int i = 0; i < 2; i++, to += apart) {
      if (k + 8 * i >= n) return;
      if (dtype == SL_F8_E4M3) w[i] = _mm256_mul_ps(w[i], _mm256_set1_ps(SL_F8_UNIT));
      _mm256_store_ps((float *)(void *)to, w[i]);
    }
  }
}

#define FILL(name, dtype)                                                                                              \
  static void name(uint8_t *to, size_t apart, const uint8_t *weights, int n) { fill(dtype, to, apart, weights, n); }
FILL(fill_f32, SL_F32)
FILL(fill_f16, SL_F16)
FILL(fill_bf16, SL_BF16)
FILL(fill_f8, SL_F8_E4M3)

SL_INLINE void tile(float *sums, bool add, const uint8_t *const *tokens, const uint8_t *panel, int n, const int T) {
  __m256 sum[TOKENS][ROWS], a[TOKENS];
  const float *x[TOKENS];
  SL_UNROLL
  for (int t = 0; t < T; t++) {
    x[t] = (const float *)(const void *)tokens[t];
    SL_UNROLL
    for (int r = 0; r < ROWS; r++) sum[t][r] = _mm256_setzero_ps();
  }
  for (int k = 0; k < n; k += 8, panel += ROWS * 32) {
    SL_UNROLL
    for (int t = 0; t < T; t++) a[t] = k + 8 <= n ? _mm256_loadu_ps(x[t] + k) : sl_load_8(x[t] + k, n - k);
    SL_UNROLL
    for (int r = 0; r < ROWS; r++) {
      __m256 w = _mm256_load_ps((const float *)(const void *)(panel + r * 32));
      SL_UNROLL
      for (int t = 0; t < T; t++) sum[t][r] = _mm256_fmadd_ps(a[t], w, sum[t][r]);
    }
  }
  SL_UNROLL
  for (int t = 0; t < T; t++) {
    __m128 reduced = sl_sum_4(sum[t][0], sum[t][1], sum[t][2], sum[t][3]);
    if (add) reduced = _mm_add_ps(_mm_load_ps(sums + t * ROWS), reduced);
    _mm_store_ps(sums + t * ROWS, reduced);
  }
}

static void run_tile(float *sums, bool add, const uint8_t *const *tokens, int n_tokens, const uint8_t *panel, int n) {
  switch (n_tokens) {
  case 1:
    tile(sums, add, tokens, panel, n, 1);
    break;
  case 2:
    tile(sums, add, tokens, panel, n, 2);
    break;
  default:
    tile(sums, add, tokens, panel, n, 3);
    break;
  }
}

const sl_mm_prompt sl_avx2_prompt = {
    .tile_tokens = TOKENS,
    .tile_rows = ROWS,
    .block = 704,
    .unit = 4,
    .vector = 32,
    .fill = {[SL_F32] = fill_f32, [SL_F16] = fill_f16, [SL_BF16] = fill_bf16, [SL_F8_E4M3] = fill_f8},
    .tile = run_tile,
};
