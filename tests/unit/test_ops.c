/* The reference by formulas and by hand: products, rows, norms, activations. */
#include "ops.h"

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
      cmocka_unit_test(softcap_bends_and_keeps_nan),
      cmocka_unit_test(argmax_takes_the_lowest_of_equals_and_nan_first),
      cmocka_unit_test(add_and_scale_work_in_place),
      cmocka_unit_test(no_rows_are_fine_everywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
