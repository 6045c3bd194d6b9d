/* sluice inspect: what a checkpoint holds and how it is understood. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "console.h"
#include "model.h"
#include "report.h"
#include "show.h"
#include "table.h"

/* An object as "key  value" lines; objects inside are written compactly. */
static void print_object(const char *title, const json_t *object) {
  if (!json_is_object(object) || !json_object_size(object)) return;
  out_format("%s\n", title);
  table t;
  table_init(&t, "ll");
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    char *text = show_value(value);
    table_row(&t, (const char *const[]){key, text});
    free(text);
  }
  table_print(&t, "  ");
  table_free(&t);
  out_format("\n");
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Tensors of one layer that differ only in the expert's number are one row, "experts.*": a real model has 20,000. */
typedef struct group {
  char *name; /* with * for the expert's number */
  const json_t *first;
  size_t n;
  double bytes;
} group;

static char *group_name(const char *name) {
  const char *at = strstr(name, "experts.");
  const char *digits = at ? at + strlen("experts.") : NULL;
  if (!digits || !isdigit((unsigned char)*digits)) return strdup(name);
  size_t n = strspn(digits, "0123456789");
  return text_format("%.*s*%s", (int)(digits - name), name, digits + n);
}

static bool same(const group *g, const char *name, const json_t *tensor) {
  return g->name && strcmp(g->name, name) == 0 &&
         !strcmp(show_string(g->first, "dtype"), show_string(tensor, "dtype")) &&
         json_equal(json_object_get(g->first, "shape"), json_object_get(tensor, "shape")) &&
         !strcmp(show_string(g->first, "file"), show_string(tensor, "file"));
}

/* Experts of a layer are not neighbours when sorted by name, but lie within the last few groups. */
static group *find_group(group *groups, size_t n, const char *name, const json_t *tensor) {
  for (size_t i = 0; i < n && i < 64; i++)
    if (same(&groups[n - 1 - i], name, tensor)) return &groups[n - 1 - i];
  return NULL;
}

static size_t make_groups(const json_t *tensors, group *groups) {
  size_t n = 0, i;
  json_t *tensor;
  json_array_foreach((json_t *)tensors, i, tensor) {
    char *name = group_name(show_string(tensor, "name"));
    group *g = name ? find_group(groups, n, name, tensor) : NULL;
    if (g)
      free(name);
    else {
      g = &groups[n++];
      *g = (group){.name = name, .first = tensor};
    }
    g->n++;
    g->bytes += show_number(tensor, "bytes");
  }
  return n;
}

static void print_tensors(const json_t *tensors) {
  group *groups = calloc(json_array_size(tensors) + 1, sizeof *groups);
  if (!groups) return;
  size_t n = make_groups(tensors, groups);
  table t;
  table_init(&t, "lllrrll");
  table_row(&t, (const char *const[]){"tensor", "dtype", "shape", "count", "size", "role", "file"});
  for (size_t i = 0; i < n; i++) {
    const json_t *first = groups[i].first;
    char size[16], count[24];
    snprintf(count, sizeof count, "%zu", groups[i].n);
    char *shape = show_value(json_object_get(first, "shape"));
    table_row(&t, (const char *const[]){groups[i].name, show_string(first, "dtype"), shape, count,
                                        report_bytes(size, groups[i].bytes), show_string(first, "role"),
                                        show_string(first, "file")});
    free(shape);
    free(groups[i].name);
  }
  table_print(&t, "");
  table_free(&t);
  free(groups);
  out_format("\n");
}

static void print_skipped(const json_t *skipped) {
  if (!json_array_size(skipped)) return;
  out_format("skipped\n");
  table t;
  table_init(&t, "lrrl");
  size_t i;
  json_t *row;
  json_array_foreach((json_t *)skipped, i, row) {
    char size[16];
    char *count = text_format("%.0f tensors", show_number(row, "tensors"));
    table_row(&t, (const char *const[]){show_string(row, "pattern"), count,
                                        report_bytes(size, show_number(row, "bytes")), show_string(row, "why")});
    free(count);
  }
  table_print(&t, "  ");
  table_free(&t);
  out_format("\n");
}

static int print_report(char *text) {
  json_t *report = show_parse(text);
  if (!report) return CLI_FAILED;
  print_object("config", json_object_get(report, "config"));
  print_tensors(json_object_get(report, "tensors"));
  print_skipped(json_object_get(report, "skipped"));
  print_object("tokenizer", json_object_get(report, "tokenizer"));
  print_object("totals", json_object_get(report, "totals"));
  json_decref(report);
  return CLI_DONE;
}

int cli_inspect(const cli_args *args) {
  cli_model model;
  int status = model_open(&model, args);
  if (status == CLI_DONE) {
    char *text;
    sl_error err;
    if (sl_engine_inspect_json(model.engine, &text, &err) != SL_OK) {
      console_error("%s", err.text);
      status = CLI_REFUSED;
    } else {
      status = cli_on(args, FLAG_JSON) ? show_raw(text) : print_report(text);
    }
  }
  model_close(&model);
  return status;
}
