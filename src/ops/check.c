#include <inttypes.h>
#include <math.h>

#include "ops/ops.h"

/* What every check carries along: the operation's name for the sentence, and where the sentence goes. */
typedef struct door {
  const char *op;
  sl_error *err;
} door;

static sl_status wrong(const door *d, const char *field, long long found, const char *expected) {
  return sl_fail(d->err, SL_ERR_ARGUMENT, "%s: %s: found %lld, expected %s", d->op, field, found, expected);
}

static sl_status at_least(const door *d, const char *field, long long value, long long lowest) {
  if (value >= lowest) return SL_OK;
  return sl_fail(d->err, SL_ERR_ARGUMENT, "%s: %s: found %lld, expected at least %lld", d->op, field, value, lowest);
}

static sl_status equal(const door *d, const char *field, long long value, const char *other, long long expected) {
  if (value == expected) return SL_OK;
  return sl_fail(d->err, SL_ERR_ARGUMENT, "%s: %s: found %lld, expected %lld (%s)", d->op, field, value, expected,
                 other);
}

static sl_status present(const door *d, const char *field, const void *pointer) {
  if (pointer) return SL_OK;
  return sl_fail(d->err, SL_ERR_ARGUMENT, "%s: %s: found NULL, expected an array", d->op, field);
}

static sl_status in_range(const door *d, const char *field, const int32_t *ids, int64_t n, int end) {
  SL_TRY(n > 0 ? present(d, field, ids) : SL_OK);
  for (int64_t i = 0; i < n; i++) {
    if (ids[i] >= 0 && ids[i] < end) continue;
    return sl_fail(d->err, SL_ERR_ARGUMENT, "%s: %s[%" PRId64 "]: found %d, expected 0 to %d", d->op, field, i,
                   (int)ids[i], end - 1);
  }
  return SL_OK;
}

/* Two buffers of n and m floats: apart, or the very same where `same_allowed`. */
static sl_status apart(const door *d, const char *out_name, const void *out, int64_t n_out, const char *in_name,
                       const void *in, int64_t n_in, bool same_allowed) {
  uintptr_t o = (uintptr_t)out, i = (uintptr_t)in;
  if (n_out <= 0 || n_in <= 0 || !in) return SL_OK;
  if (same_allowed && o == i) return SL_OK;
  if (o + (uintptr_t)n_out * 4 <= i || i + (uintptr_t)n_in * 4 <= o) return SL_OK;
  return sl_fail(d->err, SL_ERR_ARGUMENT, "%s: %s overlaps %s, expected %s", d->op, out_name, in_name,
                 same_allowed ? "the same or another buffer" : "another buffer");
}

static sl_status eps_ok(const door *d, float eps) {
  if (eps >= 0.0f && isfinite(eps)) return SL_OK;
  return sl_fail(d->err, SL_ERR_ARGUMENT, "%s: eps: found %g, expected a finite number of at least 0", d->op,
                 (double)eps);
}

/* [M,H] in and out, elementwise or row by row. */
static sl_status rows_ok(const door *d, int M, int H, const float *out, const float *x, const char *x_name) {
  SL_TRY(at_least(d, "M", M, 0));
  SL_TRY(at_least(d, "H", H, 1));
  if (M == 0) return SL_OK;
  SL_TRY(present(d, "out", out));
  SL_TRY(present(d, x_name, x));
  int64_t n = (int64_t)M * H;
  return apart(d, "out", out, n, x_name, x, n, true);
}

static sl_status weight_ok(const door *d, const char *field, const sl_weight *w) {
  SL_TRY(present(d, field, w));
  if (w->N < 1 || w->K < 0)
    return sl_fail(d->err, SL_ERR_ARGUMENT, "%s: %s: shape [%d,%d], expected [at least 1, at least 0]", d->op, field,
                   w->N, w->K);
  if ((unsigned)w->dtype >= SL_N_DTYPES) return wrong(d, "weight dtype", w->dtype, "one of sl_dtype");
  if (w->scale && w->scale_dtype != SL_F32 && w->scale_dtype != SL_F16 && w->scale_dtype != SL_BF16)
    return sl_fail(d->err, SL_ERR_ARGUMENT, "%s: %s: scale dtype %s, expected F32, F16 or BF16", d->op, field,
                   sl_dtype_name(w->scale_dtype));
  return w->K > 0 ? present(d, field, w->data) : SL_OK;
}

static sl_status check_embed_rows(const door *d, const sl_embed_rows_args *a) {
  SL_TRY(at_least(d, "M", a->M, 0));
  SL_TRY(weight_ok(d, "table", a->table));
  SL_TRY(in_range(d, "ids", a->ids, a->M, a->table->N));
  if (a->M == 0 || a->table->K == 0) return SL_OK;
  return present(d, "out", a->out);
}

static sl_status check_matmul_bt(const door *d, const sl_matmul_bt_args *a) {
  SL_TRY(at_least(d, "M", a->M, 0));
  SL_TRY(weight_ok(d, "B", a->B));
  SL_TRY(at_least(d, "lda", a->lda, a->B->K));
  SL_TRY(at_least(d, "ldo", a->ldo, a->B->N));
  if (a->M == 0) return SL_OK;
  SL_TRY(present(d, "out", a->out));
  if (a->B->K == 0) return SL_OK;
  SL_TRY(present(d, "A", a->A));
  /* Only rows of one buffer with common strides can lie between one another; that is not worth allowing. */
  return apart(d, "out", a->out, (a->M - 1) * a->ldo + a->B->N, "A", a->A, (a->M - 1) * a->lda + a->B->K, false);
}

static sl_status check_dequant_rows(const door *d, const sl_dequant_rows_args *a) {
  SL_TRY(weight_ok(d, "W", a->W));
  SL_TRY(at_least(d, "n_rows", a->n_rows, 0));
  SL_TRY(at_least(d, "first", a->first, 0));
  if (a->n_rows > a->W->N - a->first)
    return sl_fail(d->err, SL_ERR_ARGUMENT, "%s: rows %d to %lld, expected to end at %d or before", d->op, a->first,
                   (long long)a->first + a->n_rows, a->W->N);
  if (a->out_dtype != SL_F32 && a->out_dtype != SL_BF16)
    return sl_fail(d->err, SL_ERR_ARGUMENT, "%s: out_dtype: found %s, expected F32 or BF16", d->op,
                   sl_dtype_name(a->out_dtype));
  return a->n_rows > 0 && a->W->K > 0 ? present(d, "out", a->out) : SL_OK;
}

static sl_status check_gather_rows(const door *d, const sl_gather_rows_args *a) {
  SL_TRY(at_least(d, "M", a->M, 0));
  SL_TRY(at_least(d, "H", a->H, 1));
  SL_TRY(in_range(d, "ids", a->ids, a->M, a->n_in));
  if (a->M == 0) return SL_OK;
  SL_TRY(present(d, "out", a->out));
  SL_TRY(present(d, "in", a->in));
  return apart(d, "out", a->out, (int64_t)a->M * a->H, "in", a->in, (int64_t)a->n_in * a->H, false);
}

static sl_status check_scatter_add_rows(const door *d, const sl_scatter_add_rows_args *a) {
  SL_TRY(at_least(d, "M", a->M, 0));
  SL_TRY(at_least(d, "H", a->H, 1));
  SL_TRY(in_range(d, "ids", a->ids, a->M, a->n_acc));
  if (a->M == 0) return SL_OK;
  SL_TRY(present(d, "acc", a->acc));
  SL_TRY(present(d, "in", a->in));
  SL_TRY(present(d, "weights", a->weights));
  return apart(d, "acc", a->acc, (int64_t)a->n_acc * a->H, "in", a->in, (int64_t)a->M * a->H, false);
}

static sl_status check_fill_zero(const door *d, const sl_fill_zero_args *a) {
  SL_TRY(at_least(d, "M", a->M, 0));
  SL_TRY(at_least(d, "H", a->H, 0));
  return a->M > 0 && a->H > 0 ? present(d, "out", a->out) : SL_OK;
}

static sl_status check_rms_norm(const door *d, const sl_rms_norm_args *a, bool adds) {
  SL_TRY(rows_ok(d, a->M, a->H, a->out, a->x, "x"));
  SL_TRY(eps_ok(d, a->eps));
  if (adds) SL_TRY(rows_ok(d, a->M, a->H, a->out, a->residual, "residual"));
  return a->M > 0 ? apart(d, "out", a->out, (int64_t)a->M * a->H, "w", a->w, a->H, false) : SL_OK;
}

static sl_status check_dual_rms_norm_add(const door *d, const sl_dual_rms_norm_add_args *a) {
  SL_TRY(rows_ok(d, a->M, a->H, a->out, a->x1, "x1"));
  SL_TRY(rows_ok(d, a->M, a->H, a->out, a->x2, "x2"));
  SL_TRY(rows_ok(d, a->M, a->H, a->out, a->residual, "residual"));
  return eps_ok(d, a->eps);
}

static sl_status check_glu(const door *d, const sl_glu_args *a) {
  SL_TRY(at_least(d, "M", a->M, 0));
  SL_TRY(at_least(d, "I", a->I, 1));
  SL_TRY(at_least(d, "ldg", a->ldg, a->I));
  SL_TRY(at_least(d, "ldu", a->ldu, a->I));
  SL_TRY(at_least(d, "ldo", a->ldo, a->I));
  if (a->M == 0) return SL_OK;
  SL_TRY(present(d, "out", a->out));
  SL_TRY(present(d, "gate", a->gate));
  SL_TRY(present(d, "up", a->up));
  if (a->out == a->gate) return equal(d, "ldo", a->ldo, "ldg, since out is gate", a->ldg);
  return SL_OK;
}

static sl_status expert_weight_ok(const door *d, const char *field, const sl_weight *w, int id, int N, int K) {
  SL_TRY(weight_ok(d, field, w));
  if (w->N == N && w->K == K) return SL_OK;
  return sl_fail(d->err, SL_ERR_ARGUMENT, "%s: experts[%d].%s: shape [%d,%d], expected [%d,%d]", d->op, id, field, w->N,
                 w->K, N, K);
}

static sl_status check_expert_ffn(const door *d, const sl_expert_ffn_args *a) {
  SL_TRY(at_least(d, "M", a->M, 0));
  SL_TRY(at_least(d, "H", a->H, 1));
  SL_TRY(at_least(d, "I", a->I, 1));
  SL_TRY(at_least(d, "top_k", a->top_k, 1));
  if (a->act != SL_GELU_TANH && a->act != SL_SILU) return wrong(d, "act", a->act, "gelu_tanh or silu");
  int64_t n = (int64_t)a->M * a->top_k, size = (int64_t)a->M * a->H;
  SL_TRY(in_range(d, "ids", a->ids, n, a->n_experts));
  if (a->M == 0) return SL_OK;
  SL_TRY(present(d, "out", a->out));
  SL_TRY(present(d, "x", a->x));
  SL_TRY(present(d, "weights", a->weights));
  SL_TRY(present(d, "experts", a->experts));
  for (int64_t i = 0; i < n; i++) {
    const sl_expert *e = &a->experts[a->ids[i]];
    SL_TRY(expert_weight_ok(d, "gate", &e->gate, a->ids[i], a->I, a->H));
    SL_TRY(expert_weight_ok(d, "up", &e->up, a->ids[i], a->I, a->H));
    SL_TRY(expert_weight_ok(d, "down", &e->down, a->ids[i], a->H, a->I));
  }
  return apart(d, "out", a->out, size, "x", a->x, size, false);
}

static sl_status imposed_ok(const door *d, const sl_route_topk_args *a) {
  SL_TRY(in_range(d, "imposed", a->imposed, (int64_t)a->M * a->top_k, a->E));
  for (int64_t m = 0; m < a->M; m++) {
    const int32_t *ids = a->imposed + m * a->top_k;
    for (int j = 1; j < a->top_k; j++)
      for (int i = 0; i < j; i++)
        if (ids[i] == ids[j])
          return wrong(d, "imposed", ids[j], "distinct experts for each token, but it is there twice");
  }
  return SL_OK;
}

static sl_status check_route_topk(const door *d, const sl_route_topk_args *a) {
  SL_TRY(at_least(d, "M", a->M, 0));
  SL_TRY(at_least(d, "E", a->E, 1));
  SL_TRY(at_least(d, "top_k", a->top_k, 1));
  if (a->top_k > a->E)
    return sl_fail(d->err, SL_ERR_ARGUMENT, "%s: top_k: found %d, expected at most %d (E)", d->op, a->top_k, a->E);
  if (a->M == 0) return SL_OK;
  SL_TRY(present(d, "ids", a->ids));
  SL_TRY(present(d, "weights", a->weights));
  SL_TRY(present(d, "logits", a->logits));
  if (a->imposed) SL_TRY(imposed_ok(d, a));
  return apart(d, "weights", a->weights, (int64_t)a->M * a->top_k, "logits", a->logits, (int64_t)a->M * a->E, false);
}

static sl_status check_rope(const door *d, const sl_rope_args *a) {
  SL_TRY(at_least(d, "M", a->M, 0));
  SL_TRY(at_least(d, "n_heads", a->n_heads, 1));
  SL_TRY(at_least(d, "head_dim", a->head_dim, 2));
  if (a->head_dim % 2) return wrong(d, "head_dim", a->head_dim, "an even number");
  if (a->M == 0) return SL_OK;
  SL_TRY(present(d, "x", a->x));
  SL_TRY(present(d, "inv_freq", a->inv_freq));
  return in_range(d, "positions", a->positions, a->M, INT32_MAX);
}

static sl_status segment_ok(const door *d, const sl_segment *s, int next_row, int n_kv_heads, int head_dim) {
  SL_TRY(equal(d, "segment's first_row", s->first_row, "the end of the segment before", next_row));
  SL_TRY(at_least(d, "segment's n_rows", s->n_rows, 1));
  SL_TRY(at_least(d, "segment's first_pos", s->first_pos, 0));
  if (s->first_pos > INT32_MAX - s->n_rows) return wrong(d, "segment's first_pos", s->first_pos, "less");
  SL_TRY(equal(d, "cache's n_kv_heads", s->kv.n_kv_heads, "n_kv_heads", n_kv_heads));
  SL_TRY(equal(d, "cache's head_dim", s->kv.head_dim, "head_dim", head_dim));
  SL_TRY(at_least(d, "cache's capacity", s->kv.capacity, 1));
  if (s->kv.capacity % SL_KV_BLOCK) return wrong(d, "cache's capacity", s->kv.capacity, "a multiple of SL_KV_BLOCK");
  if (s->kv.dtype != SL_F16 && s->kv.dtype != SL_F32)
    return sl_fail(d->err, SL_ERR_ARGUMENT, "%s: cache's dtype: found %s, expected F16 or F32", d->op,
                   sl_dtype_name(s->kv.dtype));
  SL_TRY(present(d, "cache's k", s->kv.k));
  return present(d, "cache's v", s->kv.v);
}

/* The segments cover rows 0 .. M-1, one behind the other. */
static sl_status segments_ok(const door *d, const sl_segment *segments, int n, int M, int n_kv_heads, int head_dim) {
  int next_row = 0;
  SL_TRY(at_least(d, "n_segments", n, 0));
  if (n > 0) SL_TRY(present(d, "segments", segments));
  for (int i = 0; i < n; i++) {
    SL_TRY(segment_ok(d, &segments[i], next_row, n_kv_heads, head_dim));
    if (segments[i].n_rows > M - next_row) return wrong(d, "segment's n_rows", segments[i].n_rows, "rows within M");
    next_row += segments[i].n_rows;
  }
  return equal(d, "end of the segments", next_row, "M", M);
}

static sl_status check_kv_write(const door *d, const sl_kv_write_args *a) {
  SL_TRY(at_least(d, "M", a->M, 0));
  if (a->M == 0) return SL_OK;
  SL_TRY(present(d, "k", a->k));
  SL_TRY(present(d, "v", a->v));
  SL_TRY(at_least(d, "n_segments", a->n_segments, 1));
  SL_TRY(present(d, "segments", a->segments));
  const sl_kv *kv = &a->segments[0].kv;
  SL_TRY(at_least(d, "cache's n_kv_heads", kv->n_kv_heads, 1));
  SL_TRY(at_least(d, "cache's head_dim", kv->head_dim, 1));
  SL_TRY(segments_ok(d, a->segments, a->n_segments, a->M, kv->n_kv_heads, kv->head_dim));
  for (int i = 0; i < a->n_segments; i++)
    SL_TRY(at_least(d, "cache's capacity", a->segments[i].kv.capacity, a->segments[i].n_rows));
  return SL_OK;
}

/* Every key that a row of the segment looks at must still lie in the ring when the last row has been written. */
static sl_status reach_ok(const door *d, const sl_segment *s, int window) {
  long long end = (long long)s->first_pos + s->n_rows, ring = (long long)window + s->n_rows - 1;
  if (end <= s->kv.capacity) return SL_OK;
  return at_least(d, "cache's capacity", s->kv.capacity, window > 0 && ring < end ? ring : end);
}

static sl_status check_attention(const door *d, const sl_attention_args *a) {
  SL_TRY(at_least(d, "M", a->M, 0));
  SL_TRY(at_least(d, "n_kv_heads", a->n_kv_heads, 1));
  SL_TRY(at_least(d, "n_heads", a->n_heads, 1));
  if (a->n_heads % a->n_kv_heads) return wrong(d, "n_heads", a->n_heads, "a multiple of n_kv_heads");
  SL_TRY(at_least(d, "head_dim", a->head_dim, 1));
  SL_TRY(at_least(d, "window", a->window, 0));
  if (a->M == 0) return SL_OK;
  SL_TRY(present(d, "out", a->out));
  SL_TRY(present(d, "q", a->q));
  SL_TRY(segments_ok(d, a->segments, a->n_segments, a->M, a->n_kv_heads, a->head_dim));
  for (int i = 0; i < a->n_segments; i++) SL_TRY(reach_ok(d, &a->segments[i], a->window));
  int64_t n = (int64_t)a->M * a->n_heads * a->head_dim;
  return apart(d, "out", a->out, n, "q", a->q, n, false);
}

static sl_status check_softcap(const door *d, const sl_softcap_args *a) {
  SL_TRY(rows_ok(d, a->M, a->H, a->out, a->x, "x"));
  if (a->cap > 0.0f && isfinite(a->cap)) return SL_OK;
  return sl_fail(d->err, SL_ERR_ARGUMENT, "%s: cap: found %g, expected a finite number above 0", d->op, (double)a->cap);
}

static sl_status check_argmax(const door *d, const sl_argmax_args *a) {
  SL_TRY(at_least(d, "M", a->M, 0));
  SL_TRY(at_least(d, "H", a->H, 1));
  if (a->M == 0) return SL_OK;
  SL_TRY(present(d, "out", a->out));
  return present(d, "x", a->x);
}

static sl_status check_add(const door *d, const sl_add_args *a) {
  SL_TRY(rows_ok(d, a->M, a->H, a->out, a->a, "a"));
  return rows_ok(d, a->M, a->H, a->out, a->b, "b");
}

sl_status sl_op_check(sl_op op, const sl_op_args *args, sl_error *err) {
  const door d = {sl_op_name(op), err};
  SL_TRY(present(&d, "args", args));
  switch (op) {
  case SL_OP_EMBED_ROWS:
    return check_embed_rows(&d, &args->embed_rows);
  case SL_OP_MATMUL_BT:
    return check_matmul_bt(&d, &args->matmul_bt);
  case SL_OP_DEQUANT_ROWS:
    return check_dequant_rows(&d, &args->dequant_rows);
  case SL_OP_GATHER_ROWS:
    return check_gather_rows(&d, &args->gather_rows);
  case SL_OP_SCATTER_ADD_ROWS:
    return check_scatter_add_rows(&d, &args->scatter_add_rows);
  case SL_OP_FILL_ZERO:
    return check_fill_zero(&d, &args->fill_zero);
  case SL_OP_RMS_NORM:
    return check_rms_norm(&d, &args->rms_norm, false);
  case SL_OP_RMS_NORM_ADD:
    return check_rms_norm(&d, &args->rms_norm, true);
  case SL_OP_DUAL_RMS_NORM_ADD:
    return check_dual_rms_norm_add(&d, &args->dual_rms_norm_add);
  case SL_OP_GEGLU:
  case SL_OP_SWIGLU:
    return check_glu(&d, &args->glu);
  case SL_OP_EXPERT_FFN:
    return check_expert_ffn(&d, &args->expert_ffn);
  case SL_OP_ROUTE_TOPK:
    return check_route_topk(&d, &args->route_topk);
  case SL_OP_ROPE:
    return check_rope(&d, &args->rope);
  case SL_OP_KV_WRITE:
    return check_kv_write(&d, &args->kv_write);
  case SL_OP_ATTENTION:
    return check_attention(&d, &args->attention);
  case SL_OP_SOFTCAP:
    return check_softcap(&d, &args->softcap);
  case SL_OP_ARGMAX:
    return check_argmax(&d, &args->argmax);
  case SL_OP_ADD:
    return check_add(&d, &args->add);
  case SL_OP_SCALE:
    return rows_ok(&d, args->scale.M, args->scale.H, args->scale.out, args->scale.x, "x");
  case SL_N_OPS:
    break;
  }
  return wrong(&d, "op", op, "one of sl_op");
}
