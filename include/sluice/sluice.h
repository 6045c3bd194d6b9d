/* sluice: runs Mixture-of-Experts language models from the files people have.
 *
 * The rules of the house
 * ----------------------
 * Objects.   An engine is an open model; a session is one conversation with it (its tokens and their KV).  Both are
 *            opaque, made by sl_*_new/open and freed by sl_*_free, which take NULL.  Free sessions before their
 *            engine.  Nothing is global: two engines in one process know nothing of each other.
 * Errors.    Functions that can fail return sl_status and fill `err` (may be NULL) with one sentence.  Nothing here
 *            prints, exits or aborts; sl_options.log receives what is worth knowing.
 * Checks.    What can be refused is refused before anything is read, allocated or computed.  A failed call leaves the
 *            session as it was, except SL_ERR_IO and SL_ERR_NOT_FINITE in mid-step, after which only sl_session_reset
 *            and sl_session_free are useful; the engine and its other sessions go on.
 * Threads.   Different sessions may be used from different threads at the same time; the engine runs their steps one
 *            after the other.  One session belongs to one thread at a time, except sl_session_cancel, which may be
 *            called from any thread and from a signal handler.
 * Answers.   On one machine, build and choice of kernels, logits are byte-identical whatever the number of threads, the
 *            prompt chunk, and the other sessions in a step.  They depend on the tokens and on each token's role: fed
 *            (part of a prompt) or generated.
 * Ownership. Strings and arrays returned by const pointer belong to the object and live as long as it, unless the
 *            comment says so; strings returned by char* are freed with sl_string_free.
 * Text.      UTF-8 with an explicit length.  Invalid parts become U+FFFD.
 * Versions.  Structs that the caller fills begin with `size`, set by their _init function, so that later versions
 *            can grow them. */
#ifndef SLUICE_SLUICE_H
#define SLUICE_SLUICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SL_ABI_VERSION 1 /* changes when a program built against an older header would misbehave */

SL_API int sl_abi_version(void);
SL_API const char *sl_version(void); /* "0.1.0" */
SL_API void sl_string_free(char *string);

/* ---- options ---------------------------------------------------------------------------------------------------- */

typedef enum sl_log_level { SL_LOG_INFO, SL_LOG_WARNING } sl_log_level;

typedef struct sl_options {
  size_t size;
  int threads;         /* 0: as many as CPUs may be used; 1..256 */
  int chunk;           /* tokens of a prompt per step; 0: 512; 1..4096 */
  int ctx;             /* tokens of context per session; 0: the smaller of the model's maximum and 8192 */
  const char *math;    /* "exact" (default) or "fast" */
  const char *kv;      /* "f16" (default) or "f32" */
  const char *kernels; /* "auto" (default), "avx512", "avx2" or "reference" */

  /* Called from the thread that called into sluice.  message has no newline.  May be NULL. */
  void (*log)(void *user, sl_log_level level, const char *message);
  /* While loading and during prompts: done of total units of `what` ("loading" bytes, "prompt" tokens); the same `done`
   * may come again.  May be NULL. */
  void (*progress)(void *user, const char *what, uint64_t done, uint64_t total);
  void *user;
} sl_options;

SL_API void sl_options_init(sl_options *options);

/* Sets one option from its text form, as a flag or an environment variable would: name "threads", value "2".
 * Unknown names and bad values are SL_ERR_ARGUMENT; the sentence lists what is allowed. */
SL_API sl_status sl_options_set(sl_options *options, const char *name, const char *value, sl_error *err);

/* The names that sl_options_set knows, NULL-terminated; sl_option_help gives a line for one of them. */
SL_API const char *const *sl_option_names(void);
SL_API const char *sl_option_help(const char *name);

/* A SIGBUS handler for the process: with it, a mapped model file that cannot be read any more (truncated, bad disk)
 * ends the call that needed it with SL_ERR_IO.  Without it such a fault ends the process.  Faults elsewhere go on to
 * the handler that was there before.  For programs to call; the library never does. */
SL_API sl_status sl_install_fault_guard(sl_error *err);

/* ---- engine ----------------------------------------------------------------------------------------------------- */

typedef struct sl_engine sl_engine;

/* Opens a model: `path` is a checkpoint folder.  Everything that can be refused is refused here: unknown model type,
 * missing or unused tensors, shapes, kernels.  No weights are read and little is allocated: reports and the tokenizer
 * work at once, and a folder of any size is open in well under a second. */
SL_API sl_status sl_engine_open(const char *path, const sl_options *options, sl_engine **out, sl_error *err);
SL_API void sl_engine_free(sl_engine *engine);

/* Another context length (tokens per session) than the options said, for whoever knows the prompt only after
 * tokenizing it.  1 .. the model's maximum; SL_ERR_STATE once the engine is loaded.  Not while another thread
 * uses the engine. */
SL_API sl_status sl_engine_set_ctx(sl_engine *engine, int ctx, sl_error *err);

/* Starts the threads, allocates, and reads the weights (with progress).  The first sl_session_new does it if nobody
 * did.  May be called again after a failure. */
SL_API sl_status sl_engine_load(sl_engine *engine, sl_error *err);

typedef struct sl_model_info {
  size_t size;
  const char *path, *family;                     /* "gemma4", "gemma3" */
  int n_layers, hidden, vocab, n_experts, top_k; /* n_experts and top_k are 0 for dense models */
  int n_expert_layers;                           /* layers that have experts */
  int ctx, max_ctx;                              /* in force; the model's own maximum */
  int threads, chunk;                            /* in force */
  int bos;                                       /* -1: none */
  bool has_tokenizer;
  const int32_t *eos;
  int n_eos; /* end tokens: the union of config.json and generation_config.json */
} sl_model_info;
/* info->size must be set (sizeof *info). */
SL_API void sl_engine_info(const sl_engine *engine, sl_model_info *info);

/* Reports as JSON text (free with sl_string_free):
 * inspect: config as understood, every tensor with dtype, shape, file and role, what is skipped and why, totals.
 * plan: each op of each layer with its kernel; bytes by kind; bytes per decoded token; with `measure`, the machine's
 *       limits and the speed to expect from them.
 * ops (no engine needed): {"cells":[{"op","backend","dtype","kernel","reason","detail"}]}.
 * limits: {"read_bytes_per_s","f32_flops","bf16_flops"} measured for about `seconds` with this engine's threads. */
SL_API sl_status sl_engine_inspect_json(const sl_engine *engine, char **json, sl_error *err);
SL_API sl_status sl_engine_plan_json(sl_engine *engine, bool measure, char **json, sl_error *err);
SL_API sl_status sl_ops_json(char **json, sl_error *err);
SL_API sl_status sl_engine_limits(sl_engine *engine, double seconds, double *read_bytes_per_s, double *f32_flops,
                                  double *bf16_flops, sl_error *err);

/* ---- text ------------------------------------------------------------------------------------------------------- */

/* Ids of a text.  special: names of special tokens in the text become those tokens; else they are plain text.  bos:
 * puts the model's BOS in front (once: not if the ids already begin with it).  *ids (free with sl_ids_free). */
SL_API sl_status sl_tokenize(const sl_engine *engine, const char *text, size_t size, bool special, bool bos,
                             int32_t **ids, size_t *n, sl_error *err);
SL_API void sl_ids_free(int32_t *ids);

/* The whole text of the ids; special tokens show their names if `special`.  *size may be NULL. */
SL_API sl_status sl_detokenize(const sl_engine *engine, const int32_t *ids, size_t n, bool special, char **text,
                               size_t *size, sl_error *err);

/* Text of a stream of ids, token by token: only whole UTF-8 characters come out, the rest is held back. */
typedef struct sl_text_stream sl_text_stream;
SL_API sl_status sl_text_stream_new(const sl_engine *engine, bool special, sl_text_stream **out, sl_error *err);
SL_API void sl_text_stream_free(sl_text_stream *stream);
/* What may be shown now; valid until the next call.  id -1 ends the stream and gives what was held back. */
SL_API sl_status sl_text_stream_put(sl_text_stream *stream, int32_t id, const char **text, size_t *size, sl_error *err);

/* ---- sessions --------------------------------------------------------------------------------------------------- */

typedef struct sl_sampling {
  size_t size;
  double temperature; /* 0: greedy; at most 100 */
  int top_k;          /* 0: off */
  double top_p;       /* 1: off */
  double min_p;       /* 0: off */
  uint64_t seed;
} sl_sampling;
/* The checkpoint's generation_config, else greedy; seed 0. */
SL_API void sl_sampling_init(const sl_engine *engine, sl_sampling *sampling);
SL_API sl_status sl_sampling_check(const sl_sampling *sampling, sl_error *err);

typedef struct sl_session sl_session;
/* sampling NULL: as sl_sampling_init. */
SL_API sl_status sl_session_new(sl_engine *engine, const sl_sampling *sampling, sl_session **out, sl_error *err);
SL_API void sl_session_free(sl_session *session);
/* Forgets all tokens and starts the seed again.  A cancel that no call has answered yet stays. */
SL_API void sl_session_reset(sl_session *session);

/* Appends prompt tokens, to be computed by the next step.  Refuses ids outside the vocabulary (SL_ERR_ARGUMENT) and
 * more tokens than the context has room for (SL_ERR_CONTEXT_FULL; the sentence says how many fit). */
SL_API sl_status sl_session_feed(sl_session *session, const int32_t *ids, size_t n, sl_error *err);
/* The same, but with the arithmetic of generated tokens (one token a step): for comparing the two roles. */
SL_API sl_status sl_session_feed_generated(sl_session *session, const int32_t *ids, size_t n, sl_error *err);

/* Computes what was fed, or else the token that `next` gave last; then samples the next token into *id. */
SL_API sl_status sl_session_next(sl_session *session, int32_t *id, sl_error *err);
/* The same for n sessions of one engine in common steps (each session once).  A failure ends the sessions that it
 * concerns: their ids are -1, the others go on; the status and the sentence are of the first one. */
SL_API sl_status sl_sessions_next(sl_session *const *sessions, size_t n, int32_t *ids, sl_error *err);
/* Computes what was fed and samples nothing; a session with nothing to compute is SL_OK. */
SL_API sl_status sl_session_compute(sl_session *session, sl_error *err);
/* [vocab] f32 of the last computed position, NULL before any. */
SL_API const float *sl_session_logits(const sl_session *session);
SL_API size_t sl_session_length(const sl_session *session); /* tokens fed or generated so far */
/* Tokens that still fit.  At 0 one more `next` gives a token; the one after it is SL_ERR_CONTEXT_FULL. */
SL_API size_t sl_session_room(const sl_session *session);

/* Makes the running or the next computing call return SL_ERR_CANCELLED, between two layers.  What was computed stays;
 * the session can go on afterwards.  Async-signal-safe. */
SL_API void sl_session_cancel(sl_session *session);

/* Watches a session's computation, for tests and tools.  rows are the positions first_pos .. first_pos+n-1.
 * on_hidden: layer -1 is the scaled embedding, else that layer's output; x [n, hidden].
 * on_routes: ids and weights [n, top_k] in router order.
 * on_logits: [n, vocab]; setting it makes every position's logits be computed.
 * Any may be NULL.  observer NULL: none. */
typedef struct sl_observer {
  size_t size;
  void *user;
  void (*on_hidden)(void *user, int layer, int first_pos, int n, const float *x);
  void (*on_routes)(void *user, int layer, int first_pos, int n, const int32_t *ids, const float *weights);
  void (*on_logits)(void *user, int first_pos, int n, const float *logits);
} sl_observer;
SL_API sl_status sl_session_observe(sl_session *session, const sl_observer *observer, sl_error *err);

/* Imposes experts: ids [n_expert_layers, n_tokens, top_k] for positions 0 .. n_tokens-1 (copied); weights are computed
 * from the model's own router over them.  Ids must be in range and distinct per token.  A generated token's experts are
 * summed in the order given, so another order may change the last bits.  NULL: no more. */
SL_API sl_status sl_session_force_routes(sl_session *session, const int32_t *ids, size_t n_tokens, sl_error *err);

/* ---- statistics ------------------------------------------------------------------------------------------------- */

typedef struct sl_stats {
  size_t size;
  uint64_t prompt_tokens, decode_tokens; /* computed in each role */
  double prompt_s, decode_s;             /* seconds spent in steps of each role */
  uint64_t steps;
  uint64_t planned_bytes; /* what plan says everything takes */
} sl_stats;
SL_API void sl_session_stats(const sl_session *session, sl_stats *stats); /* stats->size must be set */
/* Kernels in use, how often each ran and how long in all: arm i of the engine; false past the end.  Not while a step
 * runs. */
SL_API bool sl_engine_arm(const sl_engine *engine, int i, const char **kernel, uint64_t *runs, double *seconds);

#ifdef __cplusplus
}
#endif
#endif
