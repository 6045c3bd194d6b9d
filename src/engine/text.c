#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

static sl_status need_tokenizer(const sl_engine *engine, sl_error *err) {
  if (engine->tokenizer) return SL_OK;
  return sl_fail(err, SL_ERR_UNSUPPORTED,
                 "%s: there is no tokenizer.json, so text cannot be read or written (token ids can)", engine->path);
}

sl_status sl_tokenize(const sl_engine *engine, const char *text, size_t size, bool special, bool bos, int32_t **ids,
                      size_t *n, sl_error *err) {
  SL_TRY(need_tokenizer(engine, err));
  int32_t *plain;
  size_t n_plain;
  SL_TRY(sl_tokenizer_encode(engine->tokenizer, text, size, special, &plain, &n_plain, err));
  int first = engine->model->config.bos;
  if (!bos || first < 0 || (n_plain && plain[0] == first)) {
    *ids = plain;
    *n = n_plain;
    return SL_OK;
  }
  int32_t *longer = realloc(plain, (n_plain + 1) * sizeof *longer);
  if (!longer) {
    free(plain);
    return sl_fail(err, SL_ERR_MEMORY, "tokenize: no memory for %zu ids", n_plain + 1);
  }
  memmove(longer + 1, longer, n_plain * sizeof *longer);
  longer[0] = first;
  *ids = longer;
  *n = n_plain + 1;
  return SL_OK;
}

void sl_ids_free(int32_t *ids) { free(ids); }

/* ---- streams ---- */

struct sl_text_stream {
  sl_decoder decoder;
};

sl_status sl_text_stream_new(const sl_engine *engine, bool special, sl_text_stream **out, sl_error *err) {
  SL_TRY(need_tokenizer(engine, err));
  sl_text_stream *stream = calloc(1, sizeof *stream);
  if (!stream) return sl_fail(err, SL_ERR_MEMORY, "text stream: no memory");
  sl_decoder_init(&stream->decoder, engine->tokenizer, special);
  *out = stream;
  return SL_OK;
}

void sl_text_stream_free(sl_text_stream *stream) {
  if (!stream) return;
  sl_decoder_free(&stream->decoder);
  free(stream);
}

sl_status sl_text_stream_put(sl_text_stream *stream, int32_t id, const char **text, size_t *size, sl_error *err) {
  SL_TRY(sl_decoder_put(&stream->decoder, id, err));
  *text = stream->decoder.size ? stream->decoder.text : "";
  *size = stream->decoder.size;
  return SL_OK;
}

/* ---- whole texts ---- */

static sl_status append(char **text, size_t *size, const sl_decoder *d, sl_error *err) {
  char *longer = realloc(*text, *size + d->size + 1);
  if (!longer) return sl_fail(err, SL_ERR_MEMORY, "detokenize: no memory for %zu bytes", *size + d->size + 1);
  if (d->size) memcpy(longer + *size, d->text, d->size);
  *size += d->size;
  longer[*size] = '\0';
  *text = longer;
  return SL_OK;
}

sl_status sl_detokenize(const sl_engine *engine, const int32_t *ids, size_t n, bool special, char **text, size_t *size,
                        sl_error *err) {
  SL_TRY(need_tokenizer(engine, err));
  sl_decoder decoder;
  sl_decoder_init(&decoder, engine->tokenizer, special);
  char *whole = NULL;
  size_t length = 0;
  sl_status status = SL_OK;
  for (size_t i = 0; i <= n && status == SL_OK; i++) {
    if (i < n && ids[i] < 0)
      status = sl_fail(err, SL_ERR_ARGUMENT, "token id %d at place %zu: expected 0 or more", ids[i], i);
    if (status == SL_OK) status = sl_decoder_put(&decoder, i < n ? ids[i] : -1, err);
    if (status == SL_OK) status = append(&whole, &length, &decoder, err);
  }
  sl_decoder_free(&decoder);
  if (status != SL_OK) {
    free(whole);
    return status;
  }
  *text = whole;
  if (size) *size = length;
  return SL_OK;
}
