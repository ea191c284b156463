/* quipu/base.h - what all parts of the interface share: errors, ids, memory, structs that grow. */
#ifndef QUIPU_BASE_H
#define QUIPU_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define QP_API __attribute__((visibility("default")))
#define QP_MUST_CHECK __attribute__((warn_unused_result))
#define QP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define QP_API
#define QP_MUST_CHECK
#define QP_PRINTF(fmt, args)
#endif

#define QP_VERSION "0.1.0"

/* The version of the library that is linked; it may differ from QP_VERSION of the header. */
QP_API const char *qp_version(void);

/* ---- structs that grow ---- */

/* A struct that the caller fills and whose first member is `size` may get new members at its end in
 * later versions. Start from QP_INIT, or set `size` to sizeof the struct; a member that is zero has
 * its default:
 *
 *   struct qp_store_options options = QP_INIT(struct qp_store_options);
 *   struct qp_action action = { .size = sizeof(action), .kind = QP_ACTION_CANCEL };
 *
 * The library reads `size` bytes. A program that was compiled with an older header passes a smaller
 * struct: the members that it does not have get their defaults. A larger struct of a newer header
 * is accepted when the members that the library does not know are zero. Otherwise, and when `size`
 * was not set, the call returns QP_MISUSE.
 *
 * Structs without `size` never get new members, except those that only a visitor receives. */
#ifdef __cplusplus
#define QP_INIT(type) \
  {                   \
    sizeof(type)      \
  }
#else
#define QP_INIT(type)    \
  {                      \
    .size = sizeof(type) \
  }
#endif

/* ---- errors ---- */

/* X(name, number, text). Numbers never change and are never used again.
 * NOMEM: also when the process or the system has no file descriptors left.
 * FULL: also when a quota or RLIMIT_FSIZE is reached; a program with that limit must ignore
 * SIGXFSZ. */
#define QP_RC_MAP(X)                                    \
  X(OK, 0, "ok")                                        \
  X(NOMEM, -1, "out of memory")                         \
  X(IO, -2, "input/output error")                       \
  X(CORRUPT, -3, "stored data is damaged")              \
  X(NOTFOUND, -4, "not found")                          \
  X(BUSY, -5, "in use by another process")              \
  X(MISUSE, -6, "the caller broke the contract")        \
  X(EXISTS, -7, "exists already")                       \
  X(INVALID, -8, "invalid input")                       \
  X(TOOBIG, -9, "over a limit")                         \
  X(FULL, -10, "no space left")                         \
  X(READONLY, -11, "cannot be written")                 \
  X(CONFLICT, -12, "changed in the meantime")           \
  X(UNAVAILABLE, -13, "message content is unavailable") \
  X(DENIED, -14, "permission denied")                   \
  X(STOPPED, -15, "stopped by the caller")

enum qp_rc {
#define QP_RC_ENUM(name, num, text) QP_##name = num,
  QP_RC_MAP(QP_RC_ENUM)
#undef QP_RC_ENUM
};

/* `msg` is always terminated. A sentence that is too long is cut. */
struct qp_err {
  enum qp_rc rc;
  char msg[320];
};

/* The name ("NOTFOUND") and the text ("not found") of a code. A number that is not in QP_RC_MAP has
 * those of QP_IO. */
QP_API const char *qp_rc_name(enum qp_rc rc);
QP_API const char *qp_rc_text(enum qp_rc rc);

/* ---- bytes, memory, ids ---- */

struct qp_bytes {
  const char *data;
  size_t len;
};

/* Releases memory that a function returned through a ** output, where its comment says so. NULL is
 * allowed. */
QP_API void qp_free(void *p);

/* An id. All bytes zero means "none". New contexts and messages get UUIDv7 ids, which sort by
 * time. */
struct qp_uuid {
  uint8_t b[16];
};

#define QP_UUID_TEXT 37 /* 36 characters and a NUL */

/* Parses the form with 36 characters, in upper or lower case. QP_INVALID: the text is not a
 * UUID. */
QP_API QP_MUST_CHECK enum qp_rc qp_uuid_parse(const char *text, struct qp_uuid *out,
                                              struct qp_err *err);
/* Writes the lower-case form into `out` and returns `out`. */
QP_API const char *qp_uuid_text(const struct qp_uuid *id, char out[QP_UUID_TEXT]);
QP_API bool qp_uuid_is_none(const struct qp_uuid *id);
QP_API bool qp_uuid_equal(const struct qp_uuid *a, const struct qp_uuid *b);

/* ---- log ---- */

enum qp_log_level { QP_LOG_ERROR, QP_LOG_WARN, QP_LOG_INFO, QP_LOG_DEBUG };

/* Receives warnings and traces. `feature` is a short name such as "journal" or "check". It is
 * called from any thread and must not call the library. */
typedef void qp_log_fn(void *arg, enum qp_log_level level, const char *feature, const char *text);

#ifdef __cplusplus
}
#endif
#endif
