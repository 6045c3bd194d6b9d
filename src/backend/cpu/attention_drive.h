/* Attention, the part that no instruction set changes: which keys a query looks at, how work is cut into pieces, where
 * scratch lies.  An instruction set brings the loops over one block of keys (attention_loops.inc).
 *
 * Softmax is computed online.  The keys of a query are taken in blocks of SL_KV_BLOCK that begin at absolute multiples
 * of it; each block's largest score, rescaling and sums depend on the query's own keys alone.  So one query's bits are
 * the same in every prompt chunk, ring and batch and for every number of threads.
 *
 *   prompt  several rows of a session times the heads that share a KV head: a block of keys is expanded to f32 once
 *           (transposed) and used by all of them; a score is summed over head_dim in order.
 *   decode  the heads of one row that share a KV head: keys and values are expanded in registers; a score is summed
 *           in lanes.  Keys are also cut into spans of positions, each with its own softmax, that are joined in order,
 *           so that many threads can share one long context. */
#ifndef SL_CPU_ATTENTION_DRIVE_H
#define SL_CPU_ATTENTION_DRIVE_H

#include "backend/backend.h"

#define SL_ATTN_QUERIES 96 /* of one tile; a multiple of the loops' 6 */

/* Queries that look at the same KV head, with the state of their softmax. */
typedef struct sl_attn {
  float *q;                          /* [n][stride], times the scale; zeros beyond head_dim */
  float *acc;                        /* [n][stride] sum of e^(score - largest) * value */
  float *scores;                     /* [n][SL_KV_BLOCK] of one block, then e^(score - largest) */
  float *keys, *values;              /* prompt: [stride * SL_KV_BLOCK], one block in f32 as the loops want it */
  float *largest, *sum, *correction; /* [n]; correction: what the last block's larger score made of the past */
  int *from, *to;                    /* [n] keys of this block that each query looks at: from <= key < to, or none */
  int n, head_dim, stride;           /* stride: head_dim rounded up to 16 */
} sl_attn;

/* Keys and values of the positions of one block, as they lie in the cache: rows of head_dim. */
typedef struct sl_attn_block {
  const void *k, *v;
  sl_dtype dtype;
  int from, to;       /* rows that some query looks at; no other is read */
  const void *next_k; /* keys that will be read next, or NULL */
} sl_attn_block;

/* Adds one block to the state of all queries. */
typedef struct sl_attn_loops {
  void (*prompt_block)(const sl_attn *a, const sl_attn_block *block);
  void (*decode_block)(const sl_attn *a, const sl_attn_block *block);
} sl_attn_loops;

bool sl_attention_fits(const sl_op_sig *sig, sl_refusal *why);
size_t sl_attention_prompt_scratch(const sl_op_sig *sig, int M, int n_threads);
size_t sl_attention_decode_scratch(const sl_op_sig *sig, int M, int n_threads);
sl_status sl_attention_prompt(const sl_attn_loops *loops, const sl_ctx *ctx, const sl_attention_args *args);
sl_status sl_attention_decode(const sl_attn_loops *loops, const sl_ctx *ctx, const sl_attention_args *args);

sl_status sl_avx512_attention_prompt(const sl_ctx *ctx, const sl_op_args *args);
sl_status sl_avx512_attention_decode(const sl_ctx *ctx, const sl_op_args *args);
sl_status sl_avx2_attention_prompt(const sl_ctx *ctx, const sl_op_args *args);
sl_status sl_avx2_attention_decode(const sl_ctx *ctx, const sl_op_args *args);

#endif
