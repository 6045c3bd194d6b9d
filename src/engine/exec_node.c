/* One node of the program: its arguments, and the call. */
#include "base/fault.h"
#include "engine/exec.h"

/* ---- arguments of a node ---- */

typedef struct operands {
  const sl_program *program;
  const sl_node *node;
  float *out, *in[3];
  const float *vector[3];
  const sl_weight *weight;
  int width; /* of out */
} operands;

static operands get_operands(const sl_exec *exec, const sl_node *node) {
  const sl_program *p = &exec->plan->model->program;
  operands o = {.program = p, .node = node, .width = sl_node_width(p, node)};
  o.out = node->out[0] >= 0 ? sl_exec_value(exec, node->out[0]) : NULL;
  for (int i = 0; i < 3; i++) {
    o.in[i] = node->in[i] >= 0 ? sl_exec_value(exec, node->in[i]) : NULL;
    o.vector[i] = node->vector[i] >= 0 ? p->vectors[node->vector[i]].data : NULL;
  }
  o.weight = node->matrix >= 0 ? &p->matrices[node->matrix].weight : NULL;
  return o;
}

static int in_width(const operands *o, int operand) { return o->program->values[o->node->in[operand]].width; }

/* The step's segments with this layer's caches. */
static const sl_segment *segments(sl_exec *exec, const sl_step *step, int kv) {
  for (int g = 0; g < step->n_groups; g++) {
    const sl_row_group *group = &step->groups[g];
    exec->segments[g] = (sl_segment){group->kv[kv], group->first_row, group->n_rows, group->first_pos};
  }
  return exec->segments;
}

static sl_op_args norm_args(const operands *o, int M) {
  const sl_node *n = o->node;
  return (sl_op_args){.rms_norm = {.out = o->out,
                                   .x = o->in[0],
                                   .w = o->vector[0],
                                   .residual = o->in[1],
                                   .eps = n->number,
                                   .M = M * n->rows_per_token,
                                   .H = o->width / n->rows_per_token}};
}

static sl_op_args dual_norm_args(const operands *o, int M) {
  return (sl_op_args){.dual_rms_norm_add = {.out = o->out,
                                            .x1 = o->in[0],
                                            .x2 = o->in[1],
                                            .residual = o->in[2],
                                            .w1 = o->vector[0],
                                            .w2 = o->vector[1],
                                            .w3 = o->vector[2],
                                            .eps = o->node->number,
                                            .M = M,
                                            .H = o->width}};
}

static sl_op_args route_args(const sl_exec *exec, const sl_step *step, const operands *o, int M) {
  const sl_node *n = o->node;
  const int32_t *imposed = step->imposed;
  if (imposed) {
    int index = 0; /* of this layer among those with experts */
    const sl_program *p = o->program;
    while (p->expert_layers[index].layer != n->layer) index++;
    imposed += (size_t)index * step->imposed_stride;
  }
  return (sl_op_args){.route_topk = {.ids = (int32_t *)(void *)o->out,
                                     .weights = sl_exec_value(exec, n->out[1]),
                                     .logits = o->in[0],
                                     .per_expert_scale = o->vector[0],
                                     .imposed = imposed,
                                     .renormalize = n->renormalize,
                                     .M = M,
                                     .E = in_width(o, 0),
                                     .top_k = n->top_k}};
}

static sl_op_args attention_args(sl_exec *exec, const sl_step *step, const operands *o, int M) {
  const sl_node *n = o->node;
  return (sl_op_args){.attention = {.out = o->out,
                                    .q = o->in[0],
                                    .segments = segments(exec, step, n->kv),
                                    .n_segments = step->n_groups,
                                    .scale = n->number,
                                    .M = M,
                                    .n_heads = n->n_heads,
                                    .n_kv_heads = n->n_kv_heads,
                                    .head_dim = n->head_dim,
                                    .window = n->window}};
}

static sl_op_args node_args(sl_exec *exec, const sl_step *step, const operands *o, const int32_t *wanted, int M) {
  const sl_node *n = o->node;
  int W = o->width;
  switch (n->op) {
  case SL_OP_EMBED_ROWS:
    return (sl_op_args){.embed_rows = {o->out, step->ids, o->weight, n->number, M}};
  case SL_OP_MATMUL_BT:
    return (sl_op_args){
        .matmul_bt = {
            .out = o->out, .A = o->in[0], .B = o->weight, .alpha = n->number, .M = M, .lda = o->weight->K, .ldo = W}};
  case SL_OP_GATHER_ROWS:
    return (sl_op_args){.gather_rows = {o->out, o->in[0], wanted, M, W, step->M}};
  case SL_OP_RMS_NORM:
  case SL_OP_RMS_NORM_ADD:
    return norm_args(o, M);
  case SL_OP_DUAL_RMS_NORM_ADD:
    return dual_norm_args(o, M);
  case SL_OP_GEGLU:
  case SL_OP_SWIGLU:
    return (sl_op_args){.glu = {.out = o->out,
                                .gate = o->in[0],
                                .up = o->in[1] + n->up_column,
                                .M = M,
                                .I = W,
                                .ldg = W,
                                .ldu = in_width(o, 1),
                                .ldo = W}};
  case SL_OP_ROUTE_TOPK:
    return route_args(exec, step, o, M);
  case SL_OP_ROPE:
    return (sl_op_args){.rope = {o->out, step->positions, exec->inv_freq[n->rope], M, n->n_heads, n->head_dim}};
  case SL_OP_KV_WRITE:
    return (sl_op_args){.kv_write = {o->in[0], o->in[1], segments(exec, step, n->kv), step->n_groups, M}};
  case SL_OP_ATTENTION:
    return attention_args(exec, step, o, M);
  case SL_OP_SOFTCAP:
    return (sl_op_args){.softcap = {o->out, o->in[0], n->number, M, W}};
  case SL_OP_ADD:
    return (sl_op_args){.add = {o->out, o->in[0], o->in[1], M, W}};
  case SL_OP_SCALE:
    return (sl_op_args){.scale = {o->out, o->in[0], o->vector[0] ? o->vector[0][0] : n->number, M, W}};
  case SL_OP_DEQUANT_ROWS:
  case SL_OP_SCATTER_ADD_ROWS:
  case SL_OP_FILL_ZERO:
  case SL_OP_EXPERT_FFN:
  case SL_OP_ARGMAX:
  case SL_N_OPS:
    break; /* not nodes of a program by themselves */
  }
  return (sl_op_args){0};
}

/* ---- experts ---- */

typedef struct acquire_job {
  sl_expert_store *store;
  int layer, n;
  const int32_t *ids;
  const sl_expert *experts;
  sl_status status;
  sl_error *err;
} acquire_job;

static void acquire(void *arg) {
  acquire_job *job = arg;
  job->status = sl_expert_store_acquire(job->store, job->layer, job->ids, job->n, &job->experts, job->err);
}

static sl_status run_experts(sl_exec *exec, const sl_step *step, int index, sl_error *err) {
  const sl_node *node = &exec->plan->model->program.nodes[index];
  const sl_node_plan *np = &exec->plan->nodes[index];
  const sl_model_config *c = &exec->plan->model->config;
  const int32_t *ids = (const int32_t *)(const void *)sl_exec_value(exec, node->in[1]);
  acquire_job job = {
      .store = exec->plan->model->experts, .layer = node->experts, .n = step->M * node->top_k, .ids = ids, .err = err};
  if (!sl_fault_run(acquire, &job)) return sl_fault_fail(err);
  SL_TRY(job.status);
  if (np->arm[step->role] < 0) return sl_exec_grouped(exec, step, node, &np->grouped[step->role], job.experts, err);
  sl_op_args args = {.expert_ffn = {.out = sl_exec_value(exec, node->out[0]),
                                    .x = sl_exec_value(exec, node->in[0]),
                                    .ids = ids,
                                    .weights = sl_exec_value(exec, node->in[2]),
                                    .experts = job.experts,
                                    .act = node->act,
                                    .M = step->M,
                                    .H = c->hidden,
                                    .I = c->moe_intermediate,
                                    .top_k = node->top_k,
                                    .n_experts = c->n_experts}};
  return sl_exec_call(exec, np->arm[step->role], &args, err);
}

/* ---- one node ---- */

sl_status sl_exec_node(sl_exec *exec, const sl_step *step, int index, const int32_t *wanted, int M, sl_error *err) {
  const sl_node *node = &exec->plan->model->program.nodes[index];
  if (node->is_experts) return run_experts(exec, step, index, err);
  operands o = get_operands(exec, node);
  sl_op_args args = node_args(exec, step, &o, wanted, M);
  return sl_exec_call(exec, exec->plan->nodes[index].arm[step->role], &args, err);
}
