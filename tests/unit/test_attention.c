#include "unit/kernels.h"

/* A session that is fed in steps, with its keys in a ring; rows beyond what was written are NaN. */
typedef struct session {
  int n_heads, n_kv_heads, head_dim, window, T;
  sl_dtype dtype;
  float scale;
  float *q, *k, *v; /* [T, heads * head_dim] */
} session;

/* How it is fed. */
typedef struct feeding {
  sl_role role;
  int chunk, capacity, n_threads;
} feeding;

static session new_session(unit_random *r, int n_heads, int n_kv_heads, int head_dim, int window, int T,
                           sl_dtype dtype) {
  session s = {n_heads, n_kv_heads, head_dim, window, T, dtype, 2.0f / sqrtf((float)head_dim), 0, 0, 0};
  s.q = random_floats(r, (size_t)(T * n_heads * head_dim), 2.0f);
  s.k = random_floats(r, (size_t)(T * n_kv_heads * head_dim), 2.0f);
  s.v = random_floats(r, (size_t)(T * n_kv_heads * head_dim), 1.0f);
  return s;
}

static void free_session(session *s) {
  free(s->q);
  free(s->k);
  free(s->v);
}

static int round_up(int n) { return (n + SL_KV_BLOCK - 1) / SL_KV_BLOCK * SL_KV_BLOCK; }
static size_t width(const session *s) { return (size_t)(s->n_heads * s->head_dim); }
static size_t kv_width(const session *s) { return (size_t)(s->n_kv_heads * s->head_dim); }

static sl_kv new_cache(const session *s, int capacity) {
  size_t bytes = (size_t)capacity * kv_width(s) * sl_dtype_size(s->dtype);
  sl_kv kv = {malloc(bytes), malloc(bytes), s->dtype, s->n_kv_heads, s->head_dim, capacity};
  memset(kv.k, 0xFF, bytes); /* NaN in both formats */
  memset(kv.v, 0xFF, bytes);
  return kv;
}

static void free_cache(sl_kv *kv) {
  free(kv->k);
  free(kv->v);
}

static sl_op_sig sig_of(const session *s, sl_op op, sl_role role) {
  return (sl_op_sig){.op = op,
                     .role = role,
                     .dtype = s->dtype,
                     .N = s->n_heads * s->head_dim,
                     .K = s->head_dim,
                     .group = op == SL_OP_ATTENTION ? s->n_heads / s->n_kv_heads : 0};
}

static sl_attention_args attention_of(const session *s, float *out, int row, const sl_segment *segments, int n, int M) {
  return (sl_attention_args){.out = out + (size_t)row * width(s),
                             .q = s->q + (size_t)row * width(s),
                             .segments = segments,
                             .n_segments = n,
                             .scale = s->scale,
                             .M = M,
                             .n_heads = s->n_heads,
                             .n_kv_heads = s->n_kv_heads,
                             .head_dim = s->head_dim,
                             .window = s->window};
}

/* Feeds all rows; returns the outputs [T, width]. */
static float *feed(const sl_backend *b, const session *s, feeding f) {
  float *out = poisoned((size_t)s->T * width(s));
  sl_kv kv = new_cache(s, f.capacity);
  for (int row = 0; row < s->T; row += f.chunk) {
    int M = s->T - row < f.chunk ? s->T - row : f.chunk;
    sl_segment segment = {kv, 0, M, row};
    size_t at = (size_t)row * kv_width(s);
    sl_op_args write = {.kv_write = {s->k + at, s->v + at, &segment, 1, M}};
    sl_op_sig write_sig = sig_of(s, SL_OP_KV_WRITE, f.role), sig = sig_of(s, SL_OP_ATTENTION, f.role);
    assert_int_equal(run_op(b, &write_sig, &write, M, f.n_threads), SL_OK);
    sl_op_args args = {.attention = attention_of(s, out, row, &segment, 1, M)};
    assert_int_equal(run_op(b, &sig, &args, f.chunk, f.n_threads), SL_OK);
  }
  free_cache(&kv);
  return out;
}

static float *feed_reference(const session *s) {
  float *out = poisoned((size_t)s->T * width(s));
  sl_kv kv = new_cache(s, round_up(s->T));
  sl_segment segment = {kv, 0, s->T, 0};
  sl_op_args write = {.kv_write = {s->k, s->v, &segment, 1, s->T}};
  sl_reference_rows(SL_OP_KV_WRITE, &write, 0, s->T);
  sl_op_args args = {.attention = attention_of(s, out, 0, &segment, 1, s->T)};
  sl_reference_rows(SL_OP_ATTENTION, &args, 0, s->T);
  free_cache(&kv);
  return out;
}

static void assert_close(const float *x, const float *y, size_t n, float bound) {
  for (size_t i = 0; i < n; i++) {
    if (fabsf(x[i] - y[i]) <= bound) continue;
    print_error("element %zu: found %.9g, expected %.9g\n", i, (double)x[i], (double)y[i]);
    fail();
  }
}

static void assert_same_bits(const float *x, const float *y, size_t n) { assert_memory_equal(x, y, n * sizeof *x); }

/* ---- facts ------------------------------------------------------------------------------------------------------- */

static void compare_with_reference(const sl_backend *b, int n_heads, int n_kv_heads, int head_dim, int window, int T,
                                   sl_dtype dtype) {
  unit_random r = {(uint64_t)(head_dim * 1000 + T)};
  session s = new_session(&r, n_heads, n_kv_heads, head_dim, window, T, dtype);
  float *expected = feed_reference(&s);
  for (int role = 0; role < SL_N_ROLES; role++) {
    float *found = feed(b, &s, (feeding){(sl_role)role, T, round_up(T), 2});
    assert_close(found, expected, (size_t)T * width(&s), 3e-6f);
    free(found);
  }
  free(expected);
  free_session(&s);
}

static void shapes(const sl_backend *b) {
  compare_with_reference(b, 1, 1, 16, 0, 1, SL_F32);
  compare_with_reference(b, 4, 2, 32, 24, 70, SL_F16);
  compare_with_reference(b, 7, 1, 8, 0, 65, SL_F16);
  compare_with_reference(b, 6, 2, 24, 1, 66, SL_F32);
  compare_with_reference(b, 10, 2, 40, 64, 200, SL_F16);
  compare_with_reference(b, 3, 3, 72, 63, 130, SL_F32);
  compare_with_reference(b, 8, 1, 80, 65, 129, SL_F16);
  compare_with_reference(b, 2, 1, 7, 0, 100, SL_F16);
  compare_with_reference(b, 2, 2, 100, 31, 100, SL_F32);
  compare_with_reference(b, 4, 2, 256, 100, 300, SL_F16);
  compare_with_reference(b, 8, 1, 512, 0, 150, SL_F16);
  compare_with_reference(b, 96, 1, 16, 0, 20, SL_F16);
}
static void attention_is_within_3e_6_of_the_reference_in_every_shape(void **state) {
  (void)state;
  each_fast_backend(shapes);
}

static void long_context(const sl_backend *b) { compare_with_reference(b, 2, 1, 16, 0, 2500, SL_F16); }
static void attention_over_several_spans_is_within_3e_6_of_the_reference(void **state) {
  (void)state;
  each_fast_backend(long_context);
}

static void feedings(const sl_backend *b) {
  unit_random r = {7};
  session s = new_session(&r, 6, 2, 40, 100, 400, SL_F16);
  size_t n = (size_t)s.T * width(&s);
  for (int role = 0; role < SL_N_ROLES; role++) {
    float *first = feed(b, &s, (feeding){(sl_role)role, s.T, round_up(s.T), 1});
    static const int chunks[] = {1, 7, 64};
    for (int c = 0; c < 3; c++) {
      int smallest = round_up(s.window + chunks[c] - 1);
      for (int capacity = smallest; capacity <= smallest + SL_KV_BLOCK; capacity += SL_KV_BLOCK) {
        float *other = feed(b, &s, (feeding){(sl_role)role, chunks[c], capacity, 1 + c});
        assert_same_bits(other, first, n);
        free(other);
      }
    }
    free(first);
  }
  free_session(&s);
}
static void bits_do_not_depend_on_chunk_ring_or_threads(void **state) {
  (void)state;
  each_fast_backend(feedings);
}

static void full_layers(const sl_backend *b) {
  unit_random r = {8};
  session s = new_session(&r, 16, 2, 64, 0, 1100, SL_F16);
  size_t n = (size_t)s.T * width(&s);
  for (int role = 0; role < SL_N_ROLES; role++) {
    float *first = feed(b, &s, (feeding){(sl_role)role, s.T, round_up(s.T), 1});
    for (int n_threads = 2; n_threads <= 3; n_threads++) {
      /* One row at a time: with several threads its keys are cut into spans. */
      float *other = feed(b, &s, (feeding){(sl_role)role, n_threads == 3 ? 1 : 333, 2048, n_threads});
      assert_same_bits(other, first, n);
      free(other);
    }
    free(first);
  }
  free_session(&s);
}
static void bits_do_not_depend_on_how_spans_are_shared(void **state) {
  (void)state;
  each_fast_backend(full_layers);
}

/* Keeps only row 'at' of a decode at a far position: many spans, longer than the shortest. */
static void far_away(const sl_backend *b) {
  enum { POS = 40000, D = 8 };
  unit_random r = {9};
  session s = new_session(&r, 2, 1, D, 0, 1, SL_F16);
  sl_kv kv = new_cache(&s, round_up(POS + 1));
  for (int i = 0; i <= POS * D + D - 1; i++) {
    ((uint16_t *)kv.k)[i] = sl_f32_to_f16(unit_float(&r));
    ((uint16_t *)kv.v)[i] = sl_f32_to_f16(unit_float(&r));
  }
  sl_segment segment = {kv, 0, 1, POS};
  float expected[2 * D], found[2 * D], again[2 * D];
  sl_op_sig sig = sig_of(&s, SL_OP_ATTENTION, SL_GENERATED);
  sl_op_args args = {.attention = attention_of(&s, expected, 0, &segment, 1, 1)};
  sl_reference_rows(SL_OP_ATTENTION, &args, 0, 1);
  unit_poison(found, 2 * D);
  args.attention.out = found;
  assert_int_equal(run_op(b, &sig, &args, 1, 1), SL_OK);
  assert_close(found, expected, 2 * D, 3e-6f);
  args.attention.out = again;
  assert_int_equal(run_op(b, &sig, &args, 1, 3), SL_OK);
  assert_same_bits(again, found, 2 * D);
  free_cache(&kv);
  free_session(&s);
}
static void decode_at_position_40000_is_right_and_the_same_on_3_threads(void **state) {
  (void)state;
  each_fast_backend(far_away);
}

/* Two sessions in one step, the second in the middle of its text. */
static void neighbours(const sl_backend *b) {
  enum { A = 30, B = 50, BEFORE = 90 };
  unit_random r = {10};
  session s = new_session(&r, 4, 2, 24, 64, BEFORE + B + A, SL_F16);
  sl_kv cache_a = new_cache(&s, 128), cache_b = new_cache(&s, 192);
  size_t n_all = (size_t)s.T * width(&s);
  for (int role = 0; role < SL_N_ROLES; role++) {
    sl_op_sig write_sig = sig_of(&s, SL_OP_KV_WRITE, (sl_role)role), sig = sig_of(&s, SL_OP_ATTENTION, (sl_role)role);
    /* Rows 0 .. BEFORE-1 are b's past; then a step of a's 30 rows and b's next 50. */
    sl_segment past = {cache_b, 0, BEFORE, 0};
    sl_op_args write = {.kv_write = {s.k, s.v, &past, 1, BEFORE}};
    assert_int_equal(run_op(b, &write_sig, &write, BEFORE, 1), SL_OK);
    sl_segment both[2] = {{cache_a, 0, A, 0}, {cache_b, A, B, BEFORE}};
    size_t at = BEFORE * kv_width(&s);
    write = (sl_op_args){.kv_write = {s.k + at, s.v + at, both, 2, A + B}};
    assert_int_equal(run_op(b, &write_sig, &write, A + B, 2), SL_OK);
    float *together = poisoned(n_all), *alone = poisoned(n_all);
    sl_op_args args = {.attention = attention_of(&s, together, BEFORE, both, 2, A + B)};
    assert_int_equal(run_op(b, &sig, &args, A + B, 3), SL_OK);
    sl_segment a = {cache_a, 0, A, 0}, later = {cache_b, 0, B, BEFORE};
    args.attention = attention_of(&s, alone, BEFORE, &a, 1, A);
    assert_int_equal(run_op(b, &sig, &args, A, 1), SL_OK);
    args.attention = attention_of(&s, alone, BEFORE + A, &later, 1, B);
    assert_int_equal(run_op(b, &sig, &args, B, 1), SL_OK);
    size_t from = BEFORE * width(&s), n = (A + B) * width(&s);
    assert_same_bits(together + from, alone + from, n);
    for (size_t i = from; i < from + n; i++) assert_true(isfinite(together[i]));
    free(together);
    free(alone);
  }
  free_cache(&cache_a);
  free_cache(&cache_b);
  free_session(&s);
}
static void bits_do_not_depend_on_a_neighbour_in_the_step(void **state) {
  (void)state;
  each_fast_backend(neighbours);
}

/* A NaN in one row's key and value must reach exactly the rows that look at it. */
static void one_nan(const sl_backend *b) {
  enum { BAD = 20 };
  unit_random r = {11};
  session s = new_session(&r, 2, 1, 16, 10, 80, SL_F32);
  for (int in_values = 0; in_values < 2; in_values++) {
    float *kept = in_values ? s.v : s.k, was = kept[BAD * 16 + 3];
    kept[BAD * 16 + 3] = NAN;
    for (int role = 0; role < SL_N_ROLES; role++) {
      float *out = feed(b, &s, (feeding){(sl_role)role, s.T, round_up(s.T), 1});
      for (int row = 0; row < s.T; row++)
        for (int h = 0; h < s.n_heads; h++)
          assert_int_equal(isnan(out[((size_t)row * 2 + (size_t)h) * 16 + 3]) != 0, row >= BAD && row < BAD + s.window);
      free(out);
    }
    kept[BAD * 16 + 3] = was;
  }
  free_session(&s);
}
static void a_nan_reaches_the_rows_that_look_at_it_and_no_others(void **state) {
  (void)state;
  each_fast_backend(one_nan);
}

/* Scores far apart: the largest wins alone, and nothing overflows. */
static void extreme_scores(const sl_backend *b) {
  unit_random r = {12};
  session s = new_session(&r, 2, 1, 8, 0, 130, SL_F32);
  s.scale = 1.0f;
  for (int i = 0; i < s.T * 16; i++) s.q[i] = 1.0f;
  for (int j = 0; j < s.T; j++)
    for (int d = 0; d < 8; d++) s.k[j * 8 + d] = j % 2 ? -3000.0f : (float)j;
  for (int role = 0; role < SL_N_ROLES; role++) {
    float *out = feed(b, &s, (feeding){(sl_role)role, s.T, round_up(s.T), 1});
    for (int row = 1; row < s.T; row++)
      for (int d = 0; d < 8; d++) {
        double right = 0.0, total = 0.0; /* keys row, row-2, ... (even ones) have scores 8j */
        int last = row - row % 2;
        for (int j = last; j >= 0; j -= 2) {
          right += exp(8.0 * (j - last)) * (double)s.v[j * 8 + d];
          total += exp(8.0 * (j - last));
        }
        assert_true(fabs((double)out[(row * 2) * 8 + d] - right / total) <= 1e-6);
      }
    free(out);
  }
  free_session(&s);
}
static void scores_of_minus_24000_count_nothing(void **state) {
  (void)state;
  each_fast_backend(extreme_scores);
}

static void equal_scores(const sl_backend *b) {
  unit_random r = {13};
  session s = new_session(&r, 2, 1, 8, 5, 70, SL_F32);
  for (int i = 0; i < s.T * 16; i++) s.q[i] = 0.0f;
  for (int role = 0; role < SL_N_ROLES; role++) {
    float *out = feed(b, &s, (feeding){(sl_role)role, s.T, round_up(s.T), 1});
    double mean = 0.0;
    for (int j = 65; j < 70; j++) mean += (double)s.v[j * 8 + 1] / 5.0;
    assert_true(fabs((double)out[(69 * 2 + 1) * 8 + 1] - mean) <= 1e-7);
    free(out);
  }
  free_session(&s);
}
static void equal_scores_give_the_mean_of_the_window(void **state) {
  (void)state;
  each_fast_backend(equal_scores);
}

static void infinite_score(const sl_backend *b) {
  unit_random r = {14};
  session s = new_session(&r, 1, 1, 8, 0, 3, SL_F32);
  s.scale = 1.0f;
  for (int i = 0; i < 3 * 8; i++) s.q[i] = 1.0f;
  s.k[0] = -INFINITY; /* row 0 sees nothing else, the others see more */
  for (int role = 0; role < SL_N_ROLES; role++) {
    float *found = feed(b, &s, (feeding){(sl_role)role, 3, 64, 1}), *expected = feed_reference(&s);
    assert_true(isnan(found[0]));
    assert_close(found + 8, expected + 8, 16, 3e-6f);
    free(found);
    free(expected);
  }
  free_session(&s);
}
static void a_key_with_score_minus_infinity_counts_nothing(void **state) {
  (void)state;
  each_fast_backend(infinite_score);
}

static void too_wide(const sl_backend *b) {
  sl_refusal why = {0};
  sl_op_sig sig = {.op = SL_OP_ATTENTION, .dtype = SL_F16, .N = 97 * 8, .K = 8, .group = 97};
  assert_null(sl_kernel_find(b, &sig, &why));
  assert_int_equal(why.reason, SL_OUT_OF_RANGE);
  assert_non_null(strstr(why.detail, "97 query heads"));
}
static void a_group_of_97_heads_is_refused_with_a_sentence(void **state) {
  (void)state;
  each_fast_backend(too_wide);
}

static void small_scratch(const sl_backend *b) {
  unit_random r = {15};
  session s = new_session(&r, 1, 1, 8, 0, 1, SL_F32);
  sl_kv kv = new_cache(&s, 64);
  sl_segment segment = {kv, 0, 1, 0};
  float out[8];
  sl_error err = {0};
  sl_ctx ctx = {.err = &err};
  assert_int_equal(sl_pool_new(1, &ctx.pool, NULL), SL_OK);
  sl_op_args args = {.attention = attention_of(&s, out, 0, &segment, 1, 1)};
  for (int role = 0; role < SL_N_ROLES; role++) {
    sl_op_sig sig = sig_of(&s, SL_OP_ATTENTION, (sl_role)role);
    assert_int_equal(sl_kernel_find(b, &sig, NULL)->run(&ctx, &args), SL_ERR_ARGUMENT);
  }
  sl_pool_free(ctx.pool);
  free_cache(&kv);
  free_session(&s);
}
static void too_little_scratch_is_an_error(void **state) {
  (void)state;
  each_fast_backend(small_scratch);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(attention_is_within_3e_6_of_the_reference_in_every_shape),
      cmocka_unit_test(attention_over_several_spans_is_within_3e_6_of_the_reference),
      cmocka_unit_test(bits_do_not_depend_on_chunk_ring_or_threads),
      cmocka_unit_test(bits_do_not_depend_on_how_spans_are_shared),
      cmocka_unit_test(decode_at_position_40000_is_right_and_the_same_on_3_threads),
      cmocka_unit_test(bits_do_not_depend_on_a_neighbour_in_the_step),
      cmocka_unit_test(a_nan_reaches_the_rows_that_look_at_it_and_no_others),
      cmocka_unit_test(scores_of_minus_24000_count_nothing),
      cmocka_unit_test(equal_scores_give_the_mean_of_the_window),
      cmocka_unit_test(a_key_with_score_minus_infinity_counts_nothing),
      cmocka_unit_test(a_group_of_97_heads_is_refused_with_a_sentence),
      cmocka_unit_test(too_little_scratch_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
