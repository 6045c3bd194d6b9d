#include "interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

enum { N_TEMPS = 8, PATH_SIZE = 4096 };

/* What signal handlers may look at. */
static _Atomic(sl_session *) watched;
static atomic_int signals;
static char temps[N_TEMPS][PATH_SIZE];
static atomic_bool temp_used[N_TEMPS];

static void remove_temps(void) {
  for (int i = 0; i < N_TEMPS; i++)
    if (atomic_load(&temp_used[i])) unlink(temps[i]);
}

static void on_interrupt(int signal_number) {
  (void)signal_number;
  sl_session *session = atomic_load(&watched);
  if (session && atomic_fetch_add(&signals, 1) == 0) {
    sl_session_cancel(session);
    return;
  }
  remove_temps();
  _exit(CLI_INTERRUPTED);
}

/* Ends the way it would have without us. */
static void on_end(int signal_number) {
  remove_temps();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void interrupt_install(void) {
  struct sigaction action = {.sa_handler = on_interrupt};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  action.sa_handler = on_end;
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGHUP, &action, NULL);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, NULL);
  sigaction(SIGXFSZ, &action, NULL); /* a limit on file sizes, likewise */
}

void interrupt_watch(sl_session *session) { atomic_store(&watched, session); }

bool interrupted(void) { return atomic_load(&signals) > 0; }

bool interrupt_remember(const char *path) {
  if (strlen(path) >= PATH_SIZE) return false;
  for (int i = 0; i < N_TEMPS; i++) {
    if (atomic_load(&temp_used[i])) continue;
    strcpy(temps[i], path); /* its length was checked above */
    atomic_store(&temp_used[i], true);
    return true;
  }
  return false;
}

void interrupt_forget(const char *path) {
  for (int i = 0; i < N_TEMPS; i++)
    if (atomic_load(&temp_used[i]) && strcmp(temps[i], path) == 0) atomic_store(&temp_used[i], false);
}
