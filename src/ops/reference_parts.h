/* The reference by theme; inside src/ops only.  Each computes rows [first, end) of its operation. */
#ifndef SL_OPS_REFERENCE_PARTS_H
#define SL_OPS_REFERENCE_PARTS_H

#include "ops/ops.h"

/* reference_matmul.c */
void sl_ref_embed_rows(const sl_embed_rows_args *a, int first, int end);
void sl_ref_matmul_bt(const sl_matmul_bt_args *a, int first, int end);
void sl_ref_dequant_rows(const sl_dequant_rows_args *a, int first, int end);
void sl_ref_expert_ffn(const sl_expert_ffn_args *a, int first, int end);

/* reference_norm.c */
void sl_ref_rms_norm(const sl_rms_norm_args *a, int first, int end);
void sl_ref_rms_norm_add(const sl_rms_norm_args *a, int first, int end);
void sl_ref_dual_rms_norm_add(const sl_dual_rms_norm_add_args *a, int first, int end);
double sl_ref_activation(sl_activation act, double x);
void sl_ref_glu(sl_activation act, const sl_glu_args *a, int first, int end);
void sl_ref_route_topk(const sl_route_topk_args *a, int first, int end);

/* reference_attention.c */
void sl_ref_rope(const sl_rope_args *a, int first, int end);
void sl_ref_kv_write(const sl_kv_write_args *a, int first, int end);
void sl_ref_attention(const sl_attention_args *a, int first, int end);

#endif
