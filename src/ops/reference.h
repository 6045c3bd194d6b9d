/* A scalar reference of each operation that reads like the formula.  It is the judge of every fast kernel and the
 * last arm of every plan.  Sums in matmul_bt, norms and attention run in double and are rounded once, so that the
 * reference is closer to the mathematics than any kernel it judges. */
#ifndef SL_OPS_REFERENCE_H
#define SL_OPS_REFERENCE_H

#include "ops/ops.h"

/* Computes rows [first_row, end_row) of the operation: of M, or of N for dequant_rows (its n_rows).  Single-threaded
 * and without allocation, so that a backend can cut the rows into pieces.  scatter_add_rows takes columns instead.
 * argument `math` SL_FAST is ignored: the reference is always exact. */
void sl_reference_rows(sl_op op, const sl_op_args *args, int first_row, int end_row);
/* How many rows (columns for scatter_add_rows) there are to cut. */
int sl_reference_n_rows(sl_op op, const sl_op_args *args);

#endif
