/* What the AVX2 matrix kernels share.  Only for files that are compiled for AVX2, FMA and F16C. */
#ifndef SL_BACKEND_CPU_MATMUL_AVX2_H
#define SL_BACKEND_CPU_MATMUL_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "backend/cpu/matmul_drive.h"

#define SL_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define SL_UNROLL _Pragma("clang loop unroll(full)")
#else
#define SL_UNROLL _Pragma("GCC unroll 64")
#endif

extern const sl_mm_decodes sl_avx2_decode;
extern const sl_mm_prompt sl_avx2_prompt;
extern const sl_mm_rows sl_avx2_rows;

/* Sixteen FP8 codes as f16, times 2^-8: sign, four bits of exponent and three of mantissa lie in place, and the biases
 * differ by 8.  Subnormals too, since the conversion from f16 knows them.  The code of NaN becomes NaN. */
SL_INLINE __m256i sl_f8_to_f16(__m128i codes) {
  __m256i wide = _mm256_cvtepu8_epi16(codes);
  __m256i magnitude = _mm256_and_si256(wide, _mm256_set1_epi16(0x7F));
  __m256i sign = _mm256_slli_epi16(_mm256_and_si256(wide, _mm256_set1_epi16(0x80)), 8);
  __m256i nan = _mm256_and_si256(_mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7F)), _mm256_set1_epi16(0x7C00));
  return _mm256_or_si256(_mm256_or_si256(sign, nan), _mm256_slli_epi16(magnitude, 7));
}
#define SL_F8_UNIT 256.0f

/* Eight weights at `from` in f32; FP8 in units of SL_F8_UNIT. */
SL_INLINE void sl_widen_16(sl_dtype dtype, __m256 to[2], const uint8_t *from) {
  const __m128i *at = (const __m128i *)(const void *)from;
  if (dtype == SL_F32) {
    to[0] = _mm256_loadu_ps((const float *)(const void *)from);
    to[1] = _mm256_loadu_ps((const float *)(const void *)from + 8);
  } else if (dtype == SL_BF16) {
    for (int i = 0; i < 2; i++)
      to[i] = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(at + i)), 16));
  } else if (dtype == SL_F16) {
    for (int i = 0; i < 2; i++) to[i] = _mm256_cvtph_ps(_mm_loadu_si128(at + i));
  } else {
    __m256i halves = sl_f8_to_f16(_mm_loadu_si128(at));
    to[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    to[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
  }
}

SL_INLINE int sl_size_of(sl_dtype dtype) { return dtype == SL_F32 ? 4 : dtype == SL_F8_E4M3 ? 1 : 2; }

/* The same for fewer than sixteen: the rest is zero, and nothing behind them is read. */
SL_INLINE void sl_widen_tail(sl_dtype dtype, __m256 to[2], const uint8_t *from, int n) {
  uint8_t padded[64] = {0};
  memcpy(padded, from, (size_t)(n * sl_size_of(dtype)));
  sl_widen_16(dtype, to, padded);
}

/* Eight floats at x, zeros from n on. */
SL_INLINE __m256 sl_load_8(const float *x, int n) {
  if (n >= 8) return _mm256_loadu_ps(x);
  float padded[8] = {0};
  if (n > 0) memcpy(padded, x, (size_t)n * sizeof *x);
  return _mm256_loadu_ps(padded);
}

/* The sums of eight lanes of a, b, c, d; one tree for all four places. */
SL_INLINE __m128 sl_sum_4(__m256 a, __m256 b, __m256 c, __m256 d) {
  __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
  __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
  __m256d lo = _mm256_unpacklo_pd(_mm256_castps_pd(ab), _mm256_castps_pd(cd));
  __m256d hi = _mm256_unpackhi_pd(_mm256_castps_pd(ab), _mm256_castps_pd(cd));
  __m256 quads = _mm256_add_ps(_mm256_castpd_ps(lo), _mm256_castpd_ps(hi));
  return _mm_add_ps(_mm256_castps256_ps128(quads), _mm256_extractf128_ps(quads, 1));
}

#endif
