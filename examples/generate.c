/* Continues a text with a model: generate FOLDER TEXT [N].
 *
 *   cc generate.c $(pkg-config --cflags --libs sluice) -o generate */
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct state {
  sl_engine *engine;
  sl_session *session;
  sl_text_stream *stream;
  int32_t *ids;
  size_t n_ids;
} state;

static sl_status open_all(state *s, const char *folder, const char *text, sl_error *err) {
  sl_options options;
  sl_options_init(&options); /* all threads, exact arithmetic, the best kernels of this CPU */
  sl_status status = sl_engine_open(folder, &options, &s->engine, err);
  if (status == SL_OK) status = sl_tokenize(s->engine, text, strlen(text), false, true, &s->ids, &s->n_ids, err);
  if (status == SL_OK)
    status = sl_session_new(s->engine, NULL, &s->session, err); /* samples as the model's files say */
  if (status == SL_OK) status = sl_session_feed(s->session, s->ids, s->n_ids, err);
  if (status == SL_OK) status = sl_text_stream_new(s->engine, false, &s->stream, err);
  return status;
}

/* One token at a time; the stream holds back what is not yet a whole character. */
static sl_status generate(state *s, int n, sl_error *err) {
  sl_model_info info = {.size = sizeof info};
  sl_engine_info(s->engine, &info);
  for (int i = 0; i < n && sl_session_room(s->session) > 0; i++) {
    int32_t id;
    const char *text;
    size_t size;
    sl_status status = sl_session_next(s->session, &id, err);
    if (status != SL_OK) return status;
    for (int e = 0; e < info.n_eos; e++)
      if (id == info.eos[e]) return SL_OK;
    status = sl_text_stream_put(s->stream, id, &text, &size, err);
    if (status != SL_OK) return status;
    fwrite(text, 1, size, stdout);
    fflush(stdout);
  }
  return SL_OK;
}

int main(int argc, char **argv) {
  if (argc < 3) return fprintf(stderr, "usage: generate FOLDER TEXT [N]\n"), 2;
  state s = {0};
  sl_error err;
  sl_status status = open_all(&s, argv[1], argv[2], &err);
  if (status == SL_OK) status = generate(&s, argc > 3 ? atoi(argv[3]) : 200, &err);
  if (status != SL_OK) fprintf(stderr, "%s: %s\n", sl_status_name(status), err.text);
  sl_text_stream_free(s.stream), sl_session_free(s.session), sl_ids_free(s.ids), sl_engine_free(s.engine);
  return status == SL_OK ? 0 : 1;
}
