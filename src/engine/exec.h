/* Runs a planned program over a step: M tokens of one role, from one or many sessions.  One loop over the nodes. */
#ifndef SL_ENGINE_EXEC_H
#define SL_ENGINE_EXEC_H

#include "base/pool.h"
#include "model/plan.h"

/* Consecutive rows of a step that belong to one session. */
typedef struct sl_row_group {
  const sl_kv *kv; /* [program.n_kv] of the session */
  int first_row, n_rows, first_pos;
} sl_row_group;

typedef struct sl_step {
  sl_role role;
  int M;                    /* 1 .. plan->options.chunk */
  const int32_t *ids;       /* [M] */
  const int32_t *positions; /* [M] */
  const sl_row_group *groups;
  int n_groups;          /* at most M */
  const int32_t *wanted; /* rows whose logits are wanted, ascending */
  int n_wanted;
  /* Imposed experts: expert layer i of the model takes imposed + i * imposed_stride, [M, top_k]; NULL: none. */
  const int32_t *imposed;
  size_t imposed_stride;

  void *user;
  bool (*is_cancelled)(void *user); /* asked between two layers; may be NULL */
  /* May be NULL.  layer: -1 for the embedding.  x: [M, hidden]. */
  void (*on_hidden)(void *user, int layer, const float *x);
  void (*on_routes)(void *user, int layer, const int32_t *ids, const float *weights);
  /* Logits of wanted[first .. first+n-1]: [n, vocab]. */
  void (*on_logits)(void *user, int first, int n, const float *logits);
} sl_step;

typedef struct sl_exec {
  sl_plan *plan;
  sl_pool *pool;
  char *values;  /* plan->value_bytes */
  void *scratch; /* plan->scratch_bytes */
  float *inv_freq[SL_N_ROPES];
  sl_segment *segments;  /* [chunk] of the layer at hand */
  unsigned char *is_bad; /* [chunk] after a run: rows that had a value that is not finite */
  int n_bad;
} sl_exec;

/* Allocates everything that running needs; running allocates nothing. */
sl_status sl_exec_new(sl_plan *plan, sl_pool *pool, sl_exec **out, sl_error *err);
void sl_exec_free(sl_exec *exec);

/* SL_OK also when some rows were not finite: then n_bad > 0 and `err` holds a sentence that names the first layer and
 * operation that made them; the other rows are right.  SL_ERR_CANCELLED between two layers. */
sl_status sl_exec_run(sl_exec *exec, const sl_step *step, sl_error *err);

/* ---- for the files of this executor ---- */

float *sl_exec_value(const sl_exec *exec, int value);
sl_status sl_exec_call(sl_exec *exec, int arm, const sl_op_args *args, sl_error *err);
/* The grouped arm of an experts node. */
sl_status sl_exec_grouped(sl_exec *exec, const sl_step *step, const sl_node *node, const sl_grouped *arms,
                          const sl_expert *experts, sl_error *err);
/* Runs one node over the step's rows (M: rows of the body, or of this slice of the head). */
sl_status sl_exec_node(sl_exec *exec, const sl_step *step, int node, const int32_t *wanted, int M, sl_error *err);
/* Computes the step again, looking at every output, and writes the sentence that names the culprit. */
void sl_exec_diagnose(sl_exec *exec, const sl_step *step, sl_error *err);
/* Seconds of the monotonic clock. */
double sl_now(void);
/* Whether all n numbers are finite. */
bool sl_all_finite(const float *x, size_t n);
/* Whether all n numbers stay finite in f16. */
bool sl_all_fit_f16(const float *x, size_t n);

#endif
