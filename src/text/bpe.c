#include "text/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "text/utf8.h"

/* Where a text may be cut.
 *
 * Merges run over the whole text, yet most of it could as well be merged word by word.  A merge that reaches across
 * the boundary between two characters makes a piece that holds both, side by side.  So where no piece that any merge
 * makes holds these two characters side by side, nothing ever reaches across, and the two parts can be merged apart
 * with the same result.  This is asked of the vocabulary itself, for classes of characters: each ASCII character,
 * U+2581, and the other characters by blocks of 128.  (Classes only make the answer "may not cut" more often.)
 *
 * The argument needs that a symbol's text is the text it stands for, so no merge may take byte tokens or the unknown
 * token; and unknown characters must not be fused across a cut. */

static unsigned class_of(const char *character) {
  unsigned char c = (unsigned char)*character;
  if (c < 0x80) return c;
  unsigned code = sl_utf8_code_point(character);
  if (code == 0x2581) return 128;
  return 129 + (code >> 7) % (SL_TEXT_CLASSES - 129);
}

static bool touch(const sl_bpe *bpe, unsigned a, unsigned b) { return bpe->adjacent[a][b / 64] >> (b % 64) & 1; }

static void note_piece(sl_bpe *bpe, const char *text, size_t size) {
  size_t at = sl_utf8_length(text[0]);
  for (unsigned before = class_of(text), here; at < size; at += sl_utf8_length(text[at]), before = here) {
    here = class_of(text + at);
    bpe->adjacent[before][here / 64] |= 1ull << (here % 64);
  }
}

sl_status sl_bpe_index(sl_bpe *bpe, sl_error *err) {
  for (int c = 0; c < 128; c++) {
    char text = (char)c;
    bpe->ascii[c] = sl_pieces_find(bpe->pieces, &text, 1);
  }
  memset(bpe->adjacent, 0, sizeof bpe->adjacent);
  bpe->may_cut = bpe->bytes[0] >= 0;
  size_t n_ids = (size_t)bpe->pieces->size;
  if (!n_ids) return SL_OK;
  uint8_t *made = calloc(n_ids, 2), *fallback = made + n_ids;
  if (!made) return sl_fail(err, SL_ERR_MEMORY, "no memory to index %zu pieces", n_ids);
  for (int b = 0; b < 256 && bpe->may_cut; b++) fallback[bpe->bytes[b]] = 1;
  if (bpe->unknown >= 0) fallback[bpe->unknown] = 1;
  for (size_t i = 0; i < bpe->merges->n_slots; i++) {
    const sl_merge *m = &bpe->merges->slots[i];
    if (m->rank != SL_NO_RANK && (fallback[m->left] || fallback[m->right])) bpe->may_cut = false;
  }
  for (size_t rank = 0; rank < bpe->merges->n; rank++) {
    uint32_t result = bpe->merges->result[rank];
    if (made[result]) continue;
    made[result] = 1;
    size_t size;
    const char *text = sl_pieces_text(bpe->pieces, (int32_t)result, &size);
    note_piece(bpe, text, size);
  }
  free(made);
  return SL_OK;
}

/* ---- symbols ---------------------------------------------------------------------------------------------------- */

#define NONE UINT32_MAX /* no neighbour */
enum {
  SHORT = 24,        /* symbols; up to here looking through all of them beats the heap */
  LONGEST_KNOWN = 64 /* bytes of a word worth remembering */
};

typedef struct sl_bpe_symbol {
  uint32_t id;
  uint32_t rank;           /* of the merge with the next symbol; SL_NO_RANK: none, or the symbol is gone */
  uint32_t previous, next; /* indices; NONE at the ends.  Only for long words. */
} symbol;

typedef struct sl_bpe_known {
  size_t text, ids; /* where they begin */
  uint32_t size, n; /* size 0: free */
} known;

void sl_bpe_work_free(sl_bpe_work *w) {
  free(w->symbols);
  free(w->heap);
  free(w->known);
  w->symbols = NULL;
  w->heap = NULL;
  w->known = NULL;
}

/* Room for one more element. */
static bool grow(void **array, size_t n, size_t *capacity, size_t element) {
  if (n < *capacity) return true;
  size_t bigger = *capacity ? *capacity * 2 : 64;
  if (bigger > SIZE_MAX / element) return false;
  void *moved = realloc(*array, bigger * element);
  if (!moved) return false;
  *array = moved;
  *capacity = bigger;
  return true;
}

static sl_status no_memory(sl_error *err, size_t n) {
  return sl_fail(err, SL_ERR_MEMORY, "no memory for the tokens of the text, after %zu", n);
}

sl_status sl_bpe_append(sl_bpe_work *w, int32_t id, sl_error *err) {
  void *ids = w->ids;
  if (!grow(&ids, w->n, &w->capacity, sizeof *w->ids)) return no_memory(err, w->n);
  w->ids = ids;
  w->ids[w->n++] = id;
  return SL_OK;
}

static bool push_symbol(sl_bpe_work *w, int32_t id) {
  void *symbols = w->symbols;
  if (!grow(&symbols, w->n_symbols, &w->symbol_capacity, sizeof *w->symbols)) return false;
  w->symbols = symbols;
  w->symbols[w->n_symbols++].id = (uint32_t)id;
  return true;
}

/* One character: its piece, else its bytes, else the unknown token. */
static bool push_character(const sl_bpe *bpe, sl_bpe_work *w, const char *text, size_t size, bool *was_unknown) {
  int32_t id = size == 1 ? bpe->ascii[(unsigned char)*text] : sl_pieces_find(bpe->pieces, text, size);
  bool fuse = *was_unknown && bpe->fuse_unknown;
  *was_unknown = false;
  if (id >= 0) return push_symbol(w, id);
  if (bpe->bytes[0] >= 0) {
    for (size_t i = 0; i < size; i++)
      if (!push_symbol(w, bpe->bytes[(unsigned char)text[i]])) return false;
    return true;
  }
  *was_unknown = true;
  return fuse || push_symbol(w, bpe->unknown);
}

static bool make_symbols(const sl_bpe *bpe, sl_bpe_work *w, const char *text, size_t size) {
  w->n_symbols = 0;
  bool was_unknown = false;
  for (size_t at = 0; at < size;) {
    size_t length = sl_utf8_length(text[at]);
    if (!push_character(bpe, w, text + at, length, &was_unknown)) return false;
    at += length;
  }
  return true;
}

static uint32_t rank_of(const sl_bpe *bpe, uint32_t left, uint32_t right) {
  return sl_merge_rank(bpe->merges, left, right);
}

/* A few symbols: look for the lowest rank, merge, move the rest up. */
static void merge_short(const sl_bpe *bpe, sl_bpe_work *w) {
  symbol *s = w->symbols;
  size_t n = w->n_symbols;
  for (size_t i = 0; i + 1 < n; i++) s[i].rank = rank_of(bpe, s[i].id, s[i + 1].id);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; i++)
      if (s[i].rank < s[best].rank) best = i; /* the leftmost of equals */
    if (s[best].rank == SL_NO_RANK) break;
    s[best].id = bpe->merges->result[s[best].rank];
    n--;
    for (size_t i = best + 1; i < n; i++) s[i] = s[i + 1];
    if (best + 1 < n) s[best].rank = rank_of(bpe, s[best].id, s[best + 1].id);
    if (best > 0) s[best - 1].rank = rank_of(bpe, s[best - 1].id, s[best].id);
  }
  w->n_symbols = n;
}

/* Many symbols: a list of them, and a heap of (rank, position), so that a text without a cut takes n log n.  Entries
 * that a merge has made stale stay in the heap; they are known by their rank, which is not the symbol's any more. */

static bool heap_push(sl_bpe_work *w, uint32_t rank, uint32_t at) {
  if (rank == SL_NO_RANK) return true;
  void *heap = w->heap;
  if (!grow(&heap, w->n_heap, &w->heap_capacity, sizeof *w->heap)) return false;
  w->heap = heap;
  uint64_t entry = (uint64_t)rank << 32 | at;
  size_t i = w->n_heap++;
  for (; i > 0 && w->heap[(i - 1) / 2] > entry; i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
  w->heap[i] = entry;
  return true;
}

static uint64_t heap_pop(sl_bpe_work *w) {
  uint64_t *h = w->heap, top = h[0], last = h[--w->n_heap];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < w->n_heap; i = child) {
    if (child + 1 < w->n_heap && h[child + 1] < h[child]) child++;
    if (h[child] >= last) break;
    h[i] = h[child];
  }
  if (w->n_heap) h[i] = last;
  return top;
}

static bool renew_rank(const sl_bpe *bpe, sl_bpe_work *w, uint32_t at) {
  symbol *s = &w->symbols[at];
  s->rank = s->next == NONE ? SL_NO_RANK : rank_of(bpe, s->id, w->symbols[s->next].id);
  return heap_push(w, s->rank, at);
}

static bool merge_at(const sl_bpe *bpe, sl_bpe_work *w, uint32_t at) {
  symbol *s = &w->symbols[at], *gone = &w->symbols[s->next];
  s->id = bpe->merges->result[s->rank];
  s->next = gone->next;
  gone->rank = SL_NO_RANK;
  if (s->next != NONE) w->symbols[s->next].previous = at;
  return renew_rank(bpe, w, at) && (s->previous == NONE || renew_rank(bpe, w, s->previous));
}

static bool merge_long(const sl_bpe *bpe, sl_bpe_work *w) {
  uint32_t n = (uint32_t)w->n_symbols;
  w->n_heap = 0;
  for (uint32_t i = 0; i < n; i++) {
    w->symbols[i].previous = i ? i - 1 : NONE;
    w->symbols[i].next = i + 1 < n ? i + 1 : NONE;
  }
  for (uint32_t i = 0; i < n; i++)
    if (!renew_rank(bpe, w, i)) return false;
  while (w->n_heap) {
    uint64_t entry = heap_pop(w);
    uint32_t at = (uint32_t)entry;
    if (w->symbols[at].rank == (uint32_t)(entry >> 32) && !merge_at(bpe, w, at)) return false;
  }
  w->n_symbols = 0;
  for (uint32_t i = 0; i != NONE; i = w->symbols[i].next) w->symbols[w->n_symbols++].id = w->symbols[i].id;
  return true;
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

static sl_status encode_word(const sl_bpe *bpe, sl_bpe_work *w, const char *text, size_t size, sl_error *err) {
  if (!make_symbols(bpe, w, text, size)) return no_memory(err, w->n);
  if (w->n_symbols <= SHORT)
    merge_short(bpe, w);
  else if (!merge_long(bpe, w))
    return no_memory(err, w->n);
  for (size_t i = 0; i < w->n_symbols; i++) SL_TRY(sl_bpe_append(w, (int32_t)w->symbols[i].id, err));
  return SL_OK;
}

/* The word's entry, or the one that it may take over.  NULL where remembering does not pay. */
static known *recall(sl_bpe_work *w, const char *text, size_t size) {
  if (size < 2 || size > LONGEST_KNOWN || !w->n_known) return NULL;
  return &w->known[(size_t)sl_text_hash(text, size) & (w->n_known - 1)];
}

static sl_status encode_known(const sl_bpe *bpe, sl_bpe_work *w, const char *text, size_t from, size_t to,
                              sl_error *err) {
  size_t size = to - from;
  known *k = recall(w, text + from, size);
  if (k && k->size == size && memcmp(text + k->text, text + from, size) == 0) {
    for (uint32_t i = 0; i < k->n; i++) SL_TRY(sl_bpe_append(w, w->ids[k->ids + i], err));
    return SL_OK;
  }
  size_t before = w->n;
  SL_TRY(encode_word(bpe, w, text + from, size, err));
  if (k) *k = (known){.text = from, .ids = before, .size = (uint32_t)size, .n = (uint32_t)(w->n - before)};
  return SL_OK;
}

/* Where the word that begins at `from` ends. */
static size_t word_end(const sl_bpe *bpe, const char *text, size_t from, size_t to) {
  if (!bpe->may_cut) return to;
  size_t at = from + sl_utf8_length(text[from]);
  for (unsigned before = class_of(text + from), here; at < to; at += sl_utf8_length(text[at]), before = here) {
    here = class_of(text + at);
    if (!touch(bpe, before, here)) break;
  }
  return at;
}

sl_status sl_bpe_encode(const sl_bpe *bpe, sl_bpe_work *w, const char *text, size_t from, size_t to, sl_error *err) {
  if (!w->known && to - from > 256) {
    w->n_known = to - from > (1 << 16) ? 1 << 14 : 1 << 10;
    w->known = calloc(w->n_known, sizeof *w->known);
    if (!w->known) w->n_known = 0; /* slower, not wrong */
  }
  while (from < to) {
    size_t end = word_end(bpe, text, from, to);
    SL_TRY(encode_known(bpe, w, text, from, end, err));
    from = end;
  }
  return SL_OK;
}
