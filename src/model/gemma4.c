/* Gemma 4, text: the MoE models (26B-A4B), the dense ones (31B, 12B), and the small ones with per-layer embeddings
 * and shared keys and values (E2B, E4B).
 *
 * Facts that are easy to get wrong, each checked by the goldens: norm weights are used as stored (Gemma 3 adds one);
 * the router and the experts' norm both read the raw residual; attention has scale 1; the values of k=v layers are
 * the key projection before its norm and without RoPE; layer_scalar scales the whole stream.
 * Source of the formulas: transformers, models/gemma4. */
#include <math.h>

#include "model/model.h"

static int attention(sl_builder *b, const sl_model_config *c, int l, int a, int *layer_kv) {
  const sl_layer_config *lc = &c->layers[l];
  int hd = lc->head_dim;
  int q = sl_b_matmul(b, a, "self_attn.q_proj", c->n_heads * hd, 1.0f);
  q = sl_b_rms_norm(b, q, "self_attn.q_norm", c->n_heads, NULL);
  sl_b_rope(b, q, c->n_heads, hd, lc->rope, "self_attn.q_rope");
  if (lc->kv_source == l) {
    int n_kv = lc->n_kv_heads;
    int k = sl_b_matmul(b, a, "self_attn.k_proj", n_kv * hd, 1.0f);
    int v = lc->v_from_k ? k : sl_b_matmul(b, a, "self_attn.v_proj", n_kv * hd, 1.0f);
    v = sl_b_rms_norm(b, v, NULL, n_kv, "self_attn.v_norm");
    k = sl_b_rms_norm(b, k, "self_attn.k_norm", n_kv, NULL);
    sl_b_rope(b, k, n_kv, hd, lc->rope, "self_attn.k_rope");
    layer_kv[l] = sl_b_kv_write(b, k, v, n_kv, hd, lc->is_sliding ? c->window : 0);
  } else { /* uses an earlier layer's; checkpoints may still hold tensors for its own */
    layer_kv[l] = layer_kv[lc->kv_source];
    sl_b_ignore(b, "self_attn.k_proj");
    sl_b_ignore(b, "self_attn.v_proj");
    sl_b_ignore(b, "self_attn.k_norm");
  }
  int o = sl_b_attention(b, q, layer_kv[l], c->n_heads, 1.0f);
  return sl_b_matmul(b, o, "self_attn.o_proj", c->hidden, 1.0f);
}

static int dense_mlp(sl_builder *b, const sl_model_config *c, int I, int x) {
  int gate = sl_b_matmul(b, x, "mlp.gate_proj", I, 1.0f);
  int up = sl_b_matmul(b, x, "mlp.up_proj", I, 1.0f);
  int middle = sl_b_geglu(b, gate, up, 0, "mlp.act");
  return sl_b_matmul(b, middle, "mlp.down_proj", c->hidden, 1.0f);
}

static int experts(sl_builder *b, const sl_model_config *c, int r) {
  int ids, weights;
  int u = sl_b_router_norm(b, r, "router.scale", (float)(1.0 / sqrt((double)c->hidden)));
  int logits = sl_b_matmul(b, u, "router.proj", c->n_experts, 1.0f);
  sl_b_mark_exact(b);
  sl_b_route(b, logits, c->top_k, "router.per_expert_scale", &ids, &weights);
  int x = sl_b_rms_norm(b, r, "pre_feedforward_layernorm_2", 1, NULL);
  return sl_b_experts(b, x, ids, weights, c->n_experts, c->moe_intermediate, c->top_k, c->activation);
}

static int layer(sl_builder *b, const sl_model_config *c, int l, int x, int ple, int *layer_kv) {
  const sl_layer_config *lc = &c->layers[l];
  b->layer = l;
  int a = sl_b_rms_norm(b, x, "input_layernorm", 1, NULL);
  int o = attention(b, c, l, a, layer_kv);
  int r = sl_b_rms_norm_add(b, o, "post_attention_layernorm", x);

  int m = sl_b_rms_norm(b, r, "pre_feedforward_layernorm", 1, NULL);
  m = dense_mlp(b, c, lc->intermediate, m);
  if (lc->is_moe) {
    int e = experts(b, c, r);
    x = sl_b_dual_rms_norm_add(b, m, "post_feedforward_layernorm_1", e, "post_feedforward_layernorm_2",
                               "post_feedforward_layernorm", r, "post_feedforward_layernorms");
  } else {
    x = sl_b_rms_norm_add(b, m, "post_feedforward_layernorm", r);
  }

  if (c->ple_width) {
    int g = sl_b_matmul(b, x, "per_layer_input_gate", c->ple_width, 1.0f);
    g = sl_b_geglu(b, g, ple, l * c->ple_width, "per_layer_act");
    g = sl_b_matmul(b, g, "per_layer_projection", c->hidden, 1.0f);
    x = sl_b_rms_norm_add(b, g, "post_per_layer_input_norm", x);
  }
  x = sl_b_scale_by(b, x, "layer_scalar");
  sl_b_mark_hidden(b);
  return x;
}

/* What every layer adds from its own embedding of the token: [layers * ple_width] numbers a token. */
static int per_layer_embeddings(sl_builder *b, const sl_model_config *c, int x) {
  int total = c->n_layers * c->ple_width;
  int tokens = sl_b_embed(b, "embed_tokens_per_layer", c->ple_vocab, total, c->ple_scale);
  int projected = sl_b_matmul(b, x, "per_layer_model_projection", total, (float)(1.0 / sqrt((double)c->hidden)));
  projected = sl_b_rms_norm(b, projected, "per_layer_projection_norm", c->n_layers, NULL);
  return sl_b_scale(b, sl_b_add(b, tokens, projected, "per_layer_sum"), (float)M_SQRT1_2, "per_layer_scale");
}

void sl_gemma4_program(sl_builder *b, const sl_model_config *c) {
  int layer_kv[SL_MAX_LAYERS];
  int x = sl_b_embed(b, "embed_tokens", c->vocab, c->hidden, c->embed_scale);
  sl_b_mark_hidden(b);
  int ple = c->ple_width ? per_layer_embeddings(b, c, x) : SL_NONE;
  for (int l = 0; l < c->n_layers; l++) x = layer(b, c, l, x, ple, layer_kv);

  x = sl_b_begin_head(b, x);
  x = sl_b_rms_norm(b, x, "norm", 1, NULL);
  x = sl_b_head(b, x, c->vocab, c->is_tied);
  if (c->softcap > 0) x = sl_b_softcap(b, x, (float)c->softcap);
  b->program->logits = x;
}
