/* sluice run: continues a text. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "console.h"
#include "input.h"
#include "interrupt.h"
#include "model.h"
#include "outfile.h"
#include "report.h"
#include "table.h"

enum { GROWTH = 1024 }; /* room for an answer of unknown length behind a prompt that fills the default context */

typedef struct run {
  const cli_args *args;
  cli_model model;
  bool as_ids; /* prints ids, not text */
  cli_flag_id prompt;
  int32_t *ids; /* the prompt; owned */
  size_t n_ids;
  uint64_t most; /* tokens to generate */
  sl_session *session;
  sl_sampling sampling;
  sl_text_stream *text;
  double ttft_s;
  uint64_t made;
  const char *ended;
} run;

static int refuse(const sl_error *err) {
  console_error("%s", err->text);
  return CLI_REFUSED;
}

/* ---- before anything is computed --------------------------------------------------------------------------------- */

static int check_usage(run *r) {
  static const cli_flag_id prompts[] = {FLAG_PROMPT, FLAG_FILE, FLAG_IDS};
  int n = cli_exclusive(r->args, prompts, 3, &r->prompt);
  if (n == 0) return cli_usage(r->args, "what is the prompt? give one of -p TEXT, -f FILE and --ids LIST");
  if (n > 1) return cli_usage(r->args, "-p, -f and --ids exclude each other");
  const char *print = cli_text(r->args, FLAG_PRINT);
  r->as_ids = print && strcmp(print, "ids") == 0;
  return CLI_DONE;
}

static int read_prompt(run *r) {
  sl_error err;
  if (r->prompt == FLAG_IDS) {
    const cli_value *given = &r->args->values[FLAG_IDS];
    r->ids = malloc(given->n_ids * sizeof *r->ids);
    if (!r->ids) return refuse(&(sl_error){SL_ERR_MEMORY, "out of memory"});
    memcpy(r->ids, given->ids, given->n_ids * sizeof *r->ids);
    r->n_ids = given->n_ids;
    return CLI_DONE;
  }
  const char *words = cli_text(r->args, r->prompt);
  char *file = NULL;
  size_t size = strlen(words);
  if (r->prompt == FLAG_FILE && input_read(words, &file, &size, &err) != SL_OK) return refuse(&err);
  sl_status status = sl_tokenize(r->model.engine, file ? file : words, size, cli_on(r->args, FLAG_SPECIAL), true,
                                 &r->ids, &r->n_ids, &err);
  free(file);
  return status == SL_OK ? CLI_DONE : refuse(&err);
}

/* sl_tokenize's ids are freed by their own function, and those of --ids are ours. */
static void free_prompt(run *r) {
  if (r->prompt == FLAG_IDS)
    free(r->ids);
  else
    sl_ids_free(r->ids);
}

static int check_prompt(const run *r) {
  for (size_t i = 0; i < r->n_ids; i++)
    if (r->ids[i] < 0 || r->ids[i] >= r->model.info.vocab) {
      console_error("token %zu of the prompt is %d, and the vocabulary has %d", i, r->ids[i], r->model.info.vocab);
      return CLI_REFUSED;
    }
  if (r->n_ids) return CLI_DONE;
  console_error("the prompt has no tokens");
  return CLI_REFUSED;
}

/* How long the context must be, and whether the prompt fits. */
static int check_room(run *r, uint64_t *tokens) {
  bool counted = cli_given(r->args, FLAG_TOKENS);
  uint64_t most = counted ? r->args->values[FLAG_TOKENS].integer : GROWTH;
  *tokens = r->n_ids + most;
  uint64_t ctx = model_ctx(&r->model, r->args, *tokens);
  if (r->n_ids > ctx) {
    console_error("the prompt has %zu tokens, and %llu fit in the context%s", r->n_ids, (unsigned long long)ctx,
                  cli_given(r->args, FLAG_CTX) ? " that --ctx sets" : ", the model's maximum");
    return CLI_REFUSED;
  }
  if (counted && *tokens > ctx + 1)
    console_note("%llu tokens were asked for; the context of %llu is full after %llu", (unsigned long long)most,
                 (unsigned long long)ctx, (unsigned long long)(ctx - r->n_ids + 1)); /* the last is not read again */
  r->most = counted ? most : UINT64_MAX;
  return CLI_DONE;
}

/* Flags over the checkpoint's own settings. */
static int choose_sampling(run *r) {
  sl_sampling *sampling = &r->sampling;
  *sampling = (sl_sampling){.size = sizeof *sampling};
  sl_sampling_init(r->model.engine, sampling);
  const cli_value *v = r->args->values;
  if (v[FLAG_TEMPERATURE].given) sampling->temperature = v[FLAG_TEMPERATURE].real;
  if (v[FLAG_TOP_K].given) sampling->top_k = (int)v[FLAG_TOP_K].integer;
  if (v[FLAG_TOP_P].given) sampling->top_p = v[FLAG_TOP_P].real;
  if (v[FLAG_MIN_P].given) sampling->min_p = v[FLAG_MIN_P].real;
  if (v[FLAG_SEED].given) sampling->seed = v[FLAG_SEED].integer;
  sl_error err;
  return sl_sampling_check(sampling, &err) == SL_OK ? CLI_DONE : cli_usage(r->args, "%s", err.text);
}

static int make_session(run *r) {
  sl_error err;
  if (!r->as_ids && sl_text_stream_new(r->model.engine, cli_on(r->args, FLAG_SPECIAL), &r->text, &err) != SL_OK)
    return refuse(&err);
  if (sl_session_new(r->model.engine, &r->sampling, &r->session, &err) != SL_OK) return refuse(&err);
  if (sl_session_feed(r->session, r->ids, r->n_ids, &err) != SL_OK) return refuse(&err);
  return CLI_DONE;
}

/* A place for --stats that cannot be written is found before the work, not after it. */
static int check_stats(const run *r) {
  if (!cli_given(r->args, FLAG_STATS)) return CLI_DONE;
  outfile probe;
  sl_error err;
  if (outfile_open(&probe, cli_text(r->args, FLAG_STATS), 0, &err) != SL_OK) return refuse(&err);
  outfile_discard(&probe);
  return CLI_DONE;
}

static int prepare(run *r) {
  int status = check_usage(r);
  if (status == CLI_DONE) status = model_open(&r->model, r->args);
  if (status != CLI_DONE) return status;
  if (!r->as_ids && !r->model.info.has_tokenizer) {
    console_error("%s: has no tokenizer.json, so no text can be printed; --ids with --print ids works",
                  r->model.info.path);
    return CLI_REFUSED;
  }
  uint64_t tokens = 0;
  status = read_prompt(r);
  if (status == CLI_DONE) status = check_prompt(r);
  if (status == CLI_DONE) status = check_room(r, &tokens);
  if (status == CLI_DONE) status = check_stats(r);
  if (status == CLI_DONE) status = choose_sampling(r);
  if (status == CLI_DONE) status = model_load(&r->model, r->args, tokens);
  if (status == CLI_DONE) status = make_session(r);
  return status;
}

/* ---- computing --------------------------------------------------------------------------------------------------- */

static bool is_end(const run *r, int32_t id) {
  for (int i = 0; i < r->model.info.n_eos; i++)
    if (r->model.info.eos[i] == id) return !cli_on(r->args, FLAG_IGNORE_EOS);
  return false;
}

/* Prints what the id adds; -1 ends the text.  False when stdout takes no more or the text failed. */
static bool print_token(run *r, int32_t id, sl_error *err) {
  if (r->as_ids) {
    if (id < 0) return r->made == 0 || out_write("\n", 1);
    out_format(r->made > 1 ? ",%d" : "%d", id);
    return out_flush();
  }
  const char *text;
  size_t size;
  err->status = sl_text_stream_put(r->text, id, &text, &size, err);
  if (err->status != SL_OK) return false;
  return size == 0 || (out_write(text, size) && out_flush());
}

static sl_status generate(run *r, sl_error *err) {
  double start = report_now();
  if (r->most == 0) return sl_session_compute(r->session, err);
  for (r->ended = "length"; r->made < r->most;) {
    int32_t id;
    sl_status status = sl_session_next(r->session, &id, err);
    if (status == SL_ERR_CONTEXT_FULL && r->made) {
      r->ended = "context full";
      return SL_OK;
    }
    if (status != SL_OK) return status;
    if (r->made++ == 0) r->ttft_s = report_now() - start;
    bool end = is_end(r, id);
    err->status = SL_OK;
    if ((!end || r->as_ids || cli_on(r->args, FLAG_SPECIAL)) && !print_token(r, id, err)) return err->status;
    if (end) {
      r->ended = "end token";
      return SL_OK;
    }
  }
  return SL_OK;
}

/* The statistics, for people and for --stats. */
static int tell(run *r) {
  cli_report report;
  report_fill(&report, r->session, r->ttft_s, r->ended);
  if (out_is_terminal()) console_report("%s", ""); /* a line between the text and what it cost */
  report_print(&report, r->model.engine);
  if (!cli_given(r->args, FLAG_STATS)) return CLI_DONE;
  json_t *json = report_json(&report, r->model.engine);
  char *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
  json_decref(json);
  sl_error err = {SL_ERR_MEMORY, "out of memory for --stats"};
  sl_status status = text ? outfile_save(cli_text(r->args, FLAG_STATS), text, strlen(text), &err) : SL_ERR_MEMORY;
  free(text);
  if (status == SL_OK) return CLI_DONE;
  console_error("%s", err.text);
  return CLI_FAILED;
}

static int compute(run *r) {
  sl_error err = {0};
  interrupt_watch(r->session);
  sl_status status = generate(r, &err);
  interrupt_watch(NULL);
  console_progress_end();
  bool cancelled = status == SL_ERR_CANCELLED || (status == SL_OK && interrupted());
  if (cancelled) r->ended = "interrupted";
  if (status == SL_OK || cancelled) {
    sl_error late;
    print_token(r, -1, &late); /* a failure to write is remembered by the console */
  }
  if (out_is_terminal() && !r->as_ids) out_write("\n", 1);
  out_flush();
  if (!out_is_terminal() && out_is_shared() && !r->as_ids) console_report("%s", ""); /* ends the text's line */
  if (out_failed()) return CLI_DONE; /* a reader that left has what it wanted; out_finish says anything else */
  if (status != SL_OK && !cancelled) {
    console_error("%s", err.text);
    return CLI_FAILED;
  }
  int told = tell(r);
  return cancelled ? CLI_INTERRUPTED : told;
}

int cli_run(const cli_args *args) {
  run r = {.args = args, .ttft_s = -1, .ended = "prompt only"};
  int status = prepare(&r);
  if (status == CLI_DONE) status = compute(&r);
  sl_session_free(r.session);
  sl_text_stream_free(r.text);
  free_prompt(&r);
  model_close(&r.model);
  return status;
}
