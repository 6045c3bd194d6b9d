/* sluice bench: the speed, and the machine's limits measured in the same run, because a figure without its yardstick
 * says little. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "console.h"
#include "interrupt.h"
#include "model.h"
#include "report.h"
#include "show.h"
#include "table.h"

enum { RUNS = 3, PROMPT = 512, DECODE = 64, SLICES = 8 };
static const double ENOUGH_S = 120; /* no further run is begun after this long */
static const double LIMITS_S = 0.2;

typedef struct limits {
  double read_bytes_per_s, f32_flops, bf16_flops;
} limits;

typedef struct bench {
  const cli_args *args;
  cli_model model;
  sl_session *session;
  uint64_t n_prompt, n_decode;
  int32_t *ids;                            /* [n_prompt] */
  limits limits;                           /* peaks: the best seen; bandwidth: of the run at hand, a mean */
  double bytes_per_token, flops_per_token; /* what plan says a token costs */
  uint64_t peak_bytes;                     /* of the warm-up, before the limits' buffer is there */
  int n_runs;
  double prompt_tps[RUNS], decode_tps[RUNS], ttft_s[RUNS], read_bytes_per_s[RUNS], share_of_read[RUNS];
} bench;

/* The same ids in every run, away from the special tokens at the beginning of the vocabulary where it is large. */
static void make_ids(int32_t *ids, uint64_t n, int vocab) {
  uint64_t state = 1;
  int first = vocab > 2048 ? 1024 : 0;
  for (uint64_t i = 0; i < n; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    ids[i] = first + (int32_t)((state >> 33) % (uint64_t)(vocab - first));
  }
}

/* The bandwidth of a shared machine changes by half within seconds, so it is measured between slices of the decoding
 * and averaged over them; a peak of arithmetic is the best that was seen. */
static sl_status measure_limits(bench *b, sl_error *err) {
  limits now;
  sl_status status =
      sl_engine_limits(b->model.engine, LIMITS_S, &now.read_bytes_per_s, &now.f32_flops, &now.bf16_flops, err);
  if (status != SL_OK) return status;
  b->limits.read_bytes_per_s += now.read_bytes_per_s / SLICES;
  if (now.f32_flops > b->limits.f32_flops) b->limits.f32_flops = now.f32_flops;
  if (now.bf16_flops > b->limits.bf16_flops) b->limits.bf16_flops = now.bf16_flops;
  return SL_OK;
}

static sl_status read_costs(bench *b, sl_error *err) {
  char *text;
  sl_status status = sl_engine_plan_json(b->model.engine, false, &text, err);
  if (status != SL_OK) return status;
  json_t *plan = show_parse(text), *per_token = json_object_get(plan, "per_token");
  b->bytes_per_token = show_number(per_token, "bytes");
  b->flops_per_token = show_number(per_token, "flops");
  json_decref(plan);
  return SL_OK;
}

static sl_stats stats_of(const sl_session *session) {
  sl_stats stats = {.size = sizeof stats};
  sl_session_stats(session, &stats);
  return stats;
}

/* The prompt and n_decode tokens behind it; statistics may go on counting over a reset, so differences are taken. */
static sl_status one_run(bench *b, bool with_limits, sl_error *err) {
  sl_session_reset(b->session);
  sl_stats start = stats_of(b->session);
  double began = report_now();
  int32_t id;
  sl_status status = sl_session_feed(b->session, b->ids, b->n_prompt, err);
  if (status == SL_OK) status = sl_session_next(b->session, &id, err);
  if (status != SL_OK) return status;
  b->ttft_s[b->n_runs] = report_now() - began;
  sl_stats middle = stats_of(b->session);
  b->limits.read_bytes_per_s = 0;
  for (uint64_t slice = 0, i = 0; slice < SLICES && status == SL_OK && !interrupted(); slice++) {
    if (with_limits) status = measure_limits(b, err);
    for (; i < (slice + 1) * b->n_decode / SLICES && status == SL_OK; i++)
      status = sl_session_next(b->session, &id, err);
  }
  if (status != SL_OK) return status;
  sl_stats end = stats_of(b->session);
  double decode_s = end.decode_s - middle.decode_s, prompt_s = middle.prompt_s - start.prompt_s;
  b->prompt_tps[b->n_runs] = prompt_s > 0 ? (double)b->n_prompt / prompt_s : 0;
  b->decode_tps[b->n_runs] = decode_s > 0 ? (double)b->n_decode / decode_s : 0;
  double read = b->limits.read_bytes_per_s;
  b->read_bytes_per_s[b->n_runs] = read;
  b->share_of_read[b->n_runs] = read > 0 ? b->decode_tps[b->n_runs] * b->bytes_per_token / read : 0;
  return SL_OK;
}

/* The first run is not counted: it meets the model's pages for the first time. */
static sl_status measure(bench *b, sl_error *err) {
  sl_status status = one_run(b, false, err);
  b->peak_bytes = report_peak_bytes();
  double began = report_now();
  while (status == SL_OK && !interrupted() && b->n_runs < RUNS && (b->n_runs == 0 || report_now() - began < ENOUGH_S)) {
    status = one_run(b, true, err);
    if (status == SL_OK) b->n_runs++;
    console_progress_end();
  }
  return status;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(const double *values, int n) {
  double sorted[RUNS];
  memcpy(sorted, values, (size_t)n * sizeof *values);
  qsort(sorted, (size_t)n, sizeof *sorted, ascending);
  return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static json_t *list(const double *values, int n) {
  json_t *array = json_array();
  for (int i = 0; i < n; i++)
    if (json_array_append_new(array, json_real(values[i])) != 0) {
      json_decref(array);
      return NULL;
    }
  return array;
}

/* *report becomes NULL, and stays it, where a part of it cannot be made. */
static void put(json_t **report, const char *key, json_t *value) {
  if (json_object_set_new(*report, key, value) == 0) return;
  json_decref(*report);
  *report = NULL;
}

/* null where there is no such limit. */
static json_t *share(double rate, double limit) { return limit > 0 ? json_real(rate / limit) : json_null(); }

/* Keys are set one by one: the report is read by programs, and its order by people. */
static json_t *make_report(const bench *b) {
  cli_report base;
  report_fill(&base, b->session, median(b->ttft_s, b->n_runs), "length");
  base.prompt_tokens = b->n_prompt, base.decode_tokens = b->n_decode;
  base.prompt_tps = median(b->prompt_tps, b->n_runs), base.decode_tps = median(b->decode_tps, b->n_runs);
  base.peak_bytes = b->peak_bytes;
  json_t *json = report_json(&base, b->model.engine);
  if (json) json_object_del(json, "ended");
  double compute = base.prompt_tps * b->flops_per_token;
  put(&json, "bytes_per_token", json_real(b->bytes_per_token));
  put(&json, "flops_per_token", json_real(b->flops_per_token));
  put(&json, "limits",
      json_pack("{s:f, s:f, s:f}", "read_bytes_per_s", median(b->read_bytes_per_s, b->n_runs), "f32_flops",
                b->limits.f32_flops, "bf16_flops", b->limits.bf16_flops));
  put(&json, "decode_share_of_read_bandwidth", json_real(median(b->share_of_read, b->n_runs)));
  put(&json, "prompt_share_of_f32_peak", share(compute, b->limits.f32_flops));
  put(&json, "prompt_share_of_bf16_peak", share(compute, b->limits.bf16_flops));
  put(&json, "runs",
      json_pack("{s:o, s:o, s:o, s:o, s:o}", "prompt_tps", list(b->prompt_tps, b->n_runs), "decode_tps",
                list(b->decode_tps, b->n_runs), "ttft_s", list(b->ttft_s, b->n_runs), "read_bytes_per_s",
                list(b->read_bytes_per_s, b->n_runs), "decode_share_of_read_bandwidth",
                list(b->share_of_read, b->n_runs)));
  return json;
}

static char *percent(const json_t *report, const char *key) {
  const json_t *value = json_object_get(report, key);
  return json_is_number(value) ? text_format("%.0f %%", 100 * json_number_value(value)) : text_copy("-");
}

static void print_report(const bench *b, const json_t *report) {
  char read[32], f32[32], bf16[32], peak[16];
  char *of_read = percent(report, "decode_share_of_read_bandwidth"),
       *of_f32 = percent(report, "prompt_share_of_f32_peak");
  char *of_bf16 = percent(report, "prompt_share_of_bf16_peak");
  out_format("%s, median of %d runs\n", b->model.info.path, b->n_runs);
  out_format("prompt   %llu tokens  %9.1f tokens/s  %s of f32 peak, %s of bf16 peak\n", (unsigned long long)b->n_prompt,
             show_number(report, "prompt_tps"), of_f32, of_bf16);
  out_format("decode   %llu tokens  %9.1f tokens/s  %s of read bandwidth\n", (unsigned long long)b->n_decode,
             show_number(report, "decode_tps"), of_read);
  out_format("latency  %.3f s to the first token\n", show_number(report, "ttft_s"));
  out_format("memory   %s at the peak\n", report_bytes(peak, show_number(report, "peak_bytes")));
  out_format("limits   reads %s, f32 %s, bf16 %s\n", show_rate(read, median(b->read_bytes_per_s, b->n_runs), "B/s"),
             show_rate(f32, b->limits.f32_flops, "FLOPS"), show_rate(bf16, b->limits.bf16_flops, "FLOPS"));
  free(of_read), free(of_f32), free(of_bf16);
}

static int tell(const bench *b) {
  json_t *report = make_report(b);
  bool as_json = cli_on(b->args, FLAG_JSON);
  char *text = report && as_json ? json_dumps(report, JSON_INDENT(2)) : NULL;
  if (text)
    out_format("%s\n", text);
  else if (report && !as_json)
    print_report(b, report);
  else
    out_no_memory();
  free(text);
  json_decref(report);
  return CLI_DONE;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static uint64_t count(const cli_args *args, cli_flag_id id, uint64_t otherwise) {
  return cli_given(args, id) ? args->values[id].integer : otherwise;
}

static int prepare(bench *b, sl_error *err) {
  b->n_prompt = count(b->args, FLAG_PROMPT_TOKENS, PROMPT);
  b->n_decode = count(b->args, FLAG_TOKENS, DECODE);
  int status = model_open(&b->model, b->args);
  if (status != CLI_DONE) return status;
  uint64_t tokens = b->n_prompt + b->n_decode + 1, ctx = model_ctx(&b->model, b->args, tokens);
  if (tokens > ctx) {
    console_error("%llu tokens of prompt and %llu behind it do not fit in the context of %llu; -p and -n say how many",
                  (unsigned long long)b->n_prompt, (unsigned long long)b->n_decode, (unsigned long long)ctx);
    return CLI_REFUSED;
  }
  status = model_load(&b->model, b->args, tokens);
  if (status != CLI_DONE) return status;
  b->ids = malloc(b->n_prompt * sizeof *b->ids);
  sl_sampling greedy = {.size = sizeof greedy, .top_p = 1};
  if (!b->ids) *err = (sl_error){SL_ERR_MEMORY, "out of memory"};
  if (!b->ids || read_costs(b, err) != SL_OK || sl_session_new(b->model.engine, &greedy, &b->session, err) != SL_OK) {
    console_error("%s", err->text);
    return CLI_REFUSED;
  }
  make_ids(b->ids, b->n_prompt, b->model.info.vocab);
  return CLI_DONE;
}

int cli_bench(const cli_args *args) {
  bench b = {.args = args};
  sl_error err;
  int status = prepare(&b, &err);
  if (status == CLI_DONE) {
    interrupt_watch(b.session);
    sl_status measured = measure(&b, &err);
    interrupt_watch(NULL);
    console_progress_end();
    if (interrupted())
      status = CLI_INTERRUPTED;
    else if (measured == SL_OK)
      status = tell(&b);
    else
      console_error("%s", err.text), status = CLI_FAILED;
  }
  sl_session_free(b.session);
  free(b.ids);
  model_close(&b.model);
  return status;
}
