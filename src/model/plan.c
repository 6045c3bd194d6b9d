#include "model/plan.h"

#include <stdlib.h>

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* ---- kernels ---- */

/* The first arm that has a kernel for this.  Keeps each distinct kernel once. */
static sl_status resolve(sl_plan *plan, const sl_op_sig *sig, int M, int *arm, sl_error *err) {
  sl_refusal why = {.detail = "no backend"};
  const sl_kernel *kernel = NULL;
  for (int i = 0; i < plan->options.n_backends && !kernel; i++)
    kernel = sl_kernel_find(plan->options.backends[i], sig, &why);
  if (!kernel) return sl_fail(err, SL_ERR_UNSUPPORTED, "plan: %s: %s", sl_op_name(sig->op), why.detail);
  if (kernel->scratch) {
    size_t bytes = kernel->scratch(sig, M, plan->options.threads);
    if (bytes > plan->scratch_bytes) plan->scratch_bytes = bytes;
  }
  for (int i = 0; i < plan->n_arms; i++) {
    if (plan->arms[i].kernel != kernel) continue;
    *arm = i;
    return SL_OK;
  }
  sl_arm *larger = realloc(plan->arms, ((size_t)plan->n_arms + 1) * sizeof *larger);
  if (!larger) return sl_fail(err, SL_ERR_MEMORY, "plan: no memory");
  plan->arms = larger;
  plan->arms[plan->n_arms] = (sl_arm){.kernel = kernel};
  *arm = plan->n_arms++;
  return SL_OK;
}

static void set_weight(sl_op_sig *sig, const sl_weight *w) {
  sig->dtype = w->dtype;
  sig->has_scale = w->scale != NULL;
  sig->scale_dtype = w->scale_dtype;
  sig->N = w->N;
  sig->K = w->K;
}

static sl_op_sig node_sig(const sl_plan *plan, const sl_node *node, sl_role role) {
  const sl_program *p = &plan->model->program;
  sl_op_sig sig = {.op = node->op,
                   .role = role,
                   .math = node->always_exact ? SL_EXACT : plan->options.math,
                   .dtype = SL_F32,
                   .scale_dtype = SL_F32,
                   .K = sl_node_width(p, node),
                   .top_k = node->top_k};
  if (node->in[0] >= 0 && node->op == SL_OP_ROUTE_TOPK) sig.K = p->values[node->in[0]].width;
  if (node->rows_per_token > 1) sig.K /= node->rows_per_token;
  if (node->matrix >= 0) set_weight(&sig, &p->matrices[node->matrix].weight);
  if (node->op == SL_OP_KV_WRITE || node->op == SL_OP_ATTENTION) {
    sig.dtype = plan->options.kv_dtype;
    sig.K = node->head_dim;
    sig.N = (node->op == SL_OP_ATTENTION ? node->n_heads : node->n_kv_heads) * node->head_dim;
    sig.group = node->op == SL_OP_ATTENTION ? node->n_heads / node->n_kv_heads : 0;
  }
  if (node->op == SL_OP_ROPE) {
    sig.N = node->n_heads * node->head_dim;
    sig.K = node->head_dim;
  }
  return sig;
}

/* One operation of the grouped experts. */
static sl_status resolve_part(sl_plan *plan, const sl_node *node, sl_role role, sl_op op, const sl_weight *w, int width,
                              int *arm, sl_error *err) {
  sl_op_sig sig = {.op = op,
                   .role = role,
                   .math = plan->options.math,
                   .dtype = SL_F32,
                   .scale_dtype = SL_F32,
                   .K = width,
                   .top_k = op == SL_OP_EXPERT_FFN ? node->top_k : 0};
  if (w) set_weight(&sig, w);
  return resolve(plan, &sig, plan->options.chunk, arm, err);
}

static bool is_alike(const sl_weight *a, const sl_weight *b) {
  return a->dtype == b->dtype && (a->scale != NULL) == (b->scale != NULL) && a->scale_dtype == b->scale_dtype;
}

/* Generated tokens take the fused kernel where there is one, prompts the grouped way: many tokens share an expert
 * there, and a panel of its weights is expanded once for all of them. */
static sl_status resolve_experts(sl_plan *plan, const sl_node *node, sl_role role, sl_node_plan *out, sl_error *err) {
  const sl_expert_layer *experts = &plan->model->program.expert_layers[node->experts];
  int H = experts->gate.K, I = experts->gate.N;
  out->arm[role] = SL_NONE;
  if (role == SL_GENERATED && is_alike(&experts->gate, &experts->down))
    return resolve_part(plan, node, role, SL_OP_EXPERT_FFN, &experts->gate, H, &out->arm[role], err);
  sl_grouped *g = &out->grouped[role];
  SL_TRY(resolve_part(plan, node, role, SL_OP_FILL_ZERO, NULL, H, &g->zero, err));
  SL_TRY(resolve_part(plan, node, role, SL_OP_GATHER_ROWS, NULL, H, &g->gather, err));
  SL_TRY(resolve_part(plan, node, role, SL_OP_MATMUL_BT, &experts->gate, H, &g->gate, err));
  SL_TRY(resolve_part(plan, node, role, node->act == SL_SILU ? SL_OP_SWIGLU : SL_OP_GEGLU, NULL, I, &g->act, err));
  SL_TRY(resolve_part(plan, node, role, SL_OP_MATMUL_BT, &experts->down, I, &g->down, err));
  return resolve_part(plan, node, role, SL_OP_SCATTER_ADD_ROWS, NULL, H, &g->scatter, err);
}

static sl_status resolve_all(sl_plan *plan, sl_error *err) {
  const sl_program *p = &plan->model->program;
  for (int i = 0; i < p->n_nodes; i++) {
    const sl_node *node = &p->nodes[i];
    int M = (i < p->head_start ? plan->options.chunk : plan->head_rows) * node->rows_per_token;
    for (int role = 0; role < SL_N_ROLES; role++) {
      if (node->is_experts) {
        SL_TRY(resolve_experts(plan, node, (sl_role)role, &plan->nodes[i], err));
        continue;
      }
      sl_op_sig sig = node_sig(plan, node, (sl_role)role);
      SL_TRY(resolve(plan, &sig, M, &plan->nodes[i].arm[role], err));
    }
  }
  return SL_OK;
}

/* ---- memory ---- */

static size_t value_size(const sl_plan *plan, const sl_value *value) {
  size_t rows = (size_t)(value->in_head ? plan->head_rows : plan->options.chunk);
  return round_up(rows * (size_t)value->width * sizeof(float), 64);
}

/* First fit: the lowest place that no value alive at the same time covers. */
static size_t place(const sl_plan *plan, int index) {
  const sl_program *p = &plan->model->program;
  const sl_value *value = &p->values[index];
  size_t size = value_size(plan, value), at = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < index; i++) {
      const sl_value *other = &p->values[i];
      if (other->last < value->first || other->first > value->last) continue;
      size_t end = other->offset + value_size(plan, other);
      if (at >= end || at + size <= other->offset) continue;
      at = end;
      moved = true;
    }
  }
  return at;
}

/* Rows gathered by expert, the two halves of the middle, and the result, for a step in which all tokens chose the
 * same expert; and the lists of who chose what. */
static size_t expert_workspace(const sl_plan *plan) {
  const sl_program *p = &plan->model->program;
  size_t most = 0;
  for (int i = 0; i < p->n_expert_layers; i++) {
    const sl_weight *gate = &p->expert_layers[i].gate;
    size_t row = 2 * ((size_t)gate->N + (size_t)gate->K) * sizeof(float);
    size_t lists = (size_t)plan->model->config.top_k * (sizeof(int32_t) + sizeof(float));
    size_t bytes = round_up((size_t)plan->options.chunk * (row + lists), 64) +
                   round_up(((size_t)plan->model->config.n_experts + 1) * sizeof(int32_t), 64) +
                   6 * 64; /* six others, on lines */
    if (bytes > most) most = bytes;
  }
  return most;
}

static void lay_out(sl_plan *plan, sl_program *p) {
  for (int i = 0; i < p->n_values; i++) {
    p->values[i].offset = place(plan, i);
    size_t end = p->values[i].offset + value_size(plan, &p->values[i]);
    if (end > plan->value_bytes) plan->value_bytes = end;
  }
  plan->expert_rows_offset = plan->value_bytes;
  plan->expert_bytes = expert_workspace(plan);
  plan->value_bytes += plan->expert_bytes;
}

int sl_plan_kv_capacity(const sl_plan *plan, const sl_kv_spec *spec) {
  long long slots = plan->options.ctx;
  if (spec->window && (long long)spec->window + plan->options.chunk - 1 < slots)
    slots = (long long)spec->window + plan->options.chunk - 1;
  return (int)round_up((size_t)slots, SL_KV_BLOCK);
}

uint64_t sl_plan_kv_bytes(const sl_plan *plan, const sl_kv_spec *spec) {
  return 2 * (uint64_t)sl_plan_kv_capacity(plan, spec) * (uint64_t)spec->n_kv_heads * (uint64_t)spec->head_dim *
         sl_dtype_size(plan->options.kv_dtype);
}

uint64_t sl_plan_total_bytes(const sl_plan *plan, uint64_t other) {
  const sl_model *m = plan->model;
  return m->matrix_bytes + m->expert_bytes + m->vector_bytes + plan->kv_bytes + plan->value_bytes +
         plan->scratch_bytes + other;
}

/* What one generated token reads and computes. */
static void count_token(sl_plan *plan) {
  const sl_program *p = &plan->model->program;
  for (int i = 0; i < p->n_nodes; i++) {
    const sl_node *node = &p->nodes[i];
    if (node->is_experts) {
      const sl_expert_layer *e = &p->expert_layers[node->experts];
      plan->token_expert_bytes += e->expert_bytes * (uint64_t)node->top_k;
      plan->token_flops += 6 * (uint64_t)e->gate.N * (uint64_t)e->gate.K * (uint64_t)node->top_k;
    } else if (node->op == SL_OP_MATMUL_BT) {
      const sl_weight *w = &p->matrices[node->matrix].weight;
      plan->token_matrix_bytes += sl_weight_bytes(w);
      plan->token_flops += i < p->head_start ? 2 * (uint64_t)w->N * (uint64_t)w->K : 0;
    } else if (node->op == SL_OP_EMBED_ROWS) {
      plan->token_matrix_bytes +=
          sl_row_bytes(p->matrices[node->matrix].weight.dtype, p->matrices[node->matrix].weight.K);
    } else if (node->op == SL_OP_ATTENTION) {
      const sl_kv_spec *spec = &p->kv[node->kv];
      uint64_t keys = (uint64_t)(spec->window && spec->window < plan->options.ctx ? spec->window : plan->options.ctx);
      plan->token_kv_bytes +=
          2 * keys * (uint64_t)spec->n_kv_heads * (uint64_t)spec->head_dim * sl_dtype_size(plan->options.kv_dtype);
    }
  }
}

/* Logits are wide: a few rows at a time bound their memory to 32 MiB whatever the vocabulary. */
static int choose_head_rows(const sl_plan *plan) {
  int rows = (8 << 20) / plan->model->config.vocab;
  if (rows > plan->options.chunk) rows = plan->options.chunk;
  return rows < 1 ? 1 : rows;
}

sl_status sl_plan_make(sl_model *model, const sl_plan_options *options, sl_plan **out, sl_error *err) {
  sl_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return sl_fail(err, SL_ERR_MEMORY, "plan: no memory");
  plan->model = model;
  plan->options = *options;
  plan->head_rows = choose_head_rows(plan);
  plan->nodes = calloc((size_t)model->program.n_nodes, sizeof *plan->nodes);
  sl_status status = plan->nodes ? SL_OK : sl_fail(err, SL_ERR_MEMORY, "plan: no memory");
  if (status == SL_OK) status = resolve_all(plan, err);
  if (status != SL_OK) {
    sl_plan_free(plan);
    return status;
  }
  lay_out(plan, &model->program);
  for (int i = 0; i < model->program.n_kv; i++) plan->kv_bytes += sl_plan_kv_bytes(plan, &model->program.kv[i]);
  count_token(plan);
  *out = plan;
  return SL_OK;
}

void sl_plan_free(sl_plan *plan) {
  if (!plan) return;
  free(plan->arms);
  free(plan->nodes);
  free(plan);
}
