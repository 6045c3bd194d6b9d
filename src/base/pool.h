/* A pool of threads that share out the pieces of one job at a time.
 *
 * Pieces are handed out one by one from an atomic counter, so a thread that the system delays holds back one piece
 * and not a fixed share.  Waiting threads spin briefly and then sleep in the kernel (futex): pure spinning loses most
 * of the speed to a single busy neighbour.  Which thread runs a piece must never change what the piece computes. */
#ifndef SL_BASE_POOL_H
#define SL_BASE_POOL_H

#include "base/status.h"

typedef struct sl_pool sl_pool;

/* One piece of a job.  `piece` in [0, n_pieces), `thread` in [0, sl_pool_threads): an index for per-thread scratch. */
typedef void (*sl_piece_fn)(void *arg, int piece, int thread);

/* n_threads >= 1 counts the caller: n_threads - 1 threads are started.  *out is freed with sl_pool_free. */
sl_status sl_pool_new(int n_threads, sl_pool **out, sl_error *err);
void sl_pool_free(sl_pool *pool); /* NULL is fine */
int sl_pool_threads(const sl_pool *pool);

/* Runs fn for every piece and returns when all are done; the caller works too.  One job at a time per pool; a piece
 * must not call sl_pool_run.  Returns SL_ERR_IO if a piece touched mapped file data that could not be read (see
 * base/fault.h; sl_fault_fail makes the sentence); the other pieces have then still been run or skipped, and the pool
 * can be used again. */
sl_status sl_pool_run(sl_pool *pool, int n_pieces, sl_piece_fn fn, void *arg);

#endif
