/* What every unit test includes: cmocka, and small helpers. */
#ifndef SL_TESTS_UNIT_H
#define SL_TESTS_UNIT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A small deterministic generator (xorshift64*), so that a failing test fails again. */
typedef struct unit_random {
  uint64_t state;
} unit_random;

static inline uint64_t unit_next(unit_random *r) {
  if (!r->state) r->state = 0x9E3779B97F4A7C15u;
  r->state ^= r->state >> 12;
  r->state ^= r->state << 25;
  r->state ^= r->state >> 27;
  return r->state * 0x2545F4914F6CDD1Du;
}

/* Uniform in [-1, 1). */
static inline float unit_float(unit_random *r) { return (float)((double)(unit_next(r) >> 11) * 0x1p-52 - 1.0); }

/* Fills with NaN, so that an output that nobody wrote is seen. */
static inline void unit_poison(float *x, size_t n) {
  for (size_t i = 0; i < n; i++) x[i] = NAN;
}

#endif
