#include "text/vocab.h"

#include <stdlib.h>
#include <string.h>

uint64_t sl_text_hash(const char *text, size_t size) {
  const uint64_t odd = 0x9FB21C651E98DF25u;
  uint64_t h = odd ^ size, word;
  for (; size >= 8; text += 8, size -= 8) {
    memcpy(&word, text, 8);
    h = (h ^ word) * odd;
    h ^= h >> 32;
  }
  word = 0;
  memcpy(&word, text, size);
  h = (h ^ word) * odd;
  h ^= h >> 29;
  h *= 0xD6E8FEB86659FD93u;
  return h ^ h >> 32;
}

/* ---- pieces ----------------------------------------------------------------------------------------------------- */

static bool grow_slots(sl_pieces *p) {
  size_t n_slots = p->n_slots ? p->n_slots * 2 : 256;
  uint64_t *slots = calloc(n_slots, sizeof *slots);
  if (!slots) return false;
  for (size_t i = 0; i < p->n_slots; i++) {
    if (!p->slots[i]) continue;
    const sl_piece *piece = &p->by_id[(uint32_t)p->slots[i] - 1];
    size_t at = (size_t)sl_text_hash(p->arena + piece->start, piece->length) & (n_slots - 1);
    while (slots[at]) at = (at + 1) & (n_slots - 1);
    slots[at] = p->slots[i];
  }
  free(p->slots);
  p->slots = slots;
  p->n_slots = n_slots;
  return true;
}

static bool grow_ids(sl_pieces *p, int32_t id) {
  if (id < p->capacity) return true;
  int capacity = p->capacity ? p->capacity : 256;
  while (capacity <= id) capacity *= 2; /* stays far from INT_MAX, since ids are below SL_MAX_VOCAB */
  sl_piece *by_id = realloc(p->by_id, (size_t)capacity * sizeof *by_id);
  if (!by_id) return false;
  memset(by_id + p->capacity, 0, (size_t)(capacity - p->capacity) * sizeof *by_id);
  p->by_id = by_id;
  p->capacity = capacity;
  return true;
}

static bool grow_arena(sl_pieces *p, size_t size) {
  if (size > UINT32_MAX - p->n_arena) return false;
  if (p->arena_capacity - p->n_arena >= size) return true;
  size_t capacity = p->arena_capacity ? p->arena_capacity : 4096;
  while (capacity - p->n_arena < size) capacity *= 2;
  char *arena = realloc(p->arena, capacity);
  if (!arena) return false;
  p->arena = arena;
  p->arena_capacity = capacity;
  return true;
}

/* The slot of a text, or the free one where it belongs. */
static size_t find_slot(const sl_pieces *p, const char *text, size_t size, uint64_t hash) {
  uint32_t tag = (uint32_t)(hash >> 32);
  for (size_t at = (size_t)hash & (p->n_slots - 1);; at = (at + 1) & (p->n_slots - 1)) {
    uint64_t slot = p->slots[at];
    if (!slot) return at;
    if ((uint32_t)(slot >> 32) != tag) continue;
    const sl_piece *piece = &p->by_id[(uint32_t)slot - 1];
    if (piece->length == size && memcmp(p->arena + piece->start, text, size) == 0) return at;
  }
}

sl_piece_added sl_pieces_add(sl_pieces *p, const char *text, size_t size, int32_t id) {
  if (p->n * 2 >= p->n_slots && !grow_slots(p)) return SL_PIECE_NO_MEMORY;
  if (!grow_ids(p, id) || !grow_arena(p, size)) return SL_PIECE_NO_MEMORY;
  uint64_t hash = sl_text_hash(text, size);
  size_t at = find_slot(p, text, size, hash);
  if (p->slots[at]) return SL_PIECE_TEXT_TAKEN;
  sl_piece *piece = &p->by_id[id];
  if (piece->length) return SL_PIECE_ID_TAKEN;
  *piece = (sl_piece){.start = (uint32_t)p->n_arena, .length = (uint32_t)size};
  memcpy(p->arena + p->n_arena, text, size);
  p->n_arena += size;
  p->slots[at] = (hash >> 32 << 32) | (uint32_t)(id + 1);
  p->n++;
  if (id >= p->size) p->size = id + 1;
  return SL_PIECE_ADDED;
}

int32_t sl_pieces_find(const sl_pieces *p, const char *text, size_t size) {
  if (!p->n_slots || !size) return -1;
  return (int32_t)(uint32_t)p->slots[find_slot(p, text, size, sl_text_hash(text, size))] - 1;
}

const char *sl_pieces_text(const sl_pieces *p, int32_t id, size_t *size) {
  *size = id >= 0 && id < p->size ? p->by_id[id].length : 0;
  return *size ? p->arena + p->by_id[id].start : "";
}

void sl_pieces_trim(sl_pieces *p) {
  char *arena = p->n_arena ? realloc(p->arena, p->n_arena) : NULL;
  if (arena) {
    p->arena = arena;
    p->arena_capacity = p->n_arena;
  }
  sl_piece *by_id = p->size ? realloc(p->by_id, (size_t)p->size * sizeof *by_id) : NULL;
  if (by_id) {
    p->by_id = by_id;
    p->capacity = p->size;
  }
}

void sl_pieces_free(sl_pieces *p) {
  free(p->arena);
  free(p->by_id);
  free(p->slots);
  *p = (sl_pieces){0};
}

size_t sl_pieces_bytes(const sl_pieces *p) {
  return p->arena_capacity + (size_t)p->capacity * sizeof *p->by_id + p->n_slots * sizeof *p->slots;
}

/* ---- merges ----------------------------------------------------------------------------------------------------- */

/* The slot of a pair, or the free one where it belongs. */
static sl_merge *find_merge(sl_merges *m, uint32_t left, uint32_t right) {
  size_t i = sl_merge_slot(m, left, right);
  while (m->slots[i].rank != SL_NO_RANK && (m->slots[i].left != left || m->slots[i].right != right))
    i = (i + 1) & (m->n_slots - 1);
  return &m->slots[i];
}

static bool grow_merges(sl_merges *m) {
  sl_merges bigger = *m;
  bigger.n_slots = m->n_slots ? m->n_slots * 2 : 256;
  bigger.slots = malloc(bigger.n_slots * sizeof *bigger.slots);
  if (!bigger.slots) return false;
  for (size_t i = 0; i < bigger.n_slots; i++) bigger.slots[i] = (sl_merge){.rank = SL_NO_RANK};
  for (size_t i = 0; i < m->n_slots; i++)
    if (m->slots[i].rank != SL_NO_RANK) *find_merge(&bigger, m->slots[i].left, m->slots[i].right) = m->slots[i];
  free(m->slots);
  *m = bigger;
  return true;
}

static bool grow_results(sl_merges *m) {
  if (m->n < m->capacity) return true;
  size_t capacity = m->capacity ? m->capacity * 2 : 256;
  uint32_t *result = realloc(m->result, capacity * sizeof *result);
  if (!result) return false;
  m->result = result;
  m->capacity = capacity;
  return true;
}

sl_merge_added sl_merges_add(sl_merges *m, int32_t left, int32_t right, int32_t result) {
  if (m->n >= SL_NO_RANK / 2) return SL_MERGE_NO_MEMORY;
  if (m->n * 2 >= m->n_slots && !grow_merges(m)) return SL_MERGE_NO_MEMORY;
  if (!grow_results(m)) return SL_MERGE_NO_MEMORY;
  sl_merge *slot = find_merge(m, (uint32_t)left, (uint32_t)right);
  if (slot->rank != SL_NO_RANK) return SL_MERGE_TWICE;
  *slot = (sl_merge){.left = (uint32_t)left, .right = (uint32_t)right, .rank = (uint32_t)m->n};
  m->result[m->n++] = (uint32_t)result;
  return SL_MERGE_ADDED;
}

void sl_merges_trim(sl_merges *m) {
  uint32_t *result = m->n ? realloc(m->result, m->n * sizeof *result) : NULL;
  if (!result) return;
  m->result = result;
  m->capacity = m->n;
}

void sl_merges_free(sl_merges *m) {
  free(m->slots);
  free(m->result);
  *m = (sl_merges){0};
}

size_t sl_merges_bytes(const sl_merges *m) { return m->n_slots * sizeof *m->slots + m->capacity * sizeof *m->result; }
