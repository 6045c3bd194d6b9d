#include <stdlib.h>
#include <string.h>

#include "text/internal.h"
#include "text/utf8.h"

void sl_decoder_init(sl_decoder *d, const sl_tokenizer *tokenizer, bool special) {
  *d = (sl_decoder){.tokenizer = tokenizer, .special = special};
}

void sl_decoder_free(sl_decoder *d) {
  free(d->text);
  *d = (sl_decoder){0};
}

static int hex(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                : -1;
}

/* The value of a byte token such as "<0x41>", -1 for other pieces. */
static int byte_of(const char *piece, size_t size) {
  if (size != 6 || memcmp(piece, "<0x", 3) != 0 || piece[5] != '>') return -1;
  int high = hex(piece[3]), low = hex(piece[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* A surrogate, ED A0..BF xx, is ill-formed from its second byte on, but the stream waits for the third: it is one
 * mistake, and Python's decoder and the published cases show its three U+FFFD together. */
static bool half_surrogate(const sl_decoder *d) {
  return d->n_held == 2 && d->held[0] == 0xED && d->held[1] >= 0xA0 && d->held[1] <= 0xBF;
}

/* Moves what is decided from the held bytes to the text; at the end, and before other text, everything is. */
static bool release(sl_decoder *d, sl_text_buffer *out, bool all) {
  while (d->n_held) {
    size_t length;
    sl_utf8_kind kind = sl_utf8_next((const char *)d->held, (size_t)d->n_held, &length);
    if (!all && (kind == SL_UTF8_UNFINISHED || half_surrogate(d))) return true;
    bool good = kind == SL_UTF8_CHARACTER;
    if (!sl_buffer_append(out, good ? (const char *)d->held : SL_REPLACEMENT, good ? length : 3)) return false;
    d->n_held -= (int)length;
    memmove(d->held, d->held + length, (size_t)d->n_held);
  }
  return true;
}

static bool show(sl_decoder *d, int32_t id, sl_text_buffer *out) {
  const sl_tokenizer *t = d->tokenizer;
  size_t size;
  const char *piece = sl_pieces_text(&t->pieces, id, &size);
  if (!size || (!d->special && sl_is_special(t, id))) return true;
  int byte = t->decodes_bytes ? byte_of(piece, size) : -1;
  if (byte >= 0) {
    d->held[d->n_held++] = (unsigned char)byte; /* never more than an unfinished character and this one */
    return release(d, out, false);
  }
  return release(d, out, true) && sl_buffer_append_replaced(out, &t->shown, piece, size);
}

sl_status sl_decoder_put(sl_decoder *d, int32_t id, sl_error *err) {
  d->size = 0;
  if (id < -1 || id >= d->tokenizer->n_ids)
    return sl_fail(err, SL_ERR_ARGUMENT, "token id %d, expected 0 to %d", (int)id, d->tokenizer->n_ids - 1);
  sl_text_buffer out = {.bytes = d->text, .capacity = d->capacity};
  bool done = sl_buffer_append(&out, "", 0) && (id < 0 ? release(d, &out, true) : show(d, id, &out));
  d->text = out.bytes;
  d->capacity = out.capacity;
  d->size = out.n;
  return done ? SL_OK : sl_fail(err, SL_ERR_MEMORY, "no memory for the text of token %d", (int)id);
}
