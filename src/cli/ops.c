/* sluice ops: which operation runs on which backend for which weights, and why not. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "console.h"
#include "show.h"
#include "table.h"

/* The four refusals send their reader to different places, so they read differently. */
static const char *reason_words(const char *reason) {
  if (!strcmp(reason, "not_written")) return "not written";
  if (!strcmp(reason, "not_compiled")) return "not compiled";
  if (!strcmp(reason, "not_on_device")) return "not on this device";
  if (!strcmp(reason, "out_of_range")) return "outside its range";
  return reason;
}

static int print_report(char *text) {
  json_t *report = show_parse(text);
  if (!report) return CLI_FAILED;
  table t;
  table_init(&t, "lllll");
  table_row(&t, (const char *const[]){"op", "backend", "weights", "kernel", "why not"});
  size_t i;
  json_t *cell;
  const char *op_before = "";
  json_array_foreach(json_object_get(report, "cells"), i, cell) {
    const char *op = show_string(cell, "op"), *kernel = show_string(cell, "kernel");
    const char *reason = reason_words(show_string(cell, "reason")), *detail = show_string(cell, "detail");
    char *why = *kernel ? strdup("") : text_format("%s%s%s", reason, *detail ? ": " : "", detail);
    table_row(&t, (const char *const[]){strcmp(op, op_before) ? op : "", show_string(cell, "backend"),
                                        show_string(cell, "dtype"), *kernel ? kernel : "-", why});
    op_before = op;
    free(why);
  }
  table_print(&t, "");
  table_free(&t);
  json_decref(report);
  return CLI_DONE;
}

int cli_ops(const cli_args *args) {
  char *text;
  sl_error err;
  if (sl_ops_json(&text, &err) != SL_OK) {
    console_error("%s", err.text);
    return CLI_REFUSED;
  }
  return cli_on(args, FLAG_JSON) ? show_raw(text) : print_report(text);
}
