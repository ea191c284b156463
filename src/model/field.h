/* field.h - reading the fields of a JSON object. Every error names the path of the field:
 *   line 3: "tool_calls[2].approval_status" must be one of Pending, Approved, Denied
 *
 * Missing and null mean the same: *out is not changed and the result is QP_OK. Results are borrowed
 * from the object. */
#ifndef QP_MODEL_FIELD_H
#define QP_MODEL_FIELD_H

#include "base/json.h"
#include "quipu.h"

/* A closed set of names; the index of a name is the value of its enum constant. */
struct qp__name_set {
  const char *const *list;
  size_t count;
};

/* Compares ASCII letters without regard to case, in every locale. */
bool qp__name_set_find(const struct qp__name_set *names, const char *s, size_t n, unsigned *out);
/* The name of `value`, or "unknown". */
const char *qp__name_set_get(const struct qp__name_set *names, unsigned value);
/* Writes "a, b, c", truncated if it does not fit. Returns out. */
const char *qp__name_set_list(const struct qp__name_set *names, char *out, size_t size);

/* A string field that is required and must not be empty. */
enum qp_rc qp__field_need(const struct qp__place *at, const json_t *object, const char *key,
                          const char **out, struct qp_err *err);
/* A string field that is one of the names. */
enum qp_rc qp__field_name(const struct qp__place *at, const json_t *object, const char *key,
                          const struct qp__name_set *names, unsigned *out, struct qp_err *err);

/* Calls `fn` for each element of a list of objects, with the element's place: "`name`[2].". */
typedef enum qp_rc qp__element_fn(void *arg, const struct qp__place *at, json_t *element,
                                  struct qp_err *err);
enum qp_rc qp__field_each(const char *what, const char *name, const json_t *list,
                          qp__element_fn *fn, void *arg, struct qp_err *err);

/* The fields of `object` that are not in `known` (ended by NULL), in order, as a new object; *out
 * is NULL if there are none. The values are shared with `object`. QP_NOMEM. */
enum qp_rc qp__field_rest(const char *what, const json_t *object, const char *const *known,
                          json_t **out, struct qp_err *err);
/* Appends the fields of `rest` (may be NULL) to `object`; the values are shared. Returns 0 or
 * -1. */
int qp__field_add_rest(json_t *object, json_t *rest);

/* QP_INVALID if `value` would be nested too deeply when it is `above` levels deep in a document. */
enum qp_rc qp__value_check_depth(const char *what, const json_t *value, size_t above,
                                 struct qp_err *err);

/* A deep copy; NULL stays NULL. False: out of memory. */
bool qp__value_copy(const json_t *value, json_t **out);

enum qp__value_form {
  QP__COMPACT, /* one line without a newline */
  QP__PRETTY,  /* indented lines, each with a newline */
};

/* Appends a new value and releases it. NULL means that building it ran out of memory. After a
 * failure `out` is unchanged. */
enum qp_rc qp__value_write_new(const char *what, json_t *value, enum qp__value_form form,
                               struct qp__buf *out, struct qp_err *err);

#endif
