/* JSON read front to back through a small window, for files whose tables are too big for a tree of values: a
 * vocabulary of 262,144 pieces is 32 MB of text, and as a tree takes hundreds.
 *
 * The caller says what it expects next.  Everything it skips is checked as strictly as what it reads: UTF-8, escapes,
 * nesting at most 64 deep.  Functions fail with SL_ERR_FORMAT and a sentence that has the byte offset, or SL_ERR_IO;
 * after a failure only sl_json_stream_close is useful.
 *
 *   SL_TRY(sl_json_open_value(s, '{'));
 *   for (size_t i = 0; ; i++) {
 *     SL_TRY(sl_json_next_key(s, i, &more));     the key is in s->text
 *     if (!more) break;
 *     ... read the value ...
 *   } */
#ifndef SL_TEXT_JSON_STREAM_H
#define SL_TEXT_JSON_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct sl_json_stream {
  const char *name; /* for sentences */
  sl_error *err;
  char *text; /* the last string or key, unescaped, with a NUL behind it; may hold NULs */
  size_t n_text;

  /* Its own: */
  int fd;               /* -1 when the whole text lies in memory */
  char *window;         /* of a file: owned */
  const char *at, *end; /* unread part of the window */
  uint64_t end_offset;  /* of `end` in the text */
  size_t text_capacity;
  int depth;
  const char *mark; /* while copying a value: where the uncopied part begins */
  char *copy;
  size_t n_copy, copy_capacity, copy_limit;
} sl_json_stream;

/* Close after a failed open too. */
sl_status sl_json_stream_open(sl_json_stream *s, const char *path, sl_error *err);
void sl_json_stream_memory(sl_json_stream *s, const char *json, size_t size, const char *name, sl_error *err);
void sl_json_stream_close(sl_json_stream *s);

/* The next byte that is not white space, without taking it: '"', '{', '[', 't', '-', a digit, ...; 0 at the end. */
sl_status sl_json_peek(sl_json_stream *s, char *c);
uint64_t sl_json_offset(const sl_json_stream *s);
/* Goes back to the offset of a value at this depth, to read it again. */
sl_status sl_json_seek(sl_json_stream *s, uint64_t offset);

/* bracket: '{' or '['. */
sl_status sl_json_open_value(sl_json_stream *s, char bracket);
/* The i-th member or element, counted from 0; false when there are no more (the bracket is closed then). */
sl_status sl_json_next_key(sl_json_stream *s, size_t i, bool *more);
sl_status sl_json_next_element(sl_json_stream *s, size_t i, bool *more);

sl_status sl_json_take_string(sl_json_stream *s);
/* An integer from lowest to highest; what: the field's name for the sentence. */
sl_status sl_json_take_integer(sl_json_stream *s, const char *what, int64_t lowest, int64_t highest, int64_t *value);
sl_status sl_json_take_bool(sl_json_stream *s, const char *what, bool *value);
sl_status sl_json_skip(sl_json_stream *s);
/* Skips a value of at most `limit` bytes and keeps its text: s->copy, s->n_copy, until the next call. */
sl_status sl_json_copy(sl_json_stream *s, size_t limit);
/* Only white space may follow. */
sl_status sl_json_finish(sl_json_stream *s);

#endif
