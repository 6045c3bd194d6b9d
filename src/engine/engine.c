#include "engine/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/machine.h"

#ifndef SLUICE_VERSION
#error "the build defines SLUICE_VERSION"
#endif

int sl_abi_version(void) { return SL_ABI_VERSION; }
const char *sl_version(void) { return SLUICE_VERSION; }
void sl_string_free(char *string) { free(string); }
sl_status sl_install_fault_guard(sl_error *err) { return sl_fault_install(err); }

void sl_engine_log(const sl_engine *engine, sl_log_level level, const char *format, ...) {
  if (!engine->settings.log) return;
  char message[512];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  engine->settings.log(engine->settings.user, level, message);
}

/* ---- opening ---- */

static sl_status open_tokenizer(sl_engine *engine, sl_error *err) {
  char *path = sl_path_join(engine->path, "tokenizer.json");
  if (!path) return sl_fail(err, SL_ERR_MEMORY, "engine: no memory");
  sl_status status = SL_OK;
  if (sl_path_exists(path)) status = sl_tokenizer_open(path, engine->model->config.vocab, &engine->tokenizer, err);
  free(path);
  return status;
}

sl_status sl_engine_open(const char *path, const sl_options *options, sl_engine **out, sl_error *err) {
  if (!path || !out) return sl_fail(err, SL_ERR_ARGUMENT, "sl_engine_open: path and out must not be NULL");
  sl_engine *engine = calloc(1, sizeof *engine);
  if (!engine) return sl_fail(err, SL_ERR_MEMORY, "engine: no memory");
  pthread_mutex_init(&engine->lock, NULL);
  engine->path = strdup(path);
  sl_status status = engine->path ? SL_OK : sl_fail(err, SL_ERR_MEMORY, "engine: no memory");
  /* options that no model could satisfy are refused before the folder is looked at */
  if (status == SL_OK) status = sl_settings_make(options, 1 << 24, &engine->settings, err);
  if (status == SL_OK) status = sl_model_open(path, &engine->model, err);
  if (status == SL_OK) status = sl_settings_make(options, engine->model->config.max_ctx, &engine->settings, err);
  if (status == SL_OK) status = sl_plan_make(engine->model, &engine->settings.plan, &engine->plan, err);
  if (status == SL_OK) status = open_tokenizer(engine, err);
  if (status != SL_OK) {
    sl_engine_free(engine);
    return status;
  }
  *out = engine;
  return SL_OK;
}

static void free_room(sl_step_room *room) {
  free(room->ids);
  free(room->positions);
  free(room->wanted);
  free(room->imposed);
  free(room->groups);
  free(room->owners);
  *room = (sl_step_room){0};
}

void sl_engine_free(sl_engine *engine) {
  if (!engine) return;
  sl_exec_free(engine->exec);
  sl_pool_free(engine->pool);
  free_room(&engine->room);
  sl_tokenizer_free(engine->tokenizer);
  sl_plan_free(engine->plan);
  sl_model_free(engine->model);
  pthread_mutex_destroy(&engine->lock);
  free(engine->path);
  free(engine);
}

static sl_status set_ctx(sl_engine *engine, int ctx, sl_error *err) {
  if (engine->is_loaded)
    return sl_fail(err, SL_ERR_STATE, "engine: the context length cannot change once it is loaded");
  int max_ctx = engine->model->config.max_ctx;
  if (ctx < 1) return sl_fail(err, SL_ERR_ARGUMENT, "context of %d tokens, expected at least 1", ctx);
  if (ctx > max_ctx)
    return sl_fail(err, SL_ERR_CONTEXT_FULL, "a context of %d tokens is needed, but the model's maximum is %d", ctx,
                   max_ctx);
  sl_plan_options options = engine->settings.plan;
  options.ctx = ctx;
  sl_plan *plan;
  SL_TRY(sl_plan_make(engine->model, &options, &plan, err));
  sl_plan_free(engine->plan);
  engine->plan = plan;
  engine->settings.plan = options;
  return SL_OK;
}

sl_status sl_engine_set_ctx(sl_engine *engine, int ctx, sl_error *err) {
  pthread_mutex_lock(&engine->lock);
  sl_status status = set_ctx(engine, ctx, err);
  pthread_mutex_unlock(&engine->lock);
  return status;
}

/* ---- loading ---- */

static sl_status make_room(sl_engine *engine, sl_error *err) {
  sl_step_room *room = &engine->room;
  size_t chunk = (size_t)engine->settings.plan.chunk;
  const sl_model *m = engine->model;
  size_t imposed = (size_t)m->program.n_expert_layers * chunk * (size_t)m->config.top_k;
  free_room(room);
  room->ids = calloc(chunk, sizeof *room->ids);
  room->positions = calloc(chunk, sizeof *room->positions);
  room->wanted = calloc(chunk, sizeof *room->wanted);
  room->imposed = calloc(imposed + 1, sizeof *room->imposed);
  room->groups = calloc(chunk, sizeof *room->groups);
  room->owners = calloc(chunk, sizeof *room->owners);
  if (room->ids && room->positions && room->wanted && room->imposed && room->groups && room->owners) return SL_OK;
  return sl_fail(err, SL_ERR_MEMORY, "engine: no memory for a step of %zu tokens", chunk);
}

static void loading(void *user, uint64_t done, uint64_t total) {
  const sl_engine *engine = user;
  if (engine->settings.progress) engine->settings.progress(engine->settings.user, "loading", done, total);
}

static sl_status load(sl_engine *engine, sl_error *err) {
  if (engine->is_loaded) return SL_OK;
  if (!engine->pool) SL_TRY(sl_pool_new(engine->settings.plan.threads, &engine->pool, err));
  SL_TRY(make_room(engine, err));
  uint64_t beside = engine->plan->kv_bytes + engine->plan->value_bytes + engine->plan->scratch_bytes;
  uint64_t available = sl_memory_available();
  bool all_resident;
  SL_TRY(
      sl_model_load(engine->model, available > beside ? available - beside : 0, loading, engine, &all_resident, err));
  if (!all_resident)
    sl_engine_log(
        engine, SL_LOG_WARNING,
        "the weights (%.1f GiB) do not fit into the memory that is free (%.1f GiB): experts are paged in from "
        "the file as they are needed, which is slow",
        (double)(engine->model->matrix_bytes + engine->model->expert_bytes) / 0x1p30, (double)available / 0x1p30);
  sl_exec_free(engine->exec);
  engine->exec = NULL;
  SL_TRY(sl_exec_new(engine->plan, engine->pool, &engine->exec, err));
  engine->is_loaded = true;
  return SL_OK;
}

sl_status sl_engine_load(sl_engine *engine, sl_error *err) {
  pthread_mutex_lock(&engine->lock);
  sl_status status = load(engine, err);
  pthread_mutex_unlock(&engine->lock);
  return status;
}

/* ---- asking ---- */

void sl_engine_info(const sl_engine *engine, sl_model_info *info) {
  const sl_model_config *c = &engine->model->config;
  size_t size = info->size;
  sl_model_info full = {.size = size,
                        .path = engine->path,
                        .family = c->family,
                        .n_layers = c->n_layers,
                        .hidden = c->hidden,
                        .vocab = c->vocab,
                        .n_experts = c->n_experts,
                        .top_k = c->top_k,
                        .n_expert_layers = engine->model->program.n_expert_layers,
                        .ctx = engine->settings.plan.ctx,
                        .max_ctx = c->max_ctx,
                        .threads = engine->settings.plan.threads,
                        .chunk = engine->settings.plan.chunk,
                        .bos = c->bos,
                        .has_tokenizer = engine->tokenizer != NULL,
                        .eos = c->eos,
                        .n_eos = c->n_eos};
  memcpy(info, &full, size < sizeof full ? size : sizeof full);
}

bool sl_engine_arm(const sl_engine *engine, int i, const char **kernel, uint64_t *runs, double *seconds) {
  if (i < 0 || i >= engine->plan->n_arms) return false;
  *kernel = engine->plan->arms[i].kernel->name;
  *runs = engine->plan->arms[i].runs;
  *seconds = engine->plan->arms[i].seconds;
  return true;
}

uint64_t sl_engine_other_bytes(const sl_engine *engine) {
  const sl_model *m = engine->model;
  uint64_t vocab = (uint64_t)m->config.vocab, ctx = (uint64_t)engine->settings.plan.ctx;
  uint64_t session = vocab * (sizeof(float) + 16) + ctx * (sizeof(int32_t) + sizeof(sl_role)); /* logits, sampler */
  uint64_t tables = (uint64_t)m->checkpoint->n_tensors * 256 +
                    (uint64_t)m->program.n_expert_layers * (uint64_t)m->config.n_experts * 256;
  uint64_t threads = (uint64_t)engine->settings.plan.threads * (64 << 10);
  return session + tables + threads + (8 << 20); /* the program itself, its libraries and heap: measured, 6 to 8 MiB */
}

sl_status sl_engine_limits(sl_engine *engine, double seconds, double *read_bytes_per_s, double *f32_flops,
                           double *bf16_flops, sl_error *err) {
  sl_limits limits;
  pthread_mutex_lock(&engine->lock);
  sl_status status = SL_OK;
  if (!engine->pool) status = sl_pool_new(engine->settings.plan.threads, &engine->pool, err);
  if (status == SL_OK) status = sl_limits_measure(engine->pool, seconds, &limits, err);
  pthread_mutex_unlock(&engine->lock);
  if (status != SL_OK) return status;
  *read_bytes_per_s = limits.read_bytes_per_s;
  *f32_flops = limits.f32_flops;
  *bf16_flops = limits.bf16_flops;
  return SL_OK;
}
