#include <float.h>

#include "unit/kernels.h"

static const int sizes[] = {1, 7, 17, 31, 100, 2816};
enum { N_SIZES = 6, M = 3 };

static sl_status run_plain(const sl_backend *b, sl_op op, const sl_op_args *args, int n_threads) {
  sl_op_sig sig = {.op = op, .dtype = SL_F32};
  return run_op(b, &sig, args, M, n_threads);
}

static bool is_close(float found, float expected, double relative, double absolute) {
  if (isnan(expected)) return isnan(found);
  if (isinf(expected)) return found == expected;
  return fabs((double)found - expected) <= relative * fabs((double)expected) + absolute;
}

static void assert_close(const float *found, const float *expected, size_t n, double relative, double absolute) {
  for (size_t i = 0; i < n; i++) {
    if (is_close(found[i], expected[i], relative, absolute)) continue;
    print_error("element %zu: found %.9g, expected %.9g\n", i, (double)found[i], (double)expected[i]);
    fail();
  }
}

static float *copy_of(const float *x, size_t n) {
  float *y = malloc(n * sizeof *y);
  assert_non_null(y);
  memcpy(y, x, n * sizeof *y);
  return y;
}

/* ---- rows that move ---------------------------------------------------------------------------------------------- */

static void gather(const sl_backend *b) {
  unit_random r = {1};
  static const int32_t ids[M] = {4, 0, 4};
  for (int s = 0; s < N_SIZES; s++) {
    int H = sizes[s];
    float *in = random_floats(&r, (size_t)(5 * H), 1.0f), *out = poisoned((size_t)(M * H));
    sl_op_args args = {.gather_rows = {out, in, ids, M, H, 5}};
    assert_int_equal(run_plain(b, SL_OP_GATHER_ROWS, &args, 2), SL_OK);
    for (int m = 0; m < M; m++) assert_memory_equal(out + m * H, in + ids[m] * H, (size_t)H * sizeof *in);
    free(in);
    free(out);
  }
}
static void gather_rows_copies_the_named_rows(void **state) {
  (void)state;
  each_fast_backend(gather);
}

static void scatter(const sl_backend *b) {
  unit_random r = {2};
  static const int32_t ids[M] = {1, 0, 1};
  static const float weights[M] = {0.5f, -2.0f, 0.25f};
  for (int s = 0; s < N_SIZES; s++) {
    int H = sizes[s];
    size_t n = (size_t)(2 * H);
    float *in = random_floats(&r, (size_t)(M * H), 1.0f), *acc = random_floats(&r, n, 1.0f),
          *expected = copy_of(acc, n);
    for (int i = 0; i < M; i++)
      for (int h = 0; h < H; h++) {
        float *to = &expected[ids[i] * H + h];
        *to = (float)(*to + (double)weights[i] * in[i * H + h]);
      }
    sl_op_args args = {.scatter_add_rows = {acc, in, ids, weights, M, H, 2}};
    assert_int_equal(run_plain(b, SL_OP_SCATTER_ADD_ROWS, &args, 2), SL_OK);
    assert_close(acc, expected, n, 1.2e-7, 0.0);
    free(in);
    free(acc);
    free(expected);
  }
}
static void scatter_add_rows_sums_rows_that_repeat_in_their_order(void **state) {
  (void)state;
  each_fast_backend(scatter);
}

static void many_rows_scattered(const sl_backend *b) {
  enum { ROWS = 200, H = 2816 };
  unit_random r = {3};
  int32_t ids[ROWS];
  float *in = random_floats(&r, ROWS * H, 1.0f), *weights = random_floats(&r, ROWS, 1.0f);
  float *one = random_floats(&r, 7 * H, 1.0f), *three = copy_of(one, 7 * H);
  for (int i = 0; i < ROWS; i++) ids[i] = (int32_t)(unit_next(&r) % 7);
  sl_op_args args = {.scatter_add_rows = {one, in, ids, weights, ROWS, H, 7}};
  assert_int_equal(run_plain(b, SL_OP_SCATTER_ADD_ROWS, &args, 1), SL_OK);
  args.scatter_add_rows.acc = three;
  assert_int_equal(run_plain(b, SL_OP_SCATTER_ADD_ROWS, &args, 3), SL_OK);
  assert_memory_equal(one, three, 7 * H * sizeof *one);
  free(in);
  free(weights);
  free(one);
  free(three);
}
static void scatter_add_rows_has_the_same_bits_on_3_threads(void **state) {
  (void)state;
  each_fast_backend(many_rows_scattered);
}

static void zeros(const sl_backend *b) {
  float out[2 * 17 + 1];
  unit_poison(out, 35);
  sl_op_args args = {.fill_zero = {out, 2, 17}}, none = {.fill_zero = {NULL, 2, 0}};
  assert_int_equal(run_plain(b, SL_OP_FILL_ZERO, &args, 1), SL_OK);
  for (int i = 0; i < 34; i++) assert_true(out[i] == 0.0f && !signbit(out[i]));
  assert_true(isnan(out[34]));
  assert_int_equal(run_plain(b, SL_OP_FILL_ZERO, &none, 1), SL_OK);
}
static void fill_zero_writes_zeros_and_nothing_behind_them(void **state) {
  (void)state;
  each_fast_backend(zeros);
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */

/* Runs op apart from its inputs, in place and on three threads, against the reference. */
static void check_norm(const sl_backend *b, int H, bool adds, bool has_weight) {
  unit_random r = {(uint64_t)H};
  size_t n = (size_t)(M * H);
  sl_op op = adds ? SL_OP_RMS_NORM_ADD : SL_OP_RMS_NORM;
  float *x = random_floats(&r, n, 3.0f), *w = random_floats(&r, (size_t)H, 2.0f),
        *residual = random_floats(&r, n, 1.0f);
  float *expected = poisoned(n), *found = poisoned(n);
  sl_op_args args = {.rms_norm = {expected, x, has_weight ? w : NULL, adds ? residual : NULL, 1e-6f, M, H}};
  sl_reference_rows(op, &args, 0, M);
  args.rms_norm.out = found;
  assert_int_equal(run_plain(b, op, &args, 1), SL_OK);
  assert_close(found, expected, n, 1e-6, adds ? 1e-6 : 0.0);
  float *again = copy_of(adds ? residual : x, n); /* in place */
  args.rms_norm.out = again;
  *(adds ? &args.rms_norm.residual : &args.rms_norm.x) = again;
  assert_int_equal(run_plain(b, op, &args, 3), SL_OK);
  assert_memory_equal(again, found, n * sizeof *found);
  free(x);
  free(w);
  free(residual);
  free(expected);
  free(found);
  free(again);
}

static void norms(const sl_backend *b) {
  for (int s = 0; s < N_SIZES; s++)
    for (int kind = 0; kind < 4; kind++) check_norm(b, sizes[s], kind & 1, kind & 2);
}
static void rms_norms_are_within_1e_6_of_the_reference_also_in_place(void **state) {
  (void)state;
  each_fast_backend(norms);
}

static void dual_norm(const sl_backend *b) {
  unit_random r = {5};
  for (int s = 0; s < N_SIZES; s++) {
    int H = sizes[s];
    size_t n = (size_t)(M * H);
    float *x1 = random_floats(&r, n, 3.0f), *x2 = random_floats(&r, n, 0.1f), *residual = random_floats(&r, n, 1.0f);
    float *w[3], *expected = poisoned(n), *found = poisoned(n);
    for (int i = 0; i < 3; i++) w[i] = random_floats(&r, (size_t)H, 1.0f);
    sl_op_args args = {.dual_rms_norm_add = {expected, x1, x2, residual, w[0], w[1], w[2], 1e-6f, M, H}};
    sl_reference_rows(SL_OP_DUAL_RMS_NORM_ADD, &args, 0, M);
    args.dual_rms_norm_add.out = found;
    assert_int_equal(run_plain(b, SL_OP_DUAL_RMS_NORM_ADD, &args, 1), SL_OK);
    assert_close(found, expected, n, 1e-6, 4e-6);
    args.dual_rms_norm_add.out = x1;
    assert_int_equal(run_plain(b, SL_OP_DUAL_RMS_NORM_ADD, &args, 2), SL_OK);
    assert_memory_equal(x1, found, n * sizeof *found);
    float *all[] = {x1, x2, residual, w[0], w[1], w[2], expected, found};
    for (int i = 0; i < 8; i++) free(all[i]);
  }
}
static void dual_rms_norm_add_is_within_4e_6_of_the_reference_also_in_place(void **state) {
  (void)state;
  each_fast_backend(dual_norm);
}

static void norm_of_nan(const sl_backend *b) {
  float x[2 * 17], out[2 * 17];
  for (int i = 0; i < 34; i++) x[i] = 1.0f;
  x[3] = NAN;
  unit_poison(out, 34);
  sl_op_args args = {.rms_norm = {out, x, NULL, NULL, 1e-6f, 2, 17}};
  assert_int_equal(run_plain(b, SL_OP_RMS_NORM, &args, 1), SL_OK);
  for (int i = 0; i < 34; i++) assert_int_equal(isnan(out[i]) != 0, i < 17);
}
static void a_nan_spoils_its_own_row_of_a_norm_and_no_other(void **state) {
  (void)state;
  each_fast_backend(norm_of_nan);
}

/* ---- element by element ------------------------------------------------------------------------------------------ */

/* Rows of a wider matrix; x runs evenly over [low, high]. */
static void check_glu(const sl_backend *b, sl_op op, int I, double low, double high, double relative) {
  int64_t ldg = I + 3, ldu = I + 1, ldo = I + 5;
  unit_random r = {6};
  float *gate = poisoned((size_t)(M * ldg)), *up = random_floats(&r, (size_t)(M * ldu), 1.0f);
  float *out = poisoned((size_t)(M * ldo));
  for (int m = 0; m < M; m++)
    for (int i = 0; i < I; i++) gate[m * ldg + i] = (float)(low + (high - low) * (m * I + i) / (M * I));
  sl_op_args args = {.glu = {out, gate, up, M, I, ldg, ldu, ldo}};
  assert_int_equal(run_plain(b, op, &args, 2), SL_OK);
  for (int m = 0; m < M; m++) {
    for (int i = 0; i < I; i++) {
      double x = gate[m * ldg + i], w = 0.7978845608028654 * (x + 0.044715 * x * x * x);
      double act = op == SL_OP_SWIGLU ? x / (1.0 + exp(-x)) : x / (1.0 + exp(-2.0 * w));
      double expected = act * up[m * ldu + i];
      assert_true(fabs(out[m * ldo + i] - expected) <= relative * fabs(expected) + 1e-37);
    }
    for (int64_t i = m * ldo + I; i < (m + 1) * ldo; i++) assert_true(isnan(out[i]));
  }
  float *expected = copy_of(out, (size_t)(M * ldo));
  if (I == 17) { /* the same strides, in place */
    args.glu = (sl_glu_args){gate, gate, up, M, I, ldg, ldu, ldg};
    assert_int_equal(run_plain(b, op, &args, 1), SL_OK);
    for (int m = 0; m < M; m++) assert_memory_equal(gate + m * ldg, expected + m * ldo, 17 * sizeof *gate);
  }
  free(gate);
  free(up);
  free(out);
  free(expected);
}

static void glus(const sl_backend *b) {
  for (int s = 0; s < N_SIZES; s++) {
    check_glu(b, SL_OP_GEGLU, sizes[s], -3.0, 12.0, 1e-6);
    check_glu(b, SL_OP_GEGLU, sizes[s], -6.0, -3.0, 8e-6); /* down to 1e-12 of |x| */
    check_glu(b, SL_OP_SWIGLU, sizes[s], -40.0, 40.0, 1e-6);
  }
}
static void geglu_and_swiglu_are_within_1e_6_of_the_formula_where_they_matter(void **state) {
  (void)state;
  each_fast_backend(glus);
}

static void glu_extremes(const sl_backend *b) {
  float gate[8] = {0.0f, 1e30f, -1e30f, INFINITY, NAN, -200.0f, 200.0f, -0.0f}, up[8], out[8];
  float expected[8] = {0.0f, 1e30f, 0.0f, INFINITY, NAN, 0.0f, 200.0f, 0.0f};
  for (int i = 0; i < 8; i++) up[i] = 1.0f;
  for (int op = SL_OP_GEGLU; op <= SL_OP_SWIGLU; op++) {
    sl_op_args args = {.glu = {out, gate, up, 1, 8, 8, 8, 8}};
    unit_poison(out, 8);
    assert_int_equal(run_plain(b, (sl_op)op, &args, 1), SL_OK);
    assert_close(out, expected, 8, 0.0, 1e-30);
  }
}
static void activations_of_huge_infinite_and_nan_inputs_are_what_the_limit_says(void **state) {
  (void)state;
  each_fast_backend(glu_extremes);
}

static void caps(const sl_backend *b) {
  enum { N = 5000 };
  static const float cap = 30.0f;
  float *x = poisoned(N), *out = poisoned(N);
  for (int i = 0; i < N; i++) x[i] = (float)(i - N / 2) * 0.17f;
  for (int i = 0; i < 100; i++) x[i] = (float)i * 1e-6f; /* small ones keep their relative precision */
  x[N - 1] = INFINITY;
  x[N - 2] = -INFINITY;
  x[N - 3] = NAN;
  x[N - 4] = FLT_MAX;
  x[N - 5] = -0.0f;
  sl_op_args args = {.softcap = {out, x, cap, 1, N}};
  assert_int_equal(run_plain(b, SL_OP_SOFTCAP, &args, 1), SL_OK);
  for (int i = 0; i < N; i++) {
    double expected = (double)cap * tanh((double)x[i] / (double)cap);
    assert_true(isnan(x[i]) ? isnan(out[i]) : fabs(out[i] - expected) <= 3e-7 * (double)cap);
    assert_true(isnan(x[i]) || fabs(out[i] - expected) <= 4e-7 * fabs(expected));
  }
  assert_true(signbit(out[N - 5]));
  args.softcap.out = x;
  assert_int_equal(run_plain(b, SL_OP_SOFTCAP, &args, 3), SL_OK);
  for (int i = 0; i < N; i++) assert_true(isnan(out[i]) ? isnan(x[i]) : x[i] == out[i]);
  free(x);
  free(out);
}
static void softcap_is_within_3e_7_of_the_cap_also_in_place(void **state) {
  (void)state;
  each_fast_backend(caps);
}

static void sums(const sl_backend *b) {
  unit_random r = {8};
  for (int s = 0; s < N_SIZES; s++) {
    int H = sizes[s];
    size_t n = (size_t)(M * H);
    float *x = random_floats(&r, n, 1.0f), *y = random_floats(&r, n, 1.0f), *out = poisoned(n);
    sl_op_args args = {.add = {out, x, y, M, H}};
    assert_int_equal(run_plain(b, SL_OP_ADD, &args, 2), SL_OK);
    for (size_t i = 0; i < n; i++) assert_true(out[i] == x[i] + y[i]);
    args = (sl_op_args){.scale = {y, y, 0.3f, M, H}};
    float *was = copy_of(y, n);
    assert_int_equal(run_plain(b, SL_OP_SCALE, &args, 2), SL_OK);
    for (size_t i = 0; i < n; i++) assert_true(y[i] == 0.3f * was[i]);
    args = (sl_op_args){.add = {x, x, was, M, H}};
    assert_int_equal(run_plain(b, SL_OP_ADD, &args, 1), SL_OK);
    assert_memory_equal(x, out, n * sizeof *x);
    free(x);
    free(y);
    free(out);
    free(was);
  }
}
static void add_and_scale_are_exact_also_in_place(void **state) {
  (void)state;
  each_fast_backend(sums);
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

static int32_t argmax_of(const sl_backend *b, const float *x, int n) {
  int32_t out = -1;
  sl_op_args args = {.argmax = {&out, x, 1, n}};
  assert_int_equal(run_plain(b, SL_OP_ARGMAX, &args, 1), SL_OK);
  return out;
}

static void largest(const sl_backend *b) {
  for (int s = 0; s < N_SIZES; s++) {
    int n = sizes[s];
    float *x = poisoned((size_t)n);
    for (int at = 0; at < n; at += 1 + n / 40) {
      for (int i = 0; i < n; i++) x[i] = -5.0f - (float)i;
      x[at] = -1.0f;
      assert_int_equal(argmax_of(b, x, n), at);
      x[n - 1] = -1.0f; /* a tie */
      assert_int_equal(argmax_of(b, x, n), at);
      x[at] = NAN;
      assert_int_equal(argmax_of(b, x, n), at);
      x[n - 1] = INFINITY;
      assert_int_equal(argmax_of(b, x, n), n - 1 == at ? n - 1 : at);
    }
    for (int i = 0; i < n; i++) x[i] = -INFINITY;
    assert_int_equal(argmax_of(b, x, n), 0);
    free(x);
  }
}
static void argmax_takes_the_lowest_of_equals_and_a_nan_before_all(void **state) {
  (void)state;
  each_fast_backend(largest);
}

enum { E = 128, K = 8 };

typedef struct routes {
  int32_t ids[K];
  float weights[K];
} routes;

static routes route(const sl_backend *b, const float *logits, int n_experts, int top_k, const float *scale,
                    const int32_t *imposed, bool renormalize) {
  routes out;
  memset(out.ids, 0xFF, sizeof out.ids);
  unit_poison(out.weights, K);
  sl_op_args args = {.route_topk = {out.ids, out.weights, logits, scale, imposed, renormalize, 1, n_experts, top_k}};
  assert_int_equal(run_plain(b, SL_OP_ROUTE_TOPK, &args, 1), SL_OK);
  return out;
}

static void random_routes(const sl_backend *b) {
  unit_random r = {9};
  static const int n_experts[] = {8, 17, 100, E};
  for (int trial = 0; trial < 200; trial++) {
    int n = n_experts[trial % 4], top_k = 1 + trial % K;
    bool renormalize = trial & 4;
    float *logits = random_floats(&r, (size_t)n, 8.0f), *scale = random_floats(&r, (size_t)n, 2.0f);
    for (int e = 0; trial % 3 == 0 && e < n; e++) logits[e] = roundf(logits[e]); /* ties */
    routes found = route(b, logits, n, top_k, trial % 5 ? scale : NULL, NULL, renormalize), expected;
    sl_op_args args = {.route_topk = {expected.ids, expected.weights, logits, trial % 5 ? scale : NULL, NULL,
                                      renormalize, 1, n, top_k}};
    sl_reference_rows(SL_OP_ROUTE_TOPK, &args, 0, 1);
    assert_memory_equal(found.ids, expected.ids, (size_t)top_k * sizeof(int32_t));
    assert_close(found.weights, expected.weights, (size_t)top_k, 1e-6, 0.0);
    free(logits);
    free(scale);
  }
}
static void route_topk_takes_the_reference_experts_with_weights_within_1e_6(void **state) {
  (void)state;
  each_fast_backend(random_routes);
}

static void ties(const sl_backend *b) {
  float logits[20];
  for (int e = 0; e < 20; e++) logits[e] = -1e30f;
  routes all_equal = route(b, logits, 20, 3, NULL, NULL, true);
  for (int j = 0; j < 3; j++) {
    assert_int_equal(all_equal.ids[j], j);
    assert_true(fabsf(all_equal.weights[j] - 1.0f / 3.0f) <= 1e-7f);
  }
  logits[7] = logits[19] = 2.0f;
  routes two = route(b, logits, 20, 3, NULL, NULL, true);
  assert_int_equal(two.ids[0], 7);
  assert_int_equal(two.ids[1], 19);
  assert_int_equal(two.ids[2], 0);
  assert_true(two.weights[0] == 0.5f && two.weights[1] == 0.5f && two.weights[2] == 0.0f);
}
static void the_lowest_id_wins_a_tie_and_large_negative_logits_are_ordinary(void **state) {
  (void)state;
  each_fast_backend(ties);
}

static void imposed_routes(const sl_backend *b) {
  float logits[20], scale[20];
  static const int32_t imposed[3] = {4, 11, 2};
  for (int e = 0; e < 20; e++) {
    logits[e] = 0.0f;
    scale[e] = (float)e;
  }
  logits[0] = 300.0f; /* so far above that the imposed ones vanish beside it */
  logits[11] = 1.0f;
  routes found = route(b, logits, 20, 3, scale, imposed, true);
  double total = 2.0 + exp(1.0);
  assert_memory_equal(found.ids, imposed, sizeof imposed);
  assert_true(is_close(found.weights[0], (float)(4.0 / total), 1e-6, 0.0));
  assert_true(is_close(found.weights[1], (float)(11.0 * exp(1.0) / total), 1e-6, 0.0));
  assert_true(is_close(found.weights[2], (float)(2.0 / total), 1e-6, 0.0));
}
static void imposed_experts_share_the_weight_among_themselves(void **state) {
  (void)state;
  each_fast_backend(imposed_routes);
}

static void nan_logits(const sl_backend *b) {
  static const float odd[] = {NAN, INFINITY};
  for (int kind = 0; kind < 2; kind++) {
    for (int n_bad = 1; n_bad <= E; n_bad += E - 1) {
      float logits[E];
      for (int e = 0; e < E; e++) logits[e] = e < E - n_bad ? (float)(e % 13) : odd[kind];
      for (int renormalize = 0; renormalize < 2; renormalize++) {
        routes found = route(b, logits, E, K, NULL, NULL, renormalize);
        for (int j = 0; j < K; j++) {
          assert_in_range(found.ids[j], 0, E - 1);
          for (int i = 0; i < j; i++) assert_int_not_equal(found.ids[i], found.ids[j]);
          assert_true(isnan(found.weights[j]));
        }
      }
    }
  }
}
static void a_nan_or_infinite_logit_gives_nan_weights_and_distinct_ids_in_range(void **state) {
  (void)state;
  each_fast_backend(nan_logits);
}

/* ---- positions and cache ----------------------------------------------------------------------------------------- */

static void ropes(const sl_backend *b) {
  unit_random r = {11};
  static const int dims[] = {2, 14, 32, 256, 1100};
  static const int32_t positions[M] = {0, 4097, 262143};
  for (int s = 0; s < 5; s++) {
    int d = dims[s], n_heads = 3;
    size_t n = (size_t)(M * n_heads * d);
    float *x = random_floats(&r, n, 1.0f), *expected = copy_of(x, n), *inv_freq = poisoned((size_t)d / 2);
    for (int i = 0; i < d / 2; i++) inv_freq[i] = i < d / 4 || d < 4 ? (float)pow(1e4, -2.0 * i / d) : 0.0f;
    sl_op_args args = {.rope = {x, positions, inv_freq, M, n_heads, d}};
    sl_op_args judge = {.rope = {expected, positions, inv_freq, M, n_heads, d}};
    sl_reference_rows(SL_OP_ROPE, &judge, 0, M);
    assert_int_equal(run_plain(b, SL_OP_ROPE, &args, 2), SL_OK);
    assert_close(x, expected, n, 0.0, 2.5e-7);
    free(x);
    free(expected);
    free(inv_freq);
  }
}
static void rope_is_within_3e_7_up_to_position_262143(void **state) {
  (void)state;
  each_fast_backend(ropes);
}

static void writes(const sl_backend *b) {
  enum { HEADS = 2, D = 21, ROWS = 70, CAPACITY = 128, FIRST = 100 };
  unit_random r = {12};
  float *k = random_floats(&r, ROWS * HEADS * D, 4.0f), *v = random_floats(&r, ROWS * HEADS * D, 1e-7f);
  k[0] = 1e6f; /* becomes infinite */
  k[1] = NAN;
  uint16_t *cache[2];
  for (int i = 0; i < 2; i++) {
    cache[i] = malloc(HEADS * CAPACITY * D * sizeof(uint16_t));
    memset(cache[i], 0x55, HEADS * CAPACITY * D * sizeof(uint16_t));
  }
  sl_segment segment = {{cache[0], cache[1], SL_F16, HEADS, D, CAPACITY}, 0, ROWS, FIRST};
  sl_op_args args = {.kv_write = {k, v, &segment, 1, ROWS}};
  sl_op_sig sig = {.op = SL_OP_KV_WRITE, .dtype = SL_F16, .K = D};
  assert_int_equal(run_op(b, &sig, &args, ROWS, 2), SL_OK);
  for (int slot = 0; slot < CAPACITY; slot++) {
    int row = (slot - FIRST + CAPACITY) % CAPACITY;
    for (int h = 0; h < HEADS; h++) {
      for (int d = 0; d < D; d++) {
        size_t at = (size_t)((h * CAPACITY + slot) * D + d), from = (size_t)((row * HEADS + h) * D + d);
        if (row >= ROWS) {
          assert_true(cache[0][at] == 0x5555 && cache[1][at] == 0x5555);
        } else if (isnan(k[from])) {
          assert_true(isnan(sl_f16_to_f32(cache[0][at])));
        } else {
          assert_int_equal(cache[0][at], sl_f32_to_f16(k[from]));
          assert_int_equal(cache[1][at], sl_f32_to_f16(v[from]));
        }
      }
    }
  }
  free(k);
  free(v);
  free(cache[0]);
  free(cache[1]);
}
static void kv_write_rounds_to_f16_and_wraps_around_the_ring(void **state) {
  (void)state;
  each_fast_backend(writes);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void complete(const sl_backend *b) {
  for (int op = 0; op < SL_N_OPS; op++) {
    if (op == SL_OP_EMBED_ROWS || op == SL_OP_MATMUL_BT || op == SL_OP_DEQUANT_ROWS || op == SL_OP_EXPERT_FFN) continue;
    for (int role = 0; role < SL_N_ROLES; role++) {
      for (int math = 0; math <= SL_FAST; math++) {
        sl_op_sig sig = {.op = (sl_op)op, .role = (sl_role)role, .math = (sl_math)math, .N = 64, .K = 16, .group = 2};
        assert_non_null(sl_kernel_find(b, &sig, NULL));
      }
    }
  }
}
static void every_operation_without_weights_has_a_kernel_for_each_role_and_math(void **state) {
  (void)state;
  each_fast_backend(complete);
}

static void no_rows(const sl_backend *b) {
  sl_op_args args = {.softcap = {NULL, NULL, 1.0f, 0, 4}};
  assert_int_equal(run_plain(b, SL_OP_SOFTCAP, &args, 2), SL_OK);
  args = (sl_op_args){.rms_norm = {.H = 4, .eps = 1e-6f}};
  assert_int_equal(run_plain(b, SL_OP_RMS_NORM, &args, 2), SL_OK);
  args = (sl_op_args){.attention = {.n_heads = 2, .n_kv_heads = 1, .head_dim = 8}};
  sl_op_sig sig = {.op = SL_OP_ATTENTION, .N = 16, .K = 8, .group = 2};
  assert_int_equal(run_op(b, &sig, &args, 1, 2), SL_OK);
}
static void no_rows_are_no_work(void **state) {
  (void)state;
  each_fast_backend(no_rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gather_rows_copies_the_named_rows),
      cmocka_unit_test(scatter_add_rows_sums_rows_that_repeat_in_their_order),
      cmocka_unit_test(scatter_add_rows_has_the_same_bits_on_3_threads),
      cmocka_unit_test(fill_zero_writes_zeros_and_nothing_behind_them),
      cmocka_unit_test(rms_norms_are_within_1e_6_of_the_reference_also_in_place),
      cmocka_unit_test(dual_rms_norm_add_is_within_4e_6_of_the_reference_also_in_place),
      cmocka_unit_test(a_nan_spoils_its_own_row_of_a_norm_and_no_other),
      cmocka_unit_test(geglu_and_swiglu_are_within_1e_6_of_the_formula_where_they_matter),
      cmocka_unit_test(activations_of_huge_infinite_and_nan_inputs_are_what_the_limit_says),
      cmocka_unit_test(softcap_is_within_3e_7_of_the_cap_also_in_place),
      cmocka_unit_test(add_and_scale_are_exact_also_in_place),
      cmocka_unit_test(argmax_takes_the_lowest_of_equals_and_a_nan_before_all),
      cmocka_unit_test(route_topk_takes_the_reference_experts_with_weights_within_1e_6),
      cmocka_unit_test(the_lowest_id_wins_a_tie_and_large_negative_logits_are_ordinary),
      cmocka_unit_test(imposed_experts_share_the_weight_among_themselves),
      cmocka_unit_test(a_nan_or_infinite_logit_gives_nan_weights_and_distinct_ids_in_range),
      cmocka_unit_test(rope_is_within_3e_7_up_to_position_262143),
      cmocka_unit_test(kv_write_rounds_to_f16_and_wraps_around_the_ring),
      cmocka_unit_test(every_operation_without_weights_has_a_kernel_for_each_role_and_math),
      cmocka_unit_test(no_rows_are_no_work),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
