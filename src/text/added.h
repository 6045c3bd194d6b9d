/* Added tokens: names that are found in the text before the merges see it, "<|turn>" for example. */
#ifndef SL_TEXT_ADDED_H
#define SL_TEXT_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sl_added {
  char *content; /* malloc'd, may hold NULs */
  size_t size;
  int32_t id;
  bool special;        /* found only when special tokens are parsed; may be left out when decoding */
  bool normalized;     /* looked for in the normalized text (and normalized itself) instead of the raw text */
  bool lstrip, rstrip; /* takes the white space before, behind it along */
} sl_added;

/* Those that are looked for in the same text, sorted by content. */
typedef struct sl_added_set {
  sl_added *tokens; /* [n], owned */
  size_t n;
  struct sl_added_range {
    uint32_t first, end;
  } by_byte[256]; /* the tokens that begin with a byte */
} sl_added_set;

/* Sorts set->tokens, which are in place, and makes by_byte. */
void sl_added_index(sl_added_set *set);
void sl_added_free(sl_added_set *set);

/* The next token in text[*at..size), the leftmost and of those the longest; NULL if there is none.  *at moves behind
 * its name.  It covers [*start, *end) with the white space that it takes along, of which nothing before `covered` (the
 * end of the last one).  It may begin before `covered`, if its name is white space that the last one took: as in
 * Hugging Face's tokenizers it is found all the same.  Special tokens are found only if parse_special; what looks like
 * one is skipped as a whole otherwise, so that no other token is found inside it. */
const sl_added *sl_added_next(const sl_added_set *set, const char *text, size_t size, size_t *at, size_t covered,
                              bool parse_special, size_t *start, size_t *end);

#endif
