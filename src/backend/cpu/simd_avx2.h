/* The small vector type of the vector kernels, for AVX2 with FMA and F16C: 8 floats.  See simd_avx512.h. */
#ifndef SL_CPU_SIMD_AVX2_H
#define SL_CPU_SIMD_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define VF_SET   "avx2"
#define VF_LANES 8
/* Registers in a matrix tile: query rows by vectors.  12 sums, 2 vectors of the other side. */
#define VF_TILE_VECTORS 2
/* Queries that the decode loops take side by side. */
#define VF_DECODE_QUERIES 2

typedef __m256 vf;

static inline vf vf_zero(void) { return _mm256_setzero_ps(); }
static inline float vf_lane0(vf x) { return _mm256_cvtss_f32(x); }
static inline vf vf_set1(float x) { return _mm256_set1_ps(x); }
static inline vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void vf_store(float *p, vf x) { _mm256_storeu_ps(p, x); }
static inline __m256i vf_iota(void) { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
static inline __m256i vf_first(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), vf_iota()); }
static inline vf vf_load_n(const float *p, int n) { return _mm256_maskload_ps(p, vf_first(n)); }
static inline void vf_store_n(float *p, int n, vf x) { _mm256_maskstore_ps(p, vf_first(n), x); }

static inline vf vf_load_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p)); }
static inline vf vf_load_f16_n(const uint16_t *p, int n) {
  uint16_t part[8] = {0};
  memcpy(part, p, (size_t)n * sizeof *p);
  return vf_load_f16(part);
}
static inline void vf_store_f16(uint16_t *p, vf x) {
  _mm_storeu_si128((void *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline void vf_store_f16_n(uint16_t *p, int n, vf x) {
  uint16_t part[8];
  vf_store_f16(part, x);
  memcpy(p, part, (size_t)n * sizeof *p);
}

static inline vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }   /* a * b + c */
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); } /* c - a * b */
/* Where either is NaN: b. */
static inline vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static inline vf vf_sign_bit(void) { return _mm256_castsi256_ps(_mm256_set1_epi32(INT32_MIN)); }
static inline vf vf_abs(vf x) { return _mm256_andnot_ps(vf_sign_bit(), x); }
/* |x| with the sign of s; x is not negative. */
static inline vf vf_with_sign(vf x, vf s) { return _mm256_or_ps(x, _mm256_and_ps(s, vf_sign_bit())); }
/* a < b ? x : y */
static inline vf vf_if_less(vf a, vf b, vf x, vf y) { return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ)); }
/* To the nearest integer, ties to even. */
static inline vf vf_round(vf x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/* x * 2^n for an integral -252 <= n <= 254, rounded once as long as x * 2^(n/2) is an ordinary number. */
static inline vf vf_scale2(vf x, vf n) {
  __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), bias = _mm256_set1_epi32(127);
  __m256i a = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  __m256i b = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23);
  return vf_mul(vf_mul(x, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b));
}

/* Lane i of the result is lane i of x if from <= base + i < to, else of `other`. */
static inline vf vf_keep(vf x, int base, int from, int to, vf other) {
  __m256i not_before = _mm256_cmpgt_epi32(vf_iota(), _mm256_set1_epi32(from - base - 1));
  return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(_mm256_and_si256(not_before, vf_first(to - base))));
}

/* Sums and largest of the lanes, each pair by pair in one order. */
static inline __m128 vf_fold(vf x) { return _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1)); }
/* The four sums of the lanes of a, b, c, d. */
static inline __m128 vf_sum4(vf a, vf b, vf c, vf d) {
  return _mm_hadd_ps(_mm_hadd_ps(vf_fold(a), vf_fold(b)), _mm_hadd_ps(vf_fold(c), vf_fold(d)));
}
static inline float vf_sum(vf x) { return _mm_cvtss_f32(vf_sum4(x, x, x, x)); }
static inline float vf_largest(vf x) {
  __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  y = _mm_max_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_max_ss(y, _mm_shuffle_ps(y, y, 1)));
}
/* Bit i: whether lane i of a equals that of b; is NaN. */
static inline unsigned vf_equal_bits(vf a, vf b) {
  return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ));
}
static inline unsigned vf_nan_bits(vf x) { return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)); }

/* x[i][j] becomes x[j][i]. */
static inline void vf_transpose(vf x[VF_LANES]) {
  vf t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; j++) {
      __m256d a = _mm256_castps_pd(t[i + j]), b = _mm256_castps_pd(t[i + j + 2]);
      x[i + 2 * j] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b));
      x[i + 2 * j + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
    }
  }
  for (int c = 0; c < 4; c++) {
    t[c] = _mm256_permute2f128_ps(x[c], x[4 + c], 0x20);
    t[4 + c] = _mm256_permute2f128_ps(x[c], x[4 + c], 0x31);
  }
  for (int i = 0; i < 8; i++) x[i] = t[i];
}

#endif
