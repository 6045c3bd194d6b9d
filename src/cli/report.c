#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "console.h"

double report_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t report_peak_bytes(void) {
  FILE *f = fopen("/proc/self/status", "re");
  if (!f) return 0;
  char line[256];
  unsigned long long kib = 0;
  while (fgets(line, sizeof line, f))
    if (strncmp(line, "VmHWM:", 6) == 0) kib = strtoull(line + 6, NULL, 10);
  fclose(f);
  return kib * 1024;
}

static double rate(uint64_t tokens, double seconds) { return tokens && seconds > 0 ? (double)tokens / seconds : 0; }

void report_fill(cli_report *report, const sl_session *session, double ttft_s, const char *ended) {
  sl_stats stats = {.size = sizeof stats};
  sl_session_stats(session, &stats);
  *report = (cli_report){.prompt_tokens = stats.prompt_tokens,
                         .decode_tokens = stats.decode_tokens,
                         .prompt_tps = rate(stats.prompt_tokens, stats.prompt_s),
                         .decode_tps = rate(stats.decode_tokens, stats.decode_s),
                         .ttft_s = ttft_s,
                         .peak_bytes = report_peak_bytes(),
                         .planned_bytes = stats.planned_bytes,
                         .ended = ended};
}

const char *report_bytes(char *text, double bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  int u = 0;
  while (bytes >= 1024 && u < 4) bytes /= 1024, u++;
  snprintf(text, 16, u == 0 || bytes >= 100 ? "%.0f %s" : bytes >= 10 ? "%.1f %s" : "%.2f %s", bytes, units[u]);
  return text;
}

/* "avx512" of "avx512/matmul_bt/panel_f32". */
static int backend_length(const char *kernel) {
  const char *slash = strchr(kernel, '/');
  return slash ? (int)(slash - kernel) : 0;
}

static bool same_backend(const char *a, const char *b) {
  int n = backend_length(a);
  return n == backend_length(b) && memcmp(a, b, (size_t)n) == 0;
}

/* Has a kernel of this backend come before arm `end`? */
static bool seen_before(const sl_engine *engine, int end, const char *kernel) {
  const char *other;
  uint64_t runs;
  double seconds;
  for (int i = 0; i < end && sl_engine_arm(engine, i, &other, &runs, &seconds); i++)
    if (runs && same_backend(other, kernel)) return true;
  return false;
}

/* The arms of one backend from `first` on, as many on a line as fit in 80 columns. */
static void print_backend(const sl_engine *engine, int first, const char *kernel, const char *label) {
  char line[256];
  const char *arm;
  uint64_t runs;
  double seconds;
  int n = backend_length(kernel), used = snprintf(line, sizeof line, "%.*s%s", n > 30 ? 30 : n, kernel, n ? ":" : "");
  for (int i = first; sl_engine_arm(engine, i, &arm, &runs, &seconds); i++) {
    if (!runs || !same_backend(arm, kernel)) continue;
    char word[80];
    int size = snprintf(word, sizeof word, "  %.50s x%llu", arm + (n ? n + 1 : 0), (unsigned long long)runs);
    if (used + size > 68) {
      console_report("%-8s  %s", label, line);
      label = "", used = 0;
    }
    used += snprintf(line + used, sizeof line - (size_t)used, "%s", used ? word : word + 2);
  }
  console_report("%-8s  %s", label, line);
}

static void print_arms(const sl_engine *engine) {
  const char *kernel, *label = "arms";
  uint64_t runs;
  double seconds;
  for (int i = 0; sl_engine_arm(engine, i, &kernel, &runs, &seconds); i++) {
    if (!runs || seen_before(engine, i, kernel)) continue;
    print_backend(engine, i, kernel, label);
    label = "";
  }
}

void report_print(const cli_report *report, const sl_engine *engine) {
  char peak[16], planned[16];
  console_report("%-8s  %llu tokens, %.1f tokens/s", "prompt", (unsigned long long)report->prompt_tokens,
                 report->prompt_tps);
  console_report("%-8s  %llu tokens, %.1f tokens/s (%s)", "decode", (unsigned long long)report->decode_tokens,
                 report->decode_tps, report->ended);
  if (report->ttft_s >= 0) console_report("%-8s  %.3f s to the first token", "latency", report->ttft_s);
  console_report("%-8s  %s at the peak, %s planned", "memory", report_bytes(peak, (double)report->peak_bytes),
                 report_bytes(planned, (double)report->planned_bytes));
  print_arms(engine);
}

static json_t *arms_json(const sl_engine *engine) {
  json_t *arms = json_array();
  const char *kernel;
  uint64_t runs;
  double seconds;
  for (int i = 0; sl_engine_arm(engine, i, &kernel, &runs, &seconds); i++)
    if (json_array_append_new(
            arms, json_pack("{s:s, s:I, s:f}", "kernel", kernel, "runs", (json_int_t)runs, "seconds", seconds)) != 0) {
      json_decref(arms);
      return NULL;
    }
  return arms;
}

json_t *report_json(const cli_report *report, const sl_engine *engine) {
  json_t *ttft = report->ttft_s >= 0 ? json_real(report->ttft_s) : json_null();
  return json_pack("{s:I, s:I, s:f, s:f, s:o, s:I, s:I, s:s, s:o}", "prompt_tokens", (json_int_t)report->prompt_tokens,
                   "decode_tokens", (json_int_t)report->decode_tokens, "prompt_tps", report->prompt_tps, "decode_tps",
                   report->decode_tps, "ttft_s", ttft, "peak_bytes", (json_int_t)report->peak_bytes, "planned_bytes",
                   (json_int_t)report->planned_bytes, "ended", report->ended, "arms", arms_json(engine));
}
