/* The report behind `sluice plan`. */
#include <stdio.h>

#include "base/json.h"
#include "model/plan.h"

static const char *kernel_name(const sl_plan *plan, int arm) {
  return arm >= 0 ? plan->arms[arm].kernel->name : "grouped";
}

static void shape_text(const sl_plan *plan, const sl_node *node, char *out, size_t size) {
  const sl_program *p = &plan->model->program;
  if (node->matrix >= 0) {
    const sl_weight *w = &p->matrices[node->matrix].weight;
    snprintf(out, size, "[%d,%d] %s", w->N, w->K, sl_dtype_name(w->dtype));
  } else if (node->is_experts) {
    const sl_expert_layer *e = &p->expert_layers[node->experts];
    snprintf(out, size, "%d of %d x [%d,%d] %s", node->top_k, plan->model->config.n_experts, e->gate.N, e->gate.K,
             sl_dtype_name(e->gate.dtype));
  } else if (node->op == SL_OP_ATTENTION || node->op == SL_OP_KV_WRITE) {
    const sl_kv_spec *spec = &p->kv[node->kv];
    char window[32] = "all keys";
    if (spec->window) snprintf(window, sizeof window, "%d keys", spec->window);
    snprintf(out, size, "%d x %d, %s, %s", spec->n_kv_heads, spec->head_dim, window,
             sl_dtype_name(plan->options.kv_dtype));
  } else {
    snprintf(out, size, "[%d]", sl_node_width(p, node));
  }
}

/* The kernels of grouped experts, in the order in which they run. */
static json_t *grouped_json(const sl_plan *plan, const sl_grouped *g) {
  const int arms[] = {g->zero, g->gather, g->gate, g->act, g->down, g->scatter};
  json_t *list = json_array();
  for (size_t i = 0; i < sizeof arms / sizeof *arms; i++)
    sl_json_append(&list, json_string(kernel_name(plan, arms[i])));
  return list;
}

static json_t *node_json(const sl_plan *plan, int index) {
  const sl_node *node = &plan->model->program.nodes[index];
  const sl_node_plan *np = &plan->nodes[index];
  char shape[96];
  shape_text(plan, node, shape, sizeof shape);
  json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s}", "op", node->is_experts ? "experts" : sl_op_name(node->op), "name",
                        node->name, "shape", shape, "prompt", kernel_name(plan, np->arm[SL_PROMPT]), "generated",
                        kernel_name(plan, np->arm[SL_GENERATED]));
  if (o && np->arm[SL_PROMPT] < 0) sl_json_put(&o, "prompt_kernels", grouped_json(plan, &np->grouped[SL_PROMPT]));
  if (o && np->arm[SL_GENERATED] < 0)
    sl_json_put(&o, "generated_kernels", grouped_json(plan, &np->grouped[SL_GENERATED]));
  return o;
}

static json_t *layers_json(const sl_plan *plan) {
  const sl_program *p = &plan->model->program;
  json_t *layers = json_array();
  for (int l = 0; l < plan->model->config.n_layers; l++) {
    json_t *ops = json_array();
    for (int i = 0; i < p->n_nodes; i++)
      if (p->nodes[i].layer == l) sl_json_append(&ops, node_json(plan, i));
    const char *kind = plan->model->config.layers[l].is_sliding ? "sliding" : "full";
    sl_json_append(&layers, json_pack("{s:i, s:s, s:o}", "layer", l, "attention", kind, "ops", ops));
  }
  return layers;
}

static json_t *outside_json(const sl_plan *plan) {
  const sl_program *p = &plan->model->program;
  json_t *ops = json_array();
  for (int i = 0; i < p->n_nodes; i++)
    if (p->nodes[i].layer < 0) sl_json_append(&ops, node_json(plan, i));
  return ops;
}

static json_t *bytes_json(const sl_plan *plan, uint64_t tokenizer, uint64_t other) {
  const sl_model *m = plan->model;
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "trunk", (json_int_t)m->matrix_bytes, "experts",
                   (json_int_t)m->expert_bytes, "vectors", (json_int_t)m->vector_bytes, "tokenizer",
                   (json_int_t)tokenizer, "kv", (json_int_t)plan->kv_bytes, "activations",
                   (json_int_t)plan->value_bytes, "scratch", (json_int_t)plan->scratch_bytes, "other",
                   (json_int_t)other, "total", (json_int_t)sl_plan_total_bytes(plan, tokenizer + other));
}

static json_t *token_json(const sl_plan *plan) {
  uint64_t bytes = plan->token_matrix_bytes + plan->token_expert_bytes;
  return json_pack("{s:I, s:I, s:I, s:I, s:I}", "bytes", (json_int_t)bytes, "trunk_bytes",
                   (json_int_t)plan->token_matrix_bytes, "expert_bytes", (json_int_t)plan->token_expert_bytes,
                   "kv_bytes_full_ctx", (json_int_t)plan->token_kv_bytes, "flops", (json_int_t)plan->token_flops);
}

/* What the kernels have been measured to reach of the limits (docs/EXPERIMENTS.md). */
#define DECODE_SHARE       0.82
#define PROMPT_EXACT_SHARE 0.63
#define PROMPT_FAST_SHARE  0.54

static double prompt_tps(const sl_plan *plan, const sl_limits *limits, sl_math math) {
  double flops = math == SL_FAST && limits->bf16_flops > 0 ? limits->bf16_flops * PROMPT_FAST_SHARE
                                                           : limits->f32_flops * PROMPT_EXACT_SHARE;
  return flops / (double)plan->token_flops;
}

static json_t *expected_json(const sl_plan *plan, const sl_limits *limits) {
  double read = limits->read_bytes_per_s, bytes = (double)(plan->token_matrix_bytes + plan->token_expert_bytes);
  double full = bytes + (double)plan->token_kv_bytes;
  json_t *fast = json_pack("{s:f, s:f}", "decode_tps", DECODE_SHARE * read / bytes, "prompt_tps",
                           prompt_tps(plan, limits, SL_FAST));
  return json_pack("{s:f, s:f, s:f, s:f, s:o}", "decode_tps", DECODE_SHARE * read / bytes, "decode_tps_full_ctx",
                   DECODE_SHARE * read / full, "decode_tps_limit", read / bytes, "prompt_tps",
                   prompt_tps(plan, limits, plan->options.math), "fast", fast);
}

static json_t *options_json(const sl_plan_options *o) {
  return json_pack("{s:i, s:i, s:i, s:s, s:s, s:s}", "threads", o->threads, "chunk", o->chunk, "ctx", o->ctx, "math",
                   o->math == SL_FAST ? "fast" : "exact", "kv", o->kv_dtype == SL_F32 ? "f32" : "f16", "kernels",
                   o->kernels);
}

sl_status sl_plan_json(const sl_plan *plan, uint64_t tokenizer_bytes, uint64_t other_bytes, const sl_limits *limits,
                       json_t **out, sl_error *err) {
  const sl_model_config *c = &plan->model->config;
  json_t *model = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "family", c->family, "layers", c->n_layers, "hidden",
                            c->hidden, "vocab", c->vocab, "experts", c->n_experts, "top_k", c->top_k);
  json_t *root = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "model", model, "options", options_json(&plan->options),
                           "layers", layers_json(plan), "outside", outside_json(plan), "bytes",
                           bytes_json(plan, tokenizer_bytes, other_bytes), "per_token", token_json(plan));
  if (root && limits) {
    sl_json_put(&root, "limits",
                json_pack("{s:f, s:f, s:f}", "read_bytes_per_s", limits->read_bytes_per_s, "f32_flops",
                          limits->f32_flops, "bf16_flops", limits->bf16_flops));
    sl_json_put(&root, "expected", expected_json(plan, limits));
  }
  if (!root) return sl_fail(err, SL_ERR_MEMORY, "plan: no memory for its report");
  *out = root;
  return SL_OK;
}
