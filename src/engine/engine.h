/* The inside of the public handles. */
#ifndef SL_ENGINE_ENGINE_H
#define SL_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/exec.h"
#include "engine/sampler.h"
#include "sluice/sluice.h"
#include "text/tokenizer.h"

/* sl_options, checked and with the defaults filled in. */
typedef struct sl_settings {
  sl_plan_options plan;
  void (*log)(void *user, sl_log_level level, const char *message);
  void (*progress)(void *user, const char *what, uint64_t done, uint64_t total);
  void *user;
} sl_settings;

/* Checks the options as a whole.  max_ctx: of the model. */
sl_status sl_settings_make(const sl_options *options, int max_ctx, sl_settings *out, sl_error *err);

/* Work arrays of one step, sized for the longest. */
typedef struct sl_step_room {
  int32_t *ids, *positions, *wanted; /* [chunk] */
  int32_t *imposed;                  /* [n_expert_layers, chunk, top_k] */
  sl_row_group *groups;              /* [chunk] */
  sl_session **owners;               /* [chunk], of the groups */
} sl_step_room;

struct sl_engine {
  char *path;
  sl_settings settings;
  sl_model *model;
  sl_plan *plan;
  sl_tokenizer *tokenizer; /* NULL if the folder has none */
  pthread_mutex_t lock;    /* held while a step runs, and around everything below */
  bool is_loaded;
  sl_pool *pool;
  sl_exec *exec;
  sl_step_room room;
};

struct sl_session {
  sl_engine *engine;
  sl_kv *kv;       /* [program.n_kv] */
  void *kv_memory; /* one mapping behind all of them */
  size_t kv_size;
  int32_t *tokens; /* [ctx + 1]: all that were fed or generated */
  sl_role *roles;  /* [ctx + 1] */
  int n_tokens;
  int n_computed; /* tokens whose KV is there */
  float *logits;  /* [vocab] of position n_computed - 1 */
  bool has_logits;
  bool has_failed; /* in mid-step: the KV is not to be trusted */
  atomic_bool is_cancelled;
  sl_sampling sampling;
  sl_sampler *sampler;
  sl_observer observer;
  int32_t *forced; /* [n_expert_layers, n_forced, top_k] or NULL */
  int n_forced;
  sl_stats stats;
};

void sl_engine_log(const sl_engine *engine, sl_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Process memory beside weights, KV, values and scratch: the program, its libraries, heap and stacks. */
uint64_t sl_engine_other_bytes(const sl_engine *engine);

#endif
