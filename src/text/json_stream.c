#include "text/json_stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "text/utf8.h"

enum { WINDOW = 1 << 16, MAX_DEPTH = 64 };

void sl_json_stream_memory(sl_json_stream *s, const char *json, size_t size, const char *name, sl_error *err) {
  *s = (sl_json_stream){.name = name, .err = err, .fd = -1, .at = json, .end = json + size, .end_offset = size};
}

sl_status sl_json_stream_open(sl_json_stream *s, const char *path, sl_error *err) {
  *s = (sl_json_stream){.name = path, .err = err, .fd = -1};
  uint64_t size;
  int fd;
  SL_TRY(sl_file_open(path, &fd, &size, err));
  s->fd = fd;
  s->window = malloc(WINDOW);
  if (!s->window) return sl_fail(err, SL_ERR_MEMORY, "%s: no memory for a window of %d bytes", path, WINDOW);
  s->at = s->end = s->window;
  return SL_OK;
}

void sl_json_stream_close(sl_json_stream *s) {
  if (s->fd >= 0) close(s->fd);
  free(s->window);
  free(s->text);
  free(s->copy);
  *s = (sl_json_stream){.fd = -1};
}

uint64_t sl_json_offset(const sl_json_stream *s) { return s->end_offset - (uint64_t)(s->end - s->at); }

static sl_status syntax(sl_json_stream *s, const char *expected) {
  uint64_t offset = sl_json_offset(s);
  if (s->at == s->end)
    return sl_fail(s->err, SL_ERR_FORMAT, "%s: byte %" PRIu64 ": the text ends, expected %s", s->name, offset,
                   expected);
  unsigned char c = (unsigned char)*s->at;
  if (c > 0x20 && c < 0x7F)
    return sl_fail(s->err, SL_ERR_FORMAT, "%s: byte %" PRIu64 ": found '%c', expected %s", s->name, offset, c,
                   expected);
  return sl_fail(s->err, SL_ERR_FORMAT, "%s: byte %" PRIu64 ": found byte 0x%02X, expected %s", s->name, offset, c,
                 expected);
}

static sl_status append(sl_json_stream *s, char **buffer, size_t *n, size_t *capacity, const char *bytes, size_t size) {
  if (*capacity - *n <= size) { /* one more for the NUL */
    size_t bigger = *capacity ? *capacity : 64;
    while (bigger - *n <= size) {
      if (bigger > SIZE_MAX / 2) return sl_fail(s->err, SL_ERR_MEMORY, "%s: a value of too many bytes", s->name);
      bigger *= 2;
    }
    char *moved = realloc(*buffer, bigger);
    if (!moved) return sl_fail(s->err, SL_ERR_MEMORY, "%s: no memory for a value of %zu bytes", s->name, *n + size);
    *buffer = moved;
    *capacity = bigger;
  }
  if (size) memcpy(*buffer + *n, bytes, size);
  *n += size;
  (*buffer)[*n] = '\0';
  return SL_OK;
}

/* Moves what is being copied out of the window before it goes. */
static sl_status save_marked(sl_json_stream *s) {
  size_t n = (size_t)(s->at - s->mark);
  if (n > s->copy_limit - s->n_copy)
    return sl_fail(s->err, SL_ERR_FORMAT, "%s: byte %" PRIu64 ": the value is longer than %zu bytes", s->name,
                   sl_json_offset(s), s->copy_limit);
  SL_TRY(append(s, &s->copy, &s->n_copy, &s->copy_capacity, s->mark, n));
  s->mark = s->at;
  return SL_OK;
}

/* With the window used up: reads the next one.  The window stays empty at the end of the text. */
static sl_status refill(sl_json_stream *s) {
  if (s->fd < 0) return SL_OK;
  if (s->mark) SL_TRY(save_marked(s));
  ssize_t n;
  do n = read(s->fd, s->window, WINDOW);
  while (n < 0 && errno == EINTR);
  if (n < 0) return sl_fail(s->err, SL_ERR_IO, "%s: %s", s->name, strerror(errno));
  s->at = s->window;
  s->end = s->window + n;
  s->end_offset += (uint64_t)n;
  if (s->mark) s->mark = s->at;
  return SL_OK;
}

sl_status sl_json_seek(sl_json_stream *s, uint64_t offset) {
  if (s->fd < 0) {
    s->at = s->end - (s->end_offset - offset);
    return SL_OK;
  }
  if (lseek(s->fd, (off_t)offset, SEEK_SET) < 0) return sl_fail(s->err, SL_ERR_IO, "%s: %s", s->name, strerror(errno));
  s->at = s->end = s->window;
  s->end_offset = offset;
  return SL_OK;
}

/* The next byte as it is, -1 at the end. */
static sl_status look(sl_json_stream *s, int *c) {
  if (s->at == s->end) SL_TRY(refill(s));
  *c = s->at == s->end ? -1 : (unsigned char)*s->at;
  return SL_OK;
}

sl_status sl_json_peek(sl_json_stream *s, char *c) {
  for (;;) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t')) s->at++;
    if (s->at < s->end) {
      *c = *s->at;
      return *c ? SL_OK : syntax(s, "a value");
    }
    SL_TRY(refill(s));
    if (s->at == s->end) {
      *c = 0;
      return SL_OK;
    }
  }
}

static sl_status take(sl_json_stream *s, char wanted, const char *expected) {
  char c;
  SL_TRY(sl_json_peek(s, &c));
  if (c != wanted || s->at == s->end) return syntax(s, expected);
  s->at++;
  return SL_OK;
}

sl_status sl_json_open_value(sl_json_stream *s, char bracket) {
  SL_TRY(take(s, bracket, bracket == '{' ? "an object" : "an array"));
  if (++s->depth > MAX_DEPTH)
    return sl_fail(s->err, SL_ERR_FORMAT, "%s: byte %" PRIu64 ": nested deeper than %d", s->name, sl_json_offset(s),
                   MAX_DEPTH);
  return SL_OK;
}

static sl_status next(sl_json_stream *s, size_t i, char close_with, bool *more) {
  char c;
  SL_TRY(sl_json_peek(s, &c));
  *more = c != close_with;
  if (!*more) {
    s->at++;
    s->depth--;
    return SL_OK;
  }
  if (i > 0) SL_TRY(take(s, ',', close_with == '}' ? "',' or '}'" : "',' or ']'"));
  return SL_OK;
}

sl_status sl_json_next_key(sl_json_stream *s, size_t i, bool *more) {
  SL_TRY(next(s, i, '}', more));
  if (!*more) return SL_OK;
  SL_TRY(sl_json_take_string(s));
  return take(s, ':', "':'");
}

sl_status sl_json_next_element(sl_json_stream *s, size_t i, bool *more) { return next(s, i, ']', more); }

static sl_status take_hex(sl_json_stream *s, unsigned *unit) {
  *unit = 0;
  for (int i = 0; i < 4; i++) {
    int c;
    SL_TRY(look(s, &c));
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return syntax(s, "a hexadecimal digit");
    *unit = *unit * 16 + (unsigned)digit;
    s->at++;
  }
  return SL_OK;
}

static sl_status append_text(sl_json_stream *s, const char *bytes, size_t n) {
  return append(s, &s->text, &s->n_text, &s->text_capacity, bytes, n);
}

static sl_status append_code_point(sl_json_stream *s, unsigned c) {
  char b[4];
  size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  static const unsigned char lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (size_t i = n - 1; i > 0; i--, c >>= 6) b[i] = (char)(0x80 | (c & 0x3F));
  b[0] = (char)(lead[n] | c);
  return append_text(s, b, n);
}

/* What follows "\u"; a character beyond U+FFFF is written as two of them. */
static sl_status take_unicode(sl_json_stream *s) {
  unsigned high, low;
  SL_TRY(take_hex(s, &high));
  if (high < 0xD800 || high > 0xDFFF) return append_code_point(s, high);
  static const char *expected = "the second half of a surrogate pair";
  if (high > 0xDBFF) return syntax(s, "no lone surrogate");
  int c;
  SL_TRY(look(s, &c));
  if (c != '\\') return syntax(s, expected);
  s->at++;
  SL_TRY(look(s, &c));
  if (c != 'u') return syntax(s, expected);
  s->at++;
  SL_TRY(take_hex(s, &low));
  if (low < 0xDC00 || low > 0xDFFF) return syntax(s, expected);
  return append_code_point(s, 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
}

static sl_status take_escape(sl_json_stream *s) {
  int c;
  s->at++; /* the backslash */
  SL_TRY(look(s, &c));
  if (c == 'u') {
    s->at++;
    return take_unicode(s);
  }
  static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  const char *found = c > 0 ? strchr(names, c) : NULL;
  if (!found) return syntax(s, "an escape sequence");
  s->at++;
  return append_text(s, &values[found - names], 1);
}

sl_status sl_json_take_string(sl_json_stream *s) {
  SL_TRY(take(s, '"', "a string"));
  s->n_text = 0;
  SL_TRY(append_text(s, "", 0));
  for (;;) {
    const char *from = s->at;
    while (s->at < s->end && *s->at != '"' && *s->at != '\\' && (unsigned char)*s->at >= 0x20) s->at++;
    SL_TRY(append_text(s, from, (size_t)(s->at - from)));
    int c;
    SL_TRY(look(s, &c));
    if (c == '"') break;
    if (c == '\\')
      SL_TRY(take_escape(s));
    else if (c < 0x20)
      return syntax(s, "the end of a string");
  }
  s->at++;
  /* Escapes give whole characters only, so checking the result checks the raw bytes. */
  if (sl_utf8_bad(s->text, s->n_text) != s->n_text)
    return sl_fail(s->err, SL_ERR_FORMAT, "%s: byte %" PRIu64 ": the string that ends here is not UTF-8", s->name,
                   sl_json_offset(s));
  return SL_OK;
}

/* Takes the letters of a number or name; longer ones than any that we accept are cut. */
static sl_status take_word(sl_json_stream *s, char *word, size_t size) {
  char first;
  SL_TRY(sl_json_peek(s, &first));
  size_t n = 0;
  for (;;) {
    int c;
    SL_TRY(look(s, &c));
    bool part = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == 'E' || c == '-' || c == '+' || c == '.';
    if (!part) break;
    if (n + 1 < size) word[n++] = (char)c;
    s->at++;
  }
  word[n] = '\0';
  return SL_OK;
}

/* Digits at p; NULL if there are none. */
static const char *digits(const char *p) {
  if (*p < '0' || *p > '9') return NULL;
  while (*p >= '0' && *p <= '9') p++;
  return p;
}

static bool is_number(const char *word) {
  const char *p = *word == '-' ? word + 1 : word;
  const char *after = digits(p);
  if (!after || (*p == '0' && after > p + 1)) return false;
  p = after;
  if (*p == '.' && !(p = digits(p + 1))) return false;
  if (*p == 'e' || *p == 'E') {
    p++;
    if (*p == '-' || *p == '+') p++;
    if (!(p = digits(p))) return false;
  }
  return !*p;
}

sl_status sl_json_take_integer(sl_json_stream *s, const char *what, int64_t lowest, int64_t highest, int64_t *value) {
  char first, word[24];
  SL_TRY(sl_json_peek(s, &first));
  bool number = first == '-' || (first >= '0' && first <= '9');
  if (number) SL_TRY(take_word(s, word, sizeof word));
  char *stop = word;
  errno = 0;
  long long v = number ? strtoll(word, &stop, 10) : 0;
  if (number && is_number(word) && !*stop && strlen(word) + 1 < sizeof word && errno == 0 && v >= lowest &&
      v <= highest) {
    *value = v;
    return SL_OK;
  }
  return sl_fail(s->err, SL_ERR_FORMAT, "%s: byte %" PRIu64 ": %s: found %s, expected an integer from %lld to %lld",
                 s->name, sl_json_offset(s), what, number ? word : "something else", (long long)lowest,
                 (long long)highest);
}

sl_status sl_json_take_bool(sl_json_stream *s, const char *what, bool *value) {
  char first, word[8];
  SL_TRY(sl_json_peek(s, &first));
  SL_TRY(take_word(s, word, sizeof word));
  *value = strcmp(word, "true") == 0;
  if (*value || strcmp(word, "false") == 0) return SL_OK;
  return sl_fail(s->err, SL_ERR_FORMAT, "%s: byte %" PRIu64 ": %s: found %s, expected true or false", s->name,
                 sl_json_offset(s), what, *word ? word : "something else");
}

static sl_status skip_word(sl_json_stream *s) {
  char word[64];
  SL_TRY(take_word(s, word, sizeof word));
  if (is_number(word) || !strcmp(word, "true") || !strcmp(word, "false") || !strcmp(word, "null")) return SL_OK;
  return syntax(s, "a value");
}

sl_status sl_json_skip(sl_json_stream *s) {
  char c;
  SL_TRY(sl_json_peek(s, &c));
  if (c == '"') return sl_json_take_string(s);
  if (c != '{' && c != '[') return skip_word(s);
  SL_TRY(sl_json_open_value(s, c)); /* limits the depth, so this may recurse */
  for (size_t i = 0;; i++) {
    bool more;
    SL_TRY(next(s, i, c == '{' ? '}' : ']', &more));
    if (!more) return SL_OK;
    if (c == '{') {
      SL_TRY(sl_json_take_string(s));
      SL_TRY(take(s, ':', "':'"));
    }
    SL_TRY(sl_json_skip(s));
  }
}

sl_status sl_json_copy(sl_json_stream *s, size_t limit) {
  char c;
  SL_TRY(sl_json_peek(s, &c));
  s->n_copy = 0;
  s->copy_limit = limit;
  s->mark = s->at;
  sl_status status = sl_json_skip(s);
  if (status == SL_OK) status = save_marked(s);
  s->mark = NULL;
  return status;
}

sl_status sl_json_finish(sl_json_stream *s) {
  char c;
  SL_TRY(sl_json_peek(s, &c));
  return c ? syntax(s, "the end of the text") : SL_OK;
}
