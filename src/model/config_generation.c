/* What a config says beside the layers: end tokens, sampling defaults, and how weights are quantised. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "model/config_read.h"

#define CONFIG     "config.json"
#define GENERATION "generation_config.json"

/* ---- tokens ----------------------------------------------------------------------------------------------------- */

typedef struct token_list {
  int32_t *ids;
  int *n;
  int capacity, vocab;
} token_list;

static sl_status add_token(const token_list *list, const json_t *id, const char *where, const char *key,
                           sl_error *err) {
  if (!json_is_integer(id)) return sl_fail(err, SL_ERR_FORMAT, "%s: %s: not a token id or a list of them", where, key);
  json_int_t value = json_integer_value(id);
  if (value < 0 || value >= list->vocab) {
    return sl_fail(err, SL_ERR_FORMAT, "%s: %s: found %lld, expected an id from 0 to %d", where, key, (long long)value,
                   list->vocab - 1);
  }
  for (int i = 0; i < *list->n; i++) {
    if (list->ids[i] == value) return SL_OK;
  }
  if (*list->n == list->capacity)
    return sl_fail(err, SL_ERR_FORMAT, "%s: %s: more than %d ids", where, key, list->capacity);
  list->ids[(*list->n)++] = (int32_t)value;
  return SL_OK;
}

/* object[key] is an id, a list of ids, null or missing. */
static sl_status add_tokens(const token_list *list, const json_t *object, const char *where, const char *key,
                            sl_error *err) {
  const json_t *value = json_object_get(object, key);
  if (!value || json_is_null(value)) return SL_OK;
  if (!json_is_array(value)) return add_token(list, value, where, key, err);
  for (size_t i = 0; i < json_array_size(value); i++) {
    SL_TRY(add_token(list, json_array_get(value, i), where, key, err));
  }
  return SL_OK;
}

/* Some files name only the first end token here and the others there: any of them ends a text. */
static sl_status take_eos(const sl_config_reader *r, const json_t *generation) {
  sl_model_config *c = r->out;
  const char *key = "eos_token_id";
  const token_list list = {c->eos, &c->n_eos, SL_MAX_EOS, c->vocab};
  SL_TRY(add_tokens(&list, r->root, CONFIG, key, r->err));
  SL_TRY(add_tokens(&list, r->text, r->where, key, r->err));
  SL_TRY(add_tokens(&list, generation, GENERATION, key, r->err));
  bool is_said = json_object_get(r->root, key) || json_object_get(r->text, key) || json_object_get(generation, key);
  if (!is_said && c->vocab > 1) c->eos[c->n_eos++] = 1; /* transformers' default */
  return SL_OK;
}

/* The last one that has an id counts; the default is transformers'. */
static sl_status take_bos(const sl_config_reader *r, const json_t *generation) {
  const json_t *objects[] = {r->root, r->text, generation};
  const char *const wheres[] = {CONFIG, r->where, GENERATION}, *key = "bos_token_id";
  bool is_said = false;
  r->out->bos = -1;
  for (int i = 0; i < 3; i++) {
    const json_t *value = json_object_get(objects[i], key);
    is_said |= value != NULL;
    long long found = r->out->bos;
    SL_TRY(sl_json_int(objects[i], key, wheres[i], false, 0, r->out->vocab - 1, &found, r->err));
    r->out->bos = (int)found;
  }
  if (!is_said && r->out->vocab > 2) r->out->bos = 2;
  return SL_OK;
}

/* ---- sampling --------------------------------------------------------------------------------------------------- */

/* Settings of generation_config.json that would change which token is drawn, with the value that means "off". */
static const struct {
  const char *key;
  double off;
} NOT_FOLLOWED[] = {{"repetition_penalty", 1},
                    {"encoder_repetition_penalty", 1},
                    {"no_repeat_ngram_size", 0},
                    {"typical_p", 1},
                    {"epsilon_cutoff", 0},
                    {"eta_cutoff", 0},
                    {"num_beams", 1},
                    {"penalty_alpha", 0},
                    {"guidance_scale", 1},
                    {"top_h", 0},
                    {"min_length", 0},
                    {"min_new_tokens", 0},
                    {"bad_words_ids", 0},
                    {"forced_bos_token_id", 0},
                    {"begin_suppress_tokens", 0},
                    {"sequence_bias", 0},
                    {"forced_eos_token_id", 0},
                    {"watermarking_config", 0}};

static sl_status note_not_followed(const sl_config_reader *r, const json_t *generation) {
  for (size_t i = 0; i < sizeof NOT_FOLLOWED / sizeof *NOT_FOLLOWED; i++) {
    const json_t *value = json_object_get(generation, NOT_FOLLOWED[i].key);
    if (!value || json_is_null(value)) continue;
    if (json_is_number(value) && json_number_value(value) == NOT_FOLLOWED[i].off) continue;
    SL_TRY(sl_config_note(r->out, r->err, GENERATION ": %s is not followed", NOT_FOLLOWED[i].key));
  }
  return SL_OK;
}

static sl_status take_sampling(const sl_config_reader *r, const json_t *generation) {
  sl_model_config *c = r->out;
  c->temperature = 0;
  c->sample_top_k = 0;
  c->top_p = 1;
  c->min_p = 0;
  if (!generation) return SL_OK;
  long long top_k = 50; /* transformers' default where there is sampling */
  double temperature = 1, top_p = 1, min_p = 0;
  SL_TRY(sl_json_bool(generation, "do_sample", GENERATION, false, &c->do_sample, r->err));
  SL_TRY(sl_json_real(generation, "temperature", GENERATION, false, 0, 100, &temperature, r->err));
  SL_TRY(sl_json_int(generation, "top_k", GENERATION, false, 0, 1 << 30, &top_k, r->err));
  SL_TRY(sl_json_real(generation, "top_p", GENERATION, false, 0, 1, &top_p, r->err));
  SL_TRY(sl_json_real(generation, "min_p", GENERATION, false, 0, 1, &min_p, r->err));
  SL_TRY(note_not_followed(r, generation));
  const token_list list = {c->suppress, &c->n_suppress, SL_MAX_SUPPRESS, c->vocab};
  SL_TRY(add_tokens(&list, generation, GENERATION, "suppress_tokens", r->err));
  if (!c->do_sample) return SL_OK;
  c->temperature = temperature;
  c->sample_top_k = (int)top_k;
  c->top_p = top_p > 0 ? top_p : 1e-9; /* 0 leaves the most likely one; sl_sampling takes that for forgotten */
  c->min_p = min_p;
  return SL_OK;
}

sl_status sl_config_generation(const sl_config_reader *r, const json_t *generation) {
  if (generation && !json_is_object(generation)) return sl_fail(r->err, SL_ERR_FORMAT, GENERATION ": no JSON object");
  SL_TRY(take_eos(r, generation));
  SL_TRY(take_bos(r, generation));
  return take_sampling(r, generation);
}

/* ---- quantisation ----------------------------------------------------------------------------------------------- */

static bool is_empty(const json_t *value) {
  return !value || json_is_null(value) || (json_is_object(value) && json_object_size(value) == 0) ||
         (json_is_array(value) && json_array_size(value) == 0);
}

/* A field that may be missing, and else is this text. */
static sl_status check_text(const json_t *object, const char *where, const char *key, const char *expected,
                            bool required, sl_error *err) {
  const json_t *value = json_object_get(object, key);
  if (!required && (!value || json_is_null(value))) return SL_OK;
  if (json_is_string(value) && strcmp(json_string_value(value), expected) == 0) return SL_OK;
  char quoted[96];
  snprintf(quoted, sizeof quoted, "\"%s\"", expected);
  return sl_config_wrong(object, where, key, json_is_string(value) ? SL_ERR_UNSUPPORTED : SL_ERR_FORMAT, quoted, err);
}

static sl_status check_none(const json_t *object, const char *where, const char *key, sl_error *err) {
  if (is_empty(json_object_get(object, key))) return SL_OK;
  return sl_config_wrong(object, where, key, SL_ERR_UNSUPPORTED, "null", err);
}

static sl_status check_weights(const json_t *weights, const char *where, sl_error *err) {
  long long n_bits = 0;
  bool is_symmetric = true, is_dynamic = false;
  if (!json_is_object(weights)) return sl_fail(err, SL_ERR_FORMAT, "%s: no JSON object", where);
  SL_TRY(check_text(weights, where, "type", "float", true, err));
  SL_TRY(check_text(weights, where, "strategy", "channel", true, err));
  SL_TRY(sl_json_int(weights, "num_bits", where, true, 1, 64, &n_bits, err));
  if (n_bits != 8) return sl_config_wrong(weights, where, "num_bits", SL_ERR_UNSUPPORTED, "8", err);
  SL_TRY(sl_json_bool(weights, "symmetric", where, false, &is_symmetric, err));
  if (!is_symmetric) return sl_config_wrong(weights, where, "symmetric", SL_ERR_UNSUPPORTED, "true", err);
  SL_TRY(sl_json_bool(weights, "dynamic", where, false, &is_dynamic, err));
  if (is_dynamic) return sl_config_wrong(weights, where, "dynamic", SL_ERR_UNSUPPORTED, "false", err);
  SL_TRY(check_none(weights, where, "group_size", err));
  SL_TRY(check_none(weights, where, "actorder", err));
  return check_none(weights, where, "block_structure", err);
}

/* Rounding of activations is a speed-up of other engines and not part of the weights: said, and not done.  Fixed input
 * scales would be tensors of the file, which nobody would use. */
static sl_status check_activations(const sl_config_reader *r, const json_t *group, const char *where) {
  SL_TRY(check_none(group, where, "output_activations", r->err));
  const json_t *input = json_object_get(group, "input_activations");
  if (is_empty(input)) return SL_OK;
  if (!json_is_true(json_object_get(input, "dynamic"))) {
    return sl_config_wrong(group, where, "input_activations", SL_ERR_UNSUPPORTED, "null or dynamic ones", r->err);
  }
  return sl_config_note(r->out, r->err, "%s: input_activations are not rounded as it asks: sluice keeps them exact",
                        where);
}

static sl_status check_groups(const sl_config_reader *r, const json_t *groups, const char *where) {
  const char *name;
  json_t *group;
  int i = 0;
  if (is_empty(groups) || !json_is_object(groups))
    return sl_fail(r->err, SL_ERR_FORMAT, "%s: config_groups: nothing there, expected an object", where);
  json_object_foreach((json_t *)groups, name, group) {
    char in_group[160], in_weights[192];
    snprintf(in_group, sizeof in_group, "%s: config_groups: group %d", where, i++);
    snprintf(in_weights, sizeof in_weights, "%s: weights", in_group);
    if (!json_is_object(group)) return sl_fail(r->err, SL_ERR_FORMAT, "%s: no JSON object", in_group);
    SL_TRY(check_text(group, in_group, "format", "float-quantized", false, r->err));
    SL_TRY(check_weights(json_object_get(group, "weights"), in_weights, r->err));
    SL_TRY(check_activations(r, group, in_group));
  }
  return SL_OK;
}

static sl_status check_sparsity(const json_t *q, const char *where, sl_error *err) {
  const json_t *sparsity = json_object_get(q, "sparsity_config");
  if (is_empty(sparsity)) return SL_OK;
  return check_text(sparsity, where, "format", "dense", true, err);
}

sl_status sl_config_quantization(const sl_config_reader *r) {
  static const char *const KEYS[] = {"quantization_config", "compression_config"};
  const json_t *q = NULL;
  char where[96];
  for (int i = 0; i < 4 && is_empty(q); i++) {
    q = json_object_get(i / 2 ? r->text : r->root, KEYS[i % 2]);
    snprintf(where, sizeof where, "%s: %s", i / 2 ? r->where : CONFIG, KEYS[i % 2]);
  }
  r->out->quantization = SL_QUANT_NONE;
  if (is_empty(q)) return SL_OK;
  if (!json_is_object(q)) return sl_fail(r->err, SL_ERR_FORMAT, "%s: no JSON object", where);
  SL_TRY(check_text(q, where, "quant_method", "compressed-tensors", true, r->err));
  SL_TRY(check_text(q, where, "format", "float-quantized", true, r->err));
  SL_TRY(check_text(q, where, "quantization_status", "compressed", false, r->err));
  SL_TRY(check_none(q, where, "kv_cache_scheme", r->err));
  SL_TRY(check_none(q, where, "transform_config", r->err));
  SL_TRY(check_sparsity(q, where, r->err));
  SL_TRY(check_groups(r, json_object_get(q, "config_groups"), where));
  r->out->quantization = SL_QUANT_FP8_CHANNEL;
  return SL_OK;
}
