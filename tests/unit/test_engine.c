/* The engine behind the public API: the same answer however it is computed, and failures that end what they must and
 * no more.  Values against transformers are checked by tests/golden. */
#include "unit/models.h"

#include "engine/engine.h"

static const int32_t prompt[] = {2,  5,   77, 301, 9,  40,  41, 42, 43, 44, 45, 46, 47, 48,  49,  50,  51, 52, 53,
                                 54, 400, 3,  120, 31, 200, 7,  8,  60, 61, 62, 63, 64, 500, 501, 502, 90, 91, 92};
enum { N_PROMPT = sizeof prompt / sizeof *prompt, N_NEXT = 12 };

static sl_engine *open_model(const char *path, const char *kernels, const char *math, int threads, int chunk) {
  sl_options options;
  sl_options_init(&options);
  options.kernels = kernels;
  options.math = math;
  options.threads = threads;
  options.chunk = chunk;
  options.ctx = 96;
  sl_engine *engine = NULL;
  sl_error err = {0};
  if (sl_engine_open(path, &options, &engine, &err) != SL_OK) fail_msg("%s", err.text);
  return engine;
}

static sl_session *new_session(sl_engine *engine) {
  sl_sampling greedy = {.size = sizeof greedy, .top_p = 1};
  sl_session *session = NULL;
  sl_error err = {0};
  if (sl_session_new(engine, &greedy, &session, &err) != SL_OK) fail_msg("%s", err.text);
  return session;
}

/* All logits of a run: the prompt's, then N_NEXT greedy tokens'. */
typedef struct record {
  float *logits; /* [N_PROMPT + N_NEXT, vocab] */
  int vocab, n;
} record;

static void keep_logits(void *user, int first_pos, int n, const float *logits) {
  record *r = user;
  memcpy(r->logits + (size_t)first_pos * (size_t)r->vocab, logits, (size_t)n * (size_t)r->vocab * sizeof(float));
  r->n = first_pos + n;
}

static record new_record(const sl_engine *engine, sl_session *session) {
  sl_model_info info = {.size = sizeof info};
  sl_engine_info(engine, &info);
  record r = {.logits = malloc((size_t)(N_PROMPT + N_NEXT) * (size_t)info.vocab * sizeof(float)), .vocab = info.vocab};
  unit_poison(r.logits, (size_t)(N_PROMPT + N_NEXT) * (size_t)info.vocab);
  (void)session;
  return r;
}

static void watch(sl_session *session, record *r) {
  sl_observer observer = {.size = sizeof observer, .user = r, .on_logits = keep_logits};
  assert_int_equal(sl_session_observe(session, &observer, NULL), SL_OK);
}

static void run_to_end(sl_session *session) {
  int32_t id;
  sl_error err = {0};
  assert_int_equal(sl_session_feed(session, prompt, N_PROMPT, NULL), SL_OK);
  for (int i = 0; i < N_NEXT; i++)
    if (sl_session_next(session, &id, &err) != SL_OK) fail_msg("%s", err.text);
  assert_int_equal(sl_session_compute(session, NULL), SL_OK);
}

static record run(const char *path, const char *kernels, const char *math, int threads, int chunk) {
  sl_engine *engine = open_model(path, kernels, math, threads, chunk);
  sl_session *session = new_session(engine);
  record r = new_record(engine, session);
  watch(session, &r);
  run_to_end(session);
  assert_int_equal(r.n, N_PROMPT + N_NEXT);
  sl_session_free(session);
  sl_engine_free(engine);
  return r;
}

static bool same(const record *a, const record *b) {
  return a->n == b->n && !memcmp(a->logits, b->logits, (size_t)a->n * (size_t)a->vocab * sizeof(float));
}

/* ---- the same answer ---- */

static void check_ways(const char *path, const char *kernels, const char *math) {
  static const struct { int threads, chunk; } ways[] = {{1, 1}, {2, 7}, {3, 512}, {2, 16}};
  record first = run(path, kernels, math, 1, 512);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    record r = run(path, kernels, math, ways[i].threads, ways[i].chunk);
    if (!same(&first, &r))
      fail_msg("%s, %s, %s: %d threads and chunk %d change the logits", path, kernels, math, ways[i].threads,
               ways[i].chunk);
    free(r.logits);
  }
  free(first.logits);
}

static void logits_do_not_depend_on_threads_or_chunk(void **state) {
  (void)state;
  static const char *const models[] = {MOE_BF16, MOE_FP8, DENSE_PLE, GEMMA3};
  for (size_t m = 0; m < 4; m++) {
    check_ways(models[m], "auto", "exact");
    check_ways(models[m], "auto", "fast");
    check_ways(models[m], "reference", "exact");
    const sl_backend *arms[SL_MAX_ARMS];
    int n;
    if (sl_cpu_arms("avx2", arms, &n, NULL) == SL_OK) check_ways(models[m], "avx2", "exact");
  }
}

static void logits_do_not_depend_on_other_sessions(void **state) {
  (void)state;
  record alone = run(MOE_FP8, "auto", "exact", 2, 512);
  sl_engine *engine = open_model(MOE_FP8, "auto", "exact", 2, 16);
  sl_session *s[3];
  for (int i = 0; i < 3; i++) s[i] = new_session(engine);
  record r = new_record(engine, s[1]);
  watch(s[1], &r);
  int32_t ids[3];
  sl_session_feed(s[0], prompt + 3, 5, NULL);
  sl_session_feed(s[2], prompt + 1, 30, NULL);
  sl_sessions_next(s, 1, ids, NULL);
  sl_session_feed(s[1], prompt, N_PROMPT, NULL); /* a prompt, while others generate or are in their prompts */
  for (int i = 0; i < N_NEXT; i++) {
    sl_session *turn[3] = {s[i % 3], s[(i + 1) % 3], s[(i + 2) % 3]};
    assert_int_equal(sl_sessions_next(turn, 3, ids, NULL), SL_OK);
  }
  assert_int_equal(sl_session_compute(s[1], NULL), SL_OK);
  assert_true(same(&alone, &r));
  for (int i = 0; i < 3; i++) sl_session_free(s[i]);
  sl_engine_free(engine);
  free(r.logits);
  free(alone.logits);
}

typedef struct thread_run {
  sl_engine *engine;
  record r;
} thread_run;

static void *run_in_thread(void *arg) {
  thread_run *t = arg;
  sl_session *session = new_session(t->engine);
  t->r = new_record(t->engine, session);
  watch(session, &t->r);
  run_to_end(session);
  sl_session_free(session);
  return NULL;
}

static void sessions_in_several_threads_do_not_disturb_each_other(void **state) {
  (void)state;
  record alone = run(MOE_FP8, "auto", "exact", 1, 8);
  sl_engine *engine = open_model(MOE_FP8, "auto", "exact", 2, 8);
  thread_run runs[3];
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) {
    runs[i].engine = engine;
    assert_int_equal(pthread_create(&threads[i], NULL, run_in_thread, &runs[i]), 0);
  }
  for (int i = 0; i < 3; i++) {
    pthread_join(threads[i], NULL);
    assert_true(same(&alone, &runs[i].r));
    free(runs[i].r.logits);
  }
  sl_engine_free(engine);
  free(alone.logits);
}

/* A kernel that breaks the promise on purpose: its result depends on how many tokens are in the step. */
static const sl_kernel *honest;

static sl_status depends_on_M(const sl_ctx *ctx, const sl_op_args *args) {
  SL_TRY(honest->run(ctx, args));
  const sl_rms_norm_args *a = &args->rms_norm;
  for (int i = 0; i < a->M * a->H; i++) a->out[i] *= a->M > 4 ? 1.0000002f : 1.0f;
  return SL_OK;
}

static void a_kernel_that_depends_on_the_chunk_is_noticed(void **state) {
  (void)state;
  record first = run(MOE_BF16, "reference", "exact", 1, 1);
  sl_engine *engine = open_model(MOE_BF16, "reference", "exact", 1, 512);
  static sl_kernel broken;
  for (int i = 0; i < engine->plan->n_arms; i++) {
    if (engine->plan->arms[i].kernel->op != SL_OP_RMS_NORM) continue;
    honest = engine->plan->arms[i].kernel;
    broken = *honest;
    broken.run = depends_on_M;
    engine->plan->arms[i].kernel = &broken;
  }
  sl_session *session = new_session(engine);
  record r = new_record(engine, session);
  watch(session, &r);
  run_to_end(session);
  assert_false(same(&first, &r));
  sl_session_free(session);
  sl_engine_free(engine);
  free(r.logits);
  free(first.logits);
}

static void fed_as_generated_differs_at_most_in_the_last_bits(void **state) {
  (void)state;
  sl_options options;
  sl_options_init(&options);
  options.kv = "f32"; /* f16 would round values that differ in the last bit to neighbours */
  sl_engine *engine = NULL;
  assert_int_equal(sl_engine_open(MOE_BF16, &options, &engine, NULL), SL_OK);
  sl_session *a = new_session(engine), *b = new_session(engine);
  sl_session_feed(a, prompt, N_PROMPT, NULL);
  sl_session_feed_generated(b, prompt, N_PROMPT, NULL);
  assert_int_equal(sl_session_compute(a, NULL), SL_OK);
  assert_int_equal(sl_session_compute(b, NULL), SL_OK);
  const float *x = sl_session_logits(a), *y = sl_session_logits(b);
  float low = x[0], high = x[0], off = 0;
  for (int i = 0; i < 512; i++) {
    low = fminf(low, x[i]);
    high = fmaxf(high, x[i]);
    off = fmaxf(off, fabsf(x[i] - y[i]));
  }
  assert_true(off <= 2e-4f * (high - low));
  sl_stats stats = {.size = sizeof stats};
  sl_session_stats(b, &stats);
  assert_int_equal(stats.decode_tokens, N_PROMPT);
  assert_int_equal(stats.prompt_tokens, 0);
  sl_session_free(a);
  sl_session_free(b);
  sl_engine_free(engine);
}

/* ---- cancelling ---- */

typedef struct canceller {
  sl_session *session;
  int at_layer, at_pos;
} canceller;

static void cancel_here(void *user, int layer, int first_pos, int n, const float *x) {
  canceller *c = user;
  (void)n;
  (void)x;
  if (layer == c->at_layer && first_pos >= c->at_pos) sl_session_cancel(c->session);
}

static void a_cancelled_session_goes_on_as_if_nothing_had_been(void **state) {
  (void)state;
  record whole = run(MOE_BF16, "auto", "exact", 2, 7);
  sl_engine *engine = open_model(MOE_BF16, "auto", "exact", 2, 7);
  sl_session *session = new_session(engine);
  canceller c = {session, 3, 14};
  sl_observer observer = {.size = sizeof observer, .user = &c, .on_hidden = cancel_here};
  sl_session_observe(session, &observer, NULL);
  sl_session_feed(session, prompt, N_PROMPT, NULL);
  int32_t id;
  sl_error err = {0};
  assert_int_equal(sl_session_next(session, &id, &err), SL_ERR_CANCELLED);
  assert_int_equal(id, -1);
  assert_int_equal(err.status, SL_ERR_CANCELLED);
  record r = new_record(engine, session);
  watch(session, &r);
  for (int i = 0; i < N_NEXT; i++) assert_int_equal(sl_session_next(session, &id, NULL), SL_OK);
  sl_session_compute(session, NULL);
  size_t from = 14 * (size_t)r.vocab, to = (size_t)r.n * (size_t)r.vocab;
  assert_memory_equal(r.logits + from, whole.logits + from, (to - from) * sizeof(float));
  sl_session_free(session);
  sl_engine_free(engine);
  free(r.logits);
  free(whole.logits);
}

static void a_cancel_outlives_a_reset(void **state) {
  (void)state;
  sl_engine *engine = open_model(MOE_BF16, "auto", "exact", 1, 64);
  sl_session *session = new_session(engine);
  sl_session_cancel(session);
  sl_session_reset(session);
  sl_session_feed(session, prompt, 3, NULL);
  assert_int_equal(sl_session_compute(session, NULL), SL_ERR_CANCELLED);
  assert_int_equal(sl_session_compute(session, NULL), SL_OK);
  sl_session_free(session);
  sl_engine_free(engine);
}

static void cancelling_one_session_leaves_the_others_alone(void **state) {
  (void)state;
  sl_engine *engine = open_model(MOE_BF16, "auto", "exact", 1, 64);
  sl_session *s[2] = {new_session(engine), new_session(engine)};
  canceller c = {s[0], 1, 0};
  sl_observer observer = {.size = sizeof observer, .user = &c, .on_hidden = cancel_here};
  sl_session_observe(s[0], &observer, NULL);
  sl_session_feed(s[0], prompt, 5, NULL);
  sl_session_feed(s[1], prompt, 5, NULL);
  int32_t ids[2];
  assert_int_equal(sl_sessions_next(s, 2, ids, NULL), SL_ERR_CANCELLED);
  assert_int_equal(ids[0], -1);
  assert_true(ids[1] >= 0);
  sl_session_free(s[0]);
  sl_session_free(s[1]);
  sl_engine_free(engine);
}

static void *cancel_soon(void *session) {
  sl_session_cancel(session);
  return NULL;
}

static void cancel_from_another_thread_is_heard(void **state) {
  (void)state;
  sl_engine *engine = open_model(MOE_BF16, "reference", "exact", 1, 1);
  sl_session *session = new_session(engine);
  pthread_t thread;
  sl_status status = SL_OK;
  for (int round = 0; round < 100 && status == SL_OK; round++) {
    sl_session_reset(session);
    sl_session_feed(session, prompt, N_PROMPT, NULL);
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, session), 0);
    status = sl_session_compute(session, NULL);
    pthread_join(thread, NULL);
    if (status == SL_OK) status = sl_session_compute(session, NULL); /* it came too late, and is heard now */
  }
  assert_int_equal(status, SL_ERR_CANCELLED);
  assert_int_equal(sl_session_compute(session, NULL), SL_OK);
  sl_session_free(session);
  sl_engine_free(engine);
}

/* ---- limits ---- */

static void a_prompt_longer_than_the_context_is_refused_with_the_number_that_fits(void **state) {
  (void)state;
  sl_engine *engine = open_model(MOE_BF16, "auto", "exact", 1, 64);
  sl_session *session = new_session(engine);
  int32_t many[97] = {2};
  sl_error err = {0};
  assert_int_equal(sl_session_feed(session, many, 97, &err), SL_ERR_CONTEXT_FULL);
  assert_non_null(strstr(err.text, "96"));
  assert_int_equal(sl_session_length(session), 0);
  assert_int_equal(sl_session_feed(session, many, 96, &err), SL_OK);
  int32_t id;
  assert_int_equal(sl_session_next(session, &id, &err), SL_OK);
  assert_int_equal(sl_session_next(session, &id, &err), SL_ERR_CONTEXT_FULL);
  assert_int_equal(sl_session_compute(session, &err), SL_ERR_CONTEXT_FULL);
  sl_session_free(session);
  sl_engine_free(engine);
}

static void wrong_calls_are_refused(void **state) {
  (void)state;
  sl_engine *engine = open_model(MOE_BF16, "auto", "exact", 1, 64);
  sl_session *session = new_session(engine);
  int32_t id, outside[] = {2, 512}, twice[6 * 4] = {1, 1, 2, 3};
  sl_error err = {0};
  assert_int_equal(sl_session_next(session, &id, &err), SL_ERR_STATE);
  assert_int_equal(sl_session_feed(session, outside, 2, &err), SL_ERR_ARGUMENT);
  assert_non_null(strstr(err.text, "512"));
  assert_int_equal(sl_session_force_routes(session, twice, 1, &err), SL_ERR_ARGUMENT);
  assert_int_equal(sl_engine_set_ctx(engine, 32, &err), SL_ERR_STATE);
  assert_null(sl_session_logits(session));
  sl_session *same_twice[] = {session, session};
  int32_t ids[2];
  assert_int_equal(sl_sessions_next(same_twice, 2, ids, &err), SL_ERR_ARGUMENT);
  sl_sampling bad = {.size = sizeof bad, .top_p = 0};
  assert_int_equal(sl_sampling_check(&bad, &err), SL_ERR_ARGUMENT);
  sl_session_free(session);
  sl_engine_free(engine);
}

static void options_are_checked_as_a_whole(void **state) {
  (void)state;
  sl_options options;
  sl_error err = {0};
  sl_engine *engine;
  sl_options_init(&options);
  assert_int_equal(sl_options_set(&options, "threads", "2", &err), SL_OK);
  assert_int_equal(options.threads, 2);
  static const char *const bad[][2] = {{"threads", "0"},  {"threads", "x"},        {"threads", "2x"},
                                       {"threads", " 2"}, {"threads", "+2"},       {"chunk", "99999999999"},
                                       {"math", "exakt"}, {"math", "exact, fast"}, {"math", ""},
                                       {"kv", "f"},       {"kernels", "avx"},      {"nope", "1"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(sl_options_set(&options, bad[i][0], bad[i][1], &err), SL_ERR_ARGUMENT);
  options.ctx = 1 << 23; /* more than the model has */
  assert_int_equal(sl_engine_open(MOE_BF16, &options, &engine, &err), SL_ERR_CONTEXT_FULL);
  options.size = 3;
  assert_int_equal(sl_engine_open(MOE_BF16, &options, &engine, &err), SL_ERR_ARGUMENT);
}

/* ---- imposed routes ---- */

static void keep_routes(void *user, int layer, int first_pos, int n, const int32_t *ids, const float *weights) {
  (void)layer;
  (void)first_pos;
  (void)weights;
  memcpy(user, ids, (size_t)n * 4 * sizeof *ids);
}

static void imposed_experts_are_the_ones_that_run(void **state) {
  (void)state;
  sl_engine *engine = open_model(MOE_BF16, "auto", "exact", 1, 2);
  sl_session *session = new_session(engine);
  int32_t forced[6 * 3 * 4], seen[2 * 4] = {0};
  for (int i = 0; i < 6 * 3 * 4; i++) forced[i] = (i * 5 + i / 4) % 16;
  assert_int_equal(sl_session_force_routes(session, forced, 3, NULL), SL_OK);
  sl_observer observer = {.size = sizeof observer, .user = seen, .on_routes = keep_routes};
  sl_session_observe(session, &observer, NULL);
  sl_session_feed(session, prompt, 3, NULL);
  assert_int_equal(sl_session_compute(session, NULL), SL_OK);
  assert_memory_equal(seen, forced + (5 * 3 + 2) * 4,
                      4 * sizeof *seen); /* last layer, third token: alone in its step */
  sl_session_free(session);
  sl_engine_free(engine);
}

/* ---- faults ---- */

static void a_weight_that_is_not_finite_is_named_with_layer_and_op(void **state) {
  (void)state;
  char *folder = models_copy(MOE_BF16);
  uint16_t nan_bits = 0x7FC0;
  models_poke(folder, "model.language_model.layers.2.mlp.down_proj.weight", 10, &nan_bits, 2);
  sl_engine *engine = open_model(folder, "auto", "exact", 2, 64);
  sl_session *session = new_session(engine);
  sl_error err = {0};
  sl_session_feed(session, prompt, 5, NULL);
  assert_int_equal(sl_session_compute(session, &err), SL_ERR_NOT_FINITE);
  assert_non_null(strstr(err.text, "layer 2"));
  assert_non_null(strstr(err.text, "mlp.down_proj"));
  assert_non_null(strstr(err.text, "layers.2.mlp.down_proj.weight[0,5] is nan"));
  assert_null(sl_session_logits(session));
  assert_int_equal(sl_session_feed(session, prompt, 1, &err), SL_ERR_STATE);
  sl_session_free(session);
  sl_engine_free(engine);
  models_remove(folder);
}

static void a_bad_row_ends_its_own_session_only(void **state) {
  (void)state;
  char *folder = models_copy(DENSE_PLE);
  uint16_t inf_bits = 0x7F80;
  models_poke(folder, "model.embed_tokens_per_layer.weight", 77L * 9 * 16 * 2, &inf_bits, 2); /* token 77 */
  sl_engine *engine = open_model(folder, "auto", "exact", 2, 64);
  sl_session *s[2] = {new_session(engine), new_session(engine)};
  sl_session_feed(s[0], prompt, 5, NULL); /* holds 77 */
  sl_session_feed(s[1], prompt + 5, 5, NULL);
  int32_t ids[2];
  sl_error err = {0};
  assert_int_equal(sl_sessions_next(s, 2, ids, &err), SL_ERR_NOT_FINITE);
  assert_int_equal(ids[0], -1);
  assert_true(ids[1] >= 0);
  assert_non_null(strstr(err.text, "row 77"));
  sl_session_reset(s[0]);
  sl_session_feed(s[0], prompt + 5, 5, NULL);
  assert_int_equal(sl_session_next(s[0], &ids[0], &err), SL_OK);
  assert_int_equal(ids[0], ids[1]);
  sl_session_free(s[0]);
  sl_session_free(s[1]);
  sl_engine_free(engine);
  models_remove(folder);
}

static void a_key_beyond_f16_is_no_silent_infinity(void **state) {
  (void)state;
  char *folder = models_copy(MOE_BF16);
  /* 2^20 in one dimension of the keys' norm: the other keys stay as they are */
  models_poke(folder, "model.language_model.layers.0.self_attn.k_norm.weight", 0, "\x80\x49", 2);
  static const char *const kvs[] = {"f16", "f32"};
  for (int i = 0; i < 2; i++) {
    sl_options options;
    sl_options_init(&options);
    options.kv = kvs[i];
    sl_engine *engine = NULL;
    sl_error err = {0};
    assert_int_equal(sl_engine_open(folder, &options, &engine, &err), SL_OK);
    sl_session *session = new_session(engine);
    int32_t id, ids[] = {2, 5, 7, 9, 11};
    assert_int_equal(sl_session_feed(session, ids, 5, &err), SL_OK);
    assert_int_equal(sl_session_next(session, &id, &err), i == 0 ? SL_ERR_NOT_FINITE : SL_OK);
    if (i == 0) {
      assert_non_null(strstr(err.text, "layer 0"));
      assert_non_null(strstr(err.text, "kv_write"));
    }
    sl_session_free(session);
    sl_engine_free(engine);
  }
  models_remove(folder);
}

static void a_norm_or_scale_that_is_not_finite_is_refused_when_loading(void **state) {
  (void)state;
  char *folder = models_copy(MOE_BF16);
  uint16_t nan_bits = 0x7FC0;
  models_poke(folder, "model.language_model.layers.1.router.scale", 6, &nan_bits, 2);
  sl_engine *engine = open_model(folder, "auto", "exact", 1, 64);
  sl_session *session;
  sl_error err = {0};
  assert_int_equal(sl_session_new(engine, NULL, &session, &err), SL_ERR_NOT_FINITE);
  assert_non_null(strstr(err.text, "layers.1.router.scale: element 3"));
  sl_engine_free(engine);
  models_remove(folder);
}

static void a_file_cut_short_while_in_use_ends_the_call_and_not_the_process(void **state) {
  (void)state;
  assert_int_equal(sl_install_fault_guard(NULL), SL_OK);
  char *folder = models_copy(MOE_BF16), path[512];
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  sl_engine *engine = open_model(folder, "auto", "exact", 2, 64);
  sl_session *session = new_session(engine);
  sl_session_feed(session, prompt, 3, NULL);
  assert_int_equal(sl_session_compute(session, NULL), SL_OK);
  assert_int_equal(truncate(path, 65536), 0);
  sl_error err = {0};
  sl_session_feed(session, prompt, 5, NULL);
  assert_int_equal(sl_session_compute(session, &err), SL_ERR_IO);
  assert_non_null(strstr(err.text, "model.safetensors"));
  sl_session_free(session);
  sl_engine_free(engine);
  engine = NULL;
  models_copy_file(MOE_BF16 "/model.safetensors", path);
  engine = open_model(folder, "auto", "exact", 2, 64);
  assert_int_equal(truncate(path, 65536), 0); /* between opening and loading */
  assert_int_equal(sl_engine_load(engine, &err), SL_ERR_IO);
  sl_engine_free(engine);
  models_remove(folder);
}

/* Then there is no fault: the rest of the page reads as zeros. */
static void a_cut_inside_the_last_page_is_noticed_too(void **state) {
  (void)state;
  char *folder = models_copy(GEMMA3), path[512];
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  sl_engine *engine = open_model(folder, "auto", "exact", 2, 64);
  sl_session *session = new_session(engine);
  sl_session_feed(session, prompt, 3, NULL);
  assert_int_equal(sl_session_compute(session, NULL), SL_OK);
  struct stat st;
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(truncate(path, st.st_size - 1), 0);
  sl_error err = {0};
  sl_session_feed(session, prompt, 3, NULL);
  assert_int_equal(sl_session_compute(session, &err), SL_ERR_IO);
  assert_non_null(strstr(err.text, "model.safetensors: was cut short"));
  sl_session_free(session);
  sl_engine_free(engine);
  models_remove(folder);
}

/* A kernel that fails when it runs: the request ends, the engine goes on. */
static int failures_left;

static sl_status fails_once(const sl_ctx *ctx, const sl_op_args *args) {
  if (failures_left-- > 0) return sl_fail(ctx->err, SL_ERR_MEMORY, "device memory is gone");
  return honest->run(ctx, args);
}

static void a_kernel_that_fails_ends_its_request_and_the_next_one_works(void **state) {
  (void)state;
  sl_engine *engine = open_model(MOE_BF16, "auto", "exact", 1, 64);
  static sl_kernel broken;
  for (int i = 0; i < engine->plan->n_arms; i++) {
    if (engine->plan->arms[i].kernel->op != SL_OP_ATTENTION) continue;
    honest = engine->plan->arms[i].kernel;
    broken = *honest;
    broken.run = fails_once;
    engine->plan->arms[i].kernel = &broken;
  }
  failures_left = 1;
  sl_session *a = new_session(engine), *b = new_session(engine);
  int32_t id;
  sl_error err = {0};
  sl_session_feed(a, prompt, 5, NULL);
  assert_int_equal(sl_session_next(a, &id, &err), SL_ERR_MEMORY);
  assert_string_equal(err.text, "device memory is gone");
  sl_session_feed(b, prompt, 5, NULL);
  assert_int_equal(sl_session_next(b, &id, &err), SL_OK);
  sl_session_free(a);
  sl_session_free(b);
  sl_engine_free(engine);
}

/* ---- refusals cost nothing ---- */

static int open_descriptors(void) {
  int n = 0;
  DIR *dir = opendir("/proc/self/fd");
  while (readdir(dir)) n++;
  closedir(dir);
  return n;
}

static void refuse(char *folder, sl_status status, const char *words) {
  int before = open_descriptors();
  sl_engine *engine = NULL;
  sl_error err = {0};
  sl_status found = sl_engine_open(folder, NULL, &engine, &err);
  if (found != status || !strstr(err.text, words)) fail_msg("found %s: %s", sl_status_name(found), err.text);
  assert_null(engine);
  assert_int_equal(open_descriptors(), before);
  models_remove(folder);
}

static void a_tensor_that_nobody_uses_is_refused_by_name(void **state) {
  (void)state;
  char *folder = models_copy(MOE_BF16);
  models_patch(folder, "model.safetensors", "model.vision_tower.", "model.vision_towel.");
  refuse(folder, SL_ERR_UNSUPPORTED, "model.vision_towel.");
}

static void a_missing_tensor_is_refused_by_name(void **state) {
  (void)state;
  char *folder = models_copy(MOE_BF16);
  models_patch(folder, "model.safetensors", "layers.3.mlp.up_proj", "layers.3.mlp.xp_proj");
  refuse(folder, SL_ERR_FORMAT, "layers.3.mlp.up_proj.weight is missing");
}

static void a_shape_that_the_config_does_not_imply_is_refused(void **state) {
  (void)state;
  char *folder = models_copy(MOE_BF16);
  models_patch(folder, "config.json", "\"moe_intermediate_size\": 24", "\"moe_intermediate_size\": 25");
  refuse(folder, SL_ERR_FORMAT, "expected [16,50,96]");
}

static void an_empty_folder_is_refused(void **state) {
  (void)state;
  char template[] = "/tmp/sluice-test-XXXXXX";
  assert_non_null(mkdtemp(template));
  refuse(strdup(template), SL_ERR_NOT_FOUND, "config.json");
}

/* ---- counting ---- */

static void every_arm_is_counted(void **state) {
  (void)state;
  sl_engine *engine = open_model(MOE_BF16, "auto", "exact", 1, 64);
  sl_session *session = new_session(engine);
  run_to_end(session);
  const char *name;
  uint64_t runs;
  double seconds;
  int n = 0;
  for (; sl_engine_arm(engine, n, &name, &runs, &seconds); n++)
    if (!runs) fail_msg("%s is in the plan and never ran", name);
  assert_true(n > 5);
  sl_session_free(session);
  sl_engine_free(engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_are_checked_as_a_whole),
      cmocka_unit_test(an_empty_folder_is_refused),
      cmocka_unit_test(a_tensor_that_nobody_uses_is_refused_by_name),
      cmocka_unit_test(a_missing_tensor_is_refused_by_name),
      cmocka_unit_test(a_shape_that_the_config_does_not_imply_is_refused),
      cmocka_unit_test(wrong_calls_are_refused),
      cmocka_unit_test(a_prompt_longer_than_the_context_is_refused_with_the_number_that_fits),
      cmocka_unit_test(imposed_experts_are_the_ones_that_run),
      cmocka_unit_test(a_cancelled_session_goes_on_as_if_nothing_had_been),
      cmocka_unit_test(a_cancel_outlives_a_reset),
      cmocka_unit_test(cancelling_one_session_leaves_the_others_alone),
      cmocka_unit_test(a_weight_that_is_not_finite_is_named_with_layer_and_op),
      cmocka_unit_test(a_bad_row_ends_its_own_session_only),
      cmocka_unit_test(a_key_beyond_f16_is_no_silent_infinity),
      cmocka_unit_test(a_norm_or_scale_that_is_not_finite_is_refused_when_loading),
      cmocka_unit_test(a_file_cut_short_while_in_use_ends_the_call_and_not_the_process),
      cmocka_unit_test(a_cut_inside_the_last_page_is_noticed_too),
      cmocka_unit_test(a_kernel_that_fails_ends_its_request_and_the_next_one_works),
      cmocka_unit_test(every_arm_is_counted),
      cmocka_unit_test(fed_as_generated_differs_at_most_in_the_last_bits),
      cmocka_unit_test(a_kernel_that_depends_on_the_chunk_is_noticed),
      cmocka_unit_test(logits_do_not_depend_on_other_sessions),
      cmocka_unit_test(sessions_in_several_threads_do_not_disturb_each_other),
      cmocka_unit_test(cancel_from_another_thread_is_heard),
      cmocka_unit_test(logits_do_not_depend_on_threads_or_chunk),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
