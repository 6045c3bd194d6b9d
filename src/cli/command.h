/* The commands of the program: one file each, one row each in flags.c. */
#ifndef SL_CLI_COMMAND_H
#define SL_CLI_COMMAND_H

#include "flags.h"

/* What the program's exit status says. */
enum {
  CLI_DONE = 0,
  CLI_FAILED = 1,  /* while computing or writing */
  CLI_USAGE = 2,   /* unknown flag, environment name or value */
  CLI_REFUSED = 3, /* before anything was computed */
  CLI_INTERRUPTED = 130
};

/* Each returns an exit status, and has said on stderr why when it is not CLI_DONE. */
int cli_run(const cli_args *args);
int cli_logits(const cli_args *args);
int cli_tokenize(const cli_args *args);
int cli_inspect(const cli_args *args);
int cli_plan(const cli_args *args);
int cli_ops(const cli_args *args);
int cli_bench(const cli_args *args);
int cli_completion(const cli_args *args);
int cli_help(const cli_args *args);
int cli_version(const cli_args *args);

/* The help of one command, or of the program for NULL, onto stdout. */
int cli_print_help(const cli_command *command);

/* Says that `word` is no command, and which there are; CLI_USAGE. */
int cli_unknown_command(const char *word);

#endif
