/* Limits of cgroups, read from made-up /proc and /sys. */
#include "unit/unit.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/machine.h"

static char root[64];

static void put(const char *path, const char *text) {
  char whole[256];
  snprintf(whole, sizeof whole, "%s/%s", root, path);
  for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(whole, 0700);
    *slash = '/';
  }
  FILE *f = fopen(whole, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static int make_root(void **state) {
  (void)state;
  strcpy(root, "/tmp/sluice-machine-XXXXXX");
  if (!mkdtemp(root)) return 1;
  put("proc/meminfo", "MemTotal:       16000000 kB\nMemFree:  1 kB\nMemAvailable:    8000000 kB\n");
  put("proc/self/cgroup", "1:name=systemd:/other\n0::/box/inner\n");
  return 0;
}

static int remove_root(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", root);
  return system(command);
}

static void without_limits_all_is_allowed(void **state) {
  (void)state;
  put("sys/fs/cgroup/box/inner/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/box/inner/memory.max", "max\n");
  assert_int_equal(sl_cpu_quota_at(root, 8), 8);
  assert_int_equal(sl_memory_available_at(root), 8000000ull * 1024);
}

static void the_tightest_quota_on_the_way_up_counts(void **state) {
  (void)state;
  put("sys/fs/cgroup/box/inner/cpu.max", "400000 100000\n");
  put("sys/fs/cgroup/box/cpu.max", "250000 100000\n");
  assert_int_equal(sl_cpu_quota_at(root, 8), 2);
  put("sys/fs/cgroup/box/cpu.max", "50000 100000\n");
  assert_int_equal(sl_cpu_quota_at(root, 8), 1);
}

static void a_memory_limit_leaves_what_is_not_used_and_what_are_file_pages(void **state) {
  (void)state;
  put("sys/fs/cgroup/box/memory.max", "4000000000\n");
  put("sys/fs/cgroup/box/memory.current", "3000000000\n");
  put("sys/fs/cgroup/box/memory.stat", "anon 1000000000\ninactive_file 1500000000\nactive_file 500000000\n");
  assert_int_equal(sl_memory_available_at(root), 3000000000ull);
  put("sys/fs/cgroup/box/memory.current", "9000000000\n");
  assert_int_equal(sl_memory_available_at(root), 0);
}

static void nonsense_is_no_limit(void **state) {
  (void)state;
  put("sys/fs/cgroup/box/inner/cpu.max", "-3 0\n");
  put("sys/fs/cgroup/box/inner/memory.max", "\n");
  assert_int_equal(sl_cpu_quota_at(root, 8), 8);
  assert_int_equal(sl_memory_available_at(root), 8000000ull * 1024);
  put("proc/meminfo", "");
  assert_int_equal(sl_memory_available_at(root), 0);
}

static void this_machine_has_cpus_and_memory(void **state) {
  (void)state;
  assert_true(sl_cpu_count() >= 1);
  assert_true(sl_memory_available() > 0);
}

#define TEST(fact) cmocka_unit_test_setup_teardown(fact, make_root, remove_root)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(without_limits_all_is_allowed),
      TEST(the_tightest_quota_on_the_way_up_counts),
      TEST(a_memory_limit_leaves_what_is_not_used_and_what_are_file_pages),
      TEST(nonsense_is_no_limit),
      TEST(this_machine_has_cpus_and_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
