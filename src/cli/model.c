#include "model.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "console.h"
#include "fail.h"

static bool exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0;
}

/* Joins into a buffer of PATH_MAX; false if it does not fit. */
static bool join(char *out, const char *folder, const char *rest) {
  int n = snprintf(out, PATH_MAX, "%s/%s", folder, rest);
  return n > 0 && n < PATH_MAX;
}

/* ---- the demo model ---------------------------------------------------------------------------------------------- */

/* From the program's own place: in the build tree, beside it, and installed. */
static sl_status resolve_demo(char **path, sl_error *err) {
  static const char *const places[] = {"models/demo", "../models/demo", "../share/sluice/models/demo"};
  char self[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0) return fail(err, SL_ERR_NOT_FOUND, "the demo model: where this program lies is not known");
  self[n] = 0;
  *strrchr(self, '/') = 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    char candidate[PATH_MAX];
    if (!join(candidate, self, places[i])) continue;
    *path = realpath(candidate, NULL);
    if (*path) return SL_OK;
  }
  return fail(err, SL_ERR_NOT_FOUND, "no MODEL was named, and the demo model is in none of %s/{%s,%s,%s}", self,
              places[0], places[1], places[2]);
}

/* ---- the Hugging Face cache -------------------------------------------------------------------------------------- */

static bool hub_folder(char *out) {
  const char *hf = getenv("HF_HOME"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (hf && *hf) return join(out, hf, "hub");
  if (xdg && *xdg) return join(out, xdg, "huggingface/hub");
  return home && *home && join(out, home, ".cache/huggingface/hub");
}

/* org/name: one slash, and nothing that could lead elsewhere. */
static bool is_hub_name(const char *name) {
  const char *slash = strchr(name, '/');
  if (!slash || slash == name || !slash[1] || strchr(slash + 1, '/') || name[0] == '.' || slash[1] == '.') return false;
  return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") == strlen(name);
}

/* The commit that refs/main names.  It becomes part of a path, so it may hold letters and digits only. */
static bool read_ref(const char *file, char *commit, size_t size) {
  FILE *f = fopen(file, "re");
  if (!f) return false;
  size_t n = fread(commit, 1, size - 1, f);
  fclose(f);
  while (n && (commit[n - 1] == '\n' || commit[n - 1] == '\r')) n--;
  commit[n] = 0;
  return n && strspn(commit, "0123456789abcdefABCDEF") == n;
}

static sl_status resolve_hub(const char *name, char **path, sl_error *err) {
  char hub[PATH_MAX], folder[PATH_MAX], ref[PATH_MAX], rest[PATH_MAX], commit[128];
  if (!hub_folder(hub))
    return fail(err, SL_ERR_NOT_FOUND, "%s: no such folder, and neither HF_HOME nor HOME says where models are", name);
  const char *slash = strchr(name, '/');
  snprintf(rest, sizeof rest, "models--%.*s--%s", (int)(slash - name), name, slash + 1);
  if (!join(folder, hub, rest) || !join(ref, folder, "refs/main"))
    return fail(err, SL_ERR_NOT_FOUND, "%s: the path of the model cache is too long", name);
  if (!exists(folder))
    return fail(err, SL_ERR_NOT_FOUND,
                "%.200s: no such folder, and no such model in the cache: looked for ./%.200s and %.300s; "
                "hf download %.200s fetches it",
                name, name, folder, name);
  if (!read_ref(ref, commit, sizeof commit))
    return fail(err, SL_ERR_NOT_FOUND, "%s: %.600s does not name a commit", name, ref);
  snprintf(rest, sizeof rest, "snapshots/%s", commit);
  char snapshot[PATH_MAX];
  if (!join(snapshot, folder, rest) || !(*path = realpath(snapshot, NULL)))
    return fail(err, SL_ERR_NOT_FOUND, "%s: refs/main names %s, and there is no folder %.600s/%s", name, commit, folder,
                rest);
  return SL_OK;
}

sl_status model_resolve(const char *name, char **path, sl_error *err) {
  if (!name) return resolve_demo(path, err);
  if (!*name) return fail(err, SL_ERR_ARGUMENT, "MODEL is empty: expected a folder or org/name");
  *path = NULL;
  if (exists(name)) {
    *path = strdup(name);
    return *path ? SL_OK : fail(err, SL_ERR_MEMORY, "out of memory");
  }
  if (is_hub_name(name)) return resolve_hub(name, path, err);
  return fail(err, SL_ERR_NOT_FOUND, "%.500s: no such folder (and it is not an org/name of the model cache)", name);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int refuse(const sl_error *err) {
  console_progress_end();
  console_error("%s", err->text);
  return CLI_REFUSED;
}

static void read_info(cli_model *model) {
  model->info.size = sizeof model->info;
  sl_engine_info(model->engine, &model->info);
}

int model_open(cli_model *model, const cli_args *args) {
  *model = (cli_model){0};
  sl_error err;
  if (model_resolve(args->n_operands ? args->operands[0] : NULL, &model->path, &err) != SL_OK) return refuse(&err);
  sl_options options = args->options;
  options.log = console_log;
  options.progress = console_progress;
  if (sl_engine_open(model->path, &options, &model->engine, &err) != SL_OK) {
    model->engine = NULL;
    return refuse(&err);
  }
  read_info(model);
  return CLI_DONE;
}

uint64_t model_ctx(const cli_model *model, const cli_args *args, uint64_t tokens) {
  uint64_t ctx = (uint64_t)model->info.ctx, most = (uint64_t)model->info.max_ctx;
  if (cli_given(args, FLAG_CTX) || tokens <= ctx) return ctx;
  return tokens < most ? tokens : most;
}

int model_load(cli_model *model, const cli_args *args, uint64_t tokens) {
  sl_error err;
  int ctx = (int)model_ctx(model, args, tokens);
  if (ctx != model->info.ctx && sl_engine_set_ctx(model->engine, ctx, &err) != SL_OK) return refuse(&err);
  if (sl_engine_load(model->engine, &err) != SL_OK) return refuse(&err);
  console_progress_end();
  read_info(model);
  return CLI_DONE;
}

void model_close(cli_model *model) {
  sl_engine_free(model->engine);
  free(model->path);
  *model = (cli_model){0};
}
