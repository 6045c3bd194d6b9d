/* What a computation cost: on stderr for people, as JSON for programs. */
#ifndef SL_CLI_REPORT_H
#define SL_CLI_REPORT_H

#include <jansson.h>
#include <stdint.h>

#include "sluice/sluice.h"

typedef struct cli_report {
  uint64_t prompt_tokens, decode_tokens;
  double prompt_tps, decode_tps; /* tokens/s; 0 where there were none */
  double ttft_s;                 /* from the start of the prompt to the first token; < 0: there was none */
  uint64_t peak_bytes;           /* VmHWM: mapped weights included */
  uint64_t planned_bytes;
  const char *ended; /* "end token", "length", "context", "interrupted", ... */
} cli_report;

/* Seconds of a clock that only goes forward. */
double report_now(void);
uint64_t report_peak_bytes(void); /* 0 if the system does not say */

void report_fill(cli_report *report, const sl_session *session, double ttft_s, const char *ended);
void report_print(const cli_report *report, const sl_engine *engine);
/* A new object, or NULL without memory. */
json_t *report_json(const cli_report *report, const sl_engine *engine);

/* "1.42 GiB" into text (at least 16 bytes); returns text. */
const char *report_bytes(char *text, double bytes);

#endif
