#include "ops/reference_parts.h"

enum { CHUNK = 256, ROWS = 8, MIDDLE = 4096, OUTPUTS = 1024 };

/* sum + x . W[n, first .. first+count-1] without the row's multiplier, in the order of k. */
static double dot_more(double sum, const float *x, const sl_weight *W, int n, int first, int count) {
  float w[CHUNK];
  for (int k = 0; k < count; k += CHUNK) {
    int c = count - k < CHUNK ? count - k : CHUNK;
    sl_load_row(w, W->data, W->dtype, (int64_t)n * W->K + first + k, c);
    for (int i = 0; i < c; i++) sum += (double)x[k + i] * w[i];
  }
  return sum;
}

/* The same for up to ROWS rows of x, ldx floats apart, so that a weight is expanded once for all of them. */
static void dot_rows(double *sums, int rows, const float *x, int64_t ldx, const sl_weight *W, int n) {
  float w[CHUNK];
  for (int r = 0; r < rows; r++) sums[r] = 0.0;
  for (int k = 0; k < W->K; k += CHUNK) {
    int c = W->K - k < CHUNK ? W->K - k : CHUNK;
    sl_load_row(w, W->data, W->dtype, (int64_t)n * W->K + k, c);
    for (int r = 0; r < rows; r++) {
      const float *row = x + r * ldx + k;
      double sum = sums[r];
      for (int i = 0; i < c; i++) sum += (double)row[i] * w[i];
      sums[r] = sum;
    }
  }
}

void sl_ref_matmul_bt(const sl_matmul_bt_args *a, int first, int end) {
  const sl_weight *B = a->B;
  double sums[ROWS];
  for (int n = 0; n < B->N; n++) {
    double scale = B->K > 0 ? sl_weight_scale(B, n) : 1.0;
    for (int m = first; m < end; m += ROWS) {
      int rows = end - m < ROWS ? end - m : ROWS;
      dot_rows(sums, rows, B->K > 0 ? a->A + m * a->lda : a->A, a->lda, B, n);
      for (int r = 0; r < rows; r++) {
        float *out = a->out + (m + r) * a->ldo + n;
        double sum = a->alpha * (scale * sums[r]);
        if (a->beta != 0.0f) sum += (double)a->beta * *out;
        *out = (float)sum;
      }
    }
  }
}

void sl_ref_embed_rows(const sl_embed_rows_args *a, int first, int end) {
  const sl_weight *W = a->table;
  for (int m = first; m < end; m++) {
    int64_t row = a->ids[m];
    double scale = (double)a->scale * sl_weight_scale(W, (int)row);
    float *out = a->out + (int64_t)m * W->K;
    for (int k = 0; k < W->K; k++) out[k] = (float)(scale * sl_load(W->data, W->dtype, row * W->K + k));
  }
}

void sl_ref_dequant_rows(const sl_dequant_rows_args *a, int first, int end) {
  const sl_weight *W = a->W;
  for (int i = first; i < end; i++) {
    int64_t row = a->first + i, at = (int64_t)i * W->K;
    double scale = sl_weight_scale(W, (int)row);
    for (int k = 0; k < W->K; k++) {
      float value = (float)(scale * sl_load(W->data, W->dtype, row * W->K + k));
      if (a->out_dtype == SL_F32)
        ((float *)a->out)[at + k] = value;
      else
        ((uint16_t *)a->out)[at + k] = sl_f32_to_bf16(value);
    }
  }
}

/* middle[i] = act(gate x) * (up x) for i in [first, first+count): rounded where the grouped path (matmul_bt twice,
 * then geglu or swiglu) rounds, so that both give the same bits. */
static void middle_part(float *middle, const float *x, const sl_expert *e, sl_activation act, int first, int count) {
  for (int i = 0; i < count; i++) {
    int n = first + i;
    float gate = (float)(sl_weight_scale(&e->gate, n) * dot_more(0.0, x, &e->gate, n, 0, e->gate.K));
    float up = (float)(sl_weight_scale(&e->up, n) * dot_more(0.0, x, &e->up, n, 0, e->up.K));
    middle[i] = (float)(sl_ref_activation(act, gate) * up);
  }
}

/* out += weight * expert(x).  Without allocation: the middle lies on the stack in parts, and is computed anew for each
 * part of the outputs if it does not fit in one. */
static void add_expert(float *out, const float *x, const sl_expert *e, sl_activation act, float weight, int H, int I) {
  float middle[MIDDLE];
  double sums[OUTPUTS];
  for (int h0 = 0; h0 < H; h0 += OUTPUTS) {
    int n_out = H - h0 < OUTPUTS ? H - h0 : OUTPUTS;
    for (int h = 0; h < n_out; h++) sums[h] = 0.0;
    for (int i0 = 0; i0 < I; i0 += MIDDLE) {
      int n_mid = I - i0 < MIDDLE ? I - i0 : MIDDLE;
      if (I > MIDDLE || h0 == 0) middle_part(middle, x, e, act, i0, n_mid);
      for (int h = 0; h < n_out; h++) sums[h] = dot_more(sums[h], middle, &e->down, h0 + h, i0, n_mid);
    }
    for (int h = 0; h < n_out; h++) {
      float y = (float)(sl_weight_scale(&e->down, h0 + h) * sums[h]);
      out[h0 + h] = (float)(out[h0 + h] + (double)weight * y);
    }
  }
}

void sl_ref_expert_ffn(const sl_expert_ffn_args *a, int first, int end) {
  for (int m = first; m < end; m++) {
    float *out = a->out + (int64_t)m * a->H;
    const float *x = a->x + (int64_t)m * a->H;
    for (int h = 0; h < a->H; h++) out[h] = 0.0f;
    for (int j = 0; j < a->top_k; j++) {
      int64_t at = (int64_t)m * a->top_k + j;
      add_expert(out, x, &a->experts[a->ids[at]], a->act, a->weights[at], a->H, a->I);
    }
  }
}
