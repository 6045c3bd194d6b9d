#include "fail.h"

#include <stdarg.h>
#include <stdio.h>

sl_status fail(sl_error *err, sl_status status, const char *format, ...) {
  err->status = status;
  va_list list;
  va_start(list, format);
  vsnprintf(err->text, sizeof err->text, format, list);
  va_end(list);
  return status;
}
