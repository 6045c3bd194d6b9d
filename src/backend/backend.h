/* Backends and the one table that decides.
 *
 * A backend is an ordered set of kernels on one kind of device or instruction set: "cpu-avx512", "cpu-avx2",
 * "cpu-reference".  sl_kernel_find is the only question anybody asks: whether something can run is "find returned a
 * kernel", and running it is calling that kernel.  Nothing else dispatches. */
#ifndef SL_BACKEND_BACKEND_H
#define SL_BACKEND_BACKEND_H

#include "base/pool.h"
#include "ops/ops.h"

/* Why there is no kernel.  The four send the reader to different places. */
typedef enum sl_reason {
  SL_NOT_WRITTEN,   /* no such kernel in this backend: names op and backend */
  SL_NOT_COMPILED,  /* this build lacks it: names the build option */
  SL_NOT_ON_DEVICE, /* this machine lacks it: names the missing feature */
  SL_OUT_OF_RANGE   /* a kernel exists, but not for this shape or dtype: names it */
} sl_reason;
const char *sl_reason_name(sl_reason reason); /* "not_written", ... */

typedef struct sl_refusal {
  sl_reason reason;
  char detail[192];
} sl_refusal;

/* What a kernel runs with. */
typedef struct sl_ctx {
  sl_pool *pool;
  void *scratch; /* 64-byte aligned, of at least the size that the kernel asked for; contents undefined */
  size_t scratch_size;
  sl_error *err; /* may be NULL */
} sl_ctx;

typedef struct sl_kernel {
  const char *name; /* "avx512/matmul_bt/f8_pair" */
  sl_op op;
  unsigned roles;  /* bit (1 << sl_role) for each that it serves */
  unsigned maths;  /* bit (1 << sl_math) */
  unsigned dtypes; /* bit (1 << sl_dtype) */
  /* Shapes it takes; NULL for all.  On false it fills why->detail. */
  bool (*fits)(const sl_op_sig *sig, sl_refusal *why);
  /* Scratch bytes for at most M rows with n_threads threads; NULL for none. */
  size_t (*scratch)(const sl_op_sig *sig, int M, int n_threads);
  /* The arguments passed sl_op_check.  Fails with SL_ERR_IO if mapped weights cannot be read; the calling thread's
   * sl_fault_fail then has file and offset. */
  sl_status (*run)(const sl_ctx *ctx, const sl_op_args *args);
} sl_kernel;

/* Rows of kernels; earlier rows are preferred. */
typedef struct sl_kernel_table {
  const sl_kernel *rows;
  int n;
} sl_kernel_table;

/* Constant: what depends on the machine is asked through functions, so nothing here has to be set up at start. */
typedef struct sl_backend {
  const char *name;                       /* "cpu-avx512" */
  sl_kernel_table (*const *tables)(void); /* searched in order, first match wins */
  int n_tables;
  const char *not_compiled;     /* build option that is missing, or NULL */
  const char *(*missing)(void); /* the feature that this machine lacks, or NULL; the function may be NULL */
} sl_backend;

/* The kernel that runs this signature on the backend, or NULL and why not.  why may be NULL. */
const sl_kernel *sl_kernel_find(const sl_backend *backend, const sl_op_sig *sig, sl_refusal *why);

/* All backends of this build, also those that cannot run here; for `sluice ops`.  *n_out: how many. */
const sl_backend *const *sl_backends(int *n_out);

/* The CPU's arms for `--kernels`: "auto" (best first, the reference last), "avx512" (avx512, avx2, reference),
 * "avx2" (avx2, reference) or "reference".  Fails with SL_ERR_UNSUPPORTED if the named one does not run here (names
 * the missing feature), SL_ERR_ARGUMENT if there is no such name.  arms: room for SL_MAX_ARMS. */
#define SL_MAX_ARMS 4
sl_status sl_cpu_arms(const char *name, const sl_backend *arms[SL_MAX_ARMS], int *n_out, sl_error *err);

#endif
