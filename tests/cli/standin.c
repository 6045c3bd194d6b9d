/* A stand-in for the library behind sluice.h, so that the program's own behaviour can be tested with failures and
 * delays that a real model does not give on demand.  A "model" is a folder whose config.json holds words:
 *
 *   slow      60 ms for each step and each tenth of loading
 *   fail N    the N-th token cannot be computed
 *   end N     the N-th token is the end token
 *   dense     no experts
 *   refused   cannot be opened
 *
 * Its tokenizer (there if tokenizer.json is) has a token per byte: 4 + byte; 1 is the end, 2 BOS; 300 in all.  It says
 * "water runs downhill. " for ever.  Rows of a computation are known numbers, see row_value. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sluice/sluice.h"

enum { LAYERS = 3, HIDDEN = 8, VOCAB = 300, EXPERTS = 4, TOP_K = 2, MAX_CTX = 1000, CHUNK = 7, END = 1, BOS = 2 };
static const char SAYS[] = "water runs downhill. ";
static const int32_t ENDS[] = {END};

struct sl_engine {
  sl_options options;
  char path[512], words[512];
  int ctx, fail, end;
  bool has_tokenizer, slow, dense;
};

struct sl_session {
  sl_engine *engine;
  int32_t *fed;
  size_t n_fed, length;
  bool as_generated;
  int made;
  atomic_bool cancelled;
  sl_observer observer;
  sl_stats stats;
};

struct sl_text_stream {
  char text[4];
};

static sl_status fail(sl_error *err, sl_status status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  if (err) {
    err->status = status;
    vsnprintf(err->text, sizeof err->text, format, list);
  }
  va_end(list);
  return status;
}

int sl_abi_version(void) { return SL_ABI_VERSION; }
const char *sl_version(void) { return "0.0.standin"; }
const char *sl_status_name(sl_status status) { return status == SL_OK ? "SL_OK" : "SL_ERR"; }
void sl_string_free(char *string) { free(string); }
void sl_ids_free(int32_t *ids) { free(ids); }
sl_status sl_install_fault_guard(sl_error *err) {
  (void)err;
  return SL_OK;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static const char *const NAMES[] = {"threads", "chunk", "ctx", "math", "kv", "kernels", NULL};
const char *const *sl_option_names(void) { return NAMES; }
const char *sl_option_help(const char *name) { return name; }
void sl_options_init(sl_options *options) { *options = (sl_options){.size = sizeof *options}; }

sl_status sl_options_set(sl_options *options, const char *name, const char *value, sl_error *err) {
  int number = atoi(value);
  if (!strcmp(name, "threads") || !strcmp(name, "chunk") || !strcmp(name, "ctx")) {
    if (number < 1) return fail(err, SL_ERR_ARGUMENT, "found \"%s\", expected an integer from 1", value);
    *(name[0] == 't' ? &options->threads : name[1] == 'h' ? &options->chunk : &options->ctx) = number;
    return SL_OK;
  }
  const char *words = !strcmp(name, "math") ? "exact fast"
                      : !strcmp(name, "kv") ? "f16 f32"
                                            : "auto avx512 avx2 reference";
  if (!*value || !strstr(words, value))
    return fail(err, SL_ERR_ARGUMENT, "found \"%s\", expected one of %s", value, words);
  return SL_OK;
}

/* ---- engine ------------------------------------------------------------------------------------------------------ */

/* The number behind a word, 0 if the word is not there. */
static int setting(const char *words, const char *word) {
  const char *at = strstr(words, word);
  return at ? atoi(at + strlen(word)) : 0;
}

sl_status sl_engine_open(const char *path, const sl_options *options, sl_engine **out, sl_error *err) {
  char file[600], words[512] = "";
  snprintf(file, sizeof file, "%s/config.json", path);
  FILE *f = fopen(file, "r");
  if (!f) return fail(err, SL_ERR_NOT_FOUND, "%s: no such file", file);
  size_t n = fread(words, 1, sizeof words - 1, f);
  fclose(f);
  words[n] = 0;
  if (strstr(words, "refused")) return fail(err, SL_ERR_UNSUPPORTED, "%s: model_type: refused", file);
  sl_engine *e = calloc(1, sizeof *e);
  e->options = *options;
  e->ctx = options->ctx ? options->ctx : 128;
  e->slow = strstr(words, "slow") != NULL;
  e->dense = strstr(words, "dense") != NULL;
  e->fail = setting(words, "fail ");
  e->end = setting(words, "end ");
  snprintf(e->path, sizeof e->path, "%s", path);
  snprintf(file, sizeof file, "%s/tokenizer.json", path);
  e->has_tokenizer = access(file, R_OK) == 0;
  options->log(options->user, SL_LOG_INFO, "4 vision tensors are skipped");
  *out = e;
  return SL_OK;
}

void sl_engine_free(sl_engine *engine) { free(engine); }

sl_status sl_engine_set_ctx(sl_engine *engine, int ctx, sl_error *err) {
  if (ctx > MAX_CTX) return fail(err, SL_ERR_ARGUMENT, "ctx %d, expected at most %d", ctx, MAX_CTX);
  engine->ctx = ctx;
  return SL_OK;
}

sl_status sl_engine_load(sl_engine *engine, sl_error *err) {
  (void)err;
  for (uint64_t tenth = 0; engine->slow && tenth <= 10; tenth++) {
    usleep(60000);
    engine->options.progress(engine->options.user, "loading", tenth << 30, 10ull << 30);
  }
  return SL_OK;
}

void sl_engine_info(const sl_engine *engine, sl_model_info *info) {
  *info = (sl_model_info){.size = sizeof *info,
                          .path = engine->path,
                          .family = "standin",
                          .n_layers = LAYERS,
                          .hidden = HIDDEN,
                          .vocab = VOCAB,
                          .n_experts = engine->dense ? 0 : EXPERTS,
                          .top_k = engine->dense ? 0 : TOP_K,
                          .n_expert_layers = engine->dense ? 0 : LAYERS - 1,
                          .ctx = engine->ctx,
                          .max_ctx = MAX_CTX,
                          .threads = 2,
                          .chunk = CHUNK,
                          .bos = BOS,
                          .has_tokenizer = engine->has_tokenizer,
                          .eos = ENDS,
                          .n_eos = 1};
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

sl_status sl_engine_inspect_json(const sl_engine *engine, char **json, sl_error *err) {
  (void)engine, (void)err;
  *json = strdup("{\"config\":{\"family\":\"standin\",\"hidden\":8},\"tensors\":["
                 "{\"name\":\"model.layers.0.experts.0.down_proj.weight\",\"dtype\":\"F8_E4M3\",\"shape\":[8,4],"
                 "\"file\":\"model.safetensors\",\"offset\":0,\"bytes\":32,\"role\":\"expert\"},"
                 "{\"name\":\"model.layers.0.experts.1.down_proj.weight\",\"dtype\":\"F8_E4M3\",\"shape\":[8,4],"
                 "\"file\":\"model.safetensors\",\"offset\":32,\"bytes\":32,\"role\":\"expert\"},"
                 "{\"name\":\"model.norm.weight\",\"dtype\":\"BF16\",\"shape\":[8],"
                 "\"file\":\"model.safetensors\",\"offset\":64,\"bytes\":16,\"role\":\"vector\"}],"
                 "\"skipped\":[{\"pattern\":\"vision_tower.*\",\"tensors\":4,\"bytes\":2048,\"why\":\"no images\"}],"
                 "\"totals\":{\"tensors\":3,\"bytes\":80},\"tokenizer\":{\"size\":300}}");
  return SL_OK;
}

sl_status sl_engine_plan_json(sl_engine *engine, bool measure, char **json, sl_error *err) {
  (void)engine, (void)err;
  const char *op = "{\"op\":\"matmul_bt\",\"name\":\"self_attn.q_proj\",\"prompt\":\"panel\",\"generated\":\"decode\","
                   "\"shape\":\"[M,8]\"}";
  size_t room = 4096;
  *json = malloc(room);
  snprintf(*json, room,
           "{\"model\":{\"family\":\"standin\"},\"options\":{\"ctx\":128},\"layers\":[{\"layer\":0,\"ops\":[%s]},"
           "{\"layer\":1,\"ops\":[%s,%s]},{\"layer\":2,\"ops\":[%s]}],\"outside\":[%s],"
           "\"bytes\":{\"trunk\":1048576,\"total\":2097152},\"per_token\":{\"bytes\":1000000,\"trunk_bytes\":600000,"
           "\"expert_bytes\":400000,\"kv_bytes_full_ctx\":4096,\"flops\":2000000}%s}",
           op, op, op, op, op,
           measure ? ",\"limits\":{\"read_bytes_per_s\":1e10,\"f32_flops\":1e11,\"bf16_flops\":0},\"expected\":{"
                     "\"decode_tps\":123.4,\"prompt_tps\":5678,\"fast\":{\"decode_tps\":125,\"prompt_tps\":9999}}"
                   : "");
  return SL_OK;
}

sl_status sl_ops_json(char **json, sl_error *err) {
  (void)err;
  *json = strdup("{\"cells\":[{\"op\":\"matmul_bt\",\"backend\":\"cpu\",\"dtype\":\"BF16\",\"kernel\":\"panel\","
                 "\"reason\":null,\"detail\":null},{\"op\":\"matmul_bt\",\"backend\":\"cpu\",\"dtype\":\"Q4_K\","
                 "\"kernel\":null,\"reason\":\"not_written\",\"detail\":\"no Q4_K yet\"}]}");
  return SL_OK;
}

sl_status sl_engine_limits(sl_engine *engine, double seconds, double *read_bytes_per_s, double *f32_flops,
                           double *bf16_flops, sl_error *err) {
  (void)engine, (void)seconds, (void)err;
  *read_bytes_per_s = 1e9;
  *f32_flops = 1e10;
  *bf16_flops = 0;
  return SL_OK;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

sl_status sl_tokenize(const sl_engine *engine, const char *text, size_t size, bool special, bool bos, int32_t **ids,
                      size_t *n, sl_error *err) {
  if (!engine->has_tokenizer) return fail(err, SL_ERR_STATE, "%s: has no tokenizer", engine->path);
  *ids = malloc((size + 1) * sizeof **ids);
  *n = 0;
  if (bos) (*ids)[(*n)++] = BOS;
  for (size_t i = 0; i < size; i++) {
    bool end = special && size - i >= 5 && !memcmp(text + i, "<end>", 5);
    (*ids)[(*n)++] = end ? END : 4 + (unsigned char)text[i];
    i += end ? 4 : 0;
  }
  return SL_OK;
}

sl_status sl_detokenize(const sl_engine *engine, const int32_t *ids, size_t n, bool special, char **text, size_t *size,
                        sl_error *err) {
  (void)engine, (void)special;
  *text = malloc(n + 1);
  *size = 0;
  for (size_t i = 0; i < n; i++) {
    if (ids[i] >= VOCAB) {
      free(*text);
      return fail(err, SL_ERR_ARGUMENT, "id %d, expected one below %d", ids[i], VOCAB);
    }
    if (ids[i] >= 4) (*text)[(*size)++] = (char)(ids[i] - 4);
  }
  return SL_OK;
}

sl_status sl_text_stream_new(const sl_engine *engine, bool special, sl_text_stream **out, sl_error *err) {
  (void)special;
  if (!engine->has_tokenizer) return fail(err, SL_ERR_STATE, "%s: has no tokenizer", engine->path);
  *out = calloc(1, sizeof **out);
  return SL_OK;
}

void sl_text_stream_free(sl_text_stream *stream) { free(stream); }

sl_status sl_text_stream_put(sl_text_stream *stream, int32_t id, const char **text, size_t *size, sl_error *err) {
  (void)err;
  *text = stream->text;
  *size = id >= 4;
  stream->text[0] = (char)(id - 4);
  return SL_OK;
}

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

void sl_sampling_init(const sl_engine *engine, sl_sampling *sampling) {
  (void)engine;
  *sampling = (sl_sampling){.size = sizeof *sampling, .top_p = 1};
}

sl_status sl_sampling_check(const sl_sampling *sampling, sl_error *err) {
  (void)sampling, (void)err;
  return SL_OK;
}

sl_status sl_session_new(sl_engine *engine, const sl_sampling *sampling, sl_session **out, sl_error *err) {
  (void)sampling, (void)err;
  *out = calloc(1, sizeof **out);
  (*out)->engine = engine;
  return SL_OK;
}

void sl_session_free(sl_session *session) {
  if (session) free(session->fed);
  free(session);
}

void sl_session_reset(sl_session *session) { session->length = session->n_fed = 0, session->made = 0; }

static sl_status feed(sl_session *s, const int32_t *ids, size_t n, bool as_generated, sl_error *err) {
  if (s->length + n > (size_t)s->engine->ctx)
    return fail(err, SL_ERR_CONTEXT_FULL, "%zu tokens fit", (size_t)s->engine->ctx - s->length);
  s->fed = realloc(s->fed, (s->n_fed + n) * sizeof *ids);
  memcpy(s->fed + s->n_fed, ids, n * sizeof *ids);
  s->n_fed += n;
  s->length += n;
  s->as_generated = as_generated;
  return SL_OK;
}

sl_status sl_session_feed(sl_session *session, const int32_t *ids, size_t n, sl_error *err) {
  return feed(session, ids, n, false, err);
}

sl_status sl_session_feed_generated(sl_session *session, const int32_t *ids, size_t n, sl_error *err) {
  return feed(session, ids, n, true, err);
}

/* Row `pos` of layer `layer` (3: the logits), column i. */
static float row_value(int layer, int pos, int i) { return (float)(10000 * layer + 1000 * pos + i); }

static void show_layer(const sl_observer *o, int layer, int pos, int n) {
  float x[CHUNK * HIDDEN], weights[CHUNK * TOP_K];
  int32_t ids[CHUNK * TOP_K];
  for (int i = 0; i < n * HIDDEN; i++) x[i] = row_value(layer, pos + i / HIDDEN, i % HIDDEN);
  if (o->on_hidden) o->on_hidden(o->user, layer, pos, n, x);
  for (int i = 0; i < n; i++) { /* the router names the lighter one first */
    ids[2 * i] = (pos + i) % 3, ids[2 * i + 1] = 3;
    weights[2 * i] = 0.25f, weights[2 * i + 1] = 0.75f;
  }
  if (layer > 0 && o->on_routes) o->on_routes(o->user, layer, pos, n, ids, weights);
}

static void show_logits(const sl_observer *o, int pos, int n) {
  float rows[CHUNK * VOCAB];
  for (int i = 0; i < n * VOCAB; i++) rows[i] = row_value(LAYERS, pos + i / VOCAB, i % VOCAB);
  if (o->on_logits) o->on_logits(o->user, pos, n, rows);
}

static sl_status step(sl_session *s, int pos, int n, bool generated, sl_error *err) {
  if (s->engine->slow) usleep(60000);
  if (atomic_exchange(&s->cancelled, false)) return fail(err, SL_ERR_CANCELLED, "cancelled");
  for (int layer = -1; layer < LAYERS; layer++) show_layer(&s->observer, layer, pos, n);
  show_logits(&s->observer, pos, n);
  *(generated ? &s->stats.decode_tokens : &s->stats.prompt_tokens) += (uint64_t)n;
  *(generated ? &s->stats.decode_s : &s->stats.prompt_s) += 0.01 * n;
  return SL_OK;
}

sl_status sl_session_compute(sl_session *session, sl_error *err) {
  const sl_options *options = &session->engine->options;
  int first = (int)(session->length - session->n_fed), most = session->as_generated ? 1 : CHUNK;
  for (int done = 0; done < (int)session->n_fed;) {
    int n = (int)session->n_fed - done < most ? (int)session->n_fed - done : most;
    sl_status status = step(session, first + done, n, session->as_generated, err);
    if (status != SL_OK) return status;
    done += n;
    options->progress(options->user, "prompt", (uint64_t)done, session->n_fed);
  }
  session->n_fed = 0;
  return SL_OK;
}

sl_status sl_session_next(sl_session *session, int32_t *id, sl_error *err) {
  sl_status status;
  if (session->n_fed) {
    status = sl_session_compute(session, err);
  } else if (session->length >= (size_t)session->engine->ctx) {
    status = fail(err, SL_ERR_CONTEXT_FULL, "the context of %d is full", session->engine->ctx);
  } else {
    status = step(session, (int)session->length, 1, true, err);
    session->length += status == SL_OK;
  }
  if (status != SL_OK) return status;
  session->made++;
  if (session->made == session->engine->fail) return fail(err, SL_ERR_NOT_FINITE, "layers.1: down_proj: not finite");
  *id = session->made == session->engine->end ? END : 4 + SAYS[(session->made - 1) % (int)(sizeof SAYS - 1)];
  return SL_OK;
}

void sl_session_cancel(sl_session *session) { atomic_store(&session->cancelled, true); }

sl_status sl_session_observe(sl_session *session, const sl_observer *observer, sl_error *err) {
  (void)err;
  session->observer = *observer;
  return SL_OK;
}

sl_status sl_session_force_routes(sl_session *session, const int32_t *ids, size_t n_tokens, sl_error *err) {
  (void)session, (void)ids, (void)n_tokens, (void)err;
  return SL_OK;
}

void sl_session_stats(const sl_session *session, sl_stats *stats) {
  *stats = session->stats;
  stats->planned_bytes = 5000000;
}

bool sl_engine_arm(const sl_engine *engine, int i, const char **kernel, uint64_t *runs, double *seconds) {
  (void)engine;
  static const char *const arms[] = {"matmul_bt.panel", "matmul_bt.decode", "idle"};
  if (i >= 3) return false;
  *kernel = arms[i];
  *runs = i < 2 ? 10u + (unsigned)i : 0;
  *seconds = 0.25 * i;
  return true;
}
