/* Reading JSON that may be hostile: jansson with limits and sentences.  UTF-8 is checked, duplicate keys are refused,
 * NUL characters too, and nesting deeper than 64 (jansson's own limit is 2048, deep enough for a small stack). */
#ifndef SL_BASE_JSON_H
#define SL_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"

/* *out is freed with json_decref.  name: for sentences. */
sl_status sl_json_parse(const char *text, size_t size, const char *name, json_t **out, sl_error *err);
/* max_size: larger files are refused before they are read. */
sl_status sl_json_read(const char *path, size_t max_size, json_t **out, sl_error *err);

/* Fields of an object, with sentences such as "config.json: num_experts: found "x", expected an integer from 1 to
 * 65536".  where: prefix for sentences ("config.json: text_config").  Missing or null: the default where there is one
 * (`required` false), else an error. */
sl_status sl_json_int(const json_t *object, const char *key, const char *where, bool required, long long lowest,
                      long long highest, long long *value, sl_error *err);
sl_status sl_json_real(const json_t *object, const char *key, const char *where, bool required, double lowest,
                       double highest, double *value, sl_error *err);
sl_status sl_json_bool(const json_t *object, const char *key, const char *where, bool required, bool *value,
                       sl_error *err);
sl_status sl_json_string(const json_t *object, const char *key, const char *where, bool required, const char **value,
                         sl_error *err);

/* Building reports: puts a new value into *array or *object, which owns it then.  Where that is not possible, or value
 * is NULL for lack of memory, the whole becomes NULL, and stays it: a report with a hole would pass for a whole one. */
void sl_json_append(json_t **array, json_t *value);
void sl_json_put(json_t **object, const char *key, json_t *value);

#endif
