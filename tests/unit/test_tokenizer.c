#include "unit/tokenizers.h"

#include <jansson.h>

/* Decodes one id at a time; each piece of output must be whole characters.  Returns all of it, malloc'd. */
static char *decode(const sl_tokenizer *t, const int32_t *ids, size_t n, bool special, size_t *size) {
  sl_decoder d;
  sl_decoder_init(&d, t, special);
  char *all = malloc(1);
  *size = 0;
  for (size_t i = 0; i <= n; i++) {
    assert_int_equal(sl_decoder_put(&d, i < n ? ids[i] : -1, NULL), SL_OK);
    assert_int_equal(sl_utf8_bad(d.text, d.size), d.size);
    all = realloc(all, *size + d.size + 1);
    memcpy(all + *size, d.text, d.size);
    *size += d.size;
  }
  all[*size] = '\0';
  sl_decoder_free(&d);
  return all;
}

static void expect_text(const sl_tokenizer *t, const int32_t *ids, size_t n, bool special, const char *text) {
  size_t size;
  char *got = decode(t, ids, n, special, &size);
  assert_string_equal(got, text);
  assert_int_equal(size, strlen(text));
  free(got);
}

/* ---- encoding --------------------------------------------------------------------------------------------------- */

static void lower_ranks_are_merged_first_and_the_leftmost_of_equals(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts((parts){.vocab = "\"<unk>\":0,\"a\":1,\"b\":2,\"c\":3,\"aa\":4,\"bc\":5,\"ab\":6",
                                       .merges = "[\"b\",\"c\"],[\"a\",\"b\"],[\"a\",\"a\"]"});
  expect_ids(t, "abc", false, 1, 5); /* bc before ab */
  expect_ids(t, "aab", false, 1, 6); /* ab before aa */
  expect_ids(t, "aaa", false, 4, 1);
  sl_tokenizer_free(t);
}

static void merges_may_be_spaced_strings_or_pairs(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts((parts){.merges = "\"a b\",\"ab a\""});
  expect_ids(t, "aba", false, 5);
  sl_tokenizer_free(t);
}

static void merges_may_stand_before_the_vocabulary(void **state) {
  (void)state;
  sl_tokenizer *t =
      open_json("{\"model\":{\"merges\":[[\"a\",\"b\"]],\"type\":\"BPE\",\"unk_token\":\"u\",\"vocab\":"
                "{\"a\":0,\"b\":1,\"u\":2,\"ab\":3}},\"decoder\":{\"type\":\"Sequence\",\"decoders\":[]}}",
                0);
  expect_ids(t, "abb", false, 3, 1);
  sl_tokenizer_free(t);
}

static void every_space_becomes_u2581_and_none_is_put_in_front(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts((parts){0});
  expect_ids(t, "a  b ", false, 1, 4, 4, 2, 4);
  expect_ids(t, "a" SPACE "b", false, 1, 4, 2);
  sl_tokenizer_free(t);
}

static void an_empty_text_has_no_tokens(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts((parts){0});
  expect_ids_of(t, "", 0, true, NULL, 0);
  expect_ids_of(t, NULL, 0, true, NULL, 0);
  sl_tokenizer_free(t);
}

static void a_character_without_a_piece_falls_back_to_its_bytes(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts((parts){.bytes = true});
  expect_ids(t, "a\xC3\xA9z", false, 1, 1000 + 0xC3, 1000 + 0xA9, 1000 + 'z');
  expect_ids_of(t, "\0", 1, false, (const int32_t[]){1000}, 1);
  sl_tokenizer_free(t);
}

static void unknown_neighbours_are_fused_only_if_asked(void **state) {
  (void)state;
  sl_tokenizer *fused = open_parts((parts){0});
  expect_ids(fused,
             "xy\xC3\xA9"
             "axa",
             false, 0, 1, 0, 1);
  sl_tokenizer_free(fused);
  sl_tokenizer *apart = open_parts((parts){.model = "\"unk_token\":\"<unk>\",\"fuse_unk\":false,"});
  expect_ids(apart, "xya", false, 0, 0, 1);
  sl_tokenizer_free(apart);
}

static void a_name_of_a_byte_token_in_the_text_is_ordinary_text(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts((parts){.bytes = true});
  expect_ids(t, "<0x41>", false, 1000 + '<', 1000 + '0', 1000 + 'x', 1000 + '4', 1000 + '1', 1000 + '>');
  sl_tokenizer_free(t);
}

static void each_maximal_ill_formed_part_becomes_one_replacement_character(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts((parts){.vocab = "\"<unk>\":0,\"a\":1,\"" BAD "\":2", .merges = ""});
  static const struct {
    const char *text;
    int n;
  } cases[] = {{"\xFF", 1},         {"\xC3", 1},         {"\xE2\x82", 1},         {"\xF0\x9F\x98", 1},
               {"\xC0\xAF", 2},     {"\xED\xA0\x80", 3}, {"\xF4\x90\x80\x80", 4}, {"\xF8\x88\x80\x80\x80", 5},
               {"\xE2\x82\xE2", 2}, {"\x80\x80", 2},     {"\xF0\x80", 2}};
  const int32_t expected[] = {1, 2, 2, 2, 2, 2, 2};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[16];
    snprintf(text, sizeof text, "a%s", cases[i].text);
    expect_ids_of(t, text, strlen(text), false, expected, (size_t)cases[i].n + 1);
  }
  expect_ids(t,
             "a\xC3"
             "a\xFF"
             "a",
             false, 1, 2, 1, 2, 1);
  sl_tokenizer_free(t);
}

/* ---- added tokens ----------------------------------------------------------------------------------------------- */

static void special_tokens_forged_in_the_text_stay_plain(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts((parts){.added = ADDED(7, "<b>", true, false, false, false)});
  expect_ids(t, "a<b>a", true, 1, 7, 1);
  expect_ids(t, "a<b>a", false, 1, 0, 2, 0, 1);
  assert_int_equal(sl_tokenizer_id(t, "<b>"), 7);
  assert_int_equal(sl_tokenizer_id(t, "<c>"), -1);
  assert_int_equal(sl_tokenizer_size(t), 8);
  sl_tokenizer_free(t);
}

static void a_special_token_appended_beyond_the_model_is_plain_text(void **state) {
  (void)state;
  char *json = make_json(
      (parts){.added = ADDED(6, "<i>", true, false, false, false) "," ADDED(0, "<unk>", true, false, false, false)});
  sl_tokenizer *t = open_json(json, 6);
  expect_ids(t, "a<i><unk>", true, 1, 0, 0);
  assert_int_equal(sl_tokenizer_left_out(t), 1);
  assert_int_equal(sl_tokenizer_size(t), 6);
  assert_int_equal(sl_tokenizer_id(t, "<i>"), -1);
  sl_tokenizer_free(t);
  t = open_json(json, 7);
  expect_ids(t, "a<i><unk>", true, 1, 6, 0);
  assert_int_equal(sl_tokenizer_left_out(t), 0);
  sl_tokenizer_free(t);
  free(json);
}

static void added_tokens_that_are_not_special_are_always_found(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts((parts){.added = ADDED(7, "<b>", false, false, false, false)});
  expect_ids(t, "a<b>", false, 1, 7);
  expect_ids(t, "a<b>", true, 1, 7);
  sl_tokenizer_free(t);
}

static void nothing_is_found_inside_a_special_token_that_is_not_parsed(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts(
      (parts){.added = ADDED(7, "<ab>", true, false, false, false) "," ADDED(8, "ab>", false, false, false, false)});
  expect_ids(t, "<ab>ab>", false, 0, 3, 0, 8);
  expect_ids(t, "<ab>ab>", true, 7, 8);
  sl_tokenizer_free(t);
}

static void the_leftmost_and_longest_added_token_wins(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts((parts){
      .added = ADDED(7, "<<", true, false, false, false) "," ADDED(8, "<<a", true, false, false, false) "," ADDED(
          9, "<<ab<", true, false, false, false) "," ADDED(10, "a<", true, false, false, false)});
  expect_ids(t, "<<a", true, 8);
  expect_ids(t, "<<ab", true, 8, 2);
  expect_ids(t, "<<ab<", true, 9);
  expect_ids(t, "<<b", true, 7, 2);
  expect_ids(t, "a<<", true, 10, 0);
  sl_tokenizer_free(t);
}

static void strip_flags_take_the_white_space_along(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts(
      (parts){.added = ADDED(7, "<l>", true, false, true, false) "," ADDED(8, "<r>", true, false, false, true)});
  expect_ids(t, "a \xE3\x80\x80\n<l> a", true, 1, 7, 4, 1);
  expect_ids(t, "a <r> \xE3\x80\x80\na", true, 1, 4, 8, 1);
  expect_ids(t, "<r> <l>", true, 8, 7);
  sl_tokenizer_free(t);
}

/* Hugging Face's tokenizers (0.23) do so: a name that is white space is found even where the last token took it. */
static void white_space_that_is_a_token_is_found_behind_a_token_that_takes_it(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts(
      (parts){.added = ADDED(7, "<r>", true, false, false, true) "," ADDED(
                  8, "\\t\\t", false, false, false, false) "," ADDED(9, "\\n\\n", false, false, true, false)});
  expect_ids(t, "<r>\t\ta", true, 7, 8, 1);
  expect_ids(t, "<r>\n\na", true, 7, 1);
  sl_tokenizer_free(t);
}

static void normalized_added_tokens_are_looked_for_in_the_normalized_text(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts((parts){.added = ADDED(7, "a b", false, true, false, false)});
  expect_ids(t, "aa ba" SPACE "b", false, 1, 7, 7);
  sl_tokenizer_free(t);
}

/* ---- against the plainest possible merging ----------------------------------------------------------------------- */

enum { PLAIN_PIECES = 64, PLAIN_TEXT = 700 };

typedef struct plain {
  char piece[PLAIN_PIECES][40]; /* by id */
  int n_pieces;
  int left[PLAIN_PIECES], right[PLAIN_PIECES], made[PLAIN_PIECES]; /* by rank */
  int n_merges;
} plain;

static const char *const alphabet[] = {"a", "b", "<", "\n", SPACE, "\xC3\xA9", "\xE5\xAD\x97", "7"};
enum { ALPHABET = sizeof alphabet / sizeof *alphabet };

static void make_plain(plain *p, unit_random *r) {
  p->n_pieces = p->n_merges = 0;
  for (int i = 0; i < ALPHABET; i++) strcpy(p->piece[p->n_pieces++], alphabet[i]);
  while (p->n_pieces < ALPHABET + 24) {
    int left = (int)(unit_next(r) % (uint64_t)p->n_pieces), right = (int)(unit_next(r) % (uint64_t)p->n_pieces);
    char joined[80];
    snprintf(joined, sizeof joined, "%s%s", p->piece[left], p->piece[right]);
    bool known = strlen(joined) >= sizeof p->piece[0];
    for (int i = 0; i < p->n_pieces; i++) known |= strcmp(p->piece[i], joined) == 0;
    if (known) continue;
    p->left[p->n_merges] = left;
    p->right[p->n_merges] = right;
    p->made[p->n_merges++] = p->n_pieces;
    strcpy(p->piece[p->n_pieces++], joined);
  }
  for (int i = p->n_merges - 1; i > 0; i--) { /* any order of ranks */
    int j = (int)(unit_next(r) % (uint64_t)(i + 1)), left = p->left[i], right = p->right[i], made = p->made[i];
    p->left[i] = p->left[j], p->right[i] = p->right[j], p->made[i] = p->made[j];
    p->left[j] = left, p->right[j] = right, p->made[j] = made;
  }
}

static size_t plain_encode(const plain *p, int32_t *ids, size_t n) {
  for (;;) {
    int best = p->n_merges;
    size_t at = 0;
    for (size_t i = 0; i + 1 < n; i++)
      for (int m = 0; m < best; m++)
        if (p->left[m] == ids[i] && p->right[m] == ids[i + 1]) best = m, at = i;
    if (best == p->n_merges) return n;
    ids[at] = p->made[best];
    memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
    n--;
  }
}

static sl_tokenizer *open_plain(const plain *p) {
  char vocab[8192], merges[8192];
  int n = snprintf(vocab, sizeof vocab, "\"<unk>\":999"), m = 0;
  for (int i = 0; i < p->n_pieces; i++) {
    n += snprintf(vocab + n, sizeof vocab - (size_t)n, ",\"");
    for (const char *c = p->piece[i]; *c; c++)
      n += snprintf(vocab + n, sizeof vocab - (size_t)n, *c == '\n' ? "\\n" : "%c", *c);
    n += snprintf(vocab + n, sizeof vocab - (size_t)n, "\":%d", i);
  }
  for (int i = 0; i < p->n_merges; i++) {
    m += snprintf(merges + m, sizeof merges - (size_t)m, "%s[", i ? "," : "");
    for (int side = 0; side < 2; side++) {
      m += snprintf(merges + m, sizeof merges - (size_t)m, "%s\"", side ? "," : "");
      for (const char *c = p->piece[side ? p->right[i] : p->left[i]]; *c; c++)
        m += snprintf(merges + m, sizeof merges - (size_t)m, *c == '\n' ? "\\n" : "%c", *c);
      m += snprintf(merges + m, sizeof merges - (size_t)m, "\"");
    }
    m += snprintf(merges + m, sizeof merges - (size_t)m, "]");
  }
  return open_parts((parts){.vocab = vocab, .merges = merges, .bytes = true});
}

static void cuts_caches_and_heaps_give_what_plain_merging_gives(void **state) {
  (void)state;
  unit_random r = {7};
  for (int vocabulary = 0; vocabulary < 40; vocabulary++) {
    plain p;
    make_plain(&p, &r);
    sl_tokenizer *t = open_plain(&p);
    for (int round = 0; round < 6; round++) {
      char text[4 * PLAIN_TEXT] = "";
      int32_t ids[PLAIN_TEXT];
      size_t n = (size_t)(unit_next(&r) % PLAIN_TEXT), size = 0;
      uint64_t letters = round % 2 ? ALPHABET : 2; /* few letters: long words */
      for (size_t i = 0; i < n; i++) {
        ids[i] = (int32_t)(unit_next(&r) % letters);
        size += (size_t)snprintf(text + size, sizeof text - size, "%s", alphabet[ids[i]]);
      }
      n = plain_encode(&p, ids, n);
      expect_ids_of(t, text, size, false, ids, n);
    }
    sl_tokenizer_free(t);
  }
}

static void nothing_is_cut_where_a_merge_takes_a_byte_token(void **state) {
  (void)state;
  sl_tokenizer *t =
      open_parts((parts){.vocab = "\"<unk>\":0,\"a\":1,\"<0xA9>a\":2", .merges = "[\"<0xA9>\",\"a\"]", .bytes = true});
  expect_ids(t,
             "\xC3\xA9"
             "a",
             false, 1000 + 0xC3, 2);
  sl_tokenizer_free(t);
}

static void a_text_without_a_cut_takes_far_less_than_quadratic_time(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts(
      (parts){.vocab = "\"<unk>\":0,\"a\":1,\"aa\":2,\"aaaa\":3", .merges = "[\"a\",\"a\"],[\"aa\",\"aa\"]"});
  size_t n = 1000000; /* a quadratic way would need hours, and the test's time-out */
  char *text = malloc(n);
  memset(text, 'a', n);
  int32_t *ids;
  size_t n_ids;
  assert_int_equal(sl_tokenizer_encode(t, text, n, false, &ids, &n_ids, NULL), SL_OK);
  assert_int_equal(n_ids, n / 4);
  for (size_t i = 0; i < n_ids; i++) assert_int_equal(ids[i], 3);
  free(ids);
  free(text);
  sl_tokenizer_free(t);
}

static void a_run_of_tokens_that_take_white_space_along_is_not_quadratic(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts((parts){.added = ADDED(7, "\\n\\n", false, false, true, true)});
  size_t n = 1000000, n_ids;
  char *text = malloc(n);
  memset(text, '\n', n);
  int32_t *ids;
  assert_int_equal(sl_tokenizer_encode(t, text, n, false, &ids, &n_ids, NULL), SL_OK);
  assert_int_equal(n_ids, 1); /* the first takes all */
  assert_int_equal(ids[0], 7);
  free(ids);
  free(text);
  sl_tokenizer_free(t);
}

/* ---- decoding --------------------------------------------------------------------------------------------------- */

static void a_stream_holds_back_unfinished_characters(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts((parts){.bytes = true});
  const int32_t ids[] = {1, 1000 + 0xF0, 1000 + 0x9F, 1000 + 0x99, 1000 + 0x82, 1000 + 0xE5, 1, -1};
  static const char *const shown[] = {"a", "", "", "", "\xF0\x9F\x99\x82", "", "\xEF\xBF\xBD\x61", ""};
  sl_decoder d;
  sl_decoder_init(&d, t, false);
  for (int i = 0; i < 8; i++) {
    assert_int_equal(sl_decoder_put(&d, ids[i], NULL), SL_OK);
    assert_string_equal(d.text, shown[i]);
    assert_int_equal(d.size, strlen(shown[i]));
  }
  sl_decoder_free(&d);
  sl_tokenizer_free(t);
}

static void ill_formed_runs_of_bytes_become_one_replacement_character_a_part(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts((parts){.bytes = true});
  static const struct {
    const char *bytes, *text;
  } cases[] = {
      {"\xFF", BAD},
      {"\x80\x80", BAD BAD},
      {"\xC0\xAF", BAD BAD},
      {"\xED\xA0\x80", BAD BAD BAD},
      {"\xED\xA0", BAD BAD},
      {"\xED\xA0\xED\x9F\xBF", BAD BAD "\xED\x9F\xBF"},
      {"\xF4\x90\x80\x80", BAD BAD BAD BAD},
      {"\xF0\x9F\x99", BAD},
      {"\xF0\x9F\xF0\x9F\x99\x82", BAD "\xF0\x9F\x99\x82"},
      {"\xE4\xBD\xA0\xFF", "\xE4\xBD\xA0" BAD},
      {"\xC3\xBC\xE5\xAD\x97", "\xC3\xBC\xE5\xAD\x97"},
      {"\xE2\x82"
       "A",
       BAD "A"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int32_t ids[16];
    size_t n = strlen(cases[i].bytes);
    for (size_t k = 0; k < n; k++) ids[k] = 1000 + (unsigned char)cases[i].bytes[k];
    expect_text(t, ids, n, false, cases[i].text);
  }
  sl_tokenizer_free(t);
}

static void a_hidden_special_token_does_not_cut_a_character_short(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts((parts){.bytes = true, .added = ADDED(7, "<b>", true, false, false, false)});
  const int32_t ids[] = {1000 + 0xC3, 7, 1000 + 0xBC};
  expect_text(t, ids, 3, false, "\xC3\xBC");
  expect_text(t, ids, 3, true, BAD "<b>" BAD);
  sl_tokenizer_free(t);
}

static void u2581_is_shown_as_a_space_and_the_first_space_stays(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts((parts){0});
  expect_text(t, (const int32_t[]){4, 1, 4, 4, 3}, 5, false, " a  ab");
  sl_tokenizer_free(t);
}

static void ids_without_a_piece_show_nothing_and_ids_beyond_the_vocabulary_are_refused(void **state) {
  (void)state;
  char *json = make_json((parts){0});
  sl_tokenizer *t = open_json(json, 100);
  free(json);
  expect_text(t, (const int32_t[]){1, 99, 6, 2}, 4, false, "ab");
  sl_decoder d;
  sl_decoder_init(&d, t, false);
  sl_error err = {0};
  assert_int_equal(sl_decoder_put(&d, 100, &err), SL_ERR_ARGUMENT);
  assert_string_equal(err.text, "token id 100, expected 0 to 99");
  assert_int_equal(sl_decoder_put(&d, -2, &err), SL_ERR_ARGUMENT);
  assert_int_equal(sl_decoder_put(&d, 1, &err), SL_OK);
  assert_string_equal(d.text, "a");
  sl_decoder_free(&d);
  sl_tokenizer_free(t);
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

/* Runs the lines of a case file: text -> ids, and ids -> text (or `decode` where that differs).  Returns how many. */
static int run_cases(const sl_tokenizer *t, const char *path) {
  FILE *f = fopen(path, "r");
  if (!f) fail_msg("%s is not there", path);
  char *line = NULL;
  size_t capacity = 0;
  int count = 0;
  for (ssize_t n; (n = getline(&line, &capacity, f)) > 0; count++) {
    json_t *c = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL);
    const json_t *text = json_object_get(c, "text"), *list = json_object_get(c, "ids");
    const json_t *plain_only = json_object_get(c, "parse_special");
    const json_t *back = json_object_get(c, "decode") ? json_object_get(c, "decode") : text;
    size_t n_ids = json_array_size(list), size;
    int32_t *ids = malloc((n_ids + 1) * sizeof *ids);
    for (size_t i = 0; i < n_ids; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    expect_ids_of(t, json_string_value(text), json_string_length(text), !json_is_false(plain_only), ids, n_ids);
    char *shown = decode(t, ids, n_ids, true, &size);
    assert_int_equal(size, json_string_length(back));
    assert_memory_equal(shown, json_string_value(back), size);
    free(shown);
    free(ids);
    json_decref(c);
  }
  free(line);
  fclose(f);
  return count;
}

static void the_small_tokenizer_gives_what_transformers_gives(void **state) {
  (void)state;
  sl_tokenizer *t = NULL;
  sl_error err = {0};
  if (sl_tokenizer_open("tests/text/small/tokenizer.json", 512, &t, &err) != SL_OK) fail_msg("%s", err.text);
  assert_int_equal(run_cases(t, "tests/text/small/cases.jsonl"), 16);
  assert_int_equal(sl_tokenizer_id(t, "<bos>"), 2);
  sl_tokenizer_free(t);
}

static void the_real_vocabulary_gives_what_transformers_gives(void **state) {
  (void)state;
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  char path[1024];
  snprintf(path, sizeof path, "%s%s/sluice-assets/gemma4/tokenizer.json",
           cache  ? cache
           : home ? home
                  : "",
           cache ? "" : "/.cache");
  sl_tokenizer *t = NULL;
  sl_error err = {0};
  sl_status status = sl_tokenizer_open(path, 262144, &t, &err);
  if (status == SL_ERR_NOT_FOUND) {
    print_message("SKIPPED: the tokenizer.json of a Gemma 4 checkpoint is not at %s\n", path);
    skip();
  }
  if (status != SL_OK) fail_msg("%s", err.text);
  assert_true(run_cases(t, "tests/text/gemma4_cases.jsonl") > 50);
  assert_true(sl_tokenizer_bytes(t) < 25u << 20);
  sl_tokenizer_free(t);
}

static void texts_come_back_from_their_tokens(void **state) {
  (void)state;
  sl_tokenizer *t = NULL;
  assert_int_equal(sl_tokenizer_open("tests/text/small/tokenizer.json", 512, &t, NULL), SL_OK);
  unit_random r = {3};
  for (int round = 0; round < 500; round++) {
    char text[64];
    size_t n = (size_t)(unit_next(&r) % 40), size = 0;
    for (size_t i = 0; i < n && size < 60; i++) {
      unsigned code = (unsigned)(unit_next(&r) % (round % 2 ? 0x80 : 0x800));
      if (code < 0x80)
        text[size++] = (char)code;
      else
        text[size++] = (char)(0xC0 | code >> 6), text[size++] = (char)(0x80 | (code & 0x3F));
    }
    int32_t *ids;
    size_t n_ids, n_shown;
    assert_int_equal(sl_tokenizer_encode(t, text, size, false, &ids, &n_ids, NULL), SL_OK);
    char *shown = decode(t, ids, n_ids, false, &n_shown);
    assert_int_equal(n_shown, size);
    assert_memory_equal(shown, text, size);
    free(shown);
    free(ids);
  }
  sl_tokenizer_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lower_ranks_are_merged_first_and_the_leftmost_of_equals),
      cmocka_unit_test(merges_may_be_spaced_strings_or_pairs),
      cmocka_unit_test(merges_may_stand_before_the_vocabulary),
      cmocka_unit_test(every_space_becomes_u2581_and_none_is_put_in_front),
      cmocka_unit_test(an_empty_text_has_no_tokens),
      cmocka_unit_test(a_character_without_a_piece_falls_back_to_its_bytes),
      cmocka_unit_test(unknown_neighbours_are_fused_only_if_asked),
      cmocka_unit_test(a_name_of_a_byte_token_in_the_text_is_ordinary_text),
      cmocka_unit_test(each_maximal_ill_formed_part_becomes_one_replacement_character),
      cmocka_unit_test(special_tokens_forged_in_the_text_stay_plain),
      cmocka_unit_test(a_special_token_appended_beyond_the_model_is_plain_text),
      cmocka_unit_test(added_tokens_that_are_not_special_are_always_found),
      cmocka_unit_test(nothing_is_found_inside_a_special_token_that_is_not_parsed),
      cmocka_unit_test(the_leftmost_and_longest_added_token_wins),
      cmocka_unit_test(strip_flags_take_the_white_space_along),
      cmocka_unit_test(white_space_that_is_a_token_is_found_behind_a_token_that_takes_it),
      cmocka_unit_test(normalized_added_tokens_are_looked_for_in_the_normalized_text),
      cmocka_unit_test(cuts_caches_and_heaps_give_what_plain_merging_gives),
      cmocka_unit_test(nothing_is_cut_where_a_merge_takes_a_byte_token),
      cmocka_unit_test(a_text_without_a_cut_takes_far_less_than_quadratic_time),
      cmocka_unit_test(a_run_of_tokens_that_take_white_space_along_is_not_quadratic),
      cmocka_unit_test(a_stream_holds_back_unfinished_characters),
      cmocka_unit_test(ill_formed_runs_of_bytes_become_one_replacement_character_a_part),
      cmocka_unit_test(a_hidden_special_token_does_not_cut_a_character_short),
      cmocka_unit_test(u2581_is_shown_as_a_space_and_the_first_space_stays),
      cmocka_unit_test(ids_without_a_piece_show_nothing_and_ids_beyond_the_vocabulary_are_refused),
      cmocka_unit_test(the_small_tokenizer_gives_what_transformers_gives),
      cmocka_unit_test(the_real_vocabulary_gives_what_transformers_gives),
      cmocka_unit_test(texts_come_back_from_their_tokens),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
