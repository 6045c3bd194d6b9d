/* What a call of sluice answers: a status, and a sentence that names the thing.
 *
 * Every function that can fail returns sl_status and takes a last argument `sl_error *err`, which may be NULL.
 * On failure the sentence says what, where, which value was found and which was expected.  On success it is
 * left untouched. */
#ifndef SLUICE_STATUS_H
#define SLUICE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SL_API __attribute__((visibility("default")))
#else
#define SL_API
#endif

typedef enum sl_status {
  SL_OK = 0,
  SL_ERR_ARGUMENT,     /* the caller's argument or option is wrong: unknown name, out of range */
  SL_ERR_NOT_FOUND,    /* a file, folder or model is not there */
  SL_ERR_FORMAT,       /* a file does not hold what its format promises */
  SL_ERR_UNSUPPORTED,  /* well-formed, but sluice cannot run it; the sentence says which part */
  SL_ERR_MEMORY,       /* an allocation failed or a budget is too small */
  SL_ERR_CONTEXT_FULL, /* more tokens than the context holds */
  SL_ERR_IO,           /* the system failed to read or write */
  SL_ERR_NOT_FINITE,   /* a weight or a computed value is NaN or infinite */
  SL_ERR_STATE,        /* the call does not fit the object's state, for example next before any feed */
  SL_ERR_CANCELLED     /* sl_session_cancel was called */
} sl_status;

typedef struct sl_error {
  sl_status status;
  char text[1024]; /* one sentence, UTF-8, always terminated; longer text is cut at a character */
} sl_error;

/* The status's name, "SL_ERR_FORMAT" for example; never NULL. */
SL_API const char *sl_status_name(sl_status status);

#ifdef __cplusplus
}
#endif
#endif
