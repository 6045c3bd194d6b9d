/* How the vector kernels share their work among the pool's threads. */
#ifndef SL_CPU_VECTOR_SHARE_H
#define SL_CPU_VECTOR_SHARE_H

#include "backend/backend.h"

/* Computes units [first, end); thread is an index for per-thread scratch. */
typedef void (*sl_range_fn)(const void *arg, int64_t first, int64_t end, int thread);

/* Covers units [0, n) with calls of fn.  cost: of one unit, in about a tenth of a nanosecond.  Work that is not worth
 * waking a thread is done by the caller, in one call.  Which thread computes a unit, and with which neighbours, must
 * not matter. */
sl_status sl_share(const sl_ctx *ctx, int64_t n, int64_t cost, sl_range_fn fn, const void *arg);

#endif
