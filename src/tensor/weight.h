/* A weight matrix as it lies in the checkpoint: nothing is copied or converted. */
#ifndef SL_TENSOR_WEIGHT_H
#define SL_TENSOR_WEIGHT_H

#include "tensor/dtype.h"

typedef struct sl_weight {
  const void *data;     /* [N,K] row-major, at any alignment; NULL while only planned */
  const void *scale;    /* [N] one multiplier per row, or NULL: W[n,k] = scale[n] * data[n,k] */
  sl_dtype dtype;       /* of data */
  sl_dtype scale_dtype; /* of scale: F32, F16 or BF16 */
  int N, K;
} sl_weight;

/* The multiplier of row n: 1 where there is none. */
static inline float sl_weight_scale(const sl_weight *w, int n) {
  return w->scale ? sl_load(w->scale, w->scale_dtype, n) : 1.0f;
}

/* Bytes that the matrix and its multipliers take in their file. */
static inline uint64_t sl_weight_bytes(const sl_weight *w) {
  return (uint64_t)w->N * (sl_row_bytes(w->dtype, w->K) + (w->scale ? sl_dtype_size(w->scale_dtype) : 0));
}

/* One expert: out = down * (act(gate x) * (up x)).  gate, up: [I,H]; down: [H,I]. */
typedef struct sl_expert {
  sl_weight gate, up, down;
} sl_expert;

#endif
