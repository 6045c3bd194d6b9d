/* Golden checkpoints for tests, and broken copies of them. */
#ifndef SL_TESTS_MODELS_H
#define SL_TESTS_MODELS_H

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sluice/sluice.h"
#include "unit/unit.h"

#define MOE_BF16  "tests/goldens/moe-bf16"
#define MOE_FP8   "tests/goldens/moe-fp8"
#define DENSE_PLE "tests/goldens/dense-ple"
#define GEMMA3    "tests/goldens/gemma3-dense"

static inline void models_copy_file(const char *from, const char *to) {
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  assert_non_null(in);
  assert_non_null(out);
  char buffer[65536];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, in)) > 0;) assert_int_equal(fwrite(buffer, 1, n, out), n);
  fclose(in);
  assert_int_equal(fclose(out), 0);
}

/* A copy of a checkpoint folder in a new temporary folder; models_remove takes it away. */
static inline char *models_copy(const char *folder) {
  char template[] = "/tmp/sluice-test-XXXXXX";
  assert_non_null(mkdtemp(template));
  char *copy = strdup(template);
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (struct dirent *e; (e = readdir(dir));) {
    if (!strstr(e->d_name, ".json") && !strstr(e->d_name, ".safetensors")) continue;
    char from[512], to[512];
    snprintf(from, sizeof from, "%s/%s", folder, e->d_name);
    snprintf(to, sizeof to, "%s/%s", copy, e->d_name);
    models_copy_file(from, to);
  }
  closedir(dir);
  return copy;
}

static inline void models_remove(char *folder) {
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (struct dirent *e; (e = readdir(dir));) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (e->d_name[0] != '.') unlink(path);
  }
  closedir(dir);
  rmdir(folder);
  free(folder);
}

/* Replaces the first `old` in a file by `new`, which is as long. */
static inline void models_patch(const char *folder, const char *file, const char *old, const char *new) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  FILE *f = fopen(path, "r+b");
  assert_non_null(f);
  assert_int_equal(strlen(old), strlen(new));
  static char text[1 << 16];
  size_t n = fread(text, 1, sizeof text - 1, f), at = 0;
  while (at + strlen(old) <= n && memcmp(text + at, old, strlen(old)) != 0) at++;
  assert_true(at + strlen(old) <= n);
  fseek(f, (long)at, SEEK_SET);
  assert_int_equal(fwrite(new, 1, strlen(new), f), strlen(new));
  fclose(f);
}

/* Overwrites bytes of a tensor, `at` bytes from its beginning, in a folder with one model.safetensors. */
static inline void models_poke(const char *folder, const char *tensor, long at, const void *bytes, size_t size) {
  char path[512], key[256];
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  snprintf(key, sizeof key, "\"%s\"", tensor);
  FILE *f = fopen(path, "r+b");
  assert_non_null(f);
  uint64_t header = 0;
  assert_int_equal(fread(&header, 8, 1, f), 1);
  char *text = calloc(header + 1, 1);
  assert_int_equal(fread(text, 1, header, f), header);
  const char *entry = strstr(text, key);
  assert_non_null(entry);
  const char *offsets = strstr(entry, "\"data_offsets\"");
  assert_non_null(offsets);
  long begin = strtol(strchr(offsets, '[') + 1, NULL, 10);
  fseek(f, (long)(8 + header) + begin + at, SEEK_SET);
  assert_int_equal(fwrite(bytes, 1, size, f), size);
  fclose(f);
  free(text);
}

#endif
