#include "model/config_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

/* ---- fields ----------------------------------------------------------------------------------------------------- */

/* A JSON value for a sentence: ASCII, cut when long. */
static void show(const json_t *value, char *buffer, size_t size) {
  char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_COMPACT) : NULL;
  snprintf(buffer, size, "%s", text ? text : "nothing");
  if (text && strlen(text) >= size) memcpy(buffer + size - 4, "...", 4);
  free(text);
}

sl_status sl_config_wrong(const json_t *object, const char *where, const char *key, sl_status status,
                          const char *expected, sl_error *err) {
  char found[96];
  show(json_object_get(object, key), found, sizeof found);
  return sl_fail(err, status, "%s: %s: found %s, expected %s", where, key, found, expected);
}

bool sl_config_has(const sl_config_reader *r, const char *key) {
  const json_t *value = json_object_get(r->text, key);
  return value && !json_is_null(value);
}

sl_status sl_config_int(const sl_config_reader *r, const char *key, int fallback, int lowest, int highest, int *value) {
  *value = fallback;
  if (!json_object_get(r->text, key)) return SL_OK;
  long long found = fallback;
  SL_TRY(sl_json_int(r->text, key, r->where, true, lowest, highest, &found, r->err));
  *value = (int)found;
  return SL_OK;
}

sl_status sl_config_real(const sl_config_reader *r, const char *key, double fallback, double lowest, double highest,
                         double *value) {
  *value = fallback;
  if (!json_object_get(r->text, key)) return SL_OK;
  return sl_json_real(r->text, key, r->where, true, lowest, highest, value, r->err);
}

sl_status sl_config_bool(const sl_config_reader *r, const char *key, bool fallback, bool *value) {
  *value = fallback;
  if (!json_object_get(r->text, key)) return SL_OK;
  return sl_json_bool(r->text, key, r->where, true, value, r->err);
}

static bool asks_for_something(const json_t *value) {
  if (!value || json_is_null(value) || json_is_false(value)) return false;
  if (json_is_number(value)) return json_number_value(value) != 0;
  if (json_is_array(value)) return json_array_size(value) != 0;
  if (json_is_object(value)) return json_object_size(value) != 0;
  return true;
}

sl_status sl_config_unsupported(const sl_config_reader *r, const char *const *keys) {
  for (; *keys; keys++) {
    if (!asks_for_something(json_object_get(r->text, *keys))) continue;
    return sl_config_wrong(r->text, r->where, *keys, SL_ERR_UNSUPPORTED, "null or false: sluice does not compute it",
                           r->err);
  }
  return SL_OK;
}

sl_status sl_config_note(sl_model_config *out, sl_error *err, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  char **notes = realloc(out->notes, ((size_t)out->n_notes + 1) * sizeof *notes);
  if (notes) out->notes = notes;
  char *copy = notes ? strdup(text) : NULL;
  if (!copy) return sl_fail(err, SL_ERR_MEMORY, "config.json: out of memory");
  out->notes[out->n_notes++] = copy;
  return SL_OK;
}

/* ---- what the families share ------------------------------------------------------------------------------------ */

/* Set to anything, these would change what a layer computes. */
static const char *const FOREIGN[] = {"attention_bias",         "attention_chunk_size",  "mlp_bias",
                                      "attn_logit_softcapping", "partial_rotary_factor", "activation_sparsity_pattern",
                                      "altup_num_inputs",       "laurel_rank",           "skip",
                                      "embedding_multiplier",   "logits_scaling",        NULL};

static sl_status check_activation(const sl_config_reader *r) {
  const char *key = "hidden_activation", *name = "gelu_pytorch_tanh";
  const json_t *value = json_object_get(r->text, key);
  if (value && !json_is_string(value))
    return sl_config_wrong(r->text, r->where, key, SL_ERR_FORMAT, "\"gelu_pytorch_tanh\"", r->err);
  if (value && strcmp(json_string_value(value), name) != 0)
    return sl_config_wrong(r->text, r->where, key, SL_ERR_UNSUPPORTED, "\"gelu_pytorch_tanh\"", r->err);
  r->out->activation = SL_GELU_TANH;
  return SL_OK;
}

static sl_status check_causal(const sl_config_reader *r) {
  bool is_causal = true;
  SL_TRY(sl_config_bool(r, "is_causal", true, &is_causal));
  if (is_causal) return SL_OK;
  return sl_config_wrong(r->text, r->where, "is_causal", SL_ERR_UNSUPPORTED, "true", r->err);
}

sl_status sl_config_common(sl_config_reader *r, int vocab, int window, sl_layer_defaults *defaults) {
  sl_model_config *c = r->out;
  SL_TRY(sl_config_int(r, "vocab_size", vocab, 1, SL_MAX_VOCABULARY, &c->vocab));
  SL_TRY(sl_config_int(r, "hidden_size", 2304, 1, SL_MAX_HIDDEN, &c->hidden));
  SL_TRY(sl_config_int(r, "intermediate_size", 9216, 1, SL_MAX_WIDTH, &defaults->intermediate));
  SL_TRY(sl_config_int(r, "num_attention_heads", 8, 1, SL_MAX_HEADS, &c->n_heads));
  SL_TRY(sl_config_int(r, "num_key_value_heads", 4, 1, SL_MAX_HEADS, &defaults->n_kv_heads));
  SL_TRY(sl_config_int(r, "head_dim", 256, 2, SL_MAX_HEAD_DIM, &defaults->head_dim));
  SL_TRY(sl_config_int(r, "sliding_window", window, 1, SL_MAX_CTX, &c->window));
  SL_TRY(sl_config_real(r, "rms_norm_eps", 1e-6, 1e-30, 1.0, &c->eps));
  if (sl_config_has(r, "final_logit_softcapping"))
    SL_TRY(sl_config_real(r, "final_logit_softcapping", 0, 1e-6, 1e30, &c->softcap));
  SL_TRY(check_activation(r));
  SL_TRY(check_causal(r));
  return sl_config_unsupported(r, FOREIGN);
}

static sl_status take_layer_type(const sl_config_reader *r, const json_t *types, int l) {
  const char *type = json_string_value(json_array_get(types, (size_t)l));
  if (type && strcmp(type, "sliding_attention") == 0) {
    r->out->layers[l].is_sliding = true;
  } else if (!type || strcmp(type, "full_attention") != 0) {
    char found[96];
    show(json_array_get(types, (size_t)l), found, sizeof found);
    return sl_fail(r->err, type ? SL_ERR_UNSUPPORTED : SL_ERR_FORMAT,
                   "%s: layer_types: layer %d is %s, expected \"sliding_attention\" or \"full_attention\"", r->where, l,
                   found);
  }
  return SL_OK;
}

sl_status sl_config_layers(sl_config_reader *r, int pattern, const sl_layer_defaults *defaults) {
  sl_model_config *c = r->out;
  const json_t *types = sl_config_has(r, "layer_types") ? json_object_get(r->text, "layer_types") : NULL;
  if (types && (!json_is_array(types) || json_array_size(types) != (size_t)c->n_layers)) {
    return sl_fail(r->err, SL_ERR_FORMAT, "%s: layer_types: %zu entries, expected a list of %d (num_hidden_layers)",
                   r->where, json_array_size(types), c->n_layers);
  }
  c->layers = calloc((size_t)c->n_layers, sizeof *c->layers);
  if (!c->layers) return sl_fail(r->err, SL_ERR_MEMORY, "%s: out of memory for %d layers", r->where, c->n_layers);
  for (int l = 0; l < c->n_layers; l++) {
    sl_layer_config *layer = &c->layers[l];
    if (types)
      SL_TRY(take_layer_type(r, types, l));
    else
      layer->is_sliding = (l + 1) % pattern != 0;
    layer->rope = layer->is_sliding ? SL_ROPE_OF_SLIDING : SL_ROPE_OF_FULL;
    layer->head_dim = defaults->head_dim;
    layer->n_kv_heads = defaults->n_kv_heads;
    layer->intermediate = defaults->intermediate;
    layer->kv_source = l;
  }
  return SL_OK;
}

/* ---- RoPE ------------------------------------------------------------------------------------------------------- */

static const char *const ROPE_KEYS[] = {
    "rope_type", "type", "rope_theta", "factor", "partial_rotary_factor", "original_max_position_embeddings"};

static sl_status check_rope_keys(const json_t *object, const char *where, sl_error *err) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    bool known = json_is_null(value);
    for (size_t i = 0; i < sizeof ROPE_KEYS / sizeof *ROPE_KEYS; i++) known |= strcmp(key, ROPE_KEYS[i]) == 0;
    if (known) continue;
    char shown[96];
    json_t *name = json_string(key);
    show(name, shown, sizeof shown);
    json_decref(name);
    return sl_fail(err, SL_ERR_UNSUPPORTED, "%s: the field %s is not one that sluice knows", where, shown);
  }
  return SL_OK;
}

static sl_status take_rope_kind(const json_t *object, const char *where, sl_rope *out, sl_error *err) {
  static const char *const NAMES[] = {"default", "linear", "proportional"};
  const char *new_name = "default", *old_name = NULL;
  SL_TRY(sl_json_string(object, "type", where, false, &old_name, err));
  if (old_name)
    new_name = old_name; /* what rope_type was called before; newer transformers overlook it in some files */
  SL_TRY(sl_json_string(object, "rope_type", where, false, &new_name, err));
  if (old_name && strcmp(old_name, new_name) != 0) {
    return sl_config_wrong(object, where, "type", SL_ERR_FORMAT, "the same as rope_type", err);
  }
  for (int kind = SL_ROPE_DEFAULT; kind <= SL_ROPE_PROPORTIONAL; kind++) {
    if (strcmp(NAMES[kind], new_name) != 0) continue;
    out->kind = (sl_rope_kind)kind;
    return SL_OK;
  }
  return sl_config_wrong(object, where, old_name ? "type" : "rope_type", SL_ERR_UNSUPPORTED,
                         "\"default\", \"linear\" or \"proportional\"", err);
}

sl_status sl_config_rope(const json_t *object, const char *where, sl_rope *out, sl_error *err) {
  if (!json_is_object(object)) return sl_fail(err, SL_ERR_FORMAT, "%s: no JSON object", where);
  out->factor = out->partial_rotary_factor = 1.0;
  SL_TRY(check_rope_keys(object, where, err));
  SL_TRY(take_rope_kind(object, where, out, err));
  SL_TRY(sl_json_real(object, "rope_theta", where, out->theta == 0, 1.0, 1e18, &out->theta, err));
  SL_TRY(sl_json_real(object, "factor", where, out->kind == SL_ROPE_LINEAR, 1e-6, 1e6, &out->factor, err));
  SL_TRY(sl_json_real(object, "partial_rotary_factor", where, false, 0.0, 1.0, &out->partial_rotary_factor, err));
  if (out->kind == SL_ROPE_DEFAULT && out->factor != 1.0) {
    return sl_config_wrong(object, where, "factor", SL_ERR_UNSUPPORTED, "none or 1 with rope_type \"default\"", err);
  }
  if (out->kind != SL_ROPE_PROPORTIONAL && out->partial_rotary_factor != 1.0) {
    return sl_config_wrong(object, where, "partial_rotary_factor", SL_ERR_UNSUPPORTED,
                           "none or 1 unless rope_type is \"proportional\"", err);
  }
  return SL_OK;
}

sl_status sl_config_rope_parameters(const sl_config_reader *r, const char *type, const json_t **object) {
  *object = NULL;
  if (!sl_config_has(r, "rope_parameters")) return SL_OK;
  const json_t *all = json_object_get(r->text, "rope_parameters");
  const char *expected = "an object with sliding_attention and full_attention";
  if (!json_is_object(all))
    return sl_config_wrong(r->text, r->where, "rope_parameters", SL_ERR_FORMAT, expected, r->err);
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)all, key, value) {
    if (strcmp(key, "sliding_attention") == 0 || strcmp(key, "full_attention") == 0) continue;
    return sl_config_wrong(r->text, r->where, "rope_parameters", SL_ERR_UNSUPPORTED, expected, r->err);
  }
  value = json_object_get(all, type);
  if (value && !json_is_null(value)) *object = value;
  return SL_OK;
}
