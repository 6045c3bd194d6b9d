/* Routed experts for many tokens: each expert's rows are gathered, computed together and added back.
 *
 * Experts are taken in ascending order, so a token's sum over its experts has one fixed order, whatever the other
 * tokens of the step chose. */
#include "engine/exec.h"

#include <string.h>

/* Where things lie in the workspace that the plan set aside. */
typedef struct workspace {
  float *x, *gate, *up, *y; /* [M,H] [M,I] [M,I] [M,H]: rows of one expert */
  int32_t *rows;            /* [M*top_k] rows of the step, grouped by expert */
  float *weights;           /* [M*top_k] likewise */
  int32_t *start;           /* [n_experts + 1] */
} workspace;

static char *take(char **at, size_t bytes) {
  char *here = *at;
  *at += (bytes + 63) / 64 * 64;
  return here;
}

static workspace find_workspace(const sl_exec *exec, int M, int H, int I, int top_k, int n_experts) {
  char *at = exec->values + exec->plan->expert_rows_offset;
  size_t m = (size_t)M, list = m * (size_t)top_k;
  workspace w;
  w.start = (int32_t *)(void *)take(&at, ((size_t)n_experts + 1) * sizeof(int32_t));
  w.rows = (int32_t *)(void *)take(&at, list * sizeof(int32_t));
  w.weights = (float *)(void *)take(&at, list * sizeof(float));
  w.x = (float *)(void *)take(&at, m * (size_t)H * sizeof(float));
  w.gate = (float *)(void *)take(&at, m * (size_t)I * sizeof(float));
  w.up = (float *)(void *)take(&at, m * (size_t)I * sizeof(float));
  w.y = (float *)(void *)take(&at, m * (size_t)H * sizeof(float));
  return w;
}

/* Counting sort of the (token, choice) pairs by expert; tokens stay in order within an expert. */
static void group_by_expert(workspace *w, const int32_t *ids, const float *weights, int M, int top_k, int n_experts) {
  memset(w->start, 0, ((size_t)n_experts + 1) * sizeof *w->start);
  for (int i = 0; i < M * top_k; i++) w->start[ids[i] + 1]++;
  for (int e = 0; e < n_experts; e++) w->start[e + 1] += w->start[e];
  for (int i = 0; i < M * top_k; i++) {
    int at = w->start[ids[i]]++;
    w->rows[at] = i / top_k;
    w->weights[at] = weights[i];
  }
  memmove(w->start + 1, w->start, (size_t)n_experts * sizeof *w->start);
  w->start[0] = 0;
}

static sl_status matmul(sl_exec *exec, int arm, float *out, const float *A, const sl_weight *B, int M, sl_error *err) {
  sl_op_args args = {.matmul_bt = {.out = out, .A = A, .B = B, .alpha = 1.0f, .M = M, .lda = B->K, .ldo = B->N}};
  return sl_exec_call(exec, arm, &args, err);
}

static sl_status one_expert(sl_exec *exec, const workspace *w, const sl_grouped *arms, const sl_expert *expert,
                            const float *x, float *out, int first, int n, int step_M, sl_error *err) {
  int H = expert->gate.K, I = expert->gate.N;
  sl_op_args gather = {.gather_rows = {w->x, x, w->rows + first, n, H, step_M}};
  SL_TRY(sl_exec_call(exec, arms->gather, &gather, err));
  SL_TRY(matmul(exec, arms->gate, w->gate, w->x, &expert->gate, n, err));
  SL_TRY(matmul(exec, arms->gate, w->up, w->x, &expert->up, n, err));
  sl_op_args act = {
      .glu = {.out = w->gate, .gate = w->gate, .up = w->up, .M = n, .I = I, .ldg = I, .ldu = I, .ldo = I}};
  SL_TRY(sl_exec_call(exec, arms->act, &act, err));
  SL_TRY(matmul(exec, arms->down, w->y, w->gate, &expert->down, n, err));
  sl_op_args scatter = {.scatter_add_rows = {out, w->y, w->rows + first, w->weights + first, n, H, step_M}};
  return sl_exec_call(exec, arms->scatter, &scatter, err);
}

sl_status sl_exec_grouped(sl_exec *exec, const sl_step *step, const sl_node *node, const sl_grouped *arms,
                          const sl_expert *experts, sl_error *err) {
  const sl_model_config *c = &exec->plan->model->config;
  const float *x = sl_exec_value(exec, node->in[0]);
  float *out = sl_exec_value(exec, node->out[0]);
  workspace w = find_workspace(exec, step->M, c->hidden, c->moe_intermediate, node->top_k, c->n_experts);
  group_by_expert(&w, (const int32_t *)(const void *)sl_exec_value(exec, node->in[1]), sl_exec_value(exec, node->in[2]),
                  step->M, node->top_k, c->n_experts);
  sl_op_args zero = {.fill_zero = {out, step->M, c->hidden}};
  SL_TRY(sl_exec_call(exec, arms->zero, &zero, err));
  for (int e = 0; e < c->n_experts; e++) {
    int first = w.start[e], n = w.start[e + 1] - first;
    if (n) SL_TRY(one_expert(exec, &w, arms, &experts[e], x, out, first, n, step->M, err));
  }
  return SL_OK;
}
