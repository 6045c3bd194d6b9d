/* The two tables of a tokenizer: pieces (text <-> id) and merges (two ids -> rank and the id they make). */
#ifndef SL_TEXT_VOCAB_H
#define SL_TEXT_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Ids are dense in practice, and tables are indexed by them: a larger one is a damaged file. */
#define SL_MAX_VOCAB (1 << 22)
#define SL_NO_RANK   UINT32_MAX

uint64_t sl_text_hash(const char *text, size_t size);

typedef struct sl_piece {
  uint32_t start, length; /* of its text in the arena; length 0: no piece has this id */
} sl_piece;

typedef struct sl_pieces {
  char *arena; /* the texts, one behind the other */
  size_t n_arena, arena_capacity;
  sl_piece *by_id; /* [capacity] */
  int size;        /* largest id + 1 */
  int capacity;
  uint64_t *slots; /* open addressing: id + 1 in the low half, the text's upper hash bits in the high half; 0 is free */
  size_t n_slots;  /* a power of two, or 0 */
  size_t n;        /* pieces */
} sl_pieces;

typedef enum sl_piece_added {
  SL_PIECE_ADDED,
  SL_PIECE_TEXT_TAKEN, /* another id has this text */
  SL_PIECE_ID_TAKEN,   /* another text has this id */
  SL_PIECE_NO_MEMORY
} sl_piece_added;

/* text: not empty; 0 <= id < SL_MAX_VOCAB. */
sl_piece_added sl_pieces_add(sl_pieces *pieces, const char *text, size_t size, int32_t id);
int32_t sl_pieces_find(const sl_pieces *pieces, const char *text, size_t size); /* -1: none */
/* The text of an id; *size is 0 if it has none (or is out of range). */
const char *sl_pieces_text(const sl_pieces *pieces, int32_t id, size_t *size);
void sl_pieces_trim(sl_pieces *pieces); /* gives back what growing left over */
void sl_pieces_free(sl_pieces *pieces);
size_t sl_pieces_bytes(const sl_pieces *pieces);

typedef struct sl_merge {
  uint32_t left, right; /* ids */
  uint32_t rank;        /* lower ranks are merged first; SL_NO_RANK marks a free slot */
} sl_merge;

typedef struct sl_merges {
  sl_merge *slots; /* open addressing */
  size_t n_slots;
  uint32_t *result; /* [n] by rank: the id that the merge makes */
  size_t n, capacity;
} sl_merges;

/* Gives it the next rank. */
typedef enum sl_merge_added { SL_MERGE_ADDED, SL_MERGE_TWICE, SL_MERGE_NO_MEMORY } sl_merge_added;
sl_merge_added sl_merges_add(sl_merges *merges, int32_t left, int32_t right, int32_t result);
void sl_merges_trim(sl_merges *merges);
void sl_merges_free(sl_merges *merges);
size_t sl_merges_bytes(const sl_merges *merges);

static inline size_t sl_merge_slot(const sl_merges *merges, uint32_t left, uint32_t right) {
  uint64_t h = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
  return (size_t)(h ^ h >> 29) & (merges->n_slots - 1);
}

/* The rank of merging two ids, SL_NO_RANK if they do not merge. */
static inline uint32_t sl_merge_rank(const sl_merges *merges, uint32_t left, uint32_t right) {
  if (!merges->n_slots) return SL_NO_RANK;
  for (size_t i = sl_merge_slot(merges, left, right);; i = (i + 1) & (merges->n_slots - 1)) {
    const sl_merge *m = &merges->slots[i];
    if ((m->left == left && m->right == right) || m->rank == SL_NO_RANK) return m->rank;
  }
}

#endif
