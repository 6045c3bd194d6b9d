#include "experts/store.h"

#include <math.h>
#include <stdlib.h>

struct sl_expert_store {
  int n_layers, n_experts;
  sl_expert *experts;      /* [n_layers][n_experts] */
  const char *(*names)[3]; /* the same */
  unsigned char *checked;  /* the same: multipliers seen to be finite */
};

sl_status sl_expert_store_new(int n_layers, int n_experts, sl_expert_store **out, sl_error *err) {
  sl_expert_store *store = calloc(1, sizeof *store);
  size_t n = (size_t)n_layers * (size_t)n_experts;
  if (store) {
    store->n_layers = n_layers;
    store->n_experts = n_experts;
    store->experts = calloc(n + 1, sizeof *store->experts);
    store->names = calloc(n + 1, sizeof *store->names);
    store->checked = calloc(n + 1, 1);
  }
  if (!store || !store->experts || !store->names || !store->checked) {
    sl_expert_store_free(store);
    return sl_fail(err, SL_ERR_MEMORY, "experts: no memory for a table of %zu experts", n);
  }
  *out = store;
  return SL_OK;
}

void sl_expert_store_free(sl_expert_store *store) {
  if (!store) return;
  free(store->experts);
  free(store->names);
  free(store->checked);
  free(store);
}

static size_t slot(const sl_expert_store *store, int layer, int expert) {
  return (size_t)layer * (size_t)store->n_experts + (size_t)expert;
}

void sl_expert_store_set(sl_expert_store *store, int layer, int expert, const sl_expert *weights,
                         const char *const names[3]) {
  size_t at = slot(store, layer, expert);
  store->experts[at] = *weights;
  for (int i = 0; i < 3; i++) store->names[at][i] = names[i];
}

int sl_weight_bad_scale(const sl_weight *weight) {
  if (!weight->scale) return -1;
  for (int n = 0; n < weight->N; n++)
    if (!isfinite(sl_weight_scale(weight, n))) return n;
  return -1;
}

static sl_status check(sl_expert_store *store, int layer, int expert, sl_error *err) {
  size_t at = slot(store, layer, expert);
  const sl_expert *e = &store->experts[at];
  const sl_weight *matrices[3] = {&e->gate, &e->up, &e->down};
  for (int i = 0; i < 3; i++) {
    int row = sl_weight_bad_scale(matrices[i]);
    if (row >= 0)
      return sl_fail(err, SL_ERR_NOT_FINITE, "%s: scale of row %d is %g, expected a finite number", store->names[at][i],
                     row, (double)sl_weight_scale(matrices[i], row));
  }
  store->checked[at] = 1;
  return SL_OK;
}

sl_status sl_expert_store_acquire(sl_expert_store *store, int layer, const int32_t *ids, int n,
                                  const sl_expert **experts, sl_error *err) {
  for (int i = 0; i < n; i++)
    if (!store->checked[slot(store, layer, ids[i])]) SL_TRY(check(store, layer, ids[i], err));
  *experts = store->experts + slot(store, layer, 0);
  return SL_OK;
}

const sl_expert *sl_expert_store_peek(const sl_expert_store *store, int layer) {
  return store->experts + slot(store, layer, 0);
}

const char *sl_expert_store_name(const sl_expert_store *store, int layer, int expert, int matrix) {
  return store->names[slot(store, layer, expert)][matrix];
}
