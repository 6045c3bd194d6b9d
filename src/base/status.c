#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *sl_status_name(sl_status status) {
  switch (status) {
  case SL_OK:
    return "SL_OK";
  case SL_ERR_ARGUMENT:
    return "SL_ERR_ARGUMENT";
  case SL_ERR_NOT_FOUND:
    return "SL_ERR_NOT_FOUND";
  case SL_ERR_FORMAT:
    return "SL_ERR_FORMAT";
  case SL_ERR_UNSUPPORTED:
    return "SL_ERR_UNSUPPORTED";
  case SL_ERR_MEMORY:
    return "SL_ERR_MEMORY";
  case SL_ERR_CONTEXT_FULL:
    return "SL_ERR_CONTEXT_FULL";
  case SL_ERR_IO:
    return "SL_ERR_IO";
  case SL_ERR_NOT_FINITE:
    return "SL_ERR_NOT_FINITE";
  case SL_ERR_STATE:
    return "SL_ERR_STATE";
  case SL_ERR_CANCELLED:
    return "SL_ERR_CANCELLED";
  }
  return "unknown status";
}

/* A cut in the middle of a UTF-8 character would make the sentence itself malformed. */
static void cut_at_character(char *text, size_t size) {
  size_t n = strlen(text);
  if (n + 1 < size) return;
  while (n > 0 && ((unsigned char)text[n - 1] & 0xC0) == 0x80) n--;
  if (n > 0 && (unsigned char)text[n - 1] >= 0xC0) n--;
  text[n] = '\0';
}

sl_status sl_fail(sl_error *err, sl_status status, const char *format, ...) {
  if (!err) return status;
  char text[sizeof err->text]; /* arguments may point into err->text */
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  cut_at_character(text, sizeof text);
  err->status = status;
  memcpy(err->text, text, sizeof text);
  return status;
}

sl_status sl_fail_in(sl_error *err, sl_status status, const char *prefix_format, ...) {
  if (!err) return status;
  char prefix[512];
  va_list args;
  va_start(args, prefix_format);
  vsnprintf(prefix, sizeof prefix, prefix_format, args);
  va_end(args);
  char rest[sizeof err->text];
  memcpy(rest, err->text, sizeof rest);
  return sl_fail(err, err->status, "%s: %s", prefix, rest);
}
