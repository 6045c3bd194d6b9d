/* Checkpoints: what opens, what is refused, and that each refusal names file, tensor, found and expected. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/unit.h"
#include "weights/checkpoint.h"

/* ---- a folder for each test -------------------------------------------------------------------------------------- */

typedef struct fixture {
  char folder[64];
} fixture;

static void remove_tree(const char *path) {
  DIR *dir = opendir(path);
  for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
    char inner[1024];
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
    struct stat st;
    if (lstat(inner, &st) == 0 && S_ISDIR(st.st_mode))
      remove_tree(inner);
    else
      unlink(inner);
  }
  if (dir) closedir(dir);
  rmdir(path);
}

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  strcpy(f->folder, "/tmp/sluice-test-XXXXXX");
  if (!mkdtemp(f->folder)) return -1;
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  remove_tree(f->folder);
  free(f);
  return 0;
}

static void write_file(const fixture *f, const char *name, const void *data, size_t size) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", f->folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, size, file), size);
  fclose(file);
}

static void write_text(const fixture *f, const char *name, const char *text) {
  write_file(f, name, text, strlen(text));
}

/* A safetensors file whose header length is what the caller says and whose data are n zero bytes. */
static void write_tensors_lying(const fixture *f, const char *name, const char *header, uint64_t length, size_t n) {
  size_t size = 8 + strlen(header) + n;
  unsigned char *all = calloc(1, size);
  for (int i = 0; i < 8; i++) all[i] = (unsigned char)(length >> (8 * i));
  memcpy(all + 8, header, strlen(header));
  write_file(f, name, all, size);
  free(all);
}

static void write_tensors(const fixture *f, const char *name, const char *header, size_t n) {
  write_tensors_lying(f, name, header, strlen(header), n);
}

static sl_status open_folder(const fixture *f, sl_checkpoint **out, sl_error *err) {
  memset(err, 0, sizeof *err);
  return sl_checkpoint_open(f->folder, out, err);
}

/* Opens, expects a refusal whose sentence holds each of the words (NULL-terminated). */
static void expect_refusal(const fixture *f, sl_status status, const char *const *words) {
  sl_error err;
  sl_checkpoint *c = (sl_checkpoint *)&err;
  assert_int_equal(open_folder(f, &c, &err), status);
  assert_null(c);
  assert_int_equal(err.status, status);
  for (; *words; words++) {
    if (!strstr(err.text, *words)) fail_msg("\"%s\" does not say \"%s\"", err.text, *words);
  }
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void expect_header_refusal(void **state, const char *header, size_t n, const char *const *words) {
  write_text(*state, "config.json", "{}");
  write_tensors(*state, "model.safetensors", header, n);
  expect_refusal(*state, SL_ERR_FORMAT, words);
}

/* ---- one file ---------------------------------------------------------------------------------------------------- */

static void a_single_file_gives_its_tensors_sorted_by_name(void **state) {
  sl_error err;
  sl_checkpoint *c = NULL;
  const char *header = "{\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
                       "\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[5],\"data_offsets\":[12,17]},"
                       "\"__metadata__\":{\"format\":\"pt\"}}   ";
  write_text(*state, "config.json", "{\"model_type\":\"x\"}");
  write_tensors(*state, "model.safetensors", header, 17);
  assert_int_equal(open_folder(*state, &c, &err), SL_OK);
  assert_int_equal(c->n_tensors, 2);
  assert_string_equal(c->tensors[0].name, "a");
  const sl_tensor *b = sl_checkpoint_find(c, "b");
  assert_ptr_equal(b, &c->tensors[1]);
  assert_int_equal(b->dtype, SL_BF16);
  assert_int_equal(b->n_dims, 2);
  assert_int_equal(b->shape[1], 3);
  assert_int_equal(b->bytes, 12);
  assert_int_equal(b->offset, 8 + strlen(header));
  assert_ptr_equal(b->data, (const char *)c->files[0].base + 8 + strlen(header));
  assert_null(sl_checkpoint_find(c, "c"));
  assert_null(c->generation_config);
  sl_checkpoint_free(c);
}

static void an_empty_file_of_tensors_opens(void **state) {
  sl_error err;
  sl_checkpoint *c = NULL;
  write_text(*state, "config.json", "{}");
  write_tensors(*state, "model.safetensors", "{}", 0);
  assert_int_equal(open_folder(*state, &c, &err), SL_OK);
  assert_int_equal(c->n_tensors, 0);
  assert_null(sl_checkpoint_find(c, "a"));
  sl_checkpoint_free(c);
}

static void scalars_and_empty_tensors_are_tensors(void **state) {
  sl_error err;
  sl_checkpoint *c = NULL;
  write_text(*state, "config.json", "{}");
  write_tensors(*state, "model.safetensors",
                "{\"e\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807,4,0],\"data_offsets\":[0,0]},"
                "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
                4);
  assert_int_equal(open_folder(*state, &c, &err), SL_OK);
  assert_int_equal(sl_checkpoint_find(c, "s")->n_dims, 0);
  assert_int_equal(sl_checkpoint_find(c, "e")->bytes, 0);
  sl_checkpoint_free(c);
}

static void a_dtype_of_others_is_kept_by_its_name(void **state) {
  sl_error err;
  sl_checkpoint *c = NULL;
  write_text(*state, "config.json", "{}");
  write_tensors(*state, "model.safetensors",
                "{\"v\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
                "\"w\":{\"dtype\":\"Q9_NEW\",\"shape\":[3],\"data_offsets\":[8,10]}}",
                10);
  assert_int_equal(open_folder(*state, &c, &err), SL_OK);
  assert_int_equal(sl_checkpoint_find(c, "v")->dtype, SL_N_DTYPES);
  assert_string_equal(sl_checkpoint_find(c, "w")->dtype_name, "Q9_NEW");
  assert_int_equal(sl_checkpoint_find(c, "w")->bytes, 2);
  sl_checkpoint_free(c);
}

static void a_link_to_a_file_is_followed(void **state) {
  const fixture *f = *state;
  sl_error err;
  sl_checkpoint *c = NULL;
  char blob[128], path[128];
  write_text(f, "config.json", "{}");
  write_tensors(f, "blob", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
  snprintf(blob, sizeof blob, "%s/blob", f->folder);
  snprintf(path, sizeof path, "%s/model.safetensors", f->folder);
  assert_int_equal(symlink(blob, path), 0);
  assert_int_equal(open_folder(f, &c, &err), SL_OK);
  assert_int_equal(c->n_tensors, 1);
  sl_checkpoint_free(c);
}

static void a_file_cut_short_is_refused(void **state) {
  expect_header_refusal(state, "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 15,
                        WORDS("model.safetensors", "a:", "[0,16]", "beyond the 15 bytes"));
}

static void bytes_behind_the_last_tensor_are_refused(void **state) {
  expect_header_refusal(state, "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 17,
                        WORDS("model.safetensors", "17 bytes of data", "expected 16"));
}

static void a_git_lfs_pointer_is_recognised(void **state) {
  write_text(*state, "config.json", "{}");
  write_text(*state, "model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7\n");
  expect_refusal(*state, SL_ERR_FORMAT, WORDS("model.safetensors", "Git LFS"));
}

static void a_header_of_brackets_alone_is_refused_before_it_is_parsed(void **state) {
  (void)state;
  size_t size = 9000000;
  char *text = malloc(size);
  sl_tensor *tensors = NULL;
  int n = 0;
  sl_error err = {0};
  memset(text, ',', size);
  assert_int_equal(sl_safetensors_parse(text, size, 0, "x.safetensors", &tensors, &n, &err), SL_ERR_FORMAT);
  assert_non_null(strstr(err.text, "x.safetensors: a header of 9000001 JSON values"));
  free(text);
}

static void a_header_longer_than_the_file_is_refused(void **state) {
  write_text(*state, "config.json", "{}");
  write_tensors_lying(*state, "model.safetensors", "{}", UINT64_MAX, 0);
  expect_refusal(*state, SL_ERR_FORMAT,
                 WORDS("model.safetensors", "header length 18446744073709551615", "only 2 bytes"));
}

static void a_file_without_a_header_length_is_refused(void **state) {
  write_text(*state, "config.json", "{}");
  write_text(*state, "model.safetensors", "1234567");
  expect_refusal(*state, SL_ERR_FORMAT, WORDS("model.safetensors", "7 bytes", "expected at least the 8"));
}

static void overlapping_tensors_are_refused(void **state) {
  expect_header_refusal(state,
                        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                        "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
                        12, WORDS("b begins at byte 4", "inside a", "ends at 8"));
}

static void a_hole_between_tensors_is_refused(void **state) {
  expect_header_refusal(state,
                        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                        "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
                        12, WORDS("b begins at byte 8", "hole behind a", "expected 4"));
}

static void offsets_that_do_not_fit_the_shape_are_refused(void **state) {
  expect_header_refusal(state, "{\"a\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,13]}}", 13,
                        WORDS("a:", "span 13 bytes", "expected 12", "BF16", "[2,3]"));
}

static void the_size_of_a_dtype_that_is_not_computed_with_is_checked_too(void **state) {
  expect_header_refusal(state, "{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2,
                        WORDS("a:", "span 2 bytes", "F4"));
}

static void offsets_the_wrong_way_round_are_refused(void **state) {
  expect_header_refusal(state, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4,
                        WORDS("a:", "[4,0]", "begin <= end"));
}

static void negative_and_fractional_numbers_are_refused(void **state) {
  expect_header_refusal(state, "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4,
                        WORDS("a:", "dimension 0"));
  expect_header_refusal(state, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4,
                        WORDS("a:", "dimension 0"));
  expect_header_refusal(state, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4.0]}}", 4,
                        WORDS("a:", "data_offsets"));
  expect_header_refusal(state, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4,
                        WORDS("a:", "[-4,0]"));
}

static void a_shape_whose_product_overflows_is_refused(void **state) {
  expect_header_refusal(state, "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}",
                        0, WORDS("a:", "[4294967296,4294967296]", "64 bits"));
  expect_header_refusal(state, "{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,0]}}", 0,
                        WORDS("model.safetensors"));
}

static void too_many_dimensions_are_refused(void **state) {
  expect_header_refusal(state, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
                        WORDS("a:", "9 dimensions", "at most 8"));
}

static void duplicate_names_in_a_header_are_refused(void **state) {
  expect_header_refusal(state,
                        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                        "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
                        8, WORDS("model.safetensors", "duplicate", "\"a\""));
}

static void missing_fields_are_refused(void **state) {
  expect_header_refusal(state, "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, WORDS("a:", "dtype"));
  expect_header_refusal(state, "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, WORDS("a:", "shape"));
  expect_header_refusal(state, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, WORDS("a:", "data_offsets"));
  expect_header_refusal(state, "{\"a\":7}", 4, WORDS("a:", "dtype"));
}

static void a_header_that_is_no_object_is_refused(void **state) {
  expect_header_refusal(state, "[]", 0, WORDS("model.safetensors", "no JSON object"));
  expect_header_refusal(state, "{\"__metadata__\":[]}", 0, WORDS("__metadata__"));
  expect_header_refusal(state, "", 0, WORDS("model.safetensors"));
  expect_header_refusal(state, "{\"a\":", 0, WORDS("model.safetensors"));
}

static void wrong_utf8_is_refused(void **state) {
  expect_header_refusal(state, "{\"\xC3\x28\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
                        WORDS("model.safetensors"));
}

static void names_with_control_characters_are_refused(void **state) {
  expect_header_refusal(state, "{\"a\\u001b[2J\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
                        WORDS("control characters"));
  expect_header_refusal(state, "{\"a\":{\"dtype\":\"\\u0007\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
                        WORDS("a:", "control characters"));
}

static void json_nested_too_deep_is_refused(void **state) {
  char text[4096] = "{\"a\":";
  for (int i = 0; i < 1000; i++) strcat(text, "[");
  for (int i = 0; i < 1000; i++) strcat(text, "]");
  strcat(text, "}");
  expect_header_refusal(state, text, 0, WORDS("model.safetensors", "deeper"));
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

static void a_folder_that_is_not_there_is_not_found(void **state) {
  (void)state;
  sl_error err = {0};
  sl_checkpoint *c = NULL;
  assert_int_equal(sl_checkpoint_open("/nonexistent-sluice", &c, &err), SL_ERR_NOT_FOUND);
  assert_non_null(strstr(err.text, "/nonexistent-sluice"));
}

static void a_file_instead_of_a_folder_is_refused(void **state) {
  char path[128];
  sl_error err = {0};
  sl_checkpoint *c = NULL;
  write_text(*state, "model.gguf", "GGUF");
  snprintf(path, sizeof path, "%s/model.gguf", ((fixture *)*state)->folder);
  assert_int_equal(sl_checkpoint_open(path, &c, &err), SL_ERR_NOT_FOUND);
  assert_non_null(strstr(err.text, "expected a folder"));
}

static void a_folder_without_config_or_weights_says_what_is_missing(void **state) {
  expect_refusal(*state, SL_ERR_NOT_FOUND, WORDS("no config.json"));
  write_text(*state, "config.json", "{}");
  expect_refusal(*state, SL_ERR_NOT_FOUND, WORDS("model.safetensors", "model.safetensors.index.json"));
}

static void a_config_that_is_no_object_is_refused(void **state) {
  write_text(*state, "config.json", "[1]");
  expect_refusal(*state, SL_ERR_FORMAT, WORDS("config.json", "no JSON object"));
  write_text(*state, "config.json", "{}");
  write_text(*state, "generation_config.json", "\"x\"");
  expect_refusal(*state, SL_ERR_FORMAT, WORDS("generation_config.json"));
}

static void a_config_over_the_size_limit_is_refused(void **state) {
  size_t size = (16 << 20) + 1;
  char *text = malloc(size);
  memset(text, ' ', size);
  write_file(*state, "config.json", text, size);
  free(text);
  expect_refusal(*state, SL_ERR_FORMAT, WORDS("config.json"));
}

/* ---- shards ------------------------------------------------------------------------------------------------------ */

#define ONE(name) "{\"" name "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"

static void write_shards(const fixture *f, const char *index) {
  write_text(f, "config.json", "{}");
  write_tensors(f, "s1.safetensors", ONE("x"), 4);
  write_tensors(f, "s2.safetensors", ONE("y"), 4);
  write_text(f, "model.safetensors.index.json", index);
}

static void shards_make_one_table(void **state) {
  sl_error err;
  sl_checkpoint *c = NULL;
  write_shards(*state, "{\"metadata\":{},\"weight_map\":{\"y\":\"s2.safetensors\",\"x\":\"s1.safetensors\"}}");
  assert_int_equal(open_folder(*state, &c, &err), SL_OK);
  assert_int_equal(c->n_files, 2);
  assert_int_equal(c->n_tensors, 2);
  const sl_tensor *y = sl_checkpoint_find(c, "y");
  assert_non_null(strstr(c->files[y->file].path, "s2.safetensors"));
  sl_checkpoint_free(c);
}

static void a_missing_shard_is_named(void **state) {
  write_shards(*state, "{\"weight_map\":{\"x\":\"s1.safetensors\",\"y\":\"s3.safetensors\"}}");
  expect_refusal(*state, SL_ERR_NOT_FOUND, WORDS("s3.safetensors", "missing", "index.json"));
}

static void a_shard_outside_the_folder_is_refused(void **state) {
  static const char *const NAMES[] = {
      "../x.safetensors",    "/etc/x.safetensors", "a/b.safetensors", ".safetensors", "..", "x.bin", "",
      "x\\u0007.safetensors"};
  for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
    char index[256];
    snprintf(index, sizeof index, "{\"weight_map\":{\"x\":\"%s\"}}", NAMES[i]);
    write_shards(*state, index);
    expect_refusal(*state, SL_ERR_FORMAT, WORDS("weight_map", "file of this folder"));
  }
}

static void a_tensor_that_only_the_index_has_is_named(void **state) {
  write_shards(*state, "{\"weight_map\":{\"x\":\"s1.safetensors\",\"y\":\"s2.safetensors\",\"z\":\"s2.safetensors\"}}");
  expect_refusal(*state, SL_ERR_FORMAT, WORDS("index.json", "z:", "s2.safetensors", "does not hold"));
}

static void a_tensor_that_only_a_shard_has_is_named(void **state) {
  write_shards(*state, "{\"weight_map\":{\"x\":\"s1.safetensors\",\"y\":\"s2.safetensors\"}}");
  write_tensors(*state, "s2.safetensors",
                "{\"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                "\"q\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
                8);
  expect_refusal(*state, SL_ERR_FORMAT, WORDS("s2.safetensors", "q:", "not in model.safetensors.index.json"));
}

static void a_tensor_in_another_shard_than_the_index_says_is_named(void **state) {
  write_shards(*state, "{\"weight_map\":{\"x\":\"s2.safetensors\",\"y\":\"s1.safetensors\"}}");
  expect_refusal(*state, SL_ERR_FORMAT, WORDS("x:", "found in s1.safetensors", "expected in s2.safetensors"));
}

static void one_name_in_two_shards_is_refused(void **state) {
  write_shards(*state, "{\"weight_map\":{\"x\":\"s1.safetensors\",\"y\":\"s2.safetensors\"}}");
  write_tensors(*state, "s2.safetensors", ONE("x"), 4);
  expect_refusal(*state, SL_ERR_FORMAT, WORDS("x:", "two tensors", "s1.safetensors", "s2.safetensors"));
}

static void an_index_without_a_map_is_refused(void **state) {
  write_shards(*state, "{}");
  expect_refusal(*state, SL_ERR_FORMAT, WORDS("index.json", "weight_map"));
  write_shards(*state, "{\"weight_map\":{}}");
  expect_refusal(*state, SL_ERR_FORMAT, WORDS("index.json", "0 files"));
  write_shards(*state, "{\"weight_map\":{\"x\":5}}");
  expect_refusal(*state, SL_ERR_FORMAT, WORDS("index.json", "weight_map: x: found no string"));
}

static void an_index_over_the_size_limit_is_refused(void **state) {
  char path[128];
  write_shards(*state, "{}");
  snprintf(path, sizeof path, "%s/model.safetensors.index.json", ((fixture *)*state)->folder);
  assert_int_equal(truncate(path, ((off_t)64 << 20) + 1), 0);
  expect_refusal(*state, SL_ERR_FORMAT, WORDS("index.json"));
}

static void a_single_file_goes_before_an_index(void **state) {
  sl_error err;
  sl_checkpoint *c = NULL;
  write_shards(*state, "{\"weight_map\":{\"y\":\"s2.safetensors\",\"x\":\"s1.safetensors\"}}");
  write_tensors(*state, "model.safetensors", ONE("single"), 4);
  assert_int_equal(open_folder(*state, &c, &err), SL_OK);
  assert_int_equal(c->n_tensors, 1);
  sl_checkpoint_free(c);
}

static void shape_text_is_cut_and_terminated(void **state) {
  (void)state;
  const int64_t shape[] = {704, 2816};
  char text[32], small[4];
  assert_string_equal(sl_shape_text(shape, 2, text, sizeof text), "[704,2816]");
  assert_string_equal(sl_shape_text(shape, 0, text, sizeof text), "[]");
  assert_string_equal(sl_shape_text(shape, 2, small, sizeof small), "[70");
}

/* ---- inputs that the fuzzer found -------------------------------------------------------------------------------- */

static void seeds_of_the_fuzzer_are_answered(void **state) {
  (void)state;
  const char *folder = "tests/fuzz/seeds/safetensors";
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
    char path[512];
    if (e->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *data = malloc(1 << 20);
    size_t size = fread(data, 1, 1 << 20, file);
    fclose(file);
    sl_tensor *tensors = NULL;
    int n = 0;
    sl_error err = {0};
    if (sl_safetensors_parse(data, size, 64, "seed", &tensors, &n, &err) == SL_OK)
      sl_tensors_free(tensors, n);
    else
      assert_true(err.text[0] != '\0');
    free(data);
  }
  closedir(dir);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_single_file_gives_its_tensors_sorted_by_name),
      TEST(an_empty_file_of_tensors_opens),
      TEST(scalars_and_empty_tensors_are_tensors),
      TEST(a_dtype_of_others_is_kept_by_its_name),
      TEST(a_link_to_a_file_is_followed),
      TEST(a_file_cut_short_is_refused),
      TEST(bytes_behind_the_last_tensor_are_refused),
      TEST(a_git_lfs_pointer_is_recognised),
      TEST(a_header_of_brackets_alone_is_refused_before_it_is_parsed),
      TEST(a_header_longer_than_the_file_is_refused),
      TEST(a_file_without_a_header_length_is_refused),
      TEST(overlapping_tensors_are_refused),
      TEST(a_hole_between_tensors_is_refused),
      TEST(offsets_that_do_not_fit_the_shape_are_refused),
      TEST(the_size_of_a_dtype_that_is_not_computed_with_is_checked_too),
      TEST(offsets_the_wrong_way_round_are_refused),
      TEST(negative_and_fractional_numbers_are_refused),
      TEST(a_shape_whose_product_overflows_is_refused),
      TEST(too_many_dimensions_are_refused),
      TEST(duplicate_names_in_a_header_are_refused),
      TEST(missing_fields_are_refused),
      TEST(a_header_that_is_no_object_is_refused),
      TEST(wrong_utf8_is_refused),
      TEST(names_with_control_characters_are_refused),
      TEST(json_nested_too_deep_is_refused),
      TEST(a_folder_that_is_not_there_is_not_found),
      TEST(a_file_instead_of_a_folder_is_refused),
      TEST(a_folder_without_config_or_weights_says_what_is_missing),
      TEST(a_config_that_is_no_object_is_refused),
      TEST(a_config_over_the_size_limit_is_refused),
      TEST(shards_make_one_table),
      TEST(a_missing_shard_is_named),
      TEST(a_shard_outside_the_folder_is_refused),
      TEST(a_tensor_that_only_the_index_has_is_named),
      TEST(a_tensor_that_only_a_shard_has_is_named),
      TEST(a_tensor_in_another_shard_than_the_index_says_is_named),
      TEST(one_name_in_two_shards_is_refused),
      TEST(an_index_without_a_map_is_refused),
      TEST(an_index_over_the_size_limit_is_refused),
      TEST(a_single_file_goes_before_an_index),
      TEST(shape_text_is_cut_and_terminated),
      TEST(seeds_of_the_fuzzer_are_answered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
