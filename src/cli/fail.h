/* Errors of the program's own parts, in the form of the library's. */
#ifndef SL_CLI_FAIL_H
#define SL_CLI_FAIL_H

#include "sluice/status.h"

/* Fills err and returns status. */
sl_status fail(sl_error *err, sl_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
