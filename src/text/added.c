#include "text/added.h"

#include <stdlib.h>
#include <string.h>

#include "text/utf8.h"

static int by_content(const void *a, const void *b) {
  const sl_added *x = a, *y = b;
  size_t shorter = x->size < y->size ? x->size : y->size;
  int order = memcmp(x->content, y->content, shorter);
  return order ? order : (x->size > y->size) - (x->size < y->size);
}

void sl_added_index(sl_added_set *set) {
  memset(set->by_byte, 0, sizeof set->by_byte);
  if (!set->n) return;
  qsort(set->tokens, set->n, sizeof *set->tokens, by_content);
  for (size_t i = set->n; i-- > 0;) {
    struct sl_added_range *range = &set->by_byte[(unsigned char)set->tokens[i].content[0]];
    if (!range->end) range->end = (uint32_t)i + 1;
    range->first = (uint32_t)i;
  }
}

void sl_added_free(sl_added_set *set) {
  for (size_t i = 0; i < set->n; i++) free(set->tokens[i].content);
  free(set->tokens);
  *set = (sl_added_set){0};
}

/* The first token of the range whose byte k is at least `byte`; all are longer than k and agree before it. */
static uint32_t lower_bound(const sl_added_set *set, struct sl_added_range range, size_t k, unsigned byte) {
  while (range.first < range.end) {
    uint32_t middle = range.first + (range.end - range.first) / 2;
    if ((unsigned char)set->tokens[middle].content[k] < byte)
      range.first = middle + 1;
    else
      range.end = middle;
  }
  return range.first;
}

/* The longest token that text begins with.  The tokens that share the first k bytes with the text are neighbours in
 * the sorted array: each byte narrows the range, and one whose content ends there is the first of it. */
static const sl_added *longest(const sl_added_set *set, const char *text, size_t size) {
  struct sl_added_range range = set->by_byte[(unsigned char)text[0]];
  const sl_added *best = NULL;
  for (size_t k = 1; range.first < range.end; k++) {
    if (set->tokens[range.first].size == k) best = &set->tokens[range.first++];
    if (k == size) break;
    unsigned byte = (unsigned char)text[k];
    range.first = lower_bound(set, range, k, byte);
    range.end = lower_bound(set, range, k, byte + 1);
  }
  return best;
}

static bool is_space(unsigned c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static size_t spaces_before(const char *text, size_t covered, size_t at) {
  if (at < covered) return covered;
  while (at > covered) {
    size_t character = at - 1;
    while (character > covered && ((unsigned char)text[character] & 0xC0) == 0x80) character--;
    if (!is_space(sl_utf8_code_point(text + character))) break;
    at = character;
  }
  return at;
}

static size_t spaces_behind(const char *text, size_t size, size_t at) {
  while (at < size && is_space(sl_utf8_code_point(text + at))) at += sl_utf8_length(text[at]);
  return at;
}

const sl_added *sl_added_next(const sl_added_set *set, const char *text, size_t size, size_t *at, size_t covered,
                              bool parse_special, size_t *start, size_t *end) {
  if (!set->n) return NULL;
  for (; *at < size; ++*at) {
    if (set->by_byte[(unsigned char)text[*at]].end == 0) continue;
    const sl_added *token = longest(set, text + *at, size - *at);
    if (!token) continue;
    size_t name = *at, behind = name + token->size;
    *at = behind - 1;
    if (token->special && !parse_special) continue;
    *start = token->lstrip ? spaces_before(text, covered, name) : name;
    /* Inside what the last token took, all is white space up to `covered`: looking again would be quadratic. */
    *end = token->rstrip ? spaces_behind(text, size, behind > covered ? behind : covered) : behind;
    if (*start >= *end) continue; /* the last token took all of it */
    *at = behind;
    return token;
  }
  return NULL;
}
