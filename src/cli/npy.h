/* Arrays as .npy files, version 1.0, little-endian, C order: what numpy.load reads. */
#ifndef SL_CLI_NPY_H
#define SL_CLI_NPY_H

#include <stddef.h>
#include <stdint.h>

#include "outfile.h"

enum { NPY_MAX_DIMS = 3 };

typedef struct npy_writer {
  outfile file;
  uint64_t header; /* bytes before the first element */
} npy_writer;

/* type: "<f4" or "<i4".  Elements are 4 bytes. */
sl_status npy_create(npy_writer *npy, const char *path, const char *type, const uint64_t *shape, int n_dims,
                     sl_error *err);
/* `count` elements from element `first` on, in C order. */
sl_status npy_write(npy_writer *npy, uint64_t first, const void *elements, size_t count, sl_error *err);
sl_status npy_finish(npy_writer *npy, sl_error *err);
void npy_discard(npy_writer *npy);

/* Reads an i32 array whose shape must be the one given; *out is freed with free. */
sl_status npy_read_i32(const char *path, const uint64_t *shape, int n_dims, int32_t **out, sl_error *err);

#endif
