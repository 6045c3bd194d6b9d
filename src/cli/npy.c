#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"

static const char MAGIC[] = "\x93NUMPY";

/* "(3, 5, 2)", and "(3,)" for one dimension, as Python writes a tuple. */
static void write_shape(char *out, size_t size, const uint64_t *shape, int n_dims) {
  size_t at = (size_t)snprintf(out, size, "(");
  for (int d = 0; d < n_dims; d++)
    at += (size_t)snprintf(out + at, size - at, d ? ", %llu" : "%llu", (unsigned long long)shape[d]);
  snprintf(out + at, size - at, n_dims == 1 ? ",)" : ")");
}

sl_status npy_create(npy_writer *npy, const char *path, const char *type, const uint64_t *shape, int n_dims,
                     sl_error *err) {
  *npy = (npy_writer){.file.fd = -1};
  uint64_t count = 1;
  for (int d = 0; d < n_dims; d++)
    if (__builtin_mul_overflow(count, shape[d], &count) || count > INT64_MAX / 8)
      return fail(err, SL_ERR_ARGUMENT, "%s: too many values for a file", path);
  char tuple[100], header[256];
  write_shape(tuple, sizeof tuple, shape, n_dims);
  int n =
      snprintf(header + 10, sizeof header - 10, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, tuple);
  int whole = (10 + n + 1 + 63) / 64 * 64; /* the first element lies at a multiple of 64 */
  memset(header + 10 + n, ' ', (size_t)(whole - 10 - n));
  header[whole - 1] = '\n';
  memcpy(header, MAGIC, 6);
  header[6] = 1, header[7] = 0;
  header[8] = (char)((whole - 10) & 255), header[9] = (char)((whole - 10) >> 8);
  npy->header = (uint64_t)whole;
  sl_status status = outfile_open(&npy->file, path, npy->header + 4 * count, err);
  if (status == SL_OK) status = outfile_write(&npy->file, 0, header, (size_t)whole, err);
  return status;
}

sl_status npy_write(npy_writer *npy, uint64_t first, const void *elements, size_t count, sl_error *err) {
  return outfile_write(&npy->file, npy->header + 4 * first, elements, 4 * count, err);
}

sl_status npy_finish(npy_writer *npy, sl_error *err) { return outfile_finish(&npy->file, err); }

void npy_discard(npy_writer *npy) { outfile_discard(&npy->file); }

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool read_fully(int fd, void *data, size_t size) {
  char *p = data;
  while (size) {
    ssize_t n = read(fd, p, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n;
    size -= (size_t)n;
  }
  return true;
}

/* The text after "'key':" in the header's dictionary, NULL if there is none. */
static const char *field(const char *header, const char *key) {
  char quoted[32];
  snprintf(quoted, sizeof quoted, "'%s':", key);
  const char *at = strstr(header, quoted);
  if (!at) return NULL;
  at += strlen(quoted);
  return at + strspn(at, " ");
}

static sl_status check_header(const char *path, const char *header, const uint64_t *shape, int n_dims, sl_error *err) {
  const char *type = field(header, "descr"), *order = field(header, "fortran_order"), *tuple = field(header, "shape");
  if (!type || !order || !tuple)
    return fail(err, SL_ERR_FORMAT, "%s: its header lacks descr, fortran_order or shape", path);
  if (strncmp(type, "'<i4'", 5) != 0)
    return fail(err, SL_ERR_FORMAT, "%s: type %.*s, expected '<i4'", path, (int)strcspn(type, ",}"), type);
  if (strncmp(order, "False", 5) != 0) return fail(err, SL_ERR_FORMAT, "%s: Fortran order, expected C order", path);
  char want[100];
  write_shape(want, sizeof want, shape, n_dims);
  size_t length = strcspn(tuple, ")");
  length += tuple[length] == ')';
  if (length != strlen(want) || memcmp(tuple, want, length) != 0)
    return fail(err, SL_ERR_FORMAT, "%s: shape %.*s, expected %s", path, (int)(length < 80 ? length : 80), tuple, want);
  return SL_OK;
}

/* Reads the header and leaves fd at the first element, whose offset is *start. */
static sl_status read_header(const char *path, int fd, const uint64_t *shape, int n_dims, uint64_t *start,
                             sl_error *err) {
  unsigned char head[12];
  char text[4096];
  if (!read_fully(fd, head, 10) || memcmp(head, MAGIC, 6) != 0 || head[6] < 1 || head[6] > 2)
    return fail(err, SL_ERR_FORMAT, "%s: not an .npy file of version 1.0 or 2.0", path);
  size_t size = (size_t)head[8] | (size_t)head[9] << 8;
  *start = 10;
  if (head[6] == 2) {
    if (!read_fully(fd, head + 10, 2)) return fail(err, SL_ERR_FORMAT, "%s: ends inside its header", path);
    size |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    *start = 12;
  }
  if (size >= sizeof text)
    return fail(err, SL_ERR_FORMAT, "%s: a header of %zu bytes, expected below 4096", path, size);
  if (!read_fully(fd, text, size)) return fail(err, SL_ERR_FORMAT, "%s: ends inside its header", path);
  text[size] = 0;
  *start += size;
  return check_header(path, text, shape, n_dims, err);
}

static sl_status read_elements(const char *path, int fd, uint64_t start, uint64_t count, int32_t **out, sl_error *err) {
  struct stat info;
  if (fstat(fd, &info) != 0) return fail(err, SL_ERR_IO, "%s: %s", path, strerror(errno));
  if (count > SIZE_MAX / 8 || (uint64_t)info.st_size != start + 4 * count)
    return fail(err, SL_ERR_FORMAT, "%s: %lld bytes, expected %llu", path, (long long)info.st_size,
                (unsigned long long)(start + 4 * count));
  *out = malloc(count ? 4 * count : 4);
  if (!*out) return fail(err, SL_ERR_MEMORY, "%s: no memory for %llu values", path, (unsigned long long)count);
  if (read_fully(fd, *out, 4 * count)) return SL_OK;
  free(*out);
  *out = NULL;
  return fail(err, SL_ERR_IO, "%s: could not be read", path);
}

sl_status npy_read_i32(const char *path, const uint64_t *shape, int n_dims, int32_t **out, sl_error *err) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused below, not waited for */
  if (fd < 0) return fail(err, errno == ENOENT ? SL_ERR_NOT_FOUND : SL_ERR_IO, "%s: %s", path, strerror(errno));
  uint64_t start, count = 1;
  for (int d = 0; d < n_dims; d++) count *= shape[d]; /* the caller's own shape: layers, tokens and experts fit */
  sl_status status = read_header(path, fd, shape, n_dims, &start, err);
  if (status == SL_OK) status = read_elements(path, fd, start, count, out, err);
  close(fd);
  return status;
}
