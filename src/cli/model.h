/* From the word MODEL on the command line to an open engine. */
#ifndef SL_CLI_MODEL_H
#define SL_CLI_MODEL_H

#include "flags.h"

/* The checkpoint folder that `name` means: a folder (or file), else org/name in the local Hugging Face cache; NULL is
 * the bundled demo model.  *path is freed with free.  The sentence lists where it was looked for. */
sl_status model_resolve(const char *name, char **path, sl_error *err);

typedef struct cli_model {
  char *path;
  sl_engine *engine;
  sl_model_info info;
} cli_model;

/* Opens the model that the first operand names.  No weights are read yet, so that everything that can be refused is
 * refused cheaply.  Returns an exit status, having printed the sentence if it is not CLI_DONE.  Close with model_close
 * in any case. */
int model_open(cli_model *model, const cli_args *args);

/* Makes an open model ready to compute, with room for `tokens` in a context where --ctx was not given. */
int model_load(cli_model *model, const cli_args *args, uint64_t tokens);
void model_close(cli_model *model);

/* The context that model_load would give. */
uint64_t model_ctx(const cli_model *model, const cli_args *args, uint64_t tokens);

#endif
