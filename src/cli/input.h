/* Reading the text of a prompt. */
#ifndef SL_CLI_INPUT_H
#define SL_CLI_INPUT_H

#include <stddef.h>

#include "sluice/status.h"

/* All of a file, or of stdin for "-"; *text is freed with free, and has a NUL behind its `size` bytes. */
sl_status input_read(const char *path, char **text, size_t *size, sl_error *err);

#endif
