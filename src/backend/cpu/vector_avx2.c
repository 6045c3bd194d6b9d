#include <string.h>

#include "backend/cpu/attention_drive.h"
#include "backend/cpu/tables.h"
#include "backend/cpu/vector_share.h"

#include "backend/cpu/simd_avx2.h"
#include "backend/cpu/simd_math.h"

#define ATTENTION_PROMPT sl_avx2_attention_prompt
#define ATTENTION_DECODE sl_avx2_attention_decode
#include "backend/cpu/vector_loops.inc"

sl_kernel_table sl_avx2_vector_table(void) { return (sl_kernel_table){rows, (int)(sizeof rows / sizeof *rows)}; }
