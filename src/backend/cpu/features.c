#include "backend/cpu/tables.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdint.h>

/* The system must save the wide registers on a task switch, or the CPU's own flags promise too much: XCR0 bits 1-2
 * (SSE, AVX) and 5-7 (mask registers, upper halves, upper sixteen). */
static uint64_t xcr0(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

static int has_avx512_bf16(void) { /* clang 14 does not know it as a name for __builtin_cpu_supports */
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 5));
}

const char *sl_cpu_missing_avx2(void) {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2")) return "avx2";
  if (!__builtin_cpu_supports("fma")) return "fma";
  if (!__builtin_cpu_supports("bmi2")) return "bmi2";
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_F16C)) return "f16c";
  if ((xcr0() & 0x6) != 0x6) return "the system's support for avx registers";
  return NULL;
}

const char *sl_cpu_missing_avx512(void) {
  const char *missing = sl_cpu_missing_avx2();
  if (missing) return missing;
  if (!__builtin_cpu_supports("avx512f")) return "avx512f";
  if (!__builtin_cpu_supports("avx512bw")) return "avx512bw";
  if (!__builtin_cpu_supports("avx512dq")) return "avx512dq";
  if (!__builtin_cpu_supports("avx512vl")) return "avx512vl";
  if (!__builtin_cpu_supports("avx512vbmi")) return "avx512_vbmi";
  if (!__builtin_cpu_supports("avx512vnni")) return "avx512_vnni";
  if (!has_avx512_bf16()) return "avx512_bf16";
  if ((xcr0() & 0xE6) != 0xE6) return "the system's support for avx512 registers";
  return NULL;
}

#else

const char *sl_cpu_missing_avx2(void) { return "avx2"; }
const char *sl_cpu_missing_avx512(void) { return "avx512f"; }

#endif
