#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { MAX_DEPTH = 64 };

/* ---- parsing ----------------------------------------------------------------------------------------------------- */

/* Before parsing: NUL bytes, for which jansson has no clear sentence (it refuses escaped ones itself), and brackets
 * outside strings, so that nothing recurses deeper than it is told to. */
static sl_status scan(const char *text, size_t size, const char *name, sl_error *err) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < size; i++) {
    char c = text[i];
    if (c == '\0') return sl_fail(err, SL_ERR_FORMAT, "%s: byte %zu is NUL, which JSON does not have", name, i);
    if (in_string) {
      if (c == '\\')
        i++;
      else if (c == '"')
        in_string = false;
      if (i < size && text[i] == '\0') return sl_fail(err, SL_ERR_FORMAT, "%s: byte %zu is NUL", name, i);
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > MAX_DEPTH)
        return sl_fail(err, SL_ERR_FORMAT, "%s: byte %zu: nested deeper than %d", name, i, MAX_DEPTH);
    } else if (c == '}' || c == ']') {
      depth--;
    }
  }
  return SL_OK;
}

/* The string that ends at byte `end`, for a sentence: jansson shows only short ones.  *n: its bytes, with the quotes.
 */
static const char *last_string(const char *text, size_t end, int *n) {
  size_t close = end;
  while (close > 0 && text[close] != '"') close--;
  size_t open = close;
  while (open > 0 && (text[open - 1] != '"' || (open > 1 && text[open - 2] == '\\'))) open--;
  if (open > 0) open--;
  *n = close - open < 200 ? (int)(close - open) + 1 : 200;
  return text + open;
}

static sl_status refuse_text(const char *text, size_t size, const char *name, const json_error_t *why, sl_error *err) {
  enum json_error_code code = json_error_code(why);
  if (code == json_error_out_of_memory || !why->text[0]) /* jansson says nothing where memory for a string is missing */
    return sl_fail(err, SL_ERR_MEMORY, "%s: no memory to read it", name);
  int n;
  if (code != json_error_duplicate_key || why->position < 1 || (size_t)why->position > size)
    return sl_fail(err, SL_ERR_FORMAT, "%s: line %d, column %d: %s", name, why->line, why->column, why->text);
  const char *key = last_string(text, (size_t)why->position - 1, &n);
  return sl_fail(err, SL_ERR_FORMAT, "%s: line %d, column %d: duplicate object key %.*s", name, why->line, why->column,
                 n, key);
}

sl_status sl_json_parse(const char *text, size_t size, const char *name, json_t **out, sl_error *err) {
  json_error_t why;
  SL_TRY(scan(text, size, name, err));
  json_t *value = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
  if (!value) return refuse_text(text, size, name, &why, err);
  *out = value;
  return SL_OK;
}

sl_status sl_json_read(const char *path, size_t max_size, json_t **out, sl_error *err) {
  char *text;
  size_t size;
  SL_TRY(sl_file_read(path, max_size, &text, &size, err));
  sl_status status = sl_json_parse(text, size, path, out, err);
  free(text);
  return status;
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

/* A value as a sentence shows it: short, and on one line. */
static void show(const json_t *value, char *text, size_t size) {
  if (!value) {
    snprintf(text, size, "nothing");
  } else if (json_is_object(value)) {
    snprintf(text, size, "an object");
  } else if (json_is_array(value)) {
    snprintf(text, size, "an array");
  } else {
    size_t n = json_dumpb(value, text, size - 1, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    if (n <= size - 1)
      text[n] = '\0';
    else
      snprintf(text, size, "a long string");
  }
}

static sl_status refuse(const json_t *value, const char *key, const char *where, const char *expected, sl_error *err) {
  char found[80];
  show(value, found, sizeof found);
  return sl_fail(err, SL_ERR_FORMAT, "%s: %s: found %s, expected %s", where, key, found, expected);
}

/* The value, or NULL if it may be missing and is.  Sets *status if it may not. */
static const json_t *field(const json_t *object, const char *key, const char *where, bool required,
                           const char *expected, sl_status *status, sl_error *err) {
  const json_t *value = json_object_get(object, key);
  bool is_missing = !value || json_is_null(value);
  *status = is_missing && required ? refuse(value, key, where, expected, err) : SL_OK;
  return is_missing ? NULL : value;
}

sl_status sl_json_int(const json_t *object, const char *key, const char *where, bool required, long long lowest,
                      long long highest, long long *value, sl_error *err) {
  char expected[96];
  sl_status status;
  snprintf(expected, sizeof expected, "an integer from %lld to %lld", lowest, highest);
  const json_t *v = field(object, key, where, required, expected, &status, err);
  if (!v) return status;
  if (!json_is_integer(v) || json_integer_value(v) < lowest || json_integer_value(v) > highest)
    return refuse(v, key, where, expected, err);
  *value = json_integer_value(v);
  return SL_OK;
}

sl_status sl_json_real(const json_t *object, const char *key, const char *where, bool required, double lowest,
                       double highest, double *value, sl_error *err) {
  char expected[96];
  sl_status status;
  snprintf(expected, sizeof expected, "a number from %g to %g", lowest, highest);
  const json_t *v = field(object, key, where, required, expected, &status, err);
  if (!v) return status;
  double number = json_number_value(v);
  if (!json_is_number(v) || !(number >= lowest && number <= highest)) return refuse(v, key, where, expected, err);
  *value = number;
  return SL_OK;
}

sl_status sl_json_bool(const json_t *object, const char *key, const char *where, bool required, bool *value,
                       sl_error *err) {
  sl_status status;
  const json_t *v = field(object, key, where, required, "true or false", &status, err);
  if (!v) return status;
  if (!json_is_boolean(v)) return refuse(v, key, where, "true or false", err);
  *value = json_is_true(v);
  return SL_OK;
}

sl_status sl_json_string(const json_t *object, const char *key, const char *where, bool required, const char **value,
                         sl_error *err) {
  sl_status status;
  const json_t *v = field(object, key, where, required, "a string", &status, err);
  if (!v) return status;
  if (!json_is_string(v)) return refuse(v, key, where, "a string", err);
  *value = json_string_value(v);
  return SL_OK;
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

static void drop_unless(json_t **whole, bool is_good) {
  if (is_good) return;
  json_decref(*whole);
  *whole = NULL;
}

void sl_json_append(json_t **array, json_t *value) { drop_unless(array, json_array_append_new(*array, value) == 0); }

void sl_json_put(json_t **object, const char *key, json_t *value) {
  drop_unless(object, json_object_set_new(*object, key, value) == 0);
}
