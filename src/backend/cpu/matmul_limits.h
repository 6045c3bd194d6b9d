/* Loops that do nothing but run into one limit of the machine, by instruction set; backend/limits.c times them. */
#ifndef SL_BACKEND_CPU_MATMUL_LIMITS_H
#define SL_BACKEND_CPU_MATMUL_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#include "backend/cpu/matmul_drive.h"

typedef struct sl_limit_loops {
  /* Reads size bytes (a multiple of 512, 64-byte aligned) with the prefetch of the decode loops.  The result depends on
   * all of them. */
  uint64_t (*read)(const uint8_t *data, size_t size);
  /* Each runs `rounds` rounds over independent sums and returns something that depends on all of them. */
  float (*fma)(int rounds);
  float (*dot)(int rounds);            /* bf16 pairs; NULL where there is no such instruction */
  double fma_per_round, dot_per_round; /* operations: a multiplication and an addition are two */
} sl_limit_loops;

extern const sl_limit_loops sl_avx512_limits, sl_avx2_limits;

#endif
