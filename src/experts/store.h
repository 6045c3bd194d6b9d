/* Where the experts of a model are: per layer, per expert, three matrices.
 *
 * Today every expert lies in its mapped file, the first and only tier; `acquire` is the place where a slot will be
 * filled and pinned when experts stream.  It already answers for what it hands out: an expert's row multipliers are
 * checked for NaN and infinity when it is first used, since checking all of them at open would read the whole file. */
#ifndef SL_EXPERTS_STORE_H
#define SL_EXPERTS_STORE_H

#include <stdbool.h>

#include "base/status.h"
#include "tensor/weight.h"

typedef struct sl_expert_store sl_expert_store;

/* n_layers counts only layers that have experts. */
sl_status sl_expert_store_new(int n_layers, int n_experts, sl_expert_store **out, sl_error *err);
void sl_expert_store_free(sl_expert_store *store);

/* Names one expert's matrices: `names` are the tensors behind gate, up and down, for sentences (not copied: they live
 * as long as the checkpoint). */
void sl_expert_store_set(sl_expert_store *store, int layer, int expert, const sl_expert *weights,
                         const char *const names[3]);

/* Makes the experts named in ids[0..n-1] (repeats allowed) ready.  Returns in *experts the layer's array, indexed by
 * expert, of which only those entries may be read, until the step's end.  SL_ERR_NOT_FINITE names tensor and row. */
sl_status sl_expert_store_acquire(sl_expert_store *store, int layer, const int32_t *ids, int n,
                                  const sl_expert **experts, sl_error *err);

/* For reports: the layer's experts without any check. */
const sl_expert *sl_expert_store_peek(const sl_expert_store *store, int layer);
const char *sl_expert_store_name(const sl_expert_store *store, int layer, int expert, int matrix);

/* First row whose multiplier is NaN or infinite, or -1. */
int sl_weight_bad_scale(const sl_weight *weight);

#endif
