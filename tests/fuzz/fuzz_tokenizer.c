/* A tokenizer.json and, behind a byte 0xFF, a text for it: whatever they say, a sentence, or ids in range and text that
 * is UTF-8.  With a good tokenizer any bytes come back from their tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer.h"
#include "text/utf8.h"

/* The decoded text of ids; malloc'd. */
static char *decode(const sl_tokenizer *t, const int32_t *ids, size_t n, bool special, size_t *size) {
  sl_decoder d;
  sl_decoder_init(&d, t, special);
  size_t capacity = 256; /* grows by doubling: the sanitizer moves the block on every realloc */
  char *all = malloc(capacity);
  *size = 0;
  for (size_t i = 0; i <= n; i++) {
    if (sl_decoder_put(&d, i < n ? ids[i] : -1, NULL) != SL_OK) abort();
    if (sl_utf8_bad(d.text, d.size) != d.size) abort();
    while (capacity - *size < d.size) all = realloc(all, capacity *= 2);
    memcpy(all + *size, d.text, d.size);
    *size += d.size;
  }
  sl_decoder_free(&d);
  return all;
}

static char *there_and_back(const sl_tokenizer *t, const char *text, size_t size, bool parse_special, size_t *n_back) {
  int32_t *ids = NULL;
  size_t n = 0;
  if (sl_tokenizer_encode(t, text, size, parse_special, &ids, &n, NULL) != SL_OK) abort();
  for (size_t i = 0; i < n; i++)
    if (ids[i] < 0 || ids[i] >= sl_tokenizer_size(t)) abort();
  char *back = decode(t, ids, n, true, n_back);
  free(ids);
  return back;
}

/* What text becomes on its way: ill-formed parts are replaced, and U+2581 is shown as a space. */
static char *expected_text(const char *text, size_t size, size_t *n) {
  char *out = malloc(size * 3 + 1);
  size_t length;
  *n = 0;
  for (size_t at = 0; at < size; at += length) {
    const char *part = text + at;
    bool good = sl_utf8_next(part, size - at, &length) == SL_UTF8_CHARACTER;
    bool space = good && length == 3 && memcmp(part, "\xE2\x96\x81", 3) == 0;
    size_t n_part = space ? 1 : good ? length : 3;
    memcpy(out + *n, space ? " " : good ? part : SL_REPLACEMENT, n_part);
    *n += n_part;
  }
  return out;
}

static const sl_tokenizer *good_tokenizer(void) {
  static sl_tokenizer *t;
  if (t) return t;
  char json[16384];
  int n = snprintf(json, sizeof json,
                   "{\"added_tokens\":[{\"id\":9,\"content\":\"<b>\",\"special\":true,\"normalized\":false,\"lstrip\":"
                   "false,\"rstrip\":false,\"single_word\":false}],\"normalizer\":{\"type\":\"Replace\",\"pattern\":"
                   "{\"String\":\" \"},\"content\":\"\xE2\x96\x81\"},\"decoder\":{\"type\":\"Sequence\",\"decoders\":"
                   "[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xE2\x96\x81\"},\"content\":\" \"},{\"type\":"
                   "\"ByteFallback\"},{\"type\":\"Fuse\"}]},\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,"
                   "\"merges\":[\"a b\",\"\xE2\x96\x81 a\",\"\\u0000 a\",\"\\u0000a ab\"],\"vocab\":{\"a\":0,\"b\":1,"
                   "\"\xE2\x96\x81\":2,\"\\u0000\":3,\"ab\":4,\"\xE2\x96\x81"
                   "a\":5,\"\\u0000a\":6,\"\\u0000aab\":7");
  for (int b = 0; b < 256; b++)
    n += snprintf(json + n, sizeof json - (size_t)n, ",\"<0x%02X>\":%d", (unsigned)b, 10 + b);
  n += snprintf(json + n, sizeof json - (size_t)n, "}}}");
  if (sl_tokenizer_parse(json, (size_t)n, "good", 0, &t, NULL) != SL_OK) abort();
  return t;
}

static void check_round_trip(const char *text, size_t size) {
  size_t n_want, n_plain, n_special;
  char *want = expected_text(text, size, &n_want);
  char *plain = there_and_back(good_tokenizer(), text, size, false, &n_plain);
  char *special = there_and_back(good_tokenizer(), text, size, true, &n_special);
  if (n_want != n_plain || memcmp(want, plain, n_want) != 0) abort();
  if (n_want != n_special || memcmp(want, special, n_want) != 0) abort();
  free(want);
  free(plain);
  free(special);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *json = (const char *)data;
  const char *cut = size ? memchr(json, 0xFF, size) : NULL;
  size_t n_json = cut ? (size_t)(cut - json) : size, n_text = cut ? size - n_json - 1 : 0, n_back;
  const char *text = cut ? cut + 1 : "";
  sl_tokenizer *t = NULL;
  sl_error err = {.status = SL_OK};
  sl_status status = sl_tokenizer_parse(json, n_json, "fuzz", 4096, &t, &err);
  if (status != SL_OK) {
    if (t || err.status != status || !memchr(err.text, 0, sizeof err.text)) abort();
    if (!err.text[0] || sl_utf8_bad(err.text, strlen(err.text)) != strlen(err.text)) abort();
    check_round_trip(json, size);
    return 0;
  }
  free(there_and_back(t, text, n_text, true, &n_back));
  free(there_and_back(t, text, n_text, false, &n_back));
  sl_tokenizer_free(t);
  return 0;
}
