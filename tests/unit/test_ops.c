/* The reference against formulas in long double or values worked out by hand. */
#include "unit.h"

#include "ops/reference.h"

typedef long double real;

static void run(sl_op op, const sl_op_args *args) {
  sl_error err = {0};
  if (sl_op_check(op, args, &err) != SL_OK) fail_msg("%s", err.text);
  sl_reference_rows(op, args, 0, sl_reference_n_rows(op, args));
}

static void fill(float *x, int n, uint64_t seed) {
  unit_random r = {seed};
  for (int i = 0; i < n; i++) x[i] = unit_float(&r);
}

/* Within one place of f32 (the reference rounds once). */
static void assert_close(float found, real expected) {
  real error = fabsl((real)found - expected), allowed = fabsl(expected) * 0x1p-23L + 0x1p-140L;
  if (!(error <= allowed)) fail_msg("found %.9g, expected %.9Lg", (double)found, expected);
}

static void assert_refused(sl_op op, const sl_op_args *args, const char *sentence) {
  sl_error err = {0};
  assert_int_equal(sl_op_check(op, args, &err), SL_ERR_ARGUMENT);
  assert_string_equal(err.text, sentence);
  assert_int_equal(sl_op_check(op, args, NULL), SL_ERR_ARGUMENT);
}

static void names_are_those_of_the_table(void **state) {
  (void)state;
  assert_string_equal(sl_op_name(SL_OP_MATMUL_BT), "matmul_bt");
  assert_string_equal(sl_op_name(SL_OP_DUAL_RMS_NORM_ADD), "dual_rms_norm_add");
  assert_string_equal(sl_op_name(SL_N_OPS), "unknown operation");
  for (int op = 0; op < SL_N_OPS; op++)
    for (int other = 0; other < op; other++) assert_string_not_equal(sl_op_name((sl_op)op), sl_op_name((sl_op)other));
  assert_true(sl_op_has_dtype(SL_OP_ATTENTION) && sl_op_has_dtype(SL_OP_EMBED_ROWS));
  assert_false(sl_op_has_dtype(SL_OP_ADD) || sl_op_has_dtype(SL_N_OPS));
}

/* ---- matmul_bt --------------------------------------------------------------------------------------------------- */

static void matmul_bt_is_the_sum_of_products(void **state) {
  (void)state;
  enum { M = 11, N = 7, K = 600, LDA = K + 3, LDO = N + 2 };
  static float A[M * LDA], W[N * K], out[M * LDO], before[M * LDO];
  fill(A, M * LDA, 1);
  fill(W, N * K, 2);
  fill(before, M * LDO, 3);
  memcpy(out, before, sizeof out);
  sl_weight B = {.data = W, .dtype = SL_F32, .N = N, .K = K};
  sl_op_args a = {.matmul_bt = {out, A, &B, 0.5f, -2.0f, M, LDA, LDO}};
  run(SL_OP_MATMUL_BT, &a);
  for (int m = 0; m < M; m++)
    for (int n = 0; n < LDO; n++) {
      if (n >= N) {
        assert_true(out[m * LDO + n] == before[m * LDO + n]); /* what lies between the rows is left alone */
        continue;
      }
      real sum = 0;
      for (int k = 0; k < K; k++) sum += (real)A[m * LDA + k] * W[n * K + k];
      real expected = 0.5L * sum - 2 * (real)before[m * LDO + n];
      assert_true(fabsl(out[m * LDO + n] - expected) < 1e-6L);
    }
}

static void matmul_bt_reads_every_dtype_and_scale(void **state) {
  (void)state;
  /* 1.5, -2, 0.25, smallest subnormal or so; all exact in each dtype */
  static const uint8_t f8[4] = {0x3C, 0xC0, 0x28, 0x01};
  static const uint16_t f16[4] = {0x3E00, 0xC000, 0x3400, 0x1800}, bf16[4] = {0x3FC0, 0xC000, 0x3E80, 0x3B00};
  static const float f32[4] = {1.5f, -2.0f, 0.25f, 0x1p-9f};
  static const uint16_t s16[2] = {0x3E00, 0xC200}, sb16[2] = {0x3FC0, 0xC040};
  static const float s32[2] = {1.5f, -3.0f};
  const void *data[] = {f32, f16, bf16, f8}, *scales[] = {s32, s16, sb16, s32};
  static const sl_dtype dtypes[] = {SL_F32, SL_F16, SL_BF16, SL_F8_E4M3},
                        scale_dtypes[] = {SL_F32, SL_F16, SL_BF16, SL_F32};
  float A[2] = {3.0f, 5.0f};
  for (int d = 0; d < 4; d++) {
    float out[2];
    unit_poison(out, 2);
    sl_weight B = {data[d], scales[d], dtypes[d], scale_dtypes[d], 2, 2};
    sl_op_args a = {.matmul_bt = {out, A, &B, 1, 0, 1, 2, 2}};
    run(SL_OP_MATMUL_BT, &a);
    assert_true(out[0] == 1.5f * (4.5f - 10.0f));
    assert_true(out[1] == -3.0f * (0.75f + 5 * 0x1p-9f));
  }
}

static void matmul_bt_does_not_read_out_when_beta_is_zero(void **state) {
  (void)state;
  float A[2] = {1, 2}, W[2] = {3, 4}, out[1] = {NAN};
  sl_weight B = {.data = W, .dtype = SL_F32, .N = 1, .K = 2};
  sl_op_args a = {.matmul_bt = {out, A, &B, 1, 0, 1, 2, 1}};
  run(SL_OP_MATMUL_BT, &a);
  assert_true(out[0] == 11.0f);
  out[0] = NAN;
  a.matmul_bt.beta = 1;
  run(SL_OP_MATMUL_BT, &a);
  assert_true(isnan(out[0]));
}

static void matmul_bt_with_K_0_scales_out_by_beta(void **state) {
  (void)state;
  float out[4] = {1, 2, 3, NAN};
  sl_weight B = {.dtype = SL_F8_E4M3, .N = 2, .K = 0};
  sl_op_args a = {.matmul_bt = {out, NULL, &B, 1, 0.5f, 2, 0, 2}};
  run(SL_OP_MATMUL_BT, &a);
  assert_true(out[0] == 0.5f && out[1] == 1.0f && out[2] == 1.5f && isnan(out[3]));
  a.matmul_bt.beta = 0;
  run(SL_OP_MATMUL_BT, &a);
  for (int i = 0; i < 4; i++) assert_true(out[i] == 0.0f);
}

static void nan_weights_and_inputs_stay_nan(void **state) {
  (void)state;
  static const uint8_t f8[4] = {0x7F, 0x00, 0x38, 0xFF};
  float A[4] = {0, 0, NAN, 0}, out[4];
  unit_poison(out, 4);
  sl_weight B = {.data = f8, .dtype = SL_F8_E4M3, .N = 2, .K = 2};
  sl_op_args a = {.matmul_bt = {out, A, &B, 1, 0, 2, 2, 2}};
  run(SL_OP_MATMUL_BT, &a);
  for (int i = 0; i < 4; i++) assert_true(isnan(out[i])); /* 0 * NaN is NaN too */
}

static void rows_do_not_depend_on_the_other_rows(void **state) {
  (void)state;
  enum { M = 19, N = 5, K = 300 };
  static float A[M * K], W[N * K], all[M * N], one[M * N];
  fill(A, M * K, 4);
  fill(W, N * K, 5);
  sl_weight B = {.data = W, .dtype = SL_F32, .N = N, .K = K};
  sl_op_args a = {.matmul_bt = {all, A, &B, 1, 0, M, K, N}};
  run(SL_OP_MATMUL_BT, &a);
  a.matmul_bt.out = one;
  for (int m = M - 1; m >= 0; m--) sl_reference_rows(SL_OP_MATMUL_BT, &a, m, m + 1);
  assert_memory_equal(all, one, sizeof all);
}

static void matmul_bt_refuses_what_does_not_fit(void **state) {
  (void)state;
  float A[8] = {0}, W[4] = {0}, out[4];
  sl_weight B = {.data = W, .dtype = SL_F32, .N = 2, .K = 2};
  const sl_op_args good = {.matmul_bt = {out, A, &B, 1, 0, 2, 2, 2}};
  sl_op_args a = good;
  a.matmul_bt.M = -1;
  assert_refused(SL_OP_MATMUL_BT, &a, "matmul_bt: M: found -1, expected at least 0");
  a = good;
  a.matmul_bt.lda = 1;
  assert_refused(SL_OP_MATMUL_BT, &a, "matmul_bt: lda: found 1, expected at least 2");
  a = good;
  a.matmul_bt.A = NULL;
  assert_refused(SL_OP_MATMUL_BT, &a, "matmul_bt: A: found NULL, expected an array");
  a = good;
  a.matmul_bt.out = A + 1;
  assert_refused(SL_OP_MATMUL_BT, &a, "matmul_bt: out overlaps A, expected another buffer");
  B.scale = W;
  B.scale_dtype = SL_F8_E4M3;
  assert_refused(SL_OP_MATMUL_BT, &good, "matmul_bt: B: scale dtype F8_E4M3, expected F32, F16 or BF16");
  B = (sl_weight){.data = NULL, .dtype = SL_F32, .N = 2, .K = 2};
  assert_refused(SL_OP_MATMUL_BT, &good, "matmul_bt: B: found NULL, expected an array");
  B.N = 0;
  assert_refused(SL_OP_MATMUL_BT, &good, "matmul_bt: B: shape [0,2], expected [at least 1, at least 0]");
  assert_refused(SL_OP_MATMUL_BT, NULL, "matmul_bt: args: found NULL, expected an array");
  assert_refused(SL_N_OPS, &good, "unknown operation: op: found 20, expected one of sl_op");
}

/* ---- rows of weights --------------------------------------------------------------------------------------------- */

static void embed_rows_scales_the_row_of_each_id(void **state) {
  (void)state;
  static const uint16_t table[6] = {0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0xC0C0}; /* 1 2 | 3 4 | 5 -6 */
  static const float scales[3] = {1, 10, 100};
  static const int32_t ids[3] = {2, 0, 2};
  float out[6];
  unit_poison(out, 6);
  sl_weight W = {table, scales, SL_BF16, SL_F32, 3, 2};
  sl_op_args a = {.embed_rows = {out, ids, &W, 0.5f, 3}};
  run(SL_OP_EMBED_ROWS, &a);
  static const float expected[6] = {250, -300, 0.5f, 1, 250, -300};
  assert_memory_equal(out, expected, sizeof out);
  static const int32_t wrong[3] = {2, 3, 0};
  a.embed_rows.ids = wrong;
  assert_refused(SL_OP_EMBED_ROWS, &a, "embed_rows: ids[1]: found 3, expected 0 to 2");
}

static void dequant_rows_writes_f32_or_bf16(void **state) {
  (void)state;
  static const uint8_t f8[6] = {0x38, 0x40, 0x01, 0xC4, 0x7F, 0x7E}; /* 1 2 | 2^-9 -3 | NaN 448 */
  static const float scales[3] = {1, 3, 0x1.01p0f};
  float out[4];
  uint16_t half[4];
  unit_poison(out, 4);
  sl_weight W = {f8, scales, SL_F8_E4M3, SL_F32, 3, 2};
  sl_op_args a = {.dequant_rows = {out, SL_F32, &W, 1, 2}};
  run(SL_OP_DEQUANT_ROWS, &a);
  assert_true(out[0] == 3 * 0x1p-9f && out[1] == -9.0f && isnan(out[2]) && out[3] == 448 * 0x1.01p0f);
  a.dequant_rows.out = half;
  a.dequant_rows.out_dtype = SL_BF16;
  run(SL_OP_DEQUANT_ROWS, &a);
  assert_int_equal(half[1], 0xC110);
  assert_true((half[2] & 0x7FFF) > 0x7F80);
  assert_int_equal(half[3], 0x43E1); /* 449.75 lies between 448 and 450 */
  a.dequant_rows.n_rows = 3;
  assert_refused(SL_OP_DEQUANT_ROWS, &a, "dequant_rows: rows 1 to 4, expected to end at 3 or before");
  a.dequant_rows.n_rows = 1;
  a.dequant_rows.out_dtype = SL_F16;
  assert_refused(SL_OP_DEQUANT_ROWS, &a, "dequant_rows: out_dtype: found F16, expected F32 or BF16");
}

static void gather_rows_copies_rows(void **state) {
  (void)state;
  static const float in[6] = {1, 2, 3, 4, 5, 6};
  static const int32_t ids[4] = {2, 2, 0, 1}, wrong[4] = {0, -1, 0, 0};
  float out[8];
  unit_poison(out, 8);
  sl_op_args a = {.gather_rows = {out, in, ids, 4, 2, 3}};
  run(SL_OP_GATHER_ROWS, &a);
  static const float expected[8] = {5, 6, 5, 6, 1, 2, 3, 4};
  assert_memory_equal(out, expected, sizeof out);
  a.gather_rows.ids = wrong;
  assert_refused(SL_OP_GATHER_ROWS, &a, "gather_rows: ids[1]: found -1, expected 0 to 2");
}

/* 2^24 + 1 is lost in f32, so the order of the sum shows in its result. */
static void scatter_add_rows_adds_in_order(void **state) {
  (void)state;
  static const float in[6] = {0x1p24f, 1, 1, 2, -0x1p24f, 3}, weights[3] = {1, 1, 1};
  static const int32_t ids[3] = {1, 1, 1};
  float acc[4] = {7, 8, 0, 10};
  sl_op_args a = {.scatter_add_rows = {acc, in, ids, weights, 3, 2, 2}};
  run(SL_OP_SCATTER_ADD_ROWS, &a);
  assert_true(acc[0] == 7 && acc[1] == 8);
  assert_true(acc[2] == 0.0f); /* (2^24 + 1) - 2^24; another order gives 1 */
  assert_true(acc[3] == 16);
}

static void scatter_add_rows_weighs_each_row(void **state) {
  (void)state;
  static const float in[4] = {1, 2, 3, 4}, weights[2] = {0.5f, -1};
  static const int32_t ids[2] = {1, 0}, wrong[2] = {0, 2};
  float acc[4] = {1, 1, 1, 1};
  sl_op_args a = {.scatter_add_rows = {acc, in, ids, weights, 2, 2, 2}};
  run(SL_OP_SCATTER_ADD_ROWS, &a);
  static const float expected[4] = {-2, -3, 1.5f, 2};
  assert_memory_equal(acc, expected, sizeof acc);
  a.scatter_add_rows.ids = wrong;
  assert_refused(SL_OP_SCATTER_ADD_ROWS, &a, "scatter_add_rows: ids[1]: found 2, expected 0 to 1");
}

static void fill_zero_writes_zeros(void **state) {
  (void)state;
  float out[7];
  unit_poison(out, 7);
  sl_op_args a = {.fill_zero = {out, 2, 3}};
  run(SL_OP_FILL_ZERO, &a);
  for (int i = 0; i < 6; i++) assert_true(out[i] == 0.0f && !signbit(out[i]));
  assert_true(isnan(out[6]));
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */

enum { NM = 3, NH = 37 };

static real rms_of(const real *x, real eps) {
  real sum = 0;
  for (int i = 0; i < NH; i++) sum += x[i] * x[i];
  return sqrtl(sum / NH + eps);
}

static void widen(real *out, const float *x) {
  for (int i = 0; i < NH; i++) out[i] = x[i];
}

static void rms_norm_is_the_formula(void **state) {
  (void)state;
  float x[NM * NH], w[NH], residual[NM * NH], out[NM * NH];
  fill(x, NM * NH, 6);
  fill(w, NH, 7);
  fill(residual, NM * NH, 8);
  for (int kind = 0; kind < 3; kind++) { /* with weights, without, with residual */
    unit_poison(out, NM * NH);
    sl_op_args a = {.rms_norm = {out, x, kind == 1 ? NULL : w, kind == 2 ? residual : NULL, 1e-6f, NM, NH}};
    run(kind == 2 ? SL_OP_RMS_NORM_ADD : SL_OP_RMS_NORM, &a);
    for (int m = 0; m < NM; m++) {
      real row[NH];
      widen(row, x + m * NH);
      real rms = rms_of(row, (real)1e-6f);
      for (int i = 0; i < NH; i++) {
        real expected = row[i] / rms * (kind == 1 ? 1 : (real)w[i]) + (kind == 2 ? (real)residual[m * NH + i] : 0);
        assert_true(fabsl(out[m * NH + i] - expected) <= 0x1p-23L * (fabsl(expected) + 0x1p-20L));
      }
    }
  }
}

static void rms_norm_does_not_add_one_to_the_weight(void **state) {
  (void)state;
  float x[2] = {3, 4}, w[2] = {0, 1}, out[2];
  sl_op_args a = {.rms_norm = {out, x, w, NULL, 0, 1, 2}};
  run(SL_OP_RMS_NORM, &a);
  assert_true(out[0] == 0.0f);
  assert_close(out[1], 4 / sqrtl(12.5L));
}

static void rms_norm_add_may_write_onto_x_or_residual(void **state) {
  (void)state;
  float x[NH], r[NH], expected[NH], out[NH];
  fill(x, NH, 9);
  fill(r, NH, 10);
  sl_op_args a = {.rms_norm = {expected, x, NULL, r, 1e-6f, 1, NH}};
  run(SL_OP_RMS_NORM_ADD, &a);
  memcpy(out, x, sizeof out);
  a.rms_norm.out = out;
  a.rms_norm.x = out;
  run(SL_OP_RMS_NORM_ADD, &a);
  assert_memory_equal(out, expected, sizeof out);
  memcpy(out, r, sizeof out);
  a.rms_norm.x = x;
  a.rms_norm.residual = out;
  run(SL_OP_RMS_NORM_ADD, &a);
  assert_memory_equal(out, expected, sizeof out);
}

static void dual_rms_norm_add_is_the_formula(void **state) {
  (void)state;
  float x1[NH], x2[NH], r[NH], w1[NH], w2[NH], w3[NH], out[NH];
  float *inputs[] = {x1, x2, r, w1, w2, w3};
  for (int i = 0; i < 6; i++) fill(inputs[i], NH, 11 + (uint64_t)i);
  unit_poison(out, NH);
  sl_op_args a = {.dual_rms_norm_add = {out, x1, x2, r, w1, w2, w3, 1e-6f, 1, NH}};
  run(SL_OP_DUAL_RMS_NORM_ADD, &a);
  real y1[NH], y2[NH], middle[NH];
  widen(y1, x1);
  widen(y2, x2);
  real r1 = rms_of(y1, (real)1e-6f), r2 = rms_of(y2, (real)1e-6f);
  for (int i = 0; i < NH; i++) middle[i] = y1[i] / r1 * w1[i] + y2[i] / r2 * w2[i];
  real r3 = rms_of(middle, (real)1e-6f);
  for (int i = 0; i < NH; i++) {
    real expected = middle[i] / r3 * w3[i] + r[i];
    assert_true(fabsl(out[i] - expected) <= 0x1p-22L * (fabsl(expected) + 0x1p-20L));
  }
  for (int in = 0; in < 3; in++) { /* onto each of its inputs */
    float copy[NH];
    memcpy(copy, inputs[in], sizeof copy);
    sl_op_args b = {.dual_rms_norm_add = {copy, in == 0 ? copy : x1, in == 1 ? copy : x2, in == 2 ? copy : r, w1, w2,
                                          w3, 1e-6f, 1, NH}};
    run(SL_OP_DUAL_RMS_NORM_ADD, &b);
    assert_memory_equal(copy, out, sizeof out);
  }
}

static void norms_refuse_bad_eps_and_shifted_outputs(void **state) {
  (void)state;
  float x[8] = {0};
  sl_op_args a = {.rms_norm = {x, x, NULL, NULL, NAN, 1, 4}};
  assert_refused(SL_OP_RMS_NORM, &a, "rms_norm: eps: found nan, expected a finite number of at least 0");
  a.rms_norm.eps = 1e-6f;
  a.rms_norm.out = x + 1;
  assert_refused(SL_OP_RMS_NORM, &a, "rms_norm: out overlaps x, expected the same or another buffer");
  a.rms_norm.out = x;
  assert_refused(SL_OP_RMS_NORM_ADD, &a, "rms_norm_add: residual: found NULL, expected an array");
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

static real gelu_tanh(real x) {
  return 0.5L * x * (1 + tanhl(sqrtl(2 / 3.141592653589793238462643383279L) * (x + 0.044715L * x * x * x)));
}

static real silu(real x) { return x / (1 + expl(-x)); }

static void glu_is_activation_times_up(void **state) {
  (void)state;
  enum { M = 2, I = 40, LDG = 43, LDU = 41, LDO = 42 };
  static float gate[M * LDG], up[M * LDU], out[M * LDO];
  fill(gate, M * LDG, 20);
  fill(up, M * LDU, 21);
  for (int i = 0; i < M * LDG; i++) gate[i] *= 12;
  for (int kind = 0; kind < 2; kind++) {
    unit_poison(out, M * LDO);
    sl_op_args a = {.glu = {out, gate, up, M, I, LDG, LDU, LDO}};
    run(kind ? SL_OP_SWIGLU : SL_OP_GEGLU, &a);
    for (int m = 0; m < M; m++) {
      for (int i = 0; i < I; i++) {
        real g = gate[m * LDG + i], expected = (kind ? silu(g) : gelu_tanh(g)) * up[m * LDU + i];
        /* 1 + tanh(x) cancels for negative x, in double as well */
        assert_true(fabsl(out[m * LDO + i] - expected) <= 0x1p-23L * fabsl(expected) + 1e-14L);
      }
      assert_true(isnan(out[m * LDO + I]));
    }
  }
}

static void large_gates_neither_overflow_nor_lose_nan(void **state) {
  (void)state;
  float gate[4] = {1e30f, -1e30f, NAN, -200}, up[4] = {1, 1, 1, 1}, out[4];
  for (int kind = 0; kind < 2; kind++) {
    unit_poison(out, 4);
    sl_op_args a = {.glu = {out, gate, up, 1, 4, 4, 4, 4}};
    run(kind ? SL_OP_SWIGLU : SL_OP_GEGLU, &a);
    assert_true(out[0] == 1e30f && out[1] == 0.0f && isnan(out[2]) && fabsf(out[3]) < 1e-30f);
  }
}

/* ---- experts ----------------------------------------------------------------------------------------------------- */

enum { EH = 33, EI = 21, EN = 4, EM = 3, EK = 2 };

typedef struct zoo {
  float gate[EN][EI * EH], up[EN][EI * EH], down[EN][EH * EI], scales[EN][EI + EH];
  sl_expert experts[EN];
  float x[EM * EH];
} zoo;

static zoo *new_zoo(void) {
  static zoo z;
  fill((float *)&z, (int)(offsetof(zoo, experts) / sizeof(float)), 30);
  fill(z.x, EM * EH, 31);
  for (int e = 0; e < EN; e++) {
    z.experts[e].gate = (sl_weight){z.gate[e], z.scales[e], SL_F32, SL_F32, EI, EH};
    z.experts[e].up = (sl_weight){z.up[e], NULL, SL_F32, SL_F32, EI, EH};
    z.experts[e].down = (sl_weight){z.down[e], z.scales[e] + EI, SL_F32, SL_F32, EH, EI};
  }
  return &z;
}

static const int32_t expert_ids[EM * EK] = {3, 0, 1, 2, 0, 3};
static const float expert_weights[EM * EK] = {0.75f, 0.5f, -1, 2, 0.25f, 0.125f};

static void expert_ffn_is_the_weighted_sum_of_its_experts(void **state) {
  (void)state;
  zoo *z = new_zoo();
  float out[EM * EH];
  for (int act = 0; act < 2; act++) {
    unit_poison(out, EM * EH);
    sl_op_args a = {
        .expert_ffn = {out, z->x, expert_ids, expert_weights, z->experts, (sl_activation)act, EM, EH, EI, EK, EN}};
    run(SL_OP_EXPERT_FFN, &a);
    for (int m = 0; m < EM; m++)
      for (int h = 0; h < EH; h++) {
        real expected = 0;
        for (int j = 0; j < EK; j++) {
          int e = expert_ids[m * EK + j];
          real y = 0;
          for (int i = 0; i < EI; i++) {
            real g = 0, u = 0;
            for (int k = 0; k < EH; k++) {
              g += (real)z->x[m * EH + k] * z->gate[e][i * EH + k];
              u += (real)z->x[m * EH + k] * z->up[e][i * EH + k];
            }
            g *= z->scales[e][i];
            y += (act == SL_SILU ? silu(g) : gelu_tanh(g)) * u * z->down[e][h * EI + i];
          }
          expected += expert_weights[m * EK + j] * y * z->scales[e][EI + h];
        }
        assert_true(fabsl(out[m * EH + h] - expected) <= 1e-5L);
      }
  }
}

/* The fused path gives the bits of the grouped one. */
static void expert_ffn_is_matmuls_and_geglu_bit_for_bit(void **state) {
  (void)state;
  zoo *z = new_zoo();
  float out[EM * EH], grouped[EM * EH] = {0}, g[EI], u[EI], y[EH];
  sl_op_args a = {.expert_ffn = {out, z->x, expert_ids, expert_weights, z->experts, SL_GELU_TANH, EM, EH, EI, EK, EN}};
  run(SL_OP_EXPERT_FFN, &a);
  for (int32_t at = 0; at < EM * EK; at++) {
    int32_t m = at / EK;
    sl_expert *e = &z->experts[expert_ids[at]];
    run(SL_OP_MATMUL_BT, &(sl_op_args){.matmul_bt = {g, z->x + m * EH, &e->gate, 1, 0, 1, EH, EI}});
    run(SL_OP_MATMUL_BT, &(sl_op_args){.matmul_bt = {u, z->x + m * EH, &e->up, 1, 0, 1, EH, EI}});
    run(SL_OP_GEGLU, &(sl_op_args){.glu = {g, g, u, 1, EI, EI, EI, EI}});
    run(SL_OP_MATMUL_BT, &(sl_op_args){.matmul_bt = {y, g, &e->down, 1, 0, 1, EI, EH}});
    run(SL_OP_SCATTER_ADD_ROWS, &(sl_op_args){.scatter_add_rows = {grouped, y, &m, &expert_weights[at], 1, EH, EM}});
  }
  assert_memory_equal(out, grouped, sizeof out);
}

/* More than fits on the stack at once: the middle in parts, the outputs in parts. */
static void wide_experts_give_the_same_bits_as_the_grouped_path(void **state) {
  (void)state;
  enum { H = 1030, I = 4100 };
  float *w = malloc(sizeof(float) * 3 * H * I), *x = malloc(sizeof(float) * H), *g = malloc(sizeof(float) * I);
  float *u = malloc(sizeof(float) * I), *y = malloc(sizeof(float) * H), *out = malloc(sizeof(float) * H);
  fill(w, 3 * H * I, 40);
  fill(x, H, 41);
  unit_poison(out, H);
  sl_expert e = {
      {.data = w, .N = I, .K = H}, {.data = w + H * I, .N = I, .K = H}, {.data = w + 2 * H * I, .N = H, .K = I}};
  const int32_t id = 0;
  const float one = 1;
  run(SL_OP_EXPERT_FFN, &(sl_op_args){.expert_ffn = {out, x, &id, &one, &e, SL_SILU, 1, H, I, 1, 1}});
  run(SL_OP_MATMUL_BT, &(sl_op_args){.matmul_bt = {g, x, &e.gate, 1, 0, 1, H, I}});
  run(SL_OP_MATMUL_BT, &(sl_op_args){.matmul_bt = {u, x, &e.up, 1, 0, 1, H, I}});
  run(SL_OP_SWIGLU, &(sl_op_args){.glu = {g, g, u, 1, I, I, I, I}});
  run(SL_OP_MATMUL_BT, &(sl_op_args){.matmul_bt = {y, g, &e.down, 1, 0, 1, I, H}});
  assert_memory_equal(out, y, sizeof(float) * H);
  free(w), free(x), free(g), free(u), free(y), free(out);
}

static void expert_ffn_refuses_wrong_shapes_and_ids(void **state) {
  (void)state;
  zoo *z = new_zoo();
  float out[EM * EH];
  sl_op_args a = {.expert_ffn = {out, z->x, expert_ids, expert_weights, z->experts, SL_GELU_TANH, EM, EH, EI, EK, EN}};
  a.expert_ffn.n_experts = 3;
  assert_refused(SL_OP_EXPERT_FFN, &a, "expert_ffn: ids[0]: found 3, expected 0 to 2");
  a.expert_ffn.n_experts = EN;
  z->experts[1].down.K = 5;
  assert_refused(SL_OP_EXPERT_FFN, &a, "expert_ffn: experts[1].down: shape [33,5], expected [33,21]");
  z->experts[1].down.K = EI;
  a.expert_ffn.act = (sl_activation)2;
  assert_refused(SL_OP_EXPERT_FFN, &a, "expert_ffn: act: found 2, expected gelu_tanh or silu");
}

/* ---- routing ----------------------------------------------------------------------------------------------------- */

static void route_topk_takes_the_largest_and_renormalises(void **state) {
  (void)state;
  static const float logits[5] = {0.5f, 2, -1, 3, 1}, per_expert[5] = {1, 10, 1, 0.5f, 1};
  int32_t ids[3] = {-1, -1, -1};
  float weights[3];
  real e[5], sum = 0;
  for (int i = 0; i < 5; i++) sum += e[i] = expl(logits[i]);
  for (int renormalize = 0; renormalize < 2; renormalize++) {
    unit_poison(weights, 3);
    sl_op_args a = {.route_topk = {ids, weights, logits, per_expert, NULL, renormalize, 1, 5, 3}};
    run(SL_OP_ROUTE_TOPK, &a);
    assert_true(ids[0] == 3 && ids[1] == 1 && ids[2] == 4);
    real all = renormalize ? e[3] + e[1] + e[4] : sum;
    assert_close(weights[0], e[3] / all * 0.5L);
    assert_close(weights[1], e[1] / all * 10);
    assert_close(weights[2], e[4] / all);
  }
}

static void route_topk_gives_ties_to_the_lowest_id(void **state) {
  (void)state;
  static const float logits[12] = {1, 2, 2, 1, 2, 0, 7, 7, 7, 7, 7, 7};
  int32_t ids[8];
  float weights[8];
  sl_op_args a = {.route_topk = {ids, weights, logits, NULL, NULL, true, 2, 6, 4}};
  run(SL_OP_ROUTE_TOPK, &a);
  static const int32_t expected[8] = {1, 2, 4, 0, 0, 1, 2, 3};
  assert_memory_equal(ids, expected, sizeof ids);
  for (int j = 4; j < 8; j++) assert_true(weights[j] == 0.25f);
}

static void route_topk_weighs_imposed_experts_by_the_router(void **state) {
  (void)state;
  static const float logits[4] = {0, 1, 2, 3};
  static const int32_t imposed[2] = {0, 2}, twice[2] = {1, 1}, wrong[2] = {1, 4};
  int32_t ids[2];
  float weights[2];
  unit_poison(weights, 2);
  sl_op_args a = {.route_topk = {ids, weights, logits, NULL, imposed, true, 1, 4, 2}};
  run(SL_OP_ROUTE_TOPK, &a);
  assert_true(ids[0] == 0 && ids[1] == 2);
  assert_close(weights[0], 1 / (1 + expl(2)));
  assert_close(weights[1], expl(2) / (1 + expl(2)));
  a.route_topk.imposed = twice;
  assert_refused(SL_OP_ROUTE_TOPK, &a,
                 "route_topk: imposed: found 1, expected distinct experts for each token, but it is there twice");
  a.route_topk.imposed = wrong;
  assert_refused(SL_OP_ROUTE_TOPK, &a, "route_topk: imposed[1]: found 4, expected 0 to 3");
  a.route_topk.imposed = NULL;
  a.route_topk.top_k = 5;
  assert_refused(SL_OP_ROUTE_TOPK, &a, "route_topk: top_k: found 5, expected at most 4 (E)");
}

static void route_topk_of_nan_gives_nan_weights_and_distinct_ids(void **state) {
  (void)state;
  for (int at = 0; at < 4; at++) {
    float logits[4] = {0, 1, 2, 3}, weights[2] = {0, 0};
    int32_t ids[2] = {-1, -1};
    logits[at] = NAN;
    sl_op_args a = {.route_topk = {ids, weights, logits, NULL, NULL, true, 1, 4, 2}};
    run(SL_OP_ROUTE_TOPK, &a);
    assert_true(isnan(weights[0]) && isnan(weights[1]));
    assert_true(ids[0] >= 0 && ids[0] < 4 && ids[1] >= 0 && ids[1] < 4 && ids[0] != ids[1]);
  }
}

static void route_topk_survives_huge_logits(void **state) {
  (void)state;
  static const float logits[3] = {1e30f, 1e30f, -1e30f};
  int32_t ids[2];
  float weights[2];
  sl_op_args a = {.route_topk = {ids, weights, logits, NULL, NULL, true, 1, 3, 2}};
  run(SL_OP_ROUTE_TOPK, &a);
  assert_true(ids[0] == 0 && ids[1] == 1 && weights[0] == 0.5f && weights[1] == 0.5f);
}

/* ---- rope, cache, attention -------------------------------------------------------------------------------------- */

static void rope_turns_half_split_pairs(void **state) {
  (void)state;
  enum { M = 2, HEADS = 3, D = 8 };
  float x[M * HEADS * D], before[M * HEADS * D];
  static const float inv_freq[4] = {1, 0.25f, 0.0625f, 0}; /* the last pair stands still */
  static const int32_t positions[2] = {0, 5};
  fill(before, M * HEADS * D, 50);
  memcpy(x, before, sizeof x);
  sl_op_args a = {.rope = {x, positions, inv_freq, M, HEADS, D}};
  run(SL_OP_ROPE, &a);
  for (int m = 0; m < M; m++)
    for (int h = 0; h < HEADS; h++)
      for (int i = 0; i < 4; i++) {
        int at = (m * HEADS + h) * D + i;
        real angle = (real)positions[m] * inv_freq[i], c = cosl(angle), s = sinl(angle);
        assert_true(fabsl(x[at] - (before[at] * c - before[at + 4] * s)) < 1e-7L);
        assert_true(fabsl(x[at + 4] - (before[at + 4] * c + before[at] * s)) < 1e-7L);
        if (m == 0 || i == 3) assert_true(x[at] == before[at] && x[at + 4] == before[at + 4]);
      }
  a.rope.head_dim = 7;
  assert_refused(SL_OP_ROPE, &a, "rope: head_dim: found 7, expected an even number");
  static const int32_t negative[2] = {0, -1};
  a.rope.head_dim = D;
  a.rope.positions = negative;
  assert_refused(SL_OP_ROPE, &a, "rope: positions[1]: found -1, expected 0 to 2147483646");
}

enum { KVH = 2, HD = 4, HEADS = 6, CAP = SL_KV_BLOCK };

typedef struct cache {
  float k[KVH * CAP * HD], v[KVH * CAP * HD];
} cache;

static sl_segment segment(cache *c, int first_row, int n_rows, int first_pos) {
  unit_poison(c->k, KVH * CAP * HD);
  unit_poison(c->v, KVH * CAP * HD);
  return (sl_segment){{c->k, c->v, SL_F32, KVH, HD, CAP}, first_row, n_rows, first_pos};
}

static void kv_write_stores_each_position_in_its_slot(void **state) {
  (void)state;
  static cache one, two;
  float k[5 * KVH * HD], v[5 * KVH * HD];
  fill(k, 5 * KVH * HD, 60);
  fill(v, 5 * KVH * HD, 61);
  sl_segment s[2] = {segment(&one, 0, 3, CAP - 1), segment(&two, 3, 2, 7)}; /* the first wraps around */
  sl_op_args a = {.kv_write = {k, v, s, 2, 5}};
  run(SL_OP_KV_WRITE, &a);
  static const int slots[5] = {CAP - 1, 0, 1, 7, 8};
  for (int m = 0; m < 5; m++)
    for (int h = 0; h < KVH; h++) {
      cache *c = m < 3 ? &one : &two;
      assert_memory_equal(c->k + (h * CAP + slots[m]) * HD, k + (m * KVH + h) * HD, HD * sizeof(float));
      assert_memory_equal(c->v + (h * CAP + slots[m]) * HD, v + (m * KVH + h) * HD, HD * sizeof(float));
    }
  assert_true(isnan(one.k[2 * HD]) && isnan(two.k[0])); /* and nothing else */
}

static void kv_write_rounds_to_f16(void **state) {
  (void)state;
  uint16_t kc[CAP * 2], vc[CAP * 2];
  float k[2] = {1.0f + 0x1p-11f, 1.0f + 0x1.8p-10f}, v[2] = {-0x1p-24f, NAN};
  sl_segment s = {{kc, vc, SL_F16, 1, 2, CAP}, 0, 1, 0};
  sl_op_args a = {.kv_write = {k, v, &s, 1, 1}};
  run(SL_OP_KV_WRITE, &a);
  assert_int_equal(kc[0], 0x3C00);
  assert_int_equal(kc[1], 0x3C02);
  assert_int_equal(vc[0], 0x8001);
  assert_true((vc[1] & 0x7FFF) > 0x7C00);
}

/* Keys and values of all positions, the straightforward way; the caches hold a part of them in a ring. */
static void expect_attention(real *out, const float *q, const float *k, const float *v, int lowest, int pos,
                             real scale) {
  for (int h = 0; h < HEADS; h++) {
    int kvh = h / (HEADS / KVH);
    real total = 0;
    for (int d = 0; d < HD; d++) out[h * HD + d] = 0;
    for (int j = lowest; j <= pos; j++) {
      real s = 0;
      for (int d = 0; d < HD; d++) s += (real)q[h * HD + d] * k[(j * KVH + kvh) * HD + d];
      real p = expl(scale * s);
      for (int d = 0; d < HD; d++) out[h * HD + d] += p * v[(j * KVH + kvh) * HD + d];
      total += p;
    }
    for (int d = 0; d < HD; d++) out[h * HD + d] /= total;
  }
}

static void attention_case(int first_pos, int n_rows, int window) {
  static cache c, other;
  enum { MOST = 200, ROWS = 8 };
  static float k[MOST * KVH * HD], v[MOST * KVH * HD], q[ROWS * HEADS * HD], out[ROWS * HEADS * HD];
  int end = first_pos + n_rows, M = n_rows + 1;
  fill(k, MOST * KVH * HD, 70);
  fill(v, MOST * KVH * HD, 71);
  fill(q, ROWS * HEADS * HD, 72);
  unit_poison(out, ROWS * HEADS * HD);
  /* Beside it a session of one token at position 0, whose only key is its own. */
  sl_segment s[2] = {segment(&c, 0, end < CAP ? end : CAP, end < CAP ? 0 : end - CAP), segment(&other, 0, 1, 0)};
  int from = s[0].first_pos * KVH * HD;
  run(SL_OP_KV_WRITE, &(sl_op_args){.kv_write = {k + from, v + from, s, 1, s[0].n_rows}});
  run(SL_OP_KV_WRITE, &(sl_op_args){.kv_write = {k, v, s + 1, 1, 1}});
  s[0] = (sl_segment){s[0].kv, 0, n_rows, first_pos};
  s[1].first_row = n_rows;
  run(SL_OP_ATTENTION, &(sl_op_args){.attention = {out, q, s, 2, 0.5f, M, HEADS, KVH, HD, window}});
  for (int m = 0; m < M; m++) {
    real expected[HEADS * HD];
    int pos = m < n_rows ? first_pos + m : 0;
    int lowest = window > 0 && pos - window + 1 > 0 ? pos - window + 1 : 0;
    expect_attention(expected, q + m * HEADS * HD, k, v, lowest, pos, 0.5L);
    for (int i = 0; i < HEADS * HD; i++) assert_true(fabsl(out[m * HEADS * HD + i] - expected[i]) < 1e-7L);
  }
}

static void attention_is_the_softmax_over_all_keys_so_far(void **state) {
  (void)state;
  attention_case(0, 1, 0);
  attention_case(0, 7, 0);
  attention_case(40, 5, 0);
}

static void attention_sees_a_window_that_includes_its_own_key(void **state) {
  (void)state;
  attention_case(0, 7, 1);
  attention_case(0, 7, 3);
  attention_case(30, 4, 16);
}

static void attention_reads_a_ring_that_wraps(void **state) {
  (void)state;
  attention_case(150, 5, 60); /* 60 + 5 - 1 = 64: the smallest ring that does */
  attention_case(62, 4, 10);
  attention_case(128, 1, 64);
}

static void attention_over_huge_scores_does_not_overflow(void **state) {
  (void)state;
  static cache c;
  float q[HEADS * HD], k[2 * KVH * HD], v[2 * KVH * HD], out[HEADS * HD];
  for (int i = 0; i < HEADS * HD; i++) q[i] = 1e15f;
  for (int i = 0; i < KVH * HD; i++) k[i] = -1e15f, k[KVH * HD + i] = 1e15f, v[i] = 1, v[KVH * HD + i] = 2;
  sl_segment s = segment(&c, 0, 2, 0);
  run(SL_OP_KV_WRITE, &(sl_op_args){.kv_write = {k, v, &s, 1, 2}});
  s = (sl_segment){s.kv, 0, 1, 1};
  unit_poison(out, HEADS * HD);
  run(SL_OP_ATTENTION, &(sl_op_args){.attention = {out, q, &s, 1, 1, 1, HEADS, KVH, HD, 0}});
  for (int i = 0; i < HEADS * HD; i++) assert_true(out[i] == 2.0f);
}

static void attention_refuses_rings_that_are_too_small(void **state) {
  (void)state;
  static cache c;
  float q[9 * HEADS * HD] = {0}, out[9 * HEADS * HD];
  sl_segment s = segment(&c, 0, 5, 60);
  sl_op_args a = {.attention = {out, q, &s, 1, 1, 5, HEADS, KVH, HD, 0}};
  assert_refused(SL_OP_ATTENTION, &a, "attention: cache's capacity: found 64, expected at least 65");
  a.attention.window = 61;
  s.first_pos = 100;
  assert_refused(SL_OP_ATTENTION, &a, "attention: cache's capacity: found 64, expected at least 65");
  a.attention.window = 60;
  assert_int_equal(sl_op_check(SL_OP_ATTENTION, &a, NULL), SL_OK);
  s.kv.capacity = 63;
  assert_refused(SL_OP_ATTENTION, &a, "attention: cache's capacity: found 63, expected a multiple of SL_KV_BLOCK");
  s.kv.capacity = 64;
  s.first_row = 1;
  assert_refused(SL_OP_ATTENTION, &a,
                 "attention: segment's first_row: found 1, expected 0 (the end of the segment before)");
  s.first_row = 0;
  s.kv.dtype = SL_BF16;
  assert_refused(SL_OP_ATTENTION, &a, "attention: cache's dtype: found BF16, expected F16 or F32");
  s.kv.dtype = SL_F32;
  a.attention.M = 6;
  assert_refused(SL_OP_ATTENTION, &a, "attention: end of the segments: found 5, expected 6 (M)");
  a.attention.n_kv_heads = 4;
  assert_refused(SL_OP_ATTENTION, &a, "attention: n_heads: found 6, expected a multiple of n_kv_heads");
}

/* ---- elementwise ------------------------------------------------------------------------------------------------- */

static void softcap_bends_and_keeps_nan(void **state) {
  (void)state;
  float x[5] = {0, 10, -100, NAN, INFINITY}, out[5];
  unit_poison(out, 5);
  sl_op_args a = {.softcap = {out, x, 30, 1, 5}};
  run(SL_OP_SOFTCAP, &a);
  assert_true(out[0] == 0.0f && isnan(out[3]) && out[4] == 30.0f);
  assert_close(out[1], 30 * tanhl(10 / 30.0L));
  assert_close(out[2], -30 * tanhl(100 / 30.0L));
  a.softcap.cap = 0;
  assert_refused(SL_OP_SOFTCAP, &a, "softcap: cap: found 0, expected a finite number above 0");
}

static void argmax_takes_the_lowest_of_equals_and_nan_first(void **state) {
  (void)state;
  static const float x[16] = {1, 3, 3, 2, 5, NAN, 9, NAN, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -3, -2, -1, -1};
  int32_t out[4] = {-1, -1, -1, -1};
  sl_op_args a = {.argmax = {out, x, 4, 4}};
  run(SL_OP_ARGMAX, &a);
  assert_true(out[0] == 1 && out[1] == 1 && out[2] == 0 && out[3] == 2);
}

static void add_and_scale_work_in_place(void **state) {
  (void)state;
  float a[4] = {1, 2, 3, NAN}, b[4] = {10, 20, -3, 1};
  run(SL_OP_ADD, &(sl_op_args){.add = {b, a, b, 2, 2}});
  assert_true(b[0] == 11 && b[1] == 22 && b[2] == 0 && isnan(b[3]));
  run(SL_OP_SCALE, &(sl_op_args){.scale = {a, a, -0.5f, 2, 2}});
  assert_true(a[0] == -0.5f && a[1] == -1 && a[2] == -1.5f && isnan(a[3]));
}

static void no_rows_are_fine_everywhere(void **state) {
  (void)state;
  sl_weight W = {.dtype = SL_F32, .N = 2, .K = 2, .data = &W};
  const sl_op_args args[] = {
      [SL_OP_EMBED_ROWS] = {.embed_rows = {.table = &W}},
      [SL_OP_MATMUL_BT] = {.matmul_bt = {.B = &W, .lda = 2, .ldo = 2}},
      [SL_OP_DEQUANT_ROWS] = {.dequant_rows = {.W = &W, .out_dtype = SL_F32}},
      [SL_OP_GATHER_ROWS] = {.gather_rows = {.H = 2}},
      [SL_OP_SCATTER_ADD_ROWS] = {.scatter_add_rows = {.H = 2}},
      [SL_OP_FILL_ZERO] = {.fill_zero = {.H = 2}},
      [SL_OP_RMS_NORM] = {.rms_norm = {.H = 2}},
      [SL_OP_RMS_NORM_ADD] = {.rms_norm = {.H = 2}},
      [SL_OP_DUAL_RMS_NORM_ADD] = {.dual_rms_norm_add = {.H = 2}},
      [SL_OP_GEGLU] = {.glu = {.I = 2, .ldg = 2, .ldu = 2, .ldo = 2}},
      [SL_OP_SWIGLU] = {.glu = {.I = 2, .ldg = 2, .ldu = 2, .ldo = 2}},
      [SL_OP_EXPERT_FFN] = {.expert_ffn = {.H = 2, .I = 2, .top_k = 1}},
      [SL_OP_ROUTE_TOPK] = {.route_topk = {.E = 2, .top_k = 1}},
      [SL_OP_ROPE] = {.rope = {.n_heads = 1, .head_dim = 2}},
      [SL_OP_KV_WRITE] = {.kv_write = {.M = 0}},
      [SL_OP_ATTENTION] = {.attention = {.n_heads = 1, .n_kv_heads = 1, .head_dim = 2}},
      [SL_OP_SOFTCAP] = {.softcap = {.H = 2, .cap = 1}},
      [SL_OP_ARGMAX] = {.argmax = {.H = 2}},
      [SL_OP_ADD] = {.add = {.H = 2}},
      [SL_OP_SCALE] = {.scale = {.H = 2}},
  };
  for (int op = 0; op < SL_N_OPS; op++) run((sl_op)op, &args[op]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_those_of_the_table),
      cmocka_unit_test(matmul_bt_is_the_sum_of_products),
      cmocka_unit_test(matmul_bt_reads_every_dtype_and_scale),
      cmocka_unit_test(matmul_bt_does_not_read_out_when_beta_is_zero),
      cmocka_unit_test(matmul_bt_with_K_0_scales_out_by_beta),
      cmocka_unit_test(nan_weights_and_inputs_stay_nan),
      cmocka_unit_test(rows_do_not_depend_on_the_other_rows),
      cmocka_unit_test(matmul_bt_refuses_what_does_not_fit),
      cmocka_unit_test(embed_rows_scales_the_row_of_each_id),
      cmocka_unit_test(dequant_rows_writes_f32_or_bf16),
      cmocka_unit_test(gather_rows_copies_rows),
      cmocka_unit_test(scatter_add_rows_adds_in_order),
      cmocka_unit_test(scatter_add_rows_weighs_each_row),
      cmocka_unit_test(fill_zero_writes_zeros),
      cmocka_unit_test(rms_norm_is_the_formula),
      cmocka_unit_test(rms_norm_does_not_add_one_to_the_weight),
      cmocka_unit_test(rms_norm_add_may_write_onto_x_or_residual),
      cmocka_unit_test(dual_rms_norm_add_is_the_formula),
      cmocka_unit_test(norms_refuse_bad_eps_and_shifted_outputs),
      cmocka_unit_test(glu_is_activation_times_up),
      cmocka_unit_test(large_gates_neither_overflow_nor_lose_nan),
      cmocka_unit_test(expert_ffn_is_the_weighted_sum_of_its_experts),
      cmocka_unit_test(expert_ffn_is_matmuls_and_geglu_bit_for_bit),
      cmocka_unit_test(wide_experts_give_the_same_bits_as_the_grouped_path),
      cmocka_unit_test(expert_ffn_refuses_wrong_shapes_and_ids),
      cmocka_unit_test(route_topk_takes_the_largest_and_renormalises),
      cmocka_unit_test(route_topk_gives_ties_to_the_lowest_id),
      cmocka_unit_test(route_topk_weighs_imposed_experts_by_the_router),
      cmocka_unit_test(route_topk_of_nan_gives_nan_weights_and_distinct_ids),
      cmocka_unit_test(route_topk_survives_huge_logits),
      cmocka_unit_test(rope_turns_half_split_pairs),
      cmocka_unit_test(kv_write_stores_each_position_in_its_slot),
      cmocka_unit_test(kv_write_rounds_to_f16),
      cmocka_unit_test(attention_is_the_softmax_over_all_keys_so_far),
      cmocka_unit_test(attention_sees_a_window_that_includes_its_own_key),
      cmocka_unit_test(attention_reads_a_ring_that_wraps),
      cmocka_unit_test(attention_over_huge_scores_does_not_overflow),
      cmocka_unit_test(attention_refuses_rings_that_are_too_small),
      cmocka_unit_test(softcap_bends_and_keeps_nan),
      cmocka_unit_test(argmax_takes_the_lowest_of_equals_and_nan_first),
      cmocka_unit_test(add_and_scale_work_in_place),
      cmocka_unit_test(no_rows_are_fine_everywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
