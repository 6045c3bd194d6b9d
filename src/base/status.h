/* Making errors: the internal side of sluice/status.h. */
#ifndef SL_BASE_STATUS_H
#define SL_BASE_STATUS_H

#include "sluice/status.h"

/* Writes the sentence into err (NULL is fine) and returns status, so that a failing function can end with
 * `return sl_fail(err, SL_ERR_FORMAT, "%s: header of %" PRIu64 " bytes ...", path, n);`. */
sl_status sl_fail(sl_error *err, sl_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " in front of the sentence already in err; returns err->status (or status where err is NULL). */
sl_status sl_fail_in(sl_error *err, sl_status status, const char *prefix_format, ...)
    __attribute__((format(printf, 3, 4)));

/* For calls whose failure cannot be: returns at once from the enclosing function with the callee's status. */
#define SL_TRY(call)                                                                                                   \
  do {                                                                                                                 \
    sl_status sl_try_status_ = (call);                                                                                 \
    if (sl_try_status_ != SL_OK) return sl_try_status_;                                                                \
  } while (0)

#endif
