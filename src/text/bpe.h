/* Byte-pair merging over a vocabulary: text in the vocabulary's alphabet to ids. */
#ifndef SL_TEXT_BPE_H
#define SL_TEXT_BPE_H

#include "text/vocab.h"

#define SL_TEXT_CLASSES 256

typedef struct sl_bpe {
  const sl_pieces *pieces;
  const sl_merges *merges;
  int32_t bytes[256]; /* the tokens "<0x00>".."<0xFF>" of characters that have no piece; bytes[0] -1: there are none */
  int32_t unknown;    /* the token of characters that have neither; -1: none */
  bool fuse_unknown;  /* neighbouring unknown characters become one token */

  /* Made by sl_bpe_index: */
  int32_t ascii[128]; /* the piece of each ASCII character, -1: none */
  bool may_cut;
  uint64_t adjacent[SL_TEXT_CLASSES][SL_TEXT_CLASSES / 64]; /* characters of these classes stand side by side in
                                                             * something that a merge makes */
} sl_bpe;

/* Prepares `ascii` and the cuts.  The other fields are set. */
sl_status sl_bpe_index(sl_bpe *bpe, sl_error *err);

/* Working memory of one thread; zeroed before the first use. */
typedef struct sl_bpe_work {
  int32_t *ids; /* the result so far: each call appends */
  size_t n, capacity;

  /* Its own: */
  struct sl_bpe_symbol *symbols;
  uint64_t *heap;
  size_t n_symbols, symbol_capacity;
  size_t n_heap, heap_capacity;
  struct sl_bpe_known *known; /* words met before: where they stand in the text and their ids in the result */
  size_t n_known;
} sl_bpe_work;

void sl_bpe_work_free(sl_bpe_work *work); /* not the ids */

/* Appends the ids of text[from..to).  The text is well-formed UTF-8 and, for all calls with the same work, the same
 * text (it may grow and move, but what was there stays): words that come again are copied from the result. */
sl_status sl_bpe_encode(const sl_bpe *bpe, sl_bpe_work *work, const char *text, size_t from, size_t to, sl_error *err);
sl_status sl_bpe_append(sl_bpe_work *work, int32_t id, sl_error *err);

#endif
