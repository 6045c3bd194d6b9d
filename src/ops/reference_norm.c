#include <math.h>

#include "ops/reference_parts.h"

/* 1 / sqrt(mean(x^2) + eps) */
static double inverse_rms(const float *x, int H, float eps) {
  double sum = 0.0;
  for (int i = 0; i < H; i++) sum += (double)x[i] * x[i];
  return 1.0 / sqrt(sum / H + eps);
}

void sl_ref_rms_norm(const sl_rms_norm_args *a, int first, int end) {
  for (int m = first; m < end; m++) {
    const float *x = a->x + (int64_t)m * a->H;
    float *out = a->out + (int64_t)m * a->H;
    double r = inverse_rms(x, a->H, a->eps);
    for (int i = 0; i < a->H; i++) out[i] = (float)(x[i] * r * (a->w ? a->w[i] : 1.0));
  }
}

void sl_ref_rms_norm_add(const sl_rms_norm_args *a, int first, int end) {
  for (int m = first; m < end; m++) {
    const float *x = a->x + (int64_t)m * a->H, *residual = a->residual + (int64_t)m * a->H;
    float *out = a->out + (int64_t)m * a->H;
    double r = inverse_rms(x, a->H, a->eps);
    for (int i = 0; i < a->H; i++) out[i] = (float)(x[i] * r * (a->w ? a->w[i] : 1.0) + residual[i]);
  }
}

static double weight_at(const float *w, int i) { return w ? w[i] : 1.0; }

/* The middle is computed twice (once for its mean, once for the output) rather than stored. */
static void dual_row(const sl_dual_rms_norm_add_args *a, int64_t at) {
  const float *x1 = a->x1 + at, *x2 = a->x2 + at, *residual = a->residual + at;
  double r1 = inverse_rms(x1, a->H, a->eps), r2 = inverse_rms(x2, a->H, a->eps), sum = 0.0;
  for (int i = 0; i < a->H; i++) {
    double y = x1[i] * r1 * weight_at(a->w1, i) + x2[i] * r2 * weight_at(a->w2, i);
    sum += y * y;
  }
  double r3 = 1.0 / sqrt(sum / a->H + a->eps);
  for (int i = 0; i < a->H; i++) {
    double y = x1[i] * r1 * weight_at(a->w1, i) + x2[i] * r2 * weight_at(a->w2, i);
    a->out[at + i] = (float)(y * r3 * weight_at(a->w3, i) + residual[i]);
  }
}

void sl_ref_dual_rms_norm_add(const sl_dual_rms_norm_add_args *a, int first, int end) {
  for (int m = first; m < end; m++) dual_row(a, (int64_t)m * a->H);
}

double sl_ref_activation(sl_activation act, double x) {
  if (act == SL_SILU) return x / (1.0 + exp(-x));
  return 0.5 * x * (1.0 + tanh(sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

void sl_ref_glu(sl_activation act, const sl_glu_args *a, int first, int end) {
  for (int64_t m = first; m < end; m++) {
    const float *gate = a->gate + m * a->ldg, *up = a->up + m * a->ldu;
    float *out = a->out + m * a->ldo;
    for (int i = 0; i < a->I; i++) out[i] = (float)(sl_ref_activation(act, gate[i]) * up[i]);
  }
}

static bool is_taken(const int32_t *ids, int n, int id) {
  for (int j = 0; j < n; j++)
    if (ids[j] == id) return true;
  return false;
}

/* The largest logit that is not taken yet, the lowest id among equals. */
static int best_left(const float *logits, int E, const int32_t *ids, int n) {
  int best = -1;
  for (int e = 0; e < E; e++) {
    if (is_taken(ids, n, e)) continue;
    if (best < 0 || logits[e] > logits[best]) best = e;
  }
  return best;
}

static void route_row(const sl_route_topk_args *a, int64_t m) {
  const float *logits = a->logits + m * a->E;
  int32_t *ids = a->ids + m * a->top_k;
  float *weights = a->weights + m * a->top_k;
  double largest = logits[0], sum = 0.0, chosen = 0.0;
  for (int e = 1; e < a->E; e++) largest = fmax(largest, logits[e]);
  for (int e = 0; e < a->E; e++) sum += exp(logits[e] - largest); /* a NaN makes the sum NaN */
  for (int j = 0; j < a->top_k; j++) {
    ids[j] = a->imposed ? a->imposed[m * a->top_k + j] : best_left(logits, a->E, ids, j);
    chosen += exp(logits[ids[j]] - largest) / sum;
  }
  for (int j = 0; j < a->top_k; j++) {
    double p = exp(logits[ids[j]] - largest) / sum;
    if (a->renormalize) p /= chosen;
    weights[j] = (float)(p * weight_at(a->per_expert_scale, ids[j]));
  }
}

void sl_ref_route_topk(const sl_route_topk_args *a, int first, int end) {
  for (int m = first; m < end; m++) route_row(a, m);
}
