/* Aligned columns of text on stdout. */
#ifndef SL_CLI_TABLE_H
#define SL_CLI_TABLE_H

#include <stdbool.h>

enum { TABLE_MAX_COLUMNS = 12 };

typedef struct table {
  int n_columns;
  bool right[TABLE_MAX_COLUMNS]; /* align right */
  char **cells;                  /* [n_rows, n_columns], owned */
  int n_rows, room;
  bool failed; /* out of memory, as console.h has been told: it prints nothing */
} table;

/* align: one letter a column, l or r. */
void table_init(table *t, const char *align);
void table_free(table *t);
/* One row: as many strings as columns; NULL is an empty cell. */
void table_row(table *t, const char *const *cells);
/* Where the terminal is narrower than the rows, the widest columns lose the middle of their words. */
void table_print(const table *t, const char *indent);

/* printf into a new string that the caller frees, "" never NULL unless out of memory, which out_no_memory is told. */
char *text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for a copy. */
char *text_copy(const char *text);

/* printf to stdout through console.h. */
void out_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
