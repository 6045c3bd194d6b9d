/* Where a value that is not finite came from.  The usual run looks only at the end of the stream and at the logits;
 * when these are bad, the step is computed once more with a look at every output. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "engine/exec.h"

typedef struct search {
  const sl_weight *weight;
  int row, column; /* of the first element that is not finite; row -1: none */
  bool in_scale;
} search;

static void search_weight(void *arg) {
  search *s = arg;
  const sl_weight *w = s->weight;
  s->row = -1;
  for (int n = 0; n < w->N; n++) {
    if (!isfinite(sl_weight_scale(w, n))) {
      *s = (search){w, n, 0, true};
      return;
    }
    for (int k = 0; k < w->K; k++) {
      if (isfinite(sl_load(w->data, w->dtype, (int64_t)n * w->K + k))) continue;
      *s = (search){w, n, k, false};
      return;
    }
  }
}

/* Writes "; TENSOR[n,k] is nan" if the weight holds a number that is not finite. */
static bool blame(const sl_weight *weight, const char *name, char *out, size_t size) {
  search s = {.weight = weight};
  if (!sl_fault_run(search_weight, &s) || s.row < 0) return false;
  if (s.in_scale)
    snprintf(out, size, "; the scale of row %d of %s is %g", s.row, name, (double)sl_weight_scale(weight, s.row));
  else
    snprintf(out, size, "; %s[%d,%d] is %g", name, s.row, s.column,
             (double)sl_load(weight->data, weight->dtype, (int64_t)s.row * weight->K + s.column));
  return true;
}

static bool blame_experts(const sl_exec *exec, const sl_step *step, const sl_node *node, char *out, size_t size) {
  const sl_expert_store *store = exec->plan->model->experts;
  const sl_expert *experts = sl_expert_store_peek(store, node->experts);
  const int32_t *ids = (const int32_t *)(const void *)sl_exec_value(exec, node->in[1]);
  for (int i = 0; i < step->M * node->top_k; i++) {
    const sl_expert *e = &experts[ids[i]];
    const sl_weight *matrices[3] = {&e->gate, &e->up, &e->down};
    for (int k = 0; k < 3; k++)
      if (blame(matrices[k], sl_expert_store_name(store, node->experts, ids[i], k), out, size)) return true;
  }
  return false;
}

/* An embedding's culprit is in a row that was looked up, not in the whole table. */
static bool blame_embedding(const sl_step *step, const sl_matrix *m, char *out, size_t size) {
  for (int i = 0; i < step->M; i++) {
    sl_weight row = m->weight;
    row.data = (const char *)row.data + (size_t)step->ids[i] * sl_row_bytes(row.dtype, row.K);
    row.N = 1;
    row.scale = NULL;
    char name[300];
    snprintf(name, sizeof name, "%s row %d", m->tensor->name, step->ids[i]);
    if (blame(&row, name, out, size)) return true;
  }
  return false;
}

static void name_culprit(sl_exec *exec, const sl_step *step, const sl_node *node, int index, sl_error *err) {
  const sl_program *p = &exec->plan->model->program;
  char where[64] = "outside of the layers", why[400] = "";
  if (node->layer >= 0) snprintf(where, sizeof where, "layer %d", node->layer);
  if (node->is_experts)
    blame_experts(exec, step, node, why, sizeof why);
  else if (node->op == SL_OP_EMBED_ROWS)
    blame_embedding(step, &p->matrices[node->matrix], why, sizeof why);
  else if (node->op == SL_OP_KV_WRITE)
    snprintf(why, sizeof why, ": f16 holds numbers up to 65504, and f32 (option kv) more");
  else if (node->matrix >= 0)
    blame(&p->matrices[node->matrix].weight, p->matrices[node->matrix].tensor->name, why, sizeof why);
  int arm = exec->plan->nodes[index].arm[step->role];
  const char *kernel = arm >= 0 ? exec->plan->arms[arm].kernel->name : "grouped experts";
  sl_fail(err, SL_ERR_NOT_FINITE, "%s: %s (%s, kernel %s) made a value that is not finite%s", where, node->name,
          sl_op_name(node->op), kernel, why);
}

/* Whether keys or values become infinite in the cache. */
static bool is_kept_badly(const sl_exec *exec, const sl_node *node, int M) {
  if (exec->plan->options.kv_dtype != SL_F16) return false;
  for (int i = 0; i < 2; i++) {
    size_t W = (size_t)exec->plan->model->program.values[node->in[i]].width;
    if (!sl_all_fit_f16(sl_exec_value(exec, node->in[i]), (size_t)M * W)) return true;
  }
  return false;
}

/* True if the node's output is bad; that of kv_write is in the cache. */
static bool is_bad(const sl_exec *exec, const sl_node *node, int M) {
  if (node->op == SL_OP_KV_WRITE) return is_kept_badly(exec, node, M);
  if (node->out[0] < 0 || node->op == SL_OP_ROUTE_TOPK) return false;
  size_t n = (size_t)M * (size_t)sl_node_width(&exec->plan->model->program, node);
  return !sl_all_finite(sl_exec_value(exec, node->out[0]), n);
}

void sl_exec_diagnose(sl_exec *exec, const sl_step *step, sl_error *err) {
  const sl_program *p = &exec->plan->model->program;
  sl_fail(err, SL_ERR_NOT_FINITE, "a computed value is not finite");
  for (int i = 0; i < p->head_start; i++) {
    if (sl_exec_node(exec, step, i, NULL, step->M, err) != SL_OK) return;
    if (is_bad(exec, &p->nodes[i], step->M)) {
      name_culprit(exec, step, &p->nodes[i], i, err);
      return;
    }
  }
  for (int w = 0; w < step->n_wanted; w++) {
    for (int i = p->head_start; i < p->n_nodes; i++) {
      if (sl_exec_node(exec, step, i, step->wanted + w, 1, err) != SL_OK) return;
      if (!is_bad(exec, &p->nodes[i], 1)) continue;
      name_culprit(exec, step, &p->nodes[i], i, err);
      return;
    }
  }
}
