/* The commands, their flags and their environment names, all from one table.
 *
 * A flag --top-k has the environment name SLUICE_TOP_K; the command line wins.  A name of the environment that begins
 * with SLUICE_ and belongs to no flag is an error, so that a misspelt setting cannot be ignored in silence. */
#ifndef SL_CLI_FLAGS_H
#define SL_CLI_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/sluice.h"

/* Same order as the table in flags.c. */
typedef enum cli_flag_id {
  FLAG_PROMPT,
  FLAG_FILE,
  FLAG_IDS,
  FLAG_TOKENS,
  FLAG_TEMPERATURE,
  FLAG_TOP_K,
  FLAG_TOP_P,
  FLAG_MIN_P,
  FLAG_SEED,
  FLAG_IGNORE_EOS,
  FLAG_SPECIAL,
  FLAG_PRINT,
  FLAG_STATS,
  FLAG_OUT,
  FLAG_HIDDEN,
  FLAG_ROUTES,
  FLAG_AS,
  FLAG_FORCE_ROUTES,
  FLAG_STDIN,
  FLAG_NO_BOS,
  FLAG_DECODE,
  FLAG_PROMPT_TOKENS,
  FLAG_JSON,
  FLAG_THREADS,
  FLAG_CHUNK,
  FLAG_CTX,
  FLAG_MATH,
  FLAG_KV,
  FLAG_KERNELS,
  FLAG_QUIET,
  FLAG_HELP,
  CLI_N_FLAGS
} cli_flag_id;

typedef enum cli_kind {
  KIND_SWITCH, /* present or not; in the environment 1 or 0 */
  KIND_TEXT,
  KIND_FILE,
  KIND_INTEGER,
  KIND_REAL,
  KIND_CHOICE, /* one of the words in `metavar`, separated by | */
  KIND_IDS,    /* token ids separated by commas or spaces */
  KIND_ENGINE  /* an option of the engine, checked by sl_options_set */
} cli_kind;

typedef struct cli_flag {
  const char *name; /* without the dashes */
  char letter;      /* 0: none */
  const char *metavar;
  cli_kind kind;
  unsigned commands; /* bit i: command i of the table takes it */
  double lowest, highest;
  const char *help;
} cli_flag;

/* What was said for one flag. */
typedef struct cli_value {
  bool given;
  bool from_environment;
  const char *text;
  uint64_t integer; /* KIND_INTEGER */
  double real;      /* KIND_REAL */
  bool on;          /* KIND_SWITCH */
  int32_t *ids;     /* KIND_IDS; owned by the args */
  size_t n_ids;
} cli_value;

typedef struct cli_args cli_args;
typedef struct cli_command {
  const char *name, *operands, *summary, *more;
  int max_operands;
  int (*run)(const cli_args *args);
} cli_command;

struct cli_args {
  const cli_command *command;
  const char *operands[2];
  int n_operands;
  cli_value values[CLI_N_FLAGS];
  sl_options options; /* the KIND_ENGINE flags */
};

const cli_command *cli_commands(int *n);
const cli_command *cli_command_find(const char *name); /* NULL if there is none */
const cli_flag *cli_flag_get(int id);
bool cli_command_takes(const cli_command *command, const cli_flag *flag);

/* Reads the environment, then argv (argv[0] is the first word after the command).  Returns an exit status; when it is
 * not 0 a sentence has been printed.  Free args with cli_args_free in any case. */
int cli_args_read(cli_args *args, const cli_command *command, int argc, char **argv);
void cli_args_free(cli_args *args);

/* Prints "sluice COMMAND: sentence" and where help is; returns CLI_USAGE. */
int cli_usage(const cli_args *args, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline bool cli_given(const cli_args *args, cli_flag_id id) { return args->values[id].given; }
static inline bool cli_on(const cli_args *args, cli_flag_id id) { return args->values[id].on; }
static inline const char *cli_text(const cli_args *args, cli_flag_id id) { return args->values[id].text; }

/* How many of the flags were given, and into *which the last of them.  One on the command line makes those of the
 * environment not count. */
int cli_exclusive(const cli_args *args, const cli_flag_id *ids, int n, cli_flag_id *which);

#endif
