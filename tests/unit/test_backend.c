#include "unit.h"

#include <unistd.h>

#include "backend/backend.h"
#include "base/fault.h"
#include "base/file.h"
#include "ops/reference.h"

/* ---- the finder, over made-up tables ----------------------------------------------------------------------------- */

static bool narrow_only(const sl_op_sig *sig, sl_refusal *why) {
  if (sig->K <= 100) return true;
  why->reason = SL_NOT_WRITTEN; /* the finder knows better */
  strcpy(why->detail, "K too wide");
  return false;
}

#define BOTH_ROLES (1u << SL_PROMPT | 1u << SL_GENERATED)
#define BOTH_MATHS (1u << SL_EXACT | 1u << SL_FAST)

static const sl_kernel first_rows[] = {
    {.name = "narrow",
     .op = SL_OP_MATMUL_BT,
     .roles = BOTH_ROLES,
     .maths = BOTH_MATHS,
     .dtypes = 1u << SL_BF16,
     .fits = narrow_only},
    {.name = "prompt",
     .op = SL_OP_MATMUL_BT,
     .roles = 1u << SL_PROMPT,
     .maths = BOTH_MATHS,
     .dtypes = 1u << SL_F8_E4M3},
    {.name = "exact", .op = SL_OP_MATMUL_BT, .roles = BOTH_ROLES, .maths = 1u << SL_EXACT, .dtypes = 1u << SL_F16},
};
static const sl_kernel second_rows[] = {
    {.name = "later", .op = SL_OP_MATMUL_BT, .roles = BOTH_ROLES, .maths = 1u << SL_EXACT, .dtypes = 1u << SL_BF16},
    {.name = "add", .op = SL_OP_ADD, .roles = BOTH_ROLES, .maths = BOTH_MATHS, .dtypes = 1u << SL_F32},
};
static sl_kernel_table first_table(void) { return (sl_kernel_table){first_rows, 3}; }
static sl_kernel_table second_table(void) { return (sl_kernel_table){second_rows, 2}; }
static sl_kernel_table (*const tables[])(void) = {first_table, second_table};
static const char *lacks_wings(void) { return "wings"; }
static const char *lacks_nothing(void) { return NULL; }

static const sl_backend good = {"toy", tables, 2, NULL, lacks_nothing};

static void assert_refusal(const sl_backend *b, sl_op_sig sig, sl_reason reason, const char *detail) {
  sl_refusal why = {0};
  assert_null(sl_kernel_find(b, &sig, &why));
  assert_string_equal(sl_reason_name(why.reason), sl_reason_name(reason));
  assert_string_equal(why.detail, detail);
  assert_null(sl_kernel_find(b, &sig, NULL));
}

static void assert_found(sl_op_sig sig, const char *name) {
  const sl_kernel *k = sl_kernel_find(&good, &sig, NULL);
  assert_non_null(k);
  assert_string_equal(k->name, name);
}

static void the_first_row_that_fits_wins(void **state) {
  (void)state;
  assert_found((sl_op_sig){.op = SL_OP_MATMUL_BT, .dtype = SL_BF16, .K = 100}, "narrow");
  assert_found((sl_op_sig){.op = SL_OP_MATMUL_BT, .dtype = SL_BF16, .K = 101}, "later");
  assert_found((sl_op_sig){.op = SL_OP_ADD, .dtype = SL_F32, .K = 101}, "add");
}

static void the_four_refusals_read_differently(void **state) {
  (void)state;
  const sl_op_sig sig = {.op = SL_OP_MATMUL_BT, .dtype = SL_F16, .math = SL_FAST, .N = 3, .K = 5};
  sl_backend b = good;
  b.not_compiled = "SLUICE_TOY";
  b.missing = lacks_wings; /* the build comes first: this machine is not to blame */
  assert_refusal(&b, sig, SL_NOT_COMPILED, "toy: not part of this build; build with -DSLUICE_TOY=ON");
  b.not_compiled = NULL;
  assert_refusal(&b, sig, SL_NOT_ON_DEVICE, "toy: this machine lacks wings");
  assert_refusal(&good, (sl_op_sig){.op = SL_OP_ROPE}, SL_NOT_WRITTEN, "toy: rope is not written for this backend");
  assert_refusal(&good, sig, SL_OUT_OF_RANGE, "toy: matmul_bt on F16 for prompt tokens has no fast math");
}

static void out_of_range_names_what_does_not_fit(void **state) {
  (void)state;
  assert_refusal(&good, (sl_op_sig){.op = SL_OP_MATMUL_BT, .dtype = SL_F32}, SL_OUT_OF_RANGE,
                 "toy: matmul_bt takes no F32");
  assert_refusal(&good, (sl_op_sig){.op = SL_OP_MATMUL_BT, .dtype = SL_F8_E4M3, .role = SL_GENERATED}, SL_OUT_OF_RANGE,
                 "toy: matmul_bt on F8_E4M3 takes no generated tokens");
  assert_refusal(&good, (sl_op_sig){.op = SL_OP_MATMUL_BT, .dtype = SL_BF16, .math = SL_FAST, .K = 101},
                 SL_OUT_OF_RANGE, "K too wide");
}

static void nonsense_is_not_written(void **state) {
  (void)state;
  assert_refusal(&good, (sl_op_sig){.op = SL_N_OPS}, SL_NOT_WRITTEN, "toy: there is no operation 20 on dtype 0");
  assert_refusal(&good, (sl_op_sig){.op = SL_OP_ADD, .dtype = SL_N_DTYPES}, SL_NOT_WRITTEN,
                 "toy: there is no operation 18 on dtype 4");
}

static void reasons_have_names(void **state) {
  (void)state;
  assert_string_equal(sl_reason_name(SL_NOT_WRITTEN), "not_written");
  assert_string_equal(sl_reason_name(SL_NOT_COMPILED), "not_compiled");
  assert_string_equal(sl_reason_name(SL_NOT_ON_DEVICE), "not_on_device");
  assert_string_equal(sl_reason_name(SL_OUT_OF_RANGE), "out_of_range");
}

/* ---- the real ones ----------------------------------------------------------------------------------------------- */

static const sl_backend *backend(const char *name) {
  int n;
  const sl_backend *const *all = sl_backends(&n);
  for (int i = 0; i < n; i++)
    if (strcmp(all[i]->name, name) == 0) return all[i];
  fail_msg("no backend %s", name);
  return NULL;
}

static bool is_cache_op(int op) { return op == SL_OP_ATTENTION || op == SL_OP_KV_WRITE; }

static void the_reference_has_every_operation(void **state) {
  (void)state;
  for (int op = 0; op < SL_N_OPS; op++)
    for (int i = 0; i < SL_N_DTYPES * 4; i++) {
      sl_op_sig sig = {
          .op = (sl_op)op, .dtype = (sl_dtype)(i / 4), .role = (sl_role)(i & 1), .math = (sl_math)(i >> 1 & 1)};
      if (!sl_op_has_dtype(sig.op) && sig.dtype != SL_F32) continue;
      if (is_cache_op(op) && sig.dtype != SL_F32 && sig.dtype != SL_F16) continue;
      const sl_kernel *k = sl_kernel_find(backend("cpu-reference"), &sig, NULL);
      assert_non_null(k);
      assert_int_equal(k->op, op);
      assert_memory_equal(k->name, "reference/", 10);
      assert_string_equal(k->name + 10, sl_op_name(sig.op));
    }
}

static void every_backend_answers_for_every_operation(void **state) {
  (void)state;
  int n;
  const sl_backend *const *all = sl_backends(&n);
  assert_int_equal(n, 7);
  for (int b = 0; b < n; b++)
    for (int op = 0; op < SL_N_OPS; op++) {
      sl_refusal why = {.reason = (sl_reason)99};
      sl_op_sig sig = {.op = (sl_op)op, .dtype = SL_F32, .N = 64, .K = 64, .top_k = 1, .group = 1};
      if (sl_kernel_find(all[b], &sig, &why)) continue;
      assert_string_not_equal(sl_reason_name(why.reason), "unknown reason");
      assert_memory_equal(why.detail, all[b]->name, strlen(all[b]->name));
    }
  sl_refusal why;
  assert_null(sl_kernel_find(backend("vulkan"), &(sl_op_sig){.op = SL_OP_ADD}, &why));
  assert_int_equal(why.reason, SL_NOT_WRITTEN);
}

static void arms_end_with_the_reference(void **state) {
  (void)state;
  static const char *const names[] = {"auto", "avx512", "avx2", "reference"};
  for (int i = 0; i < 4; i++) {
    const sl_backend *arms[SL_MAX_ARMS];
    sl_error err = {0};
    int n = -1;
    sl_status status = sl_cpu_arms(names[i], arms, &n, &err);
    if (status == SL_OK) {
      assert_true(n >= 1 && n <= SL_MAX_ARMS);
      assert_string_equal(arms[n - 1]->name, "cpu-reference");
      if (i == 1 || i == 2) assert_string_equal(arms[0]->name + 4, names[i]);
    } else { /* a machine without, or a build without */
      assert_true(i == 1 || i == 2);
      assert_int_equal(status, SL_ERR_UNSUPPORTED);
      assert_true(strstr(err.text, "this machine lacks ") || strstr(err.text, "not part of this build"));
    }
  }
}

static void unknown_arms_are_refused(void **state) {
  (void)state;
  const sl_backend *arms[SL_MAX_ARMS];
  sl_error err = {0};
  int n = -1;
  assert_int_equal(sl_cpu_arms("AVX2", arms, &n, &err), SL_ERR_ARGUMENT);
  assert_string_equal(err.text, "kernels: found \"AVX2\", expected auto, avx512, avx2 or reference");
  assert_int_equal(n, -1);
}

/* ---- the reference backend runs ---------------------------------------------------------------------------------- */

static void run(sl_pool *pool, sl_op op, sl_dtype dtype, const sl_op_args *args) {
  const sl_kernel *k = sl_kernel_find(backend("cpu-reference"), &(sl_op_sig){.op = op, .dtype = dtype}, NULL);
  sl_ctx ctx = {.pool = pool};
  assert_int_equal(k->run(&ctx, args), SL_OK);
}

static void matmul_bt_is_the_same_for_any_number_of_threads(void **state) {
  (void)state;
  enum { M = 3, N = 70, K = 40 };
  static float A[M * K], expected[M * N], out[M * N];
  static uint8_t W[N * K];
  static uint16_t scales[N];
  unit_random r = {1};
  for (int i = 0; i < M * K; i++) A[i] = unit_float(&r);
  for (int i = 0; i < N * K; i++) W[i] = (uint8_t)(unit_next(&r) % 0x7F);
  for (int i = 0; i < N; i++) scales[i] = (uint16_t)(0x3F00 + i);
  sl_weight B = {W, scales, SL_F8_E4M3, SL_BF16, N, K};
  sl_op_args a = {.matmul_bt = {expected, A, &B, 1, 0, M, K, N}};
  sl_reference_rows(SL_OP_MATMUL_BT, &a, 0, M);
  a.matmul_bt.out = out;
  for (int threads = 1; threads <= 4; threads++) {
    sl_pool *pool;
    assert_int_equal(sl_pool_new(threads, &pool, NULL), SL_OK);
    unit_poison(out, M * N);
    run(pool, SL_OP_MATMUL_BT, SL_F8_E4M3, &a);
    assert_memory_equal(out, expected, sizeof out);
    sl_pool_free(pool);
  }
}

static void every_row_is_run_whatever_the_cut(void **state) {
  (void)state;
  static float x[100 * 8], out[100 * 8], acc[2 * 1000], in[3 * 1000];
  static const int32_t ids[3] = {1, 0, 1};
  static const float ones[3] = {1, 1, 1};
  for (int i = 0; i < 800; i++) x[i] = (float)i;
  for (int i = 0; i < 3000; i++) in[i] = (float)i;
  for (int threads = 1; threads <= 3; threads++) {
    sl_pool *pool;
    assert_int_equal(sl_pool_new(threads, &pool, NULL), SL_OK);
    for (int M = 0; M <= 100; M++) {
      unit_poison(out, 800);
      run(pool, SL_OP_SCALE, SL_F32, &(sl_op_args){.scale = {out, x, 2, M, 8}});
      for (int i = 0; i < 800; i++) assert_true(i < 8 * M ? out[i] == 2.0f * (float)i : isnan(out[i]));
    }
    memset(acc, 0, sizeof acc);
    run(pool, SL_OP_SCATTER_ADD_ROWS, SL_F32, &(sl_op_args){.scatter_add_rows = {acc, in, ids, ones, 3, 1000, 2}});
    for (int h = 0; h < 1000; h++) assert_true(acc[h] == in[1000 + h] && acc[1000 + h] == in[h] + in[2000 + h]);
    sl_pool_free(pool);
  }
}

static void weights_cut_short_on_disk_end_the_call_with_a_sentence(void **state) {
  (void)state;
  char path[] = "/tmp/sluice-test-XXXXXX";
  int fd = mkstemp(path), mapped;
  const void *base;
  uint64_t size;
  long page = sysconf(_SC_PAGESIZE);
  assert_int_equal(sl_fault_install(NULL), SL_OK);
  assert_int_equal(ftruncate(fd, 4 * page), 0);
  assert_int_equal(sl_file_map(path, &mapped, &base, &size, NULL), SL_OK);
  assert_int_equal(ftruncate(fd, page), 0);
  float *A = calloc((size_t)page, sizeof *A), out[4];
  sl_weight B = {base, NULL, SL_F8_E4M3, SL_F32, 4, (int)page};
  sl_op_args a = {.matmul_bt = {out, A, &B, 1, 0, 1, page, 4}};
  const sl_kernel *k =
      sl_kernel_find(backend("cpu-reference"), &(sl_op_sig){.op = SL_OP_MATMUL_BT, .dtype = SL_F8_E4M3}, NULL);
  sl_error err = {0};
  sl_pool *pool;
  assert_int_equal(sl_pool_new(2, &pool, NULL), SL_OK);
  sl_ctx ctx = {.pool = pool, .err = &err};
  assert_int_equal(k->run(&ctx, &a), SL_ERR_IO);
  assert_memory_equal(err.text, path, strlen(path));
  assert_non_null(strstr(err.text, "cannot be read at byte"));
  B.N = 1;
  assert_int_equal(k->run(&ctx, &a), SL_OK); /* the first row is still there */
  sl_pool_free(pool);
  free(A);
  sl_file_unmap(mapped, base, size);
  close(fd);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_first_row_that_fits_wins),
      cmocka_unit_test(the_four_refusals_read_differently),
      cmocka_unit_test(out_of_range_names_what_does_not_fit),
      cmocka_unit_test(nonsense_is_not_written),
      cmocka_unit_test(reasons_have_names),
      cmocka_unit_test(the_reference_has_every_operation),
      cmocka_unit_test(every_backend_answers_for_every_operation),
      cmocka_unit_test(arms_end_with_the_reference),
      cmocka_unit_test(unknown_arms_are_refused),
      cmocka_unit_test(matmul_bt_is_the_same_for_any_number_of_threads),
      cmocka_unit_test(every_row_is_run_whatever_the_cut),
      cmocka_unit_test(weights_cut_short_on_disk_end_the_call_with_a_sentence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
