#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/pool.h"

enum { MANY = 1000 };

typedef struct counts {
  atomic_int ran[MANY];
  atomic_int thread_limit_broken;
  int n_threads;
} counts;

static void count(void *arg, int piece, int thread) {
  counts *c = arg;
  if (thread < 0 || thread >= c->n_threads) atomic_store(&c->thread_limit_broken, 1);
  atomic_fetch_add(&c->ran[piece], 1);
}

static sl_pool *new_pool(int n) {
  sl_pool *pool = NULL;
  assert_int_equal(sl_pool_new(n, &pool, NULL), SL_OK);
  assert_int_equal(sl_pool_threads(pool), n);
  return pool;
}

static void every_piece_runs_once(void **state) {
  (void)state;
  static const int threads[] = {1, 2, 3, 8};
  static const int pieces[] = {1, 2, 7, MANY};
  for (int t = 0; t < 4; t++) {
    sl_pool *pool = new_pool(threads[t]);
    for (int p = 0; p < 4; p++) {
      counts c = {.n_threads = threads[t]};
      assert_int_equal(sl_pool_run(pool, pieces[p], count, &c), SL_OK);
      for (int i = 0; i < MANY; i++) assert_int_equal(c.ran[i], i < pieces[p]);
      assert_int_equal(c.thread_limit_broken, 0);
    }
    sl_pool_free(pool);
  }
}

static void must_not_run(void *arg, int piece, int thread) {
  (void)piece, (void)thread;
  *(int *)arg = 1;
}

static void no_pieces_are_done_at_once(void **state) {
  (void)state;
  sl_pool *pool = new_pool(2);
  int ran = 0;
  assert_int_equal(sl_pool_run(pool, 0, must_not_run, &ran), SL_OK);
  assert_int_equal(ran, 0);
  sl_pool_free(pool);
}

/* Plain memory, written by pieces and read by the caller and by the next job's pieces: a thread sanitizer sees whether
 * the pool orders them. */
static void add_one(void *arg, int piece, int thread) {
  (void)thread;
  ((int *)arg)[piece]++;
}

static void jobs_follow_each_other(void **state) {
  (void)state;
  sl_pool *pool = new_pool(4);
  int values[16] = {0};
  for (int job = 1; job <= 20000; job++) {
    assert_int_equal(sl_pool_run(pool, 1 + job % 16, add_one, values), SL_OK);
    if (job % 5000 == 0) usleep(2000); /* long enough for the workers to fall asleep */
  }
  int sum = 0, expected = 0;
  for (int i = 0; i < 16; i++) sum += values[i];
  for (int job = 1; job <= 20000; job++) expected += 1 + job % 16;
  assert_int_equal(sum, expected);
  sl_pool_free(pool);
}

static void sleep_a_little(void *arg, int piece, int thread) {
  (void)thread;
  usleep(200);
  ((int *)arg)[piece]++;
}

static void jobs_wake_sleeping_threads_and_a_sleeping_caller(void **state) {
  (void)state;
  sl_pool *pool = new_pool(3);
  int values[5] = {0};
  for (int job = 0; job < 200; job++) {
    assert_int_equal(sl_pool_run(pool, 5, sleep_a_little, values), SL_OK);
    usleep(job % 3 * 100);
  }
  for (int i = 0; i < 5; i++) assert_int_equal(values[i], 200);
  sl_pool_free(pool);
}

/* Each piece waits for the other to begin, so the job ends only if two threads share it. */
static void meet(void *arg, int piece, int thread) {
  (void)piece, (void)thread;
  atomic_int *arrived = arg;
  atomic_fetch_add(arrived, 1);
  for (int i = 0; i < 50000 && atomic_load(arrived) < 2; i++) usleep(100); /* five seconds at most */
  if (atomic_load(arrived) < 2) atomic_store(arrived, -10);
}

static void a_sleeping_thread_is_woken_for_a_job(void **state) {
  (void)state;
  sl_pool *pool = new_pool(2);
  for (int job = 0; job < 20; job++) {
    atomic_int arrived = 0;
    usleep(2000);
    assert_int_equal(sl_pool_run(pool, 2, meet, &arrived), SL_OK);
    assert_int_equal(arrived, 2);
  }
  sl_pool_free(pool);
}

static void unused_pools_are_freed(void **state) {
  (void)state;
  for (int i = 0; i < 50; i++) sl_pool_free(new_pool(1 + i % 5));
  sl_pool_free(NULL);
}

static void *own_pool(void *arg) {
  (void)arg;
  sl_pool *pool = NULL;
  int values[8] = {0};
  if (sl_pool_new(2, &pool, NULL) != SL_OK) return (void *)1;
  for (int job = 0; job < 2000; job++) sl_pool_run(pool, 8, add_one, values);
  sl_pool_free(pool);
  for (int i = 0; i < 8; i++)
    if (values[i] != 2000) return (void *)1;
  return NULL;
}

static void two_pools_know_nothing_of_each_other(void **state) {
  (void)state;
  pthread_t a, b;
  void *failed_a, *failed_b;
  assert_int_equal(pthread_create(&a, NULL, own_pool, NULL), 0);
  assert_int_equal(pthread_create(&b, NULL, own_pool, NULL), 0);
  pthread_join(a, &failed_a);
  pthread_join(b, &failed_b);
  assert_null(failed_a);
  assert_null(failed_b);
}

static void a_senseless_number_of_threads_is_refused(void **state) {
  (void)state;
  sl_pool *pool = NULL;
  sl_error err = {0};
  assert_int_equal(sl_pool_new(0, &pool, &err), SL_ERR_ARGUMENT);
  assert_string_equal(err.text, "threads: found 0, expected 1 to 1024");
  assert_int_equal(sl_pool_new(-3, &pool, NULL), SL_ERR_ARGUMENT);
  assert_int_equal(sl_pool_new(100000, &pool, NULL), SL_ERR_ARGUMENT);
  assert_null(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_piece_runs_once),
      cmocka_unit_test(no_pieces_are_done_at_once),
      cmocka_unit_test(jobs_follow_each_other),
      cmocka_unit_test(jobs_wake_sleeping_threads_and_a_sleeping_caller),
      cmocka_unit_test(a_sleeping_thread_is_woken_for_a_job),
      cmocka_unit_test(unused_pools_are_freed),
      cmocka_unit_test(two_pools_know_nothing_of_each_other),
      cmocka_unit_test(a_senseless_number_of_threads_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
