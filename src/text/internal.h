/* What a tokenizer is made of.  tokenizer_json.c fills it, tokenizer.c and decoder.c use it. */
#ifndef SL_TEXT_INTERNAL_H
#define SL_TEXT_INTERNAL_H

#include "text/added.h"
#include "text/bpe.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

/* Every `from` becomes `to`.  n_from 0: nothing to do. */
typedef struct sl_replace {
  char from[32], to[32];
  size_t n_from, n_to;
} sl_replace;

/* A byte buffer that grows; owned. */
typedef struct sl_text_buffer {
  char *bytes;
  size_t n, capacity;
} sl_text_buffer;

/* The steps of encoding, in order: added tokens of `raw` are cut out of the text; the rest is normalized; added tokens
 * of `normalized` are cut out of that; what is left is merged by rank.  Another kind of tokenizer is other tables for
 * the same steps: SentencePiece scores become ranks, byte-level pieces another alphabet. */
struct sl_tokenizer {
  sl_pieces pieces;
  sl_merges merges;
  sl_bpe bpe;
  sl_added_set raw, normalized;
  sl_replace normalizer;
  sl_replace shown;   /* applied to a piece when it is decoded */
  bool decodes_bytes; /* "<0x41>" is decoded to that byte */
  uint8_t *special;   /* bit per id */
  int n_left_out;     /* special tokens beyond the model's vocabulary */
  int n_ids;          /* ids below this may be decoded: the model's vocabulary, or the tokenizer's if larger */
};

/* Appends text with the replacement; false when out of memory or beyond SL_MAX_TEXT. */
#define SL_MAX_TEXT ((size_t)1 << 31)
bool sl_buffer_append(sl_text_buffer *buffer, const char *bytes, size_t n);
bool sl_buffer_append_replaced(sl_text_buffer *buffer, const sl_replace *replace, const char *text, size_t n);

static inline bool sl_is_special(const sl_tokenizer *t, int32_t id) { return t->special[id / 8] >> (id % 8) & 1; }

#endif
