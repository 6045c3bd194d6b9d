/* What the executor stands on: its memory, and the call of a kernel. */
#include "engine/exec.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fault.h"

static void *aligned(size_t size) { return aligned_alloc(64, (size + 127) / 64 * 64); }

sl_status sl_exec_new(sl_plan *plan, sl_pool *pool, sl_exec **out, sl_error *err) {
  const sl_model_config *c = &plan->model->config;
  sl_exec *exec = calloc(1, sizeof *exec);
  if (!exec) return sl_fail(err, SL_ERR_MEMORY, "engine: no memory");
  exec->plan = plan;
  exec->pool = pool;
  exec->values = aligned(plan->value_bytes);
  exec->scratch = aligned(plan->scratch_bytes);
  exec->segments = calloc((size_t)plan->options.chunk, sizeof *exec->segments);
  exec->is_bad = calloc((size_t)plan->options.chunk, 1);
  bool ok = exec->values && exec->scratch && exec->segments && exec->is_bad;
  for (int i = 0; i < SL_N_ROPES && ok; i++) {
    int head_dim = 0; /* all layers of a kind have the same */
    for (int l = 0; l < c->n_layers; l++)
      if (c->layers[l].rope == i) head_dim = c->layers[l].head_dim;
    exec->inv_freq[i] = calloc((size_t)head_dim / 2 + 1, sizeof(float));
    ok = exec->inv_freq[i] != NULL;
    if (ok && head_dim) sl_rope_inv_freq(exec->inv_freq[i], &c->ropes[i], head_dim);
  }
  if (!ok) {
    sl_exec_free(exec);
    return sl_fail(err, SL_ERR_MEMORY, "engine: no memory for %zu bytes of activations and scratch",
                   plan->value_bytes + plan->scratch_bytes);
  }
  *out = exec;
  return SL_OK;
}

void sl_exec_free(sl_exec *exec) {
  if (!exec) return;
  free(exec->values);
  free(exec->scratch);
  free(exec->segments);
  free(exec->is_bad);
  for (int i = 0; i < SL_N_ROPES; i++) free(exec->inv_freq[i]);
  free(exec);
}

double sl_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

float *sl_exec_value(const sl_exec *exec, int value) {
  return (float *)(void *)(exec->values + exec->plan->model->program.values[value].offset);
}

sl_status sl_exec_call(sl_exec *exec, int arm, const sl_op_args *args, sl_error *err) {
  sl_arm *a = &exec->plan->arms[arm];
  sl_ctx ctx = {.pool = exec->pool, .scratch = exec->scratch, .scratch_size = exec->plan->scratch_bytes, .err = err};
  SL_TRY(sl_op_check(a->kernel->op, args, err)); /* the door: kernels rely on it */
  double start = sl_now();
  sl_status status = a->kernel->run(&ctx, args);
  a->runs++;
  a->seconds += sl_now() - start;
  return status == SL_ERR_IO ? sl_fault_fail(err) : status;
}

bool sl_all_finite(const float *x, size_t n) {
  uint32_t bad = 0; /* integers, so that the compiler may use vectors */
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    bad |= (bits & 0x7F800000u) == 0x7F800000u;
  }
  return !bad;
}

bool sl_all_fit_f16(const float *x, size_t n) {
  uint32_t bad = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    bad |= (bits & 0x7FFFFFFFu) >= 0x477FF000u; /* 65520, from where on rounding gives an infinity */
  }
  return !bad;
}
