/* Prompt kernels: tiles of 4 tokens x 6 rows, lanes over K, from a panel of expanded weights.  24 sums, 4 vectors of
 * activations and 1 of weights are in registers; 10 loads feed 24 multiply-adds.  A sum is reduced once per block of K.
 * exact: everything in f32.  fast: activations and weights in bf16, two products a lane. */
#include "backend/cpu/matmul_avx512.h"

enum { TOKENS = 4, ROWS = 6 };

/* ---- filling a panel ---- */

SL_INLINE __mmask16 mask16(int n) { return (__mmask16)(n >= 16 ? 0xFFFFu : (1u << n) - 1); }
SL_INLINE __mmask32 mask32(int n) { return n >= 32 ? 0xFFFFFFFF : (1u << n) - 1; }
SL_INLINE __mmask64 mask64(int n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }

static void fill_f32_from_f32(uint8_t *to, size_t apart, const uint8_t *weights, int n) {
  for (int k = 0; k < n; k += 16, to += apart)
    _mm512_store_ps(to, _mm512_maskz_loadu_ps(mask16(n - k), weights + (size_t)k * 4));
}

static void fill_f32_from_f16(uint8_t *to, size_t apart, const uint8_t *weights, int n) {
  for (int k = 0; k < n; k += 16, to += apart)
    _mm512_store_ps(to, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask16(n - k), weights + (size_t)k * 2)));
}

static void fill_f32_from_bf16(uint8_t *to, size_t apart, const uint8_t *weights, int n) {
  for (int k = 0; k < n; k += 16, to += apart) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask16(n - k), weights + (size_t)k * 2));
    _mm512_store_si512(to, _mm512_slli_epi32(wide, 16));
  }
}

/* For elements 16 i .. 16 i + 15 of 64: 0, 0, low byte, high byte. */
SL_INLINE __m512i f8_part(__m512i high, __m512i low, int i) {
  const __m512i spread =
      _mm512_set_epi32(0x4F0F0000, 0x4E0E0000, 0x4D0D0000, 0x4C0C0000, 0x4B0B0000, 0x4A0A0000, 0x49090000, 0x48080000,
                       0x47070000, 0x46060000, 0x45050000, 0x44040000, 0x43030000, 0x42020000, 0x41010000, 0x40000000);
  __m512i index = _mm512_add_epi8(spread, _mm512_set1_epi32((int)(0x10100000u * (unsigned)i)));
  return _mm512_maskz_permutex2var_epi8(0xCCCCCCCCCCCCCCCCull, low, index, high);
}

static void fill_f32_from_f8(uint8_t *to, size_t apart, const uint8_t *weights, int n) {
  sl_f8_table table = sl_f8_load_table();
  for (int k = 0; k < n; k += 64) {
    __m512i high, low;
    sl_f8_bytes(&table, _mm512_maskz_loadu_epi8(mask64(n - k), weights + k), &high, &low);
    SL_UNROLL
    for (int i = 0; i < 4; i++, to += apart) {
      if (k + 16 * i >= n) return;
      _mm512_store_si512(to, f8_part(high, low, i));
    }
  }
}

static void fill_bf16_from_bf16(uint8_t *to, size_t apart, const uint8_t *weights, int n) {
  for (int k = 0; k < n; k += 32, to += apart)
    _mm512_store_si512(to, _mm512_maskz_loadu_epi16(mask32(n - k), weights + (size_t)k * 2));
}

static void fill_bf16_from_f8(uint8_t *to, size_t apart, const uint8_t *weights, int n) {
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                last = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  sl_f8_table table = sl_f8_load_table();
  for (int k = 0; k < n; k += 64, to += 2 * apart) {
    __m512i high, low;
    sl_f8_bytes(&table, _mm512_maskz_loadu_epi8(mask64(n - k), weights + k), &high, &low);
    __m512i even = _mm512_unpacklo_epi8(low, high), odd = _mm512_unpackhi_epi8(low, high);
    _mm512_store_si512(to, _mm512_permutex2var_epi64(even, first, odd));
    if (k + 32 < n) _mm512_store_si512(to + apart, _mm512_permutex2var_epi64(even, last, odd));
  }
}

/* ---- tiles ---- */

/* Sums of T x 6 accumulators, in that order, into 24 floats. */
SL_INLINE void reduce_tile(float *sums, bool add, __m512 sum[TOKENS * ROWS], const int T) {
  SL_UNROLL
  for (int i = T * ROWS; i < TOKENS * ROWS; i++) sum[i] = _mm512_setzero_ps();
  __m512 quads[6];
  SL_UNROLL
  for (int i = 0; i < 6; i++) quads[i] = sl_sum_quads(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]);
  __m512 first = sl_sum_lanes(sl_sum_lanes(quads[0], quads[1]), sl_sum_lanes(quads[2], quads[3]));
  __m512 last = sl_sum_lanes(quads[4], quads[5]);
  __m256 rest = _mm512_castps512_ps256(sl_sum_lanes(last, last));
  if (add) {
    first = _mm512_add_ps(_mm512_load_ps(sums), first);
    rest = _mm256_add_ps(_mm256_load_ps(sums + 16), rest);
  }
  _mm512_store_ps(sums, first);
  _mm256_store_ps(sums + 16, rest);
}

SL_INLINE void tile_f32(float *sums, bool add, const uint8_t *const *tokens, const uint8_t *panel, int n, const int T) {
  __m512 sum[TOKENS * ROWS];
  const float *x[TOKENS];
  SL_UNROLL
  for (int t = 0; t < T; t++) x[t] = (const float *)(const void *)tokens[t];
  SL_UNROLL
  for (int i = 0; i < T * ROWS; i++) sum[i] = _mm512_setzero_ps();

  int k = 0;
  for (; k + 16 <= n; k += 16, panel += ROWS * 64) {
    __m512 a[TOKENS];
    SL_UNROLL
    for (int t = 0; t < T; t++) a[t] = _mm512_loadu_ps(x[t] + k);
    SL_UNROLL
    for (int r = 0; r < ROWS; r++) {
      __m512 w = _mm512_load_ps(panel + r * 64);
      SL_UNROLL
      for (int t = 0; t < T; t++) sum[t * ROWS + r] = _mm512_fmadd_ps(a[t], w, sum[t * ROWS + r]);
    }
  }
  if (k < n) {
    SL_UNROLL
    for (int t = 0; t < T; t++) {
      __m512 a = _mm512_maskz_loadu_ps(mask16(n - k), x[t] + k);
      SL_UNROLL
      for (int r = 0; r < ROWS; r++)
        sum[t * ROWS + r] = _mm512_fmadd_ps(a, _mm512_load_ps(panel + r * 64), sum[t * ROWS + r]);
    }
  }
  reduce_tile(sums, add, sum, T);
}

SL_INLINE void tile_bf16(float *sums, bool add, const uint8_t *const *tokens, const uint8_t *panel, int n,
                         const int T) {
  __m512 sum[TOKENS * ROWS];
  const uint8_t *x[TOKENS];
  SL_UNROLL
  for (int t = 0; t < T; t++) x[t] = tokens[t];
  SL_UNROLL
  for (int i = 0; i < T * ROWS; i++) sum[i] = _mm512_setzero_ps();

  for (int k = 0; k < n; k += 32, panel += ROWS * 64) {
    __m512i a[TOKENS];
    SL_UNROLL
    for (int t = 0; t < T; t++) a[t] = _mm512_load_si512(x[t] + (size_t)k * 2);
    SL_UNROLL
    for (int r = 0; r < ROWS; r++) {
      __m512i w = _mm512_load_si512(panel + r * 64);
      SL_UNROLL
      for (int t = 0; t < T; t++) sum[t * ROWS + r] = _mm512_dpbf16_ps(sum[t * ROWS + r], (__m512bh)a[t], (__m512bh)w);
    }
  }
  reduce_tile(sums, add, sum, T);
}

#define TILE(name, loop)                                                                                               \
  static void name(float *sums, bool add, const uint8_t *const *tokens, int n_tokens, const uint8_t *panel, int n) {   \
    switch (n_tokens) {                                                                                                \
    case 1:                                                                                                            \
      loop(sums, add, tokens, panel, n, 1);                                                                            \
      break;                                                                                                           \
    case 2:                                                                                                            \
      loop(sums, add, tokens, panel, n, 2);                                                                            \
      break;                                                                                                           \
    case 3:                                                                                                            \
      loop(sums, add, tokens, panel, n, 3);                                                                            \
      break;                                                                                                           \
    default:                                                                                                           \
      loop(sums, add, tokens, panel, n, 4);                                                                            \
      break;                                                                                                           \
    }                                                                                                                  \
  }
TILE(run_tile_f32, tile_f32)
TILE(run_tile_bf16, tile_bf16)

static void pack_bf16(void *to, const float *x, int n) {
  __m512i *out = to;
  for (int k = 0; k < n; k += 32) {
    __m512 a = _mm512_maskz_loadu_ps(mask16(n - k), x + k);
    __m512 b = k + 16 < n ? _mm512_maskz_loadu_ps(mask16(n - k - 16), x + k + 16) : _mm512_setzero_ps();
    *out++ = (__m512i)_mm512_cvtne2ps_pbh(b, a);
  }
}

const sl_mm_prompt sl_avx512_prompt_exact = {
    .tile_tokens = TOKENS,
    .tile_rows = ROWS,
    .block = 704,
    .unit = 4,
    .vector = 64,
    .fill = {[SL_F32] = fill_f32_from_f32,
             [SL_F16] = fill_f32_from_f16,
             [SL_BF16] = fill_f32_from_bf16,
             [SL_F8_E4M3] = fill_f32_from_f8},
    .tile = run_tile_f32,
};

const sl_mm_prompt sl_avx512_prompt_fast = {
    .tile_tokens = TOKENS,
    .tile_rows = ROWS,
    .block = 1408,
    .unit = 2,
    .vector = 64,
    .pack = pack_bf16,
    .fill = {[SL_BF16] = fill_bf16_from_bf16, [SL_F8_E4M3] = fill_bf16_from_f8},
    .tile = run_tile_bf16,
};

/* ---- rows ---- */

static void expand_f32(float *out, const uint8_t *w, int n) {
  for (int k = 0; k < n; k += 16)
    _mm512_mask_storeu_ps(out + k, mask16(n - k), _mm512_maskz_loadu_ps(mask16(n - k), w + (size_t)k * 4));
}

static void expand_f16(float *out, const uint8_t *w, int n) {
  for (int k = 0; k < n; k += 16) {
    __m256i half = _mm256_maskz_loadu_epi16(mask16(n - k), w + (size_t)k * 2);
    _mm512_mask_storeu_ps(out + k, mask16(n - k), _mm512_cvtph_ps(half));
  }
}

static void expand_bf16(float *out, const uint8_t *w, int n) {
  for (int k = 0; k < n; k += 16) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask16(n - k), w + (size_t)k * 2));
    _mm512_mask_storeu_epi32(out + k, mask16(n - k), _mm512_slli_epi32(wide, 16));
  }
}

static void expand_f8(float *out, const uint8_t *w, int n) {
  sl_f8_table table = sl_f8_load_table();
  for (int k = 0; k < n; k += 64) {
    __m512i high, low;
    sl_f8_bytes(&table, _mm512_maskz_loadu_epi8(mask64(n - k), w + k), &high, &low);
    SL_UNROLL
    for (int i = 0; i < 4; i++) {
      if (k + 16 * i >= n) return;
      _mm512_mask_storeu_epi32(out + k + 16 * i, mask16(n - k - 16 * i), f8_part(high, low, i));
    }
  }
}

static void scale_row(float *x, float factor, int n) {
  for (int k = 0; k < n; k += 16) {
    __m512 v = _mm512_maskz_loadu_ps(mask16(n - k), x + k);
    _mm512_mask_storeu_ps(x + k, mask16(n - k), _mm512_mul_ps(v, _mm512_set1_ps(factor)));
  }
}

/* In integers: the conversion instruction would flush subnormals. */
static void to_bf16(uint8_t *to, const float *x, int n) {
  const __m512i half = _mm512_set1_epi32(0x7FFF), one = _mm512_set1_epi32(1), quiet = _mm512_set1_epi32(0x400000);
  for (int k = 0; k < n; k += 16) {
    __m512 v = _mm512_maskz_loadu_ps(mask16(n - k), x + k);
    __m512i u = _mm512_castps_si512(v);
    __m512i even = _mm512_and_si512(_mm512_srli_epi32(u, 16), one);
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(u, half), even);
    rounded = _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), u, quiet);
    _mm256_mask_storeu_epi16(to + (size_t)k * 2, mask16(n - k), _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
  }
}

const sl_mm_rows sl_avx512_rows = {
    .expand = {[SL_F32] = expand_f32, [SL_F16] = expand_f16, [SL_BF16] = expand_bf16, [SL_F8_E4M3] = expand_f8},
    .scale = scale_row,
    .to_bf16 = to_bf16,
};
