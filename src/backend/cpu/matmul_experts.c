/* The fused expert for generated tokens.  The pairs (token, choice) are sorted by expert, so that each expert's weights
 * are read once for all tokens that chose it.  Two phases: pieces of gate and up rows leave act(gate) * up packed for
 * the second multiplication; pieces of down rows keep each pair's part and join them in router order. */
#include <string.h>

#include "backend/cpu/matmul_drive.h"

#define MAX_TOKENS 64 /* tokens in one round; more go in further rounds, each token's arithmetic being its own */
#define MID_ROWS   64 /* gate and up rows of a unit of work: whole groups of packed activations */

typedef struct experts_job {
  const sl_mm_decodes *loops;
  const sl_expert_ffn_args *args;
  int first, n_tokens; /* of this round */
  sl_dtype in, down;   /* weight dtypes of gate and up, and of down */
  uint64_t *pairs;     /* [n_tokens * top_k] expert << 32 | pair, ascending; pair = token * top_k + choice */
  int *starts;         /* [n_groups + 1] where each expert's pairs begin */
  int n_groups;        /* distinct experts */
  uint8_t *x, *mid;    /* packed: a token's input, a pair's middle */
  size_t x_size, mid_size;
  float *parts;      /* [threads][n_tokens * top_k][SL_MM_ROWS] */
  size_t parts_size; /* floats of one thread */
  int n_units, each; /* units of work in all, and in a piece */
} experts_job;

static int smaller(int a, int b) { return a < b ? a : b; }
static size_t packed(int K, int unit) { return sl_mm_round_up((size_t)K, 64) * (size_t)unit; }

static const sl_expert *group_expert(const experts_job *j, int group) {
  return &j->args->experts[j->pairs[j->starts[group]] >> 32];
}
static int pair_of(const experts_job *j, int i) { return (int)(j->pairs[i] & 0xFFFFFFFF); }

typedef struct region {
  const uint8_t *begin, *end;
} region;

static region rows_of(const sl_weight *w, int first, int end) {
  size_t row = sl_row_bytes(w->dtype, w->K);
  const uint8_t *data = w->data;
  return (region){data + (size_t)first * row, data + (size_t)end * row};
}

/* ---- first phase: unit = (expert, MID_ROWS rows of gate and of up) ---- */

static int mid_blocks(const experts_job *j) { return (j->args->I + MID_ROWS - 1) / MID_ROWS; }

static region mid_region(const experts_job *j, int unit, bool up) {
  const sl_expert *e = group_expert(j, unit / mid_blocks(j));
  int first = unit % mid_blocks(j) * MID_ROWS;
  return rows_of(up ? &e->up : &e->gate, first, smaller(j->args->I, first + MID_ROWS));
}

/* out[t][0..n_rows): multiplied rows of `w` for the tokens. */
static void mid_dots(const experts_job *j, float out[][MID_ROWS], const sl_weight *w, int first, int n_rows,
                     const uint8_t *const *tokens, int n_tokens, sl_mm_ahead *ahead) {
  float sums[SL_MM_TOKENS * SL_MM_ROWS];
  float scales[MID_ROWS];
  sl_mm_load_scales(scales, w, first, n_rows, 1);
  for (int r = 0; r < n_rows; r += SL_MM_ROWS) {
    int n = smaller(SL_MM_ROWS, n_rows - r);
    j->loops->by_dtype[w->dtype].dot(sums, rows_of(w, first + r, 0).begin, n, tokens, n_tokens, w->K, ahead);
    for (int t = 0; t < n_tokens; t++)
      for (int i = 0; i < n; i++) out[t][r + i] = scales[r + i] * sums[t * SL_MM_ROWS + i];
  }
}

static void mid_unit(const experts_job *j, int unit, sl_mm_ahead *ahead, int end) {
  const sl_expert *e = group_expert(j, unit / mid_blocks(j));
  const sl_mm_decode *down = &j->loops->by_dtype[j->down];
  int group = unit / mid_blocks(j), first = unit % mid_blocks(j) * MID_ROWS;
  int n_rows = smaller(MID_ROWS, j->args->I - first);
  float gate[SL_MM_TOKENS][MID_ROWS], up[SL_MM_TOKENS][MID_ROWS];
  sl_mm_ahead nothing = {0}, *look = ahead;
  for (int i = j->starts[group]; i < j->starts[group + 1]; i += SL_MM_TOKENS, look = &nothing) {
    const uint8_t *tokens[SL_MM_TOKENS];
    int n = smaller(SL_MM_TOKENS, j->starts[group + 1] - i);
    for (int t = 0; t < n; t++) tokens[t] = j->x + (size_t)(pair_of(j, i + t) / j->args->top_k) * j->x_size;
    region up_rows = mid_region(j, unit, true);
    if (look == ahead) sl_mm_ahead_next(ahead, up_rows.begin, up_rows.end);
    mid_dots(j, gate, &e->gate, first, n_rows, tokens, n, look);
    if (look == ahead && unit + 1 < end) {
      region next = mid_region(j, unit + 1, false);
      sl_mm_ahead_next(ahead, next.begin, next.end);
    }
    mid_dots(j, up, &e->up, first, n_rows, tokens, n, look);
    for (int t = 0; t < n; t++) {
      j->loops->glu(gate[t], gate[t], up[t], n_rows, j->args->act);
      down->pack(j->mid + (size_t)pair_of(j, i + t) * j->mid_size + (size_t)(first * down->unit), gate[t], n_rows);
    }
  }
}

static void ask_mid_scales(const experts_job *j, int unit) {
  const sl_expert *e = group_expert(j, unit / mid_blocks(j));
  int first = unit % mid_blocks(j) * MID_ROWS, n_rows = smaller(MID_ROWS, j->args->I - first);
  sl_mm_ask_scales(&e->gate, first, n_rows);
  sl_mm_ask_scales(&e->up, first, n_rows);
}

static void mid_piece(void *arg, int piece, int thread) {
  const experts_job *j = arg;
  (void)thread;
  int unit = piece * j->each, end = smaller(j->n_units, unit + j->each);
  region first = mid_region(j, unit, false);
  sl_mm_ahead ahead;
  ask_mid_scales(j, unit);
  sl_mm_ahead_start(&ahead, first.begin, first.end, sl_row_bytes(j->in, j->args->H), j->loops->abreast,
                    sl_mm_segment(1, j->args->H));
  for (; unit < end; unit++) {
    if (unit + 1 < end) ask_mid_scales(j, unit + 1);
    mid_unit(j, unit, &ahead, end);
  }
}

/* ---- second phase: unit = SL_MM_ROWS rows of down, of every expert in turn ---- */

static region down_region(const experts_job *j, int unit, int group) {
  int first = unit * SL_MM_ROWS;
  return rows_of(&group_expert(j, group)->down, first, smaller(j->args->H, first + SL_MM_ROWS));
}

/* The region after (unit, group) in the order of computing. */
static void down_ahead(const experts_job *j, sl_mm_ahead *ahead, int unit, int group, int end) {
  if (++group == j->n_groups) group = 0, unit++;
  if (unit >= end) return;
  region next = down_region(j, unit, group);
  sl_mm_ahead_next(ahead, next.begin, next.end);
}

static void down_group(const experts_job *j, float *parts, int unit, int group, sl_mm_ahead *ahead) {
  const sl_weight *w = &group_expert(j, group)->down;
  int first = unit * SL_MM_ROWS, n_rows = smaller(SL_MM_ROWS, j->args->H - first);
  float sums[SL_MM_TOKENS * SL_MM_ROWS], scales[SL_MM_ROWS];
  sl_mm_load_scales(scales, w, first, n_rows, 1);
  sl_mm_ahead nothing = {0}, *look = ahead;
  for (int i = j->starts[group]; i < j->starts[group + 1]; i += SL_MM_TOKENS, look = &nothing) {
    const uint8_t *tokens[SL_MM_TOKENS];
    int n = smaller(SL_MM_TOKENS, j->starts[group + 1] - i);
    for (int t = 0; t < n; t++) tokens[t] = j->mid + (size_t)pair_of(j, i + t) * j->mid_size;
    j->loops->by_dtype[j->down].dot(sums, rows_of(w, first, 0).begin, n_rows, tokens, n, w->K, look);
    for (int t = 0; t < n; t++) {
      float *part = parts + (size_t)pair_of(j, i + t) * SL_MM_ROWS;
      for (int r = 0; r < n_rows; r++) part[r] = scales[r] * sums[t * SL_MM_ROWS + r];
    }
  }
}

/* out = sum of the pairs' parts in router order, by their weights. */
static void join(const experts_job *j, const float *parts, int unit) {
  const sl_expert_ffn_args *a = j->args;
  int first = unit * SL_MM_ROWS, n_rows = smaller(SL_MM_ROWS, a->H - first);
  for (int t = 0; t < j->n_tokens; t++) {
    float sum[SL_MM_ROWS] = {0};
    const float *weights = a->weights + (size_t)(j->first + t) * (size_t)a->top_k;
    for (int c = 0; c < a->top_k; c++) {
      const float *part = parts + (size_t)(t * a->top_k + c) * SL_MM_ROWS;
      for (int r = 0; r < n_rows; r++) sum[r] += weights[c] * part[r];
    }
    memcpy(a->out + (size_t)(j->first + t) * (size_t)a->H + first, sum, (size_t)n_rows * sizeof *sum);
  }
}

static void ask_down_scales(const experts_job *j, int unit) {
  int first = unit * SL_MM_ROWS, n_rows = smaller(SL_MM_ROWS, j->args->H - first);
  for (int group = 0; group < j->n_groups; group++) sl_mm_ask_scales(&group_expert(j, group)->down, first, n_rows);
}

static void down_piece(void *arg, int piece, int thread) {
  const experts_job *j = arg;
  float *parts = j->parts + (size_t)thread * j->parts_size;
  int unit = piece * j->each, end = smaller(j->n_units, unit + j->each);
  region first = down_region(j, unit, 0);
  sl_mm_ahead ahead;
  ask_down_scales(j, unit);
  sl_mm_ahead_start(&ahead, first.begin, first.end, sl_row_bytes(j->down, j->args->I), j->loops->abreast,
                    sl_mm_segment(1, j->args->I));
  for (; unit < end; unit++) {
    if (unit + 1 < end) ask_down_scales(j, unit + 1);
    for (int group = 0; group < j->n_groups; group++) {
      down_ahead(j, &ahead, unit, group, end);
      down_group(j, parts, unit, group, &ahead);
    }
    join(j, parts, unit);
  }
}

/* ---- a round ---- */

/* Ascending; shell sort, since the C library's may allocate. */
static void sort(uint64_t *v, int n) {
  static const int gaps[] = {701, 301, 132, 57, 23, 10, 4, 1};
  for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++) {
    for (int i = gaps[g]; i < n; i++) {
      uint64_t x = v[i];
      int at = i;
      for (; at >= gaps[g] && v[at - gaps[g]] > x; at -= gaps[g]) v[at] = v[at - gaps[g]];
      v[at] = x;
    }
  }
}

static void group_pairs(experts_job *j) {
  const sl_expert_ffn_args *a = j->args;
  int n = j->n_tokens * a->top_k;
  const int32_t *ids = a->ids + (size_t)j->first * (size_t)a->top_k;
  for (int i = 0; i < n; i++) j->pairs[i] = (uint64_t)ids[i] << 32 | (uint64_t)i;
  sort(j->pairs, n);
  j->n_groups = 0;
  for (int i = 0; i < n; i++)
    if (i == 0 || j->pairs[i] >> 32 != j->pairs[i - 1] >> 32) j->starts[j->n_groups++] = i;
  j->starts[j->n_groups] = n;
}

/* A kernel is chosen by one dtype, and the activations are packed for one. */
static sl_status check_dtypes(const experts_job *j, sl_error *err) {
  for (int g = 0; g < j->n_groups; g++) {
    const sl_expert *e = group_expert(j, g);
    if (e->gate.dtype == j->in && e->up.dtype == j->in && e->down.dtype == j->down) continue;
    return sl_fail(err, SL_ERR_UNSUPPORTED, "expert_ffn: expert %d: found gate %s, up %s, down %s, expected %s, %s, %s",
                   (int)(j->pairs[j->starts[g]] >> 32), sl_dtype_name(e->gate.dtype), sl_dtype_name(e->up.dtype),
                   sl_dtype_name(e->down.dtype), sl_dtype_name(j->in), sl_dtype_name(j->in), sl_dtype_name(j->down));
  }
  return SL_OK;
}

static sl_status run_phase(experts_job *j, const sl_ctx *ctx, int n_units, size_t bytes, sl_piece_fn piece) {
  int pieces = sl_mm_pieces(bytes, n_units, sl_pool_threads(ctx->pool));
  j->n_units = n_units;
  j->each = (n_units + pieces - 1) / pieces;
  return sl_mm_job(ctx, (n_units + j->each - 1) / j->each, piece, j, "expert_ffn");
}

static sl_status run_round(experts_job *j, const sl_ctx *ctx) {
  const sl_expert_ffn_args *a = j->args;
  group_pairs(j);
  SL_TRY(check_dtypes(j, ctx->err));
  for (int t = 0; t < j->n_tokens; t++)
    j->loops->by_dtype[j->in].pack(j->x + (size_t)t * j->x_size, a->x + (size_t)(j->first + t) * (size_t)a->H, a->H);
  size_t in = 2 * (size_t)a->I * sl_row_bytes(j->in, a->H), down = (size_t)a->H * sl_row_bytes(j->down, a->I);
  SL_TRY(run_phase(j, ctx, j->n_groups * mid_blocks(j), (size_t)j->n_groups * in, mid_piece));
  return run_phase(j, ctx, (a->H + SL_MM_ROWS - 1) / SL_MM_ROWS, (size_t)j->n_groups * down, down_piece);
}

/* ---- scratch ---- */

/* Lays the job's arrays out from `base` (NULL: only the size) and returns the bytes they take. */
static size_t lay_out(experts_job *j, uint8_t *base, int n_tokens, int top_k, int H, int I, int n_threads) {
  size_t pairs = (size_t)n_tokens * (size_t)top_k, at = 0, sizes[5];
  j->x_size = packed(H, 4);
  j->mid_size = packed(I, 4);
  j->parts_size = pairs * SL_MM_ROWS;
  sizes[0] = (size_t)n_tokens * j->x_size;
  sizes[1] = pairs * j->mid_size;
  sizes[2] = (size_t)n_threads * j->parts_size * sizeof(float);
  sizes[3] = pairs * sizeof *j->pairs;
  sizes[4] = (pairs + 1) * sizeof *j->starts;
  uint8_t *places[5];
  for (int i = 0; i < 5; i++) {
    places[i] = base ? base + at : NULL;
    at += sl_mm_round_up(sizes[i], SL_MM_LINE);
  }
  j->x = places[0];
  j->mid = places[1];
  j->parts = (float *)(void *)places[2];
  j->pairs = (uint64_t *)(void *)places[3];
  j->starts = (int *)(void *)places[4];
  return at;
}

size_t sl_mm_experts_scratch(const sl_op_sig *sig, int M, int n_threads) {
  experts_job none;
  return lay_out(&none, NULL, smaller(M, MAX_TOKENS), sig->top_k, sig->K, sig->N, n_threads);
}

sl_status sl_mm_experts_run(const sl_mm_decodes *loops, const sl_ctx *ctx, const sl_expert_ffn_args *args) {
  if (args->M == 0) return SL_OK;
  if (args->top_k == 0) return memset(args->out, 0, (size_t)args->M * (size_t)args->H * sizeof(float)), SL_OK;
  const sl_expert *e = &args->experts[args->ids[0]];
  experts_job job = {.loops = loops, .args = args, .in = e->gate.dtype, .down = e->down.dtype};
  lay_out(&job, ctx->scratch, smaller(args->M, MAX_TOKENS), args->top_k, args->H, args->I, sl_pool_threads(ctx->pool));
  for (; job.first < args->M; job.first += job.n_tokens) {
    job.n_tokens = smaller(MAX_TOKENS, args->M - job.first);
    SL_TRY(run_round(&job, ctx));
  }
  return SL_OK;
}
