/* help, version, and --help of every command: from the table of flags.c. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "console.h"
#include "table.h"

/* Gives a flag's three spellings: "-n, --tokens N". */
static void spell(char *out, size_t size, const cli_flag *flag) {
  char letter[8] = "    ";
  if (flag->letter) snprintf(letter, sizeof letter, "-%c, ", flag->letter);
  snprintf(out, size, "%s--%s%s%s", letter, flag->name, flag->metavar ? " " : "", flag->metavar ? flag->metavar : "");
}

enum { HELP_AT = 32, HELP_WIDTH = 80 };

/* Words of a sentence from column `indent` on; `column` is where the line stands. */
static void print_wrapped(const char *text, int column, int indent) {
  if (column + 2 > indent && indent) out_format("\n"), column = 0;
  out_format("%*s", indent - column, "");
  column = indent;
  while (*text) {
    int word = (int)strcspn(text, " ");
    if (column > indent && column + 1 + word > HELP_WIDTH) {
      out_format("\n%*s", indent, "");
      column = indent;
    } else if (column > indent) {
      out_format(" ");
      column++;
    }
    out_format("%.*s", word, text);
    column += word;
    text += word + (text[word] == ' ');
  }
  out_format("\n");
}

static void print_flags(const cli_command *command, bool engine) {
  for (int id = 0; id < CLI_N_FLAGS; id++) {
    const cli_flag *flag = cli_flag_get(id);
    if (!cli_command_takes(command, flag) || (flag->kind == KIND_ENGINE) != engine) continue;
    char name[80];
    spell(name, sizeof name, flag);
    out_format("  %s", name);
    print_wrapped(flag->help, 2 + (int)strlen(name), HELP_AT);
  }
}

static int print_overview(void) {
  out_format("sluice %s runs Mixture-of-Experts models from the files people have.\n\n"
             "usage: sluice COMMAND [MODEL] [FLAGS]\n\n",
             sl_version());
  table t;
  table_init(&t, "ll");
  int n;
  const cli_command *commands = cli_commands(&n);
  for (int i = 0; i < n; i++) table_row(&t, (const char *const[]){commands[i].name, commands[i].summary});
  table_print(&t, "  ");
  table_free(&t);
  out_format("\nMODEL is a checkpoint folder, or org/name in the local Hugging Face cache; with\n"
             "none, the demo model.  sluice COMMAND --help explains a command.  A flag --top-k\n"
             "is SLUICE_TOP_K in the environment.\n\n"
             "Exit status: 0 done, 1 failed while running, 2 wrong usage, 3 refused before\n"
             "anything was computed, 130 interrupted.\n");
  return CLI_DONE;
}

int cli_print_help(const cli_command *command) {
  if (!command) return print_overview();
  bool has_flags = cli_command_takes(command, cli_flag_get(FLAG_QUIET));
  out_format("usage: sluice %s%s%s%s\n\n%c%s.\n", command->name, *command->operands ? " " : "", command->operands,
             has_flags ? " [FLAGS]" : "", command->summary[0] - ('a' - 'A'), command->summary + 1);
  if (command->more) print_wrapped(command->more, 0, 0);
  if (!has_flags) return CLI_DONE;
  out_format("\n");
  print_flags(command, false);
  if (cli_command_takes(command, cli_flag_get(FLAG_THREADS))) {
    out_format("\nThe model and the machine:\n");
    print_flags(command, true);
  }
  return CLI_DONE;
}

int cli_unknown_command(const char *word) {
  int n;
  const cli_command *commands = cli_commands(&n);
  char names[256] = "";
  for (int i = 0; i < n; i++) {
    if (i) strcat(names, ", ");
    strcat(names, commands[i].name); /* ten short names fit */
  }
  console_error("\"%.60s\" is no command; there are %s", word, names);
  return CLI_USAGE;
}

int cli_help(const cli_args *args) {
  if (args->n_operands == 0) return cli_print_help(NULL);
  const cli_command *command = cli_command_find(args->operands[0]);
  if (!command) return cli_unknown_command(args->operands[0]);
  return cli_print_help(command);
}

int cli_version(const cli_args *args) {
  (void)args;
  out_format("sluice %s\n", sl_version());
  return CLI_DONE;
}
