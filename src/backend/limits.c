#include "backend/limits.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "backend/cpu/matmul_limits.h"
#include "backend/cpu/tables.h"

#define BUFFER     (256ull << 20) /* far larger than the caches of a desktop; a large one is slow to touch first */
#define READ_PIECE (1ull << 20)
#define WINDOW     64   /* pieces read in one run; the next run reads the next ones, so that no cache holds them */
#define ROUNDS     4000 /* of arithmetic in a piece: tens of microseconds */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- loops for any machine --------------------------------------------------------------------------------------- */

static uint64_t plain_read(const uint8_t *data, size_t size) {
  uint64_t sum[8] = {0};
  const uint64_t *words = (const uint64_t *)(const void *)data;
  for (size_t i = 0; i < size / 8; i += 8) {
    __builtin_prefetch(words + i + SL_MM_LEAD / 8, 0, 3);
    for (size_t j = 0; j < 8; j++) sum[j] += words[i + j];
  }
  return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

enum { LANES = 64 };
static float plain_fma(int rounds) {
  float sum[LANES], total = 0;
  for (int i = 0; i < LANES; i++) sum[i] = (float)i;
  for (int r = 0; r < rounds; r++)
    for (int i = 0; i < LANES; i++) sum[i] = sum[i] * 0.999f + 0.001f;
  for (int i = 0; i < LANES; i++) total += sum[i];
  return total;
}

static const sl_limit_loops plain = {plain_read, plain_fma, NULL, LANES * 2.0, 0};

static const sl_limit_loops *best_loops(void) {
#ifdef SL_HAVE_AVX512
  if (!sl_cpu_missing_avx512()) return &sl_avx512_limits;
#endif
#ifdef SL_HAVE_AVX2
  if (!sl_cpu_missing_avx2()) return &sl_avx2_limits;
#endif
  return &plain;
}

/* ---- timing ------------------------------------------------------------------------------------------------------ */

typedef struct limit_job {
  const sl_limit_loops *loops;
  uint8_t *buffer;
  int n_pieces, first;      /* of the buffer; where this run begins */
  _Atomic float sink_float; /* so that nothing is left out; what it holds does not matter */
  _Atomic uint64_t sink;
} limit_job;

static void touch_piece(void *arg, int piece, int thread) {
  limit_job *j = arg;
  (void)thread;
  uint8_t *at = j->buffer + (size_t)piece * READ_PIECE;
  for (size_t i = 0; i < READ_PIECE; i += 4096) at[i] = (uint8_t)(i >> 12 | 1);
}

static void read_piece(void *arg, int piece, int thread) {
  limit_job *j = arg;
  (void)thread;
  atomic_store_explicit(&j->sink, j->loops->read(j->buffer + (size_t)(j->first + piece) * READ_PIECE, READ_PIECE),
                        memory_order_relaxed);
}

static void fma_piece(void *arg, int piece, int thread) {
  limit_job *j = arg;
  (void)piece, (void)thread;
  atomic_store_explicit(&j->sink_float, j->loops->fma(ROUNDS), memory_order_relaxed);
}

static void dot_piece(void *arg, int piece, int thread) {
  limit_job *j = arg;
  (void)piece, (void)thread;
  atomic_store_explicit(&j->sink_float, j->loops->dot(ROUNDS), memory_order_relaxed);
}

typedef struct rates {
  double best, mean;
} rates;

/* Units of work per second over as many runs as fit into `seconds`, at least three, of a millisecond or so each.  The
 * best of them is a peak, met between other processes' turns; the mean is what lasts. */
static sl_status measure(sl_pool *pool, double seconds, int n_pieces, sl_piece_fn fn, limit_job *job,
                         double units_per_piece, rates *out) {
  double start = now(), end = start + seconds, units = 0;
  *out = (rates){0};
  for (int run = 0; run < 3 || now() < end; run++) {
    double begin = now();
    SL_TRY(sl_pool_run(pool, n_pieces, fn, job));
    double rate = units_per_piece * n_pieces / (now() - begin);
    if (rate > out->best) out->best = rate;
    units += units_per_piece * n_pieces;
    job->first = job->first + 2 * WINDOW > job->n_pieces ? 0 : job->first + WINDOW;
  }
  out->mean = units / (now() - start);
  return SL_OK;
}

static size_t buffer_size(void) {
  long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  size_t free_bytes = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : BUFFER, size = free_bytes / 4;
  if (size > BUFFER) size = BUFFER;
  size = size / READ_PIECE * READ_PIECE;
  return size < 2 * WINDOW * READ_PIECE ? 2 * WINDOW * READ_PIECE : size;
}

static sl_status measure_read(sl_pool *pool, double seconds, limit_job *job, rates *out, sl_error *err) {
  size_t size = buffer_size();
  /* The loops ask for lines SL_MM_LEAD beyond the end: that much is mapped too. */
  void *buffer = mmap(NULL, size + READ_PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (buffer == MAP_FAILED)
    return sl_fail(err, SL_ERR_MEMORY, "limits: no memory for a buffer of %zu bytes", (size_t)(size + READ_PIECE));
  job->buffer = buffer;
  job->n_pieces = (int)(size / READ_PIECE);
  sl_status status = sl_pool_run(pool, job->n_pieces, touch_piece, job);
  if (status == SL_OK) status = measure(pool, seconds, WINDOW, read_piece, job, (double)READ_PIECE, out);
  munmap(buffer, size + READ_PIECE);
  return status == SL_OK ? SL_OK : sl_fail(err, status, "limits: reading memory failed");
}

sl_status sl_limits_measure(sl_pool *pool, double seconds, sl_limits *out, sl_error *err) {
  limit_job job = {.loops = best_loops()};
  int pieces = sl_pool_threads(pool) * 16;
  rates read, fma, dot = {0};
  *out = (sl_limits){0};
  SL_TRY(measure_read(pool, seconds / 2, &job, &read, err));
  SL_TRY(measure(pool, seconds / 4, pieces, fma_piece, &job, ROUNDS * job.loops->fma_per_round, &fma));
  if (job.loops->dot)
    SL_TRY(measure(pool, seconds / 4, pieces, dot_piece, &job, ROUNDS * job.loops->dot_per_round, &dot));
  *out = (sl_limits){.read_bytes_per_s = read.mean, .f32_flops = fma.best, .bf16_flops = dot.best};
  return SL_OK;
}
