/* Attention as a share of the limit that binds it, both measured in this run: f32 peak for prompts, read bandwidth for
 * generated tokens.  Shapes are those of a Gemma 4 26B-A4B.
 *
 *   bench_attention [threads [kernels]]
 *
 * With one thread its CPU time is taken, so that a busy machine disturbs less.  Each call of a decode takes another
 * layer's cache, so that keys and values come from memory as they do in a model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/backend.h"
#include "base/machine.h"
#include "backend/limits.h"

enum { RUNS = 7, CHUNK = 512 };
#define CACHES_BYTES (200ull << 20) /* far more than a last-level cache */

typedef struct shape {
  const char *name;
  int n_heads, n_kv_heads, head_dim, window;
} shape;
static const shape sliding = {"sliding, 16 heads on 8, head_dim 256, window 1024", 16, 8, 256, 1024};
static const shape full = {"full, 16 heads on 2, head_dim 512", 16, 2, 512, 0};

static clockid_t the_clock = CLOCK_MONOTONIC;

static double now(void) {
  struct timespec t;
  clock_gettime(the_clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void *must(void *p) {
  if (p) return p;
  fprintf(stderr, "bench_attention: out of memory\n");
  exit(1);
}

static float noise(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (float)(*state >> 40) * 0x1p-23f - 1.0f;
}

/* Keys and values of one layer, filled with noise. */
static sl_kv new_cache(const shape *s, int capacity, uint64_t *state) {
  size_t n = (size_t)capacity * (size_t)s->n_kv_heads * (size_t)s->head_dim;
  sl_kv kv = {must(malloc(2 * n)), must(malloc(2 * n)), SL_F16, s->n_kv_heads, s->head_dim, capacity};
  for (size_t i = 0; i < n; i++) {
    ((uint16_t *)kv.k)[i] = i < 65536 ? sl_f32_to_f16(noise(state)) : ((uint16_t *)kv.k)[i - 65521];
    ((uint16_t *)kv.v)[i] = i < 65536 ? sl_f32_to_f16(noise(state)) : ((uint16_t *)kv.v)[i - 65519];
  }
  return kv;
}

static double median_seconds(const sl_backend *b, sl_pool *pool, const shape *s, sl_role role, int M, int first_pos) {
  int n_threads = sl_pool_threads(pool), capacity = (first_pos + M + SL_KV_BLOCK - 1) / SL_KV_BLOCK * SL_KV_BLOCK;
  size_t row = (size_t)(s->n_heads * s->head_dim), bytes = 4 * (size_t)capacity * (size_t)(s->n_kv_heads * s->head_dim);
  int n_caches = role == SL_PROMPT ? 1 : (int)(CACHES_BYTES / bytes) + 1;
  uint64_t state = 1;
  sl_kv *caches = must(calloc((size_t)n_caches, sizeof *caches));
  for (int i = 0; i < n_caches; i++) caches[i] = new_cache(s, capacity, &state);
  float *q = must(malloc((size_t)M * row * 4)), *out = must(malloc((size_t)M * row * 4));
  for (size_t i = 0; i < (size_t)M * row; i++) q[i] = noise(&state) / 16.0f;

  sl_op_sig sig = {.op = SL_OP_ATTENTION,
                   .role = role,
                   .dtype = SL_F16,
                   .N = (int)row,
                   .K = s->head_dim,
                   .group = s->n_heads / s->n_kv_heads};
  const sl_kernel *kernel = must((void *)(uintptr_t)sl_kernel_find(b, &sig, NULL));
  sl_ctx ctx = {.pool = pool, .scratch_size = kernel->scratch ? kernel->scratch(&sig, M, n_threads) : 0};
  ctx.scratch = must(aligned_alloc(64, (ctx.scratch_size + 64) / 64 * 64));
  int calls = role == SL_PROMPT ? 1 : n_caches;
  double seconds[RUNS];
  for (int r = 0; r < RUNS; r++) {
    double start = now();
    for (int i = 0; i < calls; i++) {
      sl_segment segment = {caches[i % n_caches], 0, M, first_pos};
      sl_op_args args = {
          .attention = {out, q, &segment, 1, 1.0f, M, s->n_heads, s->n_kv_heads, s->head_dim, s->window}};
      if (kernel->run(&ctx, &args) != SL_OK) exit(1);
    }
    seconds[r] = (now() - start) / calls;
  }
  qsort(seconds, RUNS, sizeof *seconds, ascending);
  for (int i = 0; i < n_caches; i++) {
    free(caches[i].k);
    free(caches[i].v);
  }
  free(caches);
  free(q);
  free(out);
  free(ctx.scratch);
  return seconds[RUNS / 2];
}

/* Keys that rows at positions first_pos .. first_pos+M-1 look at, all together. */
static double n_pairs(const shape *s, int M, int first_pos) {
  double pairs = 0.0;
  for (int m = 0; m < M; m++) {
    int keys = first_pos + m + 1;
    pairs += s->window && keys > s->window ? s->window : keys;
  }
  return pairs;
}

static void prompt(const sl_backend *b, sl_pool *pool, const sl_limits *limits, const shape *s, int M, int first_pos) {
  double seconds = median_seconds(b, pool, s, SL_PROMPT, M, first_pos);
  double flops = 4.0 * n_pairs(s, M, first_pos) * s->n_heads * s->head_dim / seconds;
  printf("  prompt, %d tokens from %5d  %8.2f ms  %6.1f GFLOP/s  %3.0f %% of the f32 peak\n", M, first_pos,
         seconds * 1e3, flops / 1e9, 100.0 * flops / limits->f32_flops);
}

static void decode(const sl_backend *b, sl_pool *pool, const sl_limits *limits, const shape *s, int pos) {
  double seconds = median_seconds(b, pool, s, SL_GENERATED, 1, pos);
  double rate = 4.0 * n_pairs(s, 1, pos) * s->n_kv_heads * s->head_dim / seconds;
  printf("  decode at %6d            %8.3f ms  %6.1f GB/s     %3.0f %% of the read bandwidth\n", pos, seconds * 1e3,
         rate / 1e9, 100.0 * rate / limits->read_bytes_per_s);
}

int main(int argc, char **argv) {
  int n_threads = argc > 1 ? atoi(argv[1]) : sl_cpu_count(), n_arms;
  const sl_backend *arms[SL_MAX_ARMS];
  sl_error err;
  sl_pool *pool;
  sl_limits limits;
  if (sl_pool_new(n_threads, &pool, &err) != SL_OK ||
      sl_cpu_arms(argc > 2 ? argv[2] : "auto", arms, &n_arms, &err) != SL_OK ||
      sl_limits_measure(pool, 1.0, &limits, &err) != SL_OK) {
    fprintf(stderr, "bench_attention: %s\n", err.text);
    return 2;
  }
  if (n_threads == 1) the_clock = CLOCK_THREAD_CPUTIME_ID;
  printf("%s, %d threads: read %.1f GB/s, f32 %.0f GFLOP/s\n", arms[0]->name, n_threads, limits.read_bytes_per_s / 1e9,
         limits.f32_flops / 1e9);
  const shape *shapes[] = {&sliding, &full};
  for (int i = 0; i < 2; i++) {
    printf("%s\n", shapes[i]->name);
    prompt(arms[0], pool, &limits, shapes[i], CHUNK, 0);
    prompt(arms[0], pool, &limits, shapes[i], CHUNK, 1536);
    decode(arms[0], pool, &limits, shapes[i], 1023);
    decode(arms[0], pool, &limits, shapes[i], 8191);
  }
  sl_pool_free(pool);
  return 0;
}
