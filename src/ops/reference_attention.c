#include <math.h>

#include "ops/reference_parts.h"

void sl_ref_rope(const sl_rope_args *a, int first, int end) {
  int half = a->head_dim / 2;
  for (int64_t m = first; m < end; m++) {
    for (int h = 0; h < a->n_heads; h++) {
      float *x = a->x + (m * a->n_heads + h) * a->head_dim;
      for (int i = 0; i < half; i++) {
        float angle = (float)a->positions[m] * a->inv_freq[i];
        double c = cos((double)angle), s = sin((double)angle), x0 = x[i], x1 = x[i + half];
        x[i] = (float)(x0 * c - x1 * s);
        x[i + half] = (float)(x1 * c + x0 * s);
      }
    }
  }
}

static const sl_segment *segment_of(const sl_segment *segments, int n, int row) {
  for (int s = 0; s < n; s++)
    if (row >= segments[s].first_row && row < segments[s].first_row + segments[s].n_rows) return &segments[s];
  return NULL;
}

/* Index of the first element of position `pos` in kv.k and kv.v. */
static int64_t slot_of(const sl_kv *kv, int head, int pos) {
  return ((int64_t)head * kv->capacity + pos % kv->capacity) * kv->head_dim;
}

static void store(void *data, sl_dtype dtype, int64_t i, float value) {
  if (dtype == SL_F32)
    ((float *)data)[i] = value;
  else
    ((uint16_t *)data)[i] = sl_f32_to_f16(value);
}

void sl_ref_kv_write(const sl_kv_write_args *a, int first, int end) {
  for (int m = first; m < end; m++) {
    const sl_segment *s = segment_of(a->segments, a->n_segments, m);
    if (!s) continue;
    const sl_kv *kv = &s->kv;
    for (int h = 0; h < kv->n_kv_heads; h++) {
      int64_t from = ((int64_t)m * kv->n_kv_heads + h) * kv->head_dim;
      int64_t to = slot_of(kv, h, s->first_pos + (m - s->first_row));
      for (int d = 0; d < kv->head_dim; d++) {
        store(kv->k, kv->dtype, to + d, a->k[from + d]);
        store(kv->v, kv->dtype, to + d, a->v[from + d]);
      }
    }
  }
}

static double score(const sl_attention_args *a, const float *q, const sl_kv *kv, int head, int pos) {
  int64_t at = slot_of(kv, head, pos);
  double sum = 0.0;
  for (int d = 0; d < a->head_dim; d++) sum += (double)q[d] * sl_load(kv->k, kv->dtype, at + d);
  return a->scale * sum;
}

/* One query head over positions [lowest, pos].  Scores are computed anew in each pass instead of being stored. */
static void attend(const sl_attention_args *a, float *out, const float *q, const sl_kv *kv, int head, int lowest,
                   int pos) {
  enum { PART = 512 };
  double largest = -INFINITY, sums[PART];
  for (int j = lowest; j <= pos; j++) largest = fmax(largest, score(a, q, kv, head, j));
  for (int d0 = 0; d0 < a->head_dim; d0 += PART) {
    int n = a->head_dim - d0 < PART ? a->head_dim - d0 : PART;
    double total = 0.0;
    for (int d = 0; d < n; d++) sums[d] = 0.0;
    for (int j = lowest; j <= pos; j++) {
      double p = exp(score(a, q, kv, head, j) - largest);
      int64_t at = slot_of(kv, head, j) + d0;
      for (int d = 0; d < n; d++) sums[d] += p * sl_load(kv->v, kv->dtype, at + d);
      total += p;
    }
    for (int d = 0; d < n; d++) out[d0 + d] = (float)(sums[d] / total);
  }
}

void sl_ref_attention(const sl_attention_args *a, int first, int end) {
  int group = a->n_heads / a->n_kv_heads;
  for (int m = first; m < end; m++) {
    const sl_segment *s = segment_of(a->segments, a->n_segments, m);
    if (!s) continue;
    int pos = s->first_pos + (m - s->first_row);
    int lowest = a->window > 0 && pos >= a->window ? pos - a->window + 1 : 0;
    for (int h = 0; h < a->n_heads; h++) {
      int64_t at = ((int64_t)m * a->n_heads + h) * a->head_dim;
      attend(a, a->out + at, a->q + at, &s->kv, h / group, lowest, pos);
    }
  }
}
