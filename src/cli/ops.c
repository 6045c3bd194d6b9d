/* sluice ops: which operation runs on which backend for which weights, and why not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "console.h"
#include "show.h"
#include "table.h"

enum { MAX_BACKENDS = TABLE_MAX_COLUMNS - 2 };

/* The four refusals send their reader to different places, so they look different. */
static const struct {
  const char *reason, *mark, *words;
} REASONS[] = {
    {"not_written", "-", "not written: there is no such kernel yet"},
    {"not_compiled", "build", "not compiled: this build leaves it out"},
    {"not_on_device", "device", "not on this device: a feature is missing"},
    {"out_of_range", "range", "outside its range: a shape or type that the kernel does not take"},
};
enum { N_REASONS = sizeof REASONS / sizeof *REASONS };

/* What a cell shows; a reason that this program does not know is shown as it is. */
static const char *mark_of(const json_t *cell) {
  if (*show_string(cell, "kernel")) return "yes";
  const char *reason = show_string(cell, "reason");
  for (int i = 0; i < N_REASONS; i++)
    if (strcmp(REASONS[i].reason, reason) == 0) return REASONS[i].mark;
  return reason;
}

static int find_backends(const json_t *cells, const char **backends) {
  int n = 0;
  size_t i;
  json_t *cell;
  json_array_foreach((json_t *)cells, i, cell) {
    const char *name = show_string(cell, "backend");
    int b = 0;
    while (b < n && strcmp(backends[b], name) != 0) b++;
    if (b == n && n < MAX_BACKENDS + 1) backends[n++] = name;
  }
  return n;
}

static const json_t *find_cell(const json_t *cells, const char *op, const char *dtype, const char *backend) {
  size_t i;
  json_t *cell;
  json_array_foreach((json_t *)cells, i, cell) if (!strcmp(show_string(cell, "op"), op) &&
                                                   !strcmp(show_string(cell, "dtype"), dtype) &&
                                                   !strcmp(show_string(cell, "backend"), backend)) return cell;
  return NULL;
}

/* One row of the matrix: an operation with the weight types that fare alike. */
typedef struct row {
  const char *op, *marks[MAX_BACKENDS + 1];
  char dtypes[64];
} row;

static void fill_row(row *r, const json_t *cells, const json_t *cell, const char *const *backends, int n) {
  r->op = show_string(cell, "op");
  snprintf(r->dtypes, sizeof r->dtypes, "%s", show_string(cell, "dtype"));
  for (int b = 0; b < n; b++) {
    const json_t *there = find_cell(cells, r->op, r->dtypes, backends[b]);
    r->marks[b] = there ? mark_of(there) : "";
  }
}

static bool alike(const row *a, const row *b, int n) {
  bool same = a->op && strcmp(a->op, b->op) == 0;
  for (int i = 0; same && i < n; i++) same = strcmp(a->marks[i], b->marks[i]) == 0;
  return same;
}

static void put_row(table *t, const row *r, int n, const char **op_before) {
  if (!r->op) return;
  const char *line[TABLE_MAX_COLUMNS] = {strcmp(r->op, *op_before) ? r->op : "", r->dtypes};
  for (int b = 0; b < n; b++) line[2 + b] = r->marks[b];
  table_row(t, line);
  *op_before = r->op;
}

static void put_rows(table *t, const json_t *cells, const char *const *backends, int n) {
  const char *op_before = "";
  row held = {0};
  size_t i;
  json_t *cell;
  json_array_foreach((json_t *)cells, i, cell) {
    if (strcmp(show_string(cell, "backend"), backends[0]) != 0) continue; /* each op and type once */
    row next;
    fill_row(&next, cells, cell, backends, n);
    size_t used = strlen(held.dtypes), more = strlen(next.dtypes);
    if (alike(&held, &next, n) && used + more + 2 < sizeof held.dtypes) {
      snprintf(held.dtypes + used, sizeof held.dtypes - used, " %s", next.dtypes);
    } else {
      put_row(t, &held, n, &op_before);
      held = next;
    }
  }
  put_row(t, &held, n, &op_before);
}

/* "cpu-avx512" is "avx512" where it heads a column. */
static const char *short_name(const char *backend) { return strncmp(backend, "cpu-", 4) == 0 ? backend + 4 : backend; }

static void print_matrix(const json_t *cells, const char *const *backends, int n) {
  table t;
  table_init(&t, &"llllllllllll"[TABLE_MAX_COLUMNS - 2 - n]);
  const char *head[TABLE_MAX_COLUMNS] = {"op", "weights"};
  for (int b = 0; b < n; b++) head[2 + b] = short_name(backends[b]);
  table_row(&t, head);
  put_rows(&t, cells, backends, n);
  table_print(&t, "");
  table_free(&t);
}

/* The meaning of the marks, and in the library's words whatever has more to say than that nothing is written. */
static void print_reasons(const json_t *cells) {
  out_format("\n");
  for (int r = 0; r < N_REASONS; r++) {
    const char *before = NULL;
    size_t i;
    json_t *cell;
    json_array_foreach((json_t *)cells, i, cell) {
      if (strcmp(show_string(cell, "reason"), REASONS[r].reason) != 0) continue;
      const char *detail = show_string(cell, "detail");
      if (!before) out_format("%-6s  %s\n", REASONS[r].mark, REASONS[r].words);
      if (r > 0 && (!before || strcmp(before, detail) != 0)) out_format("        %s\n", detail);
      before = detail;
    }
  }
  out_format("The names of the kernels: sluice ops --json\n");
}

static int print_report(char *text) {
  json_t *report = show_parse(text);
  if (!report) return CLI_FAILED;
  const json_t *cells = json_object_get(report, "cells");
  const char *backends[MAX_BACKENDS + 1];
  int n = find_backends(cells, backends);
  if (n > MAX_BACKENDS) console_note("only the first %d backends are shown", MAX_BACKENDS);
  if (n) print_matrix(cells, backends, n < MAX_BACKENDS ? n : MAX_BACKENDS);
  print_reasons(cells);
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
