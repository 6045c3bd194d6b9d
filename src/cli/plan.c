/* sluice plan: what would run, where, in which memory and how fast. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "console.h"
#include "model.h"
#include "report.h"
#include "show.h"
#include "table.h"

/* "avx512/matmul_bt/panel_f32" as "avx512/panel_f32": the operation has a column of its own. */
static char *short_kernel(const char *kernel, const char *op) {
  char *middle = text_format("/%s", op);
  const char *at = middle ? strstr(kernel, middle) : NULL;
  size_t n = middle ? strlen(middle) : 0;
  char *text =
      at && (at[n] == '/' || !at[n]) ? text_format("%.*s%s", (int)(at - kernel), kernel, at + n) : text_copy(kernel);
  free(middle);
  return text;
}

static void print_ops(const json_t *ops) {
  table t;
  table_init(&t, "lllll");
  table_row(&t, (const char *const[]){"op", "name", "shape", "prompt", "generated"});
  size_t i;
  json_t *op;
  json_array_foreach((json_t *)ops, i, op) {
    const char *name = show_string(op, "op");
    char *prompt = short_kernel(show_string(op, "prompt"), name);
    char *generated = short_kernel(show_string(op, "generated"), name);
    char *shape = show_value(json_object_get(op, "shape"));
    bool same = prompt && generated && strcmp(prompt, generated) == 0;
    table_row(&t, (const char *const[]){name, show_string(op, "name"), shape, prompt, same ? "same" : generated});
    free(prompt);
    free(generated);
    free(shape);
  }
  table_print(&t, "  ");
  table_free(&t);
  out_format("\n");
}

static json_t *ops_of(const json_t *layers, size_t i) { return json_object_get(json_array_get(layers, i), "ops"); }

/* "layers 0-4, 6-10": all layers from `first` on that run the same operations; marks them as printed. */
static void print_title(const json_t *layers, size_t first, char *printed) {
  size_t n = json_array_size(layers), n_same = 0;
  for (size_t i = first; i < n; i++)
    if (json_equal(ops_of(layers, first), ops_of(layers, i))) printed[i] = 2, n_same++;
  out_format(n_same == 1 ? "layer " : "layers ");
  const char *comma = "";
  for (size_t i = first; i < n; i++) {
    if (printed[i] != 2) continue;
    size_t end = i;
    while (end + 1 < n && printed[end + 1] == 2) end++;
    out_format(end > i ? "%s%.0f-%.0f" : "%s%.0f", comma, show_number(json_array_get(layers, i), "layer"),
               show_number(json_array_get(layers, end), "layer"));
    comma = ", ";
    for (; i < end; i++) printed[i] = 1;
    printed[end] = 1;
  }
  out_format("\n");
}

static void print_layers(const json_t *layers) {
  char *printed = calloc(json_array_size(layers) + 1, 1);
  if (!printed) {
    out_no_memory();
    return;
  }
  for (size_t i = 0; i < json_array_size(layers); i++) {
    if (printed[i]) continue;
    print_title(layers, i, printed);
    print_ops(ops_of(layers, i));
  }
  free(printed);
}

static void print_pairs(const char *title, const json_t *object, bool bytes) {
  if (!json_object_size(object)) return;
  out_format("%s\n", title);
  table t;
  table_init(&t, bytes ? "lr" : "ll");
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    char size[16];
    char *text = bytes ? text_copy(report_bytes(size, json_number_value(value))) : show_value(value);
    table_row(&t, (const char *const[]){key, text});
    free(text);
  }
  table_print(&t, "  ");
  table_free(&t);
  out_format("\n");
}

static void print_per_token(const json_t *per_token) {
  if (!json_object_size(per_token)) return;
  char all[16], trunk[16], experts[16], kv[16];
  double flops = show_number(per_token, "flops");
  out_format("per decoded token\n  reads %s: trunk %s, experts %s; KV at a full context %s\n"
             "  computes %.3g %s\n\n",
             report_bytes(all, show_number(per_token, "bytes")),
             report_bytes(trunk, show_number(per_token, "trunk_bytes")),
             report_bytes(experts, show_number(per_token, "expert_bytes")),
             report_bytes(kv, show_number(per_token, "kv_bytes_full_ctx")), flops / (flops < 1e9 ? 1e6 : 1e9),
             flops < 1e9 ? "MFLOP" : "GFLOP");
}

static void print_expected(const json_t *limits, const json_t *expected) {
  if (!json_object_size(limits)) return;
  char read[32], f32[32], bf16[32];
  out_format("this machine\n  reads %s, computes f32 at %s and bf16 at %s\n",
             show_rate(read, show_number(limits, "read_bytes_per_s"), "B/s"),
             show_rate(f32, show_number(limits, "f32_flops"), "FLOPS"),
             show_rate(bf16, show_number(limits, "bf16_flops"), "FLOPS"));
  if (!json_object_size(expected)) return;
  out_format("  so expect up to %.1f tokens/s decoded (%.1f at a full context)", show_number(expected, "decode_tps"),
             show_number(expected, "decode_tps_full_ctx"));
  if (json_object_get(expected, "prompt_tps")) out_format(", %.0f of prompt", show_number(expected, "prompt_tps"));
  out_format("\n");
  const json_t *fast = json_object_get(expected, "fast");
  if (json_object_size(fast))
    out_format("  with --math fast: %.1f decoded, %.0f of prompt\n", show_number(fast, "decode_tps"),
               show_number(fast, "prompt_tps"));
}

static int print_report(char *text) {
  json_t *plan = show_parse(text);
  if (!plan) return CLI_FAILED;
  print_pairs("model", json_object_get(plan, "model"), false);
  print_pairs("options", json_object_get(plan, "options"), false);
  if (json_array_size(json_object_get(plan, "outside"))) {
    out_format("outside the layers\n");
    print_ops(json_object_get(plan, "outside"));
  }
  print_layers(json_object_get(plan, "layers"));
  print_pairs("memory", json_object_get(plan, "bytes"), true);
  print_per_token(json_object_get(plan, "per_token"));
  print_expected(json_object_get(plan, "limits"), json_object_get(plan, "expected"));
  json_decref(plan);
  return CLI_DONE;
}

int cli_plan(const cli_args *args) {
  cli_model model;
  int status = model_open(&model, args);
  if (status == CLI_DONE) {
    char *text;
    sl_error err;
    if (sl_engine_plan_json(model.engine, true, &text, &err) != SL_OK) {
      console_error("%s", err.text);
      status = CLI_REFUSED;
    } else {
      status = cli_on(args, FLAG_JSON) ? show_raw(text) : print_report(text);
    }
  }
  model_close(&model);
  return status;
}
