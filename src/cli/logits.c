/* sluice logits: every position's logits, the stream between the layers and the routes, as .npy files.
 *
 * Rows go to the files as they are computed, so that T x V never lies in memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "console.h"
#include "fail.h"
#include "interrupt.h"
#include "model.h"
#include "npy.h"

enum { PATH_SIZE = 4096 };

typedef struct logits {
  const cli_args *args;
  cli_model model;
  sl_session *session;
  const int32_t *ids;
  size_t n_ids;
  npy_writer out, hidden, route_ids, route_weights;
  int *expert_layer;   /* [n_layers]: its place among the layers that have experts, -1 not seen yet */
  int n_seen;          /* layers with experts seen so far */
  int32_t *sorted_ids; /* [top_k] */
  float *sorted_weights;
  int32_t *forced;
  sl_error write_error; /* the first failure of an observer */
} logits;

static int refuse(const sl_error *err) {
  console_error("%s", err->text);
  return CLI_REFUSED;
}

/* ---- the observer: rows to files --------------------------------------------------------------------------------- */

/* A callback cannot return an error, so it cancels the computation, which then says so. */
static void put(logits *l, npy_writer *npy, uint64_t first, const void *values, size_t count) {
  if (l->write_error.status != SL_OK) return;
  if (npy_write(npy, first, values, count, &l->write_error) != SL_OK) sl_session_cancel(l->session);
}

static void on_logits(void *user, int first_pos, int n, const float *values) {
  logits *l = user;
  size_t vocab = (size_t)l->model.info.vocab;
  put(l, &l->out, (uint64_t)first_pos * vocab, values, (size_t)n * vocab);
}

static void on_hidden(void *user, int layer, int first_pos, int n, const float *x) {
  logits *l = user;
  size_t hidden = (size_t)l->model.info.hidden;
  put(l, &l->hidden, ((uint64_t)(layer + 1) * l->n_ids + (uint64_t)first_pos) * hidden, x, (size_t)n * hidden);
}

/* By descending weight; of equal ones the lower id first. */
static void sort_route(logits *l, const int32_t *ids, const float *weights) {
  int k = l->model.info.top_k;
  for (int i = 0; i < k; i++) {
    int at = i;
    for (; at > 0 && (weights[i] > l->sorted_weights[at - 1] ||
                      (weights[i] == l->sorted_weights[at - 1] && ids[i] < l->sorted_ids[at - 1]));
         at--) {
      l->sorted_ids[at] = l->sorted_ids[at - 1];
      l->sorted_weights[at] = l->sorted_weights[at - 1];
    }
    l->sorted_ids[at] = ids[i];
    l->sorted_weights[at] = weights[i];
  }
}

static void on_routes(void *user, int layer, int first_pos, int n, const int32_t *ids, const float *weights) {
  logits *l = user;
  size_t k = (size_t)l->model.info.top_k;
  if (l->expert_layer[layer] < 0) l->expert_layer[layer] = l->n_seen++; /* layers come in their order */
  uint64_t row = (uint64_t)l->expert_layer[layer] * l->n_ids + (uint64_t)first_pos;
  for (int i = 0; i < n; i++, row++) {
    sort_route(l, ids + (size_t)i * k, weights + (size_t)i * k);
    put(l, &l->route_ids, row * k, l->sorted_ids, k);
    put(l, &l->route_weights, row * k, l->sorted_weights, k);
  }
}

static sl_status observe(logits *l, sl_error *err) {
  sl_observer observer = {.size = sizeof observer, .user = l};
  if (cli_given(l->args, FLAG_OUT)) observer.on_logits = on_logits;
  if (cli_given(l->args, FLAG_HIDDEN)) observer.on_hidden = on_hidden;
  if (cli_given(l->args, FLAG_ROUTES)) observer.on_routes = on_routes;
  return sl_session_observe(l->session, &observer, err);
}

/* ---- before anything is computed --------------------------------------------------------------------------------- */

static sl_status create_routes(logits *l, sl_error *err) {
  const sl_model_info *info = &l->model.info;
  if (info->n_expert_layers == 0)
    return fail(err, SL_ERR_ARGUMENT, "--routes: %s has no layers with experts", info->path);
  l->expert_layer = malloc((size_t)info->n_layers * sizeof *l->expert_layer);
  l->sorted_ids = malloc((size_t)info->top_k * sizeof *l->sorted_ids);
  l->sorted_weights = malloc((size_t)info->top_k * sizeof *l->sorted_weights);
  if (!l->expert_layer || !l->sorted_ids || !l->sorted_weights) return fail(err, SL_ERR_MEMORY, "out of memory");
  for (int i = 0; i < info->n_layers; i++) l->expert_layer[i] = -1;
  const char *prefix = cli_text(l->args, FLAG_ROUTES);
  char path[PATH_SIZE];
  if (strlen(prefix) > PATH_SIZE - 20) return fail(err, SL_ERR_ARGUMENT, "--routes: the path is too long");
  uint64_t shape[] = {(uint64_t)info->n_expert_layers, l->n_ids, (uint64_t)info->top_k};
  snprintf(path, sizeof path, "%s_ids.npy", prefix);
  sl_status status = npy_create(&l->route_ids, path, "<i4", shape, 3, err);
  snprintf(path, sizeof path, "%s_weights.npy", prefix);
  return status == SL_OK ? npy_create(&l->route_weights, path, "<f4", shape, 3, err) : status;
}

static sl_status create_files(logits *l, sl_error *err) {
  const sl_model_info *info = &l->model.info;
  sl_status status = SL_OK;
  if (cli_given(l->args, FLAG_OUT)) {
    uint64_t shape[] = {l->n_ids, (uint64_t)info->vocab};
    status = npy_create(&l->out, cli_text(l->args, FLAG_OUT), "<f4", shape, 2, err);
  }
  if (status == SL_OK && cli_given(l->args, FLAG_HIDDEN)) {
    uint64_t shape[] = {(uint64_t)info->n_layers + 1, l->n_ids, (uint64_t)info->hidden};
    status = npy_create(&l->hidden, cli_text(l->args, FLAG_HIDDEN), "<f4", shape, 3, err);
  }
  if (status == SL_OK && cli_given(l->args, FLAG_ROUTES)) status = create_routes(l, err);
  return status;
}

/* The last of two would be all that is left. */
static sl_status check_places(const logits *l, sl_error *err) {
  const outfile *files[] = {&l->out.file, &l->hidden.file, &l->route_ids.file, &l->route_weights.file};
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < i; k++)
      if (outfile_same(files[i], files[k]))
        return fail(err, SL_ERR_ARGUMENT, "%s: two outputs would be this file", files[i]->path);
  return SL_OK;
}

/* Every id is an expert, and no token has one twice. */
static sl_status check_forced(const logits *l, const char *path, sl_error *err) {
  int top_k = l->model.info.top_k, n_experts = l->model.info.n_experts;
  size_t rows = (size_t)l->model.info.n_expert_layers * l->n_ids;
  for (size_t row = 0; row < rows; row++) {
    const int32_t *ids = l->forced + row * (size_t)top_k;
    for (int i = 0; i < top_k; i++) {
      bool twice = false;
      for (int j = 0; j < i; j++) twice |= ids[j] == ids[i];
      if (ids[i] < 0 || ids[i] >= n_experts || twice)
        return fail(err, SL_ERR_FORMAT, "%s: [%zu,%zu,%d]: found expert %d%s, expected distinct ones from 0 to %d",
                    path, row / l->n_ids, row % l->n_ids, i, ids[i], twice ? " twice" : "", n_experts - 1);
    }
  }
  return SL_OK;
}

static sl_status read_forced(logits *l, sl_error *err) {
  if (!cli_given(l->args, FLAG_FORCE_ROUTES)) return SL_OK;
  const sl_model_info *info = &l->model.info;
  const char *path = cli_text(l->args, FLAG_FORCE_ROUTES);
  if (info->n_expert_layers == 0)
    return fail(err, SL_ERR_ARGUMENT, "--force-routes: %s has no layers with experts", info->path);
  uint64_t shape[] = {(uint64_t)info->n_expert_layers, l->n_ids, (uint64_t)info->top_k};
  sl_status status = npy_read_i32(path, shape, 3, &l->forced, err);
  return status == SL_OK ? check_forced(l, path, err) : status;
}

static sl_status make_session(logits *l, sl_error *err) {
  sl_status status = sl_session_new(l->model.engine, NULL, &l->session, err);
  if (status == SL_OK && l->forced) status = sl_session_force_routes(l->session, l->forced, l->n_ids, err);
  if (status == SL_OK) status = observe(l, err);
  if (status != SL_OK) return status;
  const char *as = cli_text(l->args, FLAG_AS);
  if (as && strcmp(as, "generated") == 0) return sl_session_feed_generated(l->session, l->ids, l->n_ids, err);
  return sl_session_feed(l->session, l->ids, l->n_ids, err);
}

static sl_status check_ids(const logits *l, sl_error *err) {
  for (size_t i = 0; i < l->n_ids; i++)
    if (l->ids[i] >= l->model.info.vocab)
      return fail(err, SL_ERR_ARGUMENT, "--ids: token %zu is %d, and the vocabulary has %d", i, l->ids[i],
                  l->model.info.vocab);
  uint64_t ctx = model_ctx(&l->model, l->args, l->n_ids);
  if (l->n_ids > ctx)
    return fail(err, SL_ERR_CONTEXT_FULL, "--ids has %zu tokens, and %llu fit in the context", l->n_ids,
                (unsigned long long)ctx);
  return SL_OK;
}

static int prepare(logits *l) {
  if (!cli_given(l->args, FLAG_IDS)) return cli_usage(l->args, "--ids LIST is missing");
  if (!cli_given(l->args, FLAG_OUT) && !cli_given(l->args, FLAG_HIDDEN) && !cli_given(l->args, FLAG_ROUTES))
    return cli_usage(l->args, "nothing to write: give --out F.npy (or --hidden, --routes)");
  l->ids = l->args->values[FLAG_IDS].ids;
  l->n_ids = l->args->values[FLAG_IDS].n_ids;
  int status = model_open(&l->model, l->args);
  if (status != CLI_DONE) return status;
  sl_error err;
  if (check_ids(l, &err) != SL_OK || read_forced(l, &err) != SL_OK) return refuse(&err);
  status = model_load(&l->model, l->args, l->n_ids);
  if (status != CLI_DONE) return status;
  if (create_files(l, &err) != SL_OK || check_places(l, &err) != SL_OK || make_session(l, &err) != SL_OK)
    return refuse(&err);
  return CLI_DONE;
}

/* ---- computing --------------------------------------------------------------------------------------------------- */

static sl_status finish_files(logits *l, sl_error *err) {
  npy_writer *files[] = {&l->out, &l->hidden, &l->route_ids, &l->route_weights};
  for (int i = 0; i < 4; i++) {
    if (!files[i]->file.path) continue;
    sl_status status = npy_finish(files[i], err);
    if (status != SL_OK) return status;
  }
  return SL_OK;
}

static int compute(logits *l) {
  sl_error err;
  interrupt_watch(l->session);
  sl_status status = sl_session_compute(l->session, &err);
  interrupt_watch(NULL);
  console_progress_end();
  if (l->write_error.status != SL_OK) {
    console_error("%s", l->write_error.text);
    return CLI_FAILED;
  }
  if (interrupted()) {
    console_note("interrupted; no file was written");
    return CLI_INTERRUPTED;
  }
  if (status == SL_OK) status = finish_files(l, &err);
  if (status == SL_OK) return CLI_DONE;
  console_error("%s", err.text);
  return CLI_FAILED;
}

int cli_logits(const cli_args *args) {
  logits l = {.args = args};
  int status = prepare(&l);
  if (status == CLI_DONE) status = compute(&l);
  npy_discard(&l.out);
  npy_discard(&l.hidden);
  npy_discard(&l.route_ids);
  npy_discard(&l.route_weights);
  sl_session_free(l.session);
  free(l.expert_layer);
  free(l.sorted_ids);
  free(l.sorted_weights);
  free(l.forced);
  model_close(&l.model);
  return status;
}
