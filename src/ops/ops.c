#include "ops/ops.h"

static const struct {
  const char *name;
  bool has_dtype;
} ops[SL_N_OPS] = {
    [SL_OP_EMBED_ROWS] = {"embed_rows", true},
    [SL_OP_MATMUL_BT] = {"matmul_bt", true},
    [SL_OP_DEQUANT_ROWS] = {"dequant_rows", true},
    [SL_OP_GATHER_ROWS] = {"gather_rows", false},
    [SL_OP_SCATTER_ADD_ROWS] = {"scatter_add_rows", false},
    [SL_OP_FILL_ZERO] = {"fill_zero", false},
    [SL_OP_RMS_NORM] = {"rms_norm", false},
    [SL_OP_RMS_NORM_ADD] = {"rms_norm_add", false},
    [SL_OP_DUAL_RMS_NORM_ADD] = {"dual_rms_norm_add", false},
    [SL_OP_GEGLU] = {"geglu", false},
    [SL_OP_SWIGLU] = {"swiglu", false},
    [SL_OP_EXPERT_FFN] = {"expert_ffn", true},
    [SL_OP_ROUTE_TOPK] = {"route_topk", false},
    [SL_OP_ROPE] = {"rope", false},
    [SL_OP_KV_WRITE] = {"kv_write", true},
    [SL_OP_ATTENTION] = {"attention", true},
    [SL_OP_SOFTCAP] = {"softcap", false},
    [SL_OP_ARGMAX] = {"argmax", false},
    [SL_OP_ADD] = {"add", false},
    [SL_OP_SCALE] = {"scale", false},
};

const char *sl_op_name(sl_op op) { return (unsigned)op < SL_N_OPS ? ops[op].name : "unknown operation"; }

bool sl_op_has_dtype(sl_op op) { return (unsigned)op < SL_N_OPS && ops[op].has_dtype; }
