#include "model/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "model/config_read.h"

/* model_type as config.json may say it at its top, what its text_config then is, and whose family that is. */
static const struct {
  const char *type, *text_type;
  bool may_nest;
  const char *family;
  sl_status (*read)(sl_config_reader *r);
} TYPES[] = {
    {"gemma4", "gemma4_text", true, "gemma4", sl_gemma4_config},
    {"gemma4_text", "gemma4_text", false, "gemma4", sl_gemma4_config},
    {"gemma4_unified", "gemma4_unified_text", true, "gemma4", sl_gemma4_config},
    {"gemma4_unified_text", "gemma4_unified_text", false, "gemma4", sl_gemma4_config},
    {"gemma3", "gemma3_text", true, "gemma3", sl_gemma3_config},
    {"gemma3_text", "gemma3_text", false, "gemma3", sl_gemma3_config},
};
#define N_TYPES         ((int)(sizeof TYPES / sizeof *TYPES))
#define SUPPORTED_TYPES "gemma4, gemma4_text, gemma4_unified, gemma4_unified_text, gemma3 or gemma3_text"

static sl_status find_type(const json_t *config, int *type, sl_error *err) {
  const json_t *name = json_object_get(config, "model_type");
  if (!json_is_string(name))
    return sl_config_wrong(config, "config.json", "model_type", SL_ERR_FORMAT, SUPPORTED_TYPES, err);
  for (*type = 0; *type < N_TYPES; (*type)++) {
    if (strcmp(TYPES[*type].type, json_string_value(name)) == 0) return SL_OK;
  }
  return sl_config_wrong(config, "config.json", "model_type", SL_ERR_UNSUPPORTED, SUPPORTED_TYPES, err);
}

/* text_config, or the whole where the file is flat. */
static sl_status find_text(sl_config_reader *r, int type) {
  const json_t *text = json_object_get(r->root, "text_config");
  r->text_type = TYPES[type].text_type;
  if (!text || json_is_null(text)) {
    if (TYPES[type].may_nest && !json_object_get(r->root, "hidden_size"))
      return sl_config_wrong(r->root, r->where, "text_config", SL_ERR_FORMAT, "an object", r->err);
    return SL_OK;
  }
  if (!TYPES[type].may_nest || !json_is_object(text)) {
    return sl_config_wrong(r->root, r->where, "text_config", SL_ERR_FORMAT,
                           TYPES[type].may_nest ? "an object" : "none in a config of this model_type", r->err);
  }
  r->text = text;
  r->where = "config.json: text_config";
  const json_t *name = json_object_get(text, "model_type");
  if (!name || json_is_null(name)) return SL_OK;
  if (json_is_string(name) && strcmp(json_string_value(name), r->text_type) == 0) return SL_OK;
  return sl_config_wrong(text, r->where, "model_type", SL_ERR_UNSUPPORTED, r->text_type, r->err);
}

/* A classifier or an embedding model has the same layers and no words to say. */
static sl_status check_architectures(const sl_config_reader *r) {
  static const char *const ENDS[] = {"ForCausalLM", "ForConditionalGeneration"};
  const json_t *names = json_object_get(r->root, "architectures");
  const char *key = "architectures",
             *expected = "a list with a name that ends in ForCausalLM or ForConditionalGeneration";
  if (!names || json_is_null(names)) return SL_OK;
  if (!json_is_array(names)) return sl_config_wrong(r->root, "config.json", key, SL_ERR_FORMAT, expected, r->err);
  for (size_t i = 0; i < json_array_size(names); i++) {
    const char *name = json_string_value(json_array_get(names, i));
    for (int e = 0; name && e < 2; e++) {
      size_t n = strlen(name), end = strlen(ENDS[e]);
      if (n >= end && strcmp(name + n - end, ENDS[e]) == 0) return SL_OK;
    }
  }
  return sl_config_wrong(r->root, "config.json", key, SL_ERR_UNSUPPORTED, expected, r->err);
}

/* The outer config decides, as in transformers. */
static sl_status take_tied(const sl_config_reader *r) {
  const char *key = "tie_word_embeddings";
  r->out->is_tied = true;
  SL_TRY(sl_config_bool(r, key, true, &r->out->is_tied));
  return sl_json_bool(r->root, key, "config.json", false, &r->out->is_tied, r->err);
}

static sl_status read_all(sl_config_reader *r, int type, const json_t *generation_config) {
  SL_TRY(find_text(r, type));
  SL_TRY(check_architectures(r));
  SL_TRY(TYPES[type].read(r));
  SL_TRY(take_tied(r));
  SL_TRY(sl_config_quantization(r));
  return sl_config_generation(r, generation_config);
}

sl_status sl_model_config_parse(const json_t *config, const json_t *generation_config, sl_model_config *out,
                                sl_error *err) {
  memset(out, 0, sizeof *out);
  int type = 0;
  if (!json_is_object(config)) return sl_fail(err, SL_ERR_FORMAT, "config.json: no JSON object");
  SL_TRY(find_type(config, &type, err));
  out->family = TYPES[type].family;
  out->model_type = TYPES[type].type;
  sl_config_reader r = {.root = config, .text = config, .where = "config.json", .out = out, .err = err};
  sl_status status = read_all(&r, type, generation_config);
  if (status != SL_OK) {
    sl_model_config_free(out);
    return status;
  }
  out->embed_scale = sl_embed_scale(out->hidden, SL_F32);
  out->ple_scale = sl_embed_scale(out->ple_width, SL_F32);
  return SL_OK;
}

/* The scale that goes with the dtype of a table, found under either prefix; a missing one is for others to refuse. */
static float scale_of_table(const sl_checkpoint *checkpoint, const char *const names[2], int width) {
  for (int i = 0; i < 2; i++) {
    const sl_tensor *t = sl_checkpoint_find(checkpoint, names[i]);
    if (t) return sl_embed_scale(width, t->dtype);
  }
  return sl_embed_scale(width, SL_F32);
}

sl_status sl_model_config_read(const sl_checkpoint *checkpoint, sl_model_config *out, sl_error *err) {
  static const char *const EMBED[] = {"model.language_model.embed_tokens.weight", "model.embed_tokens.weight"};
  static const char *const PLE[] = {"model.language_model.embed_tokens_per_layer.weight",
                                    "model.embed_tokens_per_layer.weight"};
  sl_status status = sl_model_config_parse(checkpoint->config, checkpoint->generation_config, out, err);
  if (status != SL_OK) return sl_fail_in(err, status, "%s", checkpoint->path);
  out->embed_scale = scale_of_table(checkpoint, EMBED, out->hidden);
  out->ple_scale = scale_of_table(checkpoint, PLE, out->ple_width);
  return SL_OK;
}

void sl_model_config_free(sl_model_config *config) {
  for (int i = 0; i < config->n_notes; i++) free(config->notes[i]);
  free(config->notes);
  free(config->layers);
  memset(config, 0, sizeof *config);
}

float sl_embed_scale(int width, sl_dtype table_dtype) {
  float scale = (float)sqrt((double)width);
  if (table_dtype == SL_BF16) return sl_bf16_to_f32(sl_f32_to_bf16(scale));
  if (table_dtype == SL_F16) return sl_f16_to_f32(sl_f32_to_f16(scale));
  return scale;
}

/* The exponent is rounded to f32 as there; the power itself is taken in double and rounded once. */
void sl_rope_inv_freq(float *out, const sl_rope *rope, int head_dim) {
  int half = head_dim / 2, n_turning = half;
  if (rope->kind == SL_ROPE_PROPORTIONAL) n_turning = (int)floor(rope->partial_rotary_factor * head_dim / 2);
  for (int i = 0; i < half; i++) {
    float exponent = (float)(2 * i) / (float)head_dim;
    out[i] = i < n_turning ? 1.0f / (float)pow(rope->theta, (double)exponent) / (float)rope->factor : 0.0f;
  }
}

/* ---- report ----------------------------------------------------------------------------------------------------- */

static json_t *rope_json(const sl_rope *rope) {
  static const char *const NAMES[] = {"default", "linear", "proportional"};
  return json_pack("{s:s, s:f, s:f, s:f}", "rope_type", NAMES[rope->kind], "rope_theta", rope->theta, "factor",
                   rope->factor, "partial_rotary_factor", rope->partial_rotary_factor);
}

static json_t *layers_json(const sl_model_config *c) {
  json_t *all = json_array();
  for (int l = 0; all && l < c->n_layers; l++) {
    const sl_layer_config *layer = &c->layers[l];
    json_t *one = json_pack("{s:s, s:i, s:i, s:i, s:b, s:i, s:b}", "type",
                            layer->is_sliding ? "sliding_attention" : "full_attention", "head_dim", layer->head_dim,
                            "n_kv_heads", layer->n_kv_heads, "intermediate", layer->intermediate, "v_from_k",
                            layer->v_from_k, "kv_source", layer->kv_source, "is_moe", layer->is_moe);
    sl_json_append(&all, one);
  }
  return all;
}

static json_t *ids_json(const int32_t *ids, int n) {
  json_t *all = json_array();
  for (int i = 0; i < n; i++) sl_json_append(&all, json_integer(ids[i]));
  return all;
}

static json_t *notes_json(const sl_model_config *c) {
  json_t *all = json_array();
  for (int i = 0; i < c->n_notes; i++) sl_json_append(&all, json_string(c->notes[i]));
  return all;
}

json_t *sl_model_config_json(const sl_model_config *c) {
  json_t *out = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:i, s:i, s:b, s:b}", "family", c->family,
                          "model_type", c->model_type, "hidden", c->hidden, "vocab", c->vocab, "n_layers", c->n_layers,
                          "n_heads", c->n_heads, "eps", c->eps, "softcap", c->softcap, "attention_scale",
                          (double)c->attention_scale, "embed_scale", (double)c->embed_scale, "window", c->window,
                          "max_ctx", c->max_ctx, "is_tied", c->is_tied, "norm_plus_one", c->norm_plus_one);
  json_t *more =
      json_pack("{s:s, s:o, s:o, s:i, s:i, s:i, s:i, s:i, s:s, s:i, s:o, s:o, s:{s:b, s:f, s:i, s:f, s:f}, s:o, s:o}",
                "activation", "gelu_pytorch_tanh", "rope_sliding", rope_json(&c->ropes[SL_ROPE_OF_SLIDING]),
                "rope_full", rope_json(&c->ropes[SL_ROPE_OF_FULL]), "ple_width", c->ple_width, "ple_vocab",
                c->ple_vocab, "n_experts", c->n_experts, "top_k", c->top_k, "moe_intermediate", c->moe_intermediate,
                "quantization", c->quantization == SL_QUANT_FP8_CHANNEL ? "fp8_channel" : "none", "bos", c->bos, "eos",
                ids_json(c->eos, c->n_eos), "suppress", ids_json(c->suppress, c->n_suppress), "sampling", "do_sample",
                c->do_sample, "temperature", c->temperature, "top_k", c->sample_top_k, "top_p", c->top_p, "min_p",
                c->min_p, "layers", layers_json(c), "notes", notes_json(c));
  int status = out && more ? json_object_update(out, more) : -1;
  json_decref(more);
  if (status == 0) return out;
  json_decref(out);
  return NULL;
}
