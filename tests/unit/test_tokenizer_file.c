#include "unit/tokenizers.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text/json_stream.h"

/* ---- what bad files get ----------------------------------------------------------------------------------------- */

static void expect_refusal_of(const char *json, size_t size, int limit, sl_status status, const char *sentence) {
  sl_tokenizer *t = NULL;
  sl_error err = {0};
  sl_status got = sl_tokenizer_parse(json, size, "t.json", limit, &t, &err);
  if (!strstr(err.text, sentence)) fail_msg("the sentence is \"%s\", expected in it \"%s\"", err.text, sentence);
  assert_int_equal(got, status);
  assert_null(t);
  assert_true(strncmp(err.text, "t.json: ", 8) == 0);
  assert_int_equal(sl_utf8_bad(err.text, strlen(err.text)), strlen(err.text));
  assert_int_equal(sl_tokenizer_parse(json, size, "t.json", limit, &t, NULL), status);
}

static void expect_refusal(parts p, sl_status status, const char *sentence) {
  char *json = make_json(p);
  expect_refusal_of(json, strlen(json), 0, status, sentence);
  free(json);
}

static void bad_vocabularies_are_refused_by_name(void **state) {
  (void)state;
  const sl_status F = SL_ERR_FORMAT;
  expect_refusal((parts){.vocab = "\"<unk>\":0,\"a\":-1", .merges = ""}, F, "id -1, expected 0 to 4194303 (of \"a\")");
  expect_refusal((parts){.vocab = "\"<unk>\":0,\"a\":4194304", .merges = ""}, F, "id 4194304");
  expect_refusal((parts){.vocab = "\"<unk>\":0,\"a\":99999999999999999999", .merges = ""}, F, "expected an integer");
  expect_refusal((parts){.vocab = "\"<unk>\":0,\"a\":1.5", .merges = ""}, F, "found 1.5");
  expect_refusal((parts){.vocab = "\"<unk>\":0,\"a\":01", .merges = ""}, F, "found 01");
  expect_refusal((parts){.vocab = "\"<unk>\":0,\"a\":\"1\"", .merges = ""}, F, "expected an integer");
  expect_refusal((parts){.vocab = "\"<unk>\":0,\"a\":1,\"b\":1", .merges = ""}, F,
                 "\"a\" and \"b\" have the same id 1");
  expect_refusal((parts){.vocab = "\"<unk>\":0,\"a\":1,\"a\":2", .merges = ""}, F, "model.vocab: \"a\" stands twice");
  expect_refusal((parts){.vocab = "\"<unk>\":0,\"\":1", .merges = ""}, F, "an empty piece");
  expect_refusal((parts){.vocab = "", .merges = ""}, F, "model.vocab has no pieces");
  expect_refusal((parts){.vocab = "\"a\":0", .merges = ""}, F, "unk_token \"<unk>\" is not in the vocabulary");
  expect_refusal((parts){.vocab = "\"a\":0", .merges = "", .model = ""}, SL_ERR_UNSUPPORTED, "neither unk_token nor");
  expect_refusal((parts){.model = "\"unk_token\":null,\"byte_fallback\":true,"}, F, "byte_fallback stands twice");
  char *json = make_json((parts){0});
  expect_refusal_of(json, strlen(json), 5, F, "id 5, expected 0 to 4 (of \"aba\")");
  free(json);
}

static void a_missing_byte_token_is_refused_by_name(void **state) {
  (void)state;
  char *json = make_json((parts){.bytes = true});
  memcpy(strstr(json, "<0x7F>"), "<0x7G>", 6);
  expect_refusal_of(json, strlen(json), 0, SL_ERR_FORMAT, "<0x7F> is not in the vocabulary");
  free(json);
}

static void bad_merges_are_refused_by_name(void **state) {
  (void)state;
  const sl_status F = SL_ERR_FORMAT;
  expect_refusal((parts){.merges = "[\"a\",\"x\"]"}, F, "model.merges[0]: \"x\" is not in the vocabulary");
  expect_refusal((parts){.merges = "[\"x\",\"a\"]"}, F, "model.merges[0]: \"x\" is not in the vocabulary");
  expect_refusal((parts){.merges = "\"a b\",\"b a\""}, F, "model.merges[1]: \"ba\" is not in the vocabulary");
  expect_refusal((parts){.merges = "\"a b\",\"a b\""}, F, "model.merges[1]: \"a\" + \"b\" stands twice");
  expect_refusal((parts){.merges = "\"ab\""}, F, "model.merges[0]: \"ab\", expected two pieces");
  expect_refusal((parts){.merges = "\"a b \""}, F, "expected two pieces");
  expect_refusal((parts){.merges = "\"a \""}, F, "model.merges[0]: \"\" is not in the vocabulary");
  expect_refusal((parts){.merges = "[\"a\"]"}, F, "model.merges[0]: 1 pieces, expected 2");
  expect_refusal((parts){.merges = "[]"}, F, "0 pieces");
  expect_refusal((parts){.merges = "[\"a\",\"b\",\"a\"]"}, F, "more than 2 pieces");
  expect_refusal((parts){.merges = "[1,2]"}, F, "expected a string");
  expect_refusal((parts){.merges = "5"}, F, "expected an array");
}

static void bad_added_tokens_are_refused_by_name(void **state) {
  (void)state;
  const sl_status F = SL_ERR_FORMAT, U = SL_ERR_UNSUPPORTED;
  expect_refusal((parts){.added = ADDED(9, "ab", true, false, false, false)}, F, "\"ab\" has id 9, but id 3 in model");
  expect_refusal((parts){.added = ADDED(1, "<b>", true, false, false, false)}, F, "\"a\" and \"<b>\" have the same id");
  expect_refusal((parts){.added = ADDED(-3, "<b>", true, false, false, false)}, F, "added_tokens: id -3");
  expect_refusal((parts){.added = ADDED(9, "", true, false, false, false)}, F, "content is empty");
  expect_refusal(
      (parts){.added = ADDED(9, "<b>", true, false, false, false) "," ADDED(9, "<b>", true, false, false, false)}, F,
      "\"<b>\" stands twice");
  expect_refusal((parts){.added = ADDED(9, "x", true, false, false, false)}, U, "is one character");
  expect_refusal((parts){.added = ADDED(9, "<b>", 1, false, false, false)}, F, "special: found 1");
  expect_refusal((parts){.added = "{\"id\":9,\"content\":\"<b>\"}"}, F, "added_tokens[0].special is missing");
  expect_refusal((parts){.added = "{\"id\":9,\"id\":9}"}, F, "added_tokens[0].id stands twice");
  expect_refusal((parts){.added = "{\"ids\":9}"}, U, "added_tokens[0].\"ids\" is not understood");
  expect_refusal((parts){.added =
                             "{\"id\":9,\"content\":\"<b>\",\"special\":true,\"normalized\":false,\"lstrip\":false,"
                             "\"rstrip\":false,\"single_word\":true}"},
                 U, "single_word: true is not understood");
}

static void added_tokens_beyond_the_model_are_refused_unless_special_and_appended(void **state) {
  (void)state;
  static const char *const added[] = {ADDED(6, "<i>", false, false, false, false),
                                      ADDED(7, "<i>", true, false, false, false)};
  static const char *const sentence[] = {"added_tokens: id 6, expected 0 to 5", "added_tokens: id 7, expected 0 to 5"};
  for (int i = 0; i < 2; i++) {
    char *json = make_json((parts){.added = added[i]});
    expect_refusal_of(json, strlen(json), 6, SL_ERR_FORMAT, sentence[i]);
    free(json);
  }
}

static void parts_that_are_not_understood_are_refused_by_name(void **state) {
  (void)state;
  const sl_status U = SL_ERR_UNSUPPORTED;
  expect_refusal((parts){.normalizer = "{\"type\":\"NFKC\"}"}, U, "normalizer: found NFKC");
  expect_refusal((parts){.normalizer = "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" \"},\"content\":\"x\"}"}, U,
                 "normalizer: found Replace");
  expect_refusal((parts){.normalizer = "[]"}, U, "normalizer: found no object");
  expect_refusal((parts){.pre_tokenizer = "{\"type\":\"ByteLevel\"}"}, U, "pre_tokenizer: found ByteLevel");
  expect_refusal((parts){.normalizer = "null",
                         .pre_tokenizer = "{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},"
                                          "\"behavior\":\"Isolated\",\"invert\":false}"},
                 U, "pre_tokenizer: found Split");
  expect_refusal((parts){.decoder = "null"}, U, "decoder: found null");
  expect_refusal((parts){.decoder = "{\"type\":\"Metaspace\"}"}, U, "decoder: found Metaspace");
  expect_refusal((parts){.decoder = "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Strip\"}]}"},
                 U, "decoder: found Strip");
  expect_refusal((parts){.top = "\"post_processor\":{\"type\":\"ByteLevel\"},"}, U, "post_processor: found ByteLevel");
  expect_refusal((parts){.top = "\"version\":\"2.0\","}, U, "version \"2.0\", expected \"1.0\"");
  expect_refusal((parts){.top = "\"extra\":1,"}, U, "\"extra\" is not understood");
  expect_refusal((parts){.model = "\"dropout\":0.1,"}, U, "model.dropout");
  expect_refusal((parts){.model = "\"end_of_word_suffix\":\"</w>\","}, U, "model.end_of_word_suffix");
  expect_refusal((parts){.model = "\"unk_token\":\"<unk>\",\"ignore_merges\":true,"}, U, "model.ignore_merges");
  expect_refusal((parts){.model = "\"scores\":[],"}, U, "model.\"scores\" is not understood");
  expect_refusal((parts){.model = "\"fuse_unk\":\"yes\","}, SL_ERR_FORMAT, "model.fuse_unk: found something else");
}

static void the_published_forms_of_the_small_parts_are_taken(void **state) {
  (void)state;
  sl_tokenizer *t = open_parts((parts){
      .pre_tokenizer = "{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":\"MergedWithPrevious\","
                       "\"invert\":false}",
      .top = "\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"post_processor\":{\"type\":"
             "\"TemplateProcessing\",\"single\":[],\"pair\":[],\"special_tokens\":{}},",
      .model = "\"dropout\":null,\"unk_token\":\"<unk>\",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":"
               "\"\",\"fuse_unk\":true,\"ignore_merges\":false,"});
  expect_ids(t, "ab a", false, 3, 4, 1);
  sl_tokenizer_free(t);
}

static void broken_json_is_refused_with_the_offset(void **state) {
  (void)state;
  static const struct {
    const char *json, *sentence;
  } cases[] = {
      {"", "byte 0: the text ends, expected an object"},
      {"[]", "byte 0: found '[', expected an object"},
      {"{", "the text ends, expected a string"},
      {"{\"model\"", "expected ':'"},
      {"{\"model\" 1", "found '1', expected ':'"},
      {"{\"padding\":nul}", "expected a value"},
      {"{\"padding\":1.}", "expected a value"},
      {"{\"padding\":[1,]}", "found ']', expected a value"},
      {"{\"padding\":{\"a\":1,}}", "found '}', expected a string"},
      {"{\"padding\":\"\\q\"}", "found 'q', expected an escape sequence"},
      {"{\"padding\":\"\\u12g4\"}", "found 'g', expected a hexadecimal digit"},
      {"{\"padding\":\"\\udc00\"}", "no lone surrogate"},
      {"{\"padding\":\"\\ud800x\"}", "the second half of a surrogate pair"},
      {"{\"padding\":\"\\ud800\\u0041\"}", "the second half of a surrogate pair"},
      {"{\"padding\":\"a\nb\"}", "found byte 0x0A, expected the end of a string"},
      {"{\"padding\":\"\xC3\"}", "is not UTF-8"},
      {"{\"padding\":\"\xED\xA0\x80\"}", "is not UTF-8"},
      {"{\"padding\":null} x", "found 'x', expected the end of the text"},
      {"{\"padding\":null}", "model is missing"},
      {"{\"model\":{}}", "model.type is missing"},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", "model.merges is missing"},
      {"{\"padding\":1,\"padding\":1}", "padding stands twice"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    expect_refusal_of(cases[i].json, strlen(cases[i].json), 0, SL_ERR_FORMAT, cases[i].sentence);
  }
  expect_refusal_of("{\"padding\":\0}", 13, 0, SL_ERR_FORMAT, "found byte 0x00, expected a value");
  expect_refusal((parts){.model = "\"type\":\"BPE\","}, SL_ERR_FORMAT, "model.type stands twice");
}

static void json_that_is_too_deep_is_refused(void **state) {
  (void)state;
  size_t n = 100000;
  char *json = malloc(n);
  memset(json, '[', n);
  memcpy(json, "{\"padding\":", 11);
  expect_refusal_of(json, n, 0, SL_ERR_FORMAT, "nested deeper than 64");
  memcpy(json, "{\"decoder\":", 11);
  expect_refusal_of(json, n, 0, SL_ERR_FORMAT, "nested deeper than 64");
  free(json);
}

static void every_cut_of_a_good_file_is_refused(void **state) {
  (void)state;
  char *json = make_json((parts){.added = ADDED(7, "<b>", true, false, false, false)});
  for (size_t size = 0; size < strlen(json); size++) {
    char *copy = malloc(size + 1); /* exactly as large, for the address sanitizer */
    memcpy(copy, json, size);
    sl_tokenizer *t = NULL;
    assert_int_equal(sl_tokenizer_parse(copy, size, "t.json", 0, &t, NULL), SL_ERR_FORMAT);
    free(copy);
  }
  free(json);
}

static void a_missing_file_is_named(void **state) {
  (void)state;
  sl_tokenizer *t = NULL;
  sl_error err = {0};
  assert_int_equal(sl_tokenizer_open("tests/text/none.json", 0, &t, &err), SL_ERR_NOT_FOUND);
  assert_string_equal(err.text, "tests/text/none.json: cannot be opened: No such file or directory");
  assert_int_equal(sl_tokenizer_open("tests/text", 0, &t, &err), SL_ERR_FORMAT);
}

static void a_pipe_is_refused_and_not_waited_for(void **state) {
  (void)state;
  char folder[] = "/tmp/sluice-pipe-XXXXXX", path[64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/tokenizer.json", folder);
  assert_int_equal(mkfifo(path, 0600), 0);
  sl_tokenizer *t = NULL;
  sl_error err = {0};
  assert_int_equal(sl_tokenizer_open(path, 0, &t, &err), SL_ERR_FORMAT);
  assert_non_null(strstr(err.text, "expected a regular file"));
  unlink(path);
  rmdir(folder);
}

static void sentences_quote_hostile_pieces_safely(void **state) {
  (void)state;
  expect_refusal((parts){.vocab = "\"<unk>\":0,\"\\u0000\\u0007\xC3\xA9\":-1", .merges = ""}, SL_ERR_FORMAT,
                 "(of \"\\00\\07\xC3\xA9\")");
  expect_refusal((parts){.vocab = "\"<unk>\":0,\"0123456789012345678901234567890123456789\xC3\xA9\":-1", .merges = ""},
                 SL_ERR_FORMAT, "(of \"012345678901234567890123456789012345678...\")");
}

static void seeds_of_the_fuzzer_are_answered(void **state) {
  (void)state;
  const char *folder = "tests/fuzz/seeds/tokenizer";
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  int count = 0;
  for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
    if (e->d_name[0] == '.') continue;
    char path[512], data[1 << 14];
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    const char *cut = memchr(data, 0xFF, size); /* the text for it stands behind */
    size_t n_json = cut ? (size_t)(cut - data) : size, n_ids;
    sl_tokenizer *t = NULL;
    sl_error err = {0};
    count++;
    if (sl_tokenizer_parse(data, n_json, "seed", 4096, &t, &err) != SL_OK) {
      assert_true(err.text[0] != '\0');
      continue;
    }
    int32_t *ids;
    assert_non_null(cut);
    assert_int_equal(sl_tokenizer_encode(t, cut + 1, size - n_json - 1, true, &ids, &n_ids, &err), SL_OK);
    free(ids);
    sl_tokenizer_free(t);
  }
  closedir(dir);
  assert_true(count >= 3);
}

/* ---- the stream over a file ---------------------------------------------------------------------------------------
 */

static void strings_may_cross_the_window_of_a_file(void **state) {
  (void)state;
  char path[] = "/tmp/sluice-test-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  FILE *f = fdopen(fd, "w");
  for (int pad = 65536 - 20; pad > 0; pad--) putc(' ', f);
  fputs("[ \"ab\\u00e9\xE5\xAD\x97\xF0\x9F\x99\x82\\n\\ud83d\\ude42\", -12345, true ]", f);
  fclose(f);
  sl_json_stream s;
  bool more, truth = false;
  int64_t number = 0;
  assert_int_equal(sl_json_stream_open(&s, path, NULL), SL_OK);
  assert_int_equal(sl_json_open_value(&s, '['), SL_OK);
  assert_int_equal(sl_json_next_element(&s, 0, &more), SL_OK);
  char c;
  assert_int_equal(sl_json_peek(&s, &c), SL_OK);
  uint64_t start = sl_json_offset(&s);
  for (int round = 0; round < 2; round++) {
    assert_int_equal(sl_json_copy(&s, 100), SL_OK);
    assert_string_equal(s.copy, "\"ab\\u00e9\xE5\xAD\x97\xF0\x9F\x99\x82\\n\\ud83d\\ude42\"");
    assert_string_equal(s.text, "ab\xC3\xA9\xE5\xAD\x97\xF0\x9F\x99\x82\n\xF0\x9F\x99\x82");
    if (!round) assert_int_equal(sl_json_seek(&s, start), SL_OK);
  }
  assert_int_equal(sl_json_next_element(&s, 1, &more), SL_OK);
  assert_int_equal(sl_json_take_integer(&s, "n", -99999, 0, &number), SL_OK);
  assert_int_equal(number, -12345);
  assert_int_equal(sl_json_next_element(&s, 2, &more), SL_OK);
  assert_int_equal(sl_json_take_bool(&s, "b", &truth), SL_OK);
  assert_true(truth);
  assert_int_equal(sl_json_next_element(&s, 3, &more), SL_OK);
  assert_false(more);
  assert_int_equal(sl_json_finish(&s), SL_OK);
  sl_json_stream_close(&s);
  remove(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bad_vocabularies_are_refused_by_name),
      cmocka_unit_test(a_missing_byte_token_is_refused_by_name),
      cmocka_unit_test(bad_merges_are_refused_by_name),
      cmocka_unit_test(bad_added_tokens_are_refused_by_name),
      cmocka_unit_test(added_tokens_beyond_the_model_are_refused_unless_special_and_appended),
      cmocka_unit_test(parts_that_are_not_understood_are_refused_by_name),
      cmocka_unit_test(the_published_forms_of_the_small_parts_are_taken),
      cmocka_unit_test(broken_json_is_refused_with_the_offset),
      cmocka_unit_test(json_that_is_too_deep_is_refused),
      cmocka_unit_test(every_cut_of_a_good_file_is_refused),
      cmocka_unit_test(a_missing_file_is_named),
      cmocka_unit_test(a_pipe_is_refused_and_not_waited_for),
      cmocka_unit_test(sentences_quote_hostile_pieces_safely),
      cmocka_unit_test(seeds_of_the_fuzzer_are_answered),
      cmocka_unit_test(strings_may_cross_the_window_of_a_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
