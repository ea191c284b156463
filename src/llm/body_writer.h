/* body_writer.h - writing a request body by hand, so that its bytes depend on nothing but the
 * request.
 *
 * Failures are remembered by the buffer; one qp__buf_check() at the end is enough. */
#ifndef QP_LLM_BODY_WRITER_H
#define QP_LLM_BODY_WRITER_H

#include <jansson.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "llm/model_request.h"

/* A comma, unless an object or an array has just been opened. */
static inline void
qp__wire_next(struct qp__buf *out)
{
  char last = out->len ? out->data[out->len - 1] : '{';

  if (last != '{' && last != '[' && last != ':')
    (void)qp__buf_add_char(out, ',');
}

static inline void
qp__wire_key(struct qp__buf *out, const char *key)
{
  qp__wire_next(out);
  (void)qp__json_write_string(out, key, strlen(key));
  (void)qp__buf_add_char(out, ':');
}

/* Opens an object or array, as a value or as an element. */
static inline void
qp__wire_open(struct qp__buf *out, char bracket)
{
  qp__wire_next(out);
  (void)qp__buf_add_char(out, bracket);
}

/* Opens an object or array as the value of a key. */
static inline void
qp__wire_begin(struct qp__buf *out, const char *key, char bracket)
{
  qp__wire_key(out, key);
  qp__wire_open(out, bracket);
}

static inline void
qp__wire_close(struct qp__buf *out, char bracket)
{
  (void)qp__buf_add_char(out, bracket);
}

static inline void
qp__wire_text(struct qp__buf *out, const char *key, struct qp_bytes text)
{
  qp__wire_key(out, key);
  (void)qp__json_write_string(out, text.data, text.len);
}

static inline void
qp__wire_str(struct qp__buf *out, const char *key, const char *s)
{
  qp__wire_key(out, key);
  (void)qp__json_write_string(out, s, strlen(s));
}

static inline void
qp__wire_int(struct qp__buf *out, const char *key, int64_t v)
{
  qp__wire_key(out, key);
  (void)qp__buf_addf(out, "%lld", (long long)v);
}

static inline void
qp__wire_true(struct qp__buf *out, const char *key)
{
  qp__wire_key(out, key);
  (void)qp__buf_add_str(out, "true");
}

/* Writes nothing if `value` is NULL. */
static inline void
qp__wire_value(struct qp__buf *out, const char *key, const json_t *value)
{
  if (!value)
    return;
  qp__wire_key(out, key);
  (void)qp__json_write(out, value);
}

/* Writes name, description and schema of a tool into the open object. */
static inline void
qp__wire_tool(struct qp__buf *out, const struct qp__llm_tool *tool, const char *schema_key)
{
  static const struct qp_bytes no_arguments = { "{\"type\":\"object\",\"properties\":{}}", 33 };
  struct qp_bytes schema = tool->schema.len ? tool->schema : no_arguments;

  qp__wire_str(out, "name", tool->name);
  if (tool->description)
    qp__wire_str(out, "description", tool->description);
  qp__wire_key(out, schema_key);
  (void)qp__buf_add(out, schema.data, schema.len);
  if (tool->strict)
    qp__wire_true(out, "strict");
}

/* Writes the fields of an object into the open object. */
static inline void
qp__wire_fields(struct qp__buf *out, json_t *object)
{
  for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i))
    qp__wire_value(out, json_object_iter_key(i), json_object_iter_value(i));
}

#endif
