#include "table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console.h"

void table_init(table *t, const char *align) {
  *t = (table){.n_columns = (int)strlen(align)};
  for (int c = 0; c < t->n_columns; c++) t->right[c] = align[c] == 'r';
}

void table_free(table *t) {
  for (int i = 0; i < t->n_rows * t->n_columns; i++) free(t->cells[i]);
  free(t->cells);
  *t = (table){0};
}

void table_row(table *t, const char *const *cells) {
  if (t->failed) return;
  if (t->n_rows == t->room) {
    int room = t->room ? 2 * t->room : 64;
    char **more = realloc(t->cells, (size_t)room * (size_t)t->n_columns * sizeof *more);
    if (!more) {
      t->failed = true;
      out_no_memory();
      return;
    }
    t->cells = more;
    t->room = room;
  }
  for (int c = 0; c < t->n_columns; c++) {
    char *copy = text_copy(cells[c] ? cells[c] : "");
    t->failed |= !copy;
    t->cells[t->n_rows * t->n_columns + c] = copy;
  }
  t->n_rows++;
}

/* Characters, not bytes. */
static int columns_of(const char *text) {
  int n = 0;
  for (; *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
  return n;
}

static void measure(const table *t, int *width) {
  for (int c = 0; c < t->n_columns; c++) width[c] = 0;
  for (int r = 0; r < t->n_rows; r++)
    for (int c = 0; c < t->n_columns; c++) {
      int w = columns_of(t->cells[r * t->n_columns + c]);
      if (w > width[c]) width[c] = w;
    }
}

/* Takes a column from the widest until all fit. */
static void shrink(const table *t, int *width, int limit) {
  int total = 2 * (t->n_columns - 1);
  for (int c = 0; c < t->n_columns; c++) total += width[c];
  for (; total > limit; total--) {
    int widest = 0;
    for (int c = 1; c < t->n_columns; c++)
      if (width[c] > width[widest]) widest = c;
    if (width[widest] <= 8) return;
    width[widest]--;
  }
}

/* Text that is too wide keeps its ends: names of tensors differ in both.  Only ASCII is ever cut. */
static void put_cell(const char *text, int width, bool right, bool last) {
  char cut[512];
  int n = columns_of(text);
  if (n > width && width < (int)sizeof cut) {
    int head = (width - 2) / 2, tail = width - 2 - head;
    snprintf(cut, sizeof cut, "%.*s..%s", head, text, text + strlen(text) - (size_t)tail);
    text = cut;
    n = width;
  }
  int pad = last && !right ? 0 : width - n;
  if (right)
    out_format("%*s%s", pad, "", text);
  else
    out_format("%s%*s", text, pad, "");
}

void table_print(const table *t, const char *indent) {
  if (t->failed) return;
  int width[TABLE_MAX_COLUMNS], limit = out_width();
  measure(t, width);
  if (limit) shrink(t, width, limit - (int)strlen(indent));
  for (int r = 0; r < t->n_rows; r++) {
    out_format("%s", indent);
    int last = t->n_columns - 1; /* nothing but spaces is not written */
    while (last > 0 && !*t->cells[r * t->n_columns + last]) last--;
    for (int c = 0; c <= last; c++) {
      put_cell(t->cells[r * t->n_columns + c], width[c], t->right[c], c == last);
      out_format(c < last ? "  " : "\n");
    }
  }
}

char *text_format(const char *format, ...) {
  char *text = NULL;
  va_list list;
  va_start(list, format);
  if (vasprintf(&text, format, list) < 0) text = NULL;
  va_end(list);
  if (!text) out_no_memory();
  return text;
}

char *text_copy(const char *text) {
  char *copy = strdup(text);
  if (!copy) out_no_memory();
  return copy;
}

void out_format(const char *format, ...) {
  char *text = NULL;
  va_list list;
  va_start(list, format);
  int n = vasprintf(&text, format, list);
  va_end(list);
  if (n < 0) {
    out_no_memory();
    return;
  }
  out_write(text, (size_t)n);
  free(text);
}
