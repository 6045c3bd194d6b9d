/* Number formats of weights, and exact conversions of single values. */
#ifndef SL_TENSOR_DTYPE_H
#define SL_TENSOR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum sl_dtype {
  SL_F32,
  SL_F16,
  SL_BF16,
  SL_F8_E4M3, /* OCP e4m3fn: no infinities, 0x7F and 0xFF are NaN, largest 448, subnormals of 2^-9 */
  SL_N_DTYPES
} sl_dtype;

/* "F32", "F16", "BF16", "F8_E4M3", as safetensors spells them. */
const char *sl_dtype_name(sl_dtype dtype);
/* false if the name is none of ours. */
bool sl_dtype_parse(const char *name, sl_dtype *out);
/* Bytes of one element. */
size_t sl_dtype_size(sl_dtype dtype);
/* Bytes of one row of K elements. */
size_t sl_row_bytes(sl_dtype dtype, int64_t K);

float sl_f16_to_f32(uint16_t bits);
uint16_t sl_f32_to_f16(float value); /* round to nearest, ties to even; overflow gives infinity; NaN stays NaN */
static inline float sl_bf16_to_f32(uint16_t bits) {
  uint32_t u = (uint32_t)bits << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}
uint16_t sl_f32_to_bf16(float value); /* as above */
float sl_f8_e4m3_to_f32(uint8_t bits);

/* Element i of an array of `dtype` that may lie at any address (files do not promise alignment). */
float sl_load(const void *data, sl_dtype dtype, int64_t i);
/* out[i] = element first + i, for n elements. */
void sl_load_row(float *out, const void *data, sl_dtype dtype, int64_t first, int64_t n);

#endif
