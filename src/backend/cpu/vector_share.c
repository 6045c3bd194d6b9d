#include "backend/cpu/vector_share.h"

#include "base/fault.h"

/* A piece should outweigh handing it to another thread, which takes a microsecond or two. */
enum { PIECE_COST = 1 << 16, PIECES_PER_THREAD = 8 };

typedef struct job {
  sl_range_fn fn;
  const void *arg;
  int64_t n, per_piece;
} job;

static void run_piece(void *arg, int piece, int thread) {
  const job *j = arg;
  int64_t first = piece * j->per_piece, left = j->n - first;
  j->fn(j->arg, first, first + (left < j->per_piece ? left : j->per_piece), thread);
}

sl_status sl_share(const sl_ctx *ctx, int64_t n, int64_t cost, sl_range_fn fn, const void *arg) {
  if (n <= 0) return SL_OK;
  int n_threads = sl_pool_threads(ctx->pool);
  int64_t most = (int64_t)n_threads * PIECES_PER_THREAD;
  int64_t worth = cost >= PIECE_COST ? n : n / (PIECE_COST / (cost > 0 ? cost : 1));
  if (worth > most) worth = most;
  if (n_threads == 1 || worth < 2) {
    fn(arg, 0, n, 0);
    return SL_OK;
  }
  job j = {fn, arg, n, (n + worth - 1) / worth};
  sl_status status = sl_pool_run(ctx->pool, (int)((n - 1) / j.per_piece + 1), run_piece, &j);
  return status == SL_ERR_IO ? sl_fault_fail(ctx->err) : status;
}
