#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/pool.h"

typedef struct mapped {
  char path[64];
  int fd;
  const void *base;
  uint64_t size;
  size_t page;
} mapped;

/* A file of eight pages, mapped, and then cut to two behind the mapping's back.  The guard is installed here, since
 * cmocka puts its own handler in front for each test. */
static mapped map_and_cut(void) {
  assert_int_equal(sl_fault_install(NULL), SL_OK);
  mapped m = {.path = "/tmp/sluice-test-XXXXXX", .page = (size_t)sysconf(_SC_PAGESIZE)};
  int fd = mkstemp(m.path);
  assert_true(fd >= 0);
  assert_int_equal(ftruncate(fd, (off_t)(8 * m.page)), 0);
  assert_int_equal(sl_file_map(m.path, &m.fd, &m.base, &m.size, NULL), SL_OK);
  assert_int_equal(m.size, 8 * m.page);
  assert_int_equal(ftruncate(fd, (off_t)(2 * m.page)), 0);
  close(fd);
  return m;
}

static void unmap(mapped *m) {
  sl_file_unmap(m->fd, m->base, m->size);
  unlink(m->path);
}

static void touch(void *arg) { (void)*(const volatile char *)arg; }

static void a_fault_ends_the_call_and_names_file_and_offset(void **state) {
  (void)state;
  mapped m = map_and_cut();
  char path[128];
  size_t offset = 0;
  assert_true(sl_fault_run(touch, (char *)m.base + m.page));
  for (int again = 0; again < 3; again++) { /* the handler stays usable */
    assert_false(sl_fault_run(touch, (char *)m.base + 5 * m.page + 17));
    sl_fault_last(path, sizeof path, &offset);
    assert_string_equal(path, m.path);
    assert_int_equal(offset, 5 * m.page + 17);
  }
  sl_error err = {0};
  assert_int_equal(sl_fault_fail(&err), SL_ERR_IO);
  assert_non_null(strstr(err.text, m.path));
  unmap(&m);
}

typedef struct nest {
  const char *at;
  int inner_ran, went_on;
} nest;

static void call_inner(void *arg) {
  nest *n = arg;
  n->inner_ran = sl_fault_run(touch, (void *)(uintptr_t)n->at);
  n->went_on = 1;
}

static void calls_nest(void **state) {
  (void)state;
  mapped m = map_and_cut();
  nest n = {(const char *)m.base + 3 * m.page, 1, 0};
  assert_true(sl_fault_run(call_inner, &n));
  assert_int_equal(n.inner_ran, 0);
  assert_int_equal(n.went_on, 1);
  unmap(&m);
}

typedef struct job {
  const char *base;
  size_t page;
  int sums[64];
} job;

static void read_page(void *arg, int piece, int thread) {
  (void)thread;
  job *j = arg;
  j->sums[piece] = 1 + *(const volatile char *)(j->base + (size_t)(piece % 8) * j->page);
}

static void a_truncated_file_gives_an_error_through_the_pool(void **state) {
  (void)state;
  for (int threads = 1; threads <= 4; threads++) {
    sl_pool *pool;
    assert_int_equal(sl_pool_new(threads, &pool, NULL), SL_OK);
    mapped m = map_and_cut();
    job j = {m.base, m.page, {0}};
    char path[128];
    size_t offset;
    assert_int_equal(sl_pool_run(pool, 64, read_page, &j), SL_ERR_IO);
    sl_fault_last(path, sizeof path, &offset);
    assert_string_equal(path, m.path);
    assert_true(offset >= 2 * m.page && offset < 8 * m.page);
    assert_int_equal(sl_pool_run(pool, 2, read_page, &j), SL_OK); /* the first two pages are still there */
    assert_int_equal(j.sums[1], 1);
    sl_pool_free(pool);
    unmap(&m);
  }
}

/* Runs fn in a child and returns its wait status. */
static int in_child(void (*fn)(void)) {
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    fn();
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return status;
}

/* A fault outside all regions, with the guard in front of `older`. */
static void fault_elsewhere(void (*older)(int)) {
  signal(SIGBUS, older);
  if (sl_fault_install(NULL) != SL_OK || sl_fault_install(NULL) != SL_OK) _exit(1);
  mapped m = map_and_cut();
  sl_fault_unregister(m.base);
  unlink(m.path);
  (void)sl_fault_run(touch, (char *)m.base + 5 * m.page);
}

static void exit_seven(int signal) {
  (void)signal;
  _exit(7);
}

static void fault_in_front_of_default(void) { fault_elsewhere(SIG_DFL); }
static void fault_in_front_of_nothing(void) { fault_elsewhere(SIG_IGN); }
static void fault_in_front_of_exit_seven(void) { fault_elsewhere(exit_seven); }

static void a_fault_elsewhere_ends_the_process_as_before(void **state) {
  (void)state;
  int status = in_child(fault_in_front_of_default);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
  status = in_child(fault_in_front_of_nothing);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

static void a_fault_elsewhere_goes_on_to_the_older_handler(void **state) {
  (void)state;
  int status = in_child(fault_in_front_of_exit_seven);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void send_bus(void) {
  signal(SIGBUS, SIG_DFL);
  if (sl_fault_install(NULL) != SL_OK) _exit(1);
  raise(SIGBUS);
}

static void a_signal_sent_by_hand_ends_the_process_as_before(void **state) {
  (void)state;
  int status = in_child(send_bus);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

static void a_senseless_region_is_refused(void **state) {
  (void)state;
  assert_int_equal(sl_fault_register(NULL, 10, "x", NULL), SL_ERR_ARGUMENT);
  assert_int_equal(sl_fault_register(&state, 0, "x", NULL), SL_ERR_ARGUMENT);
  assert_int_equal(sl_fault_register(&state, SIZE_MAX, "x", NULL), SL_ERR_ARGUMENT);
}

static void regions_are_limited_and_come_free_again(void **state) {
  (void)state;
  static char bytes[5000];
  sl_error err = {0};
  int n = 0;
  while (n < 5000 && sl_fault_register(bytes + n, 1, "many", &err) == SL_OK) n++;
  assert_int_equal(n, 4096);
  assert_string_equal(err.text, "many: more than 4096 mapped files");
  sl_fault_unregister(bytes + 100);
  assert_int_equal(sl_fault_register(bytes + 4999, 1, "many", NULL), SL_OK);
  for (int i = 0; i < 5000; i++) sl_fault_unregister(bytes + i);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_fault_ends_the_call_and_names_file_and_offset),
      cmocka_unit_test(calls_nest),
      cmocka_unit_test(a_truncated_file_gives_an_error_through_the_pool),
      cmocka_unit_test(a_fault_elsewhere_ends_the_process_as_before),
      cmocka_unit_test(a_fault_elsewhere_goes_on_to_the_older_handler),
      cmocka_unit_test(a_signal_sent_by_hand_ends_the_process_as_before),
      cmocka_unit_test(a_senseless_region_is_refused),
      cmocka_unit_test(regions_are_limited_and_come_free_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
