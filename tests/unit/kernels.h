/* Running one kernel of one instruction set, for the tests of the CPU's kernels. */
#ifndef SL_TESTS_KERNELS_H
#define SL_TESTS_KERNELS_H

#include <stdio.h>

#include "backend/backend.h"
#include "ops/reference.h"
#include "unit/unit.h"

/* Calls `test` with each fast backend that runs here; says so in capitals where one does not. */
static inline void each_fast_backend(void (*test)(const sl_backend *backend)) {
  int n;
  const sl_backend *const *all = sl_backends(&n);
  for (int i = 0; i < n; i++) {
    const sl_backend *b = all[i];
    if (strcmp(b->name, "cpu-avx512") != 0 && strcmp(b->name, "cpu-avx2") != 0) continue;
    const char *missing = b->missing ? b->missing() : NULL;
    if (b->not_compiled || missing)
      print_message("SKIPPED ON %s: NOT HERE (%s)\n", b->name, missing ? missing : b->not_compiled);
    else
      test(b);
  }
}

/* Finds the kernel, checks the arguments, and runs it with n_threads and exactly the scratch that it asks for. */
static inline sl_status run_op(const sl_backend *backend, const sl_op_sig *sig, const sl_op_args *args, int M,
                               int n_threads) {
  sl_refusal why = {0};
  sl_error err = {0};
  const sl_kernel *kernel = sl_kernel_find(backend, sig, &why);
  if (!kernel) print_error("%s\n", why.detail);
  assert_non_null(kernel);
  sl_status status = sl_op_check(sig->op, args, &err);
  if (status != SL_OK) return status;
  sl_ctx ctx = {.err = &err};
  assert_int_equal(sl_pool_new(n_threads, &ctx.pool, &err), SL_OK);
  ctx.scratch_size = kernel->scratch ? kernel->scratch(sig, M, n_threads) : 0;
  ctx.scratch = ctx.scratch_size ? aligned_alloc(64, (ctx.scratch_size + 63) / 64 * 64) : NULL;
  if (ctx.scratch) memset(ctx.scratch, 0xFF, ctx.scratch_size); /* NaN: contents are undefined */
  status = kernel->run(&ctx, args);
  sl_pool_free(ctx.pool);
  free(ctx.scratch);
  return status;
}

static inline float *random_floats(unit_random *r, size_t n, float magnitude) {
  float *x = malloc((n ? n : 1) * sizeof *x);
  assert_non_null(x);
  for (size_t i = 0; i < n; i++) x[i] = magnitude * unit_float(r);
  return x;
}

static inline float *poisoned(size_t n) {
  float *x = malloc((n ? n : 1) * sizeof *x);
  assert_non_null(x);
  unit_poison(x, n);
  return x;
}

#endif
