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
 * (the model's vocabulary), 0 for no limit but 4,194,304.  The file is read through a small window, so opening takes
 * little more memory than sl_tokenizer_bytes.
 *
 * What the file asks for is understood or refused by name (SL_ERR_UNSUPPORTED), what it gets wrong is SL_ERR_FORMAT:
 * merges of unknown pieces, ids out of range or given twice, missing byte tokens or unknown token, JSON that is broken,
 * not UTF-8 or nested deeper than 64.  A post_processor is known and ignored: putting <bos> in front is the caller's
 * business.  `truncation` and `padding` are ignored as transformers does. */
sl_status sl_tokenizer_open(const char *path, int vocab_limit, sl_tokenizer **out, sl_error *err);
/* The same from memory; `name` is for sentences. */
sl_status sl_tokenizer_parse(const char *json, size_t size, const char *name, int vocab_limit, sl_tokenizer **out,
                             sl_error *err);
void sl_tokenizer_free(sl_tokenizer *tokenizer);

int sl_tokenizer_size(const sl_tokenizer *tokenizer);                  /* largest id + 1 */
int sl_tokenizer_id(const sl_tokenizer *tokenizer, const char *piece); /* -1 if there is none; "<bos>" for example */
/* How many special tokens were left out, since they stand behind the model's vocabulary ("<image_soft_token>" of
 * text-only Gemma 3 models): their names are plain text. */
int sl_tokenizer_left_out(const sl_tokenizer *tokenizer);
size_t sl_tokenizer_bytes(const sl_tokenizer *tokenizer); /* memory it holds */

/* The ids of a text, equal to those of Hugging Face's tokenizers without their post-processor: nothing is put in front
 * or behind.  parse_special: added tokens with the special flag are found in the text; those without it always are.
 * Invalid UTF-8: each maximal ill-formed part becomes one U+FFFD first.  Takes n log n time for n bytes whatever they
 * are; a text of 1 GiB or more is SL_ERR_ARGUMENT.  *ids: malloc'd even if *n is 0, freed by the caller. */
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
/* decoder->text (with a NUL behind it), ->size: what id adds, valid until the next put.  id -1 ends the stream and
 * shows what was held back.  Ids that are neither in the tokenizer nor below its vocab_limit are SL_ERR_ARGUMENT and
 * change nothing; ids without a piece give nothing (a model's table may be longer than its tokenizer's). */
sl_status sl_decoder_put(sl_decoder *decoder, int32_t id, sl_error *err);

#endif
