/* Decode kernels in f32 for AVX2 and FMA, rows, and the table of the AVX2 matrix kernels.  One arithmetic serves both
 * maths: without a bf16 dot product rounding activations would save nothing. */
#include "backend/cpu/matmul_avx2.h"
#include "backend/cpu/simd_avx2.h"
#include "backend/cpu/simd_math.h"

#include "backend/cpu/tables.h"

/* ---- decode: one row after the other, 32 elements a step, into four sums for each token ---- */

enum { WAYS = 4 };

SL_INLINE void add_16(__m256 sum[2], const __m256 w[2], const float *x) {
  sum[0] = _mm256_fmadd_ps(w[0], _mm256_load_ps(x), sum[0]);
  sum[1] = _mm256_fmadd_ps(w[1], _mm256_load_ps(x + 8), sum[1]);
}

/* All lanes of one row's products with T tokens. */
SL_INLINE void one_row(sl_dtype dtype, const int T, __m256 total[2], const uint8_t *row, const uint8_t *const *tokens,
                       int K, sl_mm_ahead *ahead) {
  __m256 sum[2][WAYS], w[2];
  const float *x[2] = {(const float *)(const void *)tokens[0], (const float *)(const void *)tokens[T - 1]};
  const int size = sl_size_of(dtype);
  SL_UNROLL
  for (int t = 0; t < T; t++) {
    SL_UNROLL
    for (int i = 0; i < WAYS; i++) sum[t][i] = _mm256_setzero_ps();
  }
  int k = 0;
  int n_ask;
  const uint8_t *ask = sl_mm_ahead_take(ahead, &n_ask);
  if (!ask) ask = row; /* costs nothing */
  for (; k + 32 <= K; k += 32) {
    for (int i = 0; i < 32 * size; i += SL_MM_LINE) _mm_prefetch((const char *)ask + i, _MM_HINT_NTA);
    ask += 32 * size;
    SL_UNROLL
    for (int half = 0; half < 2; half++) {
      sl_widen_16(dtype, w, row + (k + 16 * half) * size);
      SL_UNROLL
      for (int t = 0; t < T; t++) add_16(sum[t] + 2 * half, w, x[t] + k + 16 * half);
    }
  }
  SL_UNROLL
  for (int half = 0; half < 2; half++, k += 16) {
    if (k >= K) break;
    sl_widen_tail(dtype, w, row + k * size, K - k < 16 ? K - k : 16);
    SL_UNROLL
    for (int t = 0; t < T; t++) add_16(sum[t] + 2 * half, w, x[t] + k);
  }
  SL_UNROLL
  for (int t = 0; t < T; t++)
    total[t] = _mm256_add_ps(_mm256_add_ps(sum[t][0], sum[t][1]), _mm256_add_ps(sum[t][2], sum[t][3]));
}

/* Up to four rows for T tokens. */
SL_INLINE void dot_rows(sl_dtype dtype, const int T, float *sums, const uint8_t *rows, size_t row, int n,
                        const uint8_t *const *tokens, int K, sl_mm_ahead *ahead) {
  __m256 total[4][2];
  for (int r = 0; r < 4; r++) {
    if (r < n)
      one_row(dtype, T, total[r], rows + (size_t)r * row, tokens, K, ahead);
    else
      total[r][0] = total[r][1] = _mm256_setzero_ps();
  }
  for (int t = 0; t < T; t++) {
    float four[4];
    _mm_storeu_ps(four, sl_sum_4(total[0][t], total[1][t], total[2][t], total[3][t]));
    for (int r = 0; r < n; r++) sums[t * SL_MM_ROWS + r] = dtype == SL_F8_E4M3 ? four[r] * SL_F8_UNIT : four[r];
  }
}

SL_INLINE void dot_all(sl_dtype dtype, float *sums, const uint8_t *rows, int n_rows, const uint8_t *const *tokens,
                       int n_tokens, int K, sl_mm_ahead *ahead) {
  size_t row = (size_t)K * (size_t)sl_size_of(dtype);
  for (int r = 0; r < n_rows; r += 4, rows += 4 * row) {
    sl_mm_ahead nothing = {0}, *look = ahead;
    int n = n_rows - r < 4 ? n_rows - r : 4, t = 0;
    for (; t + 2 <= n_tokens; t += 2, look = &nothing)
      dot_rows(dtype, 2, sums + t * SL_MM_ROWS + r, rows, row, n, tokens + t, K, look);
    if (t < n_tokens) dot_rows(dtype, 1, sums + t * SL_MM_ROWS + r, rows, row, n, tokens + t, K, look);
  }
}

#define DOT(name, dtype)                                                                                               \
  static void name(float *sums, const uint8_t *rows, int n_rows, const uint8_t *const *tokens, int n_tokens, int K,    \
                   sl_mm_ahead *ahead) {                                                                               \
    dot_all(dtype, sums, rows, n_rows, tokens, n_tokens, K, ahead);                                                    \
  }
DOT(dot_f32, SL_F32)
DOT(dot_f16, SL_F16)
DOT(dot_bf16, SL_BF16)
DOT(dot_f8, SL_F8_E4M3)

static void pack_f32(void *to, const float *x, int n) {
  float *out = to;
  for (int k = 0; k < (n + 63) / 64 * 64; k += 8) _mm256_store_ps(out + k, sl_load_8(x + (k < n ? k : 0), n - k));
}

/* ---- act(gate) * up ---- */

static void store_8(float *to, __m256 x, int n) {
  float all[8];
  if (n >= 8) {
    _mm256_storeu_ps(to, x);
    return;
  }
  _mm256_storeu_ps(all, x);
  memcpy(to, all, (size_t)n * sizeof *to);
}

SL_INLINE __m256 activate(__m256 x, sl_activation act) { return act == SL_SILU ? vf_silu(x) : vf_gelu(x); }

static void glu(float *out, const float *gate, const float *up, int n, sl_activation act) {
  for (int i = 0; i < n; i += 8) {
    __m256 g = sl_load_8(gate + i, n - i), u = sl_load_8(up + i, n - i);
    store_8(out + i, _mm256_mul_ps(activate(g, act), u), n - i);
  }
}

const sl_mm_decodes sl_avx2_decode = {{[SL_F32] = {4, pack_f32, dot_f32},
                                       [SL_F16] = {4, pack_f32, dot_f16},
                                       [SL_BF16] = {4, pack_f32, dot_bf16},
                                       [SL_F8_E4M3] = {4, pack_f32, dot_f8}},
                                      glu,
                                      1};

/* ---- rows ---- */

SL_INLINE void expand(sl_dtype dtype, float *out, const uint8_t *weights, int n) {
  __m256 w[2];
  for (int k = 0; k < n; k += 16, weights += 16 * sl_size_of(dtype)) {
    if (n - k >= 16)
      sl_widen_16(dtype, w, weights);
    else
      sl_widen_tail(dtype, w, weights, n - k);
    for (int i = 0; i < 2; i++) {
      if (dtype == SL_F8_E4M3) w[i] = _mm256_mul_ps(w[i], _mm256_set1_ps(SL_F8_UNIT));
      if (k + 8 * i < n) store_8(out + k + 8 * i, w[i], n - k - 8 * i);
    }
  }
}
static void expand_f32(float *out, const uint8_t *weights, int n) { memcpy(out, weights, (size_t)n * sizeof *out); }
static void expand_f16(float *out, const uint8_t *weights, int n) { expand(SL_F16, out, weights, n); }
static void expand_bf16(float *out, const uint8_t *weights, int n) { expand(SL_BF16, out, weights, n); }
static void expand_f8(float *out, const uint8_t *weights, int n) { expand(SL_F8_E4M3, out, weights, n); }

static void scale_row(float *x, float factor, int n) {
  for (int k = 0; k < n; k++) x[k] *= factor;
}

static void to_bf16(uint8_t *to, const float *x, int n) {
  for (int k = 0; k < n; k++) {
    uint16_t bits = sl_f32_to_bf16(x[k]);
    memcpy(to + (size_t)k * 2, &bits, 2);
  }
}

const sl_mm_rows sl_avx2_rows = {
    .expand = {[SL_F32] = expand_f32, [SL_F16] = expand_f16, [SL_BF16] = expand_bf16, [SL_F8_E4M3] = expand_f8},
    .scale = scale_row,
    .to_bf16 = to_bf16,
};

/* ---- table ---- */

static sl_status run_decode(const sl_ctx *ctx, const sl_op_args *args) {
  return sl_mm_decode_run(&sl_avx2_decode, ctx, &args->matmul_bt);
}
static sl_status run_experts(const sl_ctx *ctx, const sl_op_args *args) {
  return sl_mm_experts_run(&sl_avx2_decode, ctx, &args->expert_ffn);
}
static sl_status run_prompt(const sl_ctx *ctx, const sl_op_args *args) {
  return sl_mm_prompt_run(&sl_avx2_prompt, ctx, &args->matmul_bt);
}
static size_t prompt_scratch(const sl_op_sig *sig, int M, int n_threads) {
  return sl_mm_prompt_scratch(&sl_avx2_prompt, sig, M, n_threads);
}
static sl_status run_dequant(const sl_ctx *ctx, const sl_op_args *args) {
  return sl_mm_dequant_run(&sl_avx2_rows, ctx, &args->dequant_rows);
}
static sl_status run_embed(const sl_ctx *ctx, const sl_op_args *args) {
  return sl_mm_embed_run(&sl_avx2_rows, ctx, &args->embed_rows);
}

enum {
  ALL = 1 << SL_F8_E4M3 | 1 << SL_BF16 | 1 << SL_F16 | 1 << SL_F32,
  GENERATED = 1 << SL_GENERATED,
  PROMPT = 1 << SL_PROMPT,
  BOTH = 1 << SL_EXACT | 1 << SL_FAST,
};

static const sl_kernel kernels[] = {
    {"avx2/matmul_bt/f32", SL_OP_MATMUL_BT, GENERATED, BOTH, ALL, NULL, sl_mm_decode_scratch, run_decode},
    {"avx2/expert_ffn/f32", SL_OP_EXPERT_FFN, GENERATED, BOTH, ALL, NULL, sl_mm_experts_scratch, run_experts},
    {"avx2/matmul_bt/panel_f32", SL_OP_MATMUL_BT, PROMPT, BOTH, ALL, NULL, prompt_scratch, run_prompt},
    {"avx2/dequant_rows", SL_OP_DEQUANT_ROWS, GENERATED | PROMPT, BOTH, ALL, NULL, NULL, run_dequant},
    {"avx2/embed_rows", SL_OP_EMBED_ROWS, GENERATED | PROMPT, BOTH, ALL, NULL, NULL, run_embed},
};

sl_kernel_table sl_avx2_matmul_table(void) {
  return (sl_kernel_table){kernels, (int)(sizeof kernels / sizeof *kernels)};
}
