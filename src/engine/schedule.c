/* Steps: which tokens of which sessions are computed together.
 *
 * A session's tokens are a list; those from n_computed on are pending.  Prompt tokens of all sessions fill steps of up
 * to `chunk` rows; generated tokens go one a session and step.  A step has one role.  Nothing that is chosen here
 * changes a bit of any result. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

/* One call of sl_sessions_next or sl_session_compute. */
typedef struct batch {
  sl_engine *engine;
  sl_session *const *sessions;
  sl_status *status; /* [n] */
  size_t n;
  sl_status first_status;
  sl_error *err; /* gets the first failure's sentence */
  uint64_t prompt_done, prompt_total;
  bool apart;   /* each session has steps of its own: one of them failed a common one */
  sl_step step; /* the running one */
} batch;

static int pending(const sl_session *s) { return s->n_tokens - s->n_computed; }

static bool is_forced(const sl_session *s) { return s->forced && s->n_computed < s->n_forced; }

static void fail_session(batch *b, const sl_session *s, sl_status status, const sl_error *err) {
  size_t i = 0;
  while (b->sessions[i] != s) i++;
  b->status[i] = status;
  if (b->first_status != SL_OK) return;
  b->first_status = status;
  if (b->err) *b->err = *err;
}

/* ---- choosing the rows ---- */

/* How many of the session's next tokens go into a step of this role that has `room` rows left. */
static int take_rows(const sl_session *s, sl_role role, int room) {
  int n = 0, most = role == SL_GENERATED ? 1 : room;
  while (n < most && n < pending(s) && s->roles[s->n_computed + n] == role) n++;
  if (is_forced(s) && n > s->n_forced - s->n_computed) n = s->n_forced - s->n_computed; /* a whole step or none of it */
  return n;
}

static void add_group(batch *b, sl_session *s, int n) {
  sl_step_room *room = &b->engine->room;
  sl_step *step = &b->step;
  room->owners[step->n_groups] = s;
  room->groups[step->n_groups++] =
      (sl_row_group){.kv = s->kv, .first_row = step->M, .n_rows = n, .first_pos = s->n_computed};
  bool finishes = n == pending(s);
  for (int i = 0; i < n; i++, step->M++) {
    room->ids[step->M] = s->tokens[s->n_computed + i];
    room->positions[step->M] = s->n_computed + i;
    if (s->observer.on_logits || (finishes && i == n - 1)) room->wanted[step->n_wanted++] = step->M;
  }
}

static void impose(batch *b, const sl_session *s) {
  const sl_model *m = b->engine->model;
  sl_step *step = &b->step;
  size_t top_k = (size_t)m->config.top_k;
  step->imposed_stride = (size_t)b->engine->settings.plan.chunk * top_k;
  for (int l = 0; l < m->program.n_expert_layers; l++)
    memcpy(b->engine->room.imposed + (size_t)l * step->imposed_stride,
           s->forced + ((size_t)l * (size_t)s->n_forced + (size_t)s->n_computed) * top_k,
           (size_t)step->M * top_k * sizeof(int32_t));
  step->imposed = b->engine->room.imposed;
}

/* Fills b->step from the sessions that have work; the first one's next token says the role.  M = 0: nothing to do. */
static void gather(batch *b) {
  sl_step_room *room = &b->engine->room;
  int chunk = b->engine->settings.plan.chunk;
  b->step = (sl_step){.ids = room->ids, .positions = room->positions, .wanted = room->wanted, .groups = room->groups};
  for (size_t i = 0; i < b->n && b->step.M < chunk; i++) {
    sl_session *s = b->sessions[i];
    if (b->status[i] != SL_OK || !pending(s)) continue;
    if (!b->step.M) b->step.role = s->roles[s->n_computed];
    if (b->step.M && (b->apart || is_forced(s))) continue; /* it has steps of its own */
    int n = take_rows(s, b->step.role, chunk - b->step.M);
    if (n) add_group(b, s, n);
    if (!is_forced(s)) continue;
    impose(b, s);
    return;
  }
}

/* ---- what the executor tells ---- */

static bool is_cancelled(void *user) {
  batch *b = user;
  for (int g = 0; g < b->step.n_groups; g++)
    if (atomic_load(&b->engine->room.owners[g]->is_cancelled)) return true;
  return false;
}

static void on_hidden(void *user, int layer, const float *x) {
  batch *b = user;
  size_t hidden = (size_t)b->engine->model->config.hidden;
  for (int g = 0; g < b->step.n_groups; g++) {
    const sl_row_group *group = &b->step.groups[g];
    const sl_observer *o = &b->engine->room.owners[g]->observer;
    if (o->on_hidden)
      o->on_hidden(o->user, layer, group->first_pos, group->n_rows, x + (size_t)group->first_row * hidden);
  }
}

static void on_routes(void *user, int layer, const int32_t *ids, const float *weights) {
  batch *b = user;
  size_t top_k = (size_t)b->engine->model->config.top_k;
  for (int g = 0; g < b->step.n_groups; g++) {
    const sl_row_group *group = &b->step.groups[g];
    const sl_observer *o = &b->engine->room.owners[g]->observer;
    size_t at = (size_t)group->first_row * top_k;
    if (o->on_routes) o->on_routes(o->user, layer, group->first_pos, group->n_rows, ids + at, weights + at);
  }
}

static int group_of_row(const sl_step *step, int row) {
  int g = 0;
  while (row >= step->groups[g].first_row + step->groups[g].n_rows) g++;
  return g;
}

static void on_logits(void *user, int first, int n, const float *logits) {
  batch *b = user;
  size_t vocab = (size_t)b->engine->model->config.vocab;
  for (int i = 0; i < n; i++, logits += vocab) {
    int row = b->step.wanted[first + i];
    const sl_row_group *group = &b->step.groups[group_of_row(&b->step, row)];
    sl_session *s = b->engine->room.owners[group - b->step.groups];
    if (s->observer.on_logits) s->observer.on_logits(s->observer.user, b->step.positions[row], 1, logits);
    if (row == group->first_row + group->n_rows - 1) memcpy(s->logits, logits, vocab * sizeof(float));
  }
}

static void watch(batch *b) {
  b->step.user = b;
  b->step.is_cancelled = is_cancelled;
  b->step.on_logits = on_logits;
  for (int g = 0; g < b->step.n_groups; g++) {
    const sl_observer *o = &b->engine->room.owners[g]->observer;
    if (o->on_hidden) b->step.on_hidden = on_hidden;
    if (o->on_routes) b->step.on_routes = on_routes;
  }
}

/* ---- running ---- */

static bool has_bad_row(const sl_exec *exec, const sl_row_group *group) {
  for (int i = 0; i < group->n_rows; i++)
    if (exec->is_bad[group->first_row + i]) return true;
  return false;
}

static void account(batch *b, sl_session *s, int n_rows, double seconds) {
  s->n_computed += n_rows;
  s->has_logits = !pending(s);
  s->stats.steps++;
  if (b->step.role == SL_PROMPT) {
    s->stats.prompt_tokens += (uint64_t)n_rows;
    s->stats.prompt_s += seconds;
    b->prompt_done += (uint64_t)n_rows;
  } else {
    s->stats.decode_tokens += (uint64_t)n_rows;
    s->stats.decode_s += seconds;
  }
}

/* A cancelled step counts for nobody: what it wrote is written again, with the same bytes, when it is repeated. */
static void end_cancelled(batch *b, const sl_error *error) {
  for (int g = 0; g < b->step.n_groups; g++) {
    sl_session *s = b->engine->room.owners[g];
    if (atomic_exchange(&s->is_cancelled, false)) fail_session(b, s, SL_ERR_CANCELLED, error);
  }
}

static void end_step(batch *b, sl_status status, const sl_error *error, double seconds) {
  const sl_exec *exec = b->engine->exec;
  for (int g = 0; g < b->step.n_groups; g++) {
    sl_session *s = b->engine->room.owners[g];
    sl_status own = status != SL_OK ? status : has_bad_row(exec, &b->step.groups[g]) ? SL_ERR_NOT_FINITE : SL_OK;
    if (own == SL_OK) {
      account(b, s, b->step.groups[g].n_rows, seconds);
    } else {
      s->has_failed = true;
      s->has_logits = false;
      fail_session(b, s, own, error);
    }
  }
}

static void report_progress(const batch *b) {
  const sl_settings *settings = &b->engine->settings;
  if (settings->progress && b->prompt_total && b->step.role == SL_PROMPT)
    settings->progress(settings->user, "prompt", b->prompt_done, b->prompt_total);
}

static void run_all(batch *b) {
  for (;;) {
    gather(b);
    if (!b->step.M) return;
    watch(b);
    sl_error error = {.status = SL_OK};
    double start = sl_now();
    report_progress(b);
    sl_status status = sl_exec_run(b->engine->exec, &b->step, &error);
    bool is_common = b->step.n_groups > 1;
    if (status == SL_ERR_CANCELLED)
      end_cancelled(b, &error);
    else if (status != SL_OK && is_common)
      b->apart = true; /* whose fault it was shows when it is repeated, with the same bytes, for one after the other */
    else
      end_step(b, status, &error, sl_now() - start);
    report_progress(b);
  }
}

static void start(batch *b) {
  for (size_t i = 0; i < b->n; i++) {
    sl_session *s = b->sessions[i];
    sl_error error;
    if (s->has_failed) {
      sl_fail(&error, SL_ERR_STATE, "session: a step of it failed; reset it first");
      fail_session(b, s, SL_ERR_STATE, &error);
    } else if (atomic_exchange(&s->is_cancelled, false)) {
      sl_fail(&error, SL_ERR_CANCELLED, "cancelled");
      fail_session(b, s, SL_ERR_CANCELLED, &error);
    }
    for (int t = s->n_computed; t < s->n_tokens; t++) b->prompt_total += s->roles[t] == SL_PROMPT;
  }
}

static sl_status check_batch(sl_session *const *sessions, size_t n, sl_error *err) {
  for (size_t i = 0; i < n; i++) {
    if (sessions[i]->engine != sessions[0]->engine)
      return sl_fail(err, SL_ERR_ARGUMENT, "session %zu belongs to another engine than session 0", i);
    for (size_t j = 0; j < i; j++)
      if (sessions[j] == sessions[i]) return sl_fail(err, SL_ERR_ARGUMENT, "sessions %zu and %zu are the same", j, i);
  }
  return SL_OK;
}

/* Computes everything pending; b->status says how each session fared. */
static void compute(batch *b) {
  pthread_mutex_lock(&b->engine->lock);
  start(b);
  run_all(b);
  pthread_mutex_unlock(&b->engine->lock);
}

static sl_status check_room(const sl_session *s, sl_error *err) {
  int ctx = s->engine->plan->options.ctx;
  if (s->n_tokens <= ctx) return SL_OK; /* the token that `next` gave last may be one too many */
  return sl_fail(err, SL_ERR_CONTEXT_FULL, "the context of %d tokens is full (ctx sets it)", ctx);
}

sl_status sl_session_compute(sl_session *s, sl_error *err) {
  SL_TRY(check_room(s, err));
  sl_status status = SL_OK;
  batch b = {.engine = s->engine, .sessions = &s, .status = &status, .n = 1, .err = err};
  compute(&b);
  return b.first_status;
}

/* ---- the next token ---- */

static sl_status check_next(const sl_session *s, sl_error *err) {
  if (s->n_tokens == 0) return sl_fail(err, SL_ERR_STATE, "session: nothing was fed, so there is no next token");
  return check_room(s, err);
}

static int32_t sample(sl_session *s) {
  const sl_model_config *c = &s->engine->model->config;
  int32_t id = sl_sampler_next(s->sampler, s->logits, &s->sampling, c->suppress, c->n_suppress);
  s->tokens[s->n_tokens] = id;
  s->roles[s->n_tokens++] = SL_GENERATED;
  return id;
}

sl_status sl_sessions_next(sl_session *const *sessions, size_t n, int32_t *ids, sl_error *err) {
  if (n == 0) return SL_OK;
  SL_TRY(check_batch(sessions, n, err));
  for (size_t i = 0; i < n; i++) ids[i] = -1;
  sl_status *status = calloc(n, sizeof *status);
  if (!status) return sl_fail(err, SL_ERR_MEMORY, "no memory for %zu sessions", n);
  batch b = {.engine = sessions[0]->engine, .sessions = sessions, .status = status, .n = n, .err = err};
  for (size_t i = 0; i < n; i++) {
    sl_error error;
    sl_status own = check_next(sessions[i], &error);
    if (own != SL_OK) fail_session(&b, sessions[i], own, &error);
  }
  compute(&b);
  for (size_t i = 0; i < n; i++)
    if (status[i] == SL_OK) ids[i] = sample(sessions[i]);
  free(status);
  return b.first_status;
}

sl_status sl_session_next(sl_session *s, int32_t *id, sl_error *err) { return sl_sessions_next(&s, 1, id, err); }
