#include "flags.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "command.h"
#include "console.h"

extern char **environ;

enum { RUN = 1, LOGITS = 2, TOKENIZE = 4, INSPECT = 8, PLAN = 16, OPS = 32, BENCH = 64, COMPLETION = 128 };
enum { COMPUTES = RUN | LOGITS | PLAN | BENCH, ALL = 255 };

/* In the order of the bits above; help and version take no flags. */
static const cli_command COMMANDS[] = {
    {"run", "[MODEL]", "continues a text, token by token",
     "The text goes to stdout as it is made, everything else to stderr. Sampling that is not set here comes from the "
     "model's generation_config.json, else the most probable token is taken. Without -n it goes on to an end token or "
     "a full context. Ctrl-C stops and prints the statistics.",
     1, cli_run},
    {"logits", "[MODEL]", "writes the logits of every position to .npy files",
     "Files are .npy version 1.0, little-endian, C order, and appear only when they are whole.", 1, cli_logits},
    {"tokenize", "[MODEL] [TEXT]", "turns text into token ids, or ids into text",
     "One operand beside --stdin or --decode is the MODEL; a TEXT needs the MODEL in front of it.", 2, cli_tokenize},
    {"inspect", "[MODEL]", "shows the configuration and every tensor of a model", NULL, 1, cli_inspect},
    {"plan", "[MODEL]", "shows each operation's kernel, the memory and the speed to expect", NULL, 1, cli_plan},
    {"ops", "", "shows operations by backend and weight type, or why not", NULL, 0, cli_ops},
    {"bench", "[MODEL]", "measures the speed, also as a share of the machine's limits",
     "The prompt is random tokens, the same in every run; without -n 64 tokens are generated. The figures are medians.",
     1, cli_bench},
    {"completion", "[bash]", "prints the completion script for bash", "Use it with:  source <(sluice completion)", 1,
     cli_completion},
    {"help", "[COMMAND]", "explains a command", NULL, 1, cli_help},
    {"version", "", "prints the version", NULL, 0, cli_version},
};
enum { N_COMMANDS = sizeof COMMANDS / sizeof *COMMANDS };

#define ANY_COUNT 0, 1e9
static const cli_flag FLAGS[CLI_N_FLAGS] = {
    [FLAG_PROMPT] = {"prompt", 'p', "TEXT", KIND_TEXT, RUN, 0, 0, "the text to continue"},
    [FLAG_FILE] = {"file", 'f', "FILE", KIND_FILE, RUN, 0, 0,
                   "a file with the text to continue, used to its last newline; - is stdin"},
    [FLAG_IDS] = {"ids", 0, "LIST", KIND_IDS, RUN | LOGITS, 0, 0, "token ids, used as they are: 2,5,7"},
    [FLAG_TOKENS] = {"tokens", 'n', "N", KIND_INTEGER, RUN | BENCH, ANY_COUNT, "tokens to generate"},
    [FLAG_TEMPERATURE] = {"temperature", 0, "T", KIND_REAL, RUN, 0, 100, "0 takes the most probable token"},
    [FLAG_TOP_K] = {"top-k", 0, "K", KIND_INTEGER, RUN, ANY_COUNT, "sample among the K most probable; 0 is off"},
    [FLAG_TOP_P] = {"top-p", 0, "P", KIND_REAL, RUN, 0, 1, "sample among those that make up P; 1 is off"},
    [FLAG_MIN_P] = {"min-p", 0, "P", KIND_REAL, RUN, 0, 1, "sample among those above P times the best; 0 is off"},
    [FLAG_SEED] = {"seed", 0, "S", KIND_INTEGER, RUN, 0, 18446744073709551615.0, "of the sampling (default 0)"},
    [FLAG_IGNORE_EOS] = {"ignore-eos", 0, NULL, KIND_SWITCH, RUN, 0, 0, "go on after an end token"},
    [FLAG_SPECIAL] = {"special", 0, NULL, KIND_SWITCH, RUN | TOKENIZE, 0, 0,
                      "names of special tokens in a text are those tokens"},
    [FLAG_PRINT] = {"print", 0, "text|ids", KIND_CHOICE, RUN, 0, 0, "what goes to stdout (default text)"},
    [FLAG_STATS] = {"stats", 0, "FILE.json", KIND_FILE, RUN, 0, 0, "write the statistics there too"},
    [FLAG_OUT] = {"out", 0, "F.npy", KIND_FILE, LOGITS, 0, 0, "logits, f32 [T,V]"},
    [FLAG_HIDDEN] = {"hidden", 0, "F.npy", KIND_FILE, LOGITS, 0, 0,
                     "the stream after the embedding and each layer, f32 [L+1,T,H]"},
    [FLAG_ROUTES] = {"routes", 0, "PREFIX", KIND_FILE, LOGITS, 0, 0,
                     "PREFIX_ids.npy i32 and PREFIX_weights.npy f32 [L,T,K], by descending weight"},
    [FLAG_AS] = {"as", 0, "prompt|generated", KIND_CHOICE, LOGITS, 0, 0, "whose arithmetic (default prompt)"},
    [FLAG_FORCE_ROUTES] = {"force-routes", 0, "F_ids.npy", KIND_FILE, LOGITS, 0, 0,
                           "impose these experts, i32 [L,T,K]"},
    [FLAG_STDIN] = {"stdin", 0, NULL, KIND_SWITCH, TOKENIZE, 0, 0, "read the text from stdin"},
    [FLAG_NO_BOS] = {"no-bos", 0, NULL, KIND_SWITCH, TOKENIZE, 0, 0, "put no BOS in front"},
    [FLAG_DECODE] = {"decode", 0, "LIST", KIND_IDS, TOKENIZE, 0, 0, "print the text of these ids"},
    [FLAG_PROMPT_TOKENS] = {"prompt-tokens", 'p', "N", KIND_INTEGER, BENCH, 1, 1e9, "tokens of prompt (default 512)"},
    [FLAG_JSON] = {"json", 0, NULL, KIND_SWITCH, INSPECT | PLAN | OPS | BENCH, 0, 0, "print JSON"},
    [FLAG_THREADS] = {"threads", 0, "N", KIND_ENGINE, COMPUTES, 0, 0, "default: as many as there are CPUs to use"},
    [FLAG_CHUNK] = {"chunk", 0, "N", KIND_ENGINE, COMPUTES, 0, 0, "tokens of a prompt per step (default 512)"},
    [FLAG_CTX] = {"ctx", 0, "N", KIND_ENGINE, COMPUTES, 0, 0,
                  "tokens of context (default: the smaller of the model's maximum and 8192, grown to what is asked)"},
    [FLAG_MATH] = {"math", 0, "exact|fast", KIND_ENGINE, COMPUTES, 0, 0, "fast rounds matmul inputs to bf16"},
    [FLAG_KV] = {"kv", 0, "f16|f32", KIND_ENGINE, COMPUTES, 0, 0, "type of the keys and values (default f16)"},
    [FLAG_KERNELS] = {"kernels", 0, "auto|avx512|avx2|reference", KIND_ENGINE, COMPUTES, 0, 0,
                      "which kernels may be used (default auto)"},
    [FLAG_QUIET] = {"quiet", 'q', NULL, KIND_SWITCH, ALL, 0, 0, "errors only on stderr"},
    [FLAG_HELP] = {"help", 'h', NULL, KIND_SWITCH, ALL, 0, 0, "print this"},
};

const cli_command *cli_commands(int *n) {
  *n = N_COMMANDS;
  return COMMANDS;
}

const cli_command *cli_command_find(const char *name) {
  for (int i = 0; i < N_COMMANDS; i++)
    if (strcmp(COMMANDS[i].name, name) == 0) return &COMMANDS[i];
  return NULL;
}

const cli_flag *cli_flag_get(int id) { return &FLAGS[id]; }

bool cli_command_takes(const cli_command *command, const cli_flag *flag) {
  int i = (int)(command - COMMANDS);
  return i < 8 && (flag->commands >> i & 1u);
}

int cli_usage(const cli_args *args, const char *format, ...) {
  char sentence[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(sentence, sizeof sentence, format, list);
  va_end(list);
  console_error("%s; sluice %s --help lists what there is", sentence, args->command->name);
  return CLI_USAGE;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Is `text` one of the words of "a|b|c"? */
static bool is_choice(const char *words, const char *text) {
  size_t n = strlen(text);
  for (const char *w = words; w; w = strchr(w, '|') ? strchr(w, '|') + 1 : NULL)
    if (n && strcspn(w, "|") == n && memcmp(w, text, n) == 0) return true;
  return false;
}

static bool read_integer(const char *text, uint64_t *out) {
  if (*text < '0' || *text > '9') return false;
  char *end;
  errno = 0;
  unsigned long long v = strtoull(text, &end, 10);
  if (errno || *end) return false;
  *out = v;
  return true;
}

static bool read_real(const char *text, double *out) {
  if (!*text || strspn(text, "0123456789.eE+-") != strlen(text)) return false; /* no hex, inf, nan or spaces */
  char *end;
  *out = strtod(text, &end);
  return !*end && isfinite(*out);
}

static bool read_switch(const char *text, bool *out) {
  *out = strcmp(text, "1") == 0;
  return *out || strcmp(text, "0") == 0;
}

/* Ids separated by commas, spaces or newlines; an empty list is none. */
static bool read_ids(const char *text, cli_value *value) {
  size_t room = strlen(text) / 2 + 1;
  value->ids = malloc(room * sizeof *value->ids);
  value->n_ids = 0;
  if (!value->ids) return false;
  const char *separators = ", \t\r\n";
  for (const char *p = text + strspn(text, separators); *p; p += strspn(p, separators)) {
    if (*p < '0' || *p > '9') return false;
    char *end;
    errno = 0;
    long v = strtol(p, &end, 10);
    if (errno || v > INT32_MAX || (*end && !strchr(separators, *end))) return false;
    value->ids[value->n_ids++] = (int32_t)v;
    p = end;
  }
  return value->n_ids > 0;
}

/* 2^64 - 1 has no double of its own. */
static unsigned long long highest_integer(const cli_flag *flag) {
  return flag->highest >= 18446744073709551615.0 ? UINT64_MAX : (unsigned long long)flag->highest;
}

static int bad_value(const cli_args *args, const cli_flag *flag, const char *name, const char *text) {
  char shown[64];
  snprintf(shown, sizeof shown, "%.40s%s", text, strlen(text) > 40 ? "..." : "");
  switch (flag->kind) {
  case KIND_INTEGER:
    return cli_usage(args, "%s: found \"%s\", expected an integer from %.0f to %llu", name, shown, flag->lowest,
                     highest_integer(flag));
  case KIND_REAL:
    return cli_usage(args, "%s: found \"%s\", expected a number from %g to %g", name, shown, flag->lowest,
                     flag->highest);
  case KIND_CHOICE:
    return cli_usage(args, "%s: found \"%s\", expected one of %s", name, shown, flag->metavar);
  case KIND_SWITCH:
    return cli_usage(args, "%s: found \"%s\", expected 1 or 0", name, shown);
  case KIND_IDS:
    return cli_usage(args, "%s: found \"%s\", expected token ids separated by commas, such as 2,5,7", name, shown);
  default:
    return cli_usage(args, "%s: found \"%s\"", name, shown);
  }
}

/* The library says "option kv: found ..."; the user said --kv or SLUICE_KV, which is in front already. */
static const char *behind_option(const char *sentence, const char *name) {
  size_t n = strlen(name);
  if (strncmp(sentence, "option ", 7) != 0 || strncmp(sentence + 7, name, n) != 0) return sentence;
  return strncmp(sentence + 7 + n, ": ", 2) == 0 ? sentence + 7 + n + 2 : sentence;
}

/* Stores one flag's text; `name` is how the user said it: "--top-k", "-n" or "SLUICE_TOP_K". */
static int set_value(cli_args *args, int id, const char *name, const char *text, bool from_environment) {
  const cli_flag *flag = &FLAGS[id];
  cli_value *value = &args->values[id];
  free(value->ids);
  *value = (cli_value){.given = true, .from_environment = from_environment, .text = text};
  bool good = true;
  sl_error err;
  switch (flag->kind) {
  case KIND_SWITCH:
    good = read_switch(text, &value->on);
    break;
  case KIND_INTEGER:
    good = read_integer(text, &value->integer) && (double)value->integer >= flag->lowest &&
           (double)value->integer <= flag->highest;
    break;
  case KIND_REAL:
    good = read_real(text, &value->real) && value->real >= flag->lowest && value->real <= flag->highest;
    break;
  case KIND_CHOICE:
    good = is_choice(flag->metavar, text);
    break;
  case KIND_IDS:
    good = read_ids(text, value);
    break;
  case KIND_ENGINE:
    if (sl_options_set(&args->options, flag->name, text, &err) != SL_OK)
      return cli_usage(args, "%s: %s", name, behind_option(err.text, flag->name));
    break;
  case KIND_FILE:
    if (!*text) return cli_usage(args, "%s: an empty file name", name);
    break;
  case KIND_TEXT:
    break;
  }
  return good ? CLI_DONE : bad_value(args, flag, name, text);
}

/* ---- the environment --------------------------------------------------------------------------------------------- */

#define PREFIX "SLUICE_"

/* Does NAME (after SLUICE_, up to '=') spell this flag? */
static bool spells(const char *entry, const char *flag_name) {
  for (; *flag_name; entry++, flag_name++) {
    char want = *flag_name == '-' ? '_' : (char)(*flag_name - (*flag_name >= 'a' && *flag_name <= 'z' ? 32 : 0));
    if (*entry != want) return false;
  }
  return *entry == '=';
}

static int environment_flag(const char *entry) {
  for (int id = 0; id < CLI_N_FLAGS; id++)
    if (id != FLAG_HELP && spells(entry, FLAGS[id].name)) return id;
  return -1;
}

/* The letter -p is two flags, and so are their names; a name that this command does not take is left for those that
 * do, but its value is not looked at. */
static int read_environment(cli_args *args) {
  for (char **e = environ; *e; e++) {
    if (strncmp(*e, PREFIX, strlen(PREFIX)) != 0) continue;
    const char *equals = strchr(*e, '=');
    if (!equals) continue;
    int id = environment_flag(*e + strlen(PREFIX));
    if (id < 0)
      return cli_usage(args, "%.*s: no setting has this name; a flag --top-k is SLUICE_TOP_K in the environment",
                       (int)(equals - *e), *e);
    if (!cli_command_takes(args->command, &FLAGS[id])) continue;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(equals - *e), *e);
    int status = set_value(args, id, name, equals + 1, true);
    if (status) return status;
  }
  return CLI_DONE;
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int find_flag(const cli_command *command, const char *name, size_t size, char letter) {
  for (int id = 0; id < CLI_N_FLAGS; id++) {
    if (!cli_command_takes(command, &FLAGS[id])) continue;
    if (letter ? FLAGS[id].letter == letter : strlen(FLAGS[id].name) == size && !memcmp(FLAGS[id].name, name, size))
      return id;
  }
  return -1;
}

/* Which commands take a flag that this one does not, for the sentence. */
static int unknown_flag(const cli_args *args, const char *word) {
  size_t size = strcspn(word, "=");
  for (int i = 0; i < N_COMMANDS && word[1] == '-'; i++)
    if (find_flag(&COMMANDS[i], word + 2, size - 2, 0) >= 0)
      return cli_usage(args, "%.*s is not a flag of sluice %s (it is one of sluice %s)", (int)size, word,
                       args->command->name, COMMANDS[i].name);
  return cli_usage(args, "%.*s: there is no such flag", (int)size, word);
}

/* One word that begins with a dash, and its value; *i moves past what was used. */
static int read_flag(cli_args *args, int argc, char **argv, int *i) {
  const char *word = argv[*i];
  bool is_long = word[1] == '-';
  const char *equals = is_long ? strchr(word, '=') : NULL;
  size_t size = is_long ? strcspn(word + 2, "=") : 0;
  int id = find_flag(args->command, word + 2, size, is_long ? 0 : word[1]);
  if (id < 0) return unknown_flag(args, word);
  const char *inside = equals ? equals + 1 : !is_long && word[2] ? word + 2 : NULL;
  char name[64];
  snprintf(name, sizeof name, "%.*s", is_long ? (int)size + 2 : 2, word);
  if (FLAGS[id].kind == KIND_SWITCH) {
    if (inside) return cli_usage(args, "%s takes no value", name);
    return set_value(args, id, name, "1", false);
  }
  if (!inside && *i + 1 >= argc) return cli_usage(args, "%s: its value %s is missing", name, FLAGS[id].metavar);
  return set_value(args, id, name, inside ? inside : argv[++*i], false);
}

static int read_words(cli_args *args, int argc, char **argv) {
  bool flags_end = false;
  for (int i = 0; i < argc; i++) {
    if (!flags_end && strcmp(argv[i], "--") == 0) {
      flags_end = true;
    } else if (!flags_end && argv[i][0] == '-' && argv[i][1]) {
      int status = read_flag(args, argc, argv, &i);
      if (status) return status;
    } else if (args->n_operands == args->command->max_operands) {
      return cli_usage(args, "\"%.100s\" is one word too many", argv[i]);
    } else {
      args->operands[args->n_operands++] = argv[i];
    }
  }
  return CLI_DONE;
}

int cli_args_read(cli_args *args, const cli_command *command, int argc, char **argv) {
  *args = (cli_args){.command = command};
  sl_options_init(&args->options);
  for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) /* help is given whatever else is wrong */
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
      args->values[FLAG_HELP].on = true;
      return CLI_DONE;
    }
  int status = read_environment(args);
  return status ? status : read_words(args, argc, argv);
}

void cli_args_free(cli_args *args) {
  for (int id = 0; id < CLI_N_FLAGS; id++) free(args->values[id].ids);
}

int cli_exclusive(const cli_args *args, const cli_flag_id *ids, int n, cli_flag_id *which) {
  int from_words = 0, from_environment = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < n; i++) {
      const cli_value *value = &args->values[ids[i]];
      if (!value->given || value->from_environment != (pass == 0)) continue;
      *which = ids[i];
      *(pass == 0 ? &from_environment : &from_words) += 1;
    }
  return from_words ? from_words : from_environment;
}
