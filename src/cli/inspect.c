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

static bool is_list_of_objects(const json_t *value) {
  return json_array_size(value) && json_is_object(json_array_get(value, 0));
}

/* An array of objects, each a row under the keys of the first. */
static void print_list(const char *title, const json_t *list) {
  const char *cells[TABLE_MAX_COLUMNS], *key;
  char align[TABLE_MAX_COLUMNS + 1] = "";
  json_t *value, *object, *first = json_array_get(list, 0);
  int n = 1;
  cells[0] = title;
  json_object_foreach(first, key, value) if (n < TABLE_MAX_COLUMNS) cells[n++] = key;
  memset(align, 'l', (size_t)n);
  table t;
  table_init(&t, align);
  table_row(&t, cells);
  size_t i;
  json_array_foreach((json_t *)list, i, object) {
    char *texts[TABLE_MAX_COLUMNS] = {text_format("%zu", i)};
    for (int c = 1; c < n; c++) texts[c] = show_value(json_object_get(object, cells[c]));
    table_row(&t, (const char *const *)texts);
    for (int c = 0; c < n; c++) free(texts[c]);
  }
  table_print(&t, "  ");
  table_free(&t);
  out_format("\n");
}

/* An object as "key  value" lines; lists of objects follow as tables of their own. */
static void print_object(const char *title, const json_t *object) {
  if (!json_is_object(object) || !json_object_size(object)) return;
  out_format("%s\n", title);
  table t;
  table_init(&t, "ll");
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    if (is_list_of_objects(value)) continue;
    char *text = show_value(value);
    table_row(&t, (const char *const[]){key, text});
    free(text);
  }
  table_print(&t, "  ");
  table_free(&t);
  out_format("\n");
  json_object_foreach((json_t *)object, key, value) if (is_list_of_objects(value)) print_list(key, value);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Tensors of one layer that differ only in the expert's number are one row, "experts.*": a real model has 20,000. */
typedef struct group {
  char *name; /* with * for the expert's number; owned */
  size_t at;  /* where the name goes on behind "layers.N.", 0 outside the layers */
  long layer; /* -1 outside the layers */
  size_t order;
  const json_t *first;
  size_t n;
  double bytes;
} group;

static char *group_name(const char *name) {
  const char *at = strstr(name, "experts.");
  const char *digits = at ? at + strlen("experts.") : NULL;
  if (!digits || !isdigit((unsigned char)*digits)) return text_copy(name);
  size_t n = strspn(digits, "0123456789");
  return text_format("%.*s*%s", (int)(digits - name), name, digits + n);
}

/* Names outside "...layers.N." belong to no layer. */
static void find_layer(group *g) {
  const char *word = strstr(g->name, "layers."), *digits = word ? word + strlen("layers.") : NULL;
  size_t n = digits ? strspn(digits, "0123456789") : 0;
  g->layer = -1;
  if (!n || digits[n] != '.') return;
  g->layer = strtol(digits, NULL, 10);
  g->at = (size_t)(digits - g->name) + n + 1;
}

static bool same(const group *g, const char *name, const json_t *tensor) {
  return strcmp(g->name, name) == 0 && !strcmp(show_string(g->first, "dtype"), show_string(tensor, "dtype")) &&
         json_equal(json_object_get(g->first, "shape"), json_object_get(tensor, "shape")) &&
         !strcmp(show_string(g->first, "file"), show_string(tensor, "file"));
}

/* Experts of a layer are not neighbours when sorted by name, but lie within the last few groups. */
static group *find_group(group *groups, size_t n, const char *name, const json_t *tensor) {
  for (size_t i = 0; i < n && i < 64; i++)
    if (same(&groups[n - 1 - i], name, tensor)) return &groups[n - 1 - i];
  return NULL;
}

/* Layers by number, and the order of the report within each. */
static int by_layer(const void *a, const void *b) {
  const group *x = a, *y = b;
  if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
  return x->order < y->order ? -1 : 1;
}

static size_t make_groups(const json_t *tensors, group *groups) {
  size_t n = 0, i;
  json_t *tensor;
  json_array_foreach((json_t *)tensors, i, tensor) {
    char *name = group_name(show_string(tensor, "name"));
    if (!name) continue;
    group *g = find_group(groups, n, name, tensor);
    if (g) {
      free(name);
    } else {
      g = &groups[n];
      *g = (group){.name = name, .first = tensor, .order = n++};
      find_layer(g);
    }
    g->n++;
    g->bytes += show_number(tensor, "bytes");
  }
  qsort(groups, n, sizeof *groups, by_layer);
  return n;
}

/* What all file names begin and end with is said once, above the tables. */
typedef struct file_names {
  const char *any;
  size_t before, behind;
  bool several;
} file_names;

static file_names common_names(const group *groups, size_t n) {
  file_names f = {.any = n ? show_string(groups[0].first, "file") : ""};
  size_t length = strlen(f.any);
  f.before = f.behind = length;
  for (size_t i = 1; i < n; i++) {
    const char *name = show_string(groups[i].first, "file");
    size_t size = strlen(name), b = 0, e = 0;
    while (b < f.before && name[b] == f.any[b]) b++;
    while (e < f.behind && e + b < size && e + b < length && name[size - 1 - e] == f.any[length - 1 - e]) e++;
    f.several |= strcmp(name, f.any) != 0;
    f.before = b;
    f.behind = e;
  }
  return f;
}

static void put_group(table *t, const group *g, const file_names *files) {
  char size[16], file[64];
  const char *name = show_string(g->first, "file");
  size_t length = strlen(name), cut = files->before + files->behind;
  snprintf(file, sizeof file, "%.*s", length > cut ? (int)(length - cut) : 0, name + files->before);
  char *title = g->n > 1 ? text_format("%s (%zu)", g->name + g->at, g->n) : text_copy(g->name + g->at);
  char *shape = show_value(json_object_get(g->first, "shape"));
  table_row(t, (const char *const[]){title, show_string(g->first, "dtype"), shape, report_bytes(size, g->bytes),
                                     show_string(g->first, "role"), files->several ? file : ""});
  free(title);
  free(shape);
}

/* One table for each layer, and one for what is outside them. */
static void print_tensors(const json_t *tensors) {
  group *groups = calloc(json_array_size(tensors) + 1, sizeof *groups);
  if (!groups) {
    out_no_memory();
    return;
  }
  size_t n = make_groups(tensors, groups);
  file_names files = common_names(groups, n);
  if (files.several)
    out_format("tensors, in the files %.*s*%s (last column)\n", (int)files.before, files.any,
               files.any + strlen(files.any) - files.behind);
  else
    out_format("tensors, in %s\n", files.any);
  for (size_t i = 0, end; i < n; i = end) {
    table t;
    table_init(&t, "lllrll");
    for (end = i; end < n && groups[end].layer == groups[i].layer; end++) put_group(&t, &groups[end], &files);
    if (groups[i].layer >= 0) out_format("%.*s\n", (int)groups[i].at - 1, groups[i].name);
    table_print(&t, "  ");
    table_free(&t);
  }
  for (size_t i = 0; i < n; i++) free(groups[i].name);
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
