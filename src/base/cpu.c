#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdbool.h>

#include "base/pool.h"

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

static bool first_line(const char *path, char *line, size_t size) {
  FILE *f = fopen(path, "re");
  if (!f) return false;
  bool ok = fgets(line, (int)size, f) != NULL;
  fclose(f);
  return ok;
}

/* "200000 100000" is two CPUs, "max 100000" no limit. */
static int quota_of(const char *folder, int most) {
  char path[4300], line[128];
  long long quota, period;
  snprintf(path, sizeof path, "%s/cpu.max", folder);
  if (!first_line(path, line, sizeof line)) return most;
  if (sscanf(line, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0) return most;
  long long cpus = quota / period; /* rounded down: a throttled thread keeps all others waiting */
  return cpus < 1 ? 1 : cpus < most ? (int)cpus : most;
}

/* This process's cgroup (version 2) and all above it. */
static int cgroup_count(int most) {
  char group[4096], folder[4200];
  FILE *f = fopen("/proc/self/cgroup", "re");
  if (!f) return most;
  bool found = false;
  while (!found && fgets(group, sizeof group, f)) found = strncmp(group, "0::/", 4) == 0;
  fclose(f);
  if (!found) return most;
  group[strcspn(group, "\n")] = '\0';
  snprintf(folder, sizeof folder, "/sys/fs/cgroup%s", group + 3);
  for (;;) {
    most = quota_of(folder, most);
    char *slash = strrchr(folder, '/');
    if (strlen(folder) <= strlen("/sys/fs/cgroup") || !slash) return most;
    *slash = '\0';
  }
}

int sl_cpu_count(void) { return cgroup_count(affinity_count()); }
