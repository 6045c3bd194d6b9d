/* What the tests of the reference share. */
#ifndef SL_TESTS_OPS_H
#define SL_TESTS_OPS_H

#include "unit.h"

#include "ops/reference.h"

typedef long double real;

static inline void run(sl_op op, const sl_op_args *args) {
  sl_error err = {0};
  if (sl_op_check(op, args, &err) != SL_OK) fail_msg("%s", err.text);
  sl_reference_rows(op, args, 0, sl_reference_n_rows(op, args));
}

static inline void fill(float *x, int n, uint64_t seed) {
  unit_random r = {seed};
  for (int i = 0; i < n; i++) x[i] = unit_float(&r);
}

/* Within one place of f32 (the reference rounds once). */
static inline void assert_close(float found, real expected) {
  real error = fabsl((real)found - expected), allowed = fabsl(expected) * 0x1p-23L + 0x1p-140L;
  if (!(error <= allowed)) fail_msg("found %.9g, expected %.9Lg", (double)found, expected);
}

static inline void assert_refused(sl_op op, const sl_op_args *args, const char *sentence) {
  sl_error err = {0};
  assert_int_equal(sl_op_check(op, args, &err), SL_ERR_ARGUMENT);
  assert_string_equal(err.text, sentence);
  assert_int_equal(sl_op_check(op, args, NULL), SL_ERR_ARGUMENT);
}

static inline real gelu_tanh(real x) {
  return 0.5L * x * (1 + tanhl(sqrtl(2 / 3.141592653589793238462643383279L) * (x + 0.044715L * x * x * x)));
}

static inline real silu(real x) { return x / (1 + expl(-x)); }

#endif
