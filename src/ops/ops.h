/* The operations that every backend has: names, signatures, arguments, checks.
 *
 * Rules of the house.  All arrays are row-major; M is the number of tokens (rows) in this call.  Activations are f32
 * and every sum is f32 (a fast kernel may carry more).  Weights come in any dtype of tensor/dtype.h, exactly as
 * stored.  Every output element is summed in one fixed order that depends on the operation's shape and on the token's
 * role, never on M, on the number of threads or on the other rows.  A kernel writes every output element or fails;
 * NaN never turns into a number.  Outputs do not overlap inputs unless the comment says so.
 *
 * Small vectors (norm weights, router scales) are f32: they are expanded once when a model is opened. */
#ifndef SL_OPS_OPS_H
#define SL_OPS_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "tensor/weight.h"

typedef enum sl_op {
  SL_OP_EMBED_ROWS,
  SL_OP_MATMUL_BT,
  SL_OP_DEQUANT_ROWS,
  SL_OP_GATHER_ROWS,
  SL_OP_SCATTER_ADD_ROWS,
  SL_OP_FILL_ZERO,
  SL_OP_RMS_NORM,
  SL_OP_RMS_NORM_ADD,
  SL_OP_DUAL_RMS_NORM_ADD,
  SL_OP_GEGLU,
  SL_OP_SWIGLU,
  SL_OP_EXPERT_FFN,
  SL_OP_ROUTE_TOPK,
  SL_OP_ROPE,
  SL_OP_KV_WRITE,
  SL_OP_ATTENTION,
  SL_OP_SOFTCAP,
  SL_OP_ARGMAX,
  SL_OP_ADD,
  SL_OP_SCALE,
  SL_N_OPS
} sl_op;

const char *sl_op_name(sl_op op); /* "matmul_bt" */
/* Whether the operation reads a weight (or the KV cache) whose dtype chooses the kernel; else its signature says F32.
 */
bool sl_op_has_dtype(sl_op op);

/* Part of a prompt, or generated.  It chooses the arithmetic (see docs/DESIGN.md, "Two roles"). */
typedef enum sl_role { SL_PROMPT, SL_GENERATED, SL_N_ROLES } sl_role;
/* exact: matmul inputs keep at least 16 bits of mantissa; fast: rounded once to bf16. */
typedef enum sl_math { SL_EXACT, SL_FAST } sl_math;
typedef enum sl_activation { SL_GELU_TANH, SL_SILU } sl_activation;

/* What a kernel is chosen by.  Fields that an operation does not use are 0. */
typedef struct sl_op_sig {
  sl_op op;
  sl_role role;
  sl_math math;
  sl_dtype dtype;       /* of the weight, or of the KV cache; SL_F32 if the operation has neither */
  bool has_scale;       /* the weight has row multipliers */
  sl_dtype scale_dtype; /* of these */
  int N, K;             /* of the weight; for attention N = query heads * head_dim, K = head_dim; else K = row width */
  int top_k;            /* route_topk, expert_ffn; for expert_ffn N = I (expert width), K = H */
  int group;            /* attention: query heads per KV head */
} sl_op_sig;

/* out[m,:] = scale * table[ids[m],:].  ids: [M] in [0, table.N).  out: [M, table.K] f32. */
typedef struct sl_embed_rows_args {
  float *out;
  const int32_t *ids;
  const sl_weight *table;
  float scale;
  int M;
} sl_embed_rows_args;

/* out[m,n] = alpha * sum_k A[m,k] * W[n,k] + beta * out[m,n], W[n,k] = B.scale[n] * B.data[n,k].
 * A: rows of K floats, lda floats apart; out: rows of N floats, ldo apart.  out is not read when beta is 0; K = 0
 * scales out by beta. */
typedef struct sl_matmul_bt_args {
  float *out;
  const float *A;
  const sl_weight *B;
  float alpha, beta;
  int M;
  int64_t lda, ldo;
} sl_matmul_bt_args;

/* out[n,:] = scale[first + n] * W[first + n,:], rows first .. first+n_rows-1, rounded to f32; or that, rounded to bf16.
 * out: [n_rows,K] of out_dtype (SL_F32 or SL_BF16). */
typedef struct sl_dequant_rows_args {
  void *out;
  sl_dtype out_dtype;
  const sl_weight *W;
  int first, n_rows;
} sl_dequant_rows_args;

/* out[i,:] = in[ids[i],:], i < M.  in: [n_in,H]; ids in [0, n_in). */
typedef struct sl_gather_rows_args {
  float *out;
  const float *in;
  const int32_t *ids;
  int M, H, n_in;
} sl_gather_rows_args;

/* acc[ids[i],:] += weights[i] * in[i,:] for i = 0 .. M-1 in that order.  acc: [n_acc,H]; ids in [0, n_acc), may
 * repeat. */
typedef struct sl_scatter_add_rows_args {
  float *acc;
  const float *in;
  const int32_t *ids;
  const float *weights;
  int M, H, n_acc;
} sl_scatter_add_rows_args;

/* out[m,:] = 0.  out: [M,H]. */
typedef struct sl_fill_zero_args {
  float *out;
  int M, H;
} sl_fill_zero_args;

/* rms(x)[m,i] = x[m,i] / sqrt(mean_i(x[m]^2) + eps).  x, out: [M,H]; w: [H] or NULL for ones.
 * rms_norm:      out = rms(x) * w           out may be x
 * rms_norm_add:  out = rms(x) * w + residual  out may be x or residual (same strides) */
typedef struct sl_rms_norm_args {
  float *out;
  const float *x;
  const float *w;
  const float *residual; /* rms_norm_add only: [M,H] */
  float eps;
  int M, H;
} sl_rms_norm_args;

/* out = rms(rms(x1)*w1 + rms(x2)*w2) * w3 + residual; all [M,H], w: [H]; out may be any of the inputs. */
typedef struct sl_dual_rms_norm_add_args {
  float *out;
  const float *x1, *x2, *residual;
  const float *w1, *w2, *w3;
  float eps;
  int M, H;
} sl_dual_rms_norm_add_args;

/* out[m,i] = act(gate[m,i]) * up[m,i].  geglu: 0.5x(1+tanh(sqrt(2/pi)(x+0.044715x^3))); swiglu: x*sigmoid(x).
 * Rows of I floats, ldg, ldu, ldo floats apart; out may be gate (same stride). */
typedef struct sl_glu_args {
  float *out;
  const float *gate, *up;
  int M, I;
  int64_t ldg, ldu, ldo;
} sl_glu_args;

/* out[m,:] = sum_j weights[m,j] * down_e( act(gate_e x[m]) * (up_e x[m]) ), e = ids[m,j], summed in the order of j.
 * x, out: [M,H]; ids, weights: [M,top_k]; experts: [n_experts], only the entries named in ids are read.
 * act is gelu_tanh or silu.  The product act*up is rounded just as the matmul_bt of the same role and math rounds
 * its input. */
typedef struct sl_expert_ffn_args {
  float *out;
  const float *x;
  const int32_t *ids;
  const float *weights;
  const sl_expert *experts;
  sl_activation act;
  int M, H, I, top_k, n_experts;
} sl_expert_ffn_args;

/* p = softmax(logits[m]) in f32 over all E; the top_k largest by descending logit (p has the same order, but rounding
 * makes ties of its own), the lowest id first among equals;
 * weights = p, divided by their sum if `renormalize`, then times per_expert_scale[id] (NULL: ones).
 * A row with a NaN gets NaN weights and some distinct ids in range.
 * imposed: [M,top_k] ids to take instead of the largest (distinct in a row), or NULL.  ids: [M,top_k] i32 out; weights:
 * [M,top_k] out. */
typedef struct sl_route_topk_args {
  int32_t *ids;
  float *weights;
  const float *logits;
  const float *per_expert_scale;
  const int32_t *imposed;
  bool renormalize;
  int M, E, top_k;
} sl_route_topk_args;

/* Rotary embedding of half-split pairs, in place: for i < head_dim/2, a = (float)positions[m] * inv_freq[i],
 * (x[i], x[i+d/2]) = (x[i] cos a - x[i+d/2] sin a, x[i+d/2] cos a + x[i] sin a).
 * x: [M, n_heads*head_dim]; inv_freq: [head_dim/2] (0 where a pair does not turn); positions: [M]. */
typedef struct sl_rope_args {
  float *x;
  const int32_t *positions;
  const float *inv_freq;
  int M, n_heads, head_dim;
} sl_rope_args;

/* Keys are summed in blocks that begin at absolute positions that are multiples of this, so that neither the prompt
 * chunk nor the ring's size moves a block border.  Capacities are multiples of it too. */
#define SL_KV_BLOCK 64

/* One layer's keys and values of one session.  k, v: [n_kv_heads][capacity][head_dim] of dtype F16 or F32; position p
 * lies in slot p % capacity.  A ring for sliding layers, where capacity >= window + rows of a step - 1. */
typedef struct sl_kv {
  void *k, *v;
  sl_dtype dtype;
  int n_kv_heads, head_dim, capacity;
} sl_kv;

/* Rows first_row .. first_row+n_rows-1 of a step belong to one session, at positions first_pos, first_pos+1, ...
 * A step's segments cover its rows 0 .. M-1 one behind the other. */
typedef struct sl_segment {
  sl_kv kv;
  int first_row, n_rows, first_pos;
} sl_segment;

/* Stores k and v (f32, [M, n_kv_heads*head_dim]) into the segments' caches, rounded to the cache's dtype. */
typedef struct sl_kv_write_args {
  const float *k, *v;
  const sl_segment *segments;
  int n_segments;
  int M;
} sl_kv_write_args;

/* out[m,h] = softmax_j( scale * q[m,h] . k[j,h/group] ) v[j,h/group] over positions j with pos-window < j <= pos
 * (window 0: 0 <= j <= pos), read from the cache, which already holds this step's keys.
 * q, out: [M, n_heads*head_dim].  n_heads is a multiple of n_kv_heads. */
typedef struct sl_attention_args {
  float *out;
  const float *q;
  const sl_segment *segments;
  int n_segments;
  float scale;
  int M, n_heads, n_kv_heads, head_dim, window;
} sl_attention_args;

/* out[m,i] = cap * tanh(x[m,i] / cap).  out may be x. */
typedef struct sl_softcap_args {
  float *out;
  const float *x;
  float cap;
  int M, H;
} sl_softcap_args;

/* out[m] = index of the largest x[m,:], the lowest among equals; a NaN counts as the largest. */
typedef struct sl_argmax_args {
  int32_t *out;
  const float *x;
  int M, H;
} sl_argmax_args;

/* out = a + b.  [M,H]; out may be a or b. */
typedef struct sl_add_args {
  float *out;
  const float *a, *b;
  int M, H;
} sl_add_args;

/* out = factor * x.  [M,H]; out may be x. */
typedef struct sl_scale_args {
  float *out;
  const float *x;
  float factor;
  int M, H;
} sl_scale_args;

typedef union sl_op_args {
  sl_embed_rows_args embed_rows;
  sl_matmul_bt_args matmul_bt;
  sl_dequant_rows_args dequant_rows;
  sl_gather_rows_args gather_rows;
  sl_scatter_add_rows_args scatter_add_rows;
  sl_fill_zero_args fill_zero;
  sl_rms_norm_args rms_norm; /* and rms_norm_add */
  sl_dual_rms_norm_add_args dual_rms_norm_add;
  sl_glu_args glu; /* geglu and swiglu */
  sl_expert_ffn_args expert_ffn;
  sl_route_topk_args route_topk;
  sl_rope_args rope;
  sl_kv_write_args kv_write;
  sl_attention_args attention;
  sl_softcap_args softcap;
  sl_argmax_args argmax;
  sl_add_args add;
  sl_scale_args scale;
} sl_op_args;

/* Checks shapes, pointers and ids of the arguments against the rules above; the sentence names op, field, found and
 * expected.  Kernels may rely on it: it is the door, the loops inside are plain. */
sl_status sl_op_check(sl_op op, const sl_op_args *args, sl_error *err);

#endif
