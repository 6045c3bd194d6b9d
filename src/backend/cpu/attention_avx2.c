#include <math.h>

#include "backend/cpu/attention_drive.h"

#include "backend/cpu/simd_avx2.h"
#include "backend/cpu/simd_math.h"

#include "backend/cpu/attention_loops.inc"

sl_status sl_avx2_attention_prompt(const sl_ctx *ctx, const sl_op_args *args) {
  return sl_attention_prompt(&loops, ctx, &args->attention);
}

sl_status sl_avx2_attention_decode(const sl_ctx *ctx, const sl_op_args *args) {
  return sl_attention_decode(&loops, ctx, &args->attention);
}
