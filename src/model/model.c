#include "model/model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"

/* Towers of the multimodal checkpoints.  Only these are skipped; whatever else is left over is an error. */
static const sl_skip known_skips[] = {
    {.prefix = "model.vision_tower.", .why = "vision tower: sluice runs the text model"},
    {.prefix = "model.embed_vision.", .why = "vision projection: sluice runs the text model"},
    {.prefix = "model.vision_embedder.", .why = "vision embedder: sluice runs the text model"},
    {.prefix = "model.audio_tower.", .why = "audio tower: sluice runs the text model"},
    {.prefix = "model.embed_audio.", .why = "audio projection: sluice runs the text model"},
    {.prefix = "model.multi_modal_projector.", .why = "vision projection: sluice runs the text model"},
    {.prefix = "vision_tower.", .why = "vision tower: sluice runs the text model"},
    {.prefix = "multi_modal_projector.", .why = "vision projection: sluice runs the text model"},
};

static const char *find_prefix(const sl_checkpoint *checkpoint) {
  static const char *const prefixes[] = {"model.language_model.", "model."};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
    char name[64];
    snprintf(name, sizeof name, "%sembed_tokens.weight", prefixes[i]);
    if (sl_checkpoint_find(checkpoint, name)) return prefixes[i];
  }
  return NULL;
}

static bool skip_known(sl_model *model, const sl_tensor *tensor) {
  for (size_t i = 0; i < sizeof known_skips / sizeof *known_skips; i++) {
    if (strncmp(tensor->name, known_skips[i].prefix, strlen(known_skips[i].prefix)) != 0) continue;
    int at = 0;
    while (at < model->n_skips && model->skips[at].prefix != known_skips[i].prefix) at++;
    if (at == model->n_skips) model->skips[model->n_skips++] = known_skips[i];
    model->skips[at].n_tensors++;
    model->skips[at].bytes += tensor->bytes;
    return true;
  }
  return false;
}

static sl_status account_for_all(sl_model *model, sl_error *err) {
  sl_skip shared = {.prefix = "layers that share keys and values",
                    .why = "the config makes these layers use an earlier layer's keys and values"};
  int n_left = 0;
  const sl_tensor *first_left = NULL;
  for (int i = 0; i < model->checkpoint->n_tensors; i++) {
    const sl_tensor *tensor = &model->checkpoint->tensors[i];
    if (model->used[i] == SL_TENSOR_USED) continue;
    if (model->used[i] == SL_TENSOR_IGNORED) {
      shared.n_tensors++;
      shared.bytes += tensor->bytes;
    } else if (!skip_known(model, tensor)) {
      if (!n_left++) first_left = tensor;
    }
  }
  if (shared.n_tensors) model->skips[model->n_skips++] = shared;
  if (!n_left) return SL_OK;
  char others[48] = "";
  if (n_left > 1) snprintf(others, sizeof others, " (and %d more)", n_left - 1);
  return sl_fail(err, SL_ERR_UNSUPPORTED,
                 "%s: tensor %s%s is used by nothing in this model as config.json describes it", model->config.family,
                 first_left->name, others);
}

static void count_bytes(sl_model *model) {
  const sl_program *p = &model->program;
  for (int i = 0; i < p->n_matrices; i++)
    model->matrix_bytes += p->matrices[i].tensor->bytes + (p->matrices[i].scale ? p->matrices[i].scale->bytes : 0);
  for (int i = 0; i < p->n_expert_layers; i++)
    model->expert_bytes += p->expert_layers[i].expert_bytes * (uint64_t)model->config.n_experts;
  for (int i = 0; i < p->n_vectors; i++) model->vector_bytes += (uint64_t)p->vectors[i].n * sizeof(float);
}

static const struct {
  const char *name;
  void (*write)(sl_builder *b, const sl_model_config *c);
} families[] = {{"gemma4", sl_gemma4_program}, {"gemma3", sl_gemma3_program}};

static void write_family(sl_builder *b, const sl_model_config *c) {
  size_t i = 0, n = sizeof families / sizeof *families;
  while (i < n && strcmp(families[i].name, c->family) != 0) i++;
  if (i < n)
    families[i].write(b, c);
  else
    sl_b_fail(b, SL_ERR_UNSUPPORTED, "no program is written for this family");
}

static sl_status write_program(sl_model *model, sl_error *err) {
  const sl_model_config *c = &model->config;
  const char *prefix = find_prefix(model->checkpoint);
  if (!prefix)
    return sl_fail(err, SL_ERR_FORMAT,
                   "%s: tensor embed_tokens.weight is missing, looked for it under model.language_model. and model.",
                   model->checkpoint->path);
  int n_expert_layers = 0;
  for (int l = 0; l < c->n_layers; l++) n_expert_layers += c->layers[l].is_moe;
  SL_TRY(sl_expert_store_new(n_expert_layers, c->n_experts, &model->experts, err));
  sl_builder b = {.checkpoint = model->checkpoint,
                  .program = &model->program,
                  .store = model->experts,
                  .prefix = prefix,
                  .family = c->family,
                  .layer = SL_NONE,
                  .eps = (float)c->eps,
                  .quantized = c->quantization != SL_QUANT_NONE,
                  .norm_add = c->norm_plus_one ? 1.0f : 0.0f,
                  .used = model->used,
                  .err = err};
  model->program.head_start = SL_NONE;
  write_family(&b, c);
  return b.status;
}

sl_status sl_model_open(const char *path, sl_model **out, sl_error *err) {
  sl_model *model = calloc(1, sizeof *model);
  if (!model) return sl_fail(err, SL_ERR_MEMORY, "%s: no memory", path);
  sl_status status = sl_checkpoint_open(path, &model->checkpoint, err);
  if (status == SL_OK) status = sl_model_config_read(model->checkpoint, &model->config, err);
  if (status == SL_OK) {
    model->used = calloc((size_t)model->checkpoint->n_tensors + 1, 1);
    if (!model->used) status = sl_fail(err, SL_ERR_MEMORY, "%s: no memory", path);
  }
  if (status == SL_OK) status = write_program(model, err);
  if (status == SL_OK) status = account_for_all(model, err);
  if (status != SL_OK) {
    sl_model_free(model);
    return status;
  }
  count_bytes(model);
  *out = model;
  return SL_OK;
}

void sl_model_free(sl_model *model) {
  if (!model) return;
  sl_program_free(&model->program);
  sl_expert_store_free(model->experts);
  sl_model_config_free(&model->config);
  sl_checkpoint_free(model->checkpoint);
  free(model->used);
  free(model);
}

/* ---- loading ---- */

static sl_status expand(sl_vector *v, sl_error *err) {
  if (!v->data) v->data = malloc((size_t)v->n * sizeof(float));
  if (!v->data) return sl_fail(err, SL_ERR_MEMORY, "%s: no memory for %d numbers", v->tensor->name, v->n);
  sl_load_row(v->data, v->tensor->data, v->tensor->dtype, 0, v->n);
  for (int i = 0; i < v->n; i++) {
    if (!isfinite(v->data[i]))
      return sl_fail(err, SL_ERR_NOT_FINITE, "%s: element %d is %g, expected a finite number", v->tensor->name, i,
                     (double)v->data[i]);
    v->data[i] = (v->data[i] + v->add) * v->factor;
  }
  return SL_OK;
}

typedef struct small_job {
  sl_model *model;
  sl_status status;
  sl_error *err;
} small_job;

/* Vectors and row multipliers: small, always needed, and checked here. */
static void load_small(void *arg) {
  small_job *job = arg;
  sl_program *p = &job->model->program;
  for (int i = 0; i < p->n_vectors && job->status == SL_OK; i++) job->status = expand(&p->vectors[i], job->err);
  for (int i = 0; i < p->n_matrices && job->status == SL_OK; i++) {
    int row = sl_weight_bad_scale(&p->matrices[i].weight);
    if (row >= 0)
      job->status = sl_fail(job->err, SL_ERR_NOT_FINITE, "%s: element %d is %g, expected a finite number",
                            p->matrices[i].scale->name, row, (double)sl_weight_scale(&p->matrices[i].weight, row));
  }
}

/* A stretch of a mapped file. */
typedef struct extent {
  const char *base;
  size_t size;
  const char *path;
} extent;

static int by_address(const void *a, const void *b) {
  const extent *x = a, *y = b;
  return x->base < y->base ? -1 : x->base > y->base;
}

static bool is_expert(const sl_tensor *tensor) { return strstr(tensor->name, ".experts.") != NULL; }

/* The used tensors' stretches in address order, neighbours joined. */
static extent *extents(const sl_model *model, bool experts, int *n_out) {
  const sl_checkpoint *c = model->checkpoint;
  extent *list = malloc(((size_t)c->n_tensors + 1) * sizeof *list);
  if (!list) return NULL;
  int n = 0;
  for (int i = 0; i < c->n_tensors; i++) {
    const sl_tensor *t = &c->tensors[i];
    if (model->used[i] != SL_TENSOR_USED || (!experts && is_expert(t))) continue;
    list[n++] = (extent){t->data, (size_t)t->bytes, c->files[t->file].path};
  }
  qsort(list, (size_t)n, sizeof *list, by_address);
  int joined = 0;
  for (int i = 0; i < n; i++) {
    extent *last = joined ? &list[joined - 1] : NULL;
    if (last && last->path == list[i].path && list[i].base <= last->base + last->size)
      last->size = (size_t)(list[i].base + list[i].size - last->base);
    else
      list[joined++] = list[i];
  }
  *n_out = joined;
  return list;
}

static void touch(void *arg) {
  const extent *e = arg;
  volatile const char *p = e->base;
  for (size_t i = 0; i < e->size; i += 4096) (void)p[i];
}

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* Maps the pages of one stretch and waits until they are in memory, so that no kernel meets a page fault later. */
static sl_status populate(const extent *e, sl_error *err) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t first = (uintptr_t)e->base & ~(page - 1);
  size_t size = (uintptr_t)e->base + e->size - first;
  int failed;
  do failed = madvise((void *)first, size, MADV_POPULATE_READ);
  while (failed && errno == EINTR);
  if (!failed) return SL_OK;
  if (errno == EFAULT || errno == EIO)
    return sl_fail(err, SL_ERR_IO, "%s: cannot be read (truncated since it was opened, or a disk error)", e->path);
  extent whole = *e; /* a system without MADV_POPULATE_READ (before Linux 5.14) */
  return sl_fault_run(touch, &whole) ? SL_OK : sl_fault_fail(err);
}

#define POPULATE_BYTES ((size_t)32 << 20)

static sl_status populate_all(const extent *list, int n, sl_model_progress progress, void *user, sl_error *err) {
  uint64_t total = 0, done = 0;
  for (int i = 0; i < n; i++) total += list[i].size;
  for (int i = 0; i < n; i++) {
    for (size_t at = 0; at < list[i].size; at += POPULATE_BYTES) {
      size_t rest = list[i].size - at;
      extent part = {list[i].base + at, rest < POPULATE_BYTES ? rest : POPULATE_BYTES, list[i].path};
      SL_TRY(populate(&part, err));
      done += part.size;
      if (progress) progress(user, done, total);
    }
  }
  return SL_OK;
}

/* Large pages, where file system and kernel have them for files: a token reads more than a GiB, and with pages of 4 KiB
 * a good part of the time goes into looking them up (docs/EXPERIMENTS.md).  It works for what is not in memory yet; a
 * kernel without it says no, which does no harm. */
static void ask_for_large_pages(const sl_checkpoint *c) {
  for (int i = 0; i < c->n_files; i++)
    (void)madvise((void *)(uintptr_t)c->files[i].base, (size_t)c->files[i].size, MADV_HUGEPAGE);
}

sl_status sl_model_load(sl_model *model, uint64_t memory, sl_model_progress progress, void *user, bool *all_resident,
                        sl_error *err) {
  *all_resident = model->matrix_bytes + model->expert_bytes <= memory;
  ask_for_large_pages(model->checkpoint);
  int n = 0;
  extent *list = extents(model, *all_resident, &n);
  if (!list) return sl_fail(err, SL_ERR_MEMORY, "%s: no memory", model->checkpoint->path);
  sl_status status = populate_all(list, n, progress, user, err);
  free(list);
  SL_TRY(status);
  small_job job = {.model = model, .err = err};
  if (!sl_fault_run(load_small, &job)) return sl_fault_fail(err);
  return job.status;
}
