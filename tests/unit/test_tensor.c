#include "unit.h"

#include "tensor/weight.h"

static uint32_t bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return u;
}

static void names_parse_back(void **state) {
  (void)state;
  for (int d = 0; d < SL_N_DTYPES; d++) {
    sl_dtype found;
    assert_true(sl_dtype_parse(sl_dtype_name((sl_dtype)d), &found));
    assert_int_equal(found, d);
  }
  sl_dtype untouched = SL_BF16;
  assert_false(sl_dtype_parse("F8_E5M2", &untouched));
  assert_false(sl_dtype_parse("", &untouched));
  assert_int_equal(untouched, SL_BF16);
}

static void sizes_are_those_of_the_formats(void **state) {
  (void)state;
  assert_int_equal(sl_dtype_size(SL_F32), 4);
  assert_int_equal(sl_dtype_size(SL_F16), 2);
  assert_int_equal(sl_dtype_size(SL_BF16), 2);
  assert_int_equal(sl_dtype_size(SL_F8_E4M3), 1);
  assert_int_equal(sl_row_bytes(SL_BF16, 3000000000), 6000000000);
}

/* sign, exponent and mantissa by the definition, for all 256 codes. */
static void f8_follows_the_formula_subnormals_included(void **state) {
  (void)state;
  for (int code = 0; code < 256; code++) {
    float found = sl_f8_e4m3_to_f32((uint8_t)code);
    int e = code >> 3 & 15, m = code & 7;
    if ((code & 0x7F) == 0x7F) {
      assert_true(isnan(found));
      continue;
    }
    double value = e ? ldexp(1.0 + m / 8.0, e - 7) : ldexp(m, -9);
    assert_true(found == (code & 0x80 ? -value : value));
    assert_int_equal(signbit(found) != 0, code >> 7);
  }
  assert_true(sl_f8_e4m3_to_f32(0x7E) == 448.0f);
  assert_true(sl_f8_e4m3_to_f32(0x01) == 0x1p-9f);
}

static void f16_follows_the_formula_subnormals_included(void **state) {
  (void)state;
  for (int code = 0; code < 65536; code++) {
    float found = sl_f16_to_f32((uint16_t)code);
    int e = code >> 10 & 31, m = code & 1023;
    if (e == 31 && m) {
      assert_true(isnan(found));
      continue;
    }
    double value = e == 31 ? (double)INFINITY : e ? ldexp(1.0 + m / 1024.0, e - 15) : ldexp(m, -24);
    assert_true(found == (code & 0x8000 ? -value : value));
    assert_int_equal(signbit(found) != 0, code >> 15);
  }
}

static void bf16_is_the_upper_half_of_f32(void **state) {
  (void)state;
  for (uint32_t code = 0; code < 65536; code++) assert_int_equal(bits_of(sl_bf16_to_f32((uint16_t)code)), code << 16);
}

/* Between every two neighbours: the middle goes to the even one, a hair beside it to the nearer one. */
static void rounds_to_nearest_even(uint16_t (*to)(float), float (*from)(uint16_t), uint16_t largest) {
  for (uint16_t low = 0; low < largest; low++) {
    uint16_t high = (uint16_t)(low + 1), even = low & 1 ? high : low;
    float a = from(low), b = from(high), middle = a + (b - a) / 2;
    assert_int_equal(to(a), low);
    assert_int_equal(to(-a), low | 0x8000);
    assert_int_equal(to(middle), even);
    assert_int_equal(to(-middle), even | 0x8000);
    assert_int_equal(to(nextafterf(middle, 0.0f)), low);
    assert_int_equal(to(nextafterf(middle, INFINITY)), high);
  }
}

static void f32_to_f16_rounds_to_nearest_even(void **state) {
  (void)state;
  rounds_to_nearest_even(sl_f32_to_f16, sl_f16_to_f32, 0x7BFF);
}

static void f32_to_bf16_rounds_to_nearest_even(void **state) {
  (void)state;
  rounds_to_nearest_even(sl_f32_to_bf16, sl_bf16_to_f32, 0x7F7F);
}

static void overflow_gives_infinity(void **state) {
  (void)state;
  assert_int_equal(sl_f32_to_f16(65504.0f), 0x7BFF);
  assert_int_equal(sl_f32_to_f16(nextafterf(65520.0f, 0.0f)), 0x7BFF);
  assert_int_equal(sl_f32_to_f16(65520.0f), 0x7C00);
  assert_int_equal(sl_f32_to_f16(-1e30f), 0xFC00);
  assert_int_equal(sl_f32_to_f16(INFINITY), 0x7C00);
  assert_int_equal(sl_f32_to_bf16(3.4028235e38f), 0x7F80);
  assert_int_equal(sl_f32_to_bf16(-INFINITY), 0xFF80);
}

static void nan_stays_nan(void **state) {
  (void)state;
  static const uint32_t nans[] = {0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF, 0x7F80FFFF, 0x7FBFFFFF};
  for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
    float f;
    memcpy(&f, &nans[i], 4);
    uint16_t h = sl_f32_to_f16(f), b = sl_f32_to_bf16(f);
    assert_true((h & 0x7C00) == 0x7C00 && (h & 0x3FF) != 0);
    assert_true((b & 0x7F80) == 0x7F80 && (b & 0x7F) != 0);
    assert_int_equal(h >> 15, nans[i] >> 31);
    assert_int_equal(b >> 15, nans[i] >> 31);
  }
}

static void load_reads_any_alignment(void **state) {
  (void)state;
  unsigned char bytes[32] = {0};
  float f[2] = {1.5f, -2.25f};
  uint16_t h[2] = {0x3E00, 0xC080}, b[2] = {0x3FC0, 0xC010};
  memcpy(bytes + 1, f, 8);
  assert_true(sl_load(bytes + 1, SL_F32, 1) == -2.25f);
  memcpy(bytes + 1, h, 4);
  assert_true(sl_load(bytes + 1, SL_F16, 0) == 1.5f && sl_load(bytes + 1, SL_F16, 1) == -2.25f);
  memcpy(bytes + 1, b, 4);
  assert_true(sl_load(bytes + 1, SL_BF16, 0) == 1.5f && sl_load(bytes + 1, SL_BF16, 1) == -2.25f);
  bytes[3] = 0xC1; /* -(1 + 1/8) * 2^1 */
  assert_true(sl_load(bytes, SL_F8_E4M3, 3) == -2.25f);
}

static void load_row_is_load_element_by_element(void **state) {
  (void)state;
  unsigned char bytes[256];
  for (int i = 0; i < 256; i++) bytes[i] = (unsigned char)i;
  for (int d = 0; d < SL_N_DTYPES; d++) {
    float row[20];
    unit_poison(row, 20);
    sl_load_row(row, bytes + 1, (sl_dtype)d, 3, 20);
    for (int i = 0; i < 20; i++) assert_int_equal(bits_of(row[i]), bits_of(sl_load(bytes + 1, (sl_dtype)d, 3 + i)));
  }
}

static void a_weight_without_scales_is_multiplied_by_one(void **state) {
  (void)state;
  uint16_t scales[2] = {0x3F00, 0x4040}; /* 0.5, 3 */
  sl_weight w = {.scale = scales, .scale_dtype = SL_BF16, .N = 2};
  assert_true(sl_weight_scale(&w, 0) == 0.5f && sl_weight_scale(&w, 1) == 3.0f);
  w.scale = NULL;
  assert_true(sl_weight_scale(&w, 1) == 1.0f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_parse_back),
      cmocka_unit_test(sizes_are_those_of_the_formats),
      cmocka_unit_test(f8_follows_the_formula_subnormals_included),
      cmocka_unit_test(f16_follows_the_formula_subnormals_included),
      cmocka_unit_test(bf16_is_the_upper_half_of_f32),
      cmocka_unit_test(f32_to_f16_rounds_to_nearest_even),
      cmocka_unit_test(f32_to_bf16_rounds_to_nearest_even),
      cmocka_unit_test(overflow_gives_infinity),
      cmocka_unit_test(nan_stays_nan),
      cmocka_unit_test(load_reads_any_alignment),
      cmocka_unit_test(load_row_is_load_element_by_element),
      cmocka_unit_test(a_weight_without_scales_is_multiplied_by_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
