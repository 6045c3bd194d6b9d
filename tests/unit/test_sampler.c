#include "unit/unit.h"

#include "engine/sampler.h"

enum { V = 8 };
/* Probabilities at temperature 1: proportional to 32, 16, 8, 4, 2, 1, 1, 1/2^20. */
static const float logits[V] = {0.6931472f * 3, 0.6931472f * 5, 0.6931472f * 4, 0, 0, 0.6931472f, 0.6931472f * 2, -14};

static int32_t draw_one(const sl_sampling *p, uint64_t seed) {
  sl_sampler *s;
  assert_int_equal(sl_sampler_new(V, seed, &s, NULL), SL_OK);
  int32_t id = sl_sampler_next(s, logits, p, NULL, 0);
  sl_sampler_free(s);
  return id;
}

/* How often each id is drawn. */
static void count(const sl_sampling *p, int *counts, int n) {
  sl_sampler *s;
  assert_int_equal(sl_sampler_new(V, 7, &s, NULL), SL_OK);
  memset(counts, 0, V * sizeof *counts);
  for (int i = 0; i < n; i++) counts[sl_sampler_next(s, logits, p, NULL, 0)]++;
  sl_sampler_free(s);
}

static void temperature_zero_takes_the_largest_and_the_lowest_id_among_equals(void **state) {
  (void)state;
  const float equal[V] = {1, 3, 3, 2, 3, 0, 0, 0};
  sl_sampling p = {.top_p = 1};
  sl_sampler *s;
  assert_int_equal(sl_sampler_new(V, 1, &s, NULL), SL_OK);
  assert_int_equal(sl_sampler_next(s, equal, &p, NULL, 0), 1);
  int32_t suppressed[] = {1, 4, -3, 900};
  assert_int_equal(sl_sampler_next(s, equal, &p, suppressed, 4), 2);
  sl_sampler_free(s);
}

static void frequencies_follow_the_probabilities(void **state) {
  (void)state;
  int counts[V];
  sl_sampling p = {.temperature = 1, .top_p = 1};
  count(&p, counts, 64000); /* 32 of 64: half */
  assert_in_range(counts[1], 31500, 32500);
  assert_in_range(counts[2], 15500, 16500);
  assert_in_range(counts[0], 7600, 8400);
  assert_in_range(counts[3], 850, 1150);
}

static void top_k_leaves_the_k_most_likely(void **state) {
  (void)state;
  int counts[V];
  sl_sampling p = {.temperature = 1, .top_p = 1, .top_k = 2};
  count(&p, counts, 3000);
  assert_int_equal(counts[1] + counts[2], 3000);
  assert_in_range(counts[2], 900, 1100); /* 16 of 48 */
  p.top_k = 1;
  for (uint64_t seed = 0; seed < 20; seed++) assert_int_equal(draw_one(&p, seed), 1);
}

static void top_p_leaves_the_fewest_that_reach_it(void **state) {
  (void)state;
  int counts[V];
  sl_sampling p = {.temperature = 1, .top_p = 0.7}; /* 32 + 16 of 64 are 0.75 */
  count(&p, counts, 3000);
  assert_int_equal(counts[1] + counts[2], 3000);
  assert_true(counts[2] > 0);
  p.top_p = 1e-9;
  count(&p, counts, 100);
  assert_int_equal(counts[1], 100);
}

static void min_p_leaves_what_is_likely_beside_the_first(void **state) {
  (void)state;
  int counts[V];
  sl_sampling p = {.temperature = 1, .top_p = 1, .min_p = 0.2}; /* 32, 16, 8 stay; 4 is 0.125 of 32 */
  count(&p, counts, 5600);
  assert_int_equal(counts[1] + counts[2] + counts[0], 5600);
  assert_in_range(counts[0], 700, 900);
}

static void suppressed_ids_are_never_drawn(void **state) {
  (void)state;
  sl_sampling p = {.temperature = 2, .top_p = 1};
  int32_t suppressed[] = {1, 2};
  sl_sampler *s;
  assert_int_equal(sl_sampler_new(V, 3, &s, NULL), SL_OK);
  for (int i = 0; i < 2000; i++) {
    int32_t id = sl_sampler_next(s, logits, &p, suppressed, 2);
    assert_true(id != 1 && id != 2 && id >= 0 && id < V);
  }
  sl_sampler_free(s);
}

static void a_seed_gives_the_same_draws_again(void **state) {
  (void)state;
  sl_sampling p = {.temperature = 3, .top_p = 1};
  sl_sampler *s;
  assert_int_equal(sl_sampler_new(V, 42, &s, NULL), SL_OK);
  int32_t first[50];
  for (int i = 0; i < 50; i++) first[i] = sl_sampler_next(s, logits, &p, NULL, 0);
  sl_sampler_reset(s, 42);
  bool differs = false;
  for (int i = 0; i < 50; i++) {
    assert_int_equal(sl_sampler_next(s, logits, &p, NULL, 0), first[i]);
    differs |= first[i] != first[0];
  }
  assert_true(differs);
  sl_sampler_free(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(temperature_zero_takes_the_largest_and_the_lowest_id_among_equals),
      cmocka_unit_test(frequencies_follow_the_probabilities),
      cmocka_unit_test(top_k_leaves_the_k_most_likely),
      cmocka_unit_test(top_p_leaves_the_fewest_that_reach_it),
      cmocka_unit_test(min_p_leaves_what_is_likely_beside_the_first),
      cmocka_unit_test(suppressed_ids_are_never_drawn),
      cmocka_unit_test(a_seed_gives_the_same_draws_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
