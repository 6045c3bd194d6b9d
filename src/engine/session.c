#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/engine.h"

/* ---- sampling ---- */

void sl_sampling_init(const sl_engine *engine, sl_sampling *sampling) {
  const sl_model_config *c = &engine->model->config;
  *sampling = (sl_sampling){.size = sizeof *sampling,
                            .temperature = c->temperature,
                            .top_k = c->sample_top_k,
                            .top_p = c->top_p,
                            .min_p = c->min_p};
}

sl_status sl_sampling_check(const sl_sampling *s, sl_error *err) {
  if (s->size != sizeof *s)
    return sl_fail(err, SL_ERR_ARGUMENT, "sampling: size is %zu, expected %zu (sl_sampling_init sets it)", s->size,
                   sizeof *s);
  if (!(s->temperature >= 0 && s->temperature <= 100))
    return sl_fail(err, SL_ERR_ARGUMENT, "temperature: found %g, expected 0 (greedy) to 100", s->temperature);
  if (s->top_k < 0) return sl_fail(err, SL_ERR_ARGUMENT, "top-k: found %d, expected 0 (off) or more", s->top_k);
  if (!(s->top_p > 0 && s->top_p <= 1))
    return sl_fail(err, SL_ERR_ARGUMENT, "top-p: found %g, expected more than 0 up to 1 (off)", s->top_p);
  if (!(s->min_p >= 0 && s->min_p <= 1))
    return sl_fail(err, SL_ERR_ARGUMENT, "min-p: found %g, expected 0 (off) to 1", s->min_p);
  return SL_OK;
}

/* ---- making ---- */

/* One mapping for the keys and values of all layers.  Fresh pages are zero, and cost nothing until they are used. */
static sl_status make_kv(sl_session *s, sl_error *err) {
  const sl_plan *plan = s->engine->plan;
  const sl_program *p = &plan->model->program;
  s->kv = calloc((size_t)p->n_kv + 1, sizeof *s->kv);
  s->kv_size = (size_t)plan->kv_bytes;
  void *memory = mmap(NULL, s->kv_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || !s->kv)
    return sl_fail(err, SL_ERR_MEMORY, "session: no memory for %zu bytes of keys and values (a smaller ctx needs less)",
                   s->kv_size);
  char *at = s->kv_memory = memory;
  for (int i = 0; i < p->n_kv; i++) {
    size_t half = (size_t)sl_plan_kv_bytes(plan, &p->kv[i]) / 2;
    s->kv[i] = (sl_kv){.k = at,
                       .v = at + half,
                       .dtype = plan->options.kv_dtype,
                       .n_kv_heads = p->kv[i].n_kv_heads,
                       .head_dim = p->kv[i].head_dim,
                       .capacity = sl_plan_kv_capacity(plan, &p->kv[i])};
    at += 2 * half;
  }
  return SL_OK;
}

static sl_status make_session(sl_session *s, sl_error *err) {
  size_t room = (size_t)s->engine->plan->options.ctx + 1; /* the token sampled at a full context is still told */
  s->tokens = malloc(room * sizeof *s->tokens);
  s->roles = malloc(room * sizeof *s->roles);
  s->logits = malloc((size_t)s->engine->model->config.vocab * sizeof *s->logits);
  if (!s->tokens || !s->roles || !s->logits) return sl_fail(err, SL_ERR_MEMORY, "session: no memory");
  SL_TRY(make_kv(s, err));
  return sl_sampler_new(s->engine->model->config.vocab, s->sampling.seed, &s->sampler, err);
}

sl_status sl_session_new(sl_engine *engine, const sl_sampling *sampling, sl_session **out, sl_error *err) {
  if (sampling) SL_TRY(sl_sampling_check(sampling, err));
  SL_TRY(sl_engine_load(engine, err));
  sl_session *s = calloc(1, sizeof *s);
  if (!s) return sl_fail(err, SL_ERR_MEMORY, "session: no memory");
  s->engine = engine;
  s->stats.size = sizeof s->stats;
  if (sampling)
    s->sampling = *sampling;
  else
    sl_sampling_init(engine, &s->sampling);
  sl_status status = make_session(s, err);
  if (status != SL_OK) {
    sl_session_free(s);
    return status;
  }
  *out = s;
  return SL_OK;
}

void sl_session_free(sl_session *s) {
  if (!s) return;
  if (s->kv_memory) munmap(s->kv_memory, s->kv_size);
  free(s->kv);
  free(s->tokens);
  free(s->roles);
  free(s->logits);
  free(s->forced);
  sl_sampler_free(s->sampler);
  free(s);
}

void sl_session_reset(sl_session *s) {
  s->n_tokens = s->n_computed = 0;
  s->has_logits = s->has_failed = false;
  sl_sampler_reset(s->sampler, s->sampling.seed);
}

/* ---- feeding ---- */

size_t sl_session_length(const sl_session *s) { return (size_t)s->n_tokens; }

size_t sl_session_room(const sl_session *s) {
  int ctx = s->engine->plan->options.ctx;
  return s->n_tokens < ctx ? (size_t)(ctx - s->n_tokens) : 0;
}

static sl_status feed(sl_session *s, const int32_t *ids, size_t n, sl_role role, sl_error *err) {
  int vocab = s->engine->model->config.vocab;
  if (s->has_failed) return sl_fail(err, SL_ERR_STATE, "session: a step of it failed; reset it first");
  if (n > sl_session_room(s))
    return sl_fail(err, SL_ERR_CONTEXT_FULL, "%zu tokens do not fit: the context holds %d, of which %zu are free", n,
                   s->engine->plan->options.ctx, sl_session_room(s));
  for (size_t i = 0; i < n; i++)
    if (ids[i] < 0 || ids[i] >= vocab)
      return sl_fail(err, SL_ERR_ARGUMENT, "token id %d at place %zu: expected 0 to %d", ids[i], i, vocab - 1);
  for (size_t i = 0; i < n; i++) {
    s->tokens[s->n_tokens] = ids[i];
    s->roles[s->n_tokens++] = role;
  }
  return SL_OK;
}

sl_status sl_session_feed(sl_session *s, const int32_t *ids, size_t n, sl_error *err) {
  return feed(s, ids, n, SL_PROMPT, err);
}

sl_status sl_session_feed_generated(sl_session *s, const int32_t *ids, size_t n, sl_error *err) {
  return feed(s, ids, n, SL_GENERATED, err);
}

/* ---- the rest ---- */

const float *sl_session_logits(const sl_session *s) { return s->has_logits ? s->logits : NULL; }

void sl_session_cancel(sl_session *s) { atomic_store(&s->is_cancelled, true); }

sl_status sl_session_observe(sl_session *s, const sl_observer *observer, sl_error *err) {
  if (observer && observer->size != sizeof *observer)
    return sl_fail(err, SL_ERR_ARGUMENT, "observer: size is %zu, expected %zu", observer->size, sizeof *observer);
  s->observer = observer ? *observer : (sl_observer){0};
  return SL_OK;
}

static sl_status check_forced(const sl_session *s, const int32_t *ids, size_t n_tokens, sl_error *err) {
  const sl_model *m = s->engine->model;
  size_t top_k = (size_t)m->config.top_k, rows = (size_t)m->program.n_expert_layers * n_tokens;
  for (size_t row = 0; row < rows; row++) {
    const int32_t *chosen = ids + row * top_k;
    for (size_t i = 0; i < top_k; i++) {
      if (chosen[i] < 0 || chosen[i] >= m->config.n_experts)
        return sl_fail(err, SL_ERR_ARGUMENT, "imposed routes: expert %d (layer %zu, token %zu), expected 0 to %d",
                       chosen[i], row / n_tokens, row % n_tokens, m->config.n_experts - 1);
      for (size_t j = 0; j < i; j++)
        if (chosen[j] == chosen[i])
          return sl_fail(err, SL_ERR_ARGUMENT, "imposed routes: expert %d twice (layer %zu, token %zu)", chosen[i],
                         row / n_tokens, row % n_tokens);
    }
  }
  return SL_OK;
}

sl_status sl_session_force_routes(sl_session *s, const int32_t *ids, size_t n_tokens, sl_error *err) {
  const sl_model *m = s->engine->model;
  if (ids && !m->program.n_expert_layers)
    return sl_fail(err, SL_ERR_ARGUMENT, "imposed routes: this model has no experts");
  if (ids && (n_tokens == 0 || n_tokens > (size_t)s->engine->plan->options.ctx))
    return sl_fail(err, SL_ERR_ARGUMENT, "imposed routes: %zu tokens, expected 1 to %d", n_tokens,
                   s->engine->plan->options.ctx);
  if (ids) SL_TRY(check_forced(s, ids, n_tokens, err));
  int32_t *copy = NULL;
  if (ids) {
    size_t bytes = (size_t)m->program.n_expert_layers * n_tokens * (size_t)m->config.top_k * sizeof *copy;
    copy = malloc(bytes);
    if (!copy) return sl_fail(err, SL_ERR_MEMORY, "imposed routes: no memory for %zu bytes", bytes);
    memcpy(copy, ids, bytes);
  }
  free(s->forced);
  s->forced = copy;
  s->n_forced = ids ? (int)n_tokens : 0;
  return SL_OK;
}

void sl_session_stats(const sl_session *s, sl_stats *stats) {
  size_t size = stats->size;
  sl_stats full = s->stats;
  full.size = size;
  full.planned_bytes =
      sl_plan_total_bytes(s->engine->plan, sl_engine_other_bytes(s->engine) +
                                               (s->engine->tokenizer ? sl_tokenizer_bytes(s->engine->tokenizer) : 0));
  memcpy(stats, &full, size < sizeof full ? size : sizeof full);
}
