/* json.h - strict parsing and simple writing of JSON, on jansson.
 *
 * Strict: no duplicate keys, valid UTF-8, nothing after the value, at most QP__JSON_DEPTH levels.
 * The field readers below name the field in their errors. The caller owns a returned json_t and
 * releases it with json_decref(). */
#ifndef QP_BASE_JSON_H
#define QP_BASE_JSON_H

#include <jansson.h>

#include "base/buf.h"
#include "base/json_scan.h"

/* The memory that the values of one text may need, without the bytes of strings: about 200,000
 * empty objects or a million numbers. */
#define QP__JSON_TREE_MAX ((size_t)64 << 20)

/* Parses any value. `what` begins the error message: "line 3", "metadata.json". QP_INVALID,
 * QP_NOMEM; QP_TOOBIG: the values need more than QP__JSON_TREE_MAX. */
enum qp_rc qp__json_parse(const char *what, struct qp_bytes text, json_t **out, struct qp_err *err);
/* The same, and the value must be an object. */
enum qp_rc qp__json_parse_object(const char *what, struct qp_bytes text, json_t **out,
                                 struct qp_err *err);

/* The same with half the limit, for input from clients, models and tools: it is stored with
 * additional fields and must be readable afterwards. */
enum qp_rc qp__json_parse_outside(const char *what, struct qp_bytes text, json_t **out,
                                  struct qp_err *err);
enum qp_rc qp__json_parse_outside_object(const char *what, struct qp_bytes text, json_t **out,
                                         struct qp_err *err);
/* The same without a limit, for files that this program or its user wrote. */
enum qp_rc qp__json_parse_own_object(const char *what, struct qp_bytes text, json_t **out,
                                     struct qp_err *err);

/* Appends the value, compact or indented by two spaces. Keys keep their order. */
enum qp_rc qp__json_write(struct qp__buf *out, const json_t *value);
enum qp_rc qp__json_write_pretty(struct qp__buf *out, const json_t *value);
/* The same for a value that is `level` levels deep in a document that is written in pieces. */
enum qp_rc qp__json_write_inside(struct qp__buf *out, const json_t *value, size_t level);

/* Appends one string with its quotes; `s` is UTF-8. */
enum qp_rc qp__json_write_string(struct qp__buf *out, const char *s, size_t n);

/* The content of the buffer, which is released, as a new string. NULL: an append to it had failed,
 * it is not UTF-8, or out of memory. */
json_t *qp__json_take(struct qp__buf *b);

/* A new array or object that shares the elements of `value`; NULL: out of memory. (jansson's own
 * copy functions lose elements when memory runs out.) */
json_t *qp__json_copy(const json_t *value);
/* A copy that shares nothing; NULL: out of memory, or `value` is NULL. */
json_t *qp__json_deep_copy(const json_t *value);

/* The position of an object for error messages: `what` begins the message, `path` precedes the name
 * of the field: "", "tool_result." or "tool_calls[2].". */
struct qp__place {
  const char *what;
  const char *path;
};

/* QP_INVALID "`what`: \"`path``key`\" `problem`". */
enum qp_rc qp__field_fail(const struct qp__place *at, const char *key, const char *problem,
                          struct qp_err *err);

/* The value of a field; NULL if it is missing or null. */
json_t *qp__field_get(const json_t *object, const char *key);

/* The text of a string; NULL if it is missing or no string. */
static inline const char *
qp__json_text(const json_t *object, const char *key)
{
  return json_string_value(json_object_get(object, key));
}

/* Whether an array contains this string; false if `list` is no array. */
bool qp__json_has_text(const json_t *list, const char *text);

/* Field readers. A missing field or null leaves *out unchanged and returns QP_OK; a wrong type is
 * QP_INVALID. Results are borrowed from the object. */
enum qp_rc qp__field_string(const struct qp__place *at, const json_t *object, const char *key,
                            const char **out, struct qp_err *err);
/* A string that may contain NUL characters. */
enum qp_rc qp__field_text(const struct qp__place *at, const json_t *object, const char *key,
                          struct qp_bytes *out, struct qp_err *err);
enum qp_rc qp__field_int(const struct qp__place *at, const json_t *object, const char *key,
                         int64_t *out, struct qp_err *err);
enum qp_rc qp__field_bool(const struct qp__place *at, const json_t *object, const char *key,
                          bool *out, struct qp_err *err);
enum qp_rc qp__field_object(const struct qp__place *at, const json_t *object, const char *key,
                            json_t **out, struct qp_err *err);
enum qp_rc qp__field_array(const struct qp__place *at, const json_t *object, const char *key,
                           json_t **out, struct qp_err *err);
enum qp_rc qp__field_uuid(const struct qp__place *at, const json_t *object, const char *key,
                          struct qp_uuid *out, struct qp_err *err);
enum qp_rc qp__field_time(const struct qp__place *at, const json_t *object, const char *key,
                          int64_t *out, struct qp_err *err);

/* The same for an object that is the whole value: "`what`: \"key\" must be a string". */
#define QP__AT(what) (&(struct qp__place){ (what), "" })
#define qp__json_string(what, ...) qp__field_string(QP__AT(what), __VA_ARGS__)
#define qp__json_int(what, ...) qp__field_int(QP__AT(what), __VA_ARGS__)
#define qp__json_bool(what, ...) qp__field_bool(QP__AT(what), __VA_ARGS__)
#define qp__json_object(what, ...) qp__field_object(QP__AT(what), __VA_ARGS__)
#define qp__json_array(what, ...) qp__field_array(QP__AT(what), __VA_ARGS__)
#define qp__json_uuid(what, ...) qp__field_uuid(QP__AT(what), __VA_ARGS__)
#define qp__json_time(what, ...) qp__field_time(QP__AT(what), __VA_ARGS__)

/* For functions that build a value: `value`, or NULL if `bad`, because memory ran out on the way.
 * Then the value is released. */
json_t *qp__json_built(json_t *value, bool bad);
/* json_pack() of an object, without the fields that are null: use "s?" for text that may be
 * missing. (With "s*" jansson also leaves a field out when memory runs out, without an error.) */
json_t *qp__json_pack_set(const char *format, ...);
/* Appends `item` to an array, which owns it then. Returns the array. If one of them is NULL or
 * memory runs out, the array is released and the result is NULL. */
json_t *qp__json_push(json_t *array, json_t *item);

/* Field writers. A NULL value means that memory ran out, and they return -1. They return 0 or -1
 * like jansson. */
int qp__json_set_str(json_t *object, const char *key, const char *value); /* NULL: null */
int qp__json_set_strn(json_t *object, const char *key, const char *s, size_t n);
int qp__json_set_uuid(json_t *object, const char *key, const struct qp_uuid *id); /* none: null */
int qp__json_set_time(json_t *object, const char *key, int64_t ms);

#endif
