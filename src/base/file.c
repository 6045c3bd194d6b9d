#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"

char *sl_path_join(const char *folder, const char *name) {
  size_t a = strlen(folder), b = strlen(name);
  if (a > SIZE_MAX - b - 2) return NULL;
  bool needs_slash = a > 0 && folder[a - 1] != '/';
  char *path = malloc(a + b + 2);
  if (!path) return NULL;
  memcpy(path, folder, a);
  if (needs_slash) path[a++] = '/';
  memcpy(path + a, name, b + 1);
  return path;
}

bool sl_path_exists(const char *path) {
  struct stat st;
  return lstat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

sl_status sl_file_open(const char *path, int *fd, uint64_t *size, sl_error *err) {
  struct stat st;
  int f;
  do f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  while (f < 0 && errno == EINTR);
  if (f < 0) {
    sl_status status = errno == ENOENT || errno == ENOTDIR ? SL_ERR_NOT_FOUND : SL_ERR_IO;
    return sl_fail(err, status, "%s: cannot be opened: %s", path, strerror(errno));
  }
  if (fstat(f, &st) != 0) {
    int error = errno;
    close(f);
    return sl_fail(err, SL_ERR_IO, "%s: cannot be examined: %s", path, strerror(error));
  }
  if (!S_ISREG(st.st_mode)) {
    close(f);
    return sl_fail(err, SL_ERR_FORMAT, "%s: found %s, expected a regular file", path,
                   S_ISDIR(st.st_mode) ? "a folder" : "something that is not a file");
  }
  *fd = f;
  *size = (uint64_t)st.st_size;
  return SL_OK;
}

/* Up to `room` bytes; fewer only at the end of the file. */
static sl_status read_all(int fd, const char *path, char *data, size_t room, size_t *got, sl_error *err) {
  size_t n = 0;
  while (n < room) {
    ssize_t r = read(fd, data + n, room - n);
    if (r < 0 && errno == EINTR) continue;
    if (r < 0) return sl_fail(err, SL_ERR_IO, "%s: cannot be read at byte %zu: %s", path, n, strerror(errno));
    if (r == 0) break;
    n += (size_t)r;
  }
  *got = n;
  return SL_OK;
}

static sl_status read_open(int fd, const char *path, uint64_t size, char **data, size_t *n_out, sl_error *err) {
  size_t n = 0;
  char *text = malloc((size_t)size + 1);
  if (!text) return sl_fail(err, SL_ERR_MEMORY, "%s: no memory for %" PRIu64 " bytes", path, size);
  sl_status status = read_all(fd, path, text, (size_t)size, &n, err);
  if (status == SL_OK && n != size)
    status = sl_fail(err, SL_ERR_IO, "%s: ended at byte %zu while being read, expected %" PRIu64, path, n, size);
  if (status != SL_OK) {
    free(text);
    return status;
  }
  text[n] = '\0';
  *data = text;
  *n_out = n;
  return SL_OK;
}

sl_status sl_file_read(const char *path, size_t max_size, char **data, size_t *size, sl_error *err) {
  int fd;
  uint64_t found;
  SL_TRY(sl_file_open(path, &fd, &found, err));
  sl_status status =
      found <= max_size && found < SIZE_MAX
          ? read_open(fd, path, found, data, size, err)
          : sl_fail(err, SL_ERR_FORMAT, "%s: found %" PRIu64 " bytes, expected at most %zu", path, found, max_size);
  close(fd);
  return status;
}

static sl_status map_open(int fd, const char *path, uint64_t size, const void **base, sl_error *err) {
  if (size == 0) return sl_fail(err, SL_ERR_FORMAT, "%s: found an empty file", path);
  if (size > SIZE_MAX / 2) return sl_fail(err, SL_ERR_MEMORY, "%s: too large to be mapped: %" PRIu64, path, size);
  void *p = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) return sl_fail(err, SL_ERR_IO, "%s: cannot be mapped: %s", path, strerror(errno));
  sl_status status = sl_fault_register(p, (size_t)size, path, err);
  if (status != SL_OK) {
    munmap(p, (size_t)size);
    return status;
  }
  *base = p;
  return SL_OK;
}

sl_status sl_file_map(const char *path, int *fd, const void **base, uint64_t *size, sl_error *err) {
  SL_TRY(sl_file_open(path, fd, size, err));
  sl_status status = map_open(*fd, path, *size, base, err);
  if (status != SL_OK) close(*fd);
  return status;
}

void sl_file_unmap(int fd, const void *base, uint64_t size) {
  sl_fault_unregister(base);
  munmap((void *)(uintptr_t)base, (size_t)size);
  close(fd);
}
