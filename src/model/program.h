/* A model is a program: a list of operations on named values, written once by its family's file (gemma4.c, gemma3.c),
 * top to bottom like the paper.  Everything else follows from the list: the plan resolves a kernel for each entry,
 * memory for values comes from their lifetimes, `sluice plan` prints it, the executor is one loop over it. */
#ifndef SL_MODEL_PROGRAM_H
#define SL_MODEL_PROGRAM_H

#include "ops/ops.h"
#include "weights/checkpoint.h"

/* A value: rows of `width` f32 (or i32) numbers, one row a token.  Referred to by its index in the program. */
typedef struct sl_value {
  const char *name;
  int width;
  bool in_head;  /* a value of the head: one row for each position whose logits are wanted */
  int first;     /* node that writes it first */
  int last;      /* node that reads it last */
  size_t offset; /* in the value memory, per row of the longest step; set by the plan */
} sl_value;

/* A weight matrix and where it comes from. */
typedef struct sl_matrix {
  const sl_tensor *tensor, *scale; /* scale: NULL if there is none */
  sl_weight weight;
} sl_matrix;

/* A small vector, expanded to f32 when the model is loaded: data[i] = (tensor[i] + add) * factor. */
typedef struct sl_vector {
  const sl_tensor *tensor;
  int n;
  float add, factor;
  float *data; /* NULL while only planned */
} sl_vector;

/* Keys and values of one layer, kept per session. */
typedef struct sl_kv_spec {
  int layer, n_kv_heads, head_dim;
  int window; /* 0: all positions are kept */
} sl_kv_spec;

/* The experts of one layer. */
typedef struct sl_expert_layer {
  int layer;             /* of the model */
  sl_weight gate, down;  /* shapes and dtypes that all experts of the layer share; data is NULL */
  uint64_t expert_bytes; /* stored bytes of one expert */
} sl_expert_layer;

typedef struct sl_node {
  sl_op op;
  bool is_experts;  /* the layer's routed experts: expert_ffn for generated tokens, grouped matmuls for prompts */
  const char *name; /* "self_attn.q_proj"; unique in its layer */
  int layer;        /* -1 outside of the layers */
  int in[3];        /* values; -1 where unused.  Operands in the order of the operation's arguments */
  int out[2];
  int matrix;                                      /* index into matrices, or -1 */
  int vector[3];                                   /* indices into vectors, or -1 */
  int experts;                                     /* index into expert_layers, or -1 */
  int kv;                                          /* index into kv, or -1 */
  int rows_per_token;                              /* per-head norms: heads; else 1 */
  int up_column;                                   /* geglu: first column of `up` within in[1] */
  int n_heads, n_kv_heads, head_dim, window, rope; /* rope: 0 sliding, 1 full */
  int top_k;
  float number; /* alpha of matmul_bt; eps of norms; cap; factor; scale of embeddings and attention */
  sl_activation act;
  bool renormalize;
  bool always_exact; /* the router: a rounding here would send tokens to other experts */
  bool check_finite; /* the run ends if an output is NaN or infinite */
  bool is_hidden;    /* its output is the residual stream after the embedding (layer -1) or after a layer */
} sl_node;

typedef struct sl_program {
  sl_node *nodes;
  int n_nodes;
  int head_start; /* nodes from here on are the head */
  sl_value *values;
  int n_values;
  sl_matrix *matrices;
  int n_matrices;
  sl_vector *vectors;
  int n_vectors;
  sl_kv_spec *kv;
  int n_kv;
  sl_expert_layer *expert_layers;
  int n_expert_layers;
  int logits;   /* the head's output value */
  char **names; /* owned strings behind the const char* above */
  int n_names;
} sl_program;

void sl_program_free(sl_program *program); /* frees what the struct holds, not the struct */

/* Width of the rows that a node writes to out[0], for reports and checks. */
int sl_node_width(const sl_program *program, const sl_node *node);

#endif
