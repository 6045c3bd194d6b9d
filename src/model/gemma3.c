/* Gemma 3, text.
 *
 * The residual layout of Gemma 4's dense models, but: norms multiply by 1 + w, the attention scale comes from
 * query_pre_attn_scalar, values are not normed, all layers have one head size, full layers may scale positions
 * linearly, and there is no layer_scalar.  Source of the formulas: transformers, models/gemma3. */
#include "model/model.h"

static int attention(sl_builder *b, const sl_model_config *c, const sl_layer_config *lc, int a) {
  int hd = lc->head_dim;
  int q = sl_b_matmul(b, a, "self_attn.q_proj", c->n_heads * hd, 1.0f);
  int k = sl_b_matmul(b, a, "self_attn.k_proj", lc->n_kv_heads * hd, 1.0f);
  int v = sl_b_matmul(b, a, "self_attn.v_proj", lc->n_kv_heads * hd, 1.0f);
  q = sl_b_rms_norm(b, q, "self_attn.q_norm", c->n_heads, NULL);
  k = sl_b_rms_norm(b, k, "self_attn.k_norm", lc->n_kv_heads, NULL);
  sl_b_rope(b, q, c->n_heads, hd, lc->rope, "self_attn.q_rope");
  sl_b_rope(b, k, lc->n_kv_heads, hd, lc->rope, "self_attn.k_rope");
  int kv = sl_b_kv_write(b, k, v, lc->n_kv_heads, hd, lc->is_sliding ? c->window : 0);
  int o = sl_b_attention(b, q, kv, c->n_heads, c->attention_scale);
  return sl_b_matmul(b, o, "self_attn.o_proj", c->hidden, 1.0f);
}

static int layer(sl_builder *b, const sl_model_config *c, int l, int x) {
  const sl_layer_config *lc = &c->layers[l];
  b->layer = l;
  int a = sl_b_rms_norm(b, x, "input_layernorm", 1, NULL);
  x = sl_b_rms_norm_add(b, attention(b, c, lc, a), "post_attention_layernorm", x);

  int m = sl_b_rms_norm(b, x, "pre_feedforward_layernorm", 1, NULL);
  int gate = sl_b_matmul(b, m, "mlp.gate_proj", lc->intermediate, 1.0f);
  int up = sl_b_matmul(b, m, "mlp.up_proj", lc->intermediate, 1.0f);
  m = sl_b_matmul(b, sl_b_geglu(b, gate, up, 0, "mlp.act"), "mlp.down_proj", c->hidden, 1.0f);
  x = sl_b_rms_norm_add(b, m, "post_feedforward_layernorm", x);
  sl_b_mark_hidden(b);
  return x;
}

void sl_gemma3_program(sl_builder *b, const sl_model_config *c) {
  int x = sl_b_embed(b, "embed_tokens", c->vocab, c->hidden, c->embed_scale);
  sl_b_mark_hidden(b);
  for (int l = 0; l < c->n_layers; l++) x = layer(b, c, l, x);

  x = sl_b_begin_head(b, x);
  x = sl_b_rms_norm(b, x, "norm", 1, NULL);
  x = sl_b_head(b, x, c->vocab, c->is_tied);
  if (c->softcap > 0) x = sl_b_softcap(b, x, (float)c->softcap);
  b->program->logits = x;
}
