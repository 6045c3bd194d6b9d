/* The header of a safetensors file: whatever it says, a table that keeps its rules or a sentence. */
#include <stdlib.h>
#include <string.h>

#include "weights/checkpoint.h"

#define DATA_SIZE 64

/* What the rest of the engine relies on. */
static void check(const sl_tensor *tensors, int n) {
  uint64_t total = 0;
  for (int i = 0; i < n; i++) {
    const sl_tensor *t = &tensors[i];
    if (!t->name || !t->name[0] || !t->dtype_name || t->n_dims < 0 || t->n_dims > SL_MAX_DIMS) abort();
    if (t->offset > DATA_SIZE || t->bytes > DATA_SIZE - t->offset) abort();
    uint64_t elements = 1;
    for (int d = 0; d < t->n_dims; d++) {
      if (t->shape[d] < 0) abort();
      elements *= (uint64_t)t->shape[d];
    }
    if (t->dtype != SL_N_DTYPES && elements * sl_dtype_size(t->dtype) != t->bytes) abort();
    total += t->bytes;
  }
  if (total != DATA_SIZE) abort(); /* no overlaps and no holes */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  sl_tensor *tensors = NULL;
  int n = 0;
  sl_error err = {.status = SL_OK};
  sl_status status = sl_safetensors_parse((const char *)data, size, DATA_SIZE, "fuzz", &tensors, &n, &err);
  if (status == SL_OK) {
    check(tensors, n);
    sl_tensors_free(tensors, n);
  } else if (err.status != status || !memchr(err.text, 0, sizeof err.text) || !err.text[0]) {
    abort();
  }
  return 0;
}
