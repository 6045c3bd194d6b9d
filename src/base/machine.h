/* What the system lets this process have: CPUs and memory, with the limits of its cgroup (version 2). */
#ifndef SL_BASE_MACHINE_H
#define SL_BASE_MACHINE_H

#include <stdint.h>

/* CPUs that this process may run on: its affinity and the CPU quotas of its cgroup and of all above; at least 1. */
int sl_cpu_count(void);

/* Bytes that could be had without swapping: MemAvailable, and what the memory limits of its cgroup and of all above
 * leave; file pages count as free, since they can be given back. 0 if the system does not say. */
uint64_t sl_memory_available(void);

/* The same where /proc and /sys lie under `root`, for tests. */
int sl_cpu_quota_at(const char *root, int most);
uint64_t sl_memory_available_at(const char *root);

#endif
