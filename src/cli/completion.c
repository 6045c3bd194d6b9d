/* The completion script for bash, made from the table of flags.c. */
#include <string.h>

#include "command.h"
#include "table.h"

static void print_words_of(const cli_command *command) {
  out_format("    %s) words=\"", command->name);
  for (int id = 0; id < CLI_N_FLAGS; id++) {
    const cli_flag *flag = cli_flag_get(id);
    if (!cli_command_takes(command, flag)) continue;
    out_format("--%s ", flag->name);
    if (flag->letter) out_format("-%c ", flag->letter);
  }
  out_format("\" ;;\n");
}

/* After a flag: its words, a file name, or nothing where only a person knows. */
static void print_values_of(const cli_flag *flag) {
  if (!flag->metavar) return;
  out_format("    --%s", flag->name);
  if (flag->letter) out_format("|-%c", flag->letter);
  out_format(") ");
  if (strchr(flag->metavar, '|')) {
    out_format("COMPREPLY=($(compgen -W \"");
    for (const char *p = flag->metavar; *p; p++) out_format("%c", *p == '|' ? ' ' : *p);
    out_format("\" -- \"$word\")); return ;;\n");
  } else if (flag->kind == KIND_FILE) {
    out_format("COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n");
  } else {
    out_format("return ;;\n");
  }
}

int cli_completion(const cli_args *args) {
  if (args->n_operands && strcmp(args->operands[0], "bash") != 0)
    return cli_usage(args, "\"%.40s\": there is completion for bash only", args->operands[0]);
  int n;
  const cli_command *commands = cli_commands(&n);
  out_format("# bash completion for sluice\n_sluice() {\n"
             "  local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\" words=\"\"\n"
             "  COMPREPLY=()\n  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W \"");
  for (int i = 0; i < n; i++) out_format("%s ", commands[i].name);
  out_format("--help --version\" -- \"$word\"))\n    return\n  fi\n  case \"$before\" in\n");
  for (int id = 0; id < CLI_N_FLAGS; id++) print_values_of(cli_flag_get(id));
  out_format("  esac\n  case \"${COMP_WORDS[1]}\" in\n");
  for (int i = 0; i < n; i++) print_words_of(&commands[i]);
  out_format("  esac\n  case \"$word\" in\n    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
             "    *) COMPREPLY=($(compgen -d -- \"$word\")) ;;\n  esac\n}\n"
             "complete -o filenames -F _sluice sluice\n");
  return CLI_DONE;
}
