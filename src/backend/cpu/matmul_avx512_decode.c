/* Decode kernels: weights are expanded in registers, a line of them (64 bytes) at a time, for up to two tokens.  exact:
 * an activation is a bf16 pair, x = high + low, two dot instructions a vector of weights, each with its own sum; so 16
 * bits of mantissa cost nothing while the memory is the limit. */
#include "backend/cpu/matmul_avx512.h"
#include "backend/cpu/simd_avx512.h"
#include "backend/cpu/simd_math.h"

/* The dot instruction reads bf16 subnormals as zero.  No FP8 weight is one; a BF16 weight or the low part of an
 * activation below 2^-126 is, and is lost. */
SL_INLINE __m512 dot_bf16(__m512 sum, __m512i a, __m512i b) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }

/* ---- one step for one row: a line of weights against a token's packed line ---- */

typedef enum line_kind { F8_PAIR, F8_ONE, BF16_PAIR, BF16_ONE, F16_WHOLE, F32_WHOLE } line_kind;

/* Elements of K in a line of weights. */
SL_INLINE int line_elements(line_kind kind) {
  if (kind <= F8_ONE) return 64;
  return kind == F32_WHOLE ? 16 : 32;
}
/* Bytes of a token's packed activations that belong to a line of weights. */
SL_INLINE int line_token(line_kind kind) {
  if (kind == F8_PAIR) return 256;
  return kind == BF16_ONE || kind == F32_WHOLE ? 64 : 128;
}

SL_INLINE __m512i load_line(line_kind kind, const uint8_t *at, int n) {
  if (kind <= F8_ONE) return n >= 64 ? _mm512_loadu_si512(at) : _mm512_maskz_loadu_epi8((1ull << n) - 1, at);
  if (kind == F32_WHOLE)
    return n >= 16 ? _mm512_loadu_si512(at) : _mm512_maskz_loadu_epi32((__mmask16)((1u << n) - 1), at);
  return n >= 32 ? _mm512_loadu_si512(at) : _mm512_maskz_loadu_epi16((1u << n) - 1, at);
}

/* w: the line as the dot instructions take it, one or two vectors. */
SL_INLINE void expand_line(line_kind kind, const sl_f8_table *table, __m512i line, __m512i w[2]) {
  if (kind <= F8_ONE) {
    __m512i high, low;
    sl_f8_bytes(table, line, &high, &low);
    w[0] = _mm512_unpacklo_epi8(low, high); /* bytes 0-7 of each 16; pack_f8 puts activations in this order */
    w[1] = _mm512_unpackhi_epi8(low, high);
  } else if (kind == F16_WHOLE) {
    w[0] = _mm512_castps_si512(_mm512_cvtph_ps(_mm512_castsi512_si256(line)));
    w[1] = _mm512_castps_si512(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(line, 1)));
  } else {
    w[0] = line;
  }
}

SL_INLINE void add_line(line_kind kind, __m512 sum[2], const __m512i w[2], const uint8_t *token) {
  const __m512i *x = (const __m512i *)(const void *)token;
  switch (kind) {
  case F8_PAIR:
    sum[0] = dot_bf16(sum[0], w[0], x[0]);
    sum[1] = dot_bf16(sum[1], w[0], x[2]);
    sum[0] = dot_bf16(sum[0], w[1], x[1]);
    sum[1] = dot_bf16(sum[1], w[1], x[3]);
    break;
  case F8_ONE:
    sum[0] = dot_bf16(sum[0], w[0], x[0]);
    sum[1] = dot_bf16(sum[1], w[1], x[1]);
    break;
  case BF16_PAIR:
    sum[0] = dot_bf16(sum[0], w[0], x[0]);
    sum[1] = dot_bf16(sum[1], w[0], x[1]);
    break;
  case BF16_ONE:
    sum[0] = dot_bf16(sum[0], w[0], x[0]);
    break;
  case F16_WHOLE:
    sum[0] = _mm512_fmadd_ps(_mm512_castsi512_ps(w[0]), _mm512_castsi512_ps(x[0]), sum[0]);
    sum[1] = _mm512_fmadd_ps(_mm512_castsi512_ps(w[1]), _mm512_castsi512_ps(x[1]), sum[1]);
    break;
  case F32_WHOLE:
    sum[0] = _mm512_fmadd_ps(_mm512_castsi512_ps(w[0]), _mm512_castsi512_ps(x[0]), sum[0]);
    break;
  }
}

/* ---- rows x tokens: line i of a row goes into sum i % 4 of its (row, token) ---- */

enum { WAYS = 4, ABREAST = SL_MM_ABREAST };

/* Line i of a row with T tokens. */
SL_INLINE void add_line_of(line_kind kind, const int T, const sl_f8_table *table, __m512 sum[2][2], const uint8_t *row,
                           const uint8_t *const *tokens, int i, int n) {
  __m512i w[2];
  expand_line(kind, table, load_line(kind, row + (size_t)i * SL_MM_LINE, n), w);
  SL_UNROLL
  for (int t = 0; t < T; t++) add_line(kind, sum[t], w, tokens[t] + (size_t)(i * line_token(kind)));
}

/* Lines first .. end-1 of a row of `lines`; first is a multiple of WAYS.  The sums of the lines before are in way[],
 * and those so far are left there; at the end of the row they are joined into way[0][t][0]. */
SL_INLINE void add_segment(line_kind kind, const int T, __m512 way[WAYS][2][2], const sl_f8_table *table,
                           const uint8_t *row, const uint8_t *const *tokens, int first, int end, int lines, int K,
                           sl_mm_ahead *ahead) {
  __m512 sum[WAYS][2][2];
  const int step = line_elements(kind);
  int i = first, whole = K / step < end ? K / step : end, n_ask; /* lines from `whole` on are partial */
  const uint8_t *ask = sl_mm_ahead_take(ahead, &n_ask);
  if (!ask) ask = row + (size_t)first * SL_MM_LINE; /* costs nothing */
  SL_UNROLL
  for (int s = 0; s < WAYS * 2 * T; s++) {
    __m512 *at = &sum[s / (2 * T)][s / 2 % T][s % 2];
    *at = first == 0 ? _mm512_setzero_ps() : way[s / (2 * T)][s / 2 % T][s % 2];
  }
  for (; i + WAYS <= whole; i += WAYS, ask += WAYS * SL_MM_LINE) {
    SL_UNROLL
    for (int j = 0; j < WAYS; j++) {
      _mm_prefetch((const char *)ask + j * SL_MM_LINE, _MM_HINT_NTA);
      add_line_of(kind, T, table, sum[j], row, tokens, i + j, step);
    }
  }
  for (int asked = i - first; asked < n_ask; asked++, ask += SL_MM_LINE) _mm_prefetch((const char *)ask, _MM_HINT_NTA);
  SL_UNROLL
  for (int j = 0; j < WAYS; j++) {
    if (i + j >= end) break;
    if (i + j < whole)
      add_line_of(kind, T, table, sum[j], row, tokens, i + j, step);
    else
      add_line_of(kind, T, table, sum[j], row, tokens, i + j, K - (i + j) * step);
  }
  SL_UNROLL
  for (int t = 0; t < T; t++) {
    if (end == lines) {
      __m512 joined[WAYS];
      SL_UNROLL
      for (int j = 0; j < WAYS; j++) joined[j] = _mm512_add_ps(sum[j][t][0], sum[j][t][1]);
      way[0][t][0] = _mm512_add_ps(_mm512_add_ps(joined[0], joined[1]), _mm512_add_ps(joined[2], joined[3]));
      continue;
    }
    SL_UNROLL
    for (int j = 0; j < WAYS; j++) way[j][t][0] = sum[j][t][0], way[j][t][1] = sum[j][t][1];
  }
}

SL_INLINE void reduce_rows(float *to, __m512 total[ABREAST], int n) {
  __m128 reduced = sl_sum_4(total[0], total[1], total[2], total[3]);
  _mm_mask_storeu_ps(to, (__mmask8)((1 << n) - 1), reduced);
}

/* n rows, at most ABREAST, for T tokens. */
SL_INLINE void dot_rows(line_kind kind, const int T, int segment, const sl_f8_table *table, float *to,
                        const uint8_t *rows, size_t row, int n, const uint8_t *const *token_list, int K,
                        sl_mm_ahead *ahead) {
  __m512 way[ABREAST][WAYS][2][2];
  const uint8_t *tokens[2] = {token_list[0], token_list[T - 1]};
  int lines = (K + line_elements(kind) - 1) / line_elements(kind);
  for (int i = 0; i < lines; i += segment) {
    int end = lines - i < segment ? lines : i + segment;
    for (int r = 0; r < n; r++)
      add_segment(kind, T, way[r], table, rows + (size_t)r * row, tokens, i, end, lines, K, ahead);
  }
  for (int t = 0; t < T; t++) {
    __m512 total[ABREAST];
    SL_UNROLL
    for (int r = 0; r < ABREAST; r++) total[r] = r < n ? way[r][0][t][0] : _mm512_setzero_ps();
    reduce_rows(to + t * SL_MM_ROWS, total, n);
  }
}

/* ABREAST rows that are in a cache already, for two more tokens: line by line, so that the rows share the loads of
 * activations, and a quarter of the lines at a time, so that each still goes into its own sum. */
SL_INLINE void dot_near_rows(line_kind kind, const sl_f8_table *table, float *to, const uint8_t *rows, size_t row,
                             const uint8_t *const *tokens, int K) {
  __m512 way[2][ABREAST][WAYS];
  const int step = line_elements(kind);
  for (int j = 0; j < WAYS; j++) {
    __m512 sum[ABREAST][2][2];
    SL_UNROLL
    for (int s = 0; s < ABREAST * 4; s++) sum[s / 4][s / 2 % 2][s % 2] = _mm512_setzero_ps();
    int i = j;
    for (; (i + 1) * step <= K; i += WAYS) {
      SL_UNROLL
      for (int r = 0; r < ABREAST; r++) add_line_of(kind, 2, table, sum[r], rows + (size_t)r * row, tokens, i, step);
    }
    SL_UNROLL
    for (int r = 0; r < ABREAST; r++) {
      if (i * step < K) add_line_of(kind, 2, table, sum[r], rows + (size_t)r * row, tokens, i, K - i * step);
      SL_UNROLL
      for (int t = 0; t < 2; t++) way[t][r][j] = _mm512_add_ps(sum[r][t][0], sum[r][t][1]);
    }
  }
  for (int t = 0; t < 2; t++) {
    __m512 total[ABREAST];
    SL_UNROLL
    for (int r = 0; r < ABREAST; r++) {
      const __m512 *w = way[t][r];
      total[r] = _mm512_add_ps(_mm512_add_ps(w[0], w[1]), _mm512_add_ps(w[2], w[3]));
    }
    reduce_rows(to + t * SL_MM_ROWS, total, ABREAST);
  }
}

/* The memory is asked with the first tokens of all rows. */
SL_INLINE void dot_all(line_kind kind, float *sums, const uint8_t *rows, size_t row, int n_rows,
                       const uint8_t *const *tokens, int n_tokens, int K, sl_mm_ahead *ahead) {
  sl_f8_table table = kind <= F8_ONE ? sl_f8_load_table() : (sl_f8_table){0};
  int segment = sl_mm_segment(n_tokens, K);
  for (int r = 0; r < n_rows; r += ABREAST, rows += ABREAST * row) {
    sl_mm_ahead nothing = {0}, *look = ahead;
    int n = n_rows - r < ABREAST ? n_rows - r : ABREAST, t = 0;
    for (; t + 2 <= n_tokens; t += 2, look = &nothing) {
      float *to = sums + t * SL_MM_ROWS + r;
      if (t > 0 && n == ABREAST)
        dot_near_rows(kind, &table, to, rows, row, tokens + t, K);
      else
        dot_rows(kind, 2, segment, &table, to, rows, row, n, tokens + t, K, look);
    }
    if (t < n_tokens) dot_rows(kind, 1, segment, &table, sums + t * SL_MM_ROWS + r, rows, row, n, tokens + t, K, look);
  }
}

#define DOT(name, kind, bytes)                                                                                         \
  static void name(float *sums, const uint8_t *rows, int n_rows, const uint8_t *const *tokens, int n_tokens, int K,    \
                   sl_mm_ahead *ahead) {                                                                               \
    dot_all(kind, sums, rows, (size_t)K *bytes, n_rows, tokens, n_tokens, K, ahead);                                   \
  }
DOT(dot_f8_pair, F8_PAIR, 1)
DOT(dot_f8_one, F8_ONE, 1)
DOT(dot_bf16_pair, BF16_PAIR, 2)
DOT(dot_bf16_one, BF16_ONE, 2)
DOT(dot_f16, F16_WHOLE, 2)
DOT(dot_f32, F32_WHOLE, 4)

/* ---- packing ---- */

/* Elements k .. k+15, zeros from n on. */
SL_INLINE __m512 load_x(const float *x, int k, int n) {
  if (k + 16 <= n) return _mm512_loadu_ps(x + k);
  return k < n ? _mm512_maskz_loadu_ps((__mmask16)((1u << (n - k)) - 1), x + k) : _mm512_setzero_ps();
}

/* 32 activations as bf16, high parts and what they leave.  Where the high part is not finite there is no rest. */
SL_INLINE void split(__m512 a, __m512 b, __m512i *high, __m512i *low) {
  *high = (__m512i)_mm512_cvtne2ps_pbh(b, a);
  __m512 high_a = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(*high)), 16));
  __m512 high_b =
      _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(*high, 1)), 16));
  __m512 rest_a = _mm512_sub_ps(a, high_a), rest_b = _mm512_sub_ps(b, high_b);
  const __m512 infinity = _mm512_set1_ps(INFINITY);
  rest_a = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(_mm512_abs_ps(rest_a), infinity, _CMP_LT_OQ), rest_a);
  rest_b = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(_mm512_abs_ps(rest_b), infinity, _CMP_LT_OQ), rest_b);
  *low = (__m512i)_mm512_cvtne2ps_pbh(rest_b, rest_a);
}

static void pack_bf16(void *to, const float *x, int n, bool pair) {
  __m512i *out = to;
  for (int k = 0; k < n; k += 64) {
    for (int half = 0; half < 2; half++) {
      __m512i high, low;
      split(load_x(x, k + half * 32, n), load_x(x, k + half * 32 + 16, n), &high, &low);
      *out++ = high;
      if (pair) *out++ = low;
    }
  }
}
static void pack_bf16_pair(void *to, const float *x, int n) { pack_bf16(to, x, n, true); }
static void pack_bf16_one(void *to, const float *x, int n) { pack_bf16(to, x, n, false); }

/* The order in which expand_line leaves FP8: the first eight of each sixteen, then the last eight. */
static void pack_f8(void *to, const float *x, int n, bool pair) {
  const __m512i first = _mm512_setr_epi64(0, 1, 4, 5, 8, 9, 12, 13),
                last = _mm512_setr_epi64(2, 3, 6, 7, 10, 11, 14, 15);
  __m512i *out = to;
  for (int k = 0; k < n; k += 64) {
    __m512i high[2], low[2];
    for (int half = 0; half < 2; half++)
      split(load_x(x, k + half * 32, n), load_x(x, k + half * 32 + 16, n), &high[half], &low[half]);
    *out++ = _mm512_permutex2var_epi64(high[0], first, high[1]);
    *out++ = _mm512_permutex2var_epi64(high[0], last, high[1]);
    if (!pair) continue;
    *out++ = _mm512_permutex2var_epi64(low[0], first, low[1]);
    *out++ = _mm512_permutex2var_epi64(low[0], last, low[1]);
  }
}
static void pack_f8_pair(void *to, const float *x, int n) { pack_f8(to, x, n, true); }
static void pack_f8_one(void *to, const float *x, int n) { pack_f8(to, x, n, false); }

static void pack_f32(void *to, const float *x, int n) {
  float *out = to;
  for (int k = 0; k < (n + 63) / 64 * 64; k += 16) _mm512_store_ps(out + k, load_x(x, k, n));
}

/* ---- act(gate) * up ---- */

SL_INLINE __m512 activate(__m512 x, sl_activation act) { return act == SL_SILU ? vf_silu(x) : vf_gelu(x); }

static void glu(float *out, const float *gate, const float *up, int n, sl_activation act) {
  for (int i = 0; i < n; i += 16) {
    __mmask16 mask = (__mmask16)(n - i >= 16 ? 0xFFFFu : (1u << (n - i)) - 1);
    __m512 g = _mm512_maskz_loadu_ps(mask, gate + i), u = _mm512_maskz_loadu_ps(mask, up + i);
    _mm512_mask_storeu_ps(out + i, mask, _mm512_mul_ps(activate(g, act), u));
  }
}

/* F32 and F16 weights are multiplied in f32 in both maths. */
#define WHOLE [SL_F32] = {4, pack_f32, dot_f32}, [SL_F16] = {4, pack_f32, dot_f16}

const sl_mm_decodes sl_avx512_decode_exact = {
    {WHOLE, [SL_BF16] = {4, pack_bf16_pair, dot_bf16_pair}, [SL_F8_E4M3] = {4, pack_f8_pair, dot_f8_pair}},
    glu,
    ABREAST};
const sl_mm_decodes sl_avx512_decode_fast = {
    {WHOLE, [SL_BF16] = {2, pack_bf16_one, dot_bf16_one}, [SL_F8_E4M3] = {2, pack_f8_one, dot_f8_one}}, glu, ABREAST};
