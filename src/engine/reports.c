/* Reports as JSON text: inspect, plan, ops. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "engine/engine.h"
#include "text/utf8.h"

static sl_status to_text(json_t *root, char **out, sl_error *err) {
  char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9)) : NULL;
  json_decref(root);
  if (!text) return sl_fail(err, SL_ERR_MEMORY, "report: no memory");
  *out = text;
  return SL_OK;
}

/* ---- inspect ---- */

static const char *role_of(const sl_model *model, int index) {
  const sl_tensor *t = &model->checkpoint->tensors[index];
  if (model->used[index] == SL_TENSOR_IGNORED) return "ignored";
  if (model->used[index] != SL_TENSOR_USED) return "skipped";
  if (strstr(t->name, ".experts.")) return strstr(t->name, "_scale") ? "expert scale" : "expert";
  if (strstr(t->name, "embed_tokens")) return "embedding";
  if (strstr(t->name, ".router.")) return "router";
  if (strstr(t->name, "weight_scale")) return "scale";
  if (strstr(t->name, "norm")) return "norm";
  if (strstr(t->name, "self_attn.")) return "attention";
  if (strstr(t->name, "lm_head")) return "head";
  return t->n_dims > 1 ? "mlp" : "scalar";
}

static json_t *tensor_json(const sl_model *model, int index) {
  const sl_tensor *t = &model->checkpoint->tensors[index];
  const char *path = model->checkpoint->files[t->file].path, *slash = strrchr(path, '/');
  json_t *shape = json_array();
  for (int i = 0; i < t->n_dims; i++) sl_json_append(&shape, json_integer((json_int_t)t->shape[i]));
  return json_pack("{s:s, s:s, s:o, s:s, s:I, s:I, s:s}", "name", t->name, "dtype", t->dtype_name, "shape", shape,
                   "file", slash ? slash + 1 : path, "offset", (json_int_t)t->offset, "bytes", (json_int_t)t->bytes,
                   "role", role_of(model, index));
}

static json_t *skips_json(const sl_model *model) {
  json_t *list = json_array();
  for (int i = 0; i < model->n_skips; i++) {
    const sl_skip *s = &model->skips[i];
    sl_json_append(&list, json_pack("{s:s, s:i, s:I, s:s}", "pattern", s->prefix, "tensors", s->n_tensors, "bytes",
                                    (json_int_t)s->bytes, "why", s->why));
  }
  return list;
}

static json_t *totals_json(const sl_model *model) {
  uint64_t all = 0, used = 0;
  int n_used = 0;
  for (int i = 0; i < model->checkpoint->n_tensors; i++) {
    all += model->checkpoint->tensors[i].bytes;
    if (model->used[i] != SL_TENSOR_USED) continue;
    used += model->checkpoint->tensors[i].bytes;
    n_used++;
  }
  return json_pack("{s:i, s:I, s:i, s:I, s:i, s:I, s:I}", "tensors", model->checkpoint->n_tensors, "bytes",
                   (json_int_t)all, "used_tensors", n_used, "used_bytes", (json_int_t)used, "files",
                   model->checkpoint->n_files, "expert_bytes", (json_int_t)model->expert_bytes, "trunk_bytes",
                   (json_int_t)model->matrix_bytes);
}

/* A path may be any bytes, JSON is UTF-8: what is not becomes U+FFFD. */
static json_t *path_json(const char *path) {
  size_t size = strlen(path), n = 0, length;
  char *text = malloc(3 * size + 1);
  for (size_t at = 0; text && at < size; at += length) {
    bool good = sl_utf8_next(path + at, size - at, &length) == SL_UTF8_CHARACTER;
    memcpy(text + n, good ? path + at : SL_REPLACEMENT, good ? length : 3);
    n += good ? length : 3;
  }
  json_t *string = text ? json_stringn(text, n) : NULL;
  free(text);
  return string;
}

sl_status sl_engine_inspect_json(const sl_engine *engine, char **out, sl_error *err) {
  const sl_model *model = engine->model;
  json_t *tensors = json_array();
  for (int i = 0; i < model->checkpoint->n_tensors; i++) sl_json_append(&tensors, tensor_json(model, i));
  json_t *tokenizer = json_null();
  if (engine->tokenizer)
    tokenizer = json_pack("{s:i, s:I, s:i}", "size", sl_tokenizer_size(engine->tokenizer), "bytes",
                          (json_int_t)sl_tokenizer_bytes(engine->tokenizer), "left_out",
                          sl_tokenizer_left_out(engine->tokenizer));
  json_t *root = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "path", path_json(engine->path), "config",
                           sl_model_config_json(&model->config), "tensors", tensors, "skipped", skips_json(model),
                           "totals", totals_json(model), "tokenizer", tokenizer);
  return to_text(root, out, err);
}

/* ---- plan ---- */

static sl_status plan_json(sl_engine *engine, bool measure, json_t **out, sl_error *err) {
  sl_limits limits;
  if (measure)
    SL_TRY(sl_engine_limits(engine, 0.2, &limits.read_bytes_per_s, &limits.f32_flops, &limits.bf16_flops, err));
  uint64_t tokenizer = engine->tokenizer ? sl_tokenizer_bytes(engine->tokenizer) : 0;
  return sl_plan_json(engine->plan, tokenizer, sl_engine_other_bytes(engine), measure ? &limits : NULL, out, err);
}

sl_status sl_engine_plan_json(sl_engine *engine, bool measure, char **out, sl_error *err) {
  json_t *root;
  SL_TRY(plan_json(engine, measure, &root, err));
  return to_text(root, out, err);
}

/* ---- ops ---- */

/* A shape that every kernel should take: the widths of a large model's layer. */
static sl_op_sig usual_sig(sl_op op, sl_dtype dtype, sl_role role, sl_math math) {
  sl_op_sig sig = {.op = op,
                   .role = role,
                   .math = math,
                   .dtype = dtype,
                   .has_scale = dtype == SL_F8_E4M3,
                   .scale_dtype = dtype == SL_F8_E4M3 ? SL_BF16 : SL_F32,
                   .N = 704,
                   .K = 2816,
                   .top_k = 8,
                   .group = 2};
  if (op == SL_OP_ATTENTION || op == SL_OP_KV_WRITE || op == SL_OP_ROPE) {
    sig.K = 256;
    sig.N = 16 * 256;
  }
  return sig;
}

/* One cell of the table.  The kernel of generated tokens stands for it; where prompts or fast math have another, these
 * are named beside it. */
static json_t *cell_json(sl_op op, const sl_backend *backend, sl_dtype dtype) {
  static const struct {
    const char *key;
    sl_role role;
    sl_math math;
  } ways[] = {{"generated", SL_GENERATED, SL_EXACT},
              {"prompt", SL_PROMPT, SL_EXACT},
              {"generated_fast", SL_GENERATED, SL_FAST},
              {"prompt_fast", SL_PROMPT, SL_FAST}};
  const char *first = NULL;
  sl_refusal why = {.detail = ""};
  json_t *kernels = json_object();
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    sl_op_sig sig = usual_sig(op, dtype, ways[i].role, ways[i].math);
    sl_refusal refusal = {.detail = ""};
    const sl_kernel *kernel = sl_kernel_find(backend, &sig, &refusal);
    if (!kernel && !why.detail[0]) why = refusal;
    if (kernel && !first) first = kernel->name;
    sl_json_put(&kernels, ways[i].key, kernel ? json_string(kernel->name) : json_null());
  }
  json_t *cell = json_pack("{s:s, s:s, s:s, s:o}", "op", sl_op_name(op), "backend", backend->name, "dtype",
                           sl_dtype_name(dtype), "kernel", first ? json_string(first) : json_null());
  if (first)
    sl_json_put(&cell, "kernels", kernels);
  else
    json_decref(kernels);
  sl_json_put(&cell, "reason", first ? json_null() : json_string(sl_reason_name(why.reason)));
  sl_json_put(&cell, "detail", first ? json_null() : json_string(why.detail));
  return cell;
}

static bool makes_sense(sl_op op, sl_dtype dtype) {
  if (!sl_op_has_dtype(op)) return dtype == SL_F32;
  if (op == SL_OP_ATTENTION || op == SL_OP_KV_WRITE) return dtype == SL_F16 || dtype == SL_F32;
  return true;
}

sl_status sl_ops_json(char **out, sl_error *err) {
  int n_backends;
  const sl_backend *const *backends = sl_backends(&n_backends);
  json_t *cells = json_array();
  for (int op = 0; op < SL_N_OPS; op++)
    for (int b = 0; b < n_backends; b++)
      for (int dtype = 0; dtype < SL_N_DTYPES; dtype++)
        if (makes_sense((sl_op)op, (sl_dtype)dtype))
          sl_json_append(&cells, cell_json((sl_op)op, backends[b], (sl_dtype)dtype));
  return to_text(json_pack("{s:o}", "cells", cells), out, err);
}
