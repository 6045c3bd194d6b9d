/* Gemma 4's text config: defaults and rules of transformers' models/gemma4 and models/gemma4_unified. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "model/config_read.h"

static bool is_unified(const sl_config_reader *r) { return strcmp(r->text_type, "gemma4_unified_text") == 0; }

/* "vision" lets image tokens see each other; text is causal all the same. */
static sl_status check_attention(const sl_config_reader *r) {
  const char *key = "use_bidirectional_attention";
  const json_t *value = json_object_get(r->text, key);
  if (!value || json_is_null(value)) return SL_OK;
  if (json_is_string(value) && strcmp(json_string_value(value), "vision") == 0) return SL_OK;
  return sl_config_wrong(r->text, r->where, key, SL_ERR_UNSUPPORTED, "null or \"vision\"", r->err);
}

/* The widths of full layers: named by *global* keys, unless there is a per_layer_config, which then says it all. */
static sl_status take_global_widths(const sl_config_reader *r, bool k_eq_v) {
  sl_model_config *c = r->out;
  int head_dim = 512, n_kv_heads = 0;
  SL_TRY(sl_config_int(r, "global_head_dim", 512, 2, SL_MAX_HEAD_DIM, &head_dim));
  if (sl_config_has(r, "num_global_key_value_heads"))
    SL_TRY(sl_config_int(r, "num_global_key_value_heads", 0, 1, SL_MAX_HEADS, &n_kv_heads));
  for (int l = 0; l < c->n_layers; l++) {
    if (c->layers[l].is_sliding) continue;
    c->layers[l].head_dim = head_dim;
    if (k_eq_v && n_kv_heads) c->layers[l].n_kv_heads = n_kv_heads; /* without k=v the key has no effect */
  }
  return SL_OK;
}

/* A layer key is a number, padded with zeros to the widest: "05", or "5" in a small model.  -1 for anything else. */
static int layer_key(const char *key) {
  int l = 0;
  if (!key[0] || strlen(key) > 6) return -1;
  for (; *key; key++) {
    if (*key < '0' || *key > '9') return -1;
    l = 10 * l + (*key - '0');
  }
  return l;
}

static sl_status take_override(const sl_config_reader *r, sl_layer_config *layer, const json_t *overrides, int l) {
  char where[128];
  snprintf(where, sizeof where, "%s: per_layer_config: layer %d", r->where, l);
  const char *key;
  json_t *value;
  if (!json_is_object(overrides)) return sl_fail(r->err, SL_ERR_FORMAT, "%s: no JSON object", where);
  json_object_foreach((json_t *)overrides, key, value) {
    long long found = 0;
    if (strcmp(key, "head_dim") == 0) {
      SL_TRY(sl_json_int(overrides, key, where, true, 2, SL_MAX_HEAD_DIM, &found, r->err));
      layer->head_dim = (int)found;
    } else if (strcmp(key, "num_key_value_heads") == 0) {
      SL_TRY(sl_json_int(overrides, key, where, true, 1, SL_MAX_HEADS, &found, r->err));
      layer->n_kv_heads = (int)found;
    } else if (strcmp(key, "intermediate_size") == 0) {
      SL_TRY(sl_json_int(overrides, key, where, true, 1, SL_MAX_WIDTH, &found, r->err));
      layer->intermediate = (int)found;
    } else if (strcmp(key, "skip") != 0 || !json_is_array(value) || json_array_size(value) != 0) {
      return sl_fail(r->err, SL_ERR_UNSUPPORTED,
                     "%s: a field that sluice does not know, expected head_dim, num_key_value_heads or "
                     "intermediate_size",
                     where);
    }
  }
  return SL_OK;
}

static sl_status take_per_layer_config(const sl_config_reader *r, const json_t *all) {
  sl_model_config *c = r->out;
  bool seen[SL_MAX_LAYERS] = {false};
  const char *key;
  json_t *value;
  if (!json_is_object(all))
    return sl_config_wrong(r->text, r->where, "per_layer_config", SL_ERR_FORMAT, "an object", r->err);
  json_object_foreach((json_t *)all, key, value) {
    int l = layer_key(key);
    if (l < 0 || l >= c->n_layers || seen[l]) {
      return sl_fail(r->err, SL_ERR_FORMAT, "%s: per_layer_config: a key is %s, expected numbers from 0 to %d",
                     r->where, l >= 0 && l < c->n_layers ? "a layer named twice" : "no layer of this model",
                     c->n_layers - 1);
    }
    seen[l] = true;
    SL_TRY(take_override(r, &c->layers[l], value, l));
  }
  return SL_OK;
}

/* transformers makes the last layer a full one, whatever the config says. */
static sl_status force_last_full(const sl_config_reader *r) {
  sl_model_config *c = r->out;
  sl_layer_config *last = &c->layers[c->n_layers - 1];
  if (!last->is_sliding) return SL_OK;
  last->is_sliding = false;
  last->rope = SL_ROPE_OF_FULL;
  return sl_config_note(c, r->err, "%s: the last layer attends to everything, although layer_types says it slides",
                        r->where);
}

/* RoPE tables are made per kind of layer, so a kind has one head_dim. */
static sl_status check_widths(const sl_config_reader *r) {
  const sl_model_config *c = r->out;
  for (int l = 0; l < c->n_layers; l++) {
    const sl_layer_config *layer = &c->layers[l];
    if (layer->head_dim % 2 != 0) {
      return sl_fail(r->err, SL_ERR_FORMAT, "%s: layer %d has head_dim %d, expected an even number", r->where, l,
                     layer->head_dim);
    }
    if (c->n_heads % layer->n_kv_heads != 0) {
      return sl_fail(r->err, SL_ERR_FORMAT, "%s: layer %d has %d key-value heads, expected a divisor of its %d heads",
                     r->where, l, layer->n_kv_heads, c->n_heads);
    }
    for (int k = 0; k < l; k++) {
      if (c->layers[k].is_sliding != layer->is_sliding) continue;
      if (c->layers[k].head_dim == layer->head_dim) break;
      return sl_fail(r->err, SL_ERR_UNSUPPORTED, "%s: layers %d and %d are of one kind but have head_dim %d and %d",
                     r->where, k, l, c->layers[k].head_dim, layer->head_dim);
    }
  }
  return SL_OK;
}

/* The last layers compute no keys and values: each uses those of the last layer before them of its own kind. */
static sl_status share_kv(const sl_config_reader *r, bool is_double_wide) {
  sl_model_config *c = r->out;
  int n_shared = 0;
  SL_TRY(sl_config_int(r, "num_kv_shared_layers", 0, 0, c->n_layers - 1, &n_shared));
  int first = c->n_layers - n_shared;
  for (int l = first; l < c->n_layers; l++) {
    sl_layer_config *layer = &c->layers[l];
    int source = first - 1;
    while (source >= 0 && c->layers[source].is_sliding != layer->is_sliding) source--;
    if (source < 0) {
      return sl_fail(r->err, SL_ERR_FORMAT,
                     "%s: num_kv_shared_layers %d: no %s layer below %d whose keys layer %d can use", r->where,
                     n_shared, layer->is_sliding ? "sliding" : "full", first, l);
    }
    if (c->layers[source].n_kv_heads != layer->n_kv_heads) {
      return sl_fail(r->err, SL_ERR_FORMAT,
                     "%s: layer %d has %d key-value heads, but the layer %d it shares with has %d", r->where, l,
                     layer->n_kv_heads, source, c->layers[source].n_kv_heads);
    }
    layer->kv_source = source;
    layer->v_from_k = c->layers[source].v_from_k;
    if (!is_double_wide) continue;
    if (layer->intermediate > SL_MAX_WIDTH / 2) {
      return sl_fail(r->err, SL_ERR_FORMAT, "%s: layer %d: intermediate_size %d doubled, expected at most %d", r->where,
                     l, layer->intermediate, SL_MAX_WIDTH);
    }
    layer->intermediate *= 2;
  }
  return SL_OK;
}

static sl_status take_experts(const sl_config_reader *r) {
  sl_model_config *c = r->out;
  bool is_moe = false;
  SL_TRY(sl_config_bool(r, "enable_moe_block", false, &is_moe));
  if (!is_moe) return SL_OK;
  if (is_unified(r)) {
    return sl_config_wrong(r->text, r->where, "enable_moe_block", SL_ERR_UNSUPPORTED, "false in gemma4_unified",
                           r->err);
  }
  long long n_experts = 0, top_k = 0, width = 0;
  SL_TRY(sl_json_int(r->text, "num_experts", r->where, true, 1, SL_MAX_EXPERTS, &n_experts, r->err));
  long long most = n_experts < SL_MAX_TOP_K ? n_experts : SL_MAX_TOP_K;
  SL_TRY(sl_json_int(r->text, "top_k_experts", r->where, true, 1, most, &top_k, r->err));
  SL_TRY(sl_json_int(r->text, "moe_intermediate_size", r->where, true, 1, SL_MAX_WIDTH, &width, r->err));
  c->n_experts = (int)n_experts;
  c->top_k = (int)top_k;
  c->moe_intermediate = (int)width;
  for (int l = 0; l < c->n_layers; l++) c->layers[l].is_moe = true;
  return SL_OK;
}

/* gemma4_text has per-layer embeddings unless it says 0; gemma4_unified has none. */
static sl_status take_ple(const sl_config_reader *r) {
  static const char *const PLE[] = {"hidden_size_per_layer_input", NULL};
  sl_model_config *c = r->out;
  if (is_unified(r)) return sl_config_unsupported(r, PLE);
  if (json_is_null(json_object_get(r->text, PLE[0]))) return SL_OK;
  SL_TRY(sl_config_int(r, PLE[0], 256, 0, SL_MAX_PLE, &c->ple_width));
  if (!c->ple_width) return SL_OK;
  SL_TRY(sl_config_int(r, "vocab_size_per_layer_input", 262144, 1, SL_MAX_VOCABULARY, &c->ple_vocab));
  if (c->ple_vocab >= c->vocab) return SL_OK; /* both tables are asked for the same ids */
  return sl_fail(r->err, SL_ERR_FORMAT, "%s: vocab_size_per_layer_input: found %d, expected at least vocab_size (%d)",
                 r->where, c->ple_vocab, c->vocab);
}

static bool has_layer(const sl_model_config *c, bool is_sliding) {
  for (int l = 0; l < c->n_layers; l++) {
    if (c->layers[l].is_sliding == is_sliding) return true;
  }
  return false;
}

/* Old-style keys mean nothing in this family, so a config that has only those means something else. */
static sl_status take_ropes(const sl_config_reader *r) {
  static const char *const OLD[] = {"rope_scaling", "rope_theta", "rope_local_base_freq", NULL};
  static const char *const TYPES[] = {"sliding_attention", "full_attention"};
  sl_rope *ropes = r->out->ropes;
  ropes[SL_ROPE_OF_SLIDING] = (sl_rope){SL_ROPE_DEFAULT, 1e4, 1.0, 1.0};
  ropes[SL_ROPE_OF_FULL] = (sl_rope){SL_ROPE_PROPORTIONAL, 1e6, 1.0, 0.25};
  if (!sl_config_has(r, "rope_parameters")) return sl_config_unsupported(r, OLD);
  for (int i = 0; i < SL_N_ROPES; i++) {
    char where[128];
    const json_t *object = NULL;
    snprintf(where, sizeof where, "%s: rope_parameters: %s", r->where, TYPES[i]);
    SL_TRY(sl_config_rope_parameters(r, TYPES[i], &object));
    ropes[i].theta = 0;
    if (object) {
      SL_TRY(sl_config_rope(object, where, &ropes[i], r->err));
    } else if (has_layer(r->out, i == SL_ROPE_OF_SLIDING)) {
      return sl_fail(r->err, SL_ERR_FORMAT, "%s: nothing there, but the model has such layers", where);
    } else {
      ropes[i] = (sl_rope){SL_ROPE_DEFAULT, 1e4, 1.0, 1.0}; /* nobody uses it */
    }
  }
  return SL_OK;
}

static sl_status take_layers(sl_config_reader *r, const sl_layer_defaults *defaults) {
  sl_model_config *c = r->out;
  bool k_eq_v = false, is_double_wide = false;
  SL_TRY(sl_config_bool(r, "attention_k_eq_v", false, &k_eq_v));
  SL_TRY(sl_config_bool(r, "use_double_wide_mlp", false, &is_double_wide));
  SL_TRY(sl_config_layers(r, 6, defaults));
  SL_TRY(force_last_full(r));
  for (int l = 0; l < c->n_layers; l++) c->layers[l].v_from_k = k_eq_v && !c->layers[l].is_sliding;
  if (sl_config_has(r, "per_layer_config")) {
    SL_TRY(take_per_layer_config(r, json_object_get(r->text, "per_layer_config")));
  } else {
    SL_TRY(take_global_widths(r, k_eq_v));
  }
  SL_TRY(check_widths(r));
  return share_kv(r, is_double_wide);
}

sl_status sl_gemma4_config(sl_config_reader *r) {
  sl_model_config *c = r->out;
  sl_layer_defaults defaults;
  bool unified = is_unified(r);
  SL_TRY(sl_config_common(r, 262144, unified ? 1024 : 512, &defaults));
  SL_TRY(sl_config_int(r, "num_hidden_layers", 30, 1, SL_MAX_LAYERS, &c->n_layers));
  SL_TRY(sl_config_int(r, "max_position_embeddings", unified ? 262144 : 131072, 1, SL_MAX_CTX, &c->max_ctx));
  SL_TRY(check_attention(r));
  c->attention_scale = 1.0f;
  SL_TRY(take_layers(r, &defaults));
  SL_TRY(take_experts(r));
  SL_TRY(take_ple(r));
  return take_ropes(r);
}
