/* Text to token ids and back. */
#ifndef SL_TEXT_TOKENIZER_H
#define SL_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Immutable once opened: any number of threads may use one. */
typedef struct sl_tokenizer sl_tokenizer;

/* Reads a Hugging Face tokenizer.json of the Gemma kind (BPE with byte fallback).  vocab_limit: ids must be below it
 * (the model's vocabulary), 0 for no limit.  A tokenizer that asks for anything not understood is refused by name. */
sl_status sl_tokenizer_open(const char *path, int vocab_limit, sl_tokenizer **out, sl_error *err);
/* The same from memory; `name` is for sentences. */
sl_status sl_tokenizer_parse(const char *json, size_t size, const char *name, int vocab_limit, sl_tokenizer **out,
                             sl_error *err);
void sl_tokenizer_free(sl_tokenizer *tokenizer);

int sl_tokenizer_size(const sl_tokenizer *tokenizer);                  /* largest id + 1 */
int sl_tokenizer_id(const sl_tokenizer *tokenizer, const char *piece); /* -1 if there is none; "<bos>" for example */
size_t sl_tokenizer_bytes(const sl_tokenizer *tokenizer);              /* memory it holds */

/* Appends nothing and puts nothing in front.  parse_special: added tokens with the special flag are found in the text;
 * those without it always are.  Invalid UTF-8: each maximal ill-formed part becomes one U+FFFD first.
 * *ids: malloc'd, freed by the caller. */
sl_status sl_tokenizer_encode(const sl_tokenizer *tokenizer, const char *text, size_t size, bool parse_special,
                              int32_t **ids, size_t *n, sl_error *err);

/* Decoding, token by token: out comes what may be shown so far, whole UTF-8 characters only.  A run of byte tokens is
 * held back until it is a character; each maximal ill-formed part becomes one U+FFFD. */
typedef struct sl_decoder {
  const sl_tokenizer *tokenizer;
  bool special;          /* show the names of special tokens */
  unsigned char held[4]; /* bytes of an unfinished character */
  int n_held;
  char *text; /* of the last put; owned */
  size_t size, capacity;
} sl_decoder;

void sl_decoder_init(sl_decoder *decoder, const sl_tokenizer *tokenizer, bool special);
void sl_decoder_free(sl_decoder *decoder);
/* decoder->text, ->size: what id adds (valid until the next put).  id -1 ends the stream. Ids outside the vocabulary
 * are SL_ERR_ARGUMENT; ids inside that have no piece give nothing. */
sl_status sl_decoder_put(sl_decoder *decoder, int32_t id, sl_error *err);

#endif
