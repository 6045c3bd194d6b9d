#include "show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "console.h"
#include "table.h"

json_t *show_parse(char *text) {
  json_error_t error;
  json_t *json = json_loads(text, 0, &error);
  sl_string_free(text);
  if (!json) console_error("the report could not be read: %s", error.text);
  return json;
}

int show_raw(char *text) {
  size_t size = strlen(text);
  out_write(text, size);
  if (!size || text[size - 1] != '\n') out_write("\n", 1);
  sl_string_free(text);
  return CLI_DONE;
}

const char *show_string(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

double show_number(const json_t *object, const char *key) { return json_number_value(json_object_get(object, key)); }

/* 1 and 0.5, not 1.0000000 or 5e-1. */
static char *plain_number(const json_t *value) {
  if (json_is_integer(value)) return text_format("%lld", (long long)json_integer_value(value));
  return text_format("%.9g", json_number_value(value));
}

char *show_value(const json_t *value) {
  if (json_is_string(value)) return text_copy(json_string_value(value));
  if (json_is_number(value)) return plain_number(value);
  if (json_is_boolean(value)) return text_copy(json_is_true(value) ? "yes" : "no");
  if (!value || json_is_null(value)) return text_copy("-");
  char *dump = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
  if (!dump) {
    out_no_memory();
    return NULL;
  }
  char *text = text_copy(dump);
  free(dump); /* from jansson's malloc, which is malloc */
  return text;
}

const char *show_rate(char *text, double per_second, const char *unit) {
  if (per_second <= 0) return strcpy(text, "none");
  snprintf(text, 32, per_second >= 1e11 ? "%.0f G%s" : "%.1f G%s", per_second / 1e9, unit);
  return text;
}
