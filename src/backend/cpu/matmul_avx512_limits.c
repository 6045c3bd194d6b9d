#include "backend/cpu/matmul_avx512.h"
#include "backend/cpu/matmul_limits.h"

static uint64_t read_all(const uint8_t *data, size_t size) {
  __m512i sum[8];
  SL_UNROLL
  for (int i = 0; i < 8; i++) sum[i] = _mm512_setzero_si512();
  for (size_t at = 0; at < size; at += 512) {
    SL_UNROLL
    for (int i = 0; i < 8; i++) _mm_prefetch((const char *)data + at + SL_MM_LEAD + i * 64, _MM_HINT_NTA);
    SL_UNROLL
    for (int i = 0; i < 8; i++) sum[i] = _mm512_add_epi64(sum[i], _mm512_load_si512(data + at + i * 64));
  }
  SL_UNROLL
  for (int i = 1; i < 8; i++) sum[0] = _mm512_add_epi64(sum[0], sum[i]);
  return (uint64_t)_mm512_reduce_add_epi64(sum[0]);
}

enum { SUMS = 24 };

/* The sums start different, or the compiler would fold them into one. */
static void start(__m512 sum[SUMS]) {
  SL_UNROLL
  for (int i = 0; i < SUMS; i++) sum[i] = _mm512_set1_ps((float)i);
}

static float total(__m512 sum[SUMS]) {
  for (int i = 1; i < SUMS; i++) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  return _mm512_reduce_add_ps(sum[0]);
}

static float fma_rounds(int rounds) {
  __m512 sum[SUMS], a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  start(sum);
  for (int r = 0; r < rounds; r++) {
    SL_UNROLL
    for (int i = 0; i < SUMS; i++) sum[i] = _mm512_fmadd_ps(sum[i], a, b);
  }
  return total(sum);
}

static float dot_rounds(int rounds) {
  __m512 sum[SUMS];
  __m512i a = _mm512_set1_epi32(0x3F803F80), b = _mm512_set1_epi32(0x38003800);
  start(sum);
  for (int r = 0; r < rounds; r++) {
    SL_UNROLL
    for (int i = 0; i < SUMS; i++) sum[i] = _mm512_dpbf16_ps(sum[i], (__m512bh)a, (__m512bh)b);
  }
  return total(sum);
}

const sl_limit_loops sl_avx512_limits = {read_all, fma_rounds, dot_rounds, SUMS * 16 * 2.0, SUMS * 32 * 2.0};
