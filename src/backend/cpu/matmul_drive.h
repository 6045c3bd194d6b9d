/* Matrix kernels, the part that no instruction set changes: how work is cut into pieces, where scratch lies, what is
 * scaled when.  An instruction set brings the loops below (matmul_avx512*.c, matmul_avx2*.c) and this drives them.
 *
 * Two roles, two arithmetics:
 *   decode  activations are packed once, weights are expanded in registers, each row is read once for all tokens;
 *   prompt  a panel of weights is expanded into scratch that stays in the second-level cache, and used by all tokens.
 * In both, one (row, token) pair is summed in an order that only K, dtype, role and math decide: never M, N, a stride,
 * an alignment or the cutting into pieces. */
#ifndef SL_BACKEND_CPU_MATMUL_DRIVE_H
#define SL_BACKEND_CPU_MATMUL_DRIVE_H

#include "backend/backend.h"

#define SL_MM_LINE 64 /* bytes of a cache line; decode loops take one line of weights a step */

/* ---- decode ---- */

#define SL_MM_TOKENS 16 /* tokens of one call of `dot` */
#define SL_MM_ROWS   32 /* rows of one call of `dot` */

/* How a decode loop walks and what it asks the memory for: one row after the other; but where the activations are too
 * many to stay in the first-level cache beside the weights, a few rows together, a segment of each in turn.  While one
 * segment (or whole row) is computed, the loop asks for one some way ahead, into the first-level cache and not to be
 * kept.  docs/EXPERIMENTS.md has what was measured. */
#define SL_MM_LEAD    (4 * 1024)
#define SL_MM_ABREAST 4 /* rows taken together, at most */

/* Lines of a segment, for so many tokens at a time. */
static inline int sl_mm_segment(int n_tokens, int K) {
  return (int64_t)(n_tokens > 1 ? 2 : 1) * K <= 3072 ? 1 << 20 : 16;
}

/* The segments to ask for, in the order of the walk: rows of a region, then those of the next one. */
typedef struct sl_mm_ahead {
  const uint8_t *rows, *end;      /* the rows taken together next; end of the region */
  size_t row, column;             /* bytes of a row; where the segment begins in it */
  int r, abreast;                 /* which of the rows; how many are taken together */
  size_t segment;                 /* bytes, at most */
  int lines;                      /* of a whole row */
  const uint8_t *next, *next_end; /* the region that follows */
} sl_mm_ahead;

/* Starts on a region of rows of `row` bytes, `abreast` of them together in segments of so many lines: asks for its
 * beginning. */
void sl_mm_ahead_start(sl_mm_ahead *ahead, const uint8_t *begin, const uint8_t *end, size_t row, int abreast,
                       int segment);
/* Names the region that follows the one that is about to be computed; its rows are as long. */
void sl_mm_ahead_next(sl_mm_ahead *ahead, const uint8_t *begin, const uint8_t *end);
/* The next segment to ask for and its lines, or NULL.  To be called once for each segment computed. */
const uint8_t *sl_mm_ahead_turn(sl_mm_ahead *ahead, int *lines);
static inline const uint8_t *sl_mm_ahead_take(sl_mm_ahead *ahead, int *lines) {
  const uint8_t *at = ahead->rows;
  if (ahead->row > ahead->segment || at >= ahead->end) return sl_mm_ahead_turn(ahead, lines);
  ahead->rows += ahead->row; /* whole rows */
  *lines = ahead->lines;
  return at;
}

typedef struct sl_mm_decode {
  int unit; /* bytes that one packed activation takes */
  /* Packs x[0..n) and zeros up to a multiple of 64 elements into `to` (64-byte aligned, unit bytes each). */
  void (*pack)(void *to, const float *x, int n);
  /* sums[t * SL_MM_ROWS + r] = sum_k row r [k] * token t [k], without the row's multiplier.  Row r begins at
   * rows + r * (bytes of a row), at any alignment; n_rows <= SL_MM_ROWS, n_tokens <= SL_MM_TOKENS. */
  void (*dot)(float *sums, const uint8_t *rows, int n_rows, const uint8_t *const *tokens, int n_tokens, int K,
              sl_mm_ahead *ahead);
} sl_mm_decode;

/* out[i] = act(gate[i]) * up[i], in f32. */
typedef void (*sl_mm_glu)(float *out, const float *gate, const float *up, int n, sl_activation act);

/* The loops of one instruction set and math, by weight dtype. */
typedef struct sl_mm_decodes {
  sl_mm_decode by_dtype[SL_N_DTYPES];
  sl_mm_glu glu;
  int abreast; /* rows that `dot` takes together */
} sl_mm_decodes;

size_t sl_mm_decode_scratch(const sl_op_sig *sig, int M, int n_threads);
sl_status sl_mm_decode_run(const sl_mm_decodes *loops, const sl_ctx *ctx, const sl_matmul_bt_args *args);

size_t sl_mm_experts_scratch(const sl_op_sig *sig, int M, int n_threads);
sl_status sl_mm_experts_run(const sl_mm_decodes *loops, const sl_ctx *ctx, const sl_expert_ffn_args *args);

/* ---- prompt ---- */

#define SL_MM_TILE       32 /* at least tile_tokens * tile_rows */
#define SL_MM_MAX_TOKENS 8  /* at least tile_tokens */

typedef struct sl_mm_prompt {
  int tile_tokens, tile_rows;
  int block;  /* elements of K that are summed before a sum is reduced; a multiple of vector / unit */
  int unit;   /* bytes of an element of the panel */
  int vector; /* bytes of a vector */
  /* Activations as the tile reads them, zeros up to a whole vector; NULL: f32 where they are. */
  void (*pack)(void *to, const float *x, int n);
  /* Expands n weights into vectors `apart` bytes apart, zeros up to a whole vector. */
  void (*fill[SL_N_DTYPES])(uint8_t *to, size_t apart, const uint8_t *weights, int n);
  /* sums[t * tile_rows + r] (+)= the dot products of n elements; the panel holds tile_rows vectors of the same
   * elements side by side.  Reads only n elements of a token (or whole vectors where `pack` is there). */
  void (*tile)(float *sums, bool add, const uint8_t *const *tokens, int n_tokens, const uint8_t *panel, int n);
} sl_mm_prompt;

size_t sl_mm_prompt_scratch(const sl_mm_prompt *loops, const sl_op_sig *sig, int M, int n_threads);
sl_status sl_mm_prompt_run(const sl_mm_prompt *loops, const sl_ctx *ctx, const sl_matmul_bt_args *args);

/* ---- rows ---- */

/* out[i] = weight i in f32, for n weights at any alignment. */
typedef void (*sl_mm_expand)(float *out, const uint8_t *weights, int n);
typedef struct sl_mm_rows {
  sl_mm_expand expand[SL_N_DTYPES];
  void (*scale)(float *x, float factor, int n);        /* in place */
  void (*to_bf16)(uint8_t *to, const float *x, int n); /* rounded to nearest even, subnormals and NaN kept */
} sl_mm_rows;

sl_status sl_mm_dequant_run(const sl_mm_rows *loops, const sl_ctx *ctx, const sl_dequant_rows_args *args);
sl_status sl_mm_embed_run(const sl_mm_rows *loops, const sl_ctx *ctx, const sl_embed_rows_args *args);

/* ---- helpers ---- */

/* Runs a job and turns a fault in a mapped file into a sentence. */
sl_status sl_mm_job(const sl_ctx *ctx, int n_pieces, sl_piece_fn fn, void *arg, const char *op);

static inline size_t sl_mm_round_up(size_t x, size_t to) { return (x + to - 1) / to * to; }

/* How many pieces to cut `bytes` of weights and `n` units into, at most one piece a unit. */
int sl_mm_pieces(size_t bytes, int n, int n_threads);

/* to[i] = factor * the multiplier of row first + i (1 where there are none).  Only inside a piece: they lie in the file
 * too. */
void sl_mm_load_scales(float *to, const sl_weight *w, int first, int n, float factor);
/* Asks the memory for these multipliers: each line of them would be waited for in full otherwise. */
void sl_mm_ask_scales(const sl_weight *w, int first, int n);

#endif
