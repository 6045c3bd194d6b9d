/* Reads a Hugging Face tokenizer.json.  The two big tables are read as a stream; the small parts (normalizer, decoder
 * and so on) as trees.  What the file asks for is either understood or refused by name: a tokenizer that is nearly
 * right gives a model that is nearly right, and nobody sees why. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "text/internal.h"
#include "text/json_stream.h"
#include "text/utf8.h"

enum { MAX_PART = 1 << 22 }; /* bytes of a small part; SentencePiece's character maps are a few 100 KB */

typedef enum part { NORMALIZER, PRE_TOKENIZER, POST_PROCESSOR, DECODER, N_PARTS } part;
static const char *const part_names[N_PARTS] = {"normalizer", "pre_tokenizer", "post_processor", "decoder"};

typedef struct loader {
  sl_json_stream s;
  const char *name; /* of the file, for sentences */
  sl_error *err;
  sl_tokenizer *t;
  int32_t limit; /* ids are below it */
  bool has_vocab, has_merges;
  uint64_t late_merges; /* offset of merges that stand before the vocabulary; 0: none */
  char *unk;            /* unk_token; NULL: none */
  size_t n_unk;
  bool byte_fallback;
  sl_added *added; /* in file order; [n_added] */
  size_t n_added, added_capacity;
  sl_text_buffer joined; /* left and right piece of a merge */
  int32_t last_result;   /* the piece that the last merge made; -1: none */
  json_t *parts[N_PARTS];
} loader;

typedef struct shown {
  char text[64];
} shown;

/* A piece for a sentence: in quotes, at most 40 bytes, control characters as \xx. */
static shown show(const char *piece, size_t size) {
  shown out;
  size_t n = 0, at = 0;
  out.text[n++] = '"';
  while (at < size && n < 40) {
    size_t length = sl_utf8_length(piece[at]);
    if ((unsigned char)piece[at] < 0x20)
      n += (size_t)snprintf(out.text + n, 8, "\\%02x", (unsigned char)piece[at]);
    else {
      memcpy(out.text + n, piece + at, length);
      n += length;
    }
    at += length;
  }
  snprintf(out.text + n, sizeof out.text - n, at < size ? "...\"" : "\"");
  return out;
}

static shown show_id(const loader *l, int32_t id) {
  size_t size;
  const char *text = sl_pieces_text(&l->t->pieces, id, &size);
  return show(text, size);
}

static sl_status no_memory(const loader *l) {
  return sl_fail(l->err, SL_ERR_MEMORY, "%s: no memory for its tables", l->name);
}

/* A key may stand once in an object: seen holds a bit for each of `keys`. */
static sl_status know_key(loader *l, const char *where, const char *const *keys, unsigned *seen, int *index) {
  for (int i = 0; keys[i]; i++) {
    if (strlen(keys[i]) != l->s.n_text || memcmp(keys[i], l->s.text, l->s.n_text) != 0) continue;
    if (*seen >> i & 1) return sl_fail(l->err, SL_ERR_FORMAT, "%s: %s%s stands twice", l->name, where, keys[i]);
    *seen |= 1u << i;
    *index = i;
    return SL_OK;
  }
  return sl_fail(l->err, SL_ERR_UNSUPPORTED, "%s: %s%s is not understood", l->name, where,
                 show(l->s.text, l->s.n_text).text);
}

/* ---- model ------------------------------------------------------------------------------------------------------ */

static sl_status add_piece(loader *l, const char *where, const char *text, size_t size, int32_t id) {
  switch (sl_pieces_add(&l->t->pieces, text, size, id)) {
  case SL_PIECE_ADDED:
    return SL_OK;
  case SL_PIECE_TEXT_TAKEN:
    return sl_fail(l->err, SL_ERR_FORMAT, "%s: %s: %s stands twice", l->name, where, show(text, size).text);
  case SL_PIECE_ID_TAKEN:
    return sl_fail(l->err, SL_ERR_FORMAT, "%s: %s: %s and %s have the same id %d", l->name, where, show_id(l, id).text,
                   show(text, size).text, (int)id);
  case SL_PIECE_NO_MEMORY:
    break;
  }
  return no_memory(l);
}

static sl_status refuse_id(loader *l, const char *what, int64_t id, int32_t limit) {
  return sl_fail(l->err, SL_ERR_FORMAT, "%s: %s: id %" PRId64 ", expected 0 to %d", l->name, what, id, (int)limit - 1);
}

static sl_status take_id(loader *l, const char *what, int32_t limit, int32_t *id) {
  int64_t value = 0;
  SL_TRY(sl_json_take_integer(&l->s, what, INT64_MIN, INT64_MAX, &value));
  if (value < 0 || value >= limit) return refuse_id(l, what, value, limit);
  *id = (int32_t)value;
  return SL_OK;
}

static sl_status take_vocab(loader *l) {
  bool more;
  SL_TRY(sl_json_open_value(&l->s, '{'));
  for (size_t i = 0;; i++) {
    SL_TRY(sl_json_next_key(&l->s, i, &more));
    if (!more) break;
    if (!l->s.n_text) return sl_fail(l->err, SL_ERR_FORMAT, "%s: model.vocab: an empty piece", l->name);
    int32_t id = 0;
    if (take_id(l, "model.vocab", l->limit, &id) != SL_OK) /* taking a number leaves the key in s.text */
      return sl_fail(l->err, l->err ? l->err->status : SL_ERR_FORMAT, "%s (of %s)", l->err ? l->err->text : "",
                     show(l->s.text, l->s.n_text).text);
    SL_TRY(add_piece(l, "model.vocab", l->s.text, l->s.n_text, id));
  }
  l->has_vocab = true;
  return l->t->pieces.n ? SL_OK : sl_fail(l->err, SL_ERR_FORMAT, "%s: model.vocab has no pieces", l->name);
}

static sl_status find_piece(loader *l, size_t i, const char *text, size_t size, int32_t *id) {
  *id = sl_pieces_find(&l->t->pieces, text, size);
  if (*id >= 0) return SL_OK;
  return sl_fail(l->err, SL_ERR_FORMAT, "%s: model.merges[%zu]: %s is not in the vocabulary", l->name, i,
                 show(text, size).text);
}

static sl_status add_merge(loader *l, size_t i, int32_t left, int32_t right) {
  size_t n_left, n_right;
  const char *left_text = sl_pieces_text(&l->t->pieces, left, &n_left);
  const char *right_text = sl_pieces_text(&l->t->pieces, right, &n_right);
  l->joined.n = 0;
  if (!sl_buffer_append(&l->joined, left_text, n_left) || !sl_buffer_append(&l->joined, right_text, n_right))
    return no_memory(l);
  /* Merges that make the same piece are mostly neighbours: in Gemma 4's file half of these look-ups are saved, and
   * look-ups are what opening spends its time on. */
  size_t n_last;
  const char *last = sl_pieces_text(&l->t->pieces, l->last_result, &n_last);
  if (n_last != l->joined.n || memcmp(last, l->joined.bytes, n_last) != 0)
    SL_TRY(find_piece(l, i, l->joined.bytes, l->joined.n, &l->last_result));
  int32_t result = l->last_result;
  switch (sl_merges_add(&l->t->merges, left, right, result)) {
  case SL_MERGE_ADDED:
    return SL_OK;
  case SL_MERGE_TWICE:
    return sl_fail(l->err, SL_ERR_FORMAT, "%s: model.merges[%zu]: %s + %s stands twice", l->name, i,
                   show_id(l, left).text, show_id(l, right).text);
  case SL_MERGE_NO_MEMORY:
    break;
  }
  return no_memory(l);
}

/* ["a","b"] */
static sl_status take_pair(loader *l, size_t i, int32_t *left, int32_t *right) {
  SL_TRY(sl_json_open_value(&l->s, '['));
  bool more;
  size_t n = 0;
  for (;; n++) {
    SL_TRY(sl_json_next_element(&l->s, n, &more));
    if (!more || n == 2) break;
    SL_TRY(sl_json_take_string(&l->s));
    SL_TRY(find_piece(l, i, l->s.text, l->s.n_text, n ? right : left));
  }
  if (n == 2 && !more) return SL_OK;
  return sl_fail(l->err, SL_ERR_FORMAT, "%s: model.merges[%zu]: %s pieces, expected 2", l->name, i,
                 more ? "more than 2"
                 : n  ? "1"
                      : "0");
}

/* "a b": older files.  Their pieces hold no space. */
static sl_status take_spaced(loader *l, size_t i, int32_t *left, int32_t *right) {
  SL_TRY(sl_json_take_string(&l->s));
  const char *text = l->s.text, *end = text + l->s.n_text;
  const char *space = memchr(text, ' ', l->s.n_text);
  if (!space || memchr(space + 1, ' ', (size_t)(end - space - 1)))
    return sl_fail(l->err, SL_ERR_FORMAT, "%s: model.merges[%zu]: %s, expected two pieces with a space between them",
                   l->name, i, show(text, l->s.n_text).text);
  SL_TRY(find_piece(l, i, text, (size_t)(space - text), left));
  return find_piece(l, i, space + 1, (size_t)(end - space - 1), right);
}

static sl_status take_merges(loader *l) {
  bool more;
  SL_TRY(sl_json_open_value(&l->s, '['));
  for (size_t i = 0;; i++) {
    SL_TRY(sl_json_next_element(&l->s, i, &more));
    if (!more) return SL_OK;
    char c;
    int32_t left = -1, right = -1;
    SL_TRY(sl_json_peek(&l->s, &c));
    SL_TRY(c == '"' ? take_spaced(l, i, &left, &right) : take_pair(l, i, &left, &right));
    SL_TRY(add_merge(l, i, left, right));
  }
}

/* Merges are numbers of pieces, so they wait for the vocabulary. */
static sl_status take_merges_or_wait(loader *l) {
  l->has_merges = true;
  if (l->has_vocab) return take_merges(l);
  char c;
  SL_TRY(sl_json_peek(&l->s, &c));
  l->late_merges = sl_json_offset(&l->s);
  return sl_json_skip(&l->s);
}

static sl_status refuse_value(loader *l, const char *what, const char *expected) {
  return sl_fail(l->err, SL_ERR_UNSUPPORTED, "%s: model.%s: a value that is not understood, expected %s", l->name, what,
                 expected);
}

static sl_status take_null(loader *l, const char *what, bool or_empty_string) {
  char c;
  SL_TRY(sl_json_peek(&l->s, &c));
  bool fine = c == 'n' || c == 0 || (c == '"' && or_empty_string); /* at the end, skipping finds the words */
  if (fine) SL_TRY(sl_json_skip(&l->s));
  if (fine && (c == 'n' || l->s.n_text == 0)) return SL_OK;
  return refuse_value(l, what, "null");
}

static sl_status take_bpe(loader *l) {
  SL_TRY(sl_json_take_string(&l->s));
  return strcmp(l->s.text, "BPE") == 0 ? SL_OK : refuse_value(l, "type", "\"BPE\"");
}

static sl_status take_unk(loader *l) {
  char c;
  SL_TRY(sl_json_peek(&l->s, &c));
  if (c == 'n') return sl_json_skip(&l->s);
  SL_TRY(sl_json_take_string(&l->s));
  l->n_unk = l->s.n_text;
  l->unk = malloc(l->n_unk + 1);
  if (!l->unk) return no_memory(l);
  memcpy(l->unk, l->s.text, l->n_unk + 1);
  return SL_OK;
}

static sl_status take_model(loader *l) {
  enum { TYPE, DROPOUT, UNK, PREFIX, SUFFIX, FUSE, BYTES, IGNORE, VOCAB, MERGES };
  static const char *const keys[] = {"type",
                                     "dropout",
                                     "unk_token",
                                     "continuing_subword_prefix",
                                     "end_of_word_suffix",
                                     "fuse_unk",
                                     "byte_fallback",
                                     "ignore_merges",
                                     "vocab",
                                     "merges",
                                     NULL};
  unsigned seen = 0;
  bool more, ignore_merges = false;
  SL_TRY(sl_json_open_value(&l->s, '{'));
  for (size_t i = 0;; i++) {
    int key = 0;
    SL_TRY(sl_json_next_key(&l->s, i, &more));
    if (!more) break;
    SL_TRY(know_key(l, "model.", keys, &seen, &key));
    switch (key) {
    case TYPE:
      SL_TRY(take_bpe(l));
      break;
    case DROPOUT:
      SL_TRY(take_null(l, keys[key], false));
      break;
    case UNK:
      SL_TRY(take_unk(l));
      break;
    case PREFIX:
    case SUFFIX:
      SL_TRY(take_null(l, keys[key], true));
      break;
    case FUSE:
      SL_TRY(sl_json_take_bool(&l->s, "model.fuse_unk", &l->t->bpe.fuse_unknown));
      break;
    case BYTES:
      SL_TRY(sl_json_take_bool(&l->s, "model.byte_fallback", &l->byte_fallback));
      break;
    case IGNORE:
      SL_TRY(sl_json_take_bool(&l->s, "model.ignore_merges", &ignore_merges));
      break;
    case VOCAB:
      SL_TRY(take_vocab(l));
      break;
    default:
      SL_TRY(take_merges_or_wait(l));
      break;
    }
  }
  if (ignore_merges) return refuse_value(l, "ignore_merges", "false");
  for (int i = 0; keys[i]; i++)
    if ((i == TYPE || i == VOCAB || i == MERGES) && !(seen >> i & 1))
      return sl_fail(l->err, SL_ERR_FORMAT, "%s: model.%s is missing", l->name, keys[i]);
  return SL_OK;
}

/* ---- added tokens ----------------------------------------------------------------------------------------------- */

static sl_status take_content(loader *l, sl_added *token) {
  SL_TRY(sl_json_take_string(&l->s));
  token->size = l->s.n_text;
  token->content = malloc(token->size + 1);
  if (!token->content) return no_memory(l);
  memcpy(token->content, l->s.text, token->size + 1);
  return SL_OK;
}

static sl_status take_added_token(loader *l, const char *where, sl_added *token) {
  static const char *const keys[] = {"id", "content", "special", "normalized", "lstrip", "rstrip", "single_word", NULL};
  bool single_word = false, *const flags[] = {&token->special, &token->normalized, &token->lstrip, &token->rstrip,
                                              &single_word};
  unsigned seen = 0;
  bool more;
  SL_TRY(sl_json_open_value(&l->s, '{'));
  for (size_t i = 0;; i++) {
    int key = 0;
    SL_TRY(sl_json_next_key(&l->s, i, &more));
    if (!more) break;
    SL_TRY(know_key(l, where, keys, &seen, &key));
    if (key == 0)
      SL_TRY(take_id(l, "added_tokens", SL_MAX_VOCAB, &token->id));
    else if (key == 1)
      SL_TRY(take_content(l, token));
    else
      SL_TRY(sl_json_take_bool(&l->s, keys[key], flags[key - 2]));
  }
  for (int i = 0; keys[i]; i++)
    if (!(seen >> i & 1)) return sl_fail(l->err, SL_ERR_FORMAT, "%s: %s%s is missing", l->name, where, keys[i]);
  if (single_word)
    return sl_fail(l->err, SL_ERR_UNSUPPORTED, "%s: %ssingle_word: true is not understood, expected false", l->name,
                   where);
  return token->size ? SL_OK : sl_fail(l->err, SL_ERR_FORMAT, "%s: %scontent is empty", l->name, where);
}

static bool grow_added(loader *l) {
  if (l->n_added < l->added_capacity) return true;
  size_t capacity = l->added_capacity ? l->added_capacity * 2 : 32;
  sl_added *added = realloc(l->added, capacity * sizeof *added);
  if (!added) return false;
  l->added = added;
  l->added_capacity = capacity;
  return true;
}

static sl_status take_added_tokens(loader *l) {
  bool more;
  SL_TRY(sl_json_open_value(&l->s, '['));
  for (size_t i = 0;; i++) {
    SL_TRY(sl_json_next_element(&l->s, i, &more));
    if (!more) return SL_OK;
    if (!grow_added(l)) return no_memory(l);
    char where[48];
    snprintf(where, sizeof where, "added_tokens[%zu].", i);
    l->added[l->n_added] = (sl_added){0};
    SL_TRY(take_added_token(l, where, &l->added[l->n_added++]));
  }
}

/* Gives added tokens their ids, after the merges: these are of model.vocab alone. */
static sl_status place_added_token(loader *l, const sl_added *token) {
  sl_pieces *pieces = &l->t->pieces;
  int32_t known = sl_pieces_find(pieces, token->content, token->size);
  if (known == token->id) return SL_OK;
  shown name = show(token->content, token->size);
  if (known >= 0)
    return sl_fail(l->err, SL_ERR_FORMAT, "%s: added_tokens: %s has id %d, but id %d in model.vocab", l->name,
                   name.text, (int)token->id, (int)known);
  /* It would be taken for a character of the vocabulary where it is not looked for. */
  if (sl_utf8_length(token->content[0]) == token->size)
    return sl_fail(l->err, SL_ERR_UNSUPPORTED, "%s: added_tokens: %s is one character and not in model.vocab", l->name,
                   name.text);
  return add_piece(l, "added_tokens", token->content, token->size, token->id);
}

static sl_status refuse_equal_neighbours(loader *l, const sl_added_set *set) {
  for (size_t i = 1; i < set->n; i++) {
    const sl_added *a = &set->tokens[i - 1], *b = &set->tokens[i];
    if (a->size == b->size && memcmp(a->content, b->content, a->size) == 0)
      return sl_fail(l->err, SL_ERR_FORMAT, "%s: added_tokens: %s stands twice", l->name,
                     show(a->content, a->size).text);
  }
  return SL_OK;
}

/* What is looked for in normalized text is normalized itself. */
static sl_status normalize_token(loader *l, sl_added *token) {
  sl_text_buffer b = {0};
  if (!sl_buffer_append_replaced(&b, &l->t->normalizer, token->content, token->size) || !b.n) {
    free(b.bytes);
    return no_memory(l);
  }
  free(token->content);
  token->content = b.bytes;
  token->size = b.n;
  return SL_OK;
}

/* Text-only Gemma 3 models come with "<image_soft_token>", for which they have no row: a special token appended to the
 * vocabulary, beyond the model's.  It is left out, so that its name is plain text.  Other ids beyond are errors. */
static sl_status leave_out_beyond(loader *l) {
  size_t n = 0, n_max = (size_t)l->t->pieces.size + l->n_added;
  for (size_t i = 0; i < l->n_added; i++) {
    sl_added *token = &l->added[i];
    if (token->id < l->limit) {
      sl_added kept = *token;
      token->content = NULL; /* one owner, also where this fails half-way */
      l->added[n++] = kept;
      continue;
    }
    if (!token->special || (size_t)token->id >= n_max) return refuse_id(l, "added_tokens", token->id, l->limit);
    free(token->content);
    token->content = NULL;
    l->t->n_left_out++;
  }
  l->n_added = n;
  return SL_OK;
}

/* Moves the added tokens to the sets where they are looked for. */
static sl_status index_added_tokens(loader *l) {
  sl_tokenizer *t = l->t;
  SL_TRY(leave_out_beyond(l));
  for (size_t i = 0; i < l->n_added; i++) SL_TRY(place_added_token(l, &l->added[i]));
  t->special = calloc((size_t)t->pieces.size / 8 + 1, 1);
  t->raw.tokens = calloc(l->n_added + 1, sizeof *l->added);
  t->normalized.tokens = calloc(l->n_added + 1, sizeof *l->added);
  if (!t->special || !t->raw.tokens || !t->normalized.tokens) return no_memory(l);
  for (size_t i = 0; i < l->n_added; i++) {
    sl_added *token = &l->added[i];
    if (token->special) t->special[token->id / 8] |= (uint8_t)(1 << (token->id % 8));
    if (token->normalized) SL_TRY(normalize_token(l, token));
    sl_added_set *set = token->normalized ? &t->normalized : &t->raw;
    set->tokens[set->n++] = *token;
    token->content = NULL;
  }
  sl_added_index(&t->raw);
  sl_added_index(&t->normalized);
  SL_TRY(refuse_equal_neighbours(l, &t->raw));
  return refuse_equal_neighbours(l, &t->normalized);
}

/* ---- small parts ------------------------------------------------------------------------------------------------ */

static sl_status take_part(loader *l, part p) {
  SL_TRY(sl_json_copy(&l->s, MAX_PART));
  if (strcmp(l->s.copy, "null") == 0) return SL_OK;
  char name[512];
  snprintf(name, sizeof name, "%s: %s", l->name, part_names[p]);
  return sl_json_parse(l->s.copy, l->s.n_copy, name, &l->parts[p], l->err);
}

/* "type" of a part, or what stands there instead. */
static const char *type_of(const json_t *value) {
  const char *type = json_string_value(json_object_get(value, "type"));
  return type ? type : json_is_object(value) ? "an object without a type" : "no object";
}

static sl_status refuse_part(loader *l, part p, const json_t *value, const char *expected) {
  return sl_fail(l->err, SL_ERR_UNSUPPORTED, "%s: %s: found %.80s, expected %s", l->name, part_names[p],
                 value ? type_of(value) : "null", expected);
}

static bool is_type(const json_t *value, const char *type, size_t n_fields) {
  return strcmp(type_of(value), type) == 0 && json_object_size(value) == n_fields;
}

/* A pattern {"String": x}; NULL for others. */
static const json_t *plain_pattern(const json_t *value) {
  const json_t *pattern = json_object_get(value, "pattern");
  const json_t *string = json_object_get(pattern, "String");
  return json_object_size(pattern) == 1 && json_is_string(string) ? string : NULL;
}

/* {"type":"Replace","pattern":{"String":x},"content":y} with short x and y. */
static bool read_replace(const json_t *value, sl_replace *out) {
  const json_t *from = plain_pattern(value), *to = json_object_get(value, "content");
  if (!is_type(value, "Replace", 3) || !from || !json_is_string(to)) return false;
  out->n_from = json_string_length(from);
  out->n_to = json_string_length(to);
  if (!out->n_from || out->n_from > sizeof out->from || !out->n_to || out->n_to > sizeof out->to) return false;
  memcpy(out->from, json_string_value(from), out->n_from);
  memcpy(out->to, json_string_value(to), out->n_to);
  return true;
}

static sl_status use_normalizer(loader *l) {
  const json_t *value = l->parts[NORMALIZER];
  if (!value || read_replace(value, &l->t->normalizer)) return SL_OK;
  return refuse_part(l, NORMALIZER, value, "null or Replace of a short string by another");
}

/* The Gemma tokenizers split on the space that their normalizer has just replaced: that does nothing. */
static sl_status use_pre_tokenizer(loader *l) {
  const json_t *value = l->parts[PRE_TOKENIZER];
  if (!value) return SL_OK;
  const json_t *pattern = plain_pattern(value);
  const sl_replace *gone = &l->t->normalizer;
  if (is_type(value, "Split", 4) && json_is_false(json_object_get(value, "invert")) && pattern &&
      json_string_length(pattern) == 1 && gone->n_from == 1 && json_string_value(pattern)[0] == gone->from[0] &&
      !memchr(gone->to, gone->from[0], gone->n_to))
    return SL_OK;
  return refuse_part(l, PRE_TOKENIZER, value, "null or Split on a character that the normalizer replaces");
}

/* TemplateProcessing would add tokens such as <bos>; that is the caller's business here. */
static sl_status use_post_processor(loader *l) {
  const json_t *value = l->parts[POST_PROCESSOR];
  if (!value || strcmp(type_of(value), "TemplateProcessing") == 0) return SL_OK;
  return refuse_part(l, POST_PROCESSOR, value, "null or TemplateProcessing");
}

static sl_status use_decoder(loader *l) {
  static const char expected[] = "Sequence of Replace, ByteFallback and Fuse, in this order";
  const json_t *value = l->parts[DECODER], *steps = json_object_get(value, "decoders");
  if (!value || !is_type(value, "Sequence", 2) || !json_is_array(steps))
    return refuse_part(l, DECODER, value, expected);
  int order = 0; /* of the last step */
  for (size_t i = 0; i < json_array_size(steps); i++) {
    const json_t *step = json_array_get(steps, i);
    int here = read_replace(step, &l->t->shown)   ? 1
               : is_type(step, "ByteFallback", 1) ? 2
               : is_type(step, "Fuse", 1)         ? 3
                                                  : 0;
    if (here <= order) return refuse_part(l, DECODER, step, expected);
    l->t->decodes_bytes |= here == 2;
    order = here;
  }
  return SL_OK;
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static sl_status use_fallbacks(loader *l) {
  sl_bpe *bpe = &l->t->bpe;
  for (int b = 0; b < 256; b++) {
    char name[8];
    snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
    bpe->bytes[b] = l->byte_fallback ? sl_pieces_find(&l->t->pieces, name, 6) : -1;
    if (l->byte_fallback && bpe->bytes[b] < 0)
      return sl_fail(l->err, SL_ERR_FORMAT, "%s: model.byte_fallback is true, but %s is not in the vocabulary", l->name,
                     name);
  }
  bpe->unknown = l->unk ? sl_pieces_find(&l->t->pieces, l->unk, l->n_unk) : -1;
  if (l->unk && bpe->unknown < 0)
    return sl_fail(l->err, SL_ERR_FORMAT, "%s: model.unk_token %s is not in the vocabulary", l->name,
                   show(l->unk, l->n_unk).text);
  if (!l->byte_fallback && !l->unk)
    return sl_fail(l->err, SL_ERR_UNSUPPORTED,
                   "%s: the model has neither unk_token nor byte_fallback for characters outside its vocabulary",
                   l->name);
  return SL_OK;
}

static sl_status take_version(loader *l) {
  char c;
  SL_TRY(sl_json_peek(&l->s, &c));
  if (c == 'n') return sl_json_skip(&l->s);
  SL_TRY(sl_json_take_string(&l->s));
  if (strcmp(l->s.text, "1.0") == 0) return SL_OK;
  return sl_fail(l->err, SL_ERR_UNSUPPORTED, "%s: version %s, expected \"1.0\"", l->name,
                 show(l->s.text, l->s.n_text).text);
}

static sl_status take_file(loader *l) {
  enum { VERSION = N_PARTS, TRUNCATION, PADDING, ADDED, MODEL };
  static const char *const keys[] = {"normalizer", "pre_tokenizer", "post_processor", "decoder", "version",
                                     "truncation", "padding",       "added_tokens",   "model",   NULL};
  unsigned seen = 0;
  bool more;
  SL_TRY(sl_json_open_value(&l->s, '{'));
  for (size_t i = 0;; i++) {
    int key = 0;
    SL_TRY(sl_json_next_key(&l->s, i, &more));
    if (!more) break;
    SL_TRY(know_key(l, "", keys, &seen, &key));
    switch (key) {
    case VERSION:
      SL_TRY(take_version(l));
      break;
    case TRUNCATION: /* defaults of a batch call, which transformers overrides on every call */
    case PADDING:
      SL_TRY(sl_json_skip(&l->s));
      break;
    case ADDED:
      SL_TRY(take_added_tokens(l));
      break;
    case MODEL:
      SL_TRY(take_model(l));
      break;
    default:
      SL_TRY(take_part(l, (part)key));
      break;
    }
  }
  SL_TRY(sl_json_finish(&l->s));
  if (!(seen >> MODEL & 1)) return sl_fail(l->err, SL_ERR_FORMAT, "%s: model is missing", l->name);
  if (!l->late_merges) return SL_OK;
  SL_TRY(sl_json_seek(&l->s, l->late_merges));
  return take_merges(l);
}

static sl_status load(loader *l) {
  sl_tokenizer *t = l->t;
  t->bpe.pieces = &t->pieces;
  t->bpe.merges = &t->merges;
  SL_TRY(take_file(l));
  SL_TRY(use_normalizer(l));
  SL_TRY(use_pre_tokenizer(l));
  SL_TRY(use_post_processor(l));
  SL_TRY(use_decoder(l));
  SL_TRY(use_fallbacks(l));
  SL_TRY(sl_bpe_index(&t->bpe, l->err));
  SL_TRY(index_added_tokens(l));
  sl_pieces_trim(&t->pieces);
  sl_merges_trim(&t->merges);
  return SL_OK;
}

/* Takes over the stream that is open in l->s. */
static sl_status load_stream(loader *l, int vocab_limit, sl_tokenizer **out) {
  l->limit = vocab_limit > 0 && vocab_limit < SL_MAX_VOCAB ? vocab_limit : SL_MAX_VOCAB;
  l->t = calloc(1, sizeof *l->t);
  sl_status status = l->t ? load(l) : no_memory(l);
  sl_json_stream_close(&l->s);
  for (int p = 0; p < N_PARTS; p++) json_decref(l->parts[p]);
  for (size_t i = 0; i < l->n_added; i++) free(l->added[i].content);
  free(l->added);
  free(l->unk);
  free(l->joined.bytes);
  if (status != SL_OK) {
    sl_tokenizer_free(l->t);
    return status;
  }
  l->t->n_ids = vocab_limit > l->t->pieces.size ? vocab_limit : l->t->pieces.size;
  *out = l->t;
  return SL_OK;
}

sl_status sl_tokenizer_open(const char *path, int vocab_limit, sl_tokenizer **out, sl_error *err) {
  loader l = {.name = path, .err = err, .last_result = -1};
  sl_status status = sl_json_stream_open(&l.s, path, err);
  if (status != SL_OK) {
    sl_json_stream_close(&l.s);
    return status;
  }
  return load_stream(&l, vocab_limit, out);
}

sl_status sl_tokenizer_parse(const char *json, size_t size, const char *name, int vocab_limit, sl_tokenizer **out,
                             sl_error *err) {
  loader l = {.name = name, .err = err, .last_result = -1};
  sl_json_stream_memory(&l.s, json, size, name, err);
  return load_stream(&l, vocab_limit, out);
}
