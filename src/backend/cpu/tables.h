/* The kernel tables of the CPU's instruction sets.  A file named *avx512*.c or *avx2*.c in this folder is compiled with
 * that instruction set's flags and must not run before sl_cpu_missing_* said that the machine has it; so everything
 * shared by all sets lies in files without these names. */
#ifndef SL_BACKEND_CPU_TABLES_H
#define SL_BACKEND_CPU_TABLES_H

#include "backend/backend.h"

/* matmul_bt, expert_ffn, dequant_rows, embed_rows */
sl_kernel_table sl_avx512_matmul_table(void);
sl_kernel_table sl_avx2_matmul_table(void);
/* everything else */
sl_kernel_table sl_avx512_vector_table(void);
sl_kernel_table sl_avx2_vector_table(void);
/* every operation */
sl_kernel_table sl_cpu_reference_table(void);

/* The first feature that the kernels of this set need and that CPU or system lacks ("avx512_bf16"), or NULL. */
const char *sl_cpu_missing_avx512(void);
const char *sl_cpu_missing_avx2(void);

#endif
