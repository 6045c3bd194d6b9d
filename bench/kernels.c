/* Each matrix kernel as a share of the limit that binds it, both measured in this run.
 *
 *   bench_kernels [threads [kernels [what ...]]]     what: limits decode experts prompt (default: all)
 *
 * With one thread its CPU time is taken, so that a busy machine disturbs less.  Shapes are those of a Gemma 4 26B-A4B.
 * Every call gets another copy of the weights, from some hundred megabytes of them, so that they come from memory as
 * they do in a model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/backend.h"
#include "base/machine.h"
#include "backend/limits.h"

#define WEIGHTS (640ull << 20) /* bytes of random weights; matrices are windows into them */
enum { RUNS = 7, ODD = 8 };    /* ODD: tensors in files begin at any multiple of their element, rarely of a line */

typedef struct bench {
  const sl_backend *backend;
  sl_pool *pool;
  sl_limits limits;
  uint8_t *weights;
  float *in, *out;
  void *scratch;
  size_t scratch_size;
} bench;

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

static double median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, ascending);
  return x[n / 2];
}

static void *must(void *p) {
  if (p) return p;
  fprintf(stderr, "bench_kernels: out of memory\n");
  exit(1);
}

static const sl_kernel *find(bench *b, const sl_op_sig *sig, int M) {
  sl_refusal why;
  const sl_kernel *kernel = sl_kernel_find(b->backend, sig, &why);
  if (!kernel) {
    printf("  %s: %s\n", sl_op_name(sig->op), why.detail);
    return NULL;
  }
  size_t size = kernel->scratch ? kernel->scratch(sig, M, sl_pool_threads(b->pool)) : 0;
  if (size > b->scratch_size) {
    free(b->scratch);
    b->scratch = must(aligned_alloc(64, (size + 63) / 64 * 64));
    memset(b->scratch, 0, size);
    b->scratch_size = size;
  }
  return kernel;
}

static void run(bench *b, const sl_kernel *kernel, const sl_op_args *args) {
  sl_error err;
  sl_ctx ctx = {b->pool, b->scratch, b->scratch_size, &err};
  if (kernel->run(&ctx, args) == SL_OK) return;
  fprintf(stderr, "bench_kernels: %s: %s\n", kernel->name, err.text);
  exit(1);
}

static void report(const char *name, const char *shape, double seconds, double amount, double limit, const char *unit) {
  printf("  %-32s %-18s %9.1f us %8.1f %s %5.0f %%\n", name, shape, seconds * 1e6, amount / seconds * 1e-9, unit,
         100 * amount / seconds / limit);
  fflush(stdout);
}

/* The median time of a matmul over `copies` windows. */
static void bench_matmul(bench *b, sl_role role, sl_math math, sl_dtype dtype, int M, int N, int K) {
  sl_op_sig sig = {
      .op = SL_OP_MATMUL_BT, .role = role, .math = math, .dtype = dtype, .scale_dtype = SL_F32, .N = N, .K = K};
  const sl_kernel *kernel = find(b, &sig, M);
  if (!kernel) return;
  size_t bytes = (size_t)N * sl_row_bytes(dtype, K), copies = WEIGHTS / bytes,
         most = role == SL_PROMPT && M > 64 ? 4 : 64;
  if (copies > most) copies = most;
  double times[RUNS];
  for (int i = 0; i < RUNS; i++) {
    double begin = now();
    for (size_t c = 0; c < copies; c++) {
      sl_weight w = {b->weights + WEIGHTS / copies * c / 64 * 64 + ODD, NULL, dtype, SL_F32, N, K};
      sl_op_args args = {.matmul_bt = {b->out, b->in, &w, 1, 0, M, K, N}};
      run(b, kernel, &args);
    }
    times[i] = (now() - begin) / (double)copies;
  }
  char shape[64];
  snprintf(shape, sizeof shape, "%d x %d x %d", M, N, K);
  double seconds = median(times, RUNS), flops = 2.0 * M * N * K;
  bool is_bf16 = math == SL_FAST && (dtype == SL_BF16 || dtype == SL_F8_E4M3);
  if (role == SL_GENERATED)
    report(kernel->name, shape, seconds, (double)bytes, b->limits.read_bytes_per_s, "GB/s  ");
  else
    report(kernel->name, shape, seconds, flops, is_bf16 ? b->limits.bf16_flops : b->limits.f32_flops, "GFLOP/s");
}

static void bench_experts(bench *b, sl_math math, int M) {
  enum { E = 110, H = 2816, I = 704, TOP_K = 8, MOST = 16 };
  sl_op_sig sig = {.op = SL_OP_EXPERT_FFN,
                   .role = SL_GENERATED,
                   .math = math,
                   .dtype = SL_F8_E4M3,
                   .scale_dtype = SL_F32,
                   .N = I,
                   .K = H,
                   .top_k = TOP_K};
  const sl_kernel *kernel = find(b, &sig, M);
  if (!kernel) return;
  static sl_expert experts[E];
  const size_t each = (size_t)H * I;
  for (size_t e = 0; e < E; e++) {
    sl_weight w = {b->weights + ODD + e * 3 * each, NULL, SL_F8_E4M3, SL_F32, I, H};
    experts[e].gate = w;
    w.data = b->weights + ODD + e * 3 * each + each;
    experts[e].up = w;
    experts[e].down = (sl_weight){b->weights + ODD + e * 3 * each + 2 * each, NULL, SL_F8_E4M3, SL_F32, H, I};
  }
  int32_t ids[MOST * TOP_K];
  float weights[MOST * TOP_K];
  double times[RUNS];
  int distinct = M * TOP_K < E ? M * TOP_K : E, next = 0;
  for (int i = 0; i < RUNS; i++) {
    double spent = 0;
    int calls = E / distinct;
    for (int c = 0; c < calls; c++, next += distinct) {
      for (int j = 0; j < M * TOP_K; j++) ids[j] = (next + j) * 37 % E, weights[j] = 0.125f;
      sl_op_args args = {.expert_ffn = {b->out, b->in, ids, weights, experts, SL_GELU_TANH, M, H, I, TOP_K, E}};
      double begin = now();
      run(b, kernel, &args);
      spent += now() - begin;
    }
    times[i] = spent / calls;
  }
  char shape[64];
  snprintf(shape, sizeof shape, "%d x %d experts", M, distinct);
  report(kernel->name, shape, median(times, RUNS), (double)distinct * 3 * H * I, b->limits.read_bytes_per_s, "GB/s  ");
}

static void bench_decode(bench *b) {
  static const int shapes[][2] = {{4096, 2816}, {8192, 2816}, {2816, 8192}, {2112, 2816}, {704, 2816}, {2816, 704}};
  printf("decode, share of the read bandwidth\n");
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    bench_matmul(b, SL_GENERATED, SL_EXACT, SL_F8_E4M3, 1, shapes[i][0], shapes[i][1]);
  bench_matmul(b, SL_GENERATED, SL_FAST, SL_F8_E4M3, 1, 4096, 2816);
  for (int M = 2; M <= 16; M *= 2) bench_matmul(b, SL_GENERATED, SL_EXACT, SL_F8_E4M3, M, 4096, 2816);
  bench_matmul(b, SL_GENERATED, SL_EXACT, SL_BF16, 1, 32768, 2816);
  bench_matmul(b, SL_GENERATED, SL_FAST, SL_BF16, 1, 32768, 2816);
  bench_matmul(b, SL_GENERATED, SL_EXACT, SL_F16, 1, 8192, 2816);
  bench_matmul(b, SL_GENERATED, SL_EXACT, SL_F32, 1, 8192, 2816);
}

static void bench_all_experts(bench *b) {
  printf("experts of 704 x 2816, share of the read bandwidth\n");
  for (int M = 1; M <= 16; M *= 4) bench_experts(b, SL_EXACT, M);
  bench_experts(b, SL_FAST, 1);
}

static void bench_prompt(bench *b) {
  static const int shapes[][3] = {{512, 704, 2816},  {512, 2816, 704},  {512, 4096, 2816}, {512, 2816, 4096},
                                  {512, 8192, 2816}, {512, 2816, 8192}, {32, 704, 2816},   {32, 2816, 704},
                                  {7, 704, 2816},    {1, 704, 2816}};
  for (int math = SL_EXACT; math <= SL_FAST; math++) {
    printf("prompt, %s\n", math == SL_EXACT ? "exact, share of the f32 peak" : "fast, share of the bf16 peak");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
      bench_matmul(b, SL_PROMPT, (sl_math)math, SL_F8_E4M3, shapes[i][0], shapes[i][1], shapes[i][2]);
    bench_matmul(b, SL_PROMPT, (sl_math)math, SL_BF16, 512, 4096, 2816);
    bench_matmul(b, SL_PROMPT, (sl_math)math, SL_BF16, 32, 704, 2816);
  }
}

/* Finite random bytes in every dtype: exponents in the middle. */
static void fill_weights(uint8_t *to, size_t n) {
  uint64_t state = 88172645463325252u;
  for (size_t i = 0; i < n; i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    uint64_t word = state & 0xBFBFBFBFBFBFBFBFu;
    memcpy(to + i, &word, 8);
  }
}

static bool wanted(int argc, char **argv, const char *what) {
  for (int i = 3; i < argc; i++)
    if (strcmp(argv[i], what) == 0) return true;
  return argc <= 3;
}

int main(int argc, char **argv) {
  bench b = {0};
  sl_error err;
  const sl_backend *arms[SL_MAX_ARMS];
  int n, threads = argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : sl_cpu_count();
  if (sl_cpu_arms(argc > 2 ? argv[2] : "auto", arms, &n, &err) != SL_OK ||
      sl_pool_new(threads, &b.pool, &err) != SL_OK) {
    fprintf(stderr, "bench_kernels: %s\n", err.text);
    return 1;
  }
  b.backend = arms[0];
  if (threads == 1) the_clock = CLOCK_THREAD_CPUTIME_ID;
  if (sl_limits_measure(b.pool, 2, &b.limits, &err) != SL_OK) {
    fprintf(stderr, "bench_kernels: %s\n", err.text);
    return 1;
  }
  printf("%s, %d threads: read %.1f GB/s, f32 %.0f GFLOP/s, bf16 %.0f GFLOP/s\n", b.backend->name, threads,
         b.limits.read_bytes_per_s * 1e-9, b.limits.f32_flops * 1e-9, b.limits.bf16_flops * 1e-9);
  b.weights = must(aligned_alloc(64, WEIGHTS + (1 << 20)));
  fill_weights(b.weights, WEIGHTS + (1 << 20));
  const size_t floats = 512 * 32768;
  b.in = must(aligned_alloc(64, floats * 4));
  b.out = must(aligned_alloc(64, floats * 4));
  for (size_t i = 0; i < floats; i++) b.in[i] = (float)(i * 2654435761u % 1000) * 1e-3f - 0.5f, b.out[i] = 0;

  if (wanted(argc, argv, "decode")) bench_decode(&b);
  if (wanted(argc, argv, "experts")) bench_all_experts(&b);
  if (wanted(argc, argv, "prompt")) bench_prompt(&b);
  free(b.weights);
  free(b.in);
  free(b.out);
  free(b.scratch);
  sl_pool_free(b.pool);
  return 0;
}
