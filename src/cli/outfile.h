/* A file that appears only when it is whole: written beside its place under a temporary name, then renamed. */
#ifndef SL_CLI_OUTFILE_H
#define SL_CLI_OUTFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/status.h"

typedef struct outfile {
  char *path, *temp; /* temp is NULL where path is a device, which is written in place */
  int fd;            /* -1: not open */
} outfile;

/* Makes the temporary file and takes `size` bytes of disk where the file system can, so that a full disk is seen
 * before anything is computed.  0 if the size is not known. */
sl_status outfile_open(outfile *file, const char *path, uint64_t size, sl_error *err);
sl_status outfile_write(outfile *file, uint64_t offset, const void *data, size_t size, sl_error *err);
/* Makes it appear; on failure nothing is left. */
sl_status outfile_finish(outfile *file, sl_error *err);
/* Do both become the same file?  Devices do not: what goes there is not kept. */
bool outfile_same(const outfile *a, const outfile *b);
/* Removes what is not finished; fine for a file never opened (all zero) or already finished. */
void outfile_discard(outfile *file);

/* The whole of `data` as one file. */
sl_status outfile_save(const char *path, const void *data, size_t size, sl_error *err);

#endif
