/* What the program says: text to stdout, everything else to stderr. */
#ifndef SL_CLI_CONSOLE_H
#define SL_CLI_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/sluice.h"

/* Quiet leaves only errors on stderr.  Reads NO_COLOR and TERM. */
void console_open(bool quiet);

/* "sluice: sentence\n"; errors always, notes unless quiet. */
void console_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void console_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A line of the closing report: not prefixed; nothing when quiet. */
void console_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The callbacks of sl_options; the bar appears only on a terminal that can move its cursor, and takes itself away. */
void console_log(void *user, sl_log_level level, const char *message);
void console_progress(void *user, const char *what, uint64_t done, uint64_t total);
void console_progress_end(void);

/* Escape sequences, or "" where stderr is no terminal or colours are not wanted. */
const char *console_dim(void);
const char *console_plain(void);

/* ---- stdout ---- */

/* Writes and, for text that streams, flushes.  False when stdout takes no more: stop then. */
bool out_write(const void *data, size_t size);
bool out_flush(void);
/* For whoever could not make what belongs on stdout, for lack of memory: the end is then a failure with a sentence. */
void out_no_memory(void);
/* Closes stdout.  CLI_DONE, or CLI_FAILED with a sentence when something could not be written; a reader that has
 * closed its end (EPIPE) is no failure. */
int out_finish(void);
/* Has something not been written? */
bool out_failed(void);
bool out_is_terminal(void);
/* Do stdout and stderr go to one place, as with 2>&1? */
bool out_is_shared(void);
/* Columns of the terminal on stdout; 0 when it is none: no limit. */
int out_width(void);

#endif
