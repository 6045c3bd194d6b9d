/* Helpers that the families' config readers share. */
#ifndef SL_MODEL_CONFIG_READ_H
#define SL_MODEL_CONFIG_READ_H

#include "model/config.h"

typedef struct sl_config_reader {
  const json_t *root;    /* config.json */
  const json_t *text;    /* its text_config, or root in a flat config */
  const char *where;     /* of text, for sentences */
  const char *text_type; /* model_type that text has */
  sl_model_config *out;
  sl_error *err;
} sl_config_reader;

/* Defaults that are not the same for all layers. */
typedef struct sl_layer_defaults {
  int head_dim, n_kv_heads, intermediate;
} sl_layer_defaults;

/* "WHERE: KEY: found VALUE, expected EXPECTED" about a field of an object; returns status. */
sl_status sl_config_wrong(const json_t *object, const char *where, const char *key, sl_status status,
                          const char *expected, sl_error *err);
/* Whether the text config has the key with a value other than null. */
bool sl_config_has(const sl_config_reader *r, const char *key);

/* Fields of the text config.  Missing: the default; null is an error, as any other wrong type. */
sl_status sl_config_int(const sl_config_reader *r, const char *key, int fallback, int lowest, int highest, int *value);
sl_status sl_config_real(const sl_config_reader *r, const char *key, double fallback, double lowest, double highest,
                         double *value);
sl_status sl_config_bool(const sl_config_reader *r, const char *key, bool fallback, bool *value);
/* Refuses the text config if one of the keys (NULL-terminated list) has a value that asks for something: neither
 * null, false, 0, nor an empty list or object. */
sl_status sl_config_unsupported(const sl_config_reader *r, const char *const *keys);

/* What both families have with the same names: sizes, norm, activation, softcap, window, biases. */
sl_status sl_config_common(sl_config_reader *r, int vocab, int window, sl_layer_defaults *defaults);
/* Makes out->layers: kinds from layer_types, or else a full layer after every pattern-1 sliding ones; head_dim,
 * n_kv_heads and intermediate from the defaults. */
sl_status sl_config_layers(sl_config_reader *r, int pattern, const sl_layer_defaults *defaults);
/* One RoPE description.  *out holds the theta that counts if the object has none; theta 0: it must have one. */
sl_status sl_config_rope(const json_t *object, const char *where, sl_rope *out, sl_error *err);
/* rope_parameters may only be nested by layer type; *object is NULL where there is nothing for `type`. */
sl_status sl_config_rope_parameters(const sl_config_reader *r, const char *type, const json_t **object);
/* Adds a sentence to out->notes. */
sl_status sl_config_note(sl_model_config *out, sl_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

sl_status sl_config_quantization(const sl_config_reader *r);
/* eos, bos, suppressed tokens, sampling defaults; generation may be NULL. */
sl_status sl_config_generation(const sl_config_reader *r, const json_t *generation);

/* The families: fill *r->out from r->text. */
sl_status sl_gemma4_config(sl_config_reader *r);
sl_status sl_gemma3_config(sl_config_reader *r);

#endif
