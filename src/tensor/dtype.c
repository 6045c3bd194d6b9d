#include "tensor/dtype.h"

static const struct {
  const char *name;
  size_t size;
} dtypes[SL_N_DTYPES] = {
    [SL_F32] = {"F32", 4},
    [SL_F16] = {"F16", 2},
    [SL_BF16] = {"BF16", 2},
    [SL_F8_E4M3] = {"F8_E4M3", 1},
};

const char *sl_dtype_name(sl_dtype dtype) {
  return (unsigned)dtype < SL_N_DTYPES ? dtypes[dtype].name : "unknown dtype";
}

bool sl_dtype_parse(const char *name, sl_dtype *out) {
  for (int i = 0; i < SL_N_DTYPES; i++) {
    if (strcmp(name, dtypes[i].name) != 0) continue;
    *out = (sl_dtype)i;
    return true;
  }
  return false;
}

size_t sl_dtype_size(sl_dtype dtype) { return (unsigned)dtype < SL_N_DTYPES ? dtypes[dtype].size : 0; }

size_t sl_row_bytes(sl_dtype dtype, int64_t K) { return sl_dtype_size(dtype) * (size_t)K; }

static uint32_t bits_of(float value) {
  uint32_t u;
  memcpy(&u, &value, 4);
  return u;
}

static float float_of(uint32_t bits) {
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

float sl_f16_to_f32(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 0x1F, mantissa = bits & 0x3FF;
  if (exponent == 0x1F) return float_of(sign | 0x7F800000 | mantissa << 13);
  if (exponent != 0) return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
  float magnitude = (float)mantissa * 0x1p-24f; /* exact: at most ten bits */
  return float_of(sign | bits_of(magnitude));
}

uint16_t sl_f32_to_f16(float value) {
  uint32_t u = bits_of(value), magnitude = u & 0x7FFFFFFF;
  uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
  if (magnitude > 0x7F800000) return (uint16_t)(sign | 0x7E00 | (magnitude >> 13 & 0x3FF));
  if (magnitude >= 0x477FF000) return (uint16_t)(sign | 0x7C00); /* 65520, halfway to 2^16, rounds up */
  if (magnitude < 0x38800000) {
    /* Below 2^-14 results are multiples of 2^-24.  Adding 0.5, whose last place is 2^-24, rounds to them. */
    uint32_t rounded = bits_of(float_of(magnitude) + 0.5f) - 0x3F000000;
    return (uint16_t)(sign | rounded);
  }
  uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
  return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
}

uint16_t sl_f32_to_bf16(float value) {
  uint32_t u = bits_of(value);
  if ((u & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(u >> 16 | 0x40); /* quiet, and never rounded to infinity */
  return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

float sl_f8_e4m3_to_f32(uint8_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x80) << 24, exponent = bits >> 3 & 0xF, mantissa = bits & 7;
  if (exponent == 0xF && mantissa == 7) return float_of(sign | 0x7FC00000);
  if (exponent != 0) return float_of(sign | (exponent + 120) << 23 | mantissa << 20);
  return float_of(sign | bits_of((float)mantissa * 0x1p-9f));
}

static uint16_t load_u16(const void *data, int64_t i) {
  uint16_t u;
  memcpy(&u, (const char *)data + 2 * i, 2);
  return u;
}

float sl_load(const void *data, sl_dtype dtype, int64_t i) {
  switch (dtype) {
  case SL_F32: {
    float f;
    memcpy(&f, (const char *)data + 4 * i, 4);
    return f;
  }
  case SL_F16:
    return sl_f16_to_f32(load_u16(data, i));
  case SL_BF16:
    return sl_bf16_to_f32(load_u16(data, i));
  case SL_F8_E4M3:
    return sl_f8_e4m3_to_f32(((const uint8_t *)data)[i]);
  case SL_N_DTYPES:
    break;
  }
  return float_of(0x7FC00000);
}

void sl_load_row(float *out, const void *data, sl_dtype dtype, int64_t first, int64_t n) {
  if (dtype == SL_F32) {
    if (n > 0) memcpy(out, (const char *)data + 4 * first, 4 * (size_t)n);
  } else if (dtype == SL_BF16) { /* row multipliers: a loop that the compiler can widen */
    const char *at = (const char *)data + 2 * first;
    for (int64_t i = 0; i < n; i++) {
      uint16_t bits;
      memcpy(&bits, at + 2 * i, sizeof bits);
      out[i] = sl_bf16_to_f32(bits);
    }
  } else {
    for (int64_t i = 0; i < n; i++) out[i] = sl_load(data, dtype, first + i);
  }
}
