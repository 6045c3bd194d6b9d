/* Reading the library's JSON reports for the tables made of them.  A field that is missing reads as "" or 0, so that
 * an older program still shows what it knows of a newer report. */
#ifndef SL_CLI_SHOW_H
#define SL_CLI_SHOW_H

#include <jansson.h>

#include "flags.h"

/* Parses a report and frees its text.  NULL with a sentence when out of memory. */
json_t *show_parse(char *text);
/* Prints a report as it is and frees its text; an exit status. */
int show_raw(char *text);

const char *show_string(const json_t *object, const char *key);
double show_number(const json_t *object, const char *key);

/* "[128, 256]" of an array of numbers, else the string or number itself; freed with free. */
char *show_value(const json_t *value);

/* "12.3 GB/s", "980 GFLOPS" into text (32 bytes); returns text.  0 is "none". */
const char *show_rate(char *text, double per_second, const char *unit);

#endif
