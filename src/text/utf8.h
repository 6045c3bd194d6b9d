/* Well-formed UTF-8, as chapter 3 of the Unicode standard has it (table 3-7). */
#ifndef SL_TEXT_UTF8_H
#define SL_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#define SL_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

typedef enum sl_utf8_kind {
  SL_UTF8_CHARACTER,
  SL_UTF8_UNFINISHED, /* all the bytes there are begin a character that more bytes could finish */
  SL_UTF8_ILL_FORMED  /* a maximal ill-formed part: one U+FFFD */
} sl_utf8_kind;

/* What text[0..size) begins with (size > 0), and how many bytes that takes.  At the end of a text an unfinished
 * character is an ill-formed part. */
sl_utf8_kind sl_utf8_next(const char *text, size_t size, size_t *length);

/* The offset of the first byte that is not part of a well-formed character; size if there is none. */
size_t sl_utf8_bad(const char *text, size_t size);

/* Bytes of the character that begins with `first`, in text known to be well-formed. */
static inline size_t sl_utf8_length(char first) {
  unsigned char c = (unsigned char)first;
  return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* The code point of a well-formed character. */
unsigned sl_utf8_code_point(const char *character);

#endif
