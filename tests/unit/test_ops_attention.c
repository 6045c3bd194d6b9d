/* The reference by formulas and by hand: experts, routing, rotation, the cache, attention. */
#include "ops.h"

/* ---- experts ----------------------------------------------------------------------------------------------------- */

enum { EH = 33, EI = 21, EN = 4, EM = 3, EK = 2 };

typedef struct zoo {
  float gate[EN][EI * EH], up[EN][EI * EH], down[EN][EH * EI], scales[EN][EI + EH];
  sl_expert experts[EN];
  float x[EM * EH];
} zoo;

static zoo *new_zoo(void) {
  static zoo z;
  fill((float *)&z, (int)(offsetof(zoo, experts) / sizeof(float)), 30);
  fill(z.x, EM * EH, 31);
  for (int e = 0; e < EN; e++) {
    z.experts[e].gate = (sl_weight){z.gate[e], z.scales[e], SL_F32, SL_F32, EI, EH};
    z.experts[e].up = (sl_weight){z.up[e], NULL, SL_F32, SL_F32, EI, EH};
    z.experts[e].down = (sl_weight){z.down[e], z.scales[e] + EI, SL_F32, SL_F32, EH, EI};
  }
  return &z;
}

static const int32_t expert_ids[EM * EK] = {3, 0, 1, 2, 0, 3};
static const float expert_weights[EM * EK] = {0.75f, 0.5f, -1, 2, 0.25f, 0.125f};

static void expert_ffn_is_the_weighted_sum_of_its_experts(void **state) {
  (void)state;
  zoo *z = new_zoo();
  float out[EM * EH];
  for (int act = 0; act < 2; act++) {
    unit_poison(out, EM * EH);
    sl_op_args a = {
        .expert_ffn = {out, z->x, expert_ids, expert_weights, z->experts, (sl_activation)act, EM, EH, EI, EK, EN}};
    run(SL_OP_EXPERT_FFN, &a);
    for (int m = 0; m < EM; m++)
      for (int h = 0; h < EH; h++) {
        real expected = 0;
        for (int j = 0; j < EK; j++) {
          int e = expert_ids[m * EK + j];
          real y = 0;
          for (int i = 0; i < EI; i++) {
            real g = 0, u = 0;
            for (int k = 0; k < EH; k++) {
              g += (real)z->x[m * EH + k] * z->gate[e][i * EH + k];
              u += (real)z->x[m * EH + k] * z->up[e][i * EH + k];
            }
            g *= z->scales[e][i];
            y += (act == SL_SILU ? silu(g) : gelu_tanh(g)) * u * z->down[e][h * EI + i];
          }
          expected += expert_weights[m * EK + j] * y * z->scales[e][EI + h];
        }
        assert_true(fabsl(out[m * EH + h] - expected) <= 1e-5L);
      }
  }
}

/* The fused path gives the bits of the grouped one. */
static void expert_ffn_is_matmuls_and_geglu_bit_for_bit(void **state) {
  (void)state;
  zoo *z = new_zoo();
  float out[EM * EH], grouped[EM * EH] = {0}, g[EI], u[EI], y[EH];
  sl_op_args a = {.expert_ffn = {out, z->x, expert_ids, expert_weights, z->experts, SL_GELU_TANH, EM, EH, EI, EK, EN}};
  run(SL_OP_EXPERT_FFN, &a);
  for (int32_t at = 0; at < EM * EK; at++) {
    int32_t m = at / EK;
    sl_expert *e = &z->experts[expert_ids[at]];
    run(SL_OP_MATMUL_BT, &(sl_op_args){.matmul_bt = {g, z->x + m * EH, &e->gate, 1, 0, 1, EH, EI}});
    run(SL_OP_MATMUL_BT, &(sl_op_args){.matmul_bt = {u, z->x + m * EH, &e->up, 1, 0, 1, EH, EI}});
    run(SL_OP_GEGLU, &(sl_op_args){.glu = {g, g, u, 1, EI, EI, EI, EI}});
    run(SL_OP_MATMUL_BT, &(sl_op_args){.matmul_bt = {y, g, &e->down, 1, 0, 1, EI, EH}});
    run(SL_OP_SCATTER_ADD_ROWS, &(sl_op_args){.scatter_add_rows = {grouped, y, &m, &expert_weights[at], 1, EH, EM}});
  }
  assert_memory_equal(out, grouped, sizeof out);
}

/* More than fits on the stack at once: the middle in parts, the outputs in parts. */
static void wide_experts_give_the_same_bits_as_the_grouped_path(void **state) {
  (void)state;
  enum { H = 1030, I = 4100 };
  float *w = malloc(sizeof(float) * 3 * H * I), *x = malloc(sizeof(float) * H), *g = malloc(sizeof(float) * I);
  float *u = malloc(sizeof(float) * I), *y = malloc(sizeof(float) * H), *out = malloc(sizeof(float) * H);
  fill(w, 3 * H * I, 40);
  fill(x, H, 41);
  unit_poison(out, H);
  sl_expert e = {
      {.data = w, .N = I, .K = H}, {.data = w + H * I, .N = I, .K = H}, {.data = w + 2 * H * I, .N = H, .K = I}};
  const int32_t id = 0;
  const float one = 1;
  run(SL_OP_EXPERT_FFN, &(sl_op_args){.expert_ffn = {out, x, &id, &one, &e, SL_SILU, 1, H, I, 1, 1}});
  run(SL_OP_MATMUL_BT, &(sl_op_args){.matmul_bt = {g, x, &e.gate, 1, 0, 1, H, I}});
  run(SL_OP_MATMUL_BT, &(sl_op_args){.matmul_bt = {u, x, &e.up, 1, 0, 1, H, I}});
  run(SL_OP_SWIGLU, &(sl_op_args){.glu = {g, g, u, 1, I, I, I, I}});
  run(SL_OP_MATMUL_BT, &(sl_op_args){.matmul_bt = {y, g, &e.down, 1, 0, 1, I, H}});
  assert_memory_equal(out, y, sizeof(float) * H);
  free(w), free(x), free(g), free(u), free(y), free(out);
}

static void expert_ffn_refuses_wrong_shapes_and_ids(void **state) {
  (void)state;
  zoo *z = new_zoo();
  float out[EM * EH];
  sl_op_args a = {.expert_ffn = {out, z->x, expert_ids, expert_weights, z->experts, SL_GELU_TANH, EM, EH, EI, EK, EN}};
  a.expert_ffn.n_experts = 3;
  assert_refused(SL_OP_EXPERT_FFN, &a, "expert_ffn: ids[0]: found 3, expected 0 to 2");
  a.expert_ffn.n_experts = EN;
  z->experts[1].down.K = 5;
  assert_refused(SL_OP_EXPERT_FFN, &a, "expert_ffn: experts[1].down: shape [33,5], expected [33,21]");
  z->experts[1].down.K = EI;
  a.expert_ffn.act = (sl_activation)2;
  assert_refused(SL_OP_EXPERT_FFN, &a, "expert_ffn: act: found 2, expected gelu_tanh or silu");
}

/* ---- routing ----------------------------------------------------------------------------------------------------- */

static void route_topk_takes_the_largest_and_renormalises(void **state) {
  (void)state;
  static const float logits[5] = {0.5f, 2, -1, 3, 1}, per_expert[5] = {1, 10, 1, 0.5f, 1};
  int32_t ids[3] = {-1, -1, -1};
  float weights[3];
  real e[5], sum = 0;
  for (int i = 0; i < 5; i++) sum += e[i] = expl(logits[i]);
  for (int renormalize = 0; renormalize < 2; renormalize++) {
    unit_poison(weights, 3);
    sl_op_args a = {.route_topk = {ids, weights, logits, per_expert, NULL, renormalize, 1, 5, 3}};
    run(SL_OP_ROUTE_TOPK, &a);
    assert_true(ids[0] == 3 && ids[1] == 1 && ids[2] == 4);
    real all = renormalize ? e[3] + e[1] + e[4] : sum;
    assert_close(weights[0], e[3] / all * 0.5L);
    assert_close(weights[1], e[1] / all * 10);
    assert_close(weights[2], e[4] / all);
  }
}

static void route_topk_gives_ties_to_the_lowest_id(void **state) {
  (void)state;
  static const float logits[12] = {1, 2, 2, 1, 2, 0, 7, 7, 7, 7, 7, 7};
  int32_t ids[8];
  float weights[8];
  sl_op_args a = {.route_topk = {ids, weights, logits, NULL, NULL, true, 2, 6, 4}};
  run(SL_OP_ROUTE_TOPK, &a);
  static const int32_t expected[8] = {1, 2, 4, 0, 0, 1, 2, 3};
  assert_memory_equal(ids, expected, sizeof ids);
  for (int j = 4; j < 8; j++) assert_true(weights[j] == 0.25f);
}

static void route_topk_weighs_imposed_experts_by_the_router(void **state) {
  (void)state;
  static const float logits[4] = {0, 1, 2, 3};
  static const int32_t imposed[2] = {0, 2}, twice[2] = {1, 1}, wrong[2] = {1, 4};
  int32_t ids[2];
  float weights[2];
  unit_poison(weights, 2);
  sl_op_args a = {.route_topk = {ids, weights, logits, NULL, imposed, true, 1, 4, 2}};
  run(SL_OP_ROUTE_TOPK, &a);
  assert_true(ids[0] == 0 && ids[1] == 2);
  assert_close(weights[0], 1 / (1 + expl(2)));
  assert_close(weights[1], expl(2) / (1 + expl(2)));
  a.route_topk.imposed = twice;
  assert_refused(SL_OP_ROUTE_TOPK, &a,
                 "route_topk: imposed: found 1, expected distinct experts for each token, but it is there twice");
  a.route_topk.imposed = wrong;
  assert_refused(SL_OP_ROUTE_TOPK, &a, "route_topk: imposed[1]: found 4, expected 0 to 3");
  a.route_topk.imposed = NULL;
  a.route_topk.top_k = 5;
  assert_refused(SL_OP_ROUTE_TOPK, &a, "route_topk: top_k: found 5, expected at most 4 (E)");
}

static void route_topk_of_nan_gives_nan_weights_and_distinct_ids(void **state) {
  (void)state;
  for (int at = 0; at < 4; at++) {
    float logits[4] = {0, 1, 2, 3}, weights[2] = {0, 0};
    int32_t ids[2] = {-1, -1};
    logits[at] = NAN;
    sl_op_args a = {.route_topk = {ids, weights, logits, NULL, NULL, true, 1, 4, 2}};
    run(SL_OP_ROUTE_TOPK, &a);
    assert_true(isnan(weights[0]) && isnan(weights[1]));
    assert_true(ids[0] >= 0 && ids[0] < 4 && ids[1] >= 0 && ids[1] < 4 && ids[0] != ids[1]);
  }
}

static void route_topk_survives_huge_logits(void **state) {
  (void)state;
  static const float logits[3] = {1e30f, 1e30f, -1e30f};
  int32_t ids[2];
  float weights[2];
  sl_op_args a = {.route_topk = {ids, weights, logits, NULL, NULL, true, 1, 3, 2}};
  run(SL_OP_ROUTE_TOPK, &a);
  assert_true(ids[0] == 0 && ids[1] == 1 && weights[0] == 0.5f && weights[1] == 0.5f);
}

/* ---- rope, cache, attention -------------------------------------------------------------------------------------- */

static void rope_turns_half_split_pairs(void **state) {
  (void)state;
  enum { M = 2, HEADS = 3, D = 8 };
  float x[M * HEADS * D], before[M * HEADS * D];
  static const float inv_freq[4] = {1, 0.25f, 0.0625f, 0}; /* the last pair stands still */
  static const int32_t positions[2] = {0, 5};
  fill(before, M * HEADS * D, 50);
  memcpy(x, before, sizeof x);
  sl_op_args a = {.rope = {x, positions, inv_freq, M, HEADS, D}};
  run(SL_OP_ROPE, &a);
  for (int m = 0; m < M; m++)
    for (int h = 0; h < HEADS; h++)
      for (int i = 0; i < 4; i++) {
        int at = (m * HEADS + h) * D + i;
        real angle = (real)positions[m] * inv_freq[i], c = cosl(angle), s = sinl(angle);
        assert_true(fabsl(x[at] - (before[at] * c - before[at + 4] * s)) < 1e-7L);
        assert_true(fabsl(x[at + 4] - (before[at + 4] * c + before[at] * s)) < 1e-7L);
        if (m == 0 || i == 3) assert_true(x[at] == before[at] && x[at + 4] == before[at + 4]);
      }
  a.rope.head_dim = 7;
  assert_refused(SL_OP_ROPE, &a, "rope: head_dim: found 7, expected an even number");
  static const int32_t negative[2] = {0, -1};
  a.rope.head_dim = D;
  a.rope.positions = negative;
  assert_refused(SL_OP_ROPE, &a, "rope: positions[1]: found -1, expected 0 to 2147483646");
}

enum { KVH = 2, HD = 4, HEADS = 6, CAP = SL_KV_BLOCK };

typedef struct cache {
  float k[KVH * CAP * HD], v[KVH * CAP * HD];
} cache;

static sl_segment segment(cache *c, int first_row, int n_rows, int first_pos) {
  unit_poison(c->k, KVH * CAP * HD);
  unit_poison(c->v, KVH * CAP * HD);
  return (sl_segment){{c->k, c->v, SL_F32, KVH, HD, CAP}, first_row, n_rows, first_pos};
}

static void kv_write_stores_each_position_in_its_slot(void **state) {
  (void)state;
  static cache one, two;
  float k[5 * KVH * HD], v[5 * KVH * HD];
  fill(k, 5 * KVH * HD, 60);
  fill(v, 5 * KVH * HD, 61);
  sl_segment s[2] = {segment(&one, 0, 3, CAP - 1), segment(&two, 3, 2, 7)}; /* the first wraps around */
  sl_op_args a = {.kv_write = {k, v, s, 2, 5}};
  run(SL_OP_KV_WRITE, &a);
  static const int slots[5] = {CAP - 1, 0, 1, 7, 8};
  for (int m = 0; m < 5; m++)
    for (int h = 0; h < KVH; h++) {
      cache *c = m < 3 ? &one : &two;
      assert_memory_equal(c->k + (h * CAP + slots[m]) * HD, k + (m * KVH + h) * HD, HD * sizeof(float));
      assert_memory_equal(c->v + (h * CAP + slots[m]) * HD, v + (m * KVH + h) * HD, HD * sizeof(float));
    }
  assert_true(isnan(one.k[2 * HD]) && isnan(two.k[0])); /* and nothing else */
}

static void kv_write_rounds_to_f16(void **state) {
  (void)state;
  uint16_t kc[CAP * 2], vc[CAP * 2];
  float k[2] = {1.0f + 0x1p-11f, 1.0f + 0x1.8p-10f}, v[2] = {-0x1p-24f, NAN};
  sl_segment s = {{kc, vc, SL_F16, 1, 2, CAP}, 0, 1, 0};
  sl_op_args a = {.kv_write = {k, v, &s, 1, 1}};
  run(SL_OP_KV_WRITE, &a);
  assert_int_equal(kc[0], 0x3C00);
  assert_int_equal(kc[1], 0x3C02);
  assert_int_equal(vc[0], 0x8001);
  assert_true((vc[1] & 0x7FFF) > 0x7C00);
}

/* Keys and values of all positions, the straightforward way; the caches hold a part of them in a ring. */
static void expect_attention(real *out, const float *q, const float *k, const float *v, int lowest, int pos,
                             real scale) {
  for (int h = 0; h < HEADS; h++) {
    int kvh = h / (HEADS / KVH);
    real total = 0;
    for (int d = 0; d < HD; d++) out[h * HD + d] = 0;
    for (int j = lowest; j <= pos; j++) {
      real s = 0;
      for (int d = 0; d < HD; d++) s += (real)q[h * HD + d] * k[(j * KVH + kvh) * HD + d];
      real p = expl(scale * s);
      for (int d = 0; d < HD; d++) out[h * HD + d] += p * v[(j * KVH + kvh) * HD + d];
      total += p;
    }
    for (int d = 0; d < HD; d++) out[h * HD + d] /= total;
  }
}

static void attention_case(int first_pos, int n_rows, int window) {
  static cache c, other;
  enum { MOST = 200, ROWS = 8 };
  static float k[MOST * KVH * HD], v[MOST * KVH * HD], q[ROWS * HEADS * HD], out[ROWS * HEADS * HD];
  int end = first_pos + n_rows, M = n_rows + 1;
  fill(k, MOST * KVH * HD, 70);
  fill(v, MOST * KVH * HD, 71);
  fill(q, ROWS * HEADS * HD, 72);
  unit_poison(out, ROWS * HEADS * HD);
  /* Beside it a session of one token at position 0, whose only key is its own. */
  sl_segment s[2] = {segment(&c, 0, end < CAP ? end : CAP, end < CAP ? 0 : end - CAP), segment(&other, 0, 1, 0)};
  int from = s[0].first_pos * KVH * HD;
  run(SL_OP_KV_WRITE, &(sl_op_args){.kv_write = {k + from, v + from, s, 1, s[0].n_rows}});
  run(SL_OP_KV_WRITE, &(sl_op_args){.kv_write = {k, v, s + 1, 1, 1}});
  s[0] = (sl_segment){s[0].kv, 0, n_rows, first_pos};
  s[1].first_row = n_rows;
  run(SL_OP_ATTENTION, &(sl_op_args){.attention = {out, q, s, 2, 0.5f, M, HEADS, KVH, HD, window}});
  for (int m = 0; m < M; m++) {
    real expected[HEADS * HD];
    int pos = m < n_rows ? first_pos + m : 0;
    int lowest = window > 0 && pos - window + 1 > 0 ? pos - window + 1 : 0;
    expect_attention(expected, q + m * HEADS * HD, k, v, lowest, pos, 0.5L);
    for (int i = 0; i < HEADS * HD; i++) assert_true(fabsl(out[m * HEADS * HD + i] - expected[i]) < 1e-7L);
  }
}

static void attention_is_the_softmax_over_all_keys_so_far(void **state) {
  (void)state;
  attention_case(0, 1, 0);
  attention_case(0, 7, 0);
  attention_case(40, 5, 0);
}

static void attention_sees_a_window_that_includes_its_own_key(void **state) {
  (void)state;
  attention_case(0, 7, 1);
  attention_case(0, 7, 3);
  attention_case(30, 4, 16);
}

static void attention_reads_a_ring_that_wraps(void **state) {
  (void)state;
  attention_case(150, 5, 60); /* 60 + 5 - 1 = 64: the smallest ring that does */
  attention_case(62, 4, 10);
  attention_case(128, 1, 64);
}

static void attention_over_huge_scores_does_not_overflow(void **state) {
  (void)state;
  static cache c;
  float q[HEADS * HD], k[2 * KVH * HD], v[2 * KVH * HD], out[HEADS * HD];
  for (int i = 0; i < HEADS * HD; i++) q[i] = 1e15f;
  for (int i = 0; i < KVH * HD; i++) k[i] = -1e15f, k[KVH * HD + i] = 1e15f, v[i] = 1, v[KVH * HD + i] = 2;
  sl_segment s = segment(&c, 0, 2, 0);
  run(SL_OP_KV_WRITE, &(sl_op_args){.kv_write = {k, v, &s, 1, 2}});
  s = (sl_segment){s.kv, 0, 1, 1};
  unit_poison(out, HEADS * HD);
  run(SL_OP_ATTENTION, &(sl_op_args){.attention = {out, q, &s, 1, 1, 1, HEADS, KVH, HD, 0}});
  for (int i = 0; i < HEADS * HD; i++) assert_true(out[i] == 2.0f);
}

static void attention_refuses_rings_that_are_too_small(void **state) {
  (void)state;
  static cache c;
  float q[9 * HEADS * HD] = {0}, out[9 * HEADS * HD];
  sl_segment s = segment(&c, 0, 5, 60);
  sl_op_args a = {.attention = {out, q, &s, 1, 1, 5, HEADS, KVH, HD, 0}};
  assert_refused(SL_OP_ATTENTION, &a, "attention: cache's capacity: found 64, expected at least 65");
  a.attention.window = 61;
  s.first_pos = 100;
  assert_refused(SL_OP_ATTENTION, &a, "attention: cache's capacity: found 64, expected at least 65");
  a.attention.window = 60;
  assert_int_equal(sl_op_check(SL_OP_ATTENTION, &a, NULL), SL_OK);
  s.kv.capacity = 63;
  assert_refused(SL_OP_ATTENTION, &a, "attention: cache's capacity: found 63, expected a multiple of SL_KV_BLOCK");
  s.kv.capacity = 64;
  s.first_row = 1;
  assert_refused(SL_OP_ATTENTION, &a,
                 "attention: segment's first_row: found 1, expected 0 (the end of the segment before)");
  s.first_row = 0;
  s.kv.dtype = SL_BF16;
  assert_refused(SL_OP_ATTENTION, &a, "attention: cache's dtype: found BF16, expected F16 or F32");
  s.kv.dtype = SL_F32;
  a.attention.M = 6;
  assert_refused(SL_OP_ATTENTION, &a, "attention: end of the segments: found 5, expected 6 (M)");
  a.attention.n_kv_heads = 4;
  assert_refused(SL_OP_ATTENTION, &a, "attention: n_heads: found 6, expected a multiple of n_kv_heads");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(expert_ffn_is_the_weighted_sum_of_its_experts),
      cmocka_unit_test(expert_ffn_is_matmuls_and_geglu_bit_for_bit),
      cmocka_unit_test(wide_experts_give_the_same_bits_as_the_grouped_path),
      cmocka_unit_test(expert_ffn_refuses_wrong_shapes_and_ids),
      cmocka_unit_test(route_topk_takes_the_largest_and_renormalises),
      cmocka_unit_test(route_topk_gives_ties_to_the_lowest_id),
      cmocka_unit_test(route_topk_weighs_imposed_experts_by_the_router),
      cmocka_unit_test(route_topk_of_nan_gives_nan_weights_and_distinct_ids),
      cmocka_unit_test(route_topk_survives_huge_logits),
      cmocka_unit_test(rope_turns_half_split_pairs),
      cmocka_unit_test(kv_write_stores_each_position_in_its_slot),
      cmocka_unit_test(kv_write_rounds_to_f16),
      cmocka_unit_test(attention_is_the_softmax_over_all_keys_so_far),
      cmocka_unit_test(attention_sees_a_window_that_includes_its_own_key),
      cmocka_unit_test(attention_reads_a_ring_that_wraps),
      cmocka_unit_test(attention_over_huge_scores_does_not_overflow),
      cmocka_unit_test(attention_refuses_rings_that_are_too_small),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
