/* Reading a mapped file can fail long after it was mapped (a bad sector, a file cut short by someone else); the
 * system then sends SIGBUS.  With the guard installed, such a fault in a region registered here ends the piece of
 * work that touched it with SL_ERR_IO instead of ending the process.
 *
 * The guard is process-wide, so the library never installs it by itself: a program does (sl_install_fault_guard in
 * sluice.h).  Faults outside registered regions go on to the handler that was there before. */
#ifndef SL_BASE_FAULT_H
#define SL_BASE_FAULT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Installs the SIGBUS handler; does nothing while it is in place, and puts it back in front of a handler that somebody
 * installed since.  Thread-safe. */
sl_status sl_fault_install(sl_error *err);

/* A mapped region whose faults are ours; path is copied.  At most 4096 regions.  Thread-safe. */
sl_status sl_fault_register(const void *base, size_t size, const char *path, sl_error *err);
void sl_fault_unregister(const void *base);

/* Runs fn(arg); false if it was cut off by a fault in a registered region.  fn must hold no lock and own nothing
 * that it would free, since it may be left at any load.  Calls nest. */
bool sl_fault_run(void (*fn)(void *arg), void *arg);

/* After a false: the file and offset of the calling thread's last fault.  path_out may be NULL. */
void sl_fault_last(char *path_out, size_t path_size, size_t *offset_out);

/* Makes this the calling thread's last fault: how a pool hands a worker's fault on to its caller. */
void sl_fault_set_last(const char *path, size_t offset);

/* The error of the calling thread's last fault, with its file and offset in the sentence: SL_ERR_IO. */
sl_status sl_fault_fail(sl_error *err);

#endif
