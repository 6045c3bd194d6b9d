/* A checkpoint is a table: name -> file, offset, dtype, shape.  The files are mapped; nothing is read until someone
 * touches a tensor. */
#ifndef SL_WEIGHTS_CHECKPOINT_H
#define SL_WEIGHTS_CHECKPOINT_H

#include <jansson.h>

#include "base/status.h"
#include "tensor/dtype.h"

#define SL_MAX_DIMS 8

typedef struct sl_tensor {
  const char *name; /* UTF-8 without control characters, so that it can be shown as it is */
  int file;         /* index into files */
  uint64_t offset;  /* of the data in the file */
  uint64_t bytes;
  sl_dtype dtype;
  const char *dtype_name; /* as the file spells it; dtype is SL_N_DTYPES if it is none that sluice computes with */
  int n_dims;
  int64_t shape[SL_MAX_DIMS]; /* 0 and more; the product times the element's size is `bytes` */
  const void *data;           /* in the mapping, at any alignment */
} sl_tensor;

typedef struct sl_checkpoint_file {
  char *path;
  int fd;
  const void *base; /* whole file, read-only, MAP_SHARED, registered with base/fault.h */
  uint64_t size;
} sl_checkpoint_file;

typedef struct sl_checkpoint {
  char *path; /* the folder */
  sl_checkpoint_file *files;
  int n_files;
  sl_tensor *tensors; /* sorted by name */
  int n_tensors;
  json_t *config;            /* config.json */
  json_t *generation_config; /* NULL if there is none */
} sl_checkpoint;

/* Opens a folder: config.json, generation_config.json, and model.safetensors or else (as transformers does) the shards
 * that model.safetensors.index.json names.  Checks everything that can be checked without reading weights: header
 * length, JSON, dtypes, shapes against offsets, overlaps, holes, duplicate names, index against shards.
 * Errors: SL_ERR_NOT_FOUND (folder, config.json, weights or a shard), SL_ERR_FORMAT, SL_ERR_IO, SL_ERR_MEMORY. */
sl_status sl_checkpoint_open(const char *path, sl_checkpoint **out, sl_error *err);
void sl_checkpoint_free(sl_checkpoint *checkpoint); /* NULL is fine */

/* Whether each file is still as long as when it was opened.  One that was cut short inside its last page reads as zeros
 * from there on, without a fault.  SL_ERR_IO names the file. */
sl_status sl_checkpoint_check(const sl_checkpoint *checkpoint, sl_error *err);

/* NULL if there is none.  O(log n). */
const sl_tensor *sl_checkpoint_find(const sl_checkpoint *checkpoint, const char *name);

/* Parses a safetensors header (the JSON text of `size` bytes; the data behind it is data_size bytes long) into a
 * malloc'd array, in the header's order, whose names are malloc'd too; free with sl_tensors_free.  `path` is for
 * sentences.  Offsets in the result are relative to the data, `file` is 0 and `data` NULL.  Separate for the fuzzer. */
sl_status sl_safetensors_parse(const char *json, size_t size, uint64_t data_size, const char *path, sl_tensor **tensors,
                               int *n, sl_error *err);
void sl_tensors_free(sl_tensor *tensors, int n);

/* "[704,2816]" into a buffer, for sentences; returns buffer. */
const char *sl_shape_text(const int64_t *shape, int n_dims, char *buffer, size_t size);

#endif
