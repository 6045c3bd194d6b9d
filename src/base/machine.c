#include "base/machine.h"

#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CPUs in this process's mask; the mask is grown until the system's fits. */
static int affinity_count(void) {
  for (int room = 1024; room <= 1 << 20; room *= 2) {
    cpu_set_t *set = CPU_ALLOC(room);
    if (!set) return 1;
    size_t size = CPU_ALLOC_SIZE(room);
    CPU_ZERO_S(size, set);
    int n = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (n > 0) return n;
  }
  return 1;
}

/* ---- cgroups ----------------------------------------------------------------------------------------------------- */

enum { FOLDER_SIZE = 4400 };

static bool first_line(const char *folder, const char *name, char *line, size_t size) {
  char path[FOLDER_SIZE + 64];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "re");
  if (!f) return false;
  bool ok = fgets(line, (int)size, f) != NULL;
  fclose(f);
  return ok;
}

/* The folder of this process's cgroup; false if there is none. */
static bool own_group(const char *root, char *folder, size_t size) {
  char path[FOLDER_SIZE], group[4096];
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  FILE *f = fopen(path, "re");
  if (!f) return false;
  bool found = false;
  while (!found && fgets(group, sizeof group, f)) found = strncmp(group, "0::/", 4) == 0;
  fclose(f);
  if (!found) return false;
  group[strcspn(group, "\n")] = '\0';
  return (size_t)snprintf(folder, size, "%s/sys/fs/cgroup%s", root, group + 3) < size;
}

/* The group above; false at the top. */
static bool go_up(const char *root, char *folder) {
  char *slash = strrchr(folder, '/');
  if (!slash || strlen(folder) <= strlen(root) + strlen("/sys/fs/cgroup")) return false;
  *slash = '\0';
  return true;
}

/* "200000 100000" is two CPUs, "max 100000" no limit. */
static int quota_of(const char *folder, int most) {
  char line[128];
  long long quota, period;
  if (!first_line(folder, "cpu.max", line, sizeof line)) return most;
  if (sscanf(line, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0) return most;
  long long cpus = quota / period; /* rounded down: a throttled thread keeps all others waiting */
  return cpus < 1 ? 1 : cpus < most ? (int)cpus : most;
}

int sl_cpu_quota_at(const char *root, int most) {
  char folder[FOLDER_SIZE];
  if (!own_group(root, folder, sizeof folder)) return most;
  do most = quota_of(folder, most);
  while (go_up(root, folder));
  return most;
}

int sl_cpu_count(void) { return sl_cpu_quota_at("", affinity_count()); }

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The number behind `key` in a file of "key number" lines, or 0. */
static uint64_t number_behind(const char *folder, const char *name, const char *key) {
  char path[FOLDER_SIZE + 64], line[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "re");
  unsigned long long number = 0;
  size_t n = strlen(key);
  while (f && fgets(line, sizeof line, f))
    if (strncmp(line, key, n) == 0 && sscanf(line + n, " %llu", &number) == 1) break;
  if (f) fclose(f);
  return number;
}

static uint64_t limit_of(const char *folder, uint64_t most) {
  char line[64];
  unsigned long long limit, used;
  if (!first_line(folder, "memory.max", line, sizeof line) || sscanf(line, "%llu", &limit) != 1)
    return most; /* "max" */
  if (!first_line(folder, "memory.current", line, sizeof line) || sscanf(line, "%llu", &used) != 1) used = 0;
  uint64_t files =
      number_behind(folder, "memory.stat", "active_file") + number_behind(folder, "memory.stat", "inactive_file");
  used = used > files ? used - files : 0;
  uint64_t left = limit > used ? limit - used : 0;
  return left < most ? left : most;
}

uint64_t sl_memory_available_at(const char *root) {
  char folder[FOLDER_SIZE];
  snprintf(folder, sizeof folder, "%s/proc", root);
  uint64_t most = number_behind(folder, "meminfo", "MemAvailable:") * 1024;
  if (!own_group(root, folder, sizeof folder)) return most;
  do most = limit_of(folder, most);
  while (go_up(root, folder));
  return most;
}

uint64_t sl_memory_available(void) { return sl_memory_available_at(""); }
