/* What will run where, and what memory it takes: decided once, when a model is opened, before anything is allocated.
 *
 * For every node and role the plan holds a kernel that exists.  The arms are tried in order (the best instruction set
 * first, the reference last), and the reference has every operation, so the list is never empty. */
#ifndef SL_MODEL_PLAN_H
#define SL_MODEL_PLAN_H

#include <jansson.h>

#include "backend/backend.h"
#include "backend/limits.h"
#include "model/model.h"

typedef struct sl_plan_options {
  int threads, chunk, ctx;
  sl_math math;
  sl_dtype kv_dtype;
  const char *kernels;                     /* "auto", ...: for the report */
  const sl_backend *backends[SL_MAX_ARMS]; /* tried in order; the last one has every operation */
  int n_backends;
} sl_plan_options;

typedef struct sl_arm {
  const sl_kernel *kernel;
  uint64_t runs;
  double seconds; /* in all of them */
} sl_arm;

/* Routed experts without a fused kernel: tokens are gathered by expert, and each expert computes its rows. */
typedef struct sl_grouped {
  int zero, gather, gate, down, act, scatter; /* indices into arms */
} sl_grouped;

typedef struct sl_node_plan {
  int arm[SL_N_ROLES]; /* index into arms; SL_NONE for experts that run grouped in this role */
  sl_grouped grouped[SL_N_ROLES];
} sl_node_plan;

typedef struct sl_plan {
  const sl_model *model;
  sl_plan_options options;
  sl_arm *arms; /* the distinct kernels in use */
  int n_arms;
  sl_node_plan *nodes;                     /* [n_nodes] */
  int head_rows;                           /* positions whose logits are computed at once */
  size_t value_bytes;                      /* memory of all values, head included */
  size_t expert_rows_offset, expert_bytes; /* workspace of grouped experts, inside value memory */
  size_t scratch_bytes;                    /* the largest that any kernel asks for */
  uint64_t kv_bytes;                       /* of one session */
  uint64_t token_matrix_bytes, token_expert_bytes, token_kv_bytes; /* read for one generated token, KV at full ctx */
  uint64_t token_flops;                                            /* for one token, attention left out */
} sl_plan;

/* Resolves everything; sets values' offsets in model->program.  The model must outlive the plan. */
sl_status sl_plan_make(sl_model *model, const sl_plan_options *options, sl_plan **out, sl_error *err);
void sl_plan_free(sl_plan *plan);

/* Slots of one session's KV for this spec: all positions, or a ring for sliding layers; a multiple of SL_KV_BLOCK. */
int sl_plan_kv_capacity(const sl_plan *plan, const sl_kv_spec *spec);
uint64_t sl_plan_kv_bytes(const sl_plan *plan, const sl_kv_spec *spec);

/* All memory: weights, vectors, KV of one session, values, scratch, and what is passed as `other`. */
uint64_t sl_plan_total_bytes(const sl_plan *plan, uint64_t other);

/* The report behind `sluice plan`.  limits: measured, or NULL for none (then no speeds are expected). */
sl_status sl_plan_json(const sl_plan *plan, uint64_t tokenizer_bytes, uint64_t other_bytes, const sl_limits *limits,
                       json_t **out, sl_error *err);

#endif
