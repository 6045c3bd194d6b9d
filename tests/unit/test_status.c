#include "unit.h"

#include "base/status.h"

static void every_status_has_a_name(void **state) {
  (void)state;
  assert_string_equal(sl_status_name(SL_OK), "SL_OK");
  assert_string_equal(sl_status_name(SL_ERR_CANCELLED), "SL_ERR_CANCELLED");
  assert_string_equal(sl_status_name((sl_status)99), "unknown status");
}

static void fail_writes_status_and_sentence(void **state) {
  (void)state;
  sl_error err = {0};
  assert_int_equal(sl_fail(&err, SL_ERR_FORMAT, "found %d, expected %d", 3, 4), SL_ERR_FORMAT);
  assert_int_equal(err.status, SL_ERR_FORMAT);
  assert_string_equal(err.text, "found 3, expected 4");
  assert_int_equal(sl_fail(NULL, SL_ERR_IO, "nobody listens"), SL_ERR_IO);
}

static void fail_in_puts_a_prefix_in_front(void **state) {
  (void)state;
  sl_error err = {0};
  sl_fail(&err, SL_ERR_FORMAT, "too short");
  assert_int_equal(sl_fail_in(&err, SL_ERR_IO, "file %s", "a.bin"), SL_ERR_FORMAT);
  assert_string_equal(err.text, "file a.bin: too short");
  assert_int_equal(sl_fail_in(NULL, SL_ERR_IO, "x"), SL_ERR_IO);
}

static void a_sentence_may_be_made_from_itself(void **state) {
  (void)state;
  sl_error err = {0};
  sl_fail(&err, SL_ERR_FORMAT, "inner");
  sl_fail(&err, SL_ERR_IO, "outer: %s", err.text);
  assert_string_equal(err.text, "outer: inner");
}

static void long_text_is_cut_between_characters(void **state) {
  (void)state;
  sl_error err = {0};
  char text[2000];
  for (int shift = 0; shift < 3; shift++) { /* three-byte characters, so each shift cuts at another byte of one */
    memset(text, 'x', (size_t)shift);
    for (int i = 0; i < 600; i++) memcpy(text + shift + 3 * i, "\xE2\x82\xAC", 3);
    text[shift + 1800] = '\0';
    sl_fail(&err, SL_ERR_FORMAT, "%s", text);
    size_t n = strlen(err.text);
    assert_true(n < sizeof err.text && n + 3 >= sizeof err.text - 1);
    assert_int_equal((n - (size_t)shift) % 3, 0);
    assert_memory_equal(err.text, text, n);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_status_has_a_name),
      cmocka_unit_test(fail_writes_status_and_sentence),
      cmocka_unit_test(fail_in_puts_a_prefix_in_front),
      cmocka_unit_test(a_sentence_may_be_made_from_itself),
      cmocka_unit_test(long_text_is_cut_between_characters),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
