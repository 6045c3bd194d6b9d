/* The small vector type of the vector kernels, for AVX-512: 16 floats.  simd_avx2.h has the same names for 8 floats, so
 * that each loop is written once.  Functions that end in _n touch only the first n elements of memory, 0 <= n <=
 * VF_LANES; what they load beyond n is zero. */
#ifndef SL_CPU_SIMD_AVX512_H
#define SL_CPU_SIMD_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define VF_SET   "avx512"
#define VF_LANES 16
/* Registers in a matrix tile: query rows by vectors.  24 sums, 4 vectors of the other side. */
#define VF_TILE_VECTORS 4
/* Queries that the decode loops take side by side. */
#define VF_DECODE_QUERIES 4

typedef __m512 vf;

static inline vf vf_zero(void) { return _mm512_setzero_ps(); }
static inline float vf_lane0(vf x) { return _mm512_cvtss_f32(x); }
static inline vf vf_set1(float x) { return _mm512_set1_ps(x); }
static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void vf_store(float *p, vf x) { _mm512_storeu_ps(p, x); }
static inline __mmask16 vf_first(int n) { return (__mmask16)((1u << n) - 1u); }
static inline vf vf_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(vf_first(n), p); }
static inline void vf_store_n(float *p, int n, vf x) { _mm512_mask_storeu_ps(p, vf_first(n), x); }

static inline vf vf_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)); }
static inline vf vf_load_f16_n(const uint16_t *p, int n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vf_first(n), p));
}
static inline __m256i vf_to_f16(vf x) { return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline void vf_store_f16(uint16_t *p, vf x) { _mm256_storeu_si256((void *)p, vf_to_f16(x)); }
static inline void vf_store_f16_n(uint16_t *p, int n, vf x) { _mm256_mask_storeu_epi16(p, vf_first(n), vf_to_f16(x)); }

static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }   /* a * b + c */
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); } /* c - a * b */
/* Where either is NaN: b. */
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf vf_abs(vf x) { return _mm512_abs_ps(x); }
/* |x| with the sign of s; x is not negative. */
static inline vf vf_with_sign(vf x, vf s) {
  return _mm512_or_ps(x, _mm512_and_ps(s, _mm512_castsi512_ps(_mm512_set1_epi32(INT32_MIN))));
}
/* a < b ? x : y */
static inline vf vf_if_less(vf a, vf b, vf x, vf y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
/* To the nearest integer, ties to even. */
static inline vf vf_round(vf x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/* x * 2^n for an integral n, rounded once. */
static inline vf vf_scale2(vf x, vf n) { return _mm512_scalef_ps(x, n); }

/* Lane i of the result is lane i of x if from <= base + i < to, else of `other`; 0 <= from <= to <= 64. */
static inline vf vf_keep(vf x, int base, int from, int to, vf other) {
  uint64_t below_to = to >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << to) - 1;
  uint64_t below_from = from >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << from) - 1;
  return _mm512_mask_blend_ps((__mmask16)((below_to & ~below_from) >> base), other, x);
}

/* Sums and largest of the lanes, each pair by pair in one order. */
static inline __m128 vf_fold(vf x) {
  __m256 half = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}
/* The four sums of the lanes of a, b, c, d. */
static inline __m128 vf_sum4(vf a, vf b, vf c, vf d) {
  return _mm_hadd_ps(_mm_hadd_ps(vf_fold(a), vf_fold(b)), _mm_hadd_ps(vf_fold(c), vf_fold(d)));
}
static inline float vf_sum(vf x) { return _mm_cvtss_f32(vf_sum4(x, x, x, x)); }
static inline float vf_largest(vf x) {
  __m256 half = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
  __m128 y = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  y = _mm_max_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_max_ss(y, _mm_shuffle_ps(y, y, 1)));
}
/* Bit i: whether lane i of a equals that of b; is NaN. */
static inline unsigned vf_equal_bits(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
static inline unsigned vf_nan_bits(vf x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); }

/* x[i][j] becomes x[j][i]. */
static inline void vf_transpose(vf x[VF_LANES]) {
  vf t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 2; j++) {
      __m512d a = _mm512_castps_pd(t[i + j]), b = _mm512_castps_pd(t[i + j + 2]);
      x[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      x[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
  }
  /* x[4g + c] holds, in its 128-bit part p, column 4p + c of rows 4g .. 4g+3. */
  for (int c = 0; c < 4; c++) {
    t[c] = _mm512_shuffle_f32x4(x[c], x[4 + c], 0x88);
    t[4 + c] = _mm512_shuffle_f32x4(x[c], x[4 + c], 0xDD);
    t[8 + c] = _mm512_shuffle_f32x4(x[8 + c], x[12 + c], 0x88);
    t[12 + c] = _mm512_shuffle_f32x4(x[8 + c], x[12 + c], 0xDD);
  }
  for (int c = 0; c < 4; c++) {
    x[c] = _mm512_shuffle_f32x4(t[c], t[8 + c], 0x88);
    x[8 + c] = _mm512_shuffle_f32x4(t[c], t[8 + c], 0xDD);
    x[4 + c] = _mm512_shuffle_f32x4(t[4 + c], t[12 + c], 0x88);
    x[12 + c] = _mm512_shuffle_f32x4(t[4 + c], t[12 + c], 0xDD);
  }
}

#endif
