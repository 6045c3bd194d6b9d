/* The loop over the program. */
#include "engine/exec.h"

#include <string.h>

/* A key that became minus infinity in the cache would just never be looked at, and nobody would notice. */
static void check_kept(sl_exec *exec, const sl_node *node, int M) {
  if (exec->plan->options.kv_dtype != SL_F16) return;
  for (int i = 0; i < 2; i++) {
    size_t W = (size_t)exec->plan->model->program.values[node->in[i]].width;
    const float *x = sl_exec_value(exec, node->in[i]);
    for (int m = 0; m < M; m++) {
      if (exec->is_bad[m] || sl_all_fit_f16(x + (size_t)m * W, W)) continue;
      exec->is_bad[m] = 1;
      exec->n_bad++;
    }
  }
}

/* Rows of a checked node's output that are not finite; rows[i] is the row of the step behind row i (NULL: i). */
static void check_rows(sl_exec *exec, const sl_node *node, const int32_t *rows, int M) {
  int W = sl_node_width(&exec->plan->model->program, node);
  const float *x = sl_exec_value(exec, node->out[0]);
  for (int m = 0; m < M; m++) {
    int row = rows ? rows[m] : m;
    if (exec->is_bad[row] || sl_all_finite(x + (size_t)m * (size_t)W, (size_t)W)) continue;
    exec->is_bad[row] = 1;
    exec->n_bad++;
  }
}

static void observe(sl_exec *exec, const sl_step *step, const sl_node *node) {
  if (node->is_hidden && step->on_hidden) step->on_hidden(step->user, node->layer, sl_exec_value(exec, node->out[0]));
  if (node->op == SL_OP_ROUTE_TOPK && step->on_routes)
    step->on_routes(step->user, node->layer, (const int32_t *)(const void *)sl_exec_value(exec, node->out[0]),
                    sl_exec_value(exec, node->out[1]));
}

static sl_status run_body(sl_exec *exec, const sl_step *step, sl_error *err) {
  const sl_program *p = &exec->plan->model->program;
  for (int i = 0; i < p->head_start; i++) {
    const sl_node *node = &p->nodes[i];
    bool new_layer = i == 0 || node->layer != p->nodes[i - 1].layer;
    if (new_layer && step->is_cancelled && step->is_cancelled(step->user))
      return sl_fail(err, SL_ERR_CANCELLED, "cancelled before layer %d", node->layer < 0 ? 0 : node->layer);
    SL_TRY(sl_exec_node(exec, step, i, NULL, step->M, err));
    if (node->check_finite) check_rows(exec, node, NULL, step->M);
    if (node->op == SL_OP_KV_WRITE) check_kept(exec, node, step->M);
    observe(exec, step, node);
  }
  return SL_OK;
}

static sl_status run_head(sl_exec *exec, const sl_step *step, sl_error *err) {
  const sl_program *p = &exec->plan->model->program;
  for (int first = 0; first < step->n_wanted; first += exec->plan->head_rows) {
    int rest = step->n_wanted - first, n = rest < exec->plan->head_rows ? rest : exec->plan->head_rows;
    for (int i = p->head_start; i < p->n_nodes; i++) {
      SL_TRY(sl_exec_node(exec, step, i, step->wanted + first, n, err));
      if (p->nodes[i].check_finite) check_rows(exec, &p->nodes[i], step->wanted + first, n);
    }
    if (step->on_logits) step->on_logits(step->user, first, n, sl_exec_value(exec, p->logits));
  }
  return SL_OK;
}

sl_status sl_exec_run(sl_exec *exec, const sl_step *step, sl_error *err) {
  memset(exec->is_bad, 0, (size_t)step->M);
  exec->n_bad = 0;
  SL_TRY(run_body(exec, step, err));
  SL_TRY(run_head(exec, step, err));
  SL_TRY(sl_checkpoint_check(exec->plan->model->checkpoint, err));
  if (exec->n_bad) sl_exec_diagnose(exec, step, err);
  return SL_OK;
}
