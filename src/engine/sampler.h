/* Chooses the next token from logits. */
#ifndef SL_ENGINE_SAMPLER_H
#define SL_ENGINE_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "sluice/sluice.h"

typedef struct sl_sampler sl_sampler;

/* Holds work space for a vocabulary of V. */
sl_status sl_sampler_new(int V, uint64_t seed, sl_sampler **out, sl_error *err);
void sl_sampler_free(sl_sampler *sampler);
/* Starts the seed again. */
void sl_sampler_reset(sl_sampler *sampler, uint64_t seed);

/* Temperature 0: the largest logit, the lowest id among equals.  Else, in this order: logits / temperature, the top_k
 * largest (lowest ids among equals), of these the fewest most likely whose probabilities sum to top_p, of these the
 * ones at least min_p times as likely as the first, and one of those by its probability.  suppressed: ids that never
 * are.  logits: [V], finite. */
int32_t sl_sampler_next(sl_sampler *sampler, const float *logits, const sl_sampling *sampling,
                        const int32_t *suppressed, int n_suppressed);

#endif
