/* The reference as a backend: every operation, in pieces over the pool.  The last arm of every plan. */
#include "ops/reference.h"

#include "backend/cpu/tables.h"
#include "base/fault.h"

typedef struct job {
  sl_op op;
  const sl_op_args *args;
  int n_rows, rows_per_piece;
} job;

static void run_piece(void *arg, int piece, int thread) {
  (void)thread;
  const job *j = arg;
  int first = piece * j->rows_per_piece, rest = j->n_rows - first;
  sl_reference_rows(j->op, j->args, first, first + (rest < j->rows_per_piece ? rest : j->rows_per_piece));
}

/* matmul_bt is cut along N: one token is then shared by all threads too. */
static void run_matmul_piece(void *arg, int piece, int thread) {
  (void)thread;
  const job *j = arg;
  const sl_matmul_bt_args *whole = &j->args->matmul_bt;
  int first = piece * j->rows_per_piece, rest = whole->B->N - first;
  sl_weight part = *whole->B;
  part.N = rest < j->rows_per_piece ? rest : j->rows_per_piece;
  if (part.K > 0) part.data = (const char *)part.data + (size_t)first * sl_row_bytes(part.dtype, part.K);
  if (part.scale) part.scale = (const char *)part.scale + (size_t)first * sl_dtype_size(part.scale_dtype);
  sl_op_args args = {.matmul_bt = *whole};
  args.matmul_bt.B = &part;
  args.matmul_bt.out = whole->out + first;
  sl_reference_rows(SL_OP_MATMUL_BT, &args, 0, whole->M);
}

/* Pieces of at least `least` rows, and a few for each thread. */
static sl_status share(const sl_ctx *ctx, job *j, int least, sl_piece_fn fn) {
  if (j->n_rows <= 0) return SL_OK;
  int most = sl_pool_threads(ctx->pool) * 4, rows = j->n_rows / most;
  j->rows_per_piece = rows < least ? least : rows;
  sl_status status = sl_pool_run(ctx->pool, (j->n_rows - 1) / j->rows_per_piece + 1, fn, j);
  return status == SL_ERR_IO ? sl_fault_fail(ctx->err) : status;
}

static sl_status run_rows(const sl_ctx *ctx, sl_op op, const sl_op_args *args, int least) {
  job j = {op, args, sl_reference_n_rows(op, args), 0};
  return share(ctx, &j, least, run_piece);
}

static sl_status run_matmul_bt(const sl_ctx *ctx, const sl_op_args *args) {
  if (args->matmul_bt.M <= 0) return SL_OK;
  job j = {SL_OP_MATMUL_BT, args, args->matmul_bt.B->N, 0};
  return share(ctx, &j, 8, run_matmul_piece);
}

/* A row of the heavy ones is worth a piece; of the others, a piece should outweigh waking a thread. */
#define RUN(name, OP, least)                                                                                           \
  static sl_status run_##name(const sl_ctx *ctx, const sl_op_args *args) { return run_rows(ctx, OP, args, least); }
RUN(embed_rows, SL_OP_EMBED_ROWS, 4)
RUN(dequant_rows, SL_OP_DEQUANT_ROWS, 4)
RUN(gather_rows, SL_OP_GATHER_ROWS, 16)
RUN(scatter_add_rows, SL_OP_SCATTER_ADD_ROWS, 256)
RUN(fill_zero, SL_OP_FILL_ZERO, 16)
RUN(rms_norm, SL_OP_RMS_NORM, 4)
RUN(rms_norm_add, SL_OP_RMS_NORM_ADD, 4)
RUN(dual_rms_norm_add, SL_OP_DUAL_RMS_NORM_ADD, 4)
RUN(geglu, SL_OP_GEGLU, 1)
RUN(swiglu, SL_OP_SWIGLU, 1)
RUN(expert_ffn, SL_OP_EXPERT_FFN, 1)
RUN(route_topk, SL_OP_ROUTE_TOPK, 4)
RUN(rope, SL_OP_ROPE, 1)
RUN(kv_write, SL_OP_KV_WRITE, 8)
RUN(attention, SL_OP_ATTENTION, 1)
RUN(softcap, SL_OP_SOFTCAP, 1)
RUN(argmax, SL_OP_ARGMAX, 1)
RUN(add, SL_OP_ADD, 16)
RUN(scale, SL_OP_SCALE, 16)
#undef RUN

#define ROLES   (1u << SL_PROMPT | 1u << SL_GENERATED)
#define MATHS   (1u << SL_EXACT | 1u << SL_FAST)
#define WEIGHTS (1u << SL_F32 | 1u << SL_F16 | 1u << SL_BF16 | 1u << SL_F8_E4M3)
#define CACHES  (1u << SL_F32 | 1u << SL_F16)
#define PLAIN   (1u << SL_F32)
#define ROW(name, OP, dtypes)                                                                                          \
  { "reference/" #name, OP, ROLES, MATHS, dtypes, NULL, NULL, run_##name }

static const sl_kernel rows[] = {
    ROW(embed_rows, SL_OP_EMBED_ROWS, WEIGHTS),
    ROW(matmul_bt, SL_OP_MATMUL_BT, WEIGHTS),
    ROW(dequant_rows, SL_OP_DEQUANT_ROWS, WEIGHTS),
    ROW(gather_rows, SL_OP_GATHER_ROWS, PLAIN),
    ROW(scatter_add_rows, SL_OP_SCATTER_ADD_ROWS, PLAIN),
    ROW(fill_zero, SL_OP_FILL_ZERO, PLAIN),
    ROW(rms_norm, SL_OP_RMS_NORM, PLAIN),
    ROW(rms_norm_add, SL_OP_RMS_NORM_ADD, PLAIN),
    ROW(dual_rms_norm_add, SL_OP_DUAL_RMS_NORM_ADD, PLAIN),
    ROW(geglu, SL_OP_GEGLU, PLAIN),
    ROW(swiglu, SL_OP_SWIGLU, PLAIN),
    ROW(expert_ffn, SL_OP_EXPERT_FFN, WEIGHTS),
    ROW(route_topk, SL_OP_ROUTE_TOPK, PLAIN),
    ROW(rope, SL_OP_ROPE, PLAIN),
    ROW(kv_write, SL_OP_KV_WRITE, CACHES),
    ROW(attention, SL_OP_ATTENTION, CACHES),
    ROW(softcap, SL_OP_SOFTCAP, PLAIN),
    ROW(argmax, SL_OP_ARGMAX, PLAIN),
    ROW(add, SL_OP_ADD, PLAIN),
    ROW(scale, SL_OP_SCALE, PLAIN),
};

sl_kernel_table sl_cpu_reference_table(void) { return (sl_kernel_table){rows, (int)(sizeof rows / sizeof *rows)}; }
