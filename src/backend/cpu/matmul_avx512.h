/* What the AVX-512 matrix kernels share: the expansion of weights and the reduction of sums.  Only for files that are
 * compiled for AVX-512. */
#ifndef SL_BACKEND_CPU_MATMUL_AVX512_H
#define SL_BACKEND_CPU_MATMUL_AVX512_H

#include <immintrin.h>

#include "backend/cpu/matmul_drive.h"

#define SL_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define SL_UNROLL _Pragma("clang loop unroll(full)")
#else
#define SL_UNROLL _Pragma("GCC unroll 64")
#endif

/* The loops, by math. */
extern const sl_mm_decodes sl_avx512_decode_exact, sl_avx512_decode_fast;
extern const sl_mm_prompt sl_avx512_prompt_exact, sl_avx512_prompt_fast;
extern const sl_mm_rows sl_avx512_rows;

/* ---- FP8 e4m3 to bf16, exact: subnormals are normal numbers of bf16, and NaN stays NaN ---- */

/* bf16 bits of the code's low seven bits: high byte and low byte, in two registers each. */
typedef struct sl_f8_table {
  __m512i high[2], low[2];
} sl_f8_table;

extern const uint8_t sl_f8_high_bytes[128], sl_f8_low_bytes[128];

SL_INLINE sl_f8_table sl_f8_load_table(void) {
  sl_f8_table t;
  for (int i = 0; i < 2; i++) {
    t.high[i] = _mm512_loadu_si512(sl_f8_high_bytes + 64 * i);
    t.low[i] = _mm512_loadu_si512(sl_f8_low_bytes + 64 * i);
  }
  return t;
}

/* Holds x in a register.  Without it gcc 12 loads the codes once for each lookup, and through the stack: the lookup
 * overwrites its index. */
SL_INLINE __m512i sl_keep(__m512i x) {
  __asm__("" : "+v"(x));
  return x;
}

/* High and low bytes of the 64 bf16 values, in the order of the codes. */
SL_INLINE void sl_f8_bytes(const sl_f8_table *t, __m512i codes, __m512i *high, __m512i *low) {
  codes = sl_keep(codes);
  __m512i magnitude = _mm512_permutex2var_epi8(t->high[0], codes, t->high[1]);
  *low = _mm512_permutex2var_epi8(t->low[0], codes, t->low[1]);
  *high = _mm512_ternarylogic_epi32(magnitude, codes, _mm512_set1_epi8((char)0x80), 0xF8); /* a | (b & c) */
}

/* ---- sums of 16 lanes; one tree for every place, so that a sum does not depend on its neighbours ---- */

/* The four sums of each 128-bit lane: lane j of the result holds sums of a, b, c, d over lane j. */
SL_INLINE __m512 sl_sum_quads(__m512 a, __m512 b, __m512 c, __m512 d) {
  __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  __m512d lo = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
  __m512d hi = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
  return _mm512_add_ps(_mm512_castpd_ps(lo), _mm512_castpd_ps(hi));
}

/* (lane 0 + lane 1), (lane 2 + lane 3) of p, then of q. */
SL_INLINE __m512 sl_sum_lanes(__m512 p, __m512 q) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(p, q, 0x88), _mm512_shuffle_f32x4(p, q, 0xDD));
}

SL_INLINE __m128 sl_sum_4(__m512 a, __m512 b, __m512 c, __m512 d) {
  __m512 quads = sl_sum_quads(a, b, c, d);
  __m512 pairs = sl_sum_lanes(quads, quads);
  return _mm512_castps512_ps128(sl_sum_lanes(pairs, pairs));
}

#endif
