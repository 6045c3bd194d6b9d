/* The plan: kernels for everything, and memory in which no two living values meet. */
#include "unit/models.h"

#include "model/plan.h"

static sl_model *open_model(const char *path) {
  sl_model *model = NULL;
  sl_error err = {0};
  if (sl_model_open(path, &model, &err) != SL_OK) fail_msg("%s", err.text);
  return model;
}

static sl_plan *make_plan(sl_model *model, const char *kernels, int chunk) {
  sl_plan_options options = {.threads = 2, .chunk = chunk, .ctx = 100, .kv_dtype = SL_F16, .kernels = kernels};
  sl_plan *plan = NULL;
  sl_error err = {0};
  assert_int_equal(sl_cpu_arms(kernels, options.backends, &options.n_backends, NULL), SL_OK);
  if (sl_plan_make(model, &options, &plan, &err) != SL_OK) fail_msg("%s", err.text);
  return plan;
}

static const char *const models[] = {MOE_BF16, MOE_FP8, DENSE_PLE, GEMMA3};

static void every_node_has_a_kernel_in_both_roles(void **state) {
  (void)state;
  for (int m = 0; m < 4; m++) {
    sl_model *model = open_model(models[m]);
    sl_plan *plan = make_plan(model, "reference", 16);
    for (int i = 0; i < model->program.n_nodes; i++)
      for (int role = 0; role < SL_N_ROLES; role++)
        if (!model->program.nodes[i].is_experts) assert_true(plan->nodes[i].arm[role] >= 0);
    sl_plan_free(plan);
    sl_model_free(model);
  }
}

/* Bytes of a value, from its meaning. */
static size_t size_of(const sl_plan *plan, const sl_value *v) {
  return (size_t)(v->in_head ? plan->head_rows : plan->options.chunk) * (size_t)v->width * 4;
}

static void values_that_live_together_do_not_overlap(void **state) {
  (void)state;
  for (int m = 0; m < 4; m++) {
    sl_model *model = open_model(models[m]);
    sl_plan *plan = make_plan(model, "reference", 7);
    const sl_program *p = &model->program;
    for (int i = 0; i < p->n_values; i++) {
      const sl_value *a = &p->values[i];
      assert_true(a->offset + size_of(plan, a) <= plan->expert_rows_offset);
      assert_int_equal(a->offset % 64, 0);
      for (int j = 0; j < i; j++) {
        const sl_value *b = &p->values[j];
        bool together = a->first <= b->last && b->first <= a->last;
        bool apart = a->offset + size_of(plan, a) <= b->offset || b->offset + size_of(plan, b) <= a->offset;
        if (together && !apart) fail_msg("%s: values %s and %s overlap", models[m], a->name, b->name);
      }
    }
    sl_plan_free(plan);
    sl_model_free(model);
  }
}

static void values_are_read_only_after_they_are_written(void **state) {
  (void)state;
  for (int m = 0; m < 4; m++) {
    sl_model *model = open_model(models[m]);
    const sl_program *p = &model->program;
    for (int i = 0; i < p->n_nodes; i++)
      for (int k = 0; k < 3; k++)
        if (p->nodes[i].in[k] >= 0) {
          const sl_value *v = &p->values[p->nodes[i].in[k]];
          assert_true(v->first < i && i <= v->last);
        }
    sl_model_free(model);
  }
}

static void a_ring_holds_the_window_and_a_chunk(void **state) {
  (void)state;
  sl_model *model = open_model(MOE_BF16); /* window 8 */
  sl_plan *plan = make_plan(model, "reference", 16);
  sl_kv_spec ring = {.window = 8, .n_kv_heads = 2, .head_dim = 16}, all = {.n_kv_heads = 1, .head_dim = 32};
  assert_int_equal(sl_plan_kv_capacity(plan, &ring), 64); /* 8 + 16 - 1, in blocks of 64 */
  assert_int_equal(sl_plan_kv_capacity(plan, &all), 128); /* ctx 100 */
  assert_int_equal(sl_plan_kv_bytes(plan, &all), 2 * 128 * 32 * 2);
  sl_plan_free(plan);
  sl_model_free(model);
}

/* The fault that sluice began with: a device that promises an operation and does not have it.  Here it has one
 * kernel; everything else is planned around it before anything runs. */
static sl_status never_runs(const sl_ctx *ctx, const sl_op_args *args) {
  (void)args;
  return sl_fail(ctx->err, SL_ERR_STATE, "not in this test");
}

static const sl_kernel only_geglu = {
    .name = "small/geglu", .op = SL_OP_GEGLU, .roles = 3, .maths = 3, .dtypes = 1u << SL_F32, .run = never_runs};
static sl_kernel_table small_table(void) { return (sl_kernel_table){&only_geglu, 1}; }
static sl_kernel_table (*const small_tables[])(void) = {small_table};
static const sl_backend small_device = {.name = "small", .tables = small_tables, .n_tables = 1};

static void what_a_device_lacks_is_planned_around(void **state) {
  (void)state;
  sl_model *model = open_model(MOE_FP8);
  sl_plan_options options = {.threads = 1, .chunk = 16, .ctx = 100, .kv_dtype = SL_F16, .kernels = "test"};
  const sl_backend *reference[SL_MAX_ARMS];
  int n;
  assert_int_equal(sl_cpu_arms("reference", reference, &n, NULL), SL_OK);
  options.backends[0] = &small_device;
  options.backends[1] = reference[0];
  options.n_backends = 2;
  sl_plan *plan;
  assert_int_equal(sl_plan_make(model, &options, &plan, NULL), SL_OK);
  int n_small = 0;
  for (int i = 0; i < plan->n_arms; i++) n_small += plan->arms[i].kernel == &only_geglu;
  assert_int_equal(n_small, 1);
  for (int i = 0; i < model->program.n_nodes; i++) {
    bool is_geglu = model->program.nodes[i].op == SL_OP_GEGLU;
    int arm = plan->nodes[i].arm[SL_GENERATED];
    if (arm >= 0) assert_int_equal(plan->arms[arm].kernel == &only_geglu, is_geglu);
  }
  sl_plan_free(plan);
  options.n_backends = 1; /* without the reference the plan fails, with the name of what is missing */
  sl_error err = {0};
  assert_int_equal(sl_plan_make(model, &options, &plan, &err), SL_ERR_UNSUPPORTED);
  assert_non_null(strstr(err.text, "embed_rows"));
  assert_non_null(strstr(err.text, "small"));
  sl_model_free(model);
}

#define MATMUL(maths)                                                                                                  \
  { "test/matmul", SL_OP_MATMUL_BT, 3, maths, (1u << SL_N_DTYPES) - 1, NULL, NULL, NULL }
static const sl_kernel by_math[SL_FAST + 1] = {MATMUL(1u << SL_EXACT), MATMUL(1u << SL_FAST)};
static sl_kernel_table math_table(void) { return (sl_kernel_table){by_math, 2}; }
static sl_kernel_table (*const math_tables[])(void) = {math_table};
static const sl_backend math_device = {.name = "math", .tables = math_tables, .n_tables = 1};

static void the_router_is_exact_in_fast_math_too(void **state) {
  (void)state;
  sl_model *model = open_model(MOE_BF16);
  sl_plan_options options = {
      .threads = 1, .chunk = 16, .ctx = 100, .math = SL_FAST, .kv_dtype = SL_F16, .kernels = "test"};
  const sl_backend *reference[SL_MAX_ARMS];
  int n;
  assert_int_equal(sl_cpu_arms("reference", reference, &n, NULL), SL_OK);
  options.backends[0] = &math_device;
  options.backends[1] = reference[0];
  options.n_backends = 2;
  sl_plan *plan;
  assert_int_equal(sl_plan_make(model, &options, &plan, NULL), SL_OK);
  int n_exact = 0;
  for (int i = 0; i < model->program.n_nodes; i++) {
    const sl_node *node = &model->program.nodes[i];
    if (node->op != SL_OP_MATMUL_BT) continue;
    bool is_router = strcmp(node->name, "router.proj") == 0;
    for (int role = 0; role < SL_N_ROLES; role++)
      assert_ptr_equal(plan->arms[plan->nodes[i].arm[role]].kernel, &by_math[is_router ? SL_EXACT : SL_FAST]);
    n_exact += is_router;
  }
  assert_int_equal(n_exact, model->program.n_expert_layers);
  sl_plan_free(plan);
  sl_model_free(model);
}

static void a_tokens_bytes_are_those_of_the_tensors_it_reads(void **state) {
  (void)state;
  sl_model *model = open_model(GEMMA3);
  sl_plan *plan = make_plan(model, "reference", 16);
  /* hidden 80, 4 heads and 2 KV heads of 16, intermediate 96, 7 layers, vocabulary 512, bf16 */
  uint64_t layer = 64 * 80 + 2 * 32 * 80 + 80 * 64 + 3 * 96 * 80;
  assert_int_equal(plan->token_matrix_bytes, 2 * (7 * layer + 512 * 80 + 80));
  assert_int_equal(plan->token_expert_bytes, 0);
  assert_int_equal(plan->token_flops, 2 * 7 * layer);
  sl_plan_free(plan);
  sl_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_node_has_a_kernel_in_both_roles),
      cmocka_unit_test(values_that_live_together_do_not_overlap),
      cmocka_unit_test(values_are_read_only_after_they_are_written),
      cmocka_unit_test(a_ring_holds_the_window_and_a_chunk),
      cmocka_unit_test(what_a_device_lacks_is_planned_around),
      cmocka_unit_test(the_router_is_exact_in_fast_math_too),
      cmocka_unit_test(a_tokens_bytes_are_those_of_the_tensors_it_reads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
