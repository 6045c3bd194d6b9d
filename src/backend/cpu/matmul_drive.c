#include "backend/cpu/matmul_drive.h"

#include <string.h>

#include "base/fault.h"

/* A piece of work below this is not worth waking a thread for. */
#define SMALLEST_PIECE (64 * 1024)
#define LARGEST_PIECE  (1024 * 1024)

static int smaller(int a, int b) { return a < b ? a : b; }

int sl_mm_pieces(size_t bytes, int n, int n_threads) {
  if (n_threads <= 1) return 1;
  size_t pieces = bytes / SMALLEST_PIECE, enough = (size_t)n_threads * 16;
  if (pieces > enough) pieces = bytes / LARGEST_PIECE > enough ? bytes / LARGEST_PIECE : enough;
  if (pieces > (size_t)n_threads) pieces = sl_mm_round_up(pieces, (size_t)n_threads);
  if (pieces > (size_t)n) pieces = (size_t)n;
  return pieces > 1 ? (int)pieces : 1;
}

sl_status sl_mm_job(const sl_ctx *ctx, int n_pieces, sl_piece_fn fn, void *arg, const char *op) {
  sl_status status = sl_pool_run(ctx->pool, n_pieces, fn, arg);
  if (status != SL_OK) return sl_fail(ctx->err, status, "%s: a weight could not be read from its file", op);
  return SL_OK;
}

void sl_mm_load_scales(float *to, const sl_weight *w, int first, int n, float factor) {
  if (w->scale) sl_load_row(to, w->scale, w->scale_dtype, first, n);
  for (int i = 0; i < n; i++) to[i] = w->scale ? factor * to[i] : factor;
}

void sl_mm_ask_scales(const sl_weight *w, int first, int n) {
  if (!w->scale || n <= 0) return;
  size_t size = sl_dtype_size(w->scale_dtype);
  const char *at = (const char *)w->scale + (size_t)first * size, *end = at + (size_t)n * size;
  for (; at < end; at += SL_MM_LINE) __builtin_prefetch(at, 0, 3);
  __builtin_prefetch(end - 1, 0, 3);
}

/* out[m,:] = beta * out[m,:], for K = 0. */
static void scale_out(const sl_matmul_bt_args *a) {
  for (int m = 0; m < a->M; m++) {
    float *out = a->out + m * a->ldo;
    for (int n = 0; n < a->B->N; n++) out[n] = a->beta == 0 ? 0 : a->beta * out[n];
  }
}

static inline void put(float *out, float value, float beta) { *out = beta == 0 ? value : value + beta * *out; }

/* ---- packing activations ------------------------------------------------------------------------------------- */

typedef struct pack_job {
  void (*pack)(void *to, const float *x, int n);
  const float *x;
  int64_t ldx;
  uint8_t *to;
  size_t size;
  int M, K, each;
} pack_job;

static void pack_piece(void *arg, int piece, int thread) {
  const pack_job *j = arg;
  (void)thread;
  for (int m = piece * j->each; m < smaller(j->M, (piece + 1) * j->each); m++)
    j->pack(j->to + (size_t)m * j->size, j->x + m * j->ldx, j->K);
}

static sl_status pack_all(const sl_ctx *ctx, pack_job *job, const char *op) {
  int pieces = sl_mm_pieces((size_t)job->M * (size_t)job->K, job->M, sl_pool_threads(ctx->pool));
  job->each = (job->M + pieces - 1) / pieces;
  if (pieces > 1) return sl_mm_job(ctx, (job->M + job->each - 1) / job->each, pack_piece, job, op);
  pack_piece(job, 0, 0);
  return SL_OK;
}

/* ---- decode -------------------------------------------------------------------------------------------------- */

typedef struct decode_job {
  const sl_mm_decode *loops;
  const sl_matmul_bt_args *args;
  const uint8_t *packed;
  size_t packed_size; /* of one token */
  int rows;           /* of a piece */
  int abreast;
} decode_job;

const uint8_t *sl_mm_ahead_turn(sl_mm_ahead *a, int *lines) {
  *lines = 0;
  if (a->rows >= a->end) {
    if (a->next >= a->next_end) return NULL;
    a->rows = a->next;
    a->end = a->next_end;
    a->next = a->next_end;
  }
  size_t left = a->row - a->column;
  const uint8_t *at = a->rows + (size_t)a->r * a->row + a->column;
  *lines = (int)(((left < a->segment ? left : a->segment) + SL_MM_LINE - 1) / SL_MM_LINE);
  if (a->row <= a->segment) return a->rows += a->row, at;
  if (++a->r == a->abreast) a->r = 0, a->column += a->segment;
  if (a->column >= a->row) a->column = 0, a->rows += (size_t)a->abreast * a->row;
  return at;
}

void sl_mm_ahead_start(sl_mm_ahead *ahead, const uint8_t *begin, const uint8_t *end, size_t row, int abreast,
                       int segment) {
  if (abreast == 1) segment = 1 << 20; /* whole rows */
  *ahead = (sl_mm_ahead){.rows = begin,
                         .end = end,
                         .row = row,
                         .abreast = abreast,
                         .segment = (size_t)segment * SL_MM_LINE,
                         .lines = (int)((row + SL_MM_LINE - 1) / SL_MM_LINE)};
  for (int asked = 0; asked < SL_MM_LEAD / SL_MM_LINE;) {
    int lines;
    const uint8_t *at = sl_mm_ahead_take(ahead, &lines);
    if (!at) return;
    for (int i = 0; i < lines; i++) __builtin_prefetch(at + i * SL_MM_LINE, 0, 0);
    asked += lines;
  }
}

void sl_mm_ahead_next(sl_mm_ahead *ahead, const uint8_t *begin, const uint8_t *end) {
  ahead->next = begin;
  ahead->next_end = end;
}

static size_t packed_size(int K, int unit) { return sl_mm_round_up((size_t)K, 64) * (size_t)unit; }

size_t sl_mm_decode_scratch(const sl_op_sig *sig, int M, int n_threads) {
  (void)n_threads;
  return (size_t)M * packed_size(sig->K, 4);
}

static void finish_rows(const sl_matmul_bt_args *a, const float *sums, const float *scales, int r, int n_rows, int m,
                        int n_tokens) {
  const float beta = a->beta;
  for (int t = 0; t < n_tokens; t++) {
    float *out = a->out + (m + t) * a->ldo + r;
    for (int i = 0; i < n_rows; i++) put(out + i, scales[i] * sums[t * SL_MM_ROWS + i], beta);
  }
}

static void decode_piece(void *arg, int piece, int thread) {
  const decode_job *j = arg;
  const sl_matmul_bt_args *a = j->args;
  (void)thread;
  size_t row = sl_row_bytes(a->B->dtype, a->B->K);
  int first = piece * j->rows, end = smaller(a->B->N, first + j->rows);
  const uint8_t *data = a->B->data;
  sl_mm_ahead ahead, nothing = {0};
  sl_mm_ask_scales(a->B, first, end - first);
  sl_mm_ahead_start(&ahead, data + (size_t)first * row, data + (size_t)end * row, row, j->abreast,
                    sl_mm_segment(a->M, a->B->K));

  for (int r = first; r < end; r += SL_MM_ROWS) {
    float scales[SL_MM_ROWS], sums[SL_MM_TOKENS * SL_MM_ROWS];
    int n_rows = smaller(SL_MM_ROWS, end - r);
    sl_mm_load_scales(scales, a->B, r, n_rows, a->alpha);
    for (int m = 0; m < a->M; m += SL_MM_TOKENS) {
      const uint8_t *tokens[SL_MM_TOKENS];
      int n_tokens = smaller(SL_MM_TOKENS, a->M - m);
      for (int t = 0; t < n_tokens; t++) tokens[t] = j->packed + (size_t)(m + t) * j->packed_size;
      j->loops->dot(sums, data + (size_t)r * row, n_rows, tokens, n_tokens, a->B->K, m == 0 ? &ahead : &nothing);
      finish_rows(a, sums, scales, r, n_rows, m, n_tokens);
    }
  }
}

sl_status sl_mm_decode_run(const sl_mm_decodes *loops, const sl_ctx *ctx, const sl_matmul_bt_args *args) {
  const sl_weight *B = args->B;
  const sl_mm_decode *loop = &loops->by_dtype[B->dtype];
  if (args->M == 0 || B->N == 0) return SL_OK;
  if (B->K == 0) return scale_out(args), SL_OK;

  size_t size = packed_size(B->K, loop->unit);
  pack_job pack = {loop->pack, args->A, args->lda, ctx->scratch, size, args->M, B->K, 0};
  SL_TRY(pack_all(ctx, &pack, "matmul_bt"));

  decode_job job = {loop, args, ctx->scratch, size, 0, loops->abreast};
  int pieces = sl_mm_pieces((size_t)B->N * sl_row_bytes(B->dtype, B->K), (B->N + 3) / 4, sl_pool_threads(ctx->pool));
  job.rows = (int)sl_mm_round_up((size_t)((B->N + pieces - 1) / pieces), 4);
  return sl_mm_job(ctx, (B->N + job.rows - 1) / job.rows, decode_piece, &job, "matmul_bt");
}

/* ---- prompt -------------------------------------------------------------------------------------------------- */

#define PROMPT_TOKENS 512 /* a panel is expanded once for so many */
#define PANEL_GROUPS  16  /* groups of tile_rows rows in a panel, at most */
/* Up to here a panel is one group: it stays in the first-level cache while the tokens come from the second.  With more
 * tokens it is the other way round. */
#define FEW_TOKENS 80
/* Below this the next weights are asked for while a panel is filled, since the tiles are soon done. */
#define SO_FEW_TOKENS 16

typedef struct prompt_job {
  const sl_mm_prompt *loops;
  const sl_matmul_bt_args *args;
  const uint8_t *tokens; /* packed or as they are */
  size_t token_size;     /* bytes from one to the next */
  uint8_t *scratch;      /* of thread 0 */
  size_t scratch_size;   /* of one thread */
  int groups;            /* of a piece */
} prompt_job;

static size_t panel_size(const sl_mm_prompt *l) {
  return sl_mm_round_up((size_t)PANEL_GROUPS * (size_t)l->tile_rows * (size_t)l->block * (size_t)l->unit, SL_MM_LINE);
}

static size_t prompt_thread_scratch(const sl_mm_prompt *l, int M) {
  size_t tiles = (size_t)((smaller(M, PROMPT_TOKENS) + l->tile_tokens - 1) / l->tile_tokens);
  return panel_size(l) + tiles * PANEL_GROUPS * SL_MM_TILE * sizeof(float);
}

static size_t prompt_token_size(const sl_mm_prompt *l, int K) { return packed_size(K, l->unit); }

size_t sl_mm_prompt_scratch(const sl_mm_prompt *loops, const sl_op_sig *sig, int M, int n_threads) {
  size_t tokens = loops->pack ? (size_t)M * prompt_token_size(loops, sig->K) : 0;
  return tokens + (size_t)n_threads * prompt_thread_scratch(loops, M);
}

/* Rows of a panel that exist: the last group may be short. */
static int panel_rows(const prompt_job *j, int g, int n_groups) {
  return smaller(n_groups * j->loops->tile_rows, j->args->B->N - g * j->loops->tile_rows);
}

/* The weights that will be expanded next: some rows of one block of K.  They are asked for a few lines at a time, into
 * the second-level cache: a burst would occupy all miss buffers, and the tiles would wait. */
typedef struct asking {
  const uint8_t *rows;
  size_t row, bytes; /* from one row to the next; wanted of each */
  size_t done, all;  /* lines */
} asking;

static asking weights_of(const prompt_job *j, int g, int n_groups, int k) {
  const sl_weight *B = j->args->B;
  size_t row = sl_row_bytes(B->dtype, B->K), bytes = sl_row_bytes(B->dtype, smaller(j->loops->block, B->K - k));
  const uint8_t *rows = (const uint8_t *)B->data + (size_t)(g * j->loops->tile_rows) * row + sl_row_bytes(B->dtype, k);
  size_t lines = (bytes + SL_MM_LINE - 1) / SL_MM_LINE;
  return (asking){rows, row, bytes, 0, n_groups > 0 ? lines * (size_t)panel_rows(j, g, n_groups) : 0};
}

static void ask_weights(asking *a, size_t n) {
  if (n == 0 || a->done >= a->all) return;
  size_t end = a->done + n < a->all ? a->done + n : a->all, lines = (a->bytes + SL_MM_LINE - 1) / SL_MM_LINE;
  const uint8_t *row = a->rows + a->done / lines * a->row;
  for (size_t at = a->done % lines * SL_MM_LINE; a->done < end; a->done++) {
    __builtin_prefetch(row + at, 0, 2);
    at += SL_MM_LINE;
    if (at >= a->bytes) at = 0, row += a->row;
  }
}

/* panel: for each group, for each vector of K, tile_rows vectors side by side.  next: asked for meanwhile, n_ask lines
 * with each row. */
static void fill_panel(const prompt_job *j, uint8_t *panel, int g, int n_groups, int k, int n, asking *next,
                       size_t n_ask) {
  const sl_mm_prompt *l = j->loops;
  const sl_weight *B = j->args->B;
  size_t row = sl_row_bytes(B->dtype, B->K), group = (size_t)l->tile_rows * (size_t)l->block * (size_t)l->unit;
  size_t apart = (size_t)l->tile_rows * (size_t)l->vector;
  for (int i = 0; i < n_groups * l->tile_rows; i++) {
    int r = g * l->tile_rows + i;
    uint8_t *to = panel + (size_t)(i / l->tile_rows) * group + (size_t)(i % l->tile_rows * l->vector);
    const uint8_t *from = (const uint8_t *)B->data + (size_t)r * row + sl_row_bytes(B->dtype, k);
    if (r < B->N) {
      ask_weights(next, n_ask);
      l->fill[B->dtype](to, apart, from, n);
      continue;
    }
    for (int e = 0; e < n; e += l->vector / l->unit, to += apart) memset(to, 0, (size_t)l->vector);
  }
}

/* What a panel's tiles share. */
typedef struct panel {
  const uint8_t *weights;
  float *sums;
  float scales[PANEL_GROUPS * SL_MM_TILE];
  int group, n_groups; /* of the panel */
  int k, n;            /* the block of K that is in it */
  asking next;         /* what comes after it */
} panel;

/* The lines that finish_tiles will write: they are on their way while the last block is summed. */
static void ask_out(const prompt_job *j, const panel *p, int m, int n_tokens) {
  const sl_matmul_bt_args *a = j->args;
  int first = p->group * j->loops->tile_rows, rows = panel_rows(j, p->group, p->n_groups);
  for (int t = 0; t < n_tokens; t++)
    for (int r = 0; r < rows; r += SL_MM_LINE / 4) __builtin_prefetch(a->out + (m + t) * a->ldo + first + r, 1, 3);
}

/* Scales the sums of one row of tiles into out. */
static void finish_tiles(const prompt_job *j, const panel *p, const float *sums, int m, int n_tokens) {
  const sl_matmul_bt_args *a = j->args;
  const int tile_rows = j->loops->tile_rows, first = p->group * tile_rows, rows = panel_rows(j, p->group, p->n_groups);
  const float beta = a->beta;
  for (int t = 0; t < n_tokens; t++, sums += tile_rows) {
    float *out = a->out + (m + t) * a->ldo + first;
    const float *tile = sums;
    for (int done = 0; done < rows; done += tile_rows, tile += SL_MM_TILE) {
      int n = smaller(tile_rows, rows - done);
      for (int r = 0; r < n; r++) put(out + done + r, p->scales[done + r] * tile[r], beta);
    }
  }
}

/* Part g of n_parts of the lines of the next tile's tokens: they come from the third-level cache, and in stretches too
 * short for the hardware to foresee. */
static void ask_tokens(const uint8_t *first, size_t token_size, int n_tokens, size_t bytes, int part, int n_parts) {
  size_t lines = (bytes + SL_MM_LINE - 1) / SL_MM_LINE, each = (lines + (size_t)n_parts - 1) / (size_t)n_parts;
  size_t end = (size_t)(part + 1) * each < lines ? (size_t)(part + 1) * each : lines;
  for (int t = 0; t < n_tokens; t++)
    for (size_t i = (size_t)part * each; i < end; i++)
      __builtin_prefetch(first + (size_t)t * token_size + i * SL_MM_LINE, 0, 2);
}

/* One block of K for tokens m .. m+n_tokens-1 and all groups of the panel. */
static void run_tiles(const prompt_job *j, panel *p, int m, int n_tokens) {
  const sl_mm_prompt *l = j->loops;
  size_t group = (size_t)l->tile_rows * (size_t)l->block * (size_t)l->unit;
  size_t at = (size_t)p->k * (size_t)(l->pack ? l->unit : 4);
  bool is_last = p->k + p->n == j->args->B->K;
  float *sums = p->sums;
  size_t n_ask = p->next.all / (size_t)((n_tokens + l->tile_tokens - 1) / l->tile_tokens) + 1;
  for (int t = 0; t < n_tokens; t += l->tile_tokens, sums += p->n_groups * SL_MM_TILE) {
    const uint8_t *tokens[SL_MM_MAX_TOKENS];
    int n_tile = smaller(l->tile_tokens, n_tokens - t);
    for (int i = 0; i < n_tile; i++) tokens[i] = j->tokens + (size_t)(m + t + i) * j->token_size + at;
    int n_next = p->n_groups > 1 ? smaller(l->tile_tokens, n_tokens - t - n_tile) : 0;
    ask_weights(&p->next, n_ask);
    if (is_last) ask_out(j, p, m + t, n_tile);
    for (int g = 0; g < p->n_groups; g++) {
      ask_tokens(tokens[0] + (size_t)l->tile_tokens * j->token_size, j->token_size, n_next,
                 (size_t)(p->n * (l->pack ? l->unit : 4)), g, p->n_groups);
      l->tile(sums + g * SL_MM_TILE, p->k > 0, tokens, n_tile, p->weights + (size_t)g * group, p->n);
    }
    if (is_last) finish_tiles(j, p, sums, m + t, n_tile);
  }
}

static void prompt_panel(const prompt_job *j, uint8_t *scratch, int g, int n_groups, int next_groups) {
  const sl_mm_prompt *l = j->loops;
  int M = j->args->M, K = j->args->B->K;
  panel p = {.weights = scratch, .sums = (float *)(void *)(scratch + panel_size(l)), .group = g, .n_groups = n_groups};
  sl_mm_load_scales(p.scales, j->args->B, g * l->tile_rows, panel_rows(j, g, n_groups), j->args->alpha);
  for (int m = 0; m < M; m += PROMPT_TOKENS) {
    for (p.k = 0; p.k < K; p.k += l->block) {
      p.n = smaller(l->block, K - p.k);
      p.next = p.k + p.n < K ? weights_of(j, g, n_groups, p.k + p.n) : weights_of(j, g + n_groups, next_groups, 0);
      int n_tokens = smaller(PROMPT_TOKENS, M - m);
      size_t n_ask = n_tokens < SO_FEW_TOKENS ? p.next.all / (size_t)(n_groups * l->tile_rows) + 1 : 0;
      fill_panel(j, scratch, g, n_groups, p.k, p.n, &p.next, n_ask);
      run_tiles(j, &p, m, n_tokens);
    }
  }
}

static void prompt_piece(void *arg, int piece, int thread) {
  const prompt_job *j = arg;
  int all = (j->args->B->N + j->loops->tile_rows - 1) / j->loops->tile_rows;
  int end = smaller(all, (piece + 1) * j->groups), most = j->args->M <= FEW_TOKENS ? 1 : PANEL_GROUPS;
  uint8_t *scratch = j->scratch + (size_t)thread * j->scratch_size;
  asking first = weights_of(j, piece * j->groups, smaller(most, end - piece * j->groups), 0);
  ask_weights(&first, first.all);
  for (int g = piece * j->groups; g < end; g += most) {
    int n = smaller(most, end - g);
    prompt_panel(j, scratch, g, n, smaller(most, end - g - n));
  }
}

/* Groups of a piece: small work in one piece, else the largest of 4 to 8 that leaves the threads even. */
static int choose_groups(int n_groups, int tile_rows, int M, int K, int n_threads) {
  double products = (M + 4.0) * n_groups * tile_rows * K;
  if (n_threads == 1 || products < 1 << 19) return n_groups;
  if (n_groups <= 4 * n_threads) return (n_groups + n_threads - 1) / n_threads;
  int best = 4, best_time = 0;
  for (int each = 4; each <= PANEL_GROUPS; each++) {
    int pieces = (n_groups + each - 1) / each, time = (pieces + n_threads - 1) / n_threads * each;
    if (best_time == 0 || time <= best_time) best = each, best_time = time;
  }
  return best;
}

sl_status sl_mm_prompt_run(const sl_mm_prompt *loops, const sl_ctx *ctx, const sl_matmul_bt_args *args) {
  const sl_weight *B = args->B;
  if (args->M == 0 || B->N == 0) return SL_OK;
  if (B->K == 0) return scale_out(args), SL_OK;

  int n_threads = sl_pool_threads(ctx->pool), n_groups = (B->N + loops->tile_rows - 1) / loops->tile_rows;
  prompt_job job = {loops, args, (const uint8_t *)args->A, (size_t)args->lda * sizeof(float), ctx->scratch, 0, 0};
  if (loops->pack) {
    size_t size = prompt_token_size(loops, B->K);
    pack_job pack = {loops->pack, args->A, args->lda, ctx->scratch, size, args->M, B->K, 0};
    SL_TRY(pack_all(ctx, &pack, "matmul_bt"));
    job.tokens = ctx->scratch;
    job.token_size = size;
    job.scratch += (size_t)args->M * size;
  }
  job.scratch_size = prompt_thread_scratch(loops, args->M);
  job.groups = choose_groups(n_groups, loops->tile_rows, args->M, B->K, n_threads);
  return sl_mm_job(ctx, (n_groups + job.groups - 1) / job.groups, prompt_piece, &job, "matmul_bt");
}

/* ---- rows ---------------------------------------------------------------------------------------------------- */

#define CHUNK 512 /* elements converted at a time */

static void row_to_f32(const sl_mm_rows *l, float *to, const sl_weight *w, int row, int k, int n) {
  size_t bytes = sl_row_bytes(w->dtype, w->K);
  l->expand[w->dtype](to, (const uint8_t *)w->data + (size_t)row * bytes + sl_row_bytes(w->dtype, k), n);
  if (w->scale) l->scale(to, sl_weight_scale(w, row), n);
}

typedef struct rows_job {
  const sl_mm_rows *loops;
  const sl_dequant_rows_args *dequant;
  const sl_embed_rows_args *embed;
  int rows; /* of a piece */
} rows_job;

static void dequant_row(const sl_mm_rows *l, const sl_dequant_rows_args *a, int i) {
  float chunk[CHUNK];
  for (int k = 0; k < a->W->K; k += CHUNK) {
    int n = smaller(CHUNK, a->W->K - k);
    size_t at = (size_t)i * (size_t)a->W->K + (size_t)k;
    if (a->out_dtype == SL_F32) {
      row_to_f32(l, (float *)a->out + at, a->W, a->first + i, k, n);
    } else {
      row_to_f32(l, chunk, a->W, a->first + i, k, n);
      l->to_bf16((uint8_t *)a->out + at * 2, chunk, n);
    }
  }
}

static void dequant_piece(void *arg, int piece, int thread) {
  const rows_job *j = arg;
  (void)thread;
  for (int i = piece * j->rows; i < smaller(j->dequant->n_rows, (piece + 1) * j->rows); i++)
    dequant_row(j->loops, j->dequant, i);
}

sl_status sl_mm_dequant_run(const sl_mm_rows *loops, const sl_ctx *ctx, const sl_dequant_rows_args *args) {
  if (args->n_rows == 0) return SL_OK;
  rows_job job = {loops, args, NULL, 0};
  int pieces = sl_mm_pieces((size_t)args->n_rows * (size_t)args->W->K * 4, args->n_rows, sl_pool_threads(ctx->pool));
  job.rows = (args->n_rows + pieces - 1) / pieces;
  return sl_mm_job(ctx, (args->n_rows + job.rows - 1) / job.rows, dequant_piece, &job, "dequant_rows");
}

static void embed_piece(void *arg, int piece, int thread) {
  const rows_job *j = arg;
  const sl_embed_rows_args *a = j->embed;
  (void)thread;
  for (int m = piece * j->rows; m < smaller(a->M, (piece + 1) * j->rows); m++) {
    float *out = a->out + (size_t)m * (size_t)a->table->K;
    row_to_f32(j->loops, out, a->table, a->ids[m], 0, a->table->K);
    j->loops->scale(out, a->scale, a->table->K);
  }
}

sl_status sl_mm_embed_run(const sl_mm_rows *loops, const sl_ctx *ctx, const sl_embed_rows_args *args) {
  if (args->M == 0) return SL_OK;
  rows_job job = {loops, NULL, args, 0};
  int pieces = sl_mm_pieces((size_t)args->M * (size_t)args->table->K * 4, args->M, sl_pool_threads(ctx->pool));
  job.rows = (args->M + pieces - 1) / pieces;
  return sl_mm_job(ctx, (args->M + job.rows - 1) / job.rows, embed_piece, &job, "embed_rows");
}
