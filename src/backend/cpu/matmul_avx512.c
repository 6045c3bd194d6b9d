/* The table of the AVX-512 matrix kernels. */
#include "backend/cpu/matmul_avx512.h"

#include "backend/cpu/tables.h"

/* bf16 bits of an e4m3 code below 128: 4 bits of exponent (bias 7), 3 of mantissa, and subnormals m * 2^-9. */
#define SUBNORMAL(m) ((m) == 0 ? 0 : (m) == 1 ? 118 << 7 : (m) < 4 ? 119 << 7 | ((m)&1) << 6 : 120 << 7 | ((m)&3) << 5)
#define CODE(i)      ((i) == 127 ? 0x7FC0 : (i) < 8 ? SUBNORMAL(i) : (((i) >> 3) + 120) << 7 | ((i)&7) << 4)
#define EIGHT(f, i)  f(i), f((i) + 1), f((i) + 2), f((i) + 3), f((i) + 4), f((i) + 5), f((i) + 6), f((i) + 7)
#define ALL(f)                                                                                                         \
  EIGHT(f, 0), EIGHT(f, 8), EIGHT(f, 16), EIGHT(f, 24), EIGHT(f, 32), EIGHT(f, 40), EIGHT(f, 48), EIGHT(f, 56),        \
      EIGHT(f, 64), EIGHT(f, 72), EIGHT(f, 80), EIGHT(f, 88), EIGHT(f, 96), EIGHT(f, 104), EIGHT(f, 112),              \
      EIGHT(f, 120)
#define HIGH(i) CODE(i) >> 8
#define LOW(i)  CODE(i) & 0xFF

const uint8_t sl_f8_high_bytes[128] = {ALL(HIGH)};
const uint8_t sl_f8_low_bytes[128] = {ALL(LOW)};

static sl_status decode_exact(const sl_ctx *ctx, const sl_op_args *args) {
  return sl_mm_decode_run(&sl_avx512_decode_exact, ctx, &args->matmul_bt);
}
static sl_status decode_fast(const sl_ctx *ctx, const sl_op_args *args) {
  return sl_mm_decode_run(&sl_avx512_decode_fast, ctx, &args->matmul_bt);
}
static sl_status experts_exact(const sl_ctx *ctx, const sl_op_args *args) {
  return sl_mm_experts_run(&sl_avx512_decode_exact, ctx, &args->expert_ffn);
}
static sl_status experts_fast(const sl_ctx *ctx, const sl_op_args *args) {
  return sl_mm_experts_run(&sl_avx512_decode_fast, ctx, &args->expert_ffn);
}
static sl_status prompt_exact(const sl_ctx *ctx, const sl_op_args *args) {
  return sl_mm_prompt_run(&sl_avx512_prompt_exact, ctx, &args->matmul_bt);
}
static sl_status prompt_fast(const sl_ctx *ctx, const sl_op_args *args) {
  return sl_mm_prompt_run(&sl_avx512_prompt_fast, ctx, &args->matmul_bt);
}
static size_t prompt_exact_scratch(const sl_op_sig *sig, int M, int n_threads) {
  return sl_mm_prompt_scratch(&sl_avx512_prompt_exact, sig, M, n_threads);
}
static size_t prompt_fast_scratch(const sl_op_sig *sig, int M, int n_threads) {
  return sl_mm_prompt_scratch(&sl_avx512_prompt_fast, sig, M, n_threads);
}
static sl_status dequant(const sl_ctx *ctx, const sl_op_args *args) {
  return sl_mm_dequant_run(&sl_avx512_rows, ctx, &args->dequant_rows);
}
static sl_status embed(const sl_ctx *ctx, const sl_op_args *args) {
  return sl_mm_embed_run(&sl_avx512_rows, ctx, &args->embed_rows);
}

#define BIT(x) (1u << (x))
enum {
  F8 = BIT(SL_F8_E4M3),
  BF16 = BIT(SL_BF16),
  F16 = BIT(SL_F16),
  F32 = BIT(SL_F32),
  ALL_DTYPES = F8 | BF16 | F16 | F32,
  GENERATED = BIT(SL_GENERATED),
  PROMPT = BIT(SL_PROMPT),
  EXACT = BIT(SL_EXACT),
  FAST = BIT(SL_FAST),
};

#define DECODE(kind, dtype, maths, math)                                                                               \
  {"avx512/matmul_bt/" kind, SL_OP_MATMUL_BT, GENERATED, maths, dtype, NULL, sl_mm_decode_scratch, decode_##math}, {   \
    "avx512/expert_ffn/" kind, SL_OP_EXPERT_FFN, GENERATED, maths, dtype, NULL, sl_mm_experts_scratch, experts_##math  \
  }
#define PANEL(kind, dtype, maths, math)                                                                                \
  { "avx512/matmul_bt/" kind, SL_OP_MATMUL_BT, PROMPT, maths, dtype, NULL, prompt_##math##_scratch, prompt_##math }

static const sl_kernel kernels[] = {
    DECODE("f8_pair", F8, EXACT, exact),
    DECODE("f8_bf16", F8, FAST, fast),
    DECODE("bf16_pair", BF16, EXACT, exact),
    DECODE("bf16_bf16", BF16, FAST, fast),
    DECODE("f16_f32", F16, EXACT | FAST, exact),
    DECODE("f32_f32", F32, EXACT | FAST, exact),
    PANEL("panel_bf16", F8 | BF16, FAST, fast),
    PANEL("panel_f32", ALL_DTYPES, EXACT | FAST, exact), /* fast: F16 and F32 weights */
    {"avx512/dequant_rows", SL_OP_DEQUANT_ROWS, GENERATED | PROMPT, EXACT | FAST, ALL_DTYPES, NULL, NULL, dequant},
    {"avx512/embed_rows", SL_OP_EMBED_ROWS, GENERATED | PROMPT, EXACT | FAST, ALL_DTYPES, NULL, NULL, embed},
};

sl_kernel_table sl_avx512_matmul_table(void) {
  return (sl_kernel_table){kernels, (int)(sizeof kernels / sizeof *kernels)};
}
