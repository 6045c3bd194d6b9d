/* Small tokenizers for tests, written as the parts of a tokenizer.json that differ from test to test. */
#ifndef SL_TESTS_TOKENIZERS_H
#define SL_TESTS_TOKENIZERS_H

#include "unit/unit.h"

#include <stdio.h>

#include "text/tokenizer.h"
#include "text/utf8.h"

#define SPACE "\xE2\x96\x81" /* U+2581 */
#define BAD   "\xEF\xBF\xBD" /* U+FFFD */

/* The parts of a tokenizer.json; NULL: as below. */
typedef struct parts {
  const char *vocab, *merges, *added, *normalizer, *pre_tokenizer, *decoder, *model, *top;
  bool bytes; /* byte tokens with ids 1000.., and byte_fallback */
} parts;

static inline const char *or_else(const char *text, const char *otherwise) { return text ? text : otherwise; }

static inline char *make_json(parts p) {
  size_t size = 1 << 20;
  char *json = malloc(size);
  int n =
      snprintf(json, size,
               "{%s\"added_tokens\":[%s],\"normalizer\":%s,\"pre_tokenizer\":%s,\"decoder\":%s,"
               "\"model\":{\"type\":\"BPE\",%s\"byte_fallback\":%s,\"vocab\":{%s",
               or_else(p.top, ""), or_else(p.added, ""),
               or_else(p.normalizer, "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE "\"}"),
               or_else(p.pre_tokenizer, "null"),
               or_else(p.decoder, "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":"
                                  "{\"String\":\"" SPACE "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},"
                                  "{\"type\":\"Fuse\"}]}"),
               or_else(p.model, "\"unk_token\":\"<unk>\",\"fuse_unk\":true,"), p.bytes ? "true" : "false",
               or_else(p.vocab, "\"<unk>\":0,\"a\":1,\"b\":2,\"ab\":3,\"" SPACE "\":4,\"aba\":5"));
  for (int b = 0; p.bytes && b < 256; b++)
    n += snprintf(json + n, size - (size_t)n, ",\"<0x%02X>\":%d", (unsigned)b, 1000 + b);
  snprintf(json + n, size - (size_t)n, "},\"merges\":[%s]}}", or_else(p.merges, "[\"a\",\"b\"],[\"ab\",\"a\"]"));
  return json;
}

static inline sl_tokenizer *open_json(const char *json, int limit) {
  sl_tokenizer *t = NULL;
  sl_error err = {0};
  if (sl_tokenizer_parse(json, strlen(json), "t.json", limit, &t, &err) != SL_OK) fail_msg("%s", err.text);
  return t;
}

static inline sl_tokenizer *open_parts(parts p) {
  char *json = make_json(p);
  sl_tokenizer *t = open_json(json, 0);
  free(json);
  return t;
}

static inline void expect_ids_of(const sl_tokenizer *t, const char *text, size_t size, bool special, const int32_t *ids,
                                 size_t n) {
  int32_t *got = NULL;
  size_t n_got = 12345;
  assert_int_equal(sl_tokenizer_encode(t, text, size, special, &got, &n_got, NULL), SL_OK);
  assert_int_equal(n_got, n);
  if (n) assert_memory_equal(got, ids, n * sizeof *ids);
  free(got);
}

#define expect_ids(t, text, special, ...)                                                                              \
  do {                                                                                                                 \
    const int32_t expected_[] = {__VA_ARGS__};                                                                         \
    expect_ids_of(t, text, strlen(text), special, expected_, sizeof expected_ / sizeof *expected_);                    \
  } while (0)

#define ADDED(id, content, special, normalized, lstrip, rstrip)                                                        \
  "{\"id\":" #id ",\"content\":\"" content "\",\"special\":" #special ",\"normalized\":" #normalized                   \
  ",\"lstrip\":" #lstrip ",\"rstrip\":" #rstrip ",\"single_word\":false}"

#endif
