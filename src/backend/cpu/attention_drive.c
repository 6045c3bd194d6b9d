#include "backend/cpu/attention_drive.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/vector_share.h"

/* A span of keys has its own softmax: at least SPAN positions, and more where there would be more than MAX_SPANS. */
enum { SPAN = 1024, MAX_SPANS = 16, LINE = 64, UNITS_PER_THREAD = 2 };

static int least(int a, int b) { return a < b ? a : b; }
static int largest_of(int a, int b) { return a > b ? a : b; }
static size_t line_up(size_t n) { return (n + LINE - 1) / LINE * LINE; }
static int stride_of(int head_dim) { return (head_dim + 15) / 16 * 16; }

bool sl_attention_fits(const sl_op_sig *sig, sl_refusal *why) {
  if (sig->group >= 1 && sig->group <= SL_ATTN_QUERIES && sig->K >= 1 && sig->K <= INT32_MAX - 16) return true;
  snprintf(why->detail, sizeof why->detail,
           "attention: found %d query heads per KV head of head_dim %d, expected 1 to %d heads", sig->group, sig->K,
           SL_ATTN_QUERIES);
  return false;
}

/* ---- scratch ----------------------------------------------------------------------------------------------------- */

static char *carve(char **at, size_t bytes) {
  char *p = *at;
  *at += line_up(bytes);
  return p;
}

static size_t state_bytes(int n, int head_dim, bool has_panels) {
  size_t rows = (size_t)n, row = (size_t)stride_of(head_dim) * sizeof(float);
  size_t panels = has_panels ? 2 * line_up(row * SL_KV_BLOCK) : 0;
  return 2 * line_up(rows * row) + line_up(rows * SL_KV_BLOCK * sizeof(float)) + 5 * line_up(rows * sizeof(float)) +
         panels;
}

static void place_state(sl_attn *a, char *at, int n, int head_dim, bool has_panels) {
  size_t rows = (size_t)n, row = (size_t)stride_of(head_dim) * sizeof(float);
  *a = (sl_attn){.n = n, .head_dim = head_dim, .stride = stride_of(head_dim)};
  a->q = (float *)carve(&at, rows * row);
  a->acc = (float *)carve(&at, rows * row);
  a->scores = (float *)carve(&at, rows * SL_KV_BLOCK * sizeof(float));
  a->largest = (float *)carve(&at, rows * sizeof(float));
  a->sum = (float *)carve(&at, rows * sizeof(float));
  a->correction = (float *)carve(&at, rows * sizeof(float));
  a->from = (int *)carve(&at, rows * sizeof(int));
  a->to = (int *)carve(&at, rows * sizeof(int));
  if (!has_panels) return;
  a->keys = (float *)carve(&at, row * SL_KV_BLOCK);
  a->values = (float *)carve(&at, row * SL_KV_BLOCK);
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

typedef struct job {
  const sl_attn_loops *loops;
  const sl_attention_args *args;
  char *scratch; /* per thread: per_thread bytes */
  size_t per_thread;
  int group;
  /* prompt */
  int tile_rows, n_tiles;
  /* decode: states of spans, [unit][MAX_SPANS], or NULL where each unit is computed in one go */
  char *spans;
  size_t per_span;
} job;

/* Fills query i with head `head` of row m. */
static void load_query(const sl_attn *a, const sl_attention_args *args, int i, int64_t m, int head) {
  const float *from = args->q + (m * args->n_heads + head) * args->head_dim;
  float *q = a->q + (int64_t)i * a->stride;
  for (int d = 0; d < a->head_dim; d++) q[d] = args->scale * from[d];
  for (int d = a->head_dim; d < a->stride; d++) q[d] = 0.0f;
}

static void clear_state(const sl_attn *a) {
  memset(a->acc, 0, (size_t)a->n * (size_t)a->stride * sizeof(float));
  for (int i = 0; i < a->n; i++) {
    a->largest[i] = -INFINITY;
    a->sum[i] = 0.0f;
  }
}

static void store_query(const sl_attn *a, const sl_attention_args *args, int i, int64_t m, int head) {
  float *to = args->out + (m * args->n_heads + head) * args->head_dim;
  const float *acc = a->acc + (int64_t)i * a->stride;
  for (int d = 0; d < a->head_dim; d++) to[d] = acc[d] / a->sum[i];
}

static int lowest_of(const sl_attention_args *args, int pos) {
  return args->window > 0 && pos >= args->window ? pos - args->window + 1 : 0;
}

/* The block of positions first_pos .. first_pos + SL_KV_BLOCK - 1, of which [lowest, end) are read.  Capacities are
 * multiples of a block, so it does not wrap. */
static sl_attn_block block_at(const sl_kv *kv, int head, int first_pos, int lowest, int end) {
  size_t size = kv->dtype == SL_F16 ? 2 : 4;
  size_t at = ((size_t)head * (size_t)kv->capacity + (size_t)(first_pos % kv->capacity)) * (size_t)kv->head_dim * size;
  return (sl_attn_block){.k = (const char *)kv->k + at,
                         .v = (const char *)kv->v + at,
                         .dtype = kv->dtype,
                         .from = largest_of(lowest - first_pos, 0),
                         .to = least(end - first_pos, SL_KV_BLOCK)};
}

/* ---- prompt ------------------------------------------------------------------------------------------------------ */

static int tile_rows_of(int group) { return largest_of(SL_ATTN_QUERIES / group, 1); }

size_t sl_attention_prompt_scratch(const sl_op_sig *sig, int M, int n_threads) {
  int rows = least(tile_rows_of(sig->group), largest_of(M, 1));
  return (size_t)n_threads * state_bytes(rows * sig->group, sig->K, true);
}

/* Which keys of the block each query of a tile looks at. */
static void set_ranges(const sl_attn *a, const sl_attention_args *args, int group, int first_pos, int block) {
  for (int i = 0; i < a->n; i++) {
    int pos = first_pos + i / group;
    int from = largest_of(lowest_of(args, pos) - block, 0), to = least(pos + 1 - block, SL_KV_BLOCK);
    a->from[i] = from < to ? from : 0;
    a->to[i] = from < to ? to : 0;
  }
}

/* Rows row .. row+n_rows-1 of one session, the heads of one KV head. */
static void prompt_tile(const job *j, const sl_segment *s, int row, int n_rows, int head, char *scratch) {
  const sl_attention_args *args = j->args;
  sl_attn a;
  place_state(&a, scratch, n_rows * j->group, args->head_dim, true);
  for (int i = 0; i < a.n; i++) load_query(&a, args, i, row + i / j->group, head * j->group + i % j->group);
  clear_state(&a);
  int first_pos = s->first_pos + (row - s->first_row), end = first_pos + n_rows, lowest = lowest_of(args, first_pos);
  for (int block = lowest / SL_KV_BLOCK * SL_KV_BLOCK; block < end; block += SL_KV_BLOCK) {
    sl_attn_block b = block_at(&s->kv, head, block, lowest, end);
    set_ranges(&a, args, j->group, first_pos, block);
    j->loops->prompt_block(&a, &b);
  }
  for (int i = 0; i < a.n; i++) store_query(&a, args, i, row + i / j->group, head * j->group + i % j->group);
}

static int n_tiles_of(const sl_segment *s, int tile_rows) { return (s->n_rows - 1) / tile_rows + 1; }

/* A unit is one tile and KV head.  The last tiles of a prompt have the most keys, so they come first: what is left at
 * the end is small and evens out. */
static void prompt_range(const void *arg, int64_t first, int64_t end, int thread) {
  const job *j = arg;
  for (int64_t u = first; u < end; u++) {
    int tile = j->n_tiles - 1 - (int)(u / j->args->n_kv_heads), head = (int)(u % j->args->n_kv_heads);
    const sl_segment *s = j->args->segments;
    for (; tile >= n_tiles_of(s, j->tile_rows); s++) tile -= n_tiles_of(s, j->tile_rows);
    int done = tile * j->tile_rows, n_rows = least(s->n_rows - done, j->tile_rows);
    prompt_tile(j, s, s->first_row + done, n_rows, head, j->scratch + (size_t)thread * j->per_thread);
  }
}

/* Keys that the last row of the segment looks at. */
static int n_keys_of(const sl_attention_args *args, const sl_segment *s) {
  int last = s->first_pos + s->n_rows - 1;
  return last + 1 - lowest_of(args, last);
}

static sl_status scratch_ok(const sl_ctx *ctx, size_t needed) {
  if (ctx->scratch_size >= needed) return SL_OK;
  return sl_fail(ctx->err, SL_ERR_ARGUMENT, "attention: scratch of %zu bytes, expected at least %zu", ctx->scratch_size,
                 needed);
}

static sl_op_sig sig_of(const sl_attention_args *args) {
  return (sl_op_sig){.op = SL_OP_ATTENTION,
                     .N = args->n_heads * args->head_dim,
                     .K = args->head_dim,
                     .group = args->n_heads / args->n_kv_heads};
}

sl_status sl_attention_prompt(const sl_attn_loops *loops, const sl_ctx *ctx, const sl_attention_args *args) {
  if (args->M <= 0) return SL_OK;
  sl_op_sig sig = sig_of(args);
  int n_threads = sl_pool_threads(ctx->pool);
  size_t needed = sl_attention_prompt_scratch(&sig, args->M, n_threads);
  SL_TRY(scratch_ok(ctx, needed));
  job j = {.loops = loops,
           .args = args,
           .scratch = ctx->scratch,
           .per_thread = needed / (size_t)n_threads,
           .group = sig.group,
           .tile_rows = tile_rows_of(sig.group)};
  int64_t cost = 0;
  for (int i = 0; i < args->n_segments; i++) {
    const sl_segment *s = &args->segments[i];
    j.n_tiles += n_tiles_of(s, j.tile_rows);
    cost += (int64_t)s->n_rows * n_keys_of(args, s);
  }
  cost = cost / j.n_tiles * sig.group * args->head_dim / 4;
  return sl_share(ctx, (int64_t)j.n_tiles * args->n_kv_heads, cost + 1, prompt_range, &j);
}

/* ---- decode ------------------------------------------------------------------------------------------------------ */

/* The keys of one row of one KV head. */
typedef struct unit {
  const sl_segment *segment;
  int row, head, lowest, end;
  int span, first_span, n_spans; /* positions of a span; the first with keys; how many */
} unit;

/* A span is as long as the row's own keys ask for: nothing else may move its borders. */
static unit unit_at(const sl_attention_args *args, int64_t u) {
  unit w = {.row = (int)(u / args->n_kv_heads), .head = (int)(u % args->n_kv_heads), .span = SPAN};
  const sl_segment *s = args->segments;
  while (w.row >= s->first_row + s->n_rows) s++;
  int pos = s->first_pos + (w.row - s->first_row);
  w.segment = s;
  w.lowest = lowest_of(args, pos);
  w.end = pos + 1;
  while (pos / w.span - w.lowest / w.span >= MAX_SPANS) w.span *= 2;
  w.first_span = w.lowest / w.span;
  w.n_spans = pos / w.span - w.first_span + 1;
  return w;
}

static void load_group(const sl_attn *a, const job *j, const unit *w) {
  for (int i = 0; i < a->n; i++) load_query(a, j->args, i, w->row, w->head * j->group + i);
}

static void store_group(const sl_attn *a, const job *j, const unit *w) {
  for (int i = 0; i < a->n; i++) store_query(a, j->args, i, w->row, w->head * j->group + i);
}

/* The softmax state of one span of a unit, whose queries are loaded. */
static void decode_span(const sl_attn *a, const job *j, const unit *w, int span) {
  int64_t begin = (int64_t)(w->first_span + span) * w->span;
  int lowest = largest_of((int)begin, w->lowest);
  int end = begin + w->span < w->end ? (int)begin + w->span : w->end;
  clear_state(a);
  for (int block = lowest / SL_KV_BLOCK * SL_KV_BLOCK; block < end; block += SL_KV_BLOCK) {
    sl_attn_block b = block_at(&w->segment->kv, w->head, block, lowest, end);
    if (end - block > SL_KV_BLOCK) b.next_k = block_at(&w->segment->kv, w->head, block + SL_KV_BLOCK, lowest, end).k;
    for (int i = 0; i < a->n; i++) {
      a->from[i] = b.from;
      a->to[i] = b.to;
    }
    j->loops->decode_block(a, &b);
  }
}

/* What e^(x - largest) is measured from: where nothing is above -inf yet, any number does. */
static float anchor(float largest) { return isinf(largest) && largest < 0.0f ? 0.0f : largest; }

/* Joins the state of a later span to `whole`. */
static void join(const sl_attn *whole, const sl_attn *later) {
  for (int i = 0; i < whole->n; i++) {
    float largest = later->largest[i] > whole->largest[i] ? later->largest[i] : whole->largest[i];
    float old = expf(whole->largest[i] - anchor(largest)), new = expf(later->largest[i] - anchor(largest));
    float *acc = whole->acc + (int64_t)i * whole->stride;
    const float *more = later->acc + (int64_t)i * later->stride;
    for (int d = 0; d < whole->stride; d++) acc[d] = acc[d] * old + more[d] * new;
    whole->sum[i] = whole->sum[i] * old + later->sum[i] * new;
    whole->largest[i] = largest;
  }
}

/* Room for two states, one span's and the whole's; the whole needs no queries of its own. */
static void decode_range(const void *arg, int64_t first, int64_t end, int thread) {
  const job *j = arg;
  char *scratch = j->scratch + (size_t)thread * j->per_thread;
  sl_attn part, whole;
  place_state(&part, scratch, j->group, j->args->head_dim, false);
  place_state(&whole, scratch + j->per_thread / 2, j->group, j->args->head_dim, false);
  for (int64_t u = first; u < end; u++) {
    unit w = unit_at(j->args, u);
    load_group(&part, j, &w);
    clear_state(&whole);
    for (int span = 0; span < w.n_spans; span++) {
      decode_span(&part, j, &w, span);
      join(&whole, &part);
    }
    store_group(&whole, j, &w);
  }
}

/* The same in two steps, for few units and many threads: first each span by itself, ... */
static void span_range(const void *arg, int64_t first, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  for (int64_t i = first; i < end; i++) {
    unit w = unit_at(j->args, i / MAX_SPANS);
    int span = (int)(i % MAX_SPANS);
    if (span >= w.n_spans) continue;
    sl_attn part;
    place_state(&part, j->spans + (size_t)i * j->per_span, j->group, j->args->head_dim, false);
    load_group(&part, j, &w);
    decode_span(&part, j, &w, span);
  }
}

/* ... then joined. */
static void join_range(const void *arg, int64_t first, int64_t end, int thread) {
  const job *j = arg;
  sl_attn part, whole;
  place_state(&whole, j->scratch + (size_t)thread * j->per_thread, j->group, j->args->head_dim, false);
  for (int64_t u = first; u < end; u++) {
    unit w = unit_at(j->args, u);
    clear_state(&whole);
    for (int span = 0; span < w.n_spans; span++) {
      size_t at = (size_t)(u * MAX_SPANS + span) * j->per_span;
      place_state(&part, j->spans + at, j->group, j->args->head_dim, false);
      join(&whole, &part);
    }
    store_group(&whole, j, &w);
  }
}

/* Units that are few for the threads are cut into spans. */
static int64_t n_cut_units(int64_t n_units, int n_threads) {
  return n_threads > 1 && n_units < (int64_t)UNITS_PER_THREAD * n_threads ? n_units : 0;
}

size_t sl_attention_decode_scratch(const sl_op_sig *sig, int M, int n_threads) {
  size_t state = state_bytes(sig->group, sig->K, false);
  int64_t n_kv_heads = largest_of(sig->N / sig->K / sig->group, 1), most = 0;
  /* Fewer rows than M may be cut where M are not. */
  for (int64_t m = 1; m <= M && n_cut_units(m * n_kv_heads, n_threads); m++) most = m * n_kv_heads;
  return (2 * (size_t)n_threads + (size_t)most * MAX_SPANS) * state;
}

static int64_t n_keys_read(const sl_attention_args *args, int *n_spans) {
  int64_t keys = 0;
  *n_spans = 0;
  for (int m = 0; m < args->M; m++) {
    unit w = unit_at(args, (int64_t)m * args->n_kv_heads);
    keys += w.end - w.lowest;
    *n_spans = largest_of(*n_spans, w.n_spans);
  }
  return keys;
}

sl_status sl_attention_decode(const sl_attn_loops *loops, const sl_ctx *ctx, const sl_attention_args *args) {
  if (args->M <= 0) return SL_OK;
  sl_op_sig sig = sig_of(args);
  int n_threads = sl_pool_threads(ctx->pool), n_spans;
  SL_TRY(scratch_ok(ctx, sl_attention_decode_scratch(&sig, args->M, n_threads)));
  size_t state = state_bytes(sig.group, sig.K, false);
  job j = {.loops = loops, .args = args, .scratch = ctx->scratch, .per_thread = 2 * state, .group = sig.group};
  int64_t n_units = (int64_t)args->M * args->n_kv_heads;
  int64_t cost = n_keys_read(args, &n_spans) / args->M * args->head_dim * (sig.group + 2) / 2 + 1;
  if (n_spans == 1 || !n_cut_units(n_units, n_threads)) return sl_share(ctx, n_units, cost, decode_range, &j);
  j.spans = j.scratch + 2 * (size_t)n_threads * state;
  j.per_span = state;
  SL_TRY(sl_share(ctx, n_units * MAX_SPANS, cost / n_spans + 1, span_range, &j));
  return sl_share(ctx, n_units, (int64_t)args->head_dim * sig.group * n_spans, join_range, &j);
}
