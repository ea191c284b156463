/* ls_take.c - shared helpers: notes, removing fields, ids. See ls_int.h. */
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "base/uuid.h"
#include "base/vec.h"
#include "old/ls_int.h"

/* ---- notes ---- */

bool
qp__ls_note(struct qp__ls_notes *notes, const char *item, enum qp_rc rc, const char *fmt, ...)
{
  struct qp__ls_note note = { .item = NULL };
  va_list args;

  if (!qp__vec_reserve(notes->list, notes->count, notes->cap, 1))
    return false;
  note.item = item ? qp__strdup(item) : NULL;
  if (item && !note.item)
    return false;
  note.err.rc = rc;
  va_start(args, fmt);
  (void)vsnprintf(note.err.msg, sizeof(note.err.msg), fmt, args);
  va_end(args);
  notes->list[notes->count++] = note;
  return true;
}

void
qp__ls_notes_release(struct qp__ls_notes *notes)
{
  for (size_t i = 0; i < notes->count; i++)
    qp__free(notes->list[i].item);
  qp__free(notes->list);
  memset(notes, 0, sizeof(*notes));
}

/* ---- taking ---- */

json_t *
qp__ls_take(json_t *rest, const json_t *object, const char *key)
{
  (void)json_object_del(rest, key);
  return json_object_get(object, key);
}

const char *
qp__ls_take_string(json_t *rest, const json_t *object, const char *key)
{
  json_t *v = json_object_get(object, key);
  const char *s = json_string_value(v);

  if (!s || !s[0] || strlen(s) != json_string_length(v))
    return NULL;
  (void)json_object_del(rest, key);
  return s;
}

bool
qp__ls_time(const json_t *value, int64_t *ms)
{
  int64_t t = 0;

  if (json_is_integer(value))
    t = json_integer_value(value);
  else if (json_is_real(value) && json_real_value(value) > 0 && json_real_value(value) < 1e15)
    t = (int64_t)json_real_value(value);
  else if (json_is_string(value) &&
           qp__time_parse(json_string_value(value), json_string_length(value), &t))
    return false;
  if (t <= 0 || !qp__time_ok(t))
    return false;
  *ms = t;
  return true;
}

int
qp__ls_set_rest(json_t *target, json_t *rest)
{
  return rest && json_object_size(rest) ? json_object_set(target, QP__LS_FIELD, rest) : 0;
}

/* ---- ids ---- */

struct qp_uuid
qp__ls_derive(const char *kind, struct qp_bytes scope, struct qp_bytes id)
{
  static const char space[] = "quipu localstorage ";
  crypto_generichash_state state;
  struct qp_uuid out;

  (void)crypto_generichash_init(&state, NULL, 0, sizeof(out.b));
  (void)crypto_generichash_update(&state, (const uint8_t *)space, sizeof(space) - 1);
  (void)crypto_generichash_update(&state, (const uint8_t *)kind, strlen(kind) + 1);
  (void)crypto_generichash_update(&state, (const uint8_t *)scope.data, scope.len);
  (void)crypto_generichash_update(&state, (const uint8_t *)id.data, id.len);
  (void)crypto_generichash_final(&state, out.b, sizeof(out.b));
  out.b[6] = (uint8_t)(0x80 | (out.b[6] & 0x0f)); /* version 8 */
  out.b[8] = (uint8_t)(0x80 | (out.b[8] & 0x3f)); /* the variant of RFC 9562 */
  return out;
}

bool
qp__ls_uuid(const char *id, struct qp_uuid *out)
{
  struct qp_uuid parsed;

  if (strlen(id) != QP__UUID_LEN || !qp__uuid_decode(id, &parsed) || qp_uuid_is_none(&parsed))
    return false;
  *out = parsed;
  return true;
}

struct qp_uuid
qp__ls_chat_uuid(const char *id)
{
  struct qp_uuid out;

  if (qp__ls_uuid(id, &out))
    return out;
  return qp__ls_derive("chat", (struct qp_bytes){ "", 0 }, (struct qp_bytes){ id, strlen(id) });
}
