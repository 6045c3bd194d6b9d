#include "base/pool.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"

enum { MAX_THREADS = 1024, PATH_SIZE = 512 };

/* Longest and shortest time to spin before sleeping.  A wake-up through the kernel costs some ten microseconds. */
#define LONG_SPIN_NS  40000
#define SHORT_SPIN_NS 1000

/* A worker that never sleeps is sooner or later preempted for a busy neighbour, most likely in the middle of a piece
 * that all others then wait for.  So it offers its CPU between jobs, a little before the system's tick (4 ms at 250 Hz)
 * would take it.  With one neighbour on two CPUs: 55 % of the quiet speed, without this 47 %. */
#define YIELD_NS 2000000

struct worker {
  sl_pool *pool;
  pthread_t id;
  int thread;
};

/* Between jobs and within one everything goes through atomics.
 *
 * `ticket` holds the job's number above and the pieces not yet taken below.  Whoever takes a piece reads the job's
 * fields first and then takes one down by compare-and-swap; that succeeds only while the same job still has pieces
 * left, and as long as it has, its fields do not change.  So a worker that comes late can never run a piece of one job
 * with the function of another. */
struct sl_pool {
  alignas(64) _Atomic uint64_t ticket;
  _Atomic(sl_piece_fn) fn;
  _Atomic(void *) arg;
  atomic_int n_pieces;

  alignas(64) _Atomic uint32_t pending; /* pieces not yet finished; the caller sleeps on it */
  _Atomic uint32_t caller_sleeps;
  alignas(64) _Atomic uint32_t job; /* counts jobs; workers sleep on it */
  atomic_int sleepers;
  atomic_bool stop;

  alignas(64) atomic_bool failed; /* a piece of this job was cut off */
  atomic_bool blamed;             /* whoever sets it writes the two below */
  size_t fault_offset;
  char fault_path[PATH_SIZE];

  int n_threads;
  struct worker *workers;
};

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static void futex_wait(_Atomic uint32_t *word, uint32_t seen) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pause_cpu(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Spins while *word is `seen`, for at most `ns`; whether it changed. */
static bool spin(_Atomic uint32_t *word, uint32_t seen, int64_t ns) {
  int64_t end = now_ns() + ns;
  do {
    for (int i = 0; i < 16; i++) {
      if (atomic_load(word) != seen) return true;
      pause_cpu();
    }
  } while (now_ns() < end);
  return atomic_load(word) != seen;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

struct piece {
  sl_piece_fn fn;
  void *arg;
  int piece, thread;
};

static void call_piece(void *arg) {
  struct piece *p = arg;
  p->fn(p->arg, p->piece, p->thread);
}

/* The first piece that fails says where; the pieces that follow are skipped. */
static void blame(sl_pool *pool) {
  if (!atomic_exchange(&pool->blamed, true))
    sl_fault_last(pool->fault_path, sizeof pool->fault_path, &pool->fault_offset);
  atomic_store(&pool->failed, true);
}

static bool take(sl_pool *pool, struct piece *p) {
  uint64_t ticket = atomic_load(&pool->ticket);
  for (;;) {
    uint32_t left = (uint32_t)ticket;
    if (left == 0) return false;
    p->fn = atomic_load(&pool->fn);
    p->arg = atomic_load(&pool->arg);
    p->piece = atomic_load(&pool->n_pieces) - (int)left;
    if (atomic_compare_exchange_weak(&pool->ticket, &ticket, ticket - 1)) return true;
  }
}

/* Runs pieces until none is left to take. */
static void work(sl_pool *pool, int thread) {
  struct piece p = {.thread = thread};
  while (take(pool, &p)) {
    if (!atomic_load(&pool->failed) && !sl_fault_run(call_piece, &p)) blame(pool);
    bool is_last = atomic_fetch_sub(&pool->pending, 1) == 1;
    if (is_last && atomic_load(&pool->caller_sleeps)) futex_wake(&pool->pending, 1);
  }
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

static void sleep_until_job(sl_pool *pool, uint32_t seen) {
  atomic_fetch_add(&pool->sleepers, 1);
  while (atomic_load(&pool->job) == seen) futex_wait(&pool->job, seen);
  atomic_fetch_sub(&pool->sleepers, 1);
}

/* Waits for a job other than `seen`.  Spins as long as jobs have been coming within the longest spin, and less and less
 * while they have not: spinning in vain takes the CPU from whoever has work. */
static uint32_t next_job(sl_pool *pool, uint32_t seen, int64_t *spin_ns) {
  int64_t start = now_ns();
  if (!spin(&pool->job, seen, *spin_ns)) sleep_until_job(pool, seen);
  bool was_short = now_ns() - start < LONG_SPIN_NS;
  *spin_ns = was_short ? LONG_SPIN_NS : *spin_ns / 2;
  if (*spin_ns < SHORT_SPIN_NS) *spin_ns = SHORT_SPIN_NS;
  return atomic_load(&pool->job);
}

static void *worker_main(void *arg) {
  struct worker *w = arg;
  uint32_t seen = 0;
  int64_t spin_ns = LONG_SPIN_NS, yielded = now_ns();
  char name[16];
  snprintf(name, sizeof name, "sluice-%d", w->thread);
  pthread_setname_np(pthread_self(), name);
  while (!atomic_load(&w->pool->stop)) {
    work(w->pool, w->thread);
    if (now_ns() - yielded > YIELD_NS) {
      sched_yield();
      yielded = now_ns();
    }
    seen = next_job(w->pool, seen, &spin_ns);
  }
  return NULL;
}

/* Signals that are sent to the process are for the program's own threads; faults stay with the thread that made them.
 */
static void block_signals(sigset_t *old) {
  sigset_t set;
  sigfillset(&set);
  sigdelset(&set, SIGBUS);
  sigdelset(&set, SIGSEGV);
  sigdelset(&set, SIGFPE);
  sigdelset(&set, SIGILL);
  sigdelset(&set, SIGTRAP);
  sigdelset(&set, SIGSYS);
  pthread_sigmask(SIG_SETMASK, &set, old);
}

static int start_workers(sl_pool *pool) {
  sigset_t old;
  block_signals(&old);
  int error = 0;
  for (int i = 1; i < pool->n_threads && !error; i++) {
    struct worker *w = &pool->workers[i - 1];
    *w = (struct worker){.pool = pool, .thread = i};
    error = pthread_create(&w->id, NULL, worker_main, w);
    if (error) pool->n_threads = i; /* so that free joins those that run */
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return error;
}

sl_status sl_pool_new(int n_threads, sl_pool **out, sl_error *err) {
  if (n_threads < 1 || n_threads > MAX_THREADS)
    return sl_fail(err, SL_ERR_ARGUMENT, "threads: found %d, expected 1 to %d", n_threads, MAX_THREADS);
  sl_pool *pool = aligned_alloc(alignof(sl_pool), sizeof *pool);
  struct worker *workers = calloc((size_t)n_threads, sizeof *workers);
  if (!pool || !workers) {
    free(pool);
    free(workers);
    return sl_fail(err, SL_ERR_MEMORY, "no memory for a pool of %d threads", n_threads);
  }
  memset(pool, 0, sizeof *pool);
  pool->n_threads = n_threads;
  pool->workers = workers;
  int error = start_workers(pool);
  if (error) {
    sl_pool_free(pool);
    return sl_fail(err, SL_ERR_MEMORY, "the system starts no more threads (%d were wanted): %s", n_threads,
                   strerror(error));
  }
  *out = pool;
  return SL_OK;
}

void sl_pool_free(sl_pool *pool) {
  if (!pool) return;
  atomic_store(&pool->stop, true);
  atomic_fetch_add(&pool->job, 1);
  futex_wake(&pool->job, INT_MAX);
  for (int i = 1; i < pool->n_threads; i++) pthread_join(pool->workers[i - 1].id, NULL);
  free(pool->workers);
  free(pool);
}

int sl_pool_threads(const sl_pool *pool) { return pool->n_threads; }

/* ---- jobs -------------------------------------------------------------------------------------------------------- */

static void publish(sl_pool *pool, int n_pieces, sl_piece_fn fn, void *arg) {
  atomic_store(&pool->fn, fn);
  atomic_store(&pool->arg, arg);
  atomic_store(&pool->n_pieces, n_pieces);
  atomic_store(&pool->pending, (uint32_t)n_pieces);
  uint64_t number = (atomic_load(&pool->ticket) >> 32) + 1;
  atomic_store(&pool->ticket, number << 32 | (uint32_t)n_pieces);
  if (n_pieces == 1 || pool->n_threads == 1) return; /* the caller is enough */
  atomic_fetch_add(&pool->job, 1);
  int sleepers = atomic_load(&pool->sleepers);
  if (sleepers > 0) futex_wake(&pool->job, sleepers < n_pieces - 1 ? sleepers : n_pieces - 1);
}

/* Nothing is left to take; others may still be at work. */
static void wait_for_others(sl_pool *pool) {
  uint32_t pending = atomic_load(&pool->pending);
  int64_t end = pending ? now_ns() + LONG_SPIN_NS : 0;
  while (pending && now_ns() < end) {
    spin(&pool->pending, pending, end - now_ns());
    pending = atomic_load(&pool->pending);
  }
  if (!pending) return;
  atomic_store(&pool->caller_sleeps, 1);
  while ((pending = atomic_load(&pool->pending)) != 0) futex_wait(&pool->pending, pending);
  atomic_store(&pool->caller_sleeps, 0);
}

sl_status sl_pool_run(sl_pool *pool, int n_pieces, sl_piece_fn fn, void *arg) {
  if (n_pieces <= 0) return SL_OK;
  atomic_store(&pool->failed, false);
  atomic_store(&pool->blamed, false);
  publish(pool, n_pieces, fn, arg);
  work(pool, 0);
  wait_for_others(pool);
  if (!atomic_load(&pool->failed)) return SL_OK;
  sl_fault_set_last(pool->fault_path, pool->fault_offset);
  return SL_ERR_IO;
}
