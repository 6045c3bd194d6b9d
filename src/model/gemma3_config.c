/* Gemma 3's text config: defaults and rules of transformers' models/gemma3, with the keys of older files. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "model/config_read.h"

/* Where both are, rope_scaling is laid over what rope_parameters says of full layers; the bare thetas only fill in. */
static sl_status take_rope(const sl_config_reader *r, int i, const char *type, const char *theta_key, double theta) {
  const json_t *given = NULL;
  char where[128];
  snprintf(where, sizeof where, "%s: RoPE of %s", r->where, type);
  SL_TRY(sl_config_rope_parameters(r, type, &given));
  sl_rope *rope = &r->out->ropes[i];
  if (sl_config_has(r, theta_key)) {
    SL_TRY(sl_config_real(r, theta_key, theta, 1.0, 1e18, &theta));
  }
  rope->theta = theta;
  json_t *merged = given ? json_deep_copy(given) : json_object();
  if (!merged) return sl_fail(r->err, SL_ERR_MEMORY, "%s: out of memory", where);
  sl_status status = SL_OK;
  if (i == SL_ROPE_OF_FULL && sl_config_has(r, "rope_scaling")) {
    json_t *scaling = json_object_get(r->text, "rope_scaling");
    if (!json_is_object(scaling) || json_object_update(merged, scaling) != 0)
      status = sl_config_wrong(r->text, r->where, "rope_scaling", SL_ERR_FORMAT, "an object", r->err);
  }
  if (status == SL_OK) status = sl_config_rope(merged, where, rope, r->err);
  json_decref(merged);
  return status;
}

static sl_status take_pattern(const sl_config_reader *r, int *pattern) {
  *pattern = 6;
  if (sl_config_has(r, "layer_types")) return SL_OK;
  return sl_config_int(r, "sliding_window_pattern", 6, 1, SL_MAX_LAYERS, pattern);
}

static sl_status check_widths(const sl_config_reader *r, const sl_layer_defaults *defaults) {
  if (defaults->head_dim % 2 != 0)
    return sl_config_wrong(r->text, r->where, "head_dim", SL_ERR_FORMAT, "an even number", r->err);
  if (r->out->n_heads % defaults->n_kv_heads != 0) {
    return sl_fail(r->err, SL_ERR_FORMAT,
                   "%s: num_key_value_heads: found %d, expected a divisor of num_attention_heads (%d)", r->where,
                   defaults->n_kv_heads, r->out->n_heads);
  }
  return SL_OK;
}

/* Set to anything, these change the arithmetic: text that looks ahead (embedding models), layers of their own. */
static const char *const FOREIGN[] = {"use_bidirectional_attention", "per_layer_config", "enable_moe_block",
                                      "num_kv_shared_layers",        "attention_k_eq_v", NULL};

sl_status sl_gemma3_config(sl_config_reader *r) {
  sl_model_config *c = r->out;
  sl_layer_defaults defaults;
  int pattern = 6;
  double scalar = 256;
  SL_TRY(sl_config_common(r, 262208, 4096, &defaults));
  SL_TRY(sl_config_unsupported(r, FOREIGN));
  SL_TRY(sl_config_int(r, "num_hidden_layers", 26, 1, SL_MAX_LAYERS, &c->n_layers));
  SL_TRY(sl_config_int(r, "max_position_embeddings", 131072, 1, SL_MAX_CTX, &c->max_ctx));
  SL_TRY(sl_config_real(r, "query_pre_attn_scalar", 256, 1e-6, 1e9, &scalar));
  c->attention_scale = (float)(1.0 / sqrt(scalar));
  c->norm_plus_one = true;
  SL_TRY(check_widths(r, &defaults));
  SL_TRY(take_pattern(r, &pattern));
  SL_TRY(sl_config_layers(r, pattern, &defaults));
  SL_TRY(take_rope(r, SL_ROPE_OF_SLIDING, "sliding_attention", "rope_local_base_freq", 1e4));
  return take_rope(r, SL_ROPE_OF_FULL, "full_attention", "rope_theta", 1e6);
}
