#include "engine/sampler.h"

#include <math.h>
#include <stdlib.h>

typedef struct candidate {
  float logit;
  int32_t id;
} candidate;

struct sl_sampler {
  int V;
  uint64_t state;
  candidate *candidates; /* [V] */
  double *probabilities; /* [V] */
};

sl_status sl_sampler_new(int V, uint64_t seed, sl_sampler **out, sl_error *err) {
  sl_sampler *s = calloc(1, sizeof *s);
  if (s) {
    s->V = V;
    s->candidates = malloc((size_t)V * sizeof *s->candidates);
    s->probabilities = malloc((size_t)V * sizeof *s->probabilities);
  }
  if (!s || !s->candidates || !s->probabilities) {
    sl_sampler_free(s);
    return sl_fail(err, SL_ERR_MEMORY, "sampler: no memory for a vocabulary of %d", V);
  }
  sl_sampler_reset(s, seed);
  *out = s;
  return SL_OK;
}

void sl_sampler_free(sl_sampler *s) {
  if (!s) return;
  free(s->candidates);
  free(s->probabilities);
  free(s);
}

void sl_sampler_reset(sl_sampler *s, uint64_t seed) { s->state = seed; }

/* SplitMix64 (Steele, Lea, Flood 2014): any seed will do, also 0. */
static uint64_t next_random(sl_sampler *s) {
  uint64_t z = s->state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

static double next_uniform(sl_sampler *s) { return (double)(next_random(s) >> 11) * 0x1p-53; }

static int more_likely_first(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
  return x->id < y->id ? -1 : 1;
}

static bool comes_before(const candidate *a, const candidate *b) { return more_likely_first(a, b) < 0; }

/* Heap order: the least likely of those kept is at the top. */
static void sift_down(candidate *heap, int n, int at) {
  for (;;) {
    int worst = at, left = 2 * at + 1;
    for (int child = left; child < n && child <= left + 1; child++)
      if (comes_before(&heap[worst], &heap[child])) worst = child;
    if (worst == at) return;
    candidate t = heap[at];
    heap[at] = heap[worst];
    heap[worst] = t;
    at = worst;
  }
}

/* The k most likely of all, in any order, at the front. */
static void keep_most_likely(candidate *c, int n, int k) {
  for (int i = k / 2 - 1; i >= 0; i--) sift_down(c, k, i);
  for (int i = k; i < n; i++) {
    if (!comes_before(&c[i], &c[0])) continue;
    c[0] = c[i];
    sift_down(c, k, 0);
  }
}

/* All ids; those that never are get a probability of zero. */
static void fill(sl_sampler *s, const float *logits, const int32_t *suppressed, int n_suppressed) {
  for (int id = 0; id < s->V; id++) s->candidates[id] = (candidate){logits[id], id};
  for (int i = 0; i < n_suppressed; i++)
    if (suppressed[i] >= 0 && suppressed[i] < s->V) s->candidates[suppressed[i]].logit = -INFINITY;
}

static candidate most_likely(const candidate *c, int n) {
  candidate best = c[0];
  for (int i = 1; i < n; i++)
    if (c[i].logit > best.logit) best = c[i];
  return best;
}

/* Probabilities relative to the most likely one's; returns their sum. */
static double weigh(sl_sampler *s, int n, double temperature) {
  double top = (double)most_likely(s->candidates, n).logit, sum = 0;
  for (int i = 0; i < n; i++) {
    s->probabilities[i] = exp(((double)s->candidates[i].logit - top) / temperature);
    sum += s->probabilities[i];
  }
  return sum;
}

/* Leaves out what neither top_p nor min_p could keep, so that little is left to sort.  All that are less likely than
 * (1 - top_p) / n of the sum are together less than 1 - top_p of it: the fewest that reach top_p need none of them. */
static int leave_out(sl_sampler *s, const sl_sampling *p, int n) {
  double sum = weigh(s, n, p->temperature), least = (1 - p->top_p) / (double)n * sum;
  if (least < p->min_p) least = p->min_p;
  int kept = 0;
  for (int i = 0; i < n; i++)
    if (s->probabilities[i] >= least) s->candidates[kept++] = s->candidates[i];
  return kept;
}

/* How many of the n sorted candidates stay: the fewest that reach top_p, of these the ones that min_p lets.  `total`:
 * the sum of the probabilities that top_p is a share of. */
static int cut(const sl_sampler *s, const sl_sampling *p, int n, double total) {
  double reached = 0;
  int m = 0;
  while (m < n && reached < p->top_p * total) reached += s->probabilities[m++];
  if (m < 1) m = 1;
  while (m > 1 && s->probabilities[m - 1] < p->min_p) m--; /* the first one's is 1 */
  return m;
}

static int32_t draw(sl_sampler *s, int n) {
  double sum = 0;
  while (n > 1 && s->probabilities[n - 1] <= 0) n--; /* the last one takes what rounding leaves, and must be possible */
  for (int i = 0; i < n; i++) sum += s->probabilities[i];
  double at = next_uniform(s) * sum;
  for (int i = 0; i < n - 1; i++) {
    at -= s->probabilities[i];
    if (at < 0) return s->candidates[i].id;
  }
  return s->candidates[n - 1].id;
}

int32_t sl_sampler_next(sl_sampler *s, const float *logits, const sl_sampling *p, const int32_t *suppressed,
                        int n_suppressed) {
  int n = s->V;
  fill(s, logits, suppressed, n_suppressed);
  if (p->temperature <= 0) return most_likely(s->candidates, n).id;
  double total = 0;
  if (p->top_k > 0 && p->top_k < n) {
    keep_most_likely(s->candidates, n, p->top_k);
    n = p->top_k;
  } else {
    total = weigh(s, n, p->temperature);
    n = leave_out(s, p, n);
  }
  qsort(s->candidates, (size_t)n, sizeof *s->candidates, more_likely_first);
  double sum = weigh(s, n, p->temperature);
  return draw(s, cut(s, p, n, total > 0 ? total : sum));
}
