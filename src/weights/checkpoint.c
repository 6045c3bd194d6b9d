/* A checkpoint folder: its files, and one table of all their tensors. */
#include "weights/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

#define MAX_CONFIG  ((size_t)16 << 20)
#define MAX_INDEX   ((size_t)64 << 20)
#define MAX_HEADER  100000000 /* bytes; the format's own limit */
#define MAX_SHARDS  2048
#define MAX_TENSORS 8000000
#define SINGLE_FILE "model.safetensors"
#define INDEX_FILE  "model.safetensors.index.json"
#define FILE_SUFFIX ".safetensors"

/* ---- one file --------------------------------------------------------------------------------------------------- */

/* The header comes through read() and not through the mapping: a bad sector is then an error and no signal. */
static sl_status read_at(const sl_checkpoint_file *file, uint64_t offset, void *data, size_t size, sl_error *err) {
  size_t done = 0;
  while (done < size) {
    ssize_t n = pread(file->fd, (char *)data + done, size - done, (off_t)(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return sl_fail(err, SL_ERR_IO, "%s: reading its header: %s", file->path, strerror(errno));
    if (n == 0) return sl_fail(err, SL_ERR_IO, "%s: became shorter while its header was read", file->path);
    done += (size_t)n;
  }
  return SL_OK;
}

static sl_status header_size(const sl_checkpoint_file *file, uint64_t *size, sl_error *err) {
  if (file->size < 8) {
    return sl_fail(err, SL_ERR_FORMAT, "%s: a file of %" PRIu64 " bytes, expected at least the 8 of a header length",
                   file->path, file->size);
  }
  unsigned char bytes[8];
  SL_TRY(read_at(file, 0, bytes, sizeof bytes, err));
  *size = 0;
  for (int i = 7; i >= 0; i--) *size = *size << 8 | bytes[i];
  if (memcmp(bytes, "version ", sizeof bytes) == 0) {
    return sl_fail(err, SL_ERR_FORMAT,
                   "%s: a text of %" PRIu64 " bytes, probably a Git LFS pointer, expected the weights themselves",
                   file->path, file->size);
  }
  if (*size > file->size - 8) {
    return sl_fail(err, SL_ERR_FORMAT, "%s: header length %" PRIu64 ", but only %" PRIu64 " bytes follow in the file",
                   file->path, *size, file->size - 8);
  }
  if (*size > MAX_HEADER) {
    return sl_fail(err, SL_ERR_FORMAT, "%s: header length %" PRIu64 ", expected at most %d", file->path, *size,
                   MAX_HEADER);
  }
  return SL_OK;
}

/* The file's tensors, with offsets in the file and addresses in the mapping. */
static sl_status read_header(const sl_checkpoint *c, int f, sl_tensor **tensors, int *n, sl_error *err) {
  const sl_checkpoint_file *file = &c->files[f];
  uint64_t size = 0;
  SL_TRY(header_size(file, &size, err));
  char *text = malloc((size_t)size + 1);
  if (!text)
    return sl_fail(err, SL_ERR_MEMORY, "%s: out of memory for a header of %" PRIu64 " bytes", file->path, size);
  sl_status status = read_at(file, 8, text, (size_t)size, err);
  if (status == SL_OK) {
    status = sl_safetensors_parse(text, (size_t)size, file->size - 8 - size, file->path, tensors, n, err);
  }
  free(text);
  if (status != SL_OK) return status;
  for (int i = 0; i < *n; i++) {
    (*tensors)[i].file = f;
    (*tensors)[i].offset += 8 + size;
    (*tensors)[i].data = (const char *)file->base + (*tensors)[i].offset;
  }
  return SL_OK;
}

/* Appends the tensors of file f to the table. */
static sl_status add_tensors(sl_checkpoint *c, int f, sl_error *err) {
  sl_tensor *found = NULL;
  int n = 0;
  SL_TRY(read_header(c, f, &found, &n, err));
  if (n > MAX_TENSORS - c->n_tensors) {
    sl_tensors_free(found, n);
    return sl_fail(err, SL_ERR_FORMAT, "%s: more than %d tensors", c->path, MAX_TENSORS);
  }
  if (c->n_tensors == 0) {
    sl_tensors_free(c->tensors, 0);
    c->tensors = found;
    c->n_tensors = n;
    return SL_OK;
  }
  sl_tensor *all = realloc(c->tensors, ((size_t)c->n_tensors + (size_t)n + 1) * sizeof *all);
  if (!all) {
    sl_tensors_free(found, n);
    return sl_fail(err, SL_ERR_MEMORY, "%s: out of memory for %d tensors", c->path, c->n_tensors + n);
  }
  memcpy(all + c->n_tensors, found, (size_t)n * sizeof *all);
  free(found);
  c->tensors = all;
  c->n_tensors += n;
  return SL_OK;
}

/* Maps one more file and takes its tensors.  c->files has room. */
static sl_status add_file(sl_checkpoint *c, const char *name, sl_error *err) {
  sl_checkpoint_file *file = &c->files[c->n_files];
  *file = (sl_checkpoint_file){.path = sl_path_join(c->path, name), .fd = -1};
  if (!file->path) return sl_fail(err, SL_ERR_MEMORY, "%s: out of memory", c->path);
  sl_status status = sl_file_map(file->path, &file->fd, &file->base, &file->size, err);
  if (status != SL_OK) {
    free(file->path);
    return status;
  }
  c->n_files++;
  return add_tensors(c, c->n_files - 1, err);
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
  return strcmp(((const sl_tensor *)a)->name, ((const sl_tensor *)b)->name);
}

static sl_status sort_tensors(sl_checkpoint *c, sl_error *err) {
  qsort(c->tensors, (size_t)c->n_tensors, sizeof *c->tensors, by_name);
  for (int i = 1; i < c->n_tensors; i++) {
    const sl_tensor *a = &c->tensors[i - 1], *b = &c->tensors[i];
    if (strcmp(a->name, b->name) != 0) continue;
    return sl_fail(err, SL_ERR_FORMAT, "%s: two tensors have this name, in %s and in %s", a->name,
                   c->files[a->file].path, c->files[b->file].path);
  }
  return SL_OK;
}

const sl_tensor *sl_checkpoint_find(const sl_checkpoint *checkpoint, const char *name) {
  const sl_tensor key = {.name = name};
  if (checkpoint->n_tensors == 0) return NULL;
  return bsearch(&key, checkpoint->tensors, (size_t)checkpoint->n_tensors, sizeof key, by_name);
}

/* ---- shards ----------------------------------------------------------------------------------------------------- */

/* A shard lies in the checkpoint's folder: a name with a path in it could be any file of the user's. */
static bool is_shard_name(const char *name) {
  size_t n = strlen(name), suffix = strlen(FILE_SUFFIX);
  if (n <= suffix || n > 255 || strcmp(name + n - suffix, FILE_SUFFIX) != 0) return false;
  for (size_t i = 0; i < n; i++) {
    if (name[i] == '/' || name[i] == '\\' || (unsigned char)name[i] < 0x20 || name[i] == 0x7F) return false;
  }
  return name[0] != '.';
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* A name that was not checked yet, as it may stand in a sentence; returns buffer. */
static const char *show(const char *name, char *buffer, size_t size) {
  snprintf(buffer, size, "%s", name);
  for (char *c = buffer; *c; c++) {
    if ((unsigned char)*c < 0x20 || *c == 0x7F) *c = '?';
  }
  return buffer;
}

/* The different shard names of weight_map, sorted, as pointers into it. */
static sl_status list_shards(const json_t *weight_map, const char *path, const char ***shards, int *n_shards,
                             sl_error *err) {
  size_t n = json_object_size(weight_map);
  const char **all = malloc((n + 1) * sizeof *all);
  if (!all) return sl_fail(err, SL_ERR_MEMORY, "%s: out of memory for %zu entries", path, n);
  *shards = all;
  const char *name;
  json_t *value;
  size_t i = 0;
  json_object_foreach((json_t *)weight_map, name, value) {
    all[i] = json_string_value(value);
    if (all[i] && is_shard_name(all[i])) {
      i++;
      continue;
    }
    char shown[128], found[128];
    return sl_fail(err, SL_ERR_FORMAT, "%s: weight_map: %s: found %s, expected a file of this folder ending in %s",
                   path, show(name, shown, sizeof shown), show(all[i] ? all[i] : "no string", found, sizeof found),
                   FILE_SUFFIX);
  }
  qsort(all, n, sizeof *all, by_text);
  size_t kept = 0;
  for (i = 0; i < n; i++) {
    if (kept == 0 || strcmp(all[kept - 1], all[i]) != 0) all[kept++] = all[i];
  }
  if (kept == 0 || kept > MAX_SHARDS) {
    return sl_fail(err, SL_ERR_FORMAT, "%s: weight_map names %zu files, expected 1 to %d", path, kept, MAX_SHARDS);
  }
  *n_shards = (int)kept;
  return SL_OK;
}

static sl_status add_shards(sl_checkpoint *c, const char *const *shards, int n, sl_error *err) {
  c->files = calloc((size_t)n, sizeof *c->files);
  if (!c->files) return sl_fail(err, SL_ERR_MEMORY, "%s: out of memory for %d shards", c->path, n);
  for (int i = 0; i < n; i++) {
    char *path = sl_path_join(c->path, shards[i]);
    if (!path) return sl_fail(err, SL_ERR_MEMORY, "%s: out of memory", c->path);
    bool there = sl_path_exists(path);
    free(path);
    if (!there) {
      return sl_fail(err, SL_ERR_NOT_FOUND, "%s: shard %s is missing (%d of %d that %s names)", c->path, shards[i],
                     i + 1, n, INDEX_FILE);
    }
    SL_TRY(add_file(c, shards[i], err));
  }
  return sort_tensors(c, err);
}

/* The index and the shards tell of the same tensors in the same files. */
static sl_status check_index(const sl_checkpoint *c, const char *const *shards, const json_t *weight_map,
                             const char *path, sl_error *err) {
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)weight_map, name, value) {
    const sl_tensor *t = sl_checkpoint_find(c, name);
    if (t && strcmp(shards[t->file], json_string_value(value)) == 0) continue;
    if (!t) {
      char shown[128];
      return sl_fail(err, SL_ERR_FORMAT, "%s: %s: named for %s, which does not hold it", path,
                     show(name, shown, sizeof shown), json_string_value(value));
    }
    return sl_fail(err, SL_ERR_FORMAT, "%s: %s: found in %s, expected in %s", path, t->name, shards[t->file],
                   json_string_value(value));
  }
  for (int i = 0; i < c->n_tensors && (size_t)c->n_tensors != json_object_size(weight_map); i++) {
    const sl_tensor *t = &c->tensors[i];
    if (json_object_get(weight_map, t->name)) continue;
    return sl_fail(err, SL_ERR_FORMAT, "%s: %s: in the shard but not in %s", c->files[t->file].path, t->name,
                   INDEX_FILE);
  }
  return SL_OK;
}

static sl_status open_shards(sl_checkpoint *c, const char *index_path, sl_error *err) {
  json_t *index = NULL;
  SL_TRY(sl_json_read(index_path, MAX_INDEX, &index, err));
  const json_t *weight_map = json_object_get(index, "weight_map");
  const char **shards = NULL;
  int n = 0;
  sl_status status = SL_OK;
  if (!json_is_object(weight_map)) {
    status = sl_fail(err, SL_ERR_FORMAT, "%s: no weight_map, expected an object of tensor names and files", index_path);
  }
  if (status == SL_OK) status = list_shards(weight_map, index_path, &shards, &n, err);
  if (status == SL_OK) status = add_shards(c, shards, n, err);
  if (status == SL_OK) status = check_index(c, shards, weight_map, index_path, err);
  free(shards);
  json_decref(index);
  return status;
}

/* ---- the folder ------------------------------------------------------------------------------------------------- */

/* Whether folder/name is there; *path (malloc'd) is its path either way. */
static sl_status look_for(const sl_checkpoint *c, const char *name, char **path, bool *there, sl_error *err) {
  *path = sl_path_join(c->path, name);
  if (!*path) return sl_fail(err, SL_ERR_MEMORY, "%s: out of memory", c->path);
  *there = sl_path_exists(*path);
  return SL_OK;
}

static sl_status open_weights(sl_checkpoint *c, sl_error *err) {
  char *path = NULL;
  bool there = false;
  SL_TRY(look_for(c, SINGLE_FILE, &path, &there, err));
  free(path);
  if (there) {
    c->files = calloc(1, sizeof *c->files);
    if (!c->files) return sl_fail(err, SL_ERR_MEMORY, "%s: out of memory", c->path);
    SL_TRY(add_file(c, SINGLE_FILE, err));
    return sort_tensors(c, err);
  }
  SL_TRY(look_for(c, INDEX_FILE, &path, &there, err));
  sl_status status =
      there ? open_shards(c, path, err)
            : sl_fail(err, SL_ERR_NOT_FOUND, "%s: no weights, expected %s or %s", c->path, SINGLE_FILE, INDEX_FILE);
  free(path);
  return status;
}

/* A JSON object from a file of the folder; *out stays NULL if the file is not there. */
static sl_status read_object(const sl_checkpoint *c, const char *name, json_t **out, sl_error *err) {
  char *path = NULL;
  bool there = false;
  SL_TRY(look_for(c, name, &path, &there, err));
  sl_status status = there ? sl_json_read(path, MAX_CONFIG, out, err) : SL_OK;
  if (*out && !json_is_object(*out)) status = sl_fail(err, SL_ERR_FORMAT, "%s: no JSON object", path);
  free(path);
  return status;
}

static sl_status open_folder(sl_checkpoint *c, sl_error *err) {
  struct stat st;
  if (stat(c->path, &st) != 0) return sl_fail(err, SL_ERR_NOT_FOUND, "%s: %s", c->path, strerror(errno));
  if (!S_ISDIR(st.st_mode)) {
    return sl_fail(err, SL_ERR_NOT_FOUND, "%s: a file, expected a folder with config.json and safetensors", c->path);
  }
  SL_TRY(read_object(c, "config.json", &c->config, err));
  if (!c->config) return sl_fail(err, SL_ERR_NOT_FOUND, "%s: no config.json in this folder", c->path);
  SL_TRY(read_object(c, "generation_config.json", &c->generation_config, err));
  return open_weights(c, err);
}

sl_status sl_checkpoint_open(const char *path, sl_checkpoint **out, sl_error *err) {
  *out = NULL;
  sl_checkpoint *c = calloc(1, sizeof *c);
  if (c) c->path = strdup(path);
  sl_status status = c && c->path ? open_folder(c, err) : sl_fail(err, SL_ERR_MEMORY, "%s: out of memory", path);
  if (status != SL_OK) {
    sl_checkpoint_free(c);
    return status;
  }
  *out = c;
  return SL_OK;
}

sl_status sl_checkpoint_check(const sl_checkpoint *checkpoint, sl_error *err) {
  for (int i = 0; i < checkpoint->n_files; i++) {
    const sl_checkpoint_file *file = &checkpoint->files[i];
    struct stat st;
    if (fstat(file->fd, &st) != 0) return sl_fail(err, SL_ERR_IO, "%s: %s", file->path, strerror(errno));
    if ((uint64_t)st.st_size >= file->size) continue;
    return sl_fail(err, SL_ERR_IO, "%s: was cut short while in use: found %lld bytes, expected %" PRIu64, file->path,
                   (long long)st.st_size, file->size);
  }
  return SL_OK;
}

void sl_checkpoint_free(sl_checkpoint *checkpoint) {
  if (!checkpoint) return;
  for (int i = 0; i < checkpoint->n_files; i++) {
    sl_checkpoint_file *file = &checkpoint->files[i];
    sl_file_unmap(file->fd, file->base, file->size);
    free(file->path);
  }
  sl_tensors_free(checkpoint->tensors, checkpoint->n_tensors);
  json_decref(checkpoint->config);
  json_decref(checkpoint->generation_config);
  free(checkpoint->files);
  free(checkpoint->path);
  free(checkpoint);
}
