#include "backend/backend.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/tables.h"

const char *sl_reason_name(sl_reason reason) {
  switch (reason) {
  case SL_NOT_WRITTEN:
    return "not_written";
  case SL_NOT_COMPILED:
    return "not_compiled";
  case SL_NOT_ON_DEVICE:
    return "not_on_device";
  case SL_OUT_OF_RANGE:
    return "out_of_range";
  }
  return "unknown reason";
}

/* ---- the finder -------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void refuse(sl_refusal *why, sl_reason reason, const char *format, ...) {
  va_list args;
  va_start(args, format);
  why->reason = reason;
  vsnprintf(why->detail, sizeof why->detail, format, args);
  va_end(args);
}

static const char *role_name(sl_role role) { return role == SL_PROMPT ? "prompt" : "generated"; }
static const char *math_name(sl_math math) { return math == SL_EXACT ? "exact" : "fast"; }

/* How far a row got: the refusal of the one that got farthest says most. */
enum { NO_ROW, WRONG_DTYPE, WRONG_ROLE, WRONG_MATH, WRONG_SHAPE, FITS };

static int try_row(const sl_kernel *k, const sl_op_sig *sig, sl_refusal *why) {
  if (k->op != sig->op) return NO_ROW;
  if (!(k->dtypes & 1u << sig->dtype)) return WRONG_DTYPE;
  if (!(k->roles & 1u << sig->role)) return WRONG_ROLE;
  if (!(k->maths & 1u << sig->math)) return WRONG_MATH;
  refuse(why, SL_OUT_OF_RANGE, "%s: shape N %d, K %d", k->name, sig->N, sig->K);
  return !k->fits || k->fits(sig, why) ? FITS : WRONG_SHAPE;
}

static void explain(const sl_backend *b, const sl_op_sig *sig, int farthest, const sl_refusal *shape, sl_refusal *why) {
  const char *op = sl_op_name(sig->op);
  switch (farthest) {
  case NO_ROW:
    refuse(why, SL_NOT_WRITTEN, "%s: %s is not written for this backend", b->name, op);
    break;
  case WRONG_DTYPE:
    refuse(why, SL_OUT_OF_RANGE, "%s: %s takes no %s", b->name, op, sl_dtype_name(sig->dtype));
    break;
  case WRONG_ROLE:
    refuse(why, SL_OUT_OF_RANGE, "%s: %s on %s takes no %s tokens", b->name, op, sl_dtype_name(sig->dtype),
           role_name(sig->role));
    break;
  case WRONG_MATH:
    refuse(why, SL_OUT_OF_RANGE, "%s: %s on %s for %s tokens has no %s math", b->name, op, sl_dtype_name(sig->dtype),
           role_name(sig->role), math_name(sig->math));
    break;
  default:
    *why = *shape;
    why->reason = SL_OUT_OF_RANGE;
  }
}

static const sl_kernel *search(const sl_backend *b, const sl_op_sig *sig, sl_refusal *why) {
  sl_refusal tried, shape = {0};
  int farthest = NO_ROW;
  for (int t = 0; t < b->n_tables; t++) {
    sl_kernel_table table = b->tables[t]();
    for (int i = 0; i < table.n; i++) {
      int reached = try_row(&table.rows[i], sig, &tried);
      if (reached == FITS) return &table.rows[i];
      if (reached == WRONG_SHAPE && farthest < WRONG_SHAPE) shape = tried;
      if (reached > farthest) farthest = reached;
    }
  }
  explain(b, sig, farthest, &shape, why);
  return NULL;
}

const sl_kernel *sl_kernel_find(const sl_backend *backend, const sl_op_sig *sig, sl_refusal *why) {
  sl_refusal ignored;
  if (!why) why = &ignored;
  if (backend->not_compiled) {
    refuse(why, SL_NOT_COMPILED, "%s: not part of this build; build with -D%s=ON", backend->name,
           backend->not_compiled);
    return NULL;
  }
  const char *missing = backend->missing ? backend->missing() : NULL;
  if (missing) {
    refuse(why, SL_NOT_ON_DEVICE, "%s: this machine lacks %s", backend->name, missing);
    return NULL;
  }
  if ((unsigned)sig->op >= SL_N_OPS || (unsigned)sig->dtype >= SL_N_DTYPES) {
    refuse(why, SL_NOT_WRITTEN, "%s: there is no operation %d on dtype %d", backend->name, (int)sig->op,
           (int)sig->dtype);
    return NULL;
  }
  return search(backend, sig, why);
}

/* ---- the backends ------------------------------------------------------------------------------------------------ */

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

#ifdef SL_HAVE_AVX512
static sl_kernel_table (*const avx512_tables[])(void) = {sl_avx512_matmul_table, sl_avx512_vector_table};
static const sl_backend avx512 = {"cpu-avx512", avx512_tables, COUNT(avx512_tables), NULL, sl_cpu_missing_avx512};
#else
static const sl_backend avx512 = {"cpu-avx512", NULL, 0, "SLUICE_AVX512", NULL};
#endif

#ifdef SL_HAVE_AVX2
static sl_kernel_table (*const avx2_tables[])(void) = {sl_avx2_matmul_table, sl_avx2_vector_table};
static const sl_backend avx2 = {"cpu-avx2", avx2_tables, COUNT(avx2_tables), NULL, sl_cpu_missing_avx2};
#else
static const sl_backend avx2 = {"cpu-avx2", NULL, 0, "SLUICE_AVX2", NULL};
#endif

static const sl_backend neon = {"cpu-neon", NULL, 0, NULL, NULL};

static sl_kernel_table (*const reference_tables[])(void) = {sl_cpu_reference_table};
static const sl_backend reference = {"cpu-reference", reference_tables, COUNT(reference_tables), NULL, NULL};

static const sl_backend vulkan = {"vulkan", NULL, 0, NULL, NULL};
static const sl_backend cuda = {"cuda", NULL, 0, NULL, NULL};
static const sl_backend hip = {"hip", NULL, 0, NULL, NULL};

static const sl_backend *const all[] = {&avx512, &avx2, &neon, &reference, &vulkan, &cuda, &hip};

const sl_backend *const *sl_backends(int *n_out) {
  *n_out = COUNT(all);
  return all;
}

static bool runs_here(const sl_backend *b) { return !b->not_compiled && !(b->missing && b->missing()); }

static sl_status refuse_arm(const char *name, const sl_backend *b, sl_error *err) {
  if (b->not_compiled)
    return sl_fail(err, SL_ERR_UNSUPPORTED, "kernels %s: not part of this build; build with -D%s=ON", name,
                   b->not_compiled);
  return sl_fail(err, SL_ERR_UNSUPPORTED, "kernels %s: this machine lacks %s", name, b->missing());
}

sl_status sl_cpu_arms(const char *name, const sl_backend *arms[SL_MAX_ARMS], int *n_out, sl_error *err) {
  static const struct {
    const char *name;
    const sl_backend *backend;
  } sets[] = {{"avx512", &avx512}, {"avx2", &avx2}, {"reference", &reference}};
  bool is_auto = strcmp(name, "auto") == 0, begun = is_auto;
  int n = 0;
  for (int i = 0; i < COUNT(sets); i++) {
    bool is_named = strcmp(name, sets[i].name) == 0;
    begun = begun || is_named;
    if (!begun) continue;
    if (runs_here(sets[i].backend))
      arms[n++] = sets[i].backend;
    else if (is_named)
      return refuse_arm(name, sets[i].backend, err);
  }
  if (!begun)
    return sl_fail(err, SL_ERR_ARGUMENT, "kernels: found \"%s\", expected auto, avx512, avx2 or reference", name);
  *n_out = n;
  return SL_OK;
}
