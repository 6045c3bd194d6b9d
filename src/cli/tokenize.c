/* sluice tokenize: text to ids, ids to text. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "console.h"
#include "input.h"
#include "model.h"
#include "table.h"

static int refuse(const sl_error *err) {
  console_error("%s", err->text);
  return CLI_REFUSED;
}

static int decode(const cli_args *args, const cli_model *model) {
  const cli_value *list = &args->values[FLAG_DECODE];
  char *text;
  size_t size;
  sl_error err;
  if (sl_detokenize(model->engine, list->ids, list->n_ids, cli_on(args, FLAG_SPECIAL), &text, &size, &err) != SL_OK)
    return refuse(&err);
  out_write(text, size);
  if (out_is_terminal()) out_write("\n", 1); /* to a file or a pipe goes the text alone */
  sl_string_free(text);
  return CLI_DONE;
}

static int encode(const cli_args *args, const cli_model *model, const char *words) {
  char *file = NULL;
  size_t size = words ? strlen(words) : 0;
  sl_error err;
  if (!words && input_read("-", &file, &size, &err) != SL_OK) return refuse(&err);
  int32_t *ids;
  size_t n;
  sl_status status = sl_tokenize(model->engine, file ? file : words, size, cli_on(args, FLAG_SPECIAL),
                                 !cli_on(args, FLAG_NO_BOS), &ids, &n, &err);
  free(file);
  if (status != SL_OK) return refuse(&err);
  for (size_t i = 0; i < n; i++) out_format(i ? ",%d" : "%d", ids[i]);
  out_write("\n", 1);
  sl_ids_free(ids);
  return CLI_DONE;
}

int cli_tokenize(const cli_args *args) {
  bool from_stdin = cli_on(args, FLAG_STDIN), decodes = cli_given(args, FLAG_DECODE);
  const char *text = args->n_operands == 2 ? args->operands[1] : NULL;
  if (args->n_operands == 1 && !from_stdin && !decodes)
    return cli_usage(args,
                     "\"%.60s\" is read as the MODEL and the TEXT is missing; give MODEL TEXT, or the text by --stdin",
                     args->operands[0]);
  if (from_stdin + decodes + (text != NULL) != 1)
    return cli_usage(args, "give one of TEXT (behind the MODEL), --stdin and --decode LIST");
  cli_model model;
  int status = model_open(&model, args);
  if (status == CLI_DONE && !model.info.has_tokenizer) {
    console_error("%s: has no tokenizer.json", model.info.path);
    status = CLI_REFUSED;
  }
  if (status == CLI_DONE) status = decodes ? decode(args, &model) : encode(args, &model, text);
  model_close(&model);
  return status;
}
