#include "console.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "command.h"

/* One program, one console: the state of its two streams. */
static struct {
  bool quiet, bar_allowed, colour;
  bool bar_shown;
  char what[16];
  double last_drawn; /* seconds */
  int write_error;   /* errno of stdout's first failure */
} console;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void console_open(bool quiet) {
  const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
  bool terminal = isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
  console.quiet = quiet;
  console.bar_allowed = terminal && !quiet;
  console.colour = terminal && !(no_color && *no_color);
}

const char *console_dim(void) { return console.colour ? "\033[2m" : ""; }
const char *console_plain(void) { return console.colour ? "\033[0m" : ""; }

/* Text streams to stdout with no newline at its end; on a terminal a sentence must not run into it, and the caller
 * sees to that. */
static void say(const char *before, const char *format, va_list list, const char *after) {
  console_progress_end();
  fflush(stdout);
  fputs(before, stderr);
  vfprintf(stderr, format, list);
  fputs(after, stderr);
  fputc('\n', stderr);
}

void console_error(const char *format, ...) {
  va_list list;
  va_start(list, format);
  say("sluice: ", format, list, "");
  va_end(list);
}

void console_note(const char *format, ...) {
  if (console.quiet) return;
  va_list list;
  va_start(list, format);
  say("sluice: ", format, list, "");
  va_end(list);
}

void console_report(const char *format, ...) {
  if (console.quiet) return;
  va_list list;
  va_start(list, format);
  say(console_dim(), format, list, console_plain());
  va_end(list);
}

void console_log(void *user, sl_log_level level, const char *message) {
  (void)user;
  console_note("%s%s", level == SL_LOG_WARNING ? "warning: " : "", message);
}

/* ---- the bar ----------------------------------------------------------------------------------------------------- */

enum { BAR = 30 };

static void draw(const char *what, uint64_t done, uint64_t total) {
  double share = total ? (double)done / (double)total : 0;
  int full = (int)(share * BAR);
  char bar[BAR + 1];
  for (int i = 0; i < BAR; i++) bar[i] = i < full ? '=' : i == full ? '>' : ' ';
  bar[BAR] = 0;
  if (strcmp(what, "loading") == 0)
    fprintf(stderr, "\r%-8.8s [%s] %3.0f %% of %.1f GiB ", what, bar, 100 * share, (double)total / (1 << 30));
  else
    fprintf(stderr, "\r%-8.8s [%s] %llu/%llu tokens ", what, bar, (unsigned long long)done, (unsigned long long)total);
  fflush(stderr);
}

void console_progress(void *user, const char *what, uint64_t done, uint64_t total) {
  (void)user;
  if (!console.bar_allowed || !total) return;
  double t = now();
  bool is_new = strcmp(console.what, what) != 0;
  if (is_new) {
    snprintf(console.what, sizeof console.what, "%s", what);
    console.last_drawn = t; /* what is over in a moment needs no bar */
  }
  if (done >= total) {
    console_progress_end();
  } else if (!is_new && t - console.last_drawn > 0.1) {
    console.last_drawn = t;
    console.bar_shown = true;
    draw(what, done > total ? total : done, total);
  }
}

void console_progress_end(void) {
  console.what[0] = 0;
  if (!console.bar_shown) return;
  console.bar_shown = false;
  fprintf(stderr, "\r%*s\r", 79, "");
  fflush(stderr);
}

/* ---- stdout ------------------------------------------------------------------------------------------------------ */

static bool remember(bool good) {
  if (!good && !console.write_error) console.write_error = errno ? errno : EIO;
  return good;
}

bool out_write(const void *data, size_t size) {
  if (console.write_error) return false;
  if (console.bar_shown) console_progress_end();
  errno = 0;
  return remember(fwrite(data, 1, size, stdout) == size);
}

bool out_flush(void) {
  if (console.write_error) return false;
  errno = 0;
  return remember(fflush(stdout) == 0);
}

void out_no_memory(void) {
  errno = ENOMEM;
  remember(false);
}

int out_finish(void) {
  out_flush();
  errno = 0;
  if (!console.write_error) remember(close(STDOUT_FILENO) == 0); /* some file systems report a full disk only here */
  if (!console.write_error || console.write_error == EPIPE) return CLI_DONE;
  console_error("stdout: %s", strerror(console.write_error));
  return CLI_FAILED;
}

bool out_failed(void) { return console.write_error != 0; }

bool out_is_terminal(void) { return isatty(STDOUT_FILENO); }

bool out_is_shared(void) {
  struct stat out, err;
  return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 && out.st_dev == err.st_dev &&
         out.st_ino == err.st_ino;
}

int out_width(void) {
  struct winsize size;
  if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col ? size.ws_col : 80;
}
