/* Functions over the small vector type; include simd_avx512.h or simd_avx2.h first.  The polynomials are minimax fits
 * made for this file (iteratively reweighted least squares). */
#ifndef SL_CPU_SIMD_MATH_H
#define SL_CPU_SIMD_MATH_H

#include <math.h>

/* e^x, relative error below 2e-7 where the result is an ordinary number; inf above 88.73, 0 below -103.98, NaN of
 * NaN.  x = n ln 2 + r with |r| <= ln(2)/2, e^r by a polynomial of degree 6. */
static inline vf vf_exp(vf x) {
  /* The constant comes first, since min and max return the second of a NaN pair. */
  x = vf_max(vf_set1(-104.0f), vf_min(vf_set1(89.0f), x));
  vf n = vf_round(vf_mul(x, vf_set1(0x1.715476p+0f)));
  vf r = vf_fnma(n, vf_set1(0x1.62e400p-1f), x); /* ln 2 in two parts; n times the first is exact */
  r = vf_fnma(n, vf_set1(0x1.7f7d1cp-20f), r);
  vf q = vf_set1(0x1.6a24d8p-10f);
  q = vf_fma(q, r, vf_set1(0x1.123a5cp-7f));
  q = vf_fma(q, r, vf_set1(0x1.5558f2p-5f));
  q = vf_fma(q, r, vf_set1(0x1.555490p-3f));
  q = vf_fma(q, r, vf_set1(0x1.fffffcp-2f));
  vf p = vf_add(vf_fma(vf_mul(r, r), q, r), vf_set1(1.0f));
  return vf_scale2(p, n);
}

/* tanh x.  Near zero by an odd polynomial, where 1 - 2/(e^2x + 1) would cancel. */
static inline vf vf_tanh(vf x) {
  vf one = vf_set1(1.0f), z = vf_abs(x), t = vf_mul(x, x);
  vf far = vf_sub(one, vf_div(vf_set1(2.0f), vf_add(vf_exp(vf_add(z, z)), one)));
  vf q = vf_set1(-0x1.9bc2d4p-8f);
  q = vf_fma(q, t, vf_set1(0x1.59582cp-6f));
  q = vf_fma(q, t, vf_set1(-0x1.b92bf4p-5f));
  q = vf_fma(q, t, vf_set1(0x1.110d3cp-3f));
  q = vf_fma(q, t, vf_set1(-0x1.55554cp-2f));
  vf near = vf_fma(vf_mul(z, t), q, z);
  return vf_with_sign(vf_if_less(z, vf_set1(0.55f), near, far), x);
}

/* x / (1 + e^-u): x times the logistic function. */
static inline vf vf_gate(vf x, vf minus_u) { return vf_div(x, vf_add(vf_set1(1.0f), vf_exp(minus_u))); }

static inline vf vf_silu(vf x) { return vf_gate(x, vf_sub(vf_zero(), x)); }

/* 0.5 x (1 + tanh(w)) = x / (1 + e^-2w), w = sqrt(2/pi) (x + 0.044715 x^3); nothing cancels in the second form. */
static inline vf vf_gelu(vf x) {
  vf c = vf_fma(vf_mul(x, x), vf_set1(-0.071354814f), vf_set1(-1.5957691f));
  return vf_gate(x, vf_mul(x, c));
}

#endif
