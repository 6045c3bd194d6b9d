#include "model/builder.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

void sl_b_fail(sl_builder *b, sl_status status, const char *format, ...) {
  if (b->status != SL_OK) return;
  char text[800];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  b->status = sl_fail(b->err, status, "%s: %s", b->family, text);
}

/* ---- growing the program ---- */

/* Room for one more element of `size` bytes in an array that grows in powers of two. */
static void *grow(sl_builder *b, void *array, int count, size_t size) {
  if (count & (count - 1)) return array; /* only at powers of two (and 0) is it full */
  void *larger = realloc(array, (size_t)(count ? 2 * count : 1) * size);
  if (!larger) sl_b_fail(b, SL_ERR_MEMORY, "no memory for the program");
  return larger;
}

#define APPEND(b, array, count)                                                                                        \
  do {                                                                                                                 \
    void *grown_ = grow((b), (array), (count), sizeof *(array));                                                       \
    if (grown_) (array) = grown_;                                                                                      \
  } while (0)

static const char *keep(sl_builder *b, const char *text) {
  sl_program *p = b->program;
  for (int i = p->n_names - 1; i >= 0 && i >= p->n_names - 64; i--)
    if (!strcmp(p->names[i], text)) return p->names[i];
  APPEND(b, p->names, p->n_names);
  char *copy = strdup(text);
  if (!copy) sl_b_fail(b, SL_ERR_MEMORY, "no memory for a name");
  if (b->status != SL_OK) {
    free(copy);
    return "";
  }
  p->names[p->n_names++] = copy;
  return copy;
}

static int new_value(sl_builder *b, const char *name, int width) {
  if (b->status != SL_OK) return SL_NONE;
  sl_program *p = b->program;
  APPEND(b, p->values, p->n_values);
  if (b->status != SL_OK) return SL_NONE;
  p->values[p->n_values] =
      (sl_value){.name = name, .width = width, .in_head = p->head_start >= 0, .first = p->n_nodes, .last = p->n_nodes};
  return p->n_values++;
}

static int width(const sl_builder *b, int value) {
  return b->status == SL_OK && value >= 0 ? b->program->values[value].width : 0;
}

/* Adds a node with nothing set but op, name and layer; NULL after a failure. */
static sl_node *new_node(sl_builder *b, sl_op op, const char *name) {
  if (b->status != SL_OK) return NULL;
  sl_program *p = b->program;
  const char *kept = keep(b, name);
  APPEND(b, p->nodes, p->n_nodes);
  if (b->status != SL_OK) return NULL;
  sl_node *node = &p->nodes[p->n_nodes++];
  *node = (sl_node){.op = op,
                    .name = kept,
                    .layer = b->layer,
                    .in = {SL_NONE, SL_NONE, SL_NONE},
                    .out = {SL_NONE, SL_NONE},
                    .matrix = SL_NONE,
                    .vector = {SL_NONE, SL_NONE, SL_NONE},
                    .experts = SL_NONE,
                    .kv = SL_NONE,
                    .rows_per_token = 1};
  return node;
}

static void reads(sl_builder *b, sl_node *node, int operand, int value) {
  node->in[operand] = value;
  b->program->values[value].last = (int)(node - b->program->nodes);
}

/* The usual node: reads up to two values, writes a new one of width W. */
static sl_node *simple_node(sl_builder *b, sl_op op, const char *name, int x, int y, int W) {
  sl_node *node = new_node(b, op, name);
  if (!node) return NULL;
  reads(b, node, 0, x);
  if (y >= 0) reads(b, node, 1, y);
  b->program->n_nodes--; /* so that the value's first use is this node */
  node->out[0] = new_value(b, node->name, W);
  b->program->n_nodes++;
  return b->status == SL_OK ? node : NULL;
}

static int result(const sl_node *node) { return node ? node->out[0] : SL_NONE; }

/* ---- binding tensors ---- */

static void full_name(const sl_builder *b, char *out, size_t size, const char *name, const char *suffix) {
  if (b->layer >= 0)
    snprintf(out, size, "%slayers.%d.%s%s", b->prefix, b->layer, name, suffix);
  else
    snprintf(out, size, "%s%s%s", b->prefix, name, suffix);
}

static const sl_tensor *find(sl_builder *b, const char *name, const char *suffix) {
  char full[256];
  full_name(b, full, sizeof full, name, suffix);
  return sl_checkpoint_find(b->checkpoint, full);
}

static const sl_tensor *use(sl_builder *b, const sl_tensor *tensor) {
  b->used[tensor - b->checkpoint->tensors] = SL_TENSOR_USED;
  return tensor;
}

static const sl_tensor *require(sl_builder *b, const char *name, const char *suffix) {
  if (b->status != SL_OK) return NULL;
  char full[256];
  full_name(b, full, sizeof full, name, suffix);
  const sl_tensor *tensor = sl_checkpoint_find(b->checkpoint, full);
  if (!tensor) {
    sl_b_fail(b, SL_ERR_FORMAT, "tensor %s is missing in %s", full, b->checkpoint->path);
    return NULL;
  }
  if (tensor->dtype == SL_N_DTYPES) {
    sl_b_fail(b, SL_ERR_UNSUPPORTED, "%s: dtype %s, expected F32, F16, BF16 or F8_E4M3", full, tensor->dtype_name);
    return NULL;
  }
  return use(b, tensor);
}

static void shape_error(sl_builder *b, const sl_tensor *tensor, const int64_t *expected, int n_dims) {
  char found[96], wanted[96];
  sl_b_fail(b, SL_ERR_FORMAT, "%s: shape %s, expected %s", tensor->name,
            sl_shape_text(tensor->shape, tensor->n_dims, found, sizeof found),
            sl_shape_text(expected, n_dims, wanted, sizeof wanted));
}

static bool has_shape(const sl_tensor *tensor, const int64_t *shape, int n_dims) {
  if (tensor->n_dims != n_dims) return false;
  for (int i = 0; i < n_dims; i++)
    if (tensor->shape[i] != shape[i]) return false;
  return true;
}

/* The row multipliers of an FP8 matrix: [N] or [N,1] of BF16, F16 or F32. */
static const sl_tensor *row_scale(sl_builder *b, const char *name, int N) {
  const sl_tensor *scale = require(b, name, ".weight_scale");
  if (!scale) return NULL;
  const int64_t shape[2] = {N, 1};
  if (!has_shape(scale, shape, 1) && !has_shape(scale, shape, 2)) shape_error(b, scale, shape, 2);
  if (scale->dtype == SL_F8_E4M3)
    sl_b_fail(b, SL_ERR_UNSUPPORTED, "%s: dtype %s, expected BF16, F16 or F32", scale->name, scale->dtype_name);
  return b->status == SL_OK ? scale : NULL;
}

/* A matrix [N,K] "name.weight" with its scale, if it has one. */
static bool bind(sl_builder *b, const char *name, int N, int K, sl_matrix *out) {
  const sl_tensor *tensor = require(b, name, ".weight");
  if (!tensor) return false;
  const int64_t shape[2] = {N, K};
  if (!has_shape(tensor, shape, 2)) {
    shape_error(b, tensor, shape, 2);
    return false;
  }
  *out = (sl_matrix){.tensor = tensor,
                     .weight = {.data = tensor->data, .dtype = tensor->dtype, .N = N, .K = K, .scale_dtype = SL_F32}};
  if (tensor->dtype != SL_F8_E4M3) return true;
  if (!b->quantized) {
    sl_b_fail(b, SL_ERR_FORMAT, "%s is F8_E4M3, but config.json has no quantization_config", tensor->name);
    return false;
  }
  out->scale = row_scale(b, name, N);
  if (!out->scale) return false;
  out->weight.scale = out->scale->data;
  out->weight.scale_dtype = out->scale->dtype;
  return true;
}

static int matrix(sl_builder *b, const char *name, int N, int K) {
  sl_matrix m;
  if (!bind(b, name, N, K, &m)) return SL_NONE;
  sl_program *p = b->program;
  for (int i = 0; i < p->n_matrices; i++)
    if (p->matrices[i].tensor == m.tensor) return i; /* a tied head */
  APPEND(b, p->matrices, p->n_matrices);
  if (b->status != SL_OK) return SL_NONE;
  p->matrices[p->n_matrices] = m;
  return p->n_matrices++;
}

static int vector(sl_builder *b, const char *name, const char *suffix, int n, float add, float factor) {
  const sl_tensor *tensor = require(b, name, suffix);
  if (!tensor) return SL_NONE;
  const int64_t shape[1] = {n};
  if (!has_shape(tensor, shape, 1)) {
    shape_error(b, tensor, shape, 1);
    return SL_NONE;
  }
  if (tensor->dtype == SL_F8_E4M3) {
    sl_b_fail(b, SL_ERR_UNSUPPORTED, "%s: dtype F8_E4M3, expected F32, F16 or BF16", tensor->name);
    return SL_NONE;
  }
  sl_program *p = b->program;
  APPEND(b, p->vectors, p->n_vectors);
  if (b->status != SL_OK) return SL_NONE;
  p->vectors[p->n_vectors] = (sl_vector){.tensor = tensor, .n = n, .add = add, .factor = factor};
  return p->n_vectors++;
}

static int norm_vector(sl_builder *b, const char *name, int n) {
  return vector(b, name, ".weight", n, b->norm_add, 1.0f);
}

static void ignore_one(sl_builder *b, const char *name, const char *suffix) {
  const sl_tensor *tensor = find(b, name, suffix);
  if (tensor) b->used[tensor - b->checkpoint->tensors] = SL_TENSOR_IGNORED;
}

void sl_b_ignore(sl_builder *b, const char *name) {
  ignore_one(b, name, ".weight");
  ignore_one(b, name, ".weight_scale");
}

/* ---- operations ---- */

int sl_b_embed(sl_builder *b, const char *table, int N, int K, float scale) {
  int m = matrix(b, table, N, K);
  sl_node *node = new_node(b, SL_OP_EMBED_ROWS, table);
  if (!node) return SL_NONE;
  node->matrix = m;
  node->number = scale;
  b->program->n_nodes--;
  node->out[0] = new_value(b, node->name, K);
  b->program->n_nodes++;
  return result(node);
}

int sl_b_matmul(sl_builder *b, int in, const char *name, int N, float alpha) {
  int m = matrix(b, name, N, width(b, in));
  sl_node *node = simple_node(b, SL_OP_MATMUL_BT, name, in, SL_NONE, N);
  if (!node) return SL_NONE;
  node->matrix = m;
  node->number = alpha;
  return result(node);
}

int sl_b_head(sl_builder *b, int in, int vocab, bool tied) {
  const char *prefix = b->prefix;
  if (!tied) b->prefix = "";
  int m = matrix(b, tied ? "embed_tokens" : "lm_head", vocab, width(b, in));
  b->prefix = prefix;
  sl_node *node = simple_node(b, SL_OP_MATMUL_BT, "lm_head", in, SL_NONE, vocab);
  if (!node) return SL_NONE;
  node->matrix = m;
  node->number = 1.0f;
  node->check_finite = true; /* a softcap would turn an infinity into a number */
  return result(node);
}

int sl_b_rms_norm(sl_builder *b, int in, const char *weight, int groups, const char *name) {
  int v = weight ? norm_vector(b, weight, width(b, in) / groups) : SL_NONE;
  sl_node *node = simple_node(b, SL_OP_RMS_NORM, name ? name : weight, in, SL_NONE, width(b, in));
  if (!node) return SL_NONE;
  node->vector[0] = v;
  node->rows_per_token = groups;
  node->number = b->eps;
  return result(node);
}

int sl_b_rms_norm_add(sl_builder *b, int in, const char *weight, int residual) {
  int v = norm_vector(b, weight, width(b, in));
  sl_node *node = simple_node(b, SL_OP_RMS_NORM_ADD, weight, in, residual, width(b, in));
  if (!node) return SL_NONE;
  node->vector[0] = v;
  node->number = b->eps;
  return result(node);
}

int sl_b_dual_rms_norm_add(sl_builder *b, int x1, const char *w1, int x2, const char *w2, const char *w3, int residual,
                           const char *name) {
  int H = width(b, x1);
  int v1 = norm_vector(b, w1, H), v2 = norm_vector(b, w2, H), v3 = norm_vector(b, w3, H);
  sl_node *node = simple_node(b, SL_OP_DUAL_RMS_NORM_ADD, name, x1, x2, H);
  if (!node) return SL_NONE;
  reads(b, node, 2, residual);
  node->vector[0] = v1;
  node->vector[1] = v2;
  node->vector[2] = v3;
  node->number = b->eps;
  return result(node);
}

int sl_b_router_norm(sl_builder *b, int in, const char *scale, float factor) {
  int v = vector(b, scale, "", width(b, in), 0.0f, factor);
  sl_node *node = simple_node(b, SL_OP_RMS_NORM, scale, in, SL_NONE, width(b, in));
  if (!node) return SL_NONE;
  node->vector[0] = v;
  node->number = b->eps;
  return result(node);
}

int sl_b_geglu(sl_builder *b, int gate, int up, int up_column, const char *name) {
  sl_node *node = simple_node(b, SL_OP_GEGLU, name, gate, up, width(b, gate));
  if (!node) return SL_NONE;
  node->up_column = up_column;
  return result(node);
}

int sl_b_add(sl_builder *b, int x, int y, const char *name) {
  return result(simple_node(b, SL_OP_ADD, name, x, y, width(b, x)));
}

int sl_b_scale(sl_builder *b, int x, float factor, const char *name) {
  sl_node *node = simple_node(b, SL_OP_SCALE, name, x, SL_NONE, width(b, x));
  if (!node) return SL_NONE;
  node->number = factor;
  return result(node);
}

int sl_b_scale_by(sl_builder *b, int x, const char *tensor) {
  int v = vector(b, tensor, "", 1, 0.0f, 1.0f);
  sl_node *node = simple_node(b, SL_OP_SCALE, tensor, x, SL_NONE, width(b, x));
  if (!node) return SL_NONE;
  node->vector[0] = v;
  return result(node);
}

int sl_b_softcap(sl_builder *b, int x, float cap) {
  sl_node *node = simple_node(b, SL_OP_SOFTCAP, "softcap", x, SL_NONE, width(b, x));
  if (!node) return SL_NONE;
  node->number = cap;
  return result(node);
}

/* One table of frequencies serves all layers of a kind. */
static bool rope_fits(sl_builder *b, int head_dim, int rope) {
  for (int i = 0; b->status == SL_OK && i < b->program->n_nodes; i++) {
    const sl_node *other = &b->program->nodes[i];
    if (other->op == SL_OP_ROPE && other->rope == rope && other->head_dim != head_dim)
      sl_b_fail(b, SL_ERR_UNSUPPORTED, "layer %d: head_dim %d, but layer %d of the same kind has %d", b->layer,
                head_dim, other->layer, other->head_dim);
  }
  return b->status == SL_OK;
}

void sl_b_rope(sl_builder *b, int x, int n_heads, int head_dim, int rope, const char *name) {
  sl_node *node = rope_fits(b, head_dim, rope) ? new_node(b, SL_OP_ROPE, name) : NULL;
  if (!node) return;
  reads(b, node, 0, x);
  node->out[0] = x;
  node->n_heads = n_heads;
  node->head_dim = head_dim;
  node->rope = rope;
}

int sl_b_kv_write(sl_builder *b, int k, int v, int n_kv_heads, int head_dim, int window) {
  sl_node *node = new_node(b, SL_OP_KV_WRITE, "kv_write");
  if (!node) return SL_NONE;
  reads(b, node, 0, k);
  reads(b, node, 1, v);
  node->n_kv_heads = n_kv_heads;
  node->head_dim = head_dim;
  sl_program *p = b->program;
  APPEND(b, p->kv, p->n_kv);
  if (b->status != SL_OK) return SL_NONE;
  node->kv = p->n_kv;
  p->kv[p->n_kv] = (sl_kv_spec){.layer = b->layer, .n_kv_heads = n_kv_heads, .head_dim = head_dim, .window = window};
  return p->n_kv++;
}

int sl_b_attention(sl_builder *b, int q, int kv, int n_heads, float scale) {
  sl_node *node = simple_node(b, SL_OP_ATTENTION, "attention", q, SL_NONE, width(b, q));
  if (!node) return SL_NONE;
  const sl_kv_spec *spec = &b->program->kv[kv];
  node->kv = kv;
  node->n_heads = n_heads;
  node->n_kv_heads = spec->n_kv_heads;
  node->head_dim = spec->head_dim;
  node->window = spec->window;
  node->number = scale;
  return result(node);
}

void sl_b_route(sl_builder *b, int logits, int top_k, const char *per_expert_scale, int *ids, int *weights) {
  *ids = *weights = SL_NONE;
  int v = vector(b, per_expert_scale, "", width(b, logits), 0.0f, 1.0f);
  sl_node *node = simple_node(b, SL_OP_ROUTE_TOPK, "route", logits, SL_NONE, top_k);
  if (!node) return;
  int at = (int)(node - b->program->nodes);
  node->vector[0] = v;
  node->top_k = top_k;
  node->renormalize = true;
  *ids = node->out[0];
  *weights = new_value(b, "route_weights", top_k);
  if (b->status != SL_OK) return;
  node = &b->program->nodes[at];
  node->out[1] = *weights;
  b->program->values[*weights].first = b->program->values[*weights].last = at;
}

/* One part of a fused tensor: rows first .. first+N-1 of expert e. */
static sl_weight slice(const sl_tensor *tensor, int64_t rows_per_expert, int e, int64_t first, int N, int K) {
  size_t row = sl_row_bytes(tensor->dtype, K);
  return (sl_weight){.data = (const char *)tensor->data + ((size_t)e * (size_t)rows_per_expert + (size_t)first) * row,
                     .dtype = tensor->dtype,
                     .scale_dtype = SL_F32,
                     .N = N,
                     .K = K};
}

static bool fused_experts(sl_builder *b, int experts, int E, int I, int H) {
  const sl_tensor *gate_up = require(b, "experts.gate_up_proj", ""), *down = require(b, "experts.down_proj", "");
  if (!gate_up || !down) return false;
  const int64_t gate_up_shape[3] = {E, 2 * (int64_t)I, H}, down_shape[3] = {E, H, I};
  if (!has_shape(gate_up, gate_up_shape, 3)) shape_error(b, gate_up, gate_up_shape, 3);
  if (!has_shape(down, down_shape, 3)) shape_error(b, down, down_shape, 3);
  if (gate_up->dtype == SL_F8_E4M3 || down->dtype == SL_F8_E4M3)
    sl_b_fail(b, SL_ERR_UNSUPPORTED, "%s: dtype F8_E4M3 in a fused tensor, expected BF16, F16 or F32", gate_up->name);
  if (b->status != SL_OK) return false;
  const char *names[3] = {gate_up->name, gate_up->name, down->name};
  for (int e = 0; e < E; e++) {
    sl_expert w = {.gate = slice(gate_up, 2 * (int64_t)I, e, 0, I, H),
                   .up = slice(gate_up, 2 * (int64_t)I, e, I, I, H),
                   .down = slice(down, H, e, 0, H, I)};
    sl_expert_store_set(b->store, experts, e, &w, names);
  }
  return true;
}

/* Kernels are chosen once for a layer's experts, so these must be alike. */
static void same_dtype(sl_builder *b, const sl_matrix *m, const sl_weight *first) {
  if (m->weight.dtype != first->dtype || (m->weight.scale != NULL) != (first->scale != NULL) ||
      m->weight.scale_dtype != first->scale_dtype)
    sl_b_fail(b, SL_ERR_UNSUPPORTED, "%s: dtype %s, expected %s as in the layer's first expert", m->tensor->name,
              sl_dtype_name(m->weight.dtype), sl_dtype_name(first->dtype));
}

static bool separate_experts(sl_builder *b, int experts, int E, int I, int H) {
  sl_expert first = {0};
  for (int e = 0; e < E; e++) {
    static const char *const parts[3] = {"gate_proj", "up_proj", "down_proj"};
    sl_matrix m[3];
    const char *names[3];
    for (int i = 0; i < 3; i++) {
      char name[64];
      snprintf(name, sizeof name, "experts.%d.%s", e, parts[i]);
      if (!bind(b, name, i < 2 ? I : H, i < 2 ? H : I, &m[i])) return false;
      names[i] = m[i].tensor->name;
    }
    sl_expert w = {m[0].weight, m[1].weight, m[2].weight};
    if (e == 0) first = w;
    same_dtype(b, &m[0], &first.gate);
    same_dtype(b, &m[1], &first.gate);
    same_dtype(b, &m[2], &first.down);
    if (b->status != SL_OK) return false;
    sl_expert_store_set(b->store, experts, e, &w, names);
  }
  return true;
}

int sl_b_experts(sl_builder *b, int x, int ids, int weights, int n_experts, int I, int top_k, sl_activation act) {
  int H = width(b, x);
  sl_node *node = simple_node(b, SL_OP_EXPERT_FFN, "experts", x, ids, H);
  if (!node) return SL_NONE;
  reads(b, node, 2, weights);
  sl_program *p = b->program;
  int index = p->n_expert_layers;
  sl_expert_layer layer = {.layer = b->layer};
  bool fused = find(b, "experts.gate_up_proj", "") != NULL;
  if (!(fused ? fused_experts : separate_experts)(b, index, n_experts, I, H)) return SL_NONE;
  const sl_expert *first = sl_expert_store_peek(b->store, index);
  layer.gate = first->gate;
  layer.down = first->down;
  layer.expert_bytes = sl_weight_bytes(&first->gate) + sl_weight_bytes(&first->up) + sl_weight_bytes(&first->down);
  APPEND(b, p->expert_layers, p->n_expert_layers);
  if (b->status != SL_OK) return SL_NONE;
  p->expert_layers[p->n_expert_layers++] = layer;
  node->is_experts = true;
  node->experts = index;
  node->top_k = top_k;
  node->act = act;
  return result(node);
}

int sl_b_begin_head(sl_builder *b, int x) {
  b->layer = SL_NONE;
  if (b->status != SL_OK) return SL_NONE;
  b->program->nodes[b->program->n_nodes - 1].check_finite = true;
  b->program->head_start = b->program->n_nodes;
  int rows = result(simple_node(b, SL_OP_GATHER_ROWS, "wanted_rows", x, SL_NONE, width(b, x)));
  if (b->status == SL_OK) b->program->values[x].last = INT_MAX; /* the head may run several times for one step */
  return rows;
}

void sl_b_mark_hidden(sl_builder *b) {
  if (b->status == SL_OK) b->program->nodes[b->program->n_nodes - 1].is_hidden = true;
}

void sl_b_mark_exact(sl_builder *b) {
  if (b->status == SL_OK) b->program->nodes[b->program->n_nodes - 1].always_exact = true;
}

/* ---- the program itself ---- */

int sl_node_width(const sl_program *program, const sl_node *node) {
  return node->out[0] >= 0 ? program->values[node->out[0]].width : 0;
}

void sl_program_free(sl_program *program) {
  for (int i = 0; i < program->n_vectors; i++) free(program->vectors[i].data);
  for (int i = 0; i < program->n_names; i++) free(program->names[i]);
  free(program->names);
  free(program->nodes);
  free(program->values);
  free(program->matrices);
  free(program->vectors);
  free(program->kv);
  free(program->expert_layers);
  *program = (sl_program){0};
}
