/* What this machine can do at best, measured now with the pool's threads: the yardsticks of `sluice bench` and
 * `sluice plan`. */
#ifndef SL_BACKEND_LIMITS_H
#define SL_BACKEND_LIMITS_H

#include "base/pool.h"

typedef struct sl_limits {
  double read_bytes_per_s; /* streaming reads of memory far larger than the caches, with the kernels' own
                              prefetch: the mean over the time measured */
  double f32_flops;        /* FMA, two operations each: the best moment */
  double bf16_flops;       /* bf16 dot products; 0 where the CPU has none */
} sl_limits;

/* Takes about `seconds` (0.3 is enough for planning, 1 for a benchmark).  Touches its buffer before timing. */
sl_status sl_limits_measure(sl_pool *pool, double seconds, sl_limits *out, sl_error *err);

#endif
