/* Stand-ins until the kernels are there; a strong definition replaces each. */
#include "backend/cpu/tables.h"

#define EMPTY(name)                                                                                                    \
  __attribute__((weak)) sl_kernel_table name(void) { return (sl_kernel_table){NULL, 0}; }
EMPTY(sl_avx2_matmul_table)
