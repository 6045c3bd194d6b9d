/* Configs: what is understood, with values from transformers, and what is refused by name. */
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "model/config.h"
#include "unit/unit.h"

/* ---- configs to begin from --------------------------------------------------------------------------------------- */

/* As the 26B-A4B's, nested. */
static const char MOE[] =
    "{\"architectures\":[\"Gemma4ForConditionalGeneration\"],\"model_type\":\"gemma4\",\"eos_token_id\":[1,106],"
    "\"tie_word_embeddings\":true,\"vision_config\":{\"model_type\":\"gemma4_vision\"},\"audio_config\":null,"
    "\"text_config\":{\"attention_bias\":false,\"attention_k_eq_v\":true,\"bos_token_id\":2,\"enable_moe_block\":true,"
    "\"eos_token_id\":1,\"final_logit_softcapping\":30.0,\"global_head_dim\":512,\"head_dim\":256,"
    "\"hidden_activation\":\"gelu_pytorch_tanh\",\"hidden_size\":2816,\"hidden_size_per_layer_input\":0,"
    "\"intermediate_size\":2112,\"max_position_embeddings\":262144,\"model_type\":\"gemma4_text\","
    "\"moe_intermediate_size\":704,\"num_attention_heads\":16,\"num_experts\":128,\"num_global_key_value_heads\":2,"
    "\"num_hidden_layers\":30,\"num_key_value_heads\":8,\"num_kv_shared_layers\":0,\"rms_norm_eps\":1e-06,"
    "\"rope_parameters\":{\"full_attention\":{\"partial_rotary_factor\":0.25,\"rope_theta\":1000000.0,"
    "\"rope_type\":\"proportional\"},\"sliding_attention\":{\"rope_theta\":10000.0,\"rope_type\":\"default\"}},"
    "\"sliding_window\":1024,\"tie_word_embeddings\":true,\"top_k_experts\":8,\"use_bidirectional_attention\":"
    "\"vision\","
    "\"use_double_wide_mlp\":false,\"vocab_size\":262144}}";

/* As the E2B's, flat: five layers a period, the last 20 of 35 share. */
static const char SMALL[] =
    "{\"model_type\":\"gemma4_text\",\"hidden_size\":1536,\"hidden_size_per_layer_input\":256,\"intermediate_size\":"
    "6144,"
    "\"num_attention_heads\":8,\"num_hidden_layers\":35,\"num_key_value_heads\":1,\"num_kv_shared_layers\":20,"
    "\"use_double_wide_mlp\":true,\"sliding_window\":512,\"final_logit_softcapping\":30.0,\"layer_types\":["
#define PERIOD                                                                                                         \
  "\"sliding_attention\",\"sliding_attention\",\"sliding_attention\",\"sliding_attention\",\"full_attention\""
    PERIOD "," PERIOD "," PERIOD "," PERIOD "," PERIOD "," PERIOD "," PERIOD "]}";

/* As Gemma 3's 4B: nearly everything left to the defaults, and keys of older files. */
static const char GEMMA3[] =
    "{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"model_type\":\"gemma3\",\"eos_token_id\":[1,106],"
    "\"text_config\":{\"hidden_size\":2560,\"intermediate_size\":10240,\"model_type\":\"gemma3_text\","
    "\"num_hidden_layers\":34,\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"},\"sliding_window\":1024}}";

static const char FP8[] =
    "{\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\",\"quantization_status\":\"compressed\","
    "\"ignore\":[\"lm_head\"],\"kv_cache_scheme\":null,\"sparsity_config\":{},\"transform_config\":{},"
    "\"config_groups\":{\"group_0\":{\"format\":\"float-quantized\",\"targets\":[\"Linear\"],\"output_activations\":"
    "null,"
    "\"input_activations\":{\"dynamic\":true,\"num_bits\":8,\"strategy\":\"token\",\"type\":\"float\"},"
    "\"weights\":{\"num_bits\":8,\"type\":\"float\",\"strategy\":\"channel\",\"symmetric\":true,\"dynamic\":false,"
    "\"group_size\":null,\"actorder\":null,\"block_structure\":null}}}}";

static json_t *load(const char *text) {
  json_t *out = json_loads(text, JSON_DECODE_ANY, NULL);
  if (!out) fail_msg("the test's own JSON is wrong: %s", text);
  return out;
}

/* A dotted path to a field; the value as JSON text, or NULL to take the field away. */
static json_t *edited(const char *base, const char *path, const char *value) {
  json_t *root = load(base), *at = root;
  char copy[256], *save = NULL;
  snprintf(copy, sizeof copy, "%s", path);
  char *part = strtok_r(copy, ".", &save);
  for (char *next = strtok_r(NULL, ".", &save); next; next = strtok_r(NULL, ".", &save)) {
    at = json_object_get(at, part);
    part = next;
  }
  if (value)
    json_object_set_new(at, part, load(value));
  else
    json_object_del(at, part);
  return root;
}

static void accept(const char *base, const char *path, const char *value, sl_model_config *out) {
  sl_error err = {0};
  json_t *root = path ? edited(base, path, value) : load(base);
  if (sl_model_config_parse(root, NULL, out, &err) != SL_OK) fail_msg("refused: %s", err.text);
  json_decref(root);
}

/* The sentence holds the path's last part and, where given, a word. */
static void refuse(const char *base, const char *path, const char *value, sl_status status, const char *word) {
  sl_error err = {0};
  sl_model_config c;
  json_t *root = edited(base, path, value);
  sl_status found = sl_model_config_parse(root, NULL, &c, &err);
  json_decref(root);
  if (found == SL_OK) sl_model_config_free(&c);
  if (found != status) fail_msg("%s %s: %s: %s", path, value ? value : "-", sl_status_name(found), err.text);
  const char *key = strrchr(path, '.') ? strrchr(path, '.') + 1 : path;
  if (!strstr(err.text, word ? word : key)) fail_msg("\"%s\" does not say \"%s\"", err.text, word ? word : key);
  if (!strstr(err.text, "config.json")) fail_msg("\"%s\" names no file", err.text);
}

/* ---- Gemma 4 ----------------------------------------------------------------------------------------------------- */

static void the_26b_is_understood(void **state) {
  (void)state;
  sl_model_config c;
  accept(MOE, NULL, NULL, &c);
  assert_string_equal(c.family, "gemma4");
  assert_string_equal(c.model_type, "gemma4");
  assert_int_equal(c.hidden, 2816);
  assert_int_equal(c.vocab, 262144);
  assert_int_equal(c.n_layers, 30);
  assert_int_equal(c.n_heads, 16);
  assert_int_equal(c.n_experts, 128);
  assert_int_equal(c.top_k, 8);
  assert_int_equal(c.moe_intermediate, 704);
  assert_int_equal(c.window, 1024);
  assert_int_equal(c.max_ctx, 262144);
  assert_int_equal(c.ple_width, 0);
  assert_true(c.is_tied);
  assert_false(c.norm_plus_one);
  assert_true(c.softcap == 30.0 && c.eps == 1e-6 && c.attention_scale == 1.0f);
  assert_int_equal(c.quantization, SL_QUANT_NONE);
  for (int l = 0; l < 30; l++) { /* full layers are 5, 11, 17, 23, 29 */
    const sl_layer_config *layer = &c.layers[l];
    bool is_full = l == 5 || l == 11 || l == 17 || l == 23 || l == 29;
    assert_int_equal(layer->is_sliding, !is_full);
    assert_int_equal(layer->head_dim, is_full ? 512 : 256);
    assert_int_equal(layer->n_kv_heads, is_full ? 2 : 8);
    assert_int_equal(layer->v_from_k, is_full);
    assert_int_equal(layer->rope, is_full ? SL_ROPE_OF_FULL : SL_ROPE_OF_SLIDING);
    assert_int_equal(layer->intermediate, 2112);
    assert_int_equal(layer->kv_source, l);
    assert_true(layer->is_moe);
  }
  sl_model_config_free(&c);
}

static void the_e2b_shares_keys_and_doubles_its_mlp(void **state) {
  (void)state;
  sl_model_config c;
  accept(SMALL, NULL, NULL, &c);
  for (int l = 0; l < 35; l++) { /* layers 15 to 34 use those of 13 (sliding) and 14 (full), 12288 wide */
    bool is_full = l % 5 == 4;
    assert_int_equal(c.layers[l].kv_source, l < 15 ? l : is_full ? 14 : 13);
    assert_int_equal(c.layers[l].intermediate, l < 15 ? 6144 : 12288);
    assert_int_equal(c.layers[l].n_kv_heads, 1);
    assert_false(c.layers[l].v_from_k);
    assert_false(c.layers[l].is_moe);
  }
  assert_int_equal(c.ple_width, 256);
  assert_int_equal(c.ple_vocab, 262144);
  assert_int_equal(c.n_experts, 0);
  sl_model_config_free(&c);
}

static void per_layer_config_replaces_the_global_keys(void **state) {
  (void)state;
  sl_model_config c;
  accept(MOE, "text_config.per_layer_config",
         "{\"05\":{\"head_dim\":384,\"num_key_value_heads\":4},\"11\":{\"head_dim\":384},\"17\":{\"head_dim\":384},"
         "\"23\":{\"head_dim\":384},\"29\":{\"head_dim\":384,\"skip\":[]}}",
         &c);
  assert_int_equal(c.layers[5].head_dim, 384);
  assert_int_equal(c.layers[5].n_kv_heads, 4);
  assert_int_equal(c.layers[11].n_kv_heads, 8); /* num_global_key_value_heads has no say any more */
  assert_int_equal(c.layers[4].head_dim, 256);
  sl_model_config_free(&c);
}

static void layer_keys_may_be_unpadded(void **state) {
  (void)state;
  sl_model_config c;
  json_t *root = edited(MOE, "text_config.per_layer_config", "{\"5\":{\"head_dim\":512}}");
  json_object_set_new(json_object_get(root, "text_config"), "num_hidden_layers", json_integer(6));
  assert_int_equal(sl_model_config_parse(root, NULL, &c, NULL), SL_OK);
  assert_int_equal(c.layers[5].head_dim, 512);
  json_decref(root);
  sl_model_config_free(&c);
}

static void the_global_kv_heads_count_only_with_k_equal_v(void **state) {
  (void)state;
  sl_model_config c;
  accept(MOE, "text_config.attention_k_eq_v", "false", &c);
  assert_int_equal(c.layers[5].n_kv_heads, 8);
  assert_false(c.layers[5].v_from_k);
  sl_model_config_free(&c);
}

static void the_last_layer_is_full_and_it_is_said(void **state) {
  (void)state;
  sl_model_config c;
  accept(MOE, "text_config.num_hidden_layers", "12", &c);
  assert_int_equal(c.n_notes, 0);
  sl_model_config_free(&c);
  accept(MOE, "text_config.num_hidden_layers", "13", &c);
  assert_false(c.layers[12].is_sliding);
  assert_int_equal(c.layers[12].head_dim, 512);
  assert_int_equal(c.n_notes, 1);
  assert_non_null(strstr(c.notes[0], "last layer"));
  sl_model_config_free(&c);
}

static void defaults_are_those_of_transformers(void **state) {
  (void)state;
  sl_model_config c;
  accept("{\"model_type\":\"gemma4_text\"}", NULL, NULL, &c);
  assert_int_equal(c.hidden, 2304);
  assert_int_equal(c.n_layers, 30);
  assert_int_equal(c.window, 512);
  assert_int_equal(c.ple_width, 256);
  assert_int_equal(c.max_ctx, 131072);
  assert_int_equal(c.layers[5].head_dim, 512);
  assert_int_equal(c.layers[5].n_kv_heads, 4);
  assert_int_equal(c.bos, 2);
  assert_int_equal(c.n_eos, 1);
  assert_int_equal(c.eos[0], 1);
  sl_model_config_free(&c);
}

static void the_unified_model_has_no_per_layer_embeddings(void **state) {
  (void)state;
  const char *text = "{\"model_type\":\"gemma4_unified\",\"text_config\":{\"model_type\":\"gemma4_unified_text\"}}";
  sl_model_config c;
  accept(text, NULL, NULL, &c);
  assert_string_equal(c.family, "gemma4");
  assert_int_equal(c.ple_width, 0);
  assert_int_equal(c.window, 1024);
  assert_int_equal(c.max_ctx, 262144);
  sl_model_config_free(&c);
  refuse(text, "text_config.enable_moe_block", "true", SL_ERR_UNSUPPORTED, NULL);
  refuse(text, "text_config.hidden_size_per_layer_input", "256", SL_ERR_UNSUPPORTED, NULL);
}

/* ---- Gemma 3 ----------------------------------------------------------------------------------------------------- */

static void gemma3_with_old_keys_is_understood(void **state) {
  (void)state;
  sl_model_config c;
  accept(GEMMA3, NULL, NULL, &c);
  assert_string_equal(c.family, "gemma3");
  assert_int_equal(c.vocab, 262208);
  assert_int_equal(c.n_heads, 8);
  assert_int_equal(c.layers[0].n_kv_heads, 4);
  assert_int_equal(c.layers[0].head_dim, 256);
  assert_true(c.norm_plus_one);
  assert_true(c.attention_scale == 0.0625f && c.softcap == 0.0);
  assert_true(c.layers[4].is_sliding);
  assert_false(c.layers[5].is_sliding);
  assert_true(c.layers[33].is_sliding); /* nothing forces this family's last layer */
  assert_int_equal(c.ropes[SL_ROPE_OF_FULL].kind, SL_ROPE_LINEAR);
  assert_true(c.ropes[SL_ROPE_OF_FULL].factor == 8.0 && c.ropes[SL_ROPE_OF_FULL].theta == 1e6);
  assert_int_equal(c.ropes[SL_ROPE_OF_SLIDING].kind, SL_ROPE_DEFAULT);
  assert_true(c.ropes[SL_ROPE_OF_SLIDING].factor == 1.0 && c.ropes[SL_ROPE_OF_SLIDING].theta == 1e4);
  sl_model_config_free(&c);
}

static void gemma3_takes_thetas_and_pattern_of_old_files(void **state) {
  (void)state;
  sl_model_config c;
  accept(GEMMA3, "text_config.rope_theta", "500000", &c);
  assert_true(c.ropes[SL_ROPE_OF_FULL].theta == 5e5 && c.ropes[SL_ROPE_OF_FULL].factor == 8.0);
  sl_model_config_free(&c);
  accept(GEMMA3, "text_config.rope_local_base_freq", "20000.0", &c);
  assert_true(c.ropes[SL_ROPE_OF_SLIDING].theta == 2e4);
  sl_model_config_free(&c);
  accept(GEMMA3, "text_config.sliding_window_pattern", "2", &c);
  assert_true(c.layers[0].is_sliding && !c.layers[1].is_sliding && c.layers[2].is_sliding);
  sl_model_config_free(&c);
  accept(GEMMA3, "text_config.query_pre_attn_scalar", "168", &c);
  assert_float_equal(c.attention_scale, 0.0771516749810460, 1e-8);
  sl_model_config_free(&c);
}

static void gemma3_takes_rope_parameters_of_new_files(void **state) {
  (void)state;
  sl_model_config c;
  json_t *root = edited(GEMMA3, "text_config.rope_scaling", NULL);
  json_object_set_new(json_object_get(root, "text_config"), "rope_parameters",
                      load("{\"full_attention\":{\"rope_type\":\"linear\",\"factor\":4.0,\"rope_theta\":7e5},"
                           "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":3e4}}"));
  assert_int_equal(sl_model_config_parse(root, NULL, &c, NULL), SL_OK);
  assert_true(c.ropes[SL_ROPE_OF_FULL].theta == 7e5 && c.ropes[SL_ROPE_OF_FULL].factor == 4.0);
  assert_true(c.ropes[SL_ROPE_OF_SLIDING].theta == 3e4);
  json_decref(root);
  sl_model_config_free(&c);
}

/* ---- numbers that follow from the config ------------------------------------------------------------------------- */

static void expect_frequency(const float *inv_freq, int i, float expected) {
  if (fabsf(inv_freq[i] - expected) > 1.2e-7f * expected) /* one step of f32 */
    fail_msg("inv_freq[%d] is %a, expected %a", i, inv_freq[i], expected);
}

/* Values from transformers 5.24 (Gemma4TextRotaryEmbedding, Gemma3RotaryEmbedding). */
static void rope_frequencies_are_those_of_transformers(void **state) {
  (void)state;
  float f[256];
  const sl_rope full = {SL_ROPE_PROPORTIONAL, 1e6, 1.0, 0.25};
  unit_poison(f, 256);
  sl_rope_inv_freq(f, &full, 512);
  expect_frequency(f, 0, 1.0f);
  expect_frequency(f, 1, 0x1.e519fp-1f);
  expect_frequency(f, 17, 0x1.99218ep-2f);
  expect_frequency(f, 63, 0x1.116b1p-5f);
  for (int i = 64; i < 256; i++) assert_true(f[i] == 0.0f);
  const sl_rope sliding = {SL_ROPE_DEFAULT, 1e4, 1.0, 1.0};
  unit_poison(f, 256);
  sl_rope_inv_freq(f, &sliding, 256);
  expect_frequency(f, 1, 0x1.dc73fp-1f);
  expect_frequency(f, 50, 0x1.c0a9a4p-6f);
  expect_frequency(f, 127, 0x1.c2b922p-14f);
  assert_true(isnan(f[128]));
  const sl_rope linear = {SL_ROPE_LINEAR, 1e6, 8.0, 1.0};
  sl_rope_inv_freq(f, &linear, 256);
  expect_frequency(f, 0, 0.125f);
  expect_frequency(f, 50, 0x1.28fb5cp-11f);
  expect_frequency(f, 127, 0x1.2b07b4p-23f);
}

static void the_embedding_scale_is_rounded_to_the_tables_dtype(void **state) {
  (void)state;
  assert_true(sl_embed_scale(2816, SL_BF16) == 53.0f);
  assert_true(sl_embed_scale(2560, SL_BF16) == 50.5f);
  assert_true(sl_embed_scale(1536, SL_BF16) == 39.25f);
  assert_true(sl_embed_scale(3840, SL_BF16) == 62.0f);
  assert_true(sl_embed_scale(5376, SL_BF16) == 73.5f);
  assert_true(sl_embed_scale(2816, SL_F16) == 53.0625f);
  assert_true(sl_embed_scale(2816, SL_F32) == (float)sqrt(2816.0));
}

/* A checkpoint of one tensor: an embedding of two rows of 96, with its dtype. */
static float embed_scale_read_from_file(const char *dtype, int element, const char *prefix) {
  char folder[] = "/tmp/sluice-test-XXXXXX", path[64], header[256];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/config.json", folder);
  FILE *file = fopen(path, "wb");
  fputs("{\"model_type\":\"gemma4_text\",\"hidden_size\":96,\"vocab_size\":2}", file);
  fclose(file);
  int n_data = 2 * 96 * element;
  int n = snprintf(header, sizeof header,
                   "{\"%sembed_tokens.weight\":{\"dtype\":\"%s\",\"shape\":[2,96],\"data_offsets\":[0,%d]}}", prefix,
                   dtype, n_data);
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  file = fopen(path, "wb");
  for (int i = 0; i < 8; i++) fputc(i < 4 ? n >> (8 * i) & 255 : 0, file);
  fputs(header, file);
  for (int i = 0; i < n_data; i++) fputc(0, file);
  fclose(file);
  sl_error err = {0};
  sl_checkpoint *checkpoint = NULL;
  sl_model_config c;
  if (sl_checkpoint_open(folder, &checkpoint, &err) != SL_OK) fail_msg("%s", err.text);
  if (sl_model_config_read(checkpoint, &c, &err) != SL_OK) fail_msg("%s", err.text);
  float scale = c.embed_scale;
  sl_model_config_free(&c);
  sl_checkpoint_free(checkpoint);
  unlink(path);
  snprintf(path, sizeof path, "%s/config.json", folder);
  unlink(path);
  rmdir(folder);
  return scale;
}

static void the_embedding_scale_follows_the_files_dtype(void **state) {
  (void)state;
  assert_true(embed_scale_read_from_file("BF16", 2, "model.") == 9.8125f);
  assert_true(embed_scale_read_from_file("BF16", 2, "model.language_model.") == 9.8125f);
  assert_true(embed_scale_read_from_file("F32", 4, "model.") == (float)sqrt(96.0));
}

/* ---- end tokens and sampling ------------------------------------------------------------------------------------- */

static void parse_generation(const char *generation, sl_model_config *out) {
  sl_error err = {0};
  json_t *root = load(MOE), *gen = load(generation);
  if (sl_model_config_parse(root, gen, out, &err) != SL_OK) fail_msg("refused: %s", err.text);
  json_decref(root);
  json_decref(gen);
}

static void end_tokens_are_the_union_of_both_files(void **state) {
  (void)state;
  sl_model_config c;
  parse_generation("{\"eos_token_id\":[1,106,50],\"bos_token_id\":2}", &c);
  assert_int_equal(c.n_eos, 3);
  assert_int_equal(c.eos[0], 1);
  assert_int_equal(c.eos[1], 106);
  assert_int_equal(c.eos[2], 50);
  sl_model_config_free(&c);
  parse_generation("{\"eos_token_id\":7}", &c);
  assert_int_equal(c.n_eos, 3);
  assert_int_equal(c.eos[2], 7);
  sl_model_config_free(&c);
}

static void sampling_defaults_come_from_generation_config(void **state) {
  (void)state;
  sl_model_config c;
  parse_generation("{\"do_sample\":true,\"temperature\":0.7,\"top_k\":64,\"top_p\":0.95,\"min_p\":0.1,"
                   "\"suppress_tokens\":[258883,258882],\"repetition_penalty\":1.1}",
                   &c);
  assert_true(c.do_sample && c.temperature == 0.7 && c.top_p == 0.95 && c.min_p == 0.1);
  assert_int_equal(c.sample_top_k, 64);
  assert_int_equal(c.n_suppress, 2);
  assert_int_equal(c.suppress[0], 258883);
  assert_int_equal(c.n_notes, 1);
  assert_non_null(strstr(c.notes[0], "repetition_penalty"));
  sl_model_config_free(&c);
}

static void a_top_p_of_zero_is_one_that_sampling_takes(void **state) {
  (void)state;
  sl_model_config c;
  parse_generation("{\"do_sample\":true,\"top_p\":0}", &c);
  assert_true(c.top_p > 0 && c.top_p < 1e-6);
  sl_model_config_free(&c);
}

static void without_do_sample_it_is_greedy(void **state) {
  (void)state;
  sl_model_config c;
  parse_generation("{\"temperature\":0.7,\"top_k\":64}", &c);
  assert_true(!c.do_sample && c.temperature == 0 && c.sample_top_k == 0 && c.top_p == 1 && c.min_p == 0);
  sl_model_config_free(&c);
  accept(MOE, NULL, NULL, &c);
  assert_true(c.temperature == 0);
  sl_model_config_free(&c);
}

static void bad_generation_configs_are_refused(void **state) {
  (void)state;
  static const char *const BAD[] = {"{\"temperature\":-1,\"do_sample\":true}",
                                    "{\"temperature\":101}",
                                    "{\"temperature\":\"hot\"}",
                                    "{\"top_p\":1.5}",
                                    "{\"top_k\":1.5}",
                                    "{\"min_p\":2}",
                                    "{\"do_sample\":1}",
                                    "{\"eos_token_id\":\"</s>\"}",
                                    "{\"eos_token_id\":[1,[2]]}",
                                    "{\"eos_token_id\":262144}",
                                    "{\"eos_token_id\":-1}",
                                    "{\"bos_token_id\":[2]}",
                                    "{\"suppress_tokens\":[1.5]}",
                                    "[1]"};
  for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
    sl_error err = {0};
    sl_model_config c;
    json_t *root = load(MOE), *gen = load(BAD[i]);
    if (sl_model_config_parse(root, gen, &c, &err) != SL_ERR_FORMAT) fail_msg("%s is taken", BAD[i]);
    if (!strstr(err.text, "generation_config.json")) fail_msg("\"%s\" names no file", err.text);
    json_decref(root);
    json_decref(gen);
  }
}

/* ---- quantisation ------------------------------------------------------------------------------------------------ */

static void fp8_per_channel_is_understood(void **state) {
  (void)state;
  sl_model_config c;
  accept(MOE, "quantization_config", FP8, &c);
  assert_int_equal(c.quantization, SL_QUANT_FP8_CHANNEL);
  assert_int_equal(c.n_notes, 1);
  assert_non_null(strstr(c.notes[0], "input_activations"));
  sl_model_config_free(&c);
}

static void expect_quantization_refusal(const char *path, const char *value, sl_status status) {
  json_t *q = edited(FP8, path, value);
  char *text = json_dumps(q, 0);
  const char *key = strrchr(path, '.') ? strrchr(path, '.') + 1 : path;
  refuse(MOE, "quantization_config", text, status, key);
  free(text);
  json_decref(q);
}

static void other_quantisations_are_refused_by_name(void **state) {
  (void)state;
  const char *group = "config_groups.group_0.weights";
  char path[128];
  expect_quantization_refusal("quant_method", "\"gptq\"", SL_ERR_UNSUPPORTED);
  expect_quantization_refusal("quant_method", NULL, SL_ERR_FORMAT);
  expect_quantization_refusal("format", "\"pack-quantized\"", SL_ERR_UNSUPPORTED);
  expect_quantization_refusal("quantization_status", "\"calibration\"", SL_ERR_UNSUPPORTED);
  expect_quantization_refusal("kv_cache_scheme", "{\"num_bits\":8}", SL_ERR_UNSUPPORTED);
  expect_quantization_refusal("transform_config", "{\"x\":1}", SL_ERR_UNSUPPORTED);
  expect_quantization_refusal("config_groups", "{}", SL_ERR_FORMAT);
  expect_quantization_refusal("config_groups.group_0.input_activations", "{\"dynamic\":false}", SL_ERR_UNSUPPORTED);
  static const char *const WEIGHTS[][2] = {
      {"strategy", "\"block\""}, {"strategy", "\"tensor\""}, {"type", "\"int\""},   {"num_bits", "4"},
      {"symmetric", "false"},    {"dynamic", "true"},        {"group_size", "128"}, {"block_structure", "[128,128]"}};
  for (size_t i = 0; i < sizeof WEIGHTS / sizeof *WEIGHTS; i++) {
    snprintf(path, sizeof path, "%s.%s", group, WEIGHTS[i][0]);
    expect_quantization_refusal(path, WEIGHTS[i][1], SL_ERR_UNSUPPORTED);
  }
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void other_model_types_are_refused_with_the_list(void **state) {
  (void)state;
  refuse(MOE, "model_type", "\"llama\"", SL_ERR_UNSUPPORTED, "gemma4_unified");
  refuse(MOE, "model_type", "\"llama\"", SL_ERR_UNSUPPORTED, "llama");
  refuse(MOE, "model_type", NULL, SL_ERR_FORMAT, NULL);
  refuse(MOE, "model_type", "4", SL_ERR_FORMAT, NULL);
  refuse(MOE, "text_config.model_type", "\"gemma3_text\"", SL_ERR_UNSUPPORTED, NULL);
  refuse(MOE, "text_config", NULL, SL_ERR_FORMAT, NULL);
  refuse(MOE, "text_config", "[]", SL_ERR_FORMAT, NULL);
  refuse(SMALL, "text_config", "{}", SL_ERR_FORMAT, NULL);
  refuse(MOE, "architectures", "[\"Gemma4ForSequenceClassification\"]", SL_ERR_UNSUPPORTED, NULL);
}

static void a_config_that_is_no_object_is_refused(void **state) {
  (void)state;
  sl_error err = {0};
  sl_model_config c;
  json_t *root = load("[]");
  assert_int_equal(sl_model_config_parse(root, NULL, &c, &err), SL_ERR_FORMAT);
  assert_int_equal(sl_model_config_parse(NULL, NULL, &c, &err), SL_ERR_FORMAT);
  json_decref(root);
}

/* Each of the sizes, as a text, a fraction, null, zero, negative and absurd. */
static void bad_numbers_are_refused(void **state) {
  (void)state;
  static const char *const KEYS[] = {"hidden_size",         "vocab_size",     "num_hidden_layers",
                                     "num_attention_heads", "head_dim",       "num_key_value_heads",
                                     "intermediate_size",   "sliding_window", "max_position_embeddings",
                                     "num_experts",         "top_k_experts",  "moe_intermediate_size",
                                     "global_head_dim",     "rms_norm_eps"};
  static const char *const VALUES[] = {"\"8\"", "null", "0", "-8", "9223372036854775807", "[8]", "true"};
  for (size_t k = 0; k < sizeof KEYS / sizeof *KEYS; k++) {
    for (size_t v = 0; v < sizeof VALUES / sizeof *VALUES; v++) {
      char path[64];
      snprintf(path, sizeof path, "text_config.%s", KEYS[k]);
      refuse(MOE, path, VALUES[v], SL_ERR_FORMAT, NULL);
    }
  }
  refuse(MOE, "text_config.hidden_size", "2816.0", SL_ERR_FORMAT, NULL);
  refuse(MOE, "text_config.num_global_key_value_heads", "0", SL_ERR_FORMAT, NULL);
  refuse(MOE, "text_config.final_logit_softcapping", "0", SL_ERR_FORMAT, NULL);
  refuse(MOE, "text_config.final_logit_softcapping", "-30", SL_ERR_FORMAT, NULL);
  refuse(SMALL, "hidden_size_per_layer_input", "-1", SL_ERR_FORMAT, NULL);
  refuse(SMALL, "num_kv_shared_layers", "-1", SL_ERR_FORMAT, NULL);
  refuse(GEMMA3, "text_config.query_pre_attn_scalar", "0", SL_ERR_FORMAT, NULL);
  refuse(GEMMA3, "text_config.sliding_window_pattern", "0", SL_ERR_FORMAT, NULL);
}

static void contradictions_are_refused(void **state) {
  (void)state;
  refuse(SMALL, "vocab_size_per_layer_input", "262143", SL_ERR_FORMAT, NULL); /* ids go to both tables */
  refuse(MOE, "text_config.top_k_experts", "129", SL_ERR_FORMAT, NULL);
  refuse(MOE, "text_config.num_experts", "7", SL_ERR_FORMAT, "top_k_experts");
  refuse(MOE, "text_config.num_attention_heads", "12", SL_ERR_FORMAT, "key-value heads");
  refuse(MOE, "text_config.head_dim", "255", SL_ERR_FORMAT, "head_dim 255");
  refuse(MOE, "text_config.global_head_dim", "511", SL_ERR_FORMAT, "head_dim 511");
  refuse(MOE, "text_config.layer_types", "[\"full_attention\"]", SL_ERR_FORMAT, "expected a list of 30");
  refuse(MOE, "text_config.num_kv_shared_layers", "30", SL_ERR_FORMAT, NULL);
  refuse(MOE, "text_config.num_kv_shared_layers", "25", SL_ERR_FORMAT, NULL); /* no full layer below 5 */
  refuse(MOE, "text_config.per_layer_config", "{\"5\":{\"head_dim\":512}}", SL_ERR_UNSUPPORTED, "one kind");
  refuse(MOE, "text_config.per_layer_config", "{\"5\":{},\"05\":{}}", SL_ERR_FORMAT, "twice");
  refuse(MOE, "text_config.per_layer_config", "{\"30\":{}}", SL_ERR_FORMAT, "no layer");
  refuse(MOE, "text_config.per_layer_config", "{\"-1\":{}}", SL_ERR_FORMAT, "no layer");
  refuse(MOE, "text_config.per_layer_config", "{\"5\":{\"sliding_window\":9}}", SL_ERR_UNSUPPORTED, "layer 5");
  refuse(MOE, "text_config.per_layer_config", "{\"5\":{\"skip\":[\"mlp\"]}}", SL_ERR_UNSUPPORTED, "layer 5");
  refuse(GEMMA3, "text_config.num_key_value_heads", "3", SL_ERR_FORMAT, NULL);
  refuse(GEMMA3, "text_config.head_dim", "129", SL_ERR_FORMAT, NULL);
}

static void what_is_not_understood_is_refused_by_name(void **state) {
  (void)state;
  refuse(MOE, "text_config.hidden_activation", "\"silu\"", SL_ERR_UNSUPPORTED, NULL);
  refuse(MOE, "text_config.hidden_activation", "7", SL_ERR_FORMAT, NULL);
  refuse(MOE, "text_config.attention_bias", "true", SL_ERR_UNSUPPORTED, NULL);
  refuse(MOE, "text_config.attn_logit_softcapping", "50.0", SL_ERR_UNSUPPORTED, NULL);
  refuse(MOE, "text_config.use_bidirectional_attention", "\"all\"", SL_ERR_UNSUPPORTED, NULL);
  refuse(GEMMA3, "text_config.use_bidirectional_attention", "true", SL_ERR_UNSUPPORTED, NULL);
  refuse(GEMMA3, "text_config.attn_logit_softcapping", "50.0", SL_ERR_UNSUPPORTED, NULL);
  refuse(GEMMA3, "text_config.enable_moe_block", "true", SL_ERR_UNSUPPORTED, NULL);
  json_t *root = load(SMALL);
  json_array_set_new(json_object_get(root, "layer_types"), 3, json_string("chunked_attention"));
  char *text = json_dumps(root, 0);
  refuse(text, "num_key_value_heads", "1", SL_ERR_UNSUPPORTED, "layer 3 is \"chunked_attention\"");
  free(text);
  json_decref(root);
}

static void rope_that_is_not_understood_is_refused(void **state) {
  (void)state;
  const char *full = "text_config.rope_parameters.full_attention";
  refuse(MOE, full, "{\"rope_type\":\"yarn\",\"rope_theta\":1e6}", SL_ERR_UNSUPPORTED, "yarn");
  refuse(MOE, full, "{\"rope_type\":\"default\",\"rope_theta\":1e6,\"mscale\":2}", SL_ERR_UNSUPPORTED, "mscale");
  refuse(MOE, full, "{\"rope_type\":\"default\",\"rope_theta\":1e6,\"factor\":2}", SL_ERR_UNSUPPORTED, "factor");
  refuse(MOE, full, "{\"rope_type\":\"linear\",\"rope_theta\":1e6}", SL_ERR_FORMAT, "factor");
  refuse(MOE, full, "{\"rope_type\":\"default\"}", SL_ERR_FORMAT, "rope_theta");
  refuse(MOE, full, "{\"rope_type\":\"proportional\",\"rope_theta\":0}", SL_ERR_FORMAT, "rope_theta");
  refuse(MOE, full, "{\"rope_type\":\"proportional\",\"rope_theta\":1e6,\"partial_rotary_factor\":1.5}", SL_ERR_FORMAT,
         "partial_rotary_factor");
  refuse(MOE, full, "{\"rope_type\":\"linear\",\"factor\":2,\"rope_theta\":1e6,\"partial_rotary_factor\":0.5}",
         SL_ERR_UNSUPPORTED, "partial_rotary_factor");
  refuse(MOE, full, "null", SL_ERR_FORMAT, NULL);
  refuse(MOE, full, "[]", SL_ERR_FORMAT, NULL);
  refuse(MOE, "text_config.rope_parameters", "{\"rope_type\":\"default\",\"rope_theta\":1e4}", SL_ERR_UNSUPPORTED,
         NULL);
  refuse(MOE, "text_config.rope_parameters", "[]", SL_ERR_FORMAT, NULL);
  refuse(MOE, "text_config.partial_rotary_factor", "0.5", SL_ERR_UNSUPPORTED, NULL);
  refuse(SMALL, "rope_scaling", "{\"rope_type\":\"linear\",\"factor\":8}", SL_ERR_UNSUPPORTED, NULL);
  refuse(SMALL, "rope_theta", "1e4", SL_ERR_UNSUPPORTED, NULL);
  refuse(GEMMA3, "text_config.rope_scaling", "7", SL_ERR_FORMAT, NULL);
  refuse(GEMMA3, "text_config.rope_scaling", "{\"rope_type\":\"llama3\",\"factor\":8}", SL_ERR_UNSUPPORTED, "llama3");
}

/* ---- report and fuzzer ------------------------------------------------------------------------------------------- */

static void the_report_says_what_was_understood(void **state) {
  (void)state;
  sl_model_config c;
  accept(MOE, "quantization_config", FP8, &c);
  json_t *report = sl_model_config_json(&c);
  assert_non_null(report);
  assert_int_equal(json_integer_value(json_object_get(report, "hidden")), 2816);
  assert_int_equal(json_array_size(json_object_get(report, "layers")), 30);
  assert_string_equal(json_string_value(json_object_get(report, "quantization")), "fp8_channel");
  assert_int_equal(json_array_size(json_object_get(report, "eos")), 2);
  assert_int_equal(json_array_size(json_object_get(report, "notes")), 1);
  json_decref(report);
  sl_model_config_free(&c);
}

/* The fuzzer's inputs: a config and a generation config with a byte of zeros between them. */
static void answer_seed(const char *data, size_t size) {
  const char *cut = memchr(data, 0, size);
  size_t n = cut ? (size_t)(cut - data) : size;
  json_t *config = json_loadb(data, n, JSON_REJECT_DUPLICATES, NULL);
  json_t *generation = cut ? json_loadb(cut + 1, size - n - 1, JSON_REJECT_DUPLICATES, NULL) : NULL;
  sl_error err = {0};
  sl_model_config c;
  if (sl_model_config_parse(config, generation, &c, &err) == SL_OK)
    sl_model_config_free(&c);
  else
    assert_true(err.text[0] != '\0');
  json_decref(config);
  json_decref(generation);
}

static void seeds_of_the_fuzzer_are_answered(void **state) {
  (void)state;
  const char *folder = "tests/fuzz/seeds/config";
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
    char path[512];
    if (e->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *data = malloc(1 << 20);
    size_t size = fread(data, 1, 1 << 20, file);
    fclose(file);
    answer_seed(data, size);
    free(data);
  }
  closedir(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_26b_is_understood),
      cmocka_unit_test(the_e2b_shares_keys_and_doubles_its_mlp),
      cmocka_unit_test(per_layer_config_replaces_the_global_keys),
      cmocka_unit_test(layer_keys_may_be_unpadded),
      cmocka_unit_test(the_global_kv_heads_count_only_with_k_equal_v),
      cmocka_unit_test(the_last_layer_is_full_and_it_is_said),
      cmocka_unit_test(defaults_are_those_of_transformers),
      cmocka_unit_test(the_unified_model_has_no_per_layer_embeddings),
      cmocka_unit_test(gemma3_with_old_keys_is_understood),
      cmocka_unit_test(gemma3_takes_thetas_and_pattern_of_old_files),
      cmocka_unit_test(gemma3_takes_rope_parameters_of_new_files),
      cmocka_unit_test(rope_frequencies_are_those_of_transformers),
      cmocka_unit_test(the_embedding_scale_is_rounded_to_the_tables_dtype),
      cmocka_unit_test(the_embedding_scale_follows_the_files_dtype),
      cmocka_unit_test(end_tokens_are_the_union_of_both_files),
      cmocka_unit_test(sampling_defaults_come_from_generation_config),
      cmocka_unit_test(a_top_p_of_zero_is_one_that_sampling_takes),
      cmocka_unit_test(without_do_sample_it_is_greedy),
      cmocka_unit_test(bad_generation_configs_are_refused),
      cmocka_unit_test(fp8_per_channel_is_understood),
      cmocka_unit_test(other_quantisations_are_refused_by_name),
      cmocka_unit_test(other_model_types_are_refused_with_the_list),
      cmocka_unit_test(a_config_that_is_no_object_is_refused),
      cmocka_unit_test(bad_numbers_are_refused),
      cmocka_unit_test(contradictions_are_refused),
      cmocka_unit_test(what_is_not_understood_is_refused_by_name),
      cmocka_unit_test(rope_that_is_not_understood_is_refused),
      cmocka_unit_test(the_report_says_what_was_understood),
      cmocka_unit_test(seeds_of_the_fuzzer_are_answered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
