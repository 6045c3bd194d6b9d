#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"

static sl_status read_all(int fd, const char *name, char **text, size_t *size, sl_error *err) {
  size_t room = 1 << 16, used = 0;
  char *data = malloc(room);
  for (;;) {
    if (data && used + 1 == room) { /* a byte is kept for the NUL */
      char *more = room <= SIZE_MAX / 2 ? realloc(data, room *= 2) : NULL;
      if (!more) free(data);
      data = more;
    }
    if (!data) return fail(err, SL_ERR_MEMORY, "%s: too long for the memory", name);
    ssize_t n = read(fd, data + used, room - used - 1);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      free(data);
      return fail(err, SL_ERR_IO, "%s: %s", name, strerror(errno));
    }
    if (n == 0) break;
    used += (size_t)n;
  }
  data[used] = 0;
  *text = data;
  *size = used;
  return SL_OK;
}

sl_status input_read(const char *path, char **text, size_t *size, sl_error *err) {
  if (strcmp(path, "-") == 0) return read_all(STDIN_FILENO, "stdin", text, size, err);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail(err, errno == ENOENT ? SL_ERR_NOT_FOUND : SL_ERR_IO, "%s: %s", path, strerror(errno));
  sl_status status = read_all(fd, path, text, size, err);
  close(fd);
  return status;
}
