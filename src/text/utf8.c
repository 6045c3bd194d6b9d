#include "text/utf8.h"

#include <stdint.h>
#include <string.h>

/* How many bytes follow the first one (-1: it cannot be a first one), and what the second may be. */
static int expect(unsigned char first, unsigned char *low, unsigned char *high) {
  *low = 0x80;
  *high = 0xBF;
  if (first < 0x80) return 0;
  if (first < 0xC2 || first > 0xF4) return -1;
  if (first < 0xE0) return 1;
  if (first == 0xE0) *low = 0xA0;  /* else overlong */
  if (first == 0xED) *high = 0x9F; /* else a surrogate */
  if (first == 0xF0) *low = 0x90;  /* else overlong */
  if (first == 0xF4) *high = 0x8F; /* else beyond U+10FFFF */
  return first < 0xF0 ? 2 : 3;
}

sl_utf8_kind sl_utf8_next(const char *text, size_t size, size_t *length) {
  const unsigned char *s = (const unsigned char *)text;
  unsigned char low, high;
  int more = expect(s[0], &low, &high);
  *length = 1;
  if (more < 0) return SL_UTF8_ILL_FORMED;
  for (int i = 1; i <= more; i++) {
    if (*length == size) return SL_UTF8_UNFINISHED;
    if (s[i] < low || s[i] > high) return SL_UTF8_ILL_FORMED;
    low = 0x80;
    high = 0xBF;
    ++*length;
  }
  return SL_UTF8_CHARACTER;
}

size_t sl_utf8_bad(const char *text, size_t size) {
  size_t at = 0, length;
  while (at < size) {
    uint64_t eight;
    if (size - at >= 8) {
      memcpy(&eight, text + at, 8);
      if (!(eight & 0x8080808080808080u)) {
        at += 8;
        continue;
      }
    }
    if (sl_utf8_next(text + at, size - at, &length) != SL_UTF8_CHARACTER) return at;
    at += length;
  }
  return size;
}

unsigned sl_utf8_code_point(const char *character) {
  const unsigned char *s = (const unsigned char *)character;
  switch (sl_utf8_length(*character)) {
  case 1:
    return s[0];
  case 2:
    return (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu);
  case 3:
    return (s[0] & 0xFu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu);
  default:
    return (s[0] & 7u) << 18 | (s[1] & 0x3Fu) << 12 | (s[2] & 0x3Fu) << 6 | (s[3] & 0x3Fu);
  }
}
