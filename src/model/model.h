/* An open model: checkpoint, config, program, and where every weight is. */
#ifndef SL_MODEL_MODEL_H
#define SL_MODEL_MODEL_H

#include "experts/store.h"
#include "model/builder.h"
#include "model/config.h"
#include "model/program.h"

/* Tensors that the text model leaves alone, by the beginning of their names. */
typedef struct sl_skip {
  const char *prefix, *why;
  int n_tensors;
  uint64_t bytes;
} sl_skip;
#define SL_MAX_SKIPS 16

typedef struct sl_model {
  sl_checkpoint *checkpoint;
  sl_model_config config;
  sl_program program;
  sl_expert_store *experts;
  unsigned char *used; /* [checkpoint->n_tensors], as in builder.h */
  sl_skip skips[SL_MAX_SKIPS];
  int n_skips;
  uint64_t matrix_bytes; /* stored bytes of matrices outside the experts, scales included */
  uint64_t expert_bytes; /* of all experts */
  uint64_t vector_bytes; /* of the expanded vectors, f32 */
} sl_model;

/* Opens a checkpoint folder and writes its program.  Reads no weights.  Every tensor is accounted for: one that
 * nobody uses, that is missing, or that has another shape or dtype than the config implies, is an error that names
 * it. */
sl_status sl_model_open(const char *path, sl_model **out, sl_error *err);
void sl_model_free(sl_model *model);

typedef void (*sl_model_progress)(void *user, uint64_t done, uint64_t total);

/* Expands the vectors and brings weights into memory: all of them if they fit into `memory` bytes, else all but the
 * experts (*all_resident tells).  Values of vectors and of row multipliers outside the experts are checked: NaN or
 * infinity is SL_ERR_NOT_FINITE and names tensor and index.  A file that cannot be read is SL_ERR_IO. */
sl_status sl_model_load(sl_model *model, uint64_t memory, sl_model_progress progress, void *user, bool *all_resident,
                        sl_error *err);

/* The families.  Each writes its program top to bottom; the builder holds the first failure. */
void sl_gemma4_program(sl_builder *b, const sl_model_config *c);
void sl_gemma3_program(sl_builder *b, const sl_model_config *c);

#endif
