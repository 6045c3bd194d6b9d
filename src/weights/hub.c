/* The layout of the cache: HUB/models--ORG--NAME/refs/main holds a hash, and snapshots/HASH/ links to the files. */
#include "weights/hub.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

static bool is_folder(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* "org/name" of the characters that the hub allows: no path can hide in it. */
static bool is_hub_name(const char *name) {
  const char *slash = strchr(name, '/');
  if (!slash || slash == name || !slash[1] || strchr(slash + 1, '/') || strlen(name) > 200) return false;
  if (name[0] == '.' || slash[1] == '.') return false;
  for (const char *c = name; *c; c++) {
    if (!isalnum((unsigned char)*c) && !strchr("-_./", *c)) return false;
  }
  return true;
}

/* HUB/models--org--name, malloc'd; NULL when out of memory. */
static char *model_folder(const char *hub_dir, const char *name) {
  char folder[256] = "models--";
  size_t n = strlen(folder);
  for (const char *c = name; *c; c++) {
    if (*c == '/')
      folder[n++] = '-', folder[n++] = '-';
    else
      folder[n++] = *c;
  }
  folder[n] = '\0';
  return sl_path_join(hub_dir, folder);
}

/* The hash in refs/main; false if there is none that is a plain name. */
static bool read_main(const char *model, char hash[128]) {
  char *path = sl_path_join(model, "refs/main"), *text = NULL;
  size_t size = 0;
  bool ok = path && sl_file_read(path, 127, &text, &size, NULL) == SL_OK;
  size_t n = 0;
  while (ok && n < size && n < 127 && isalnum((unsigned char)text[n])) {
    hash[n] = text[n];
    n++;
  }
  hash[n] = '\0';
  free(text);
  free(path);
  return n > 0;
}

/* The one entry of snapshots/; false if there is none or more than one. */
static bool only_snapshot(const char *snapshots, char hash[128]) {
  DIR *dir = opendir(snapshots);
  if (!dir) return false;
  int n = 0;
  for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
    size_t length = strlen(e->d_name);
    if (e->d_name[0] == '.' || length > 127) continue;
    memcpy(hash, e->d_name, length + 1);
    n++;
  }
  closedir(dir);
  return n == 1;
}

static sl_status find_snapshot(const char *model, const char *name, char **path, sl_error *err) {
  char hash[128];
  char *snapshots = sl_path_join(model, "snapshots"), *found = NULL;
  if (snapshots && (read_main(model, hash) || only_snapshot(snapshots, hash))) {
    found = sl_path_join(snapshots, hash);
  }
  free(snapshots);
  if (found && is_folder(found)) {
    *path = found;
    return SL_OK;
  }
  sl_fail(err, SL_ERR_NOT_FOUND, "%s: %s holds no whole snapshot: looked for the one that refs/main names (%s)", name,
          model, found ? found : "there is none");
  free(found);
  return SL_ERR_NOT_FOUND;
}

sl_status sl_hub_find(const char *hub_dir, const char *name, char **path, sl_error *err) {
  if (!name[0]) return sl_fail(err, SL_ERR_ARGUMENT, "the model's name is empty");
  if (sl_path_exists(name)) {
    *path = strdup(name);
    return *path ? SL_OK : sl_fail(err, SL_ERR_MEMORY, "%s: out of memory", name);
  }
  if (!is_hub_name(name)) {
    return sl_fail(err, SL_ERR_NOT_FOUND, "%s: no such folder (and no org/name of the Hugging Face cache)", name);
  }
  if (!hub_dir) {
    return sl_fail(err, SL_ERR_NOT_FOUND, "%s: no such folder, and there is no Hugging Face cache to look into", name);
  }
  char *model = model_folder(hub_dir, name);
  if (!model) return sl_fail(err, SL_ERR_MEMORY, "%s: out of memory", name);
  sl_status status = SL_OK;
  if (is_folder(model))
    status = find_snapshot(model, name, path, err);
  else
    status = sl_fail(err, SL_ERR_NOT_FOUND, "%s: neither a folder nor in the Hugging Face cache: looked for %s", name,
                     model);
  free(model);
  return status;
}
