/* Ctrl-C.  The first cancels the computation, so that the statistics can be printed; the second ends the program.
 * Files that are not whole yet are removed in every case. */
#ifndef SL_CLI_INTERRUPT_H
#define SL_CLI_INTERRUPT_H

#include <stdbool.h>

#include "sluice/sluice.h"

/* Handlers for SIGINT, SIGTERM and SIGHUP; a closed pipe becomes an error of write. */
void interrupt_install(void);

/* The session whose computation Ctrl-C cancels; NULL: there is none, and Ctrl-C ends the program at once with 130. */
void interrupt_watch(sl_session *session);
bool interrupted(void);

/* A temporary file to remove if the program is ended.  False when there is no room for more (8) or the path is too
 * long; the caller goes on without. */
bool interrupt_remember(const char *path);
void interrupt_forget(const char *path);

#endif
