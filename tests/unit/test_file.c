#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static char folder[] = "/tmp/sluice-test-XXXXXX";
static char path[128];

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  return rmdir(folder);
}

static void put(const char *text, size_t size) {
  snprintf(path, sizeof path, "%s/file", folder);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, size), size);
  close(fd);
}

static void assert_join(const char *a, const char *b, const char *expected) {
  char *joined = sl_path_join(a, b);
  assert_string_equal(joined, expected);
  free(joined);
}

static void join_puts_one_slash_between(void **state) {
  (void)state;
  assert_join("a", "b", "a/b");
  assert_join("a/", "b", "a/b");
  assert_join("", "b", "b");
  assert_join("/", "b", "/b");
}

static void read_gives_the_whole_file_and_a_nul(void **state) {
  (void)state;
  char *data = NULL;
  size_t size = 99;
  put("abc\0def", 7);
  assert_true(sl_path_exists(path));
  assert_int_equal(sl_file_read(path, 7, &data, &size, NULL), SL_OK);
  assert_int_equal(size, 7);
  assert_memory_equal(data, "abc\0def", 8);
  free(data);
  put("", 0);
  assert_int_equal(sl_file_read(path, 7, &data, &size, NULL), SL_OK);
  assert_int_equal(size, 0);
  free(data);
  unlink(path);
}

static void read_refuses_a_file_that_is_too_large(void **state) {
  (void)state;
  char *data = NULL;
  size_t size;
  sl_error err = {0};
  put("abcdefgh", 8);
  assert_int_equal(sl_file_read(path, 7, &data, &size, &err), SL_ERR_FORMAT);
  assert_null(data);
  assert_non_null(strstr(err.text, "found 8 bytes, expected at most 7"));
  unlink(path);
}

static void what_is_not_there_is_not_found(void **state) {
  (void)state;
  char *data;
  size_t size;
  int fd;
  const void *base;
  uint64_t n;
  sl_error err = {0};
  assert_false(sl_path_exists("/tmp/sluice-no-such-file"));
  assert_int_equal(sl_file_read("/tmp/sluice-no-such-file", 7, &data, &size, &err), SL_ERR_NOT_FOUND);
  assert_string_equal(err.text, "/tmp/sluice-no-such-file: cannot be opened: No such file or directory");
  assert_int_equal(sl_file_map("/tmp/sluice-no-such-file", &fd, &base, &n, NULL), SL_ERR_NOT_FOUND);
}

static void folders_and_pipes_are_refused(void **state) {
  (void)state;
  char *data;
  size_t size;
  sl_error err = {0};
  assert_int_equal(sl_file_read(folder, 7, &data, &size, &err), SL_ERR_FORMAT);
  assert_non_null(strstr(err.text, "found a folder"));
  snprintf(path, sizeof path, "%s/pipe", folder);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_int_equal(sl_file_read(path, 7, &data, &size, NULL), SL_ERR_FORMAT); /* and does not wait for a writer */
  unlink(path);
}

static void a_link_to_nowhere_is_there_and_cannot_be_opened(void **state) {
  (void)state;
  char *data;
  size_t size;
  sl_error err = {0};
  snprintf(path, sizeof path, "%s/link", folder);
  assert_int_equal(symlink("/tmp/sluice-no-such-file", path), 0);
  assert_true(sl_path_exists(path));
  assert_int_equal(sl_file_read(path, 7, &data, &size, &err), SL_ERR_NOT_FOUND);
  assert_non_null(strstr(err.text, path));
  unlink(path);
  assert_int_equal(symlink("link", path), 0); /* to itself */
  assert_true(sl_path_exists(path));
  assert_int_equal(sl_file_read(path, 7, &data, &size, &err), SL_ERR_IO);
  unlink(path);
}

static void map_shows_the_file(void **state) {
  (void)state;
  int fd;
  const void *base;
  uint64_t size = 0;
  put("mapped", 6);
  assert_int_equal(sl_file_map(path, &fd, &base, &size, NULL), SL_OK);
  assert_int_equal(size, 6);
  assert_memory_equal(base, "mapped", 6);
  assert_true(fcntl(fd, F_GETFD) >= 0);
  sl_file_unmap(fd, base, size);
  assert_int_equal(fcntl(fd, F_GETFD), -1);
  unlink(path);
}

static void map_refuses_an_empty_file(void **state) {
  (void)state;
  int fd;
  const void *base;
  uint64_t size;
  sl_error err = {0};
  put("", 0);
  assert_int_equal(sl_file_map(path, &fd, &base, &size, &err), SL_ERR_FORMAT);
  assert_non_null(strstr(err.text, "empty"));
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(join_puts_one_slash_between),
      cmocka_unit_test(read_gives_the_whole_file_and_a_nul),
      cmocka_unit_test(read_refuses_a_file_that_is_too_large),
      cmocka_unit_test(what_is_not_there_is_not_found),
      cmocka_unit_test(folders_and_pipes_are_refused),
      cmocka_unit_test(a_link_to_nowhere_is_there_and_cannot_be_opened),
      cmocka_unit_test(map_shows_the_file),
      cmocka_unit_test(map_refuses_an_empty_file),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
