/* Files and paths. */
#ifndef SL_BASE_FILE_H
#define SL_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* "folder/name", malloc'd; NULL when out of memory. */
char *sl_path_join(const char *folder, const char *name);
/* Whether the folder has such a name.  True also for what cannot be reached (a link to nowhere, no permission): a file
 * that may be missing must not pass for one that is, and opening it says what is wrong. */
bool sl_path_exists(const char *path);
/* Opens a regular file for reading and tells its size; anything else (a folder, a pipe that would block) is refused.
 * The caller closes *fd. */
sl_status sl_file_open(const char *path, int *fd, uint64_t *size, sl_error *err);
/* Whole file into malloc'd memory with a NUL behind it; refused beyond max_size.  Handles EINTR and short reads. */
sl_status sl_file_read(const char *path, size_t max_size, char **data, size_t *size, sl_error *err);
/* Maps a whole regular file read-only (MAP_SHARED) and registers it with base/fault.h. fd stays open. Empty files are
 * refused. */
sl_status sl_file_map(const char *path, int *fd, const void **base, uint64_t *size, sl_error *err);
void sl_file_unmap(int fd, const void *base, uint64_t size);

#endif
