/* config.json and, behind a byte of zeros, generation_config.json: a config within its limits or a sentence. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "model/config.h"

static void expect(bool is_so) {
  if (!is_so) abort();
}

/* What the families' programs, and the allocations that follow from a config, rely on. */
static void check(const sl_model_config *c) {
  expect(c->hidden >= 1 && c->hidden <= SL_MAX_HIDDEN && c->vocab >= 1 && c->vocab <= SL_MAX_VOCABULARY);
  expect(c->n_layers >= 1 && c->n_layers <= SL_MAX_LAYERS && c->n_heads >= 1 && c->n_heads <= SL_MAX_HEADS);
  expect(c->window >= 1 && c->window <= SL_MAX_CTX && c->max_ctx >= 1 && c->max_ctx <= SL_MAX_CTX);
  expect(c->eps > 0 && c->softcap >= 0 && isfinite(c->softcap) && isfinite(c->attention_scale));
  expect(c->embed_scale >= 1 && c->ple_width >= 0 && c->ple_width <= SL_MAX_PLE);
  expect(c->top_k >= 0 && c->top_k <= c->n_experts && c->n_experts <= SL_MAX_EXPERTS);
  expect(c->bos >= -1 && c->bos < c->vocab && c->n_eos >= 0 && c->n_eos <= SL_MAX_EOS);
  for (int i = 0; i < c->n_eos; i++) expect(c->eos[i] >= 0 && c->eos[i] < c->vocab);
  expect(c->top_p >= 0 && c->top_p <= 1 && c->min_p >= 0 && c->min_p <= 1 && c->temperature >= 0);
  for (int l = 0; l < c->n_layers; l++) {
    const sl_layer_config *layer = &c->layers[l];
    const sl_layer_config *source = &c->layers[layer->kv_source];
    expect(layer->head_dim >= 2 && layer->head_dim <= SL_MAX_HEAD_DIM && layer->head_dim % 2 == 0);
    expect(layer->n_kv_heads >= 1 && c->n_heads % layer->n_kv_heads == 0);
    expect(layer->intermediate >= 1 && layer->intermediate <= SL_MAX_WIDTH);
    expect(layer->kv_source >= 0 && layer->kv_source <= l && source->kv_source == layer->kv_source);
    expect(source->is_sliding == layer->is_sliding && source->head_dim == layer->head_dim);
    expect(source->n_kv_heads == layer->n_kv_heads && layer->is_moe == (c->n_experts > 0));
  }
}

static void use(const sl_model_config *c) {
  float *inv_freq = malloc(SL_MAX_HEAD_DIM / 2 * sizeof *inv_freq);
  for (int i = 0; inv_freq && i < SL_N_ROPES; i++) {
    sl_rope_inv_freq(inv_freq, &c->ropes[i], c->layers[0].head_dim);
    for (int k = 0; k < c->layers[0].head_dim / 2; k++) expect(isfinite(inv_freq[k]) && inv_freq[k] >= 0);
  }
  free(inv_freq);
  json_t *report = sl_model_config_json(c);
  expect(report != NULL);
  json_decref(report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = (const char *)data, *cut = size ? memchr(text, 0, size) : NULL;
  size_t n = cut ? (size_t)(cut - text) : size;
  json_t *config = NULL, *generation = NULL;
  sl_model_config c;
  sl_error err = {.status = SL_OK};
  sl_status status = sl_json_parse(text, n, "config.json", &config, &err);
  if (status == SL_OK && cut)
    status = sl_json_parse(cut + 1, size - n - 1, "generation_config.json", &generation, &err);
  if (status == SL_OK) {
    status = sl_model_config_parse(config, generation, &c, &err);
    if (status == SL_OK) {
      check(&c);
      use(&c);
      sl_model_config_free(&c);
    }
  }
  if (status != SL_OK) expect(err.status == status && err.text[0] && memchr(err.text, 0, sizeof err.text));
  json_decref(generation);
  json_decref(config);
  return 0;
}
