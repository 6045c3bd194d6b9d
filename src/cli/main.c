/* sluice: the program.  A client of sluice.h and of nothing else of the library. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "console.h"
#include "interrupt.h"

/* What the program does when the first word asks for help or the version like a flag. */
static const char *command_word(const char *word) {
  if (!strcmp(word, "--help") || !strcmp(word, "-h")) return "help";
  if (!strcmp(word, "--version") || !strcmp(word, "-V")) return "version";
  return word;
}

static int dispatch(int argc, char **argv) {
  if (argc < 2) {
    console_error("which command? sluice --help lists them");
    return CLI_USAGE;
  }
  const cli_command *command = cli_command_find(command_word(argv[1]));
  if (!command) return cli_unknown_command(argv[1]);
  cli_args args;
  int status = cli_args_read(&args, command, argc - 2, argv + 2);
  console_open(cli_on(&args, FLAG_QUIET));
  if (status == CLI_DONE) status = cli_on(&args, FLAG_HELP) ? cli_print_help(command) : command->run(&args);
  cli_args_free(&args);
  return status;
}

/* A file that is opened while one of the three is closed takes its place: -f - would read the model as a prompt, and
 * the model's text go into an output file.  So they are taken first, in a way in which they cannot be used. */
static void take_standard_places(void) {
  for (int fd = 0; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return;
}

int main(int argc, char **argv) {
  take_standard_places();
  console_open(false);
  interrupt_install();
  sl_error err;
  if (sl_install_fault_guard(&err) != SL_OK) console_error("%s", err.text);
  int status = dispatch(argc, argv);
  int written = out_finish();
  return status == CLI_DONE ? written : status;
}
