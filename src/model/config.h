/* What a checkpoint's config says about its model: every number that the arithmetic needs, checked.
 *
 * config.json and generation_config.json are read as transformers reads them, its defaults included.  A field that
 * changes the arithmetic and is not understood is refused by name; what is understood but not followed (a sampling
 * default that sluice does not have, activations that the file would round) is said in `notes`. */
#ifndef SL_MODEL_CONFIG_H
#define SL_MODEL_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "ops/ops.h"
#include "weights/checkpoint.h"

/* Limits.  They keep every product of two of these in an int and of three in an int64_t (head_dim with heads, heads
 * with layers, ...), and positions exact in f32. */
#define SL_MAX_HIDDEN     131072
#define SL_MAX_VOCABULARY (1 << 22)
#define SL_MAX_LAYERS     1024
#define SL_MAX_HEADS      1024
#define SL_MAX_HEAD_DIM   4096
#define SL_MAX_WIDTH      (1 << 20) /* of an MLP, and of an expert */
#define SL_MAX_PLE        8192      /* per layer */
#define SL_MAX_EXPERTS    16384
#define SL_MAX_TOP_K      256
#define SL_MAX_CTX        (1 << 24)
#define SL_MAX_EOS        64
#define SL_MAX_SUPPRESS   1024

typedef enum sl_rope_kind {
  SL_ROPE_DEFAULT,     /* inv_freq[i] = theta^(-2i/head_dim) */
  SL_ROPE_LINEAR,      /* the same, divided by factor */
  SL_ROPE_PROPORTIONAL /* the same for i < floor(partial_rotary_factor * head_dim / 2), 0 beyond; divided by factor */
} sl_rope_kind;

typedef struct sl_rope {
  sl_rope_kind kind;
  double theta;
  double factor;                /* 1: none */
  double partial_rotary_factor; /* 1: the whole head */
} sl_rope;

/* out: [head_dim/2], with the roundings of transformers in f32.  head_dim is even. */
void sl_rope_inv_freq(float *out, const sl_rope *rope, int head_dim);

/* Indices into sl_model_config.ropes. */
enum { SL_ROPE_OF_SLIDING, SL_ROPE_OF_FULL, SL_N_ROPES };

typedef struct sl_layer_config {
  bool is_sliding;
  int head_dim;     /* even */
  int n_kv_heads;   /* divides n_heads; that of kv_source in a layer that shares */
  int intermediate; /* of the dense MLP, doubled where the config says so */
  bool v_from_k;    /* there is no v_proj: v comes from k_proj's output, before k_norm */
  int kv_source;    /* the layer whose keys and values are used: this one, or an earlier one */
  bool is_moe;      /* experts beside the dense MLP */
  int rope;         /* SL_ROPE_OF_SLIDING or SL_ROPE_OF_FULL */
} sl_layer_config;

typedef enum sl_quant {
  SL_QUANT_NONE,
  SL_QUANT_FP8_CHANNEL /* compressed-tensors: F8_E4M3 with a multiplier per row, where a tensor is quantised at all */
} sl_quant;

typedef struct sl_model_config {
  const char *family;     /* "gemma4" or "gemma3", static */
  const char *model_type; /* as the top level of config.json spells it, static */
  int hidden, vocab, n_layers, n_heads;
  double eps;         /* of every norm */
  bool norm_plus_one; /* norms multiply by 1 + w (Gemma 3) instead of w */
  sl_activation activation;
  double softcap;        /* of the logits; 0: none */
  float attention_scale; /* 1 in Gemma 4, query_pre_attn_scalar^-1/2 in Gemma 3 */
  float embed_scale;     /* what the token embedding is multiplied by: sl_embed_scale */
  int window;            /* keys that a sliding layer sees, itself included */
  int max_ctx;
  bool is_tied; /* the embedding is the head; else there is lm_head.weight */
  sl_rope ropes[SL_N_ROPES];
  sl_layer_config *layers; /* [n_layers] */

  int ple_width;   /* per-layer embeddings: their width per layer, 0 for none */
  int ple_vocab;   /* rows of their table, which are n_layers * ple_width wide */
  float ple_scale; /* as embed_scale */

  int n_experts, top_k, moe_intermediate; /* 0 in dense models */

  sl_quant quantization;

  int bos;                 /* -1: none */
  int32_t eos[SL_MAX_EOS]; /* union of both files, in order of appearance */
  int n_eos;
  int32_t suppress[SL_MAX_SUPPRESS]; /* generation_config's suppress_tokens: never sampled */
  int n_suppress;

  /* Sampling defaults in sl_sampling's terms: temperature 0 is greedy, top_k 0, top_p 1 and min_p 0 are off. */
  bool do_sample;
  double temperature, top_p, min_p;
  int sample_top_k;

  char **notes; /* sentences about what is not followed */
  int n_notes;
} sl_model_config;

/* Reads the checkpoint's config, and its embeddings' dtypes for their scales; looks at model_type and refuses others by
 * name with the list of those that there are. *out is overwritten; after SL_OK it is freed with sl_model_config_free,
 * after a failure there is nothing to free. Errors: SL_ERR_FORMAT (wrong types, out of range, contradictory),
 * SL_ERR_UNSUPPORTED, SL_ERR_MEMORY. */
sl_status sl_model_config_read(const sl_checkpoint *checkpoint, sl_model_config *out, sl_error *err);
/* The same from JSON alone (the embeddings' scales are then not rounded); generation_config may be NULL. */
sl_status sl_model_config_parse(const json_t *config, const json_t *generation_config, sl_model_config *out,
                                sl_error *err);
void sl_model_config_free(sl_model_config *config); /* what the struct owns, not the struct; a zeroed one is fine */

/* What the token embedding is multiplied by: sqrt(width), rounded to the table's dtype where that is BF16 or F16, as
 * transformers does (2816: 53, not 53.066).  Also for per-layer embeddings, with their width. */
float sl_embed_scale(int width, sl_dtype table_dtype);

/* A new JSON object for `sluice inspect`; NULL when out of memory.  The caller frees it with json_decref. */
json_t *sl_model_config_json(const sl_model_config *config);

#endif
