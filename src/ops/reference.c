#include "ops/reference.h"

#include <math.h>
#include <string.h>

#include "ops/reference_parts.h"

static void gather_rows(const sl_gather_rows_args *a, int first, int end) {
  size_t H = (size_t)a->H;
  for (int i = first; i < end; i++) memcpy(a->out + i * H, a->in + a->ids[i] * H, H * sizeof(float));
}

/* Cut by columns: rows may repeat, and each element's sum must run in the order of i. */
static void scatter_add_columns(const sl_scatter_add_rows_args *a, int first, int end) {
  size_t H = (size_t)a->H;
  for (int i = 0; i < a->M; i++) {
    float *acc = a->acc + a->ids[i] * H;
    const float *in = a->in + i * H;
    for (int h = first; h < end; h++) acc[h] = (float)(acc[h] + (double)a->weights[i] * in[h]);
  }
}

static void fill_zero(const sl_fill_zero_args *a, int first, int end) {
  size_t H = (size_t)a->H;
  for (size_t i = first * H; i < end * H; i++) a->out[i] = 0.0f;
}

static void softcap(const sl_softcap_args *a, int first, int end) {
  size_t H = (size_t)a->H;
  for (size_t i = first * H; i < end * H; i++) a->out[i] = (float)(a->cap * tanh((double)a->x[i] / a->cap));
}

static int32_t argmax_row(const float *x, int n) {
  int best = 0;
  for (int i = 0; i < n; i++) {
    if (isnan(x[i])) return i;
    if (x[i] > x[best]) best = i;
  }
  return best;
}

static void argmax(const sl_argmax_args *a, int first, int end) {
  for (int m = first; m < end; m++) a->out[m] = argmax_row(a->x + (size_t)m * (size_t)a->H, a->H);
}

static void add(const sl_add_args *a, int first, int end) {
  size_t H = (size_t)a->H;
  for (size_t i = first * H; i < end * H; i++) a->out[i] = a->a[i] + a->b[i];
}

static void scale(const sl_scale_args *a, int first, int end) {
  size_t H = (size_t)a->H;
  for (size_t i = first * H; i < end * H; i++) a->out[i] = a->factor * a->x[i];
}

void sl_reference_rows(sl_op op, const sl_op_args *args, int first, int end) {
  switch (op) {
  case SL_OP_EMBED_ROWS:
    sl_ref_embed_rows(&args->embed_rows, first, end);
    break;
  case SL_OP_MATMUL_BT:
    sl_ref_matmul_bt(&args->matmul_bt, first, end);
    break;
  case SL_OP_DEQUANT_ROWS:
    sl_ref_dequant_rows(&args->dequant_rows, first, end);
    break;
  case SL_OP_GATHER_ROWS:
    gather_rows(&args->gather_rows, first, end);
    break;
  case SL_OP_SCATTER_ADD_ROWS:
    scatter_add_columns(&args->scatter_add_rows, first, end);
    break;
  case SL_OP_FILL_ZERO:
    fill_zero(&args->fill_zero, first, end);
    break;
  case SL_OP_RMS_NORM:
    sl_ref_rms_norm(&args->rms_norm, first, end);
    break;
  case SL_OP_RMS_NORM_ADD:
    sl_ref_rms_norm_add(&args->rms_norm, first, end);
    break;
  case SL_OP_DUAL_RMS_NORM_ADD:
    sl_ref_dual_rms_norm_add(&args->dual_rms_norm_add, first, end);
    break;
  case SL_OP_GEGLU:
    sl_ref_glu(SL_GELU_TANH, &args->glu, first, end);
    break;
  case SL_OP_SWIGLU:
    sl_ref_glu(SL_SILU, &args->glu, first, end);
    break;
  case SL_OP_EXPERT_FFN:
    sl_ref_expert_ffn(&args->expert_ffn, first, end);
    break;
  case SL_OP_ROUTE_TOPK:
    sl_ref_route_topk(&args->route_topk, first, end);
    break;
  case SL_OP_ROPE:
    sl_ref_rope(&args->rope, first, end);
    break;
  case SL_OP_KV_WRITE:
    sl_ref_kv_write(&args->kv_write, first, end);
    break;
  case SL_OP_ATTENTION:
    sl_ref_attention(&args->attention, first, end);
    break;
  case SL_OP_SOFTCAP:
    softcap(&args->softcap, first, end);
    break;
  case SL_OP_ARGMAX:
    argmax(&args->argmax, first, end);
    break;
  case SL_OP_ADD:
    add(&args->add, first, end);
    break;
  case SL_OP_SCALE:
    scale(&args->scale, first, end);
    break;
  case SL_N_OPS:
    break;
  }
}

int sl_reference_n_rows(sl_op op, const sl_op_args *args) {
  switch (op) {
  case SL_OP_EMBED_ROWS:
    return args->embed_rows.M;
  case SL_OP_MATMUL_BT:
    return args->matmul_bt.M;
  case SL_OP_DEQUANT_ROWS:
    return args->dequant_rows.n_rows;
  case SL_OP_GATHER_ROWS:
    return args->gather_rows.M;
  case SL_OP_SCATTER_ADD_ROWS:
    return args->scatter_add_rows.H;
  case SL_OP_FILL_ZERO:
    return args->fill_zero.M;
  case SL_OP_RMS_NORM:
  case SL_OP_RMS_NORM_ADD:
    return args->rms_norm.M;
  case SL_OP_DUAL_RMS_NORM_ADD:
    return args->dual_rms_norm_add.M;
  case SL_OP_GEGLU:
  case SL_OP_SWIGLU:
    return args->glu.M;
  case SL_OP_EXPERT_FFN:
    return args->expert_ffn.M;
  case SL_OP_ROUTE_TOPK:
    return args->route_topk.M;
  case SL_OP_ROPE:
    return args->rope.M;
  case SL_OP_KV_WRITE:
    return args->kv_write.M;
  case SL_OP_ATTENTION:
    return args->attention.M;
  case SL_OP_SOFTCAP:
    return args->softcap.M;
  case SL_OP_ARGMAX:
    return args->argmax.M;
  case SL_OP_ADD:
    return args->add.M;
  case SL_OP_SCALE:
    return args->scale.M;
  case SL_N_OPS:
    break;
  }
  return 0;
}
