/* Every matrix kernel of this machine, judged by the scalar reference and by formulas in double. */
#include <stdio.h>

#include "backend/backend.h"
#include "ops/reference.h"
#include "unit.h"

static const char *const arm_names[] = {"avx512", "avx2"};
enum { N_ARMS = 2, MAX_THREADS = 3 };
static const sl_backend *backends[N_ARMS]; /* NULL where the machine lacks it */
static sl_pool *pools[MAX_THREADS + 1];

static int set_up(void **state) {
  (void)state;
  for (int i = 0; i < N_ARMS; i++) {
    const sl_backend *arms[SL_MAX_ARMS];
    int n;
    if (sl_cpu_arms(arm_names[i], arms, &n, NULL) == SL_OK)
      backends[i] = arms[0];
    else
      printf("SKIPPED: %s is not on this machine or not in this build\n", arm_names[i]);
  }
  for (int t = 1; t <= MAX_THREADS; t++)
    if (sl_pool_new(t, &pools[t], NULL) != SL_OK) return 1;
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  for (int t = 1; t <= MAX_THREADS; t++) sl_pool_free(pools[t]);
  return 0;
}

/* ---- making things ------------------------------------------------------------------------------------------- */

static void *must(void *p) {
  assert_non_null(p);
  return p;
}

static float *random_floats(unit_random *r, size_t n) {
  float *x = must(malloc((n + 1) * sizeof *x));
  for (size_t i = 0; i < n; i++) x[i] = unit_float(r);
  return x;
}

static void store(uint8_t *to, sl_dtype dtype, unit_random *r) {
  float f = unit_float(r);
  uint16_t h = dtype == SL_F16 ? sl_f32_to_f16(f) : sl_f32_to_bf16(f);
  uint8_t b = (uint8_t)(unit_next(r) >> 32);
  if ((b & 0x7F) == 0x7F) b = 0;
  if (dtype == SL_F32)
    memcpy(to, &f, 4);
  else if (dtype == SL_F8_E4M3)
    memcpy(to, &b, 1);
  else
    memcpy(to, &h, 2);
}

/* Weights at an odd address, with multipliers of scale_dtype (SL_N_DTYPES: none), at an odd address too. */
typedef struct matrix {
  sl_weight w;
  void *data, *scale; /* to be freed */
} matrix;

static matrix random_matrix(unit_random *r, sl_dtype dtype, sl_dtype scale_dtype, int N, int K) {
  matrix m = {{NULL, NULL, dtype, SL_F32, N, K}, NULL, NULL};
  size_t size = sl_dtype_size(dtype), n = (size_t)N * (size_t)K;
  uint8_t *data = m.data = must(malloc(n * size + 1));
  for (size_t i = 0; i < n; i++) store(data + 1 + i * size, dtype, r);
  m.w.data = data + 1;
  if (scale_dtype == SL_N_DTYPES) return m;
  uint8_t *scale = m.scale = must(malloc((size_t)N * sl_dtype_size(scale_dtype) + 1));
  for (int i = 0; i < N; i++) store(scale + 1 + (size_t)i * sl_dtype_size(scale_dtype), scale_dtype, r);
  m.w.scale = scale + 1;
  m.w.scale_dtype = scale_dtype;
  return m;
}

static void free_matrix(matrix *m) {
  free(m->data);
  free(m->scale);
}

static sl_status run(const sl_backend *backend, const sl_op_sig *sig, const sl_op_args *args, int M, int threads) {
  sl_refusal why;
  const sl_kernel *kernel = sl_kernel_find(backend, sig, &why);
  assert_non_null(kernel);
  size_t size = kernel->scratch ? kernel->scratch(sig, M, threads) : 0;
  /* Exactly as much as was asked for, full of NaN, so that a sanitizer sees what lies beyond. */
  void *scratch = size ? must(aligned_alloc(64, (size + 63) / 64 * 64)) : NULL;
  if (size) memset(scratch, 0xFF, size);
  sl_ctx ctx = {pools[threads], scratch, size, NULL};
  sl_status status = kernel->run(&ctx, args);
  free(scratch);
  return status;
}

static sl_op_sig sig_of(sl_op op, sl_role role, sl_math math, const sl_weight *w) {
  return (sl_op_sig){.op = op,
                     .role = role,
                     .math = math,
                     .dtype = w->dtype,
                     .has_scale = w->scale != NULL,
                     .scale_dtype = w->scale_dtype,
                     .N = w->N,
                     .K = w->K};
}

static void matmul(const sl_backend *backend, sl_role role, sl_math math, const sl_matmul_bt_args *args, int threads) {
  sl_op_sig sig = sig_of(SL_OP_MATMUL_BT, role, math, args->B);
  sl_op_args all = {.matmul_bt = *args};
  assert_int_equal(sl_op_check(SL_OP_MATMUL_BT, &all, NULL), SL_OK);
  assert_int_equal(run(backend, &sig, &all, args->M, threads), SL_OK);
}

/* Calls fn for each backend of this machine, role, math and weight dtype. */
typedef void (*each_fn)(const sl_backend *backend, sl_role role, sl_math math, sl_dtype dtype);
static void each(each_fn fn) {
  for (int b = 0; b < N_ARMS; b++)
    for (int role = 0; backends[b] && role < SL_N_ROLES; role++)
      for (int math = SL_EXACT; math <= SL_FAST; math++)
        for (int dtype = 0; dtype < SL_N_DTYPES; dtype++)
          fn(backends[b], (sl_role)role, (sl_math)math, (sl_dtype)dtype);
}

/* ---- matmul_bt ----------------------------------------------------------------------------------------------- */

/* Relative to the sum of magnitudes.  A bf16 pair leaves 2^-17 of an activation, f32 sums a few 2^-24; a single bf16
 * leaves 2^-8. */
static double bound(sl_math math) { return math == SL_EXACT ? 8e-6 : 4e-3; }

static double magnitude(const float *a, const sl_weight *w, int n) {
  double sum = 0;
  for (int k = 0; k < w->K; k++) sum += fabs((double)a[k] * sl_load(w->data, w->dtype, (int64_t)n * w->K + k));
  return sum * fabs(sl_weight_scale(w, n));
}

static void compare_one(const sl_backend *backend, sl_role role, sl_math math, sl_dtype dtype, int M, int N, int K,
                        float beta) {
  static const sl_dtype scale_dtypes[] = {SL_F32, SL_F16, SL_BF16, SL_N_DTYPES};
  unit_random r = {(uint64_t)(M * 1000003 + N * 1009 + K)};
  matrix B = random_matrix(&r, dtype, scale_dtypes[(M + N + K) % 4], N, K);
  int64_t lda = K + 3, ldo = N + 5;
  float *A = random_floats(&r, (size_t)(M * lda)), *out = random_floats(&r, (size_t)(M * ldo));
  float *expected = must(malloc((size_t)(M * ldo) * sizeof *out));
  if (beta == 0) unit_poison(out, (size_t)(M * ldo));
  memcpy(expected, out, (size_t)(M * ldo) * sizeof *out);

  sl_matmul_bt_args args = {out, A, &B.w, 0.75f, beta, M, lda, ldo};
  sl_op_args reference = {.matmul_bt = args};
  reference.matmul_bt.out = expected;
  matmul(backend, role, math, &args, 2);
  sl_reference_rows(SL_OP_MATMUL_BT, &reference, 0, M);
  for (int m = 0; m < M; m++) {
    for (int n = 0; n < N; n++) {
      double error = fabs((double)out[m * ldo + n] - expected[m * ldo + n]);
      if (!(error <= bound(math) * magnitude(A + m * lda, &B.w, n) + 1e-6 * fabs(expected[m * ldo + n])))
        fail_msg("%s, role %d, math %d, %s, M %d, N %d, K %d: [%d,%d] is %g, expected %g", backend->name, role, math,
                 sl_dtype_name(dtype), M, N, K, m, n, out[m * ldo + n], expected[m * ldo + n]);
    }
    assert_memory_equal(out + m * ldo + N, expected + m * ldo + N, 5 * sizeof *out); /* between rows: untouched */
  }
  free_matrix(&B);
  free(A);
  free(out);
  free(expected);
}

static void compare_sizes(const sl_backend *backend, sl_role role, sl_math math, sl_dtype dtype) {
  static const int Ns[] = {1, 3, 17, 70}, Ks[] = {1, 31, 33, 64, 704, 2821};
  for (size_t n = 0; n < sizeof Ns / sizeof *Ns; n++)
    for (size_t k = 0; k < sizeof Ks / sizeof *Ks; k++)
      for (int M = 1; M <= 5; M++) compare_one(backend, role, math, dtype, M, Ns[n], Ks[k], 0);
  compare_one(backend, role, math, dtype, 19, 130, 1500, 0);
  compare_one(backend, role, math, dtype, 130, 19, 705, 0);
}
static void matmul_bt_is_within_its_bound_of_the_reference(void **state) {
  (void)state;
  each(compare_sizes);
}

static void compare_beta(const sl_backend *backend, sl_role role, sl_math math, sl_dtype dtype) {
  compare_one(backend, role, math, dtype, 5, 37, 100, -1.5f);
}
static void matmul_bt_adds_beta_times_out(void **state) {
  (void)state;
  each(compare_beta);
}

static void empty_sum(const sl_backend *backend, sl_role role, sl_math math, sl_dtype dtype) {
  uint8_t nothing[1] = {0};
  float out[3] = {1, -2, 4}, a = 0;
  sl_weight B = {nothing, NULL, dtype, SL_F32, 3, 0};
  sl_matmul_bt_args args = {out, &a, &B, 1, 0.5f, 1, 0, 3};
  matmul(backend, role, math, &args, 1);
  const float half[3] = {0.5f, -1, 2}, zero[3] = {0, 0, 0};
  assert_memory_equal(out, half, sizeof out);
  unit_poison(out, 3);
  args.beta = 0;
  matmul(backend, role, math, &args, 1);
  assert_memory_equal(out, zero, sizeof out);
}
static void matmul_bt_without_any_k_scales_out_by_beta(void **state) {
  (void)state;
  each(empty_sum);
}

/* ---- one order of summing ------------------------------------------------------------------------------------ */

static void same_bits_of(const sl_backend *backend, sl_role role, sl_math math, sl_dtype dtype, int M, int N, int K) {
  static const int Ms[] = {1, 2, 3, 7, 16, 64, 100, 513};
  unit_random r = {99};
  matrix B = random_matrix(&r, dtype, SL_F32, N, K);
  const size_t n_out = (size_t)(M * N);
  float *A = random_floats(&r, (size_t)(M * K)), *out = must(malloc(n_out * sizeof *out));
  float *wide = must(malloc((size_t)(M * (K + 7)) * sizeof *wide + 4)), *again = must(malloc(n_out * sizeof *out));
  for (int m = 0; m < M; m++) memcpy(wide + 1 + m * (K + 5), A + m * K, (size_t)K * sizeof *A);
  sl_matmul_bt_args args = {out, A, &B.w, 1, 0, M, K, N};
  matmul(backend, role, math, &args, 1);
  for (size_t i = 0; i < sizeof Ms / sizeof *Ms && Ms[i] <= M; i++) {
    for (int threads = 1; threads <= MAX_THREADS; threads++) {
      /* Other rows before it, another stride, another alignment. */
      int first = (int)(unit_next(&r) % (uint64_t)(M - Ms[i] + 1));
      args = (sl_matmul_bt_args){again, wide + 1 + first * (K + 5), &B.w, 1, 0, Ms[i], K + 5, N};
      unit_poison(again, n_out);
      matmul(backend, role, math, &args, threads);
      assert_memory_equal(again, out + first * N, (size_t)(Ms[i] * N) * sizeof *out);
    }
  }
  for (int n = 1; n < N; n += 13) { /* the last rows of B alone, moved to an even address */
    sl_weight part = B.w;
    size_t row = sl_row_bytes(dtype, K);
    uint8_t *moved = must(aligned_alloc(64, ((size_t)N * row + 63) / 64 * 64));
    memcpy(moved, (const uint8_t *)B.w.data + (size_t)n * row, (size_t)(N - n) * row);
    part.data = moved;
    part.scale = (const uint8_t *)B.w.scale + (size_t)n * 4;
    part.N = N - n;
    args = (sl_matmul_bt_args){again, A, &part, 1, 0, 9, K, N - n};
    matmul(backend, role, math, &args, 2);
    for (int m = 0; m < 9; m++)
      assert_memory_equal(again + m * (N - n), out + m * N + n, (size_t)(N - n) * sizeof *out);
    free(moved);
  }
  free_matrix(&B);
  free(A);
  free(out);
  free(wide);
  free(again);
}
static void same_bits(const sl_backend *backend, sl_role role, sl_math math, sl_dtype dtype) {
  same_bits_of(backend, role, math, dtype, 513, 75, 1447);
  same_bits_of(backend, role, math, dtype, 16, 41, 2821); /* long rows are walked in segments, some of them only with */
  same_bits_of(backend, role, math, dtype, 16, 41, 4200); /* several tokens */
}
static void matmul_bt_gives_the_same_bits_for_any_number_of_tokens_rows_and_threads(void **state) {
  (void)state;
  each(same_bits);
}

/* ---- odd values ---------------------------------------------------------------------------------------------- */

static void all_codes(const sl_backend *backend, sl_role role, sl_math math, sl_dtype dtype) {
  if (dtype != SL_F8_E4M3) return;
  for (int K = 1; K <= 130; K += 43) { /* the code as the last element of each row */
    uint8_t *codes = must(calloc(256, (size_t)K));
    float *x = must(calloc((size_t)K, sizeof *x)), out[256];
    for (int i = 0; i < 256; i++) codes[i * K + K - 1] = (uint8_t)i;
    x[K - 1] = 1;
    sl_weight B = {codes, NULL, SL_F8_E4M3, SL_F32, 256, K};
    sl_matmul_bt_args args = {out, x, &B, 1, 0, 1, K, 256};
    unit_poison(out, 256);
    matmul(backend, role, math, &args, 1);
    for (int i = 0; i < 256; i++) {
      int exponent = i >> 3 & 15, mantissa = i & 7;
      double value = exponent ? ldexp(1 + mantissa / 8.0, exponent - 7) : ldexp(mantissa, -9);
      if ((i & 0x7F) == 0x7F)
        assert_true(isnan(out[i]));
      else
        assert_true((double)out[i] == (i < 128 ? value : -value));
    }
    free(codes);
    free(x);
  }
}
static void matmul_bt_reads_all_256_fp8_codes_exactly(void **state) {
  (void)state;
  each(all_codes);
}

static void nan_stays(const sl_backend *backend, sl_role role, sl_math math, sl_dtype dtype) {
  enum { M = 6, N = 9, K = 100 };
  unit_random r = {5};
  matrix B = random_matrix(&r, dtype, SL_N_DTYPES, N, K);
  float *A = random_floats(&r, M * K), out[M * N];
  static const uint8_t f32_nan[] = {1, 0, 0x80, 0x7F}, f16_nan[] = {1, 0x7C}, bf16_nan[] = {0x81, 0xFF};
  static const uint8_t f8_nan[] = {0xFF};
  const uint8_t *nan_bytes[] = {[SL_F32] = f32_nan, [SL_F16] = f16_nan, [SL_BF16] = bf16_nan, [SL_F8_E4M3] = f8_nan};
  A[3 * K + 99] = NAN;
  memcpy((uint8_t *)B.data + 1 + (7 * K + 50) * sl_dtype_size(dtype), nan_bytes[dtype], sl_dtype_size(dtype));
  sl_matmul_bt_args args = {out, A, &B.w, 1, 0, M, K, N};
  matmul(backend, role, math, &args, 1);
  for (int i = 0; i < M * N; i++) assert_int_equal(isnan(out[i]) != 0, i / N == 3 || i % N == 7);
  free_matrix(&B);
  free(A);
}
static void matmul_bt_lets_nan_through_and_nowhere_else(void **state) {
  (void)state;
  each(nan_stays);
}

/* ---- expert_ffn ---------------------------------------------------------------------------------------------- */

enum { E = 9, TOP_K = 4 };
typedef struct experts {
  matrix all[E][3];
  sl_expert list[E];
} experts;

static void make_experts(experts *x, unit_random *r, sl_dtype dtype, int H, int I) {
  sl_dtype scale = dtype == SL_F8_E4M3 ? SL_BF16 : SL_N_DTYPES;
  for (int e = 0; e < E; e++) {
    x->all[e][0] = random_matrix(r, dtype, scale, I, H);
    x->all[e][1] = random_matrix(r, dtype, scale, I, H);
    x->all[e][2] = random_matrix(r, dtype, scale, H, I);
    x->list[e] = (sl_expert){x->all[e][0].w, x->all[e][1].w, x->all[e][2].w};
  }
}

static void free_experts(experts *x) {
  for (int e = 0; e < E; e++)
    for (int i = 0; i < 3; i++) free_matrix(&x->all[e][i]);
}

static void random_ids(unit_random *r, int32_t *ids, int n) {
  for (int i = 0; i < n; i++) {
    bool again = true;
    while (again) {
      ids[i] = (int32_t)(unit_next(r) >> 33) % E;
      again = false;
      for (int j = i / TOP_K * TOP_K; j < i; j++) again |= ids[j] == ids[i];
    }
  }
}

static void ffn(const sl_backend *backend, sl_math math, const sl_expert_ffn_args *args, int threads) {
  sl_op_sig sig = sig_of(SL_OP_EXPERT_FFN, SL_GENERATED, math, &args->experts[0].gate);
  sig.top_k = args->top_k;
  sl_op_args all = {.expert_ffn = *args};
  assert_int_equal(sl_op_check(SL_OP_EXPERT_FFN, &all, NULL), SL_OK);
  assert_int_equal(run(backend, &sig, &all, args->M, threads), SL_OK);
}

/* Largest difference as a share of the largest value. */
static void compare_experts(const sl_backend *backend, sl_role role, sl_math math, sl_dtype dtype) {
  static const struct { int M, H, I; } sizes[] = {{1, 128, 64}, {1, 300, 130}, {5, 97, 33}, {70, 64, 100}};
  if (role != SL_GENERATED) return;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    int M = sizes[s].M, H = sizes[s].H, I = sizes[s].I;
    unit_random r = {s + 77};
    experts x;
    make_experts(&x, &r, dtype, H, I);
    int32_t ids[70 * TOP_K];
    random_ids(&r, ids, M * TOP_K);
    float *in = random_floats(&r, (size_t)(M * H)), *weights = random_floats(&r, (size_t)(M * TOP_K));
    float *out = must(malloc((size_t)(M * H) * 4)), *expected = must(malloc((size_t)(M * H) * 4));
    unit_poison(out, (size_t)(M * H));
    for (int i = 0; i < M * H; i++) in[i] *= dtype == SL_F8_E4M3 ? 0.01f : 0.3f;
    for (int act = SL_GELU_TANH; act <= SL_SILU; act++) {
      sl_expert_ffn_args args = {out, in, ids, weights, x.list, (sl_activation)act, M, H, I, TOP_K, E};
      sl_op_args reference = {.expert_ffn = args};
      reference.expert_ffn.out = expected;
      ffn(backend, math, &args, 2);
      sl_reference_rows(SL_OP_EXPERT_FFN, &reference, 0, M);
      double largest = 0;
      for (int i = 0; i < M * H; i++) largest = fmax(largest, fabs(expected[i]));
      for (int i = 0; i < M * H; i++)
        if (!(fabs(out[i] - expected[i]) <= largest * (math == SL_EXACT ? 1e-5 : 1e-2)))
          fail_msg("%s, math %d, %s, size %d, act %d: [%d] is %g, expected %g", backend->name, math,
                   sl_dtype_name(dtype), (int)s, act, i, out[i], expected[i]);
    }
    free_experts(&x);
    free(in);
    free(weights);
    free(out);
    free(expected);
  }
}
static void expert_ffn_is_within_its_bound_of_the_reference(void **state) {
  (void)state;
  each(compare_experts);
}

static void same_expert_bits(const sl_backend *backend, sl_role role, sl_math math, sl_dtype dtype) {
  enum { M = 70, H = 200, I = 150 };
  if (role != SL_GENERATED) return;
  unit_random r = {31};
  experts x;
  make_experts(&x, &r, dtype, H, I);
  int32_t ids[M * TOP_K];
  random_ids(&r, ids, M * TOP_K);
  float *in = random_floats(&r, M * H), *weights = random_floats(&r, M * TOP_K);
  float *out = must(malloc(M * H * 4)), *again = must(malloc(M * H * 4));
  unit_poison(out, M * H);
  sl_expert_ffn_args args = {out, in, ids, weights, x.list, SL_GELU_TANH, M, H, I, TOP_K, E};
  ffn(backend, math, &args, 1);
  for (int n = 1; n <= 34; n += 11) {
    for (int threads = 1; threads <= MAX_THREADS; threads++) {
      int first = (int)(unit_next(&r) % (uint64_t)(M - n + 1));
      args = (sl_expert_ffn_args){
          again, in + first * H, ids + first * TOP_K, weights + first * TOP_K, x.list, SL_GELU_TANH, n, H, I, TOP_K, E};
      unit_poison(again, M * H);
      ffn(backend, math, &args, threads);
      assert_memory_equal(again, out + first * H, (size_t)(n * H) * 4);
    }
  }
  free_experts(&x);
  free(in);
  free(weights);
  free(out);
  free(again);
}
static void expert_ffn_gives_the_same_bits_for_any_number_of_tokens_and_threads(void **state) {
  (void)state;
  each(same_expert_bits);
}

/* The same middle as two matmuls and a product would leave: with one expert and the weight 1, down of silu(gate) * up,
 * where gate is so large that silu is the identity. */
static void middle_rounding(const sl_backend *backend, sl_role role, sl_math math, sl_dtype dtype) {
  enum { H = 70, I = 90 };
  if (role != SL_GENERATED) return;
  unit_random r = {8};
  experts x;
  make_experts(&x, &r, dtype, H, I);
  float *in = random_floats(&r, H), gate[I], up[I], expected[H], out[H];
  const float weight = 1;
  const int32_t id = 2;
  for (int i = 0; i < H; i++) in[i] = fabsf(in[i]) * 100;
  memset(x.all[id][0].data, dtype == SL_F8_E4M3 ? 0x40 : 0x3F, 1 + sl_row_bytes(dtype, H) * I); /* positive gates */
  sl_matmul_bt_args args = {gate, in, &x.list[id].gate, 1, 0, 1, H, I};
  x.list[id].gate.scale = NULL;
  matmul(backend, role, math, &args, 1);
  args.out = up;
  args.B = &x.list[id].up;
  matmul(backend, role, math, &args, 1);
  for (int i = 0; i < I; i++) {
    assert_true(gate[i] > 200);
    gate[i] *= up[i];
  }
  args = (sl_matmul_bt_args){expected, gate, &x.list[id].down, 1, 0, 1, I, H};
  matmul(backend, role, math, &args, 1);
  sl_expert_ffn_args all = {out, in, &id, &weight, x.list, SL_SILU, 1, H, I, 1, E};
  x.list[0].gate.scale = NULL;
  ffn(backend, math, &all, 1);
  assert_memory_equal(out, expected, sizeof out);
  free_experts(&x);
  free(in);
}
static void expert_ffn_rounds_its_middle_as_the_matmul_rounds_its_input(void **state) {
  (void)state;
  each(middle_rounding);
}

static void bad_experts(const sl_backend *backend, sl_role role, sl_math math, sl_dtype dtype) {
  enum { H = 16, I = 16 };
  if (role != SL_GENERATED || dtype != SL_BF16) return;
  unit_random r = {8};
  experts x;
  make_experts(&x, &r, SL_BF16, H, I);
  matrix other = random_matrix(&r, SL_F32, SL_N_DTYPES, I, H);
  x.list[3].up = other.w;
  float in[H] = {0}, out[H];
  const float weights[2] = {1, 1};
  const int32_t ids[2] = {1, 3};
  sl_expert_ffn_args args = {out, in, ids, weights, x.list, SL_SILU, 1, H, I, 2, E};
  sl_op_sig sig = sig_of(SL_OP_EXPERT_FFN, SL_GENERATED, math, &x.list[1].gate);
  sig.top_k = 2;
  sl_op_args all = {.expert_ffn = args};
  assert_int_equal(run(backend, &sig, &all, 1, 1), SL_ERR_UNSUPPORTED);
  free_matrix(&other);
  free_experts(&x);
}
static void expert_ffn_refuses_experts_of_mixed_dtypes(void **state) {
  (void)state;
  each(bad_experts);
}

/* ---- dequant_rows and embed_rows ----------------------------------------------------------------------------- */

static void dequant(const sl_backend *backend, sl_role role, sl_math math, sl_dtype dtype) {
  enum { N = 40, K = 1031, FIRST = 3, ROWS = 36 };
  unit_random r = {3};
  for (int with_scale = 0; with_scale < 2; with_scale++) {
    matrix W = random_matrix(&r, dtype, with_scale ? SL_F16 : SL_N_DTYPES, N, K);
    for (int i = 0; i < 64; i++) /* any bits: subnormals, infinities, NaN, zeros of both signs */
      ((uint8_t *)W.data)[1 + (FIRST * K + i) * (int)sl_dtype_size(dtype)] = (uint8_t)unit_next(&r);
    for (int out_dtype = 0; out_dtype <= SL_BF16; out_dtype += SL_BF16) {
      size_t size = ROWS * K * sl_dtype_size((sl_dtype)out_dtype);
      uint8_t *out = must(malloc(size)), *expected = must(malloc(size));
      memset(out, 0xFF, size);
      sl_op_args args = {.dequant_rows = {out, (sl_dtype)out_dtype, &W.w, FIRST, ROWS}}, reference = args;
      reference.dequant_rows.out = expected;
      sl_op_sig sig = sig_of(SL_OP_DEQUANT_ROWS, role, math, &W.w);
      assert_int_equal(run(backend, &sig, &args, 0, 2), SL_OK);
      sl_reference_rows(SL_OP_DEQUANT_ROWS, &reference, 0, ROWS);
      for (int i = 0; i < ROWS * K; i++) {
        float a = sl_load(out, (sl_dtype)out_dtype, i), b = sl_load(expected, (sl_dtype)out_dtype, i);
        assert_true((isnan(a) && isnan(b)) || memcmp(&a, &b, 4) == 0);
      }
      free(out);
      free(expected);
    }
    free_matrix(&W);
  }
}
static void dequant_rows_gives_the_bits_of_the_reference(void **state) {
  (void)state;
  each(dequant);
}

static void bf16_bits(const sl_backend *backend, sl_role role, sl_math math, sl_dtype dtype) {
  /* subnormal, tie to even down and up, overflow to infinity, quiet NaN, -0 */
  static const uint32_t bits[] = {0x00018000, 0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x7F800001, 0x80000000, 0x00008001};
  static const uint16_t expected[] = {0x0002, 0x3F80, 0x3F82, 0x7F80, 0x7FC0, 0x8000, 0x0001};
  if (dtype != SL_F32) return;
  uint16_t out[7];
  sl_weight W = {bits, NULL, SL_F32, SL_F32, 1, 7};
  sl_op_args args = {.dequant_rows = {out, SL_BF16, &W, 0, 1}};
  sl_op_sig sig = sig_of(SL_OP_DEQUANT_ROWS, role, math, &W);
  assert_int_equal(run(backend, &sig, &args, 0, 1), SL_OK);
  assert_memory_equal(out, expected, sizeof out);
}
static void dequant_rows_rounds_to_bf16_once_and_keeps_subnormals(void **state) {
  (void)state;
  each(bf16_bits);
}

static void embed(const sl_backend *backend, sl_role role, sl_math math, sl_dtype dtype) {
  enum { N = 20, K = 77, M = 9 };
  unit_random r = {4};
  matrix W = random_matrix(&r, dtype, SL_N_DTYPES, N, K);
  float out[M * K];
  const int32_t ids[M] = {0, 19, 3, 3, 7, 1, 18, 0, 5};
  unit_poison(out, M * K);
  sl_op_args args = {.embed_rows = {out, ids, &W.w, 53.0f, M}};
  sl_op_sig sig = sig_of(SL_OP_EMBED_ROWS, role, math, &W.w);
  assert_int_equal(run(backend, &sig, &args, M, 2), SL_OK);
  for (int i = 0; i < M * K; i++)
    assert_true(out[i] == 53.0f * sl_load(W.w.data, dtype, (int64_t)ids[i / K] * K + i % K));
  free_matrix(&W);
}
static void embed_rows_multiplies_the_named_rows(void **state) {
  (void)state;
  each(embed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(matmul_bt_is_within_its_bound_of_the_reference),
      cmocka_unit_test(matmul_bt_adds_beta_times_out),
      cmocka_unit_test(matmul_bt_without_any_k_scales_out_by_beta),
      cmocka_unit_test(matmul_bt_gives_the_same_bits_for_any_number_of_tokens_rows_and_threads),
      cmocka_unit_test(matmul_bt_reads_all_256_fp8_codes_exactly),
      cmocka_unit_test(matmul_bt_lets_nan_through_and_nowhere_else),
      cmocka_unit_test(expert_ffn_is_within_its_bound_of_the_reference),
      cmocka_unit_test(expert_ffn_gives_the_same_bits_for_any_number_of_tokens_and_threads),
      cmocka_unit_test(expert_ffn_rounds_its_middle_as_the_matmul_rounds_its_input),
      cmocka_unit_test(expert_ffn_refuses_experts_of_mixed_dtypes),
      cmocka_unit_test(dequant_rows_gives_the_bits_of_the_reference),
      cmocka_unit_test(dequant_rows_rounds_to_bf16_once_and_keeps_subnormals),
      cmocka_unit_test(embed_rows_multiplies_the_named_rows),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
