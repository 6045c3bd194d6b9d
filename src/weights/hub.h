/* Models in the local Hugging Face cache; nothing is downloaded. */
#ifndef SL_WEIGHTS_HUB_H
#define SL_WEIGHTS_HUB_H

#include "base/status.h"

/* The folder that `name` means: an existing path as it is (a file is refused when it is opened), or else org/name in
 * the cache `hub_dir` (the folder that holds models--org--name; NULL if there is none): the snapshot that refs/main
 * points to, or the only one there is. *path: malloc'd, freed by the caller.  Errors: SL_ERR_NOT_FOUND with a sentence
 * that lists what was looked for, SL_ERR_ARGUMENT for an empty name. */
sl_status sl_hub_find(const char *hub_dir, const char *name, char **path, sl_error *err);

#endif
