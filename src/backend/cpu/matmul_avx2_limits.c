#include <immintrin.h>

#include "backend/cpu/matmul_limits.h"

enum { SUMS = 12 };

static uint64_t read_all(const uint8_t *data, size_t size) {
  __m256i sum[8];
  for (int i = 0; i < 8; i++) sum[i] = _mm256_setzero_si256();
  for (size_t at = 0; at < size; at += 512) {
    for (int i = 0; i < 8; i++) _mm_prefetch((const char *)data + at + SL_MM_LEAD + i * 64, _MM_HINT_NTA);
    for (int i = 0; i < 16; i++)
      sum[i % 8] = _mm256_add_epi64(sum[i % 8], _mm256_load_si256((const __m256i *)(const void *)(data + at) + i));
  }
  for (int i = 1; i < 8; i++) sum[0] = _mm256_add_epi64(sum[0], sum[i]);
  uint64_t parts[4];
  _mm256_storeu_si256((__m256i *)(void *)parts, sum[0]);
  return parts[0] + parts[1] + parts[2] + parts[3];
}

/* The sums start different, or the compiler would fold them into one. */
static float fma_rounds(int rounds) {
  __m256 sum[SUMS], a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (int i = 0; i < SUMS; i++) sum[i] = _mm256_set1_ps((float)i);
  for (int r = 0; r < rounds; r++)
    for (int i = 0; i < SUMS; i++) sum[i] = _mm256_fmadd_ps(sum[i], a, b);
  for (int i = 1; i < SUMS; i++) sum[0] = _mm256_add_ps(sum[0], sum[i]);
  float parts[8], total = 0;
  _mm256_storeu_ps(parts, sum[0]);
  for (int i = 0; i < 8; i++) total += parts[i];
  return total;
}

const sl_limit_loops sl_avx2_limits = {read_all, fma_rounds, NULL, SUMS * 8 * 2.0, 0};
