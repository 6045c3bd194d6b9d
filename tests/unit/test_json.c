#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "base/json.h"

static sl_error err;

static sl_status parse(const char *text, size_t size) {
  json_t *value = NULL;
  memset(&err, 0, sizeof err);
  sl_status status = sl_json_parse(text, size, "t.json", &value, &err);
  if (status == SL_OK)
    json_decref(value);
  else
    assert_null(value);
  return status;
}

static sl_status parse_text(const char *text) { return parse(text, strlen(text)); }

static void parse_gives_the_value(void **state) {
  (void)state;
  json_t *value = NULL;
  assert_int_equal(sl_json_parse("{\"a\":[1,\"\xC3\xA4\"]} ", 15, "t.json", &value, NULL), SL_OK);
  assert_int_equal(json_integer_value(json_array_get(json_object_get(value, "a"), 0)), 1);
  assert_string_equal(json_string_value(json_array_get(json_object_get(value, "a"), 1)), "\xC3\xA4");
  json_decref(value);
}

static void broken_text_is_refused_with_its_place(void **state) {
  (void)state;
  assert_int_equal(parse_text("{\"a\":\n ?}"), SL_ERR_FORMAT);
  assert_non_null(strstr(err.text, "t.json: line 2"));
  static const char *const broken[] = {"",      " ",        "{",  "[1,]",    "{\"a\" 1}",
                                       "[1] 2", "\"\\",     "\"", "[1e999]", "[99999999999999999999]",
                                       "nul",   "{\"a\":1", "]",  "'a'"};
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) assert_int_equal(parse_text(broken[i]), SL_ERR_FORMAT);
}

static void duplicate_keys_are_refused(void **state) {
  (void)state;
  assert_int_equal(parse_text("{\"a\":1,\"b\":{\"c\":1,\"c\":1}}"), SL_ERR_FORMAT);
  assert_non_null(strstr(err.text, "duplicate"));
}

static void nul_is_refused(void **state) {
  (void)state;
  assert_int_equal(parse("[1]\0", 4), SL_ERR_FORMAT);
  assert_int_equal(parse("[\"a\0b\"]", 7), SL_ERR_FORMAT);
  assert_non_null(strstr(err.text, "byte 3 is NUL"));
  assert_int_equal(parse("[\"\\\0\"]", 6), SL_ERR_FORMAT);
  assert_int_equal(parse_text("[\"a\\u0000b\"]"), SL_ERR_FORMAT);
  assert_int_equal(parse_text("{\"a\\u0000b\":1}"), SL_ERR_FORMAT);
}

static void wrong_utf8_is_refused(void **state) {
  (void)state;
  static const char *const wrong[] = {
      "[\"\xFF\"]", "[\"\xC3\"]", "[\"\xC0\xAF\"]", "[\"\xED\xA0\x80\"]", "[\"\xF5\x80\x80\x80\"]", "[\"\\ud800\"]"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_int_equal(parse_text(wrong[i]), SL_ERR_FORMAT);
}

static sl_status parse_depth(size_t depth) {
  char *text = malloc(2 * depth);
  memset(text, '[', depth);
  memset(text + depth, ']', depth);
  sl_status status = parse(text, 2 * depth);
  free(text);
  return status;
}

static void nesting_is_limited_to_64(void **state) {
  (void)state;
  assert_int_equal(parse_depth(64), SL_OK);
  assert_int_equal(parse_depth(65), SL_ERR_FORMAT);
  assert_non_null(strstr(err.text, "nested deeper than 64"));
  assert_int_equal(parse_depth(1000000), SL_ERR_FORMAT);
}

static void brackets_in_strings_do_not_nest(void **state) {
  (void)state;
  char text[300] = "[\"\\\"";
  memset(text + 4, '[', 200);
  strcpy(text + 204, "\\\\\"]");
  assert_int_equal(parse_text(text), SL_OK);
}

static void read_parses_a_file_and_names_it(void **state) {
  (void)state;
  char path[] = "/tmp/sluice-test-XXXXXX";
  int fd = mkstemp(path);
  json_t *value;
  assert_int_equal(write(fd, "[1,2", 4), 4);
  assert_int_equal(sl_json_read(path, 100, &value, &err), SL_ERR_FORMAT);
  assert_memory_equal(err.text, path, strlen(path));
  assert_int_equal(sl_json_read(path, 3, &value, &err), SL_ERR_FORMAT);
  assert_int_equal(write(fd, "]", 1), 1);
  assert_int_equal(sl_json_read(path, 100, &value, &err), SL_OK);
  assert_int_equal(json_array_size(value), 2);
  json_decref(value);
  close(fd);
  unlink(path);
}

static json_t *object(void) {
  return json_loads("{\"n\":5,\"r\":0.5,\"t\":true,\"s\":\"x\",\"z\":null,\"a\":[1],\"o\":{}}", 0, NULL);
}

static void integers_are_checked(void **state) {
  (void)state;
  json_t *o = object();
  long long n = 7;
  assert_int_equal(sl_json_int(o, "n", "c.json", true, 1, 5, &n, NULL), SL_OK);
  assert_int_equal(n, 5);
  n = 7;
  assert_int_equal(sl_json_int(o, "n", "c.json", true, 6, 9, &n, &err), SL_ERR_FORMAT);
  assert_string_equal(err.text, "c.json: n: found 5, expected an integer from 6 to 9");
  assert_int_equal(sl_json_int(o, "s", "c.json", true, 6, 9, &n, &err), SL_ERR_FORMAT);
  assert_string_equal(err.text, "c.json: s: found \"x\", expected an integer from 6 to 9");
  assert_int_equal(sl_json_int(o, "r", "c.json", true, 0, 9, &n, NULL), SL_ERR_FORMAT);
  assert_int_equal(sl_json_int(o, "t", "c.json", true, 0, 9, &n, NULL), SL_ERR_FORMAT);
  assert_int_equal(sl_json_int(o, "a", "c.json", true, 0, 9, &n, &err), SL_ERR_FORMAT);
  assert_string_equal(err.text, "c.json: a: found an array, expected an integer from 0 to 9");
  assert_int_equal(n, 7);
  json_decref(o);
}

static void missing_and_null_leave_the_default_or_fail(void **state) {
  (void)state;
  json_t *o = object();
  long long n = 7;
  double r = 2;
  bool b = true;
  const char *s = "default";
  static const char *const keys[] = {"z", "missing"};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(sl_json_int(o, keys[i], "c", false, 0, 9, &n, NULL), SL_OK);
    assert_int_equal(sl_json_real(o, keys[i], "c", false, 0, 9, &r, NULL), SL_OK);
    assert_int_equal(sl_json_bool(o, keys[i], "c", false, &b, NULL), SL_OK);
    assert_int_equal(sl_json_string(o, keys[i], "c", false, &s, NULL), SL_OK);
    assert_int_equal(sl_json_int(o, keys[i], "c", true, 0, 9, &n, NULL), SL_ERR_FORMAT);
    assert_int_equal(sl_json_real(o, keys[i], "c", true, 0, 9, &r, NULL), SL_ERR_FORMAT);
    assert_int_equal(sl_json_bool(o, keys[i], "c", true, &b, NULL), SL_ERR_FORMAT);
    assert_int_equal(sl_json_string(o, keys[i], "c", true, &s, &err), SL_ERR_FORMAT);
  }
  assert_string_equal(err.text, "c: missing: found nothing, expected a string");
  assert_true(n == 7 && r == 2 && b);
  assert_string_equal(s, "default");
  json_decref(o);
}

static void reals_booleans_and_strings_are_checked(void **state) {
  (void)state;
  json_t *o = object();
  double r = 0;
  bool b = false;
  const char *s = NULL;
  assert_int_equal(sl_json_real(o, "r", "c", true, 0, 1, &r, NULL), SL_OK);
  assert_true(r == 0.5);
  assert_int_equal(sl_json_real(o, "n", "c", true, 0, 5, &r, NULL), SL_OK); /* an integer is a number */
  assert_true(r == 5);
  assert_int_equal(sl_json_real(o, "r", "c", true, 0.75, 1, &r, NULL), SL_ERR_FORMAT);
  assert_int_equal(sl_json_real(o, "s", "c", true, 0, 1, &r, NULL), SL_ERR_FORMAT);
  assert_int_equal(sl_json_bool(o, "t", "c", true, &b, NULL), SL_OK);
  assert_true(b);
  assert_int_equal(sl_json_bool(o, "n", "c", true, &b, NULL), SL_ERR_FORMAT);
  assert_int_equal(sl_json_string(o, "s", "c", true, &s, NULL), SL_OK);
  assert_string_equal(s, "x");
  assert_int_equal(sl_json_string(o, "o", "c", true, &s, NULL), SL_ERR_FORMAT);
  json_decref(o);
}

static void long_values_are_shown_short(void **state) {
  (void)state;
  char text[600];
  memset(text, 'x', 599);
  text[599] = '\0';
  json_t *o = json_pack("{s:s}", "k", text);
  long long n;
  assert_int_equal(sl_json_int(o, "k", "c", true, 0, 9, &n, &err), SL_ERR_FORMAT);
  assert_true(strlen(err.text) < 100);
  json_decref(o);
}

static void a_duplicate_key_is_named_also_when_it_is_long(void **state) {
  (void)state;
  json_t *o = NULL;
  const char *text = "{\"model.layers.0.self_attn.q_proj.weight\":1,\n \"model.layers.0.self_attn.q_proj.weight\":2}";
  assert_int_equal(sl_json_parse(text, strlen(text), "h", &o, &err), SL_ERR_FORMAT);
  assert_non_null(strstr(err.text, "line 2"));
  assert_non_null(strstr(err.text, "\"model.layers.0.self_attn.q_proj.weight\""));
}

static void a_report_that_misses_a_part_is_none(void **state) {
  (void)state;
  json_t *list = json_array(), *object = json_object();
  sl_json_append(&list, json_integer(1));
  assert_int_equal(json_array_size(list), 1);
  sl_json_append(&list, NULL); /* what jansson's makers return without memory */
  assert_null(list);
  sl_json_append(&list, json_integer(2));
  assert_null(list);
  sl_json_put(&object, "k", json_integer(1));
  assert_int_equal(json_object_size(object), 1);
  sl_json_put(&object, "l", NULL);
  assert_null(object);
  sl_json_put(&object, "m", json_integer(2));
  assert_null(object);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parse_gives_the_value),
      cmocka_unit_test(broken_text_is_refused_with_its_place),
      cmocka_unit_test(duplicate_keys_are_refused),
      cmocka_unit_test(nul_is_refused),
      cmocka_unit_test(wrong_utf8_is_refused),
      cmocka_unit_test(nesting_is_limited_to_64),
      cmocka_unit_test(brackets_in_strings_do_not_nest),
      cmocka_unit_test(read_parses_a_file_and_names_it),
      cmocka_unit_test(integers_are_checked),
      cmocka_unit_test(missing_and_null_leave_the_default_or_fail),
      cmocka_unit_test(reals_booleans_and_strings_are_checked),
      cmocka_unit_test(long_values_are_shown_short),
      cmocka_unit_test(a_duplicate_key_is_named_also_when_it_is_long),
      cmocka_unit_test(a_report_that_misses_a_part_is_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
