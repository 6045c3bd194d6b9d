#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "text/internal.h"
#include "text/utf8.h"

void sl_tokenizer_free(sl_tokenizer *t) {
  if (!t) return;
  sl_pieces_free(&t->pieces);
  sl_merges_free(&t->merges);
  sl_added_free(&t->raw);
  sl_added_free(&t->normalized);
  free(t->special);
  free(t);
}

int sl_tokenizer_size(const sl_tokenizer *t) { return t->pieces.size; }

int sl_tokenizer_left_out(const sl_tokenizer *t) { return t->n_left_out; }

int sl_tokenizer_id(const sl_tokenizer *t, const char *piece) {
  return sl_pieces_find(&t->pieces, piece, strlen(piece));
}

static size_t added_bytes(const sl_added_set *set) {
  size_t bytes = set->n * sizeof *set->tokens;
  for (size_t i = 0; i < set->n; i++) bytes += set->tokens[i].size;
  return bytes;
}

size_t sl_tokenizer_bytes(const sl_tokenizer *t) {
  return sizeof *t + sl_pieces_bytes(&t->pieces) + sl_merges_bytes(&t->merges) + added_bytes(&t->raw) +
         added_bytes(&t->normalized) + (size_t)t->pieces.size / 8 + 1;
}

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

bool sl_buffer_append(sl_text_buffer *b, const char *bytes, size_t n) {
  if (n >= SL_MAX_TEXT || b->n + n >= SL_MAX_TEXT) return false;
  if (b->capacity - b->n <= n) { /* keeps a byte for a NUL */
    size_t capacity = b->capacity ? b->capacity : 256;
    while (capacity - b->n <= n) capacity *= 2;
    char *moved = realloc(b->bytes, capacity);
    if (!moved) return false;
    b->bytes = moved;
    b->capacity = capacity;
  }
  if (n) memcpy(b->bytes + b->n, bytes, n);
  b->n += n;
  b->bytes[b->n] = '\0';
  return true;
}

bool sl_buffer_append_replaced(sl_text_buffer *b, const sl_replace *r, const char *text, size_t n) {
  while (n) {
    const char *found = r->n_from ? memmem(text, n, r->from, r->n_from) : NULL;
    size_t before = found ? (size_t)(found - text) : n;
    if (!sl_buffer_append(b, text, before)) return false;
    if (!found) return true;
    if (!sl_buffer_append(b, r->to, r->n_to)) return false;
    text += before + r->n_from;
    n -= before + r->n_from;
  }
  return true;
}

/* ---- encoding --------------------------------------------------------------------------------------------------- */

typedef struct encoding {
  const sl_tokenizer *t;
  bool parse_special;
  sl_bpe_work work;
  sl_text_buffer text; /* normalized, all of it so far */
  sl_error *err;
} encoding;

static sl_status encode_normalized(encoding *e, size_t from, size_t to) {
  size_t at = from, start, end; /* what stands before `from` is done */
  const sl_added *token;
  while ((token = sl_added_next(&e->t->normalized, e->text.bytes, to, &at, from, e->parse_special, &start, &end))) {
    if (from < start) SL_TRY(sl_bpe_encode(&e->t->bpe, &e->work, e->text.bytes, from, start, e->err));
    SL_TRY(sl_bpe_append(&e->work, token->id, e->err));
    from = end;
  }
  return from < to ? sl_bpe_encode(&e->t->bpe, &e->work, e->text.bytes, from, to, e->err) : SL_OK;
}

static sl_status encode_plain(encoding *e, const char *text, size_t size) {
  size_t from = e->text.n;
  if (!sl_buffer_append_replaced(&e->text, &e->t->normalizer, text, size))
    return sl_fail(e->err, SL_ERR_MEMORY, "no memory for a text of %zu bytes and its normal form", size);
  return encode_normalized(e, from, e->text.n);
}

static sl_status encode_text(encoding *e, const char *text, size_t size) {
  size_t from = 0, at = 0, start, end;
  const sl_added *token;
  while ((token = sl_added_next(&e->t->raw, text, size, &at, from, e->parse_special, &start, &end))) {
    if (from < start) SL_TRY(encode_plain(e, text + from, start - from));
    SL_TRY(sl_bpe_append(&e->work, token->id, e->err));
    from = end;
  }
  return from < size ? encode_plain(e, text + from, size - from) : SL_OK;
}

/* The text with each maximal ill-formed part replaced by U+FFFD. */
static bool repair(const char *text, size_t size, size_t bad, sl_text_buffer *out) {
  while (bad < size) {
    size_t length;
    sl_utf8_next(text + bad, size - bad, &length);
    if (!sl_buffer_append(out, text, bad) || !sl_buffer_append(out, SL_REPLACEMENT, 3)) return false;
    text += bad + length;
    size -= bad + length;
    bad = sl_utf8_bad(text, size);
  }
  return sl_buffer_append(out, text, size);
}

sl_status sl_tokenizer_encode(const sl_tokenizer *t, const char *text, size_t size, bool parse_special, int32_t **ids,
                              size_t *n, sl_error *err) {
  if (size >= SL_MAX_TEXT / 2)
    return sl_fail(err, SL_ERR_ARGUMENT, "a text of %zu bytes, at most %zu can be tokenized at once", size,
                   SL_MAX_TEXT / 2 - 1);
  if (!size) text = "";
  encoding e = {.t = t, .parse_special = parse_special, .err = err};
  sl_text_buffer repaired = {0};
  size_t bad = sl_utf8_bad(text, size);
  sl_status status = SL_OK;
  if (bad < size) {
    if (!repair(text, size, bad, &repaired)) status = sl_fail(err, SL_ERR_MEMORY, "no memory for %zu bytes", size);
    text = repaired.bytes;
    size = repaired.n;
  }
  if (status == SL_OK) status = encode_text(&e, text, size);
  if (status == SL_OK && !e.work.ids) { /* never NULL, so that an empty result is not taken for a failure */
    e.work.ids = malloc(sizeof *e.work.ids);
    if (!e.work.ids) status = sl_fail(err, SL_ERR_MEMORY, "no memory for no tokens");
  }
  free(repaired.bytes);
  free(e.text.bytes);
  sl_bpe_work_free(&e.work);
  if (status != SL_OK) {
    free(e.work.ids);
    return status;
  }
  *ids = e.work.ids;
  *n = e.work.n;
  return SL_OK;
}
