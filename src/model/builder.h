/* What a family's file writes its program with.
 *
 * Every function adds one operation and returns the value it makes.  The first failure sticks: later calls do
 * nothing, and the caller looks once at the end (builder->status).  Weight names are relative: inside a layer
 * "self_attn.q_proj" means PREFIX "layers.N.self_attn.q_proj.weight". */
#ifndef SL_MODEL_BUILDER_H
#define SL_MODEL_BUILDER_H

#include "experts/store.h"
#include "model/program.h"

typedef struct sl_builder {
  const sl_checkpoint *checkpoint;
  sl_program *program;
  sl_expert_store *store;
  const char *prefix; /* "model.language_model." or "model." */
  const char *family; /* for sentences */
  int layer;          /* current, or -1 */
  float eps;
  bool quantized;      /* the config declares FP8 with row scales */
  float norm_add;      /* added to every norm weight: 1 for Gemma 3 */
  unsigned char *used; /* [n_tensors]: SL_TENSOR_FREE, SL_TENSOR_USED or SL_TENSOR_IGNORED */
  sl_status status;
  sl_error *err;
} sl_builder;

enum { SL_TENSOR_FREE, SL_TENSOR_USED, SL_TENSOR_IGNORED };

#define SL_NONE (-1)

int sl_b_embed(sl_builder *b, const char *table, int N, int K, float scale);
/* out[N] = alpha * W in.  `name` is the matrix without ".weight"; a scale tensor is found beside it. */
int sl_b_matmul(sl_builder *b, int in, const char *name, int N, float alpha);
/* Logits: with the embedding's matrix if tied, else with lm_head.weight (which has no prefix). */
int sl_b_head(sl_builder *b, int in, int vocab, bool tied);
/* weight NULL: ones.  groups: the row is cut into that many heads, each normed by itself. */
int sl_b_rms_norm(sl_builder *b, int in, const char *weight, int groups, const char *name);
int sl_b_rms_norm_add(sl_builder *b, int in, const char *weight, int residual);
int sl_b_dual_rms_norm_add(sl_builder *b, int x1, const char *w1, int x2, const char *w2, const char *w3, int residual,
                           const char *name);
/* rms(in) * scale * factor, where `scale` is a vector tensor named in full (no ".weight" added). */
int sl_b_router_norm(sl_builder *b, int in, const char *scale, float factor);
/* up: columns up_column .. of that value. */
int sl_b_geglu(sl_builder *b, int gate, int up, int up_column, const char *name);
int sl_b_add(sl_builder *b, int x, int y, const char *name);
int sl_b_scale(sl_builder *b, int x, float factor, const char *name);
/* The factor is a one-element tensor of the checkpoint. */
int sl_b_scale_by(sl_builder *b, int x, const char *tensor);
int sl_b_softcap(sl_builder *b, int x, float cap);
/* In place. */
void sl_b_rope(sl_builder *b, int x, int n_heads, int head_dim, int rope, const char *name);
/* Returns the index of the new KV. */
int sl_b_kv_write(sl_builder *b, int k, int v, int n_kv_heads, int head_dim, int window);
int sl_b_attention(sl_builder *b, int q, int kv, int n_heads, float scale);
/* Router logits to ids and weights: *ids, *weights. */
void sl_b_route(sl_builder *b, int logits, int top_k, const char *per_expert_scale, int *ids, int *weights);
/* Fused tensors experts.gate_up_proj [E,2I,H] and experts.down_proj [E,H,I], or one set for each expert. */
int sl_b_experts(sl_builder *b, int x, int ids, int weights, int n_experts, int I, int top_k, sl_activation act);
/* From here on the program is the head; returns x's rows whose logits are wanted. */
int sl_b_begin_head(sl_builder *b, int x);

/* A tensor that the file may hold and the model knowingly does not use (name relative, ".weight" and scales too). */
void sl_b_ignore(sl_builder *b, const char *name);
/* Marks the last node. */
void sl_b_mark_hidden(sl_builder *b);
void sl_b_mark_exact(sl_builder *b);

/* For all: the first failure. */
void sl_b_fail(sl_builder *b, sl_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
