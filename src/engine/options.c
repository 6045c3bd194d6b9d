#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "engine/engine.h"

void sl_options_init(sl_options *options) { *options = (sl_options){.size = sizeof *options}; }

/* One row an option: what sl_options_set, help and the checks know of it. */
typedef struct option_row {
  const char *name, *help;
  const char *choices; /* "exact, fast", or NULL for numbers */
  int lowest, highest;
} option_row;

static const option_row rows[] = {
    {"threads", "threads that compute (default: as many as CPUs may be used)", NULL, 1, 256},
    {"chunk", "tokens of a prompt per step (default 512)", NULL, 1, 4096},
    {"ctx", "tokens of context per session (default: the smaller of the model's maximum and 8192)", NULL, 1, 1 << 24},
    {"math", "exact: matmul inputs keep at least 16 bits of mantissa (default); fast: rounded to bf16", "exact, fast",
     0, 0},
    {"kv", "format of keys and values: f16 (default) or f32", "f16, f32", 0, 0},
    {"kernels", "instruction set: auto (default), avx512, avx2 or reference", "auto, avx512, avx2, reference", 0, 0},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static const option_row *find_row(const char *name) {
  for (int i = 0; i < N_ROWS; i++)
    if (!strcmp(rows[i].name, name)) return &rows[i];
  return NULL;
}

const char *const *sl_option_names(void) {
  static const char *const names[] = {"threads", "chunk", "ctx", "math", "kv", "kernels", NULL};
  return names;
}

const char *sl_option_help(const char *name) {
  const option_row *row = find_row(name);
  return row ? row->help : NULL;
}

/* The choice itself, whose storage is for ever, or NULL. */
static const char *choose(const option_row *row, const char *value) {
  static const char *const all[] = {"exact", "fast", "f16", "f32", "auto", "avx512", "avx2", "reference"};
  size_t n = strlen(value);
  if (n == 0 || strpbrk(value, ", ")) return NULL;
  const char *at = strstr(row->choices, value);
  if (!at || (at != row->choices && at[-1] != ' ') || (at[n] != '\0' && at[n] != ',')) return NULL;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(all[i], value)) return all[i];
  return NULL;
}

static sl_status check_choice(const char *name, const char **value, sl_error *err) {
  const option_row *row = find_row(name);
  const char *chosen = choose(row, *value);
  if (!chosen)
    return sl_fail(err, SL_ERR_ARGUMENT, "option %s: found \"%s\", expected one of %s", name, *value, row->choices);
  *value = chosen;
  return SL_OK;
}

static sl_status check_number(const char *name, long long value, sl_error *err) {
  const option_row *row = find_row(name);
  if (value >= row->lowest && value <= row->highest) return SL_OK;
  return sl_fail(err, SL_ERR_ARGUMENT, "option %s: found %lld, expected %d to %d", name, value, row->lowest,
                 row->highest);
}

static sl_status parse_number(const option_row *row, const char *value, int *out, sl_error *err) {
  char *end;
  errno = 0;
  long long number = strtoll(value, &end, 10);
  bool begins_well = isdigit((unsigned char)*value) || (*value == '-' && isdigit((unsigned char)value[1]));
  if (!begins_well || *end || errno) /* strtoll alone would take " 5" and "+5" */
    return sl_fail(err, SL_ERR_ARGUMENT, "option %s: found \"%s\", expected a number from %d to %d", row->name, value,
                   row->lowest, row->highest);
  SL_TRY(check_number(row->name, number, err));
  *out = (int)number;
  return SL_OK;
}

sl_status sl_options_set(sl_options *options, const char *name, const char *value, sl_error *err) {
  const option_row *row = find_row(name);
  if (!row)
    return sl_fail(err, SL_ERR_ARGUMENT, "option %s: unknown; there are threads, chunk, ctx, math, kv, kernels", name);
  if (!strcmp(name, "threads")) return parse_number(row, value, &options->threads, err);
  if (!strcmp(name, "chunk")) return parse_number(row, value, &options->chunk, err);
  if (!strcmp(name, "ctx")) return parse_number(row, value, &options->ctx, err);
  const char **field = !strcmp(name, "math") ? &options->math : !strcmp(name, "kv") ? &options->kv : &options->kernels;
  SL_TRY(check_choice(name, &value, err));
  *field = value;
  return SL_OK;
}

sl_status sl_settings_make(const sl_options *options, int max_ctx, sl_settings *out, sl_error *err) {
  sl_options o;
  sl_options_init(&o);
  if (options) {
    if (options->size != sizeof o)
      return sl_fail(err, SL_ERR_ARGUMENT, "options: size is %zu, expected %zu (sl_options_init sets it)",
                     options->size, sizeof o);
    o = *options;
  }
  if (!o.threads) o.threads = sl_cpu_count() < 256 ? sl_cpu_count() : 256;
  if (!o.chunk) o.chunk = 512;
  if (!o.ctx) o.ctx = max_ctx < 8192 ? max_ctx : 8192;
  if (!o.math) o.math = "exact";
  if (!o.kv) o.kv = "f16";
  if (!o.kernels) o.kernels = "auto";
  SL_TRY(check_number("threads", o.threads, err));
  SL_TRY(check_number("chunk", o.chunk, err));
  SL_TRY(check_number("ctx", o.ctx, err));
  SL_TRY(check_choice("math", &o.math, err));
  SL_TRY(check_choice("kv", &o.kv, err));
  SL_TRY(check_choice("kernels", &o.kernels, err));
  if (o.ctx > max_ctx)
    return sl_fail(err, SL_ERR_CONTEXT_FULL, "option ctx: found %d, but the model's maximum is %d", o.ctx, max_ctx);
  *out = (sl_settings){.plan = {.threads = o.threads,
                                .chunk = o.chunk,
                                .ctx = o.ctx,
                                .math = strcmp(o.math, "fast") ? SL_EXACT : SL_FAST,
                                .kv_dtype = strcmp(o.kv, "f32") ? SL_F16 : SL_F32,
                                .kernels = o.kernels},
                       .log = o.log,
                       .progress = o.progress,
                       .user = o.user};
  return sl_cpu_arms(o.kernels, out->plan.backends, &out->plan.n_backends, err);
}
