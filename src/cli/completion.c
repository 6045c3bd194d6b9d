/* The completion script for bash, made from the table of flags.c. */
#include <string.h>

#include "command.h"
#include "table.h"

static void print_command_names(void) {
  int n;
  const cli_command *commands = cli_commands(&n);
  for (int i = 0; i < n; i++) out_format("%s ", commands[i].name);
}

/* A command's flags, and folders where it takes a MODEL. */
static void print_words_of(const cli_command *command) {
  out_format("    %s) words=\"", command->name);
  if (command->run == cli_help) print_command_names();
  for (int id = 0; id < CLI_N_FLAGS; id++) {
    const cli_flag *flag = cli_flag_get(id);
    if (!cli_command_takes(command, flag)) continue;
    out_format("--%s ", flag->name);
    if (flag->letter) out_format("-%c ", flag->letter);
  }
  out_format("\"%s ;;\n", strstr(command->operands, "[MODEL]") ? " folders=1" : "");
}

/* After a flag: its words, a file name, or nothing where only a person knows. */
static void print_values_of(const cli_flag *flag) {
  if (!flag->metavar) return;
  out_format("    --%s", flag->name);
  if (flag->letter) out_format("|-%c", flag->letter);
  out_format(") ");
  if (strchr(flag->metavar, '|')) {
    out_format("_sluice_offer -W \"");
    for (const char *p = flag->metavar; *p; p++) out_format("%c", *p == '|' ? ' ' : *p);
    out_format("\"; return ;;\n");
  } else if (flag->kind == KIND_FILE) {
    out_format("_sluice_offer -f; return ;;\n");
  } else {
    out_format("return ;;\n");
  }
}

/* Names may hold spaces, so an answer is a line; they are file names to bash only where they are, or a command would
 * get a slash behind it wherever a folder has its name. */
static const char OFFER[] = "# bash completion for sluice\n"
                            "_sluice_offer() {\n"
                            "  mapfile -t COMPREPLY < <(compgen \"$@\" -- \"$word\")\n"
                            "  if [ \"$1\" != -W ]; then compopt -o filenames 2>/dev/null; fi\n"
                            "}\n";

/* bash splits --math=f in three words. */
static const char BEGIN[] = "_sluice() {\n"
                            "  local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
                            "  local words=\"\" folders=\"\"\n"
                            "  COMPREPLY=()\n"
                            "  if [ \"$word\" = = ]; then word=\"\"\n"
                            "  elif [ \"$before\" = = ]; then before=\"${COMP_WORDS[COMP_CWORD-2]}\"; fi\n"
                            "  word=\"${word//\\\\/}\"\n";

int cli_completion(const cli_args *args) {
  if (args->n_operands && strcmp(args->operands[0], "bash") != 0)
    return cli_usage(args, "\"%.40s\": there is completion for bash only", args->operands[0]);
  int n;
  const cli_command *commands = cli_commands(&n);
  out_format("%s%s  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    _sluice_offer -W \"", OFFER, BEGIN);
  print_command_names();
  out_format("--help --version\"\n    return\n  fi\n  case \"$before\" in\n");
  for (int id = 0; id < CLI_N_FLAGS; id++) print_values_of(cli_flag_get(id));
  out_format("  esac\n  case \"${COMP_WORDS[1]}\" in\n");
  for (int i = 0; i < n; i++) print_words_of(&commands[i]);
  out_format("  esac\n"
             "  if [ -n \"$folders\" ] && [ \"${word#-}\" = \"$word\" ]; then _sluice_offer -d\n"
             "  else _sluice_offer -W \"$words\"; fi\n"
             "}\ncomplete -F _sluice sluice\n");
  return CLI_DONE;
}
