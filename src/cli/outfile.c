#include "outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"
#include "interrupt.h"

static sl_status open_device(outfile *file, const struct stat *info, sl_error *err) {
  if (!S_ISCHR(info->st_mode)) return fail(err, SL_ERR_IO, "%s: is no regular file", file->path);
  file->fd = open(file->path, O_WRONLY | O_CLOEXEC);
  if (file->fd < 0) return fail(err, SL_ERR_IO, "%s: %s", file->path, strerror(errno));
  return SL_OK;
}

/* mkstemp makes files that only their owner can read; give the mode that a plain file would have got. */
static void set_mode(int fd) {
  mode_t mask = umask(0);
  umask(mask);
  fchmod(fd, 0666 & ~mask);
}

static sl_status open_temp(outfile *file, uint64_t size, sl_error *err) {
  file->temp = malloc(strlen(file->path) + sizeof ".XXXXXX");
  if (!file->temp) return fail(err, SL_ERR_MEMORY, "%s: out of memory", file->path);
  sprintf(file->temp, "%s.XXXXXX", file->path);
  file->fd = mkostemp(file->temp, O_CLOEXEC);
  if (file->fd < 0) {
    free(file->temp);
    file->temp = NULL;
    return fail(err, SL_ERR_IO, "%s: cannot be written: %s", file->path, strerror(errno));
  }
  interrupt_remember(file->temp);
  set_mode(file->fd);
  if (size && fallocate(file->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)size) != 0 && (errno == ENOSPC || errno == EFBIG))
    return fail(err, SL_ERR_IO, "%s: %llu bytes do not fit on the disk", file->path, (unsigned long long)size);
  return SL_OK;
}

sl_status outfile_open(outfile *file, const char *path, uint64_t size, sl_error *err) {
  *file = (outfile){.fd = -1};
  struct stat info;
  bool exists = stat(path, &info) == 0;
  file->path = exists ? realpath(path, NULL) : strdup(path); /* through a link, to the file itself */
  if (!file->path) return fail(err, SL_ERR_IO, "%s: %s", path, strerror(errno));
  sl_status status = exists && !S_ISREG(info.st_mode) ? open_device(file, &info, err) : open_temp(file, size, err);
  if (status != SL_OK) outfile_discard(file);
  return status;
}

sl_status outfile_write(outfile *file, uint64_t offset, const void *data, size_t size, sl_error *err) {
  const char *p = data;
  while (size) {
    ssize_t n = pwrite(file->fd, p, size, (off_t)offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail(err, SL_ERR_IO, "%s: %s", file->path, n < 0 ? strerror(errno) : "nothing could be written");
    p += n;
    offset += (uint64_t)n;
    size -= (size_t)n;
  }
  return SL_OK;
}

sl_status outfile_finish(outfile *file, sl_error *err) {
  sl_status status = SL_OK;
  int closed = close(file->fd);
  file->fd = -1;
  if (closed != 0 || (file->temp && rename(file->temp, file->path) != 0))
    status = fail(err, SL_ERR_IO, "%s: %s", file->path, strerror(errno));
  else if (file->temp)
    interrupt_forget(file->temp), free(file->temp), file->temp = NULL;
  outfile_discard(file);
  return status;
}

/* The path with its folder's own name, so that "x" and "./x" are the same; NULL where there is no such folder. */
static char *own_name(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
  char *real = folder ? realpath(folder, NULL) : NULL, *whole = NULL;
  if (real && asprintf(&whole, "%s/%s", real, name) < 0) whole = NULL;
  free(folder);
  free(real);
  return whole;
}

bool outfile_same(const outfile *a, const outfile *b) {
  if (!a->temp || !b->temp) return false;
  char *x = own_name(a->path), *y = own_name(b->path);
  bool same = x && y && strcmp(x, y) == 0;
  free(x);
  free(y);
  return same;
}

void outfile_discard(outfile *file) {
  if (!file->path) return;
  if (file->fd >= 0) close(file->fd);
  if (file->temp) {
    unlink(file->temp);
    interrupt_forget(file->temp);
  }
  free(file->temp);
  free(file->path);
  *file = (outfile){.fd = -1};
}

sl_status outfile_save(const char *path, const void *data, size_t size, sl_error *err) {
  outfile file;
  sl_status status = outfile_open(&file, path, size, err);
  if (status == SL_OK) status = outfile_write(&file, 0, data, size, err);
  if (status == SL_OK) status = outfile_finish(&file, err);
  outfile_discard(&file);
  return status;
}
