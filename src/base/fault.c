#include "base/fault.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { MAX_REGIONS = 4096, PATH_SIZE = 512 };

/* ---- regions ----------------------------------------------------------------------------------------------------- */

/* Read by the signal handler, which can take no lock: `start` is written last and cleared first.  A region must not be
 * unregistered while somebody reads through it, so its path outlives every handler that found it. */
typedef struct region {
  _Atomic uintptr_t start, end;
  char path[PATH_SIZE];
} region;

static region *_Atomic regions; /* allocated by the first registration, and kept */
static atomic_int n_regions;    /* slots in use or used before */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static region *free_region(region *table) {
  int n = atomic_load(&n_regions);
  for (int i = 0; i < n; i++)
    if (!atomic_load(&table[i].start)) return &table[i];
  if (n == MAX_REGIONS) return NULL;
  atomic_store(&n_regions, n + 1);
  return &table[n];
}

static sl_status register_locked(const void *base, size_t size, const char *path, sl_error *err) {
  region *table = atomic_load(&regions);
  if (!table) {
    table = calloc(MAX_REGIONS, sizeof *table);
    if (!table) return sl_fail(err, SL_ERR_MEMORY, "%s: no memory for the table of mapped files", path);
    atomic_store(&regions, table);
  }
  region *r = free_region(table);
  if (!r) return sl_fail(err, SL_ERR_MEMORY, "%s: more than %d mapped files", path, MAX_REGIONS);
  snprintf(r->path, sizeof r->path, "%s", path);
  atomic_store(&r->end, (uintptr_t)base + size);
  atomic_store(&r->start, (uintptr_t)base);
  return SL_OK;
}

sl_status sl_fault_register(const void *base, size_t size, const char *path, sl_error *err) {
  if (!base || size == 0 || size > UINTPTR_MAX - (uintptr_t)base)
    return sl_fail(err, SL_ERR_ARGUMENT, "%s: not a mapped region: %zu bytes", path, size);
  pthread_mutex_lock(&lock);
  sl_status status = register_locked(base, size, path, err);
  pthread_mutex_unlock(&lock);
  return status;
}

static region *region_of(uintptr_t address) {
  region *table = atomic_load(&regions);
  int n = table ? atomic_load(&n_regions) : 0;
  for (int i = 0; i < n; i++) {
    uintptr_t start = atomic_load(&table[i].start);
    if (start && address >= start && address < atomic_load(&table[i].end)) return &table[i];
  }
  return NULL;
}

void sl_fault_unregister(const void *base) {
  pthread_mutex_lock(&lock);
  region *table = atomic_load(&regions);
  int n = table ? atomic_load(&n_regions) : 0;
  for (int i = 0; i < n; i++) {
    if (atomic_load(&table[i].start) != (uintptr_t)base) continue;
    atomic_store(&table[i].start, 0);
    break;
  }
  pthread_mutex_unlock(&lock);
}

/* ---- guarded calls ----------------------------------------------------------------------------------------------- */

typedef struct frame {
  sigjmp_buf jump;
  struct frame *below;
  size_t offset;
  char path[PATH_SIZE];
} frame;

/* Initial-exec, since the lazy kind may allocate at its first use, and that may be in the handler. */
static _Thread_local frame *volatile top __attribute__((tls_model("initial-exec")));

static _Thread_local struct {
  size_t offset;
  char path[PATH_SIZE];
} last;

void sl_fault_set_last(const char *path, size_t offset) {
  snprintf(last.path, sizeof last.path, "%s", path);
  last.offset = offset;
}

void sl_fault_last(char *path_out, size_t path_size, size_t *offset_out) {
  if (path_out && path_size) snprintf(path_out, path_size, "%s", last.path);
  if (offset_out) *offset_out = last.offset;
}

sl_status sl_fault_fail(sl_error *err) {
  return sl_fail(err, SL_ERR_IO, "%s: cannot be read at byte %zu: the file was cut short or its disk fails",
                 last.path[0] ? last.path : "mapped file", last.offset);
}

bool sl_fault_run(void (*fn)(void *arg), void *arg) {
  frame f;
  f.below = top;
  /* Without the signal mask, which costs a system call: the handler runs with SA_NODEFER and changes none. */
  if (sigsetjmp(f.jump, 0)) {
    top = f.below;
    sl_fault_set_last(f.path, f.offset);
    return false;
  }
  top = &f;
  fn(arg);
  top = f.below;
  return true;
}

/* ---- the handler ------------------------------------------------------------------------------------------------- */

static struct sigaction old_action;

/* What would have happened without us. */
static void pass_on(int signal, siginfo_t *info, void *context) {
  if (old_action.sa_flags & SA_SIGINFO) {
    old_action.sa_sigaction(signal, info, context);
    return;
  }
  if (old_action.sa_handler != SIG_DFL && old_action.sa_handler != SIG_IGN) {
    old_action.sa_handler(signal);
    return;
  }
  struct sigaction standard = {.sa_handler = SIG_DFL};
  bool was_sent = info->si_code <= 0;
  if (was_sent && old_action.sa_handler == SIG_IGN) return;
  sigaction(signal, &standard, NULL); /* the load runs again, and faults again */
  if (was_sent) raise(signal);
}

static void on_fault(int signal, siginfo_t *info, void *context) {
  int saved_errno = errno;
  frame *f = top;
  region *r = f && info->si_code > 0 ? region_of((uintptr_t)info->si_addr) : NULL;
  if (!r) {
    pass_on(signal, info, context);
    errno = saved_errno;
    return;
  }
  f->offset = (uintptr_t)info->si_addr - atomic_load(&r->start);
  memcpy(f->path, r->path, sizeof f->path);
  /* Back to the mask from before the signal, should somebody have put a handler of his own around this one. */
  pthread_sigmask(SIG_SETMASK, &((ucontext_t *)context)->uc_sigmask, NULL);
  siglongjmp(f->jump, 1);
}

/* The old action is taken note of before ours is in place, so that the first fault finds it. */
static bool install_locked(void) {
  struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK}, found;
  sigemptyset(&ours.sa_mask);
  if (sigaction(SIGBUS, NULL, &found) != 0) return false;
  if (found.sa_flags & SA_SIGINFO && found.sa_sigaction == on_fault) return true;
  old_action = found;
  return sigaction(SIGBUS, &ours, NULL) == 0;
}

sl_status sl_fault_install(sl_error *err) {
  pthread_mutex_lock(&lock);
  bool done = install_locked();
  int error = errno;
  pthread_mutex_unlock(&lock);
  return done ? SL_OK : sl_fail(err, SL_ERR_IO, "the handler for SIGBUS cannot be installed: %s", strerror(error));
}
