/* The header of a safetensors file: a JSON object of name -> {dtype, shape, data_offsets}, and its rules. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "weights/checkpoint.h"

#define MAX_NAME   1024 /* bytes of a tensor's name; real ones stay below 120 */
#define MAX_DTYPE  32
#define MAX_VALUES 8000000 /* JSON values of a header, ten a tensor; each costs some 60 bytes while it is parsed */

/* The format's dtypes and their bits: also of those that sluice does not compute with the size is checked. */
static const struct {
  const char *name;
  unsigned bits;
} FORMAT_DTYPES[] = {
    {"F32", 32},        {"F16", 16},        {"BF16", 16},   {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8},
    {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},      {"F64", 64},
    {"C64", 64},        {"I8", 8},          {"U8", 8},      {"BOOL", 8},    {"I16", 16},    {"U16", 16},
    {"I32", 32},        {"U32", 32},        {"I64", 64},    {"U64", 64},
};

/* 0 for a name that the format does not have. */
static unsigned format_bits(const char *dtype) {
  for (size_t i = 0; i < sizeof FORMAT_DTYPES / sizeof *FORMAT_DTYPES; i++) {
    if (strcmp(FORMAT_DTYPES[i].name, dtype) == 0) return FORMAT_DTYPES[i].bits;
  }
  return 0;
}

const char *sl_shape_text(const int64_t *shape, int n_dims, char *buffer, size_t size) {
  size_t at = (size_t)snprintf(buffer, size, "[");
  for (int i = 0; i < n_dims && at < size; i++) {
    at += (size_t)snprintf(buffer + at, size - at, "%s%" PRId64, i ? "," : "", shape[i]);
  }
  if (at < size) snprintf(buffer + at, size - at, "]");
  return buffer;
}

void sl_tensors_free(sl_tensor *tensors, int n) {
  if (!tensors) return;
  for (int i = 0; i < n; i++) free((char *)tensors[i].name);
  free(tensors);
}

/* Whether a text can stand in a sentence on a terminal. */
static bool is_plain(const char *text, size_t max) {
  size_t n = strlen(text);
  if (n == 0 || n > max) return false;
  for (size_t i = 0; i < n; i++) {
    if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F) return false;
  }
  return true;
}

/* name and dtype lie in one block, which begins with the name. */
static sl_status take_name(sl_tensor *t, const char *name, const char *dtype, const char *path, sl_error *err) {
  if (!is_plain(name, MAX_NAME)) {
    return sl_fail(err, SL_ERR_FORMAT,
                   "%s: a tensor's name of %zu bytes, expected 1 to %d bytes without control characters", path,
                   strlen(name), MAX_NAME);
  }
  if (!dtype) return sl_fail(err, SL_ERR_FORMAT, "%s: %s: no dtype, expected a string", path, name);
  if (!is_plain(dtype, MAX_DTYPE)) {
    return sl_fail(err, SL_ERR_FORMAT,
                   "%s: %s: a dtype of %zu bytes, expected 1 to %d bytes without control characters", path, name,
                   strlen(dtype), MAX_DTYPE);
  }
  size_t n = strlen(name) + 1;
  char *block = malloc(n + strlen(dtype) + 1);
  if (!block) return sl_fail(err, SL_ERR_MEMORY, "%s: out of memory for tensor names", path);
  memcpy(block, name, n);
  strcpy(block + n, dtype);
  t->name = block;
  t->dtype_name = block + n;
  if (!sl_dtype_parse(dtype, &t->dtype)) t->dtype = SL_N_DTYPES;
  return SL_OK;
}

static sl_status take_shape(sl_tensor *t, const json_t *shape, const char *path, sl_error *err) {
  if (!json_is_array(shape)) return sl_fail(err, SL_ERR_FORMAT, "%s: %s: no shape, expected a list", path, t->name);
  size_t n = json_array_size(shape);
  if (n > SL_MAX_DIMS) {
    return sl_fail(err, SL_ERR_FORMAT, "%s: %s: shape of %zu dimensions, expected at most %d", path, t->name, n,
                   SL_MAX_DIMS);
  }
  t->n_dims = (int)n;
  for (size_t i = 0; i < n; i++) {
    const json_t *dim = json_array_get(shape, i);
    if (!json_is_integer(dim) || json_integer_value(dim) < 0) {
      return sl_fail(err, SL_ERR_FORMAT, "%s: %s: shape: dimension %zu is no whole number from 0", path, t->name, i);
    }
    t->shape[i] = json_integer_value(dim);
  }
  return SL_OK;
}

static sl_status take_offsets(sl_tensor *t, const json_t *offsets, uint64_t data_size, const char *path,
                              sl_error *err) {
  const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end)) {
    return sl_fail(err, SL_ERR_FORMAT, "%s: %s: data_offsets are no list of two whole numbers", path, t->name);
  }
  int64_t b = json_integer_value(begin), e = json_integer_value(end);
  if (b < 0 || e < b) {
    return sl_fail(err, SL_ERR_FORMAT, "%s: %s: data_offsets [%" PRId64 ",%" PRId64 "], expected 0 <= begin <= end",
                   path, t->name, b, e);
  }
  if ((uint64_t)e > data_size) {
    return sl_fail(err, SL_ERR_FORMAT,
                   "%s: %s: data_offsets [%" PRId64 ",%" PRId64 "] reach beyond the %" PRIu64
                   " bytes of data in the file (was it cut short?)",
                   path, t->name, b, e, data_size);
  }
  t->offset = (uint64_t)b;
  t->bytes = (uint64_t)(e - b);
  return SL_OK;
}

/* The bytes that dtype and shape ask for are those between the offsets. */
static sl_status check_bytes(const sl_tensor *t, const char *path, sl_error *err) {
  unsigned bits = format_bits(t->dtype_name);
  if (bits == 0) return SL_OK; /* an element of unknown size */
  uint64_t total = bits;
  bool overflow = false;
  for (int i = 0; i < t->n_dims; i++) overflow |= __builtin_mul_overflow(total, (uint64_t)t->shape[i], &total);
  for (int i = 0; i < t->n_dims; i++) {
    if (t->shape[i] == 0) overflow = false, total = 0;
  }
  char shape[192];
  sl_shape_text(t->shape, t->n_dims, shape, sizeof shape);
  if (overflow) {
    return sl_fail(err, SL_ERR_FORMAT, "%s: %s: %s %s has more elements than 64 bits can count", path, t->name,
                   t->dtype_name, shape);
  }
  if (total % 8 != 0 || total / 8 != t->bytes) {
    return sl_fail(err, SL_ERR_FORMAT,
                   "%s: %s: data_offsets span %" PRIu64 " bytes, expected %" PRIu64 " for %s of shape %s", path,
                   t->name, t->bytes, total / 8, t->dtype_name, shape);
  }
  return SL_OK;
}

static sl_status take_tensor(sl_tensor *t, const char *name, const json_t *entry, uint64_t data_size, const char *path,
                             sl_error *err) {
  SL_TRY(take_name(t, name, json_string_value(json_object_get(entry, "dtype")), path, err));
  SL_TRY(take_shape(t, json_object_get(entry, "shape"), path, err));
  SL_TRY(take_offsets(t, json_object_get(entry, "data_offsets"), data_size, path, err));
  return check_bytes(t, path, err);
}

static int by_offset(const void *a, const void *b) {
  const sl_tensor *x = *(const sl_tensor *const *)a, *y = *(const sl_tensor *const *)b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The tensors lie one behind the other and fill the data, as the format promises. */
static sl_status check_layout(const sl_tensor *const *sorted, int n, uint64_t data_size, const char *path,
                              sl_error *err) {
  uint64_t end = 0;
  for (int i = 0; i < n; i++) {
    const sl_tensor *t = sorted[i];
    if (t->offset < end) {
      return sl_fail(err, SL_ERR_FORMAT, "%s: %s begins at byte %" PRIu64 ", inside %s, which ends at %" PRIu64, path,
                     t->name, t->offset, sorted[i - 1]->name, end);
    }
    if (t->offset > end) {
      return sl_fail(err, SL_ERR_FORMAT,
                     "%s: %s begins at byte %" PRIu64 ", leaving a hole behind %s, expected %" PRIu64, path, t->name,
                     t->offset, i ? sorted[i - 1]->name : "the header", end);
    }
    end = t->offset + t->bytes;
  }
  if (end != data_size) {
    return sl_fail(err, SL_ERR_FORMAT,
                   "%s: %" PRIu64 " bytes of data, expected %" PRIu64 ", where the last tensor ends", path, data_size,
                   end);
  }
  return SL_OK;
}

static sl_status check_all(const sl_tensor *tensors, int n, uint64_t data_size, const char *path, sl_error *err) {
  const sl_tensor **sorted = malloc(((size_t)n + 1) * sizeof *sorted);
  if (!sorted) return sl_fail(err, SL_ERR_MEMORY, "%s: out of memory for %d tensors", path, n);
  for (int i = 0; i < n; i++) sorted[i] = &tensors[i];
  qsort(sorted, (size_t)n, sizeof *sorted, by_offset);
  sl_status status = check_layout(sorted, n, data_size, path, err);
  free(sorted);
  return status;
}

static sl_status take_all(json_t *header, uint64_t data_size, const char *path, sl_tensor *tensors, int *n,
                          sl_error *err) {
  const char *name;
  json_t *entry;
  json_object_foreach(header, name, entry) {
    if (strcmp(name, "__metadata__") == 0) {
      if (json_is_object(entry)) continue;
      return sl_fail(err, SL_ERR_FORMAT, "%s: __metadata__ is no object", path);
    }
    sl_tensor *t = &tensors[(*n)++];
    SL_TRY(take_tensor(t, name, entry, data_size, path, err));
  }
  return check_all(tensors, *n, data_size, path, err);
}

/* So that a header of brackets alone does not become gigabytes.  Counts a few too many: those inside strings. */
static sl_status check_values(const char *json, size_t size, const char *path, sl_error *err) {
  size_t n = 1;
  for (size_t i = 0; i < size; i++) n += json[i] == ',' || json[i] == '[' || json[i] == '{';
  if (n <= MAX_VALUES) return SL_OK;
  return sl_fail(err, SL_ERR_FORMAT, "%s: a header of %zu JSON values, expected at most %d", path, n, MAX_VALUES);
}

sl_status sl_safetensors_parse(const char *json, size_t size, uint64_t data_size, const char *path, sl_tensor **tensors,
                               int *n, sl_error *err) {
  json_t *header = NULL;
  SL_TRY(check_values(json, size, path, err));
  SL_TRY(sl_json_parse(json, size, path, &header, err));
  if (!json_is_object(header)) {
    json_decref(header);
    return sl_fail(err, SL_ERR_FORMAT, "%s: the header is no JSON object", path);
  }
  int count = 0;
  sl_tensor *all = calloc(json_object_size(header) + 1, sizeof *all);
  sl_status status = all ? take_all(header, data_size, path, all, &count, err)
                         : sl_fail(err, SL_ERR_MEMORY, "%s: out of memory for its tensors", path);
  json_decref(header);
  if (status != SL_OK) {
    sl_tensors_free(all, count);
    return status;
  }
  *tensors = all;
  *n = count;
  return SL_OK;
}
