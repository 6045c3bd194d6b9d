/* Sessions that share steps: what ends one of them leaves the others alone. */
#include <stdint.h>
#include <stdlib.h>

#include "unit/models.h"

enum { LAYERS = 6, EXPERTS = 16, N = 6 };

static const int32_t prompts[2][N] = {{2, 77, 301, 9, 140, 33}, {2, 410, 5, 222, 68, 199}};

/* Overwrites bytes of a tensor in whichever shard holds it. */
static void poke(const char *folder, const char *tensor, long at, const void *bytes, size_t size) {
  for (int shard = 1; shard <= 3; shard++) {
    char path[512], key[256];
    uint64_t header = 0;
    snprintf(path, sizeof path, "%s/model-%05d-of-00003.safetensors", folder, shard);
    snprintf(key, sizeof key, "\"%s\"", tensor);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fread(&header, 8, 1, f), 1);
    char *text = calloc(header + 1, 1);
    assert_int_equal(fread(text, 1, header, f), header);
    const char *entry = strstr(text, key), *offsets = entry ? strstr(entry, "\"data_offsets\"") : NULL;
    long begin = offsets ? strtol(strchr(offsets, '[') + 1, NULL, 10) : -1;
    free(text);
    if (begin >= 0) {
      fseek(f, (long)(8 + header) + begin + at, SEEK_SET);
      assert_int_equal(fwrite(bytes, 1, size, f), size);
    }
    fclose(f);
    if (begin >= 0) return;
  }
  fail_msg("no shard holds %s", tensor);
}

static sl_engine *open_model(const char *folder) {
  sl_options options;
  sl_options_init(&options);
  options.threads = 2;
  sl_engine *engine;
  sl_error err;
  if (sl_engine_open(folder, &options, &engine, &err) != SL_OK) fail_msg("%s", err.text);
  return engine;
}

static sl_session *new_session(sl_engine *engine) {
  sl_sampling greedy = {.size = sizeof greedy, .top_p = 1};
  sl_session *session;
  assert_int_equal(sl_session_new(engine, &greedy, &session, NULL), SL_OK);
  return session;
}

typedef struct chosen {
  bool by[LAYERS][EXPERTS];
} chosen;

static void note_routes(void *user, int layer, int first_pos, int n, const int32_t *ids, const float *weights) {
  chosen *c = user;
  (void)first_pos, (void)weights;
  for (int i = 0; i < n * 4; i++) c->by[layer][ids[i]] = true;
}

/* The next token after a prompt, and the experts that it went through. */
static int32_t ask(const int32_t *ids, chosen *experts) {
  sl_engine *engine = open_model(MOE_FP8);
  sl_model_info info = {.size = sizeof info};
  sl_engine_info(engine, &info);
  assert_true(info.top_k == 4 && info.n_layers <= LAYERS && info.n_experts == EXPERTS);
  sl_session *s = new_session(engine);
  sl_observer observer = {.size = sizeof observer, .user = experts, .on_routes = note_routes};
  assert_int_equal(sl_session_observe(s, &observer, NULL), SL_OK);
  assert_int_equal(sl_session_feed(s, ids, N, NULL), SL_OK);
  int32_t id;
  assert_int_equal(sl_session_next(s, &id, NULL), SL_OK);
  sl_session_free(s);
  sl_engine_free(engine);
  return id;
}

/* An expert of the first layers that the first prompt needs and the second does not. */
static void find_own(const chosen *c, int *layer, int *expert) {
  for (*layer = 0; *layer < LAYERS; ++*layer)
    for (*expert = 0; *expert < EXPERTS; ++*expert)
      if (c[0].by[*layer][*expert] && !c[1].by[*layer][*expert]) return;
  fail_msg("both prompts go through the same experts");
}

static void a_bad_expert_ends_only_the_session_that_chose_it(void **state) {
  (void)state;
  chosen experts[2] = {0};
  int layer, expert;
  ask(prompts[0], &experts[0]);
  int32_t good = ask(prompts[1], &experts[1]), ids[2];
  find_own(experts, &layer, &expert);
  char *folder = models_copy(MOE_FP8), tensor[128];
  uint16_t nan_bits = 0x7FC0;
  snprintf(tensor, sizeof tensor, "model.language_model.layers.%d.experts.%d.up_proj.weight_scale", layer, expert);
  poke(folder, tensor, 0, &nan_bits, 2);
  sl_engine *engine = open_model(folder);
  sl_session *s[2] = {new_session(engine), new_session(engine)};
  for (int i = 0; i < 2; i++) sl_session_feed(s[i], prompts[i], N, NULL);
  sl_error err = {0};
  assert_int_equal(sl_sessions_next(s, 2, ids, &err), SL_ERR_NOT_FINITE);
  tensor[strlen(tensor) - strlen("_scale")] = '\0';
  assert_non_null(strstr(err.text, tensor));
  assert_int_equal(ids[0], -1);
  assert_int_equal(ids[1], good);
  assert_int_equal(sl_session_next(s[1], &ids[1], &err), SL_OK);
  assert_int_equal(sl_session_next(s[0], &ids[0], &err), SL_ERR_STATE);
  sl_session_free(s[0]);
  sl_session_free(s[1]);
  sl_engine_free(engine);
  models_remove(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_bad_expert_ends_only_the_session_that_chose_it)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
