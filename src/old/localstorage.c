/* localstorage.c - reads a whole dump: its keys, and the newest form of each chat and its messages.
 * See localstorage.h for the forms. */
#include "old/localstorage.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/field.h"
#include "old/ls_int.h"

#define BACKUP_KEY "copilot_migration_backup_v1"
#define MESSAGES_KEY "copilot_messages"
#define MESSAGES_PREFIX "copilot_messages_"
#define V2_PREFIX "copilot_messages_v2_"

/* The keys, or prefixes of keys, that are read; others are ignored. */
static const struct {
  const char *name;
  bool prefix;
  bool object; /* its value is an object; otherwise an array */
} known_keys[] = {
  { "copilot_chats_v3", false, false },
  { "copilot_chats_v2", false, false },
  { "copilot_chats", false, false },
  { MESSAGES_KEY, false, true },
  { MESSAGES_PREFIX, true, false },
  { BACKUP_KEY, false, true },
  { "copilot_custom_system_prompts_v2", false, false },
  { "copilot_system_prompts_v1", false, false },
  { "copilot_system_prompts", false, false },
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static enum qp_rc
no_memory(struct qp_err *err)
{
  return qp__fail_nomem(err, "a LocalStorage dump");
}

/* ---- text ---- */

/* The value of four hexadecimal digits, or -1. */
static int
hex4(const char *s, const char *end)
{
  uint8_t b[2];

  return end - s >= 4 && qp__hex_decode(b, s, 2) ? b[0] << 8 | b[1] : -1;
}

/* The next "\uD83D" or the like in JSON text without its other half: the rest of a character that a
 * page cut in two. NULL: none. */
static const char *
find_half(const char *s, const char *end)
{
  while ((s = memchr(s, '\\', (size_t)(end - s)))) {
    int first = end - s >= 6 && s[1] == 'u' ? hex4(s + 2, end) : -1;

    if (first < 0xd800 || first > 0xdfff) {
      s += end - s >= 2 ? 2 : 1; /* another escape */
    } else if (first <= 0xdbff && end - s >= 12 && s[6] == '\\' && s[7] == 'u' &&
               (hex4(s + 8, end) & ~0x3ff) == 0xdc00) {
      s += 12;
    } else {
      return s;
    }
  }
  return NULL;
}

/* Replaces every half by U+FFFD, and returns their number. */
static size_t
mend_halves(char *text, size_t n)
{
  const char *at = text;
  size_t count = 0;

  while ((at = find_half(at, text + n))) {
    memcpy(text + (at - text) + 2, "fffd", 4);
    at += 6;
    count++;
  }
  return count;
}

static bool
note_halves(struct qp__ls *ls, const char *item, size_t count)
{
  return !count ||
         qp__ls_note(&ls->notes, item, QP_OK, "%zu half character%s in its text became U+FFFD",
                     count, count == 1 ? "" : "s");
}

/* Parses the JSON in a string value. *out is new. */
static enum qp_rc
parse_string(struct qp__ls *ls, const char *key, const json_t *value, json_t **out,
             struct qp_err *err)
{
  struct qp_bytes text = { json_string_value(value), json_string_length(value) };
  struct qp__buf copy;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&copy, 2 * QP__LS_MAX);
  if (find_half(text.data, text.data + text.len)) {
    if (qp__buf_add(&copy, text.data, text.len) ||
        !note_halves(ls, key, mend_halves(copy.data, copy.len)))
      rc = no_memory(err);
    text = qp__buf_bytes(&copy);
  }
  if (!rc)
    rc = qp__json_parse("its value", text, out, err);
  qp__buf_release(&copy);
  return rc;
}

/* ---- keys ---- */

static bool
find_known_key(const char *key, bool *object)
{
  for (size_t i = 0; i < COUNT(known_keys); i++) {
    const char *name = known_keys[i].name;

    if (known_keys[i].prefix ? strncmp(key, name, strlen(name)) == 0 : strcmp(key, name) == 0) {
      *object = known_keys[i].object;
      return true;
    }
  }
  return false;
}

/* Stores the parsed value of a key in ls->keys. An invalid one is noted and omitted. */
static enum qp_rc
read_key(struct qp__ls *ls, const char *key, json_t *value, bool object, struct qp_err *err)
{
  struct qp_err why = { QP_OK, "" };
  char item[160];
  json_t *parsed = NULL;
  enum qp_rc rc = QP_OK;

  if (json_is_null(value))
    return QP_OK;
  (void)snprintf(item, sizeof(item), "key %.150s", key);
  if (json_is_string(value))
    rc = parse_string(ls, item, value, &parsed, &why);
  else
    parsed = json_incref(value);
  if (!rc && json_is_null(parsed))
    goto out;
  if (!rc && (object ? !json_is_object(parsed) : !json_is_array(parsed)))
    rc = qp__fail(&why, QP_INVALID, "its value must be an %s", object ? "object" : "array");
  if (!rc && json_object_set_nocheck(ls->keys, key, parsed))
    rc = no_memory(&why);
  if (rc == QP_NOMEM) {
    if (err)
      *err = why;
  } else if (rc) {
    rc = qp__ls_note(&ls->notes, item, rc, "%s", why.msg) ? QP_OK : no_memory(err);
  }
out:
  json_decref(parsed);
  return rc;
}

/* Removes the keys from the dump one by one, so that it is not in memory twice. */
static enum qp_rc
read_keys(struct qp__ls *ls, const char *what, json_t *dump, struct qp_err *err)
{
  size_t found = 0;
  void *iter = json_object_iter(dump);
  enum qp_rc rc = QP_OK;

  while (iter && !rc) {
    const char *key = json_object_iter_key(iter);
    bool object;

    if (find_known_key(key, &object)) {
      found++;
      rc = read_key(ls, key, json_object_iter_value(iter), object, err);
      if (!rc && json_object_iter_set_new(dump, iter, json_null()))
        rc = no_memory(err);
    }
    iter = json_object_iter_next(dump, iter);
  }
  if (!rc && !found)
    rc = qp__fail(err, QP_INVALID,
                  "%s: not a known LocalStorage dump: it has no key such as copilot_chats_v2 or "
                  "copilot_messages",
                  what);
  return rc;
}

/* The object of keys: the whole text, or the value of "localStorage". *out is new. */
static enum qp_rc
read_dump(struct qp__ls *ls, const char *what, struct qp__buf *text, json_t **out,
          struct qp_err *err)
{
  static const char mark[] = "\xef\xbb\xbf"; /* a byte order mark */
  size_t skip = text->len >= 3 && memcmp(text->data, mark, 3) == 0 ? 3 : 0;
  struct qp_bytes json = { text->len ? text->data + skip : "", text->len - skip };
  json_t *root = NULL;
  json_t *inner;
  enum qp_rc rc = QP_OK;

  if (text->len && !note_halves(ls, "the dump", mend_halves(text->data, text->len)))
    return no_memory(err);
  rc = qp__json_parse_own_object(what, json, &root, err);
  qp__buf_release(text);
  if (rc)
    return rc;
  inner = json_object_get(root, "localStorage");
  if (json_is_object(inner)) {
    *out = json_incref(inner);
  } else if (json_is_string(inner)) {
    rc = parse_string(ls, "key localStorage", inner, out, err);
    if (!rc && !json_is_object(*out)) {
      json_decref(*out);
      *out = NULL;
      rc = qp__fail(err, QP_INVALID, "%s: \"localStorage\" must be an object", what);
    }
  } else {
    *out = json_incref(root);
  }
  json_decref(root);
  return rc;
}

/* ---- messages of a chat ---- */

/* An array of messages; anything else is noted and skipped. */
static bool
is_messages(struct qp__ls *ls, const char *id, const json_t *value, json_t **out, enum qp_rc *rc)
{
  char item[120];

  if (!value || json_is_null(value))
    return false;
  if (json_is_array(value)) {
    *out = (json_t *)value;
    return true;
  }
  (void)snprintf(item, sizeof(item), "messages of chat %.100s", id);
  if (!qp__ls_note(&ls->notes, item, QP_INVALID, "they must be an array"))
    *rc = QP_NOMEM;
  return false;
}

/* The value of the key that consists of `prefix` and the id of the chat. */
static enum qp_rc
get_keyed(const struct qp__ls *ls, const char *prefix, const char *id, json_t **out,
          struct qp_err *err)
{
  struct qp__buf key;

  qp__buf_init(&key, QP__LS_MAX);
  (void)qp__buf_add_str(&key, prefix);
  (void)qp__buf_add_str(&key, id);
  if (key.rc) {
    qp__buf_release(&key);
    return no_memory(err);
  }
  *out = json_object_get(ls->keys, key.data);
  qp__buf_release(&key);
  return QP_OK;
}

/* The newest messages of a chat in the dump. In v3 they are in the chat; in v1 that is possible
 * too, but there an empty list means nothing. */
static enum qp_rc
find_messages(struct qp__ls *ls, struct qp__ls_source *source, bool whole, struct qp_err *err)
{
  json_t *inside = json_object_get(source->chat, "messages");
  json_t *v2 = NULL;
  json_t *early = NULL;
  enum qp_rc rc = QP_OK;

  if (inside && (whole || json_array_size(inside)) &&
      is_messages(ls, source->id, inside, &source->messages, &rc))
    return QP_OK;
  if (!rc)
    rc = get_keyed(ls, V2_PREFIX, source->id, &v2, err);
  if (!rc)
    rc = get_keyed(ls, MESSAGES_PREFIX, source->id, &early, err);
  if (!rc) {
    json_t *backup = json_object_get(json_object_get(ls->keys, BACKUP_KEY), "messages");
    const json_t *places[] = {
      v2,
      json_object_get(backup, source->id),
      early,
      json_object_get(json_object_get(ls->keys, MESSAGES_KEY), source->id),
    };

    for (size_t i = 0; i < COUNT(places) && !rc; i++)
      if (is_messages(ls, source->id, places[i], &source->messages, &rc))
        return QP_OK;
  }
  return rc == QP_NOMEM ? no_memory(err) : rc;
}

/* ---- chats ---- */

/* QP_INVALID: it cannot be imported. */
static enum qp_rc
check_chat(const json_t *chat, struct qp__ls_source *out, struct qp_err *err)
{
  struct qp__place at = { "chat", "" };
  const char *title = NULL;
  enum qp_rc rc;

  if (!json_is_object(chat))
    return qp__fail(err, QP_INVALID, "it is not an object");
  rc = qp__field_need(&at, chat, "id", &out->id, err);
  if (!rc)
    rc = qp__field_string(&at, chat, "title", &title, err);
  if (!rc && !title)
    rc = qp__field_fail(&at, "title", "is missing", err);
  if (!rc && !qp__ls_time(json_object_get(chat, "createdAt"), &out->created_at))
    rc = qp__field_fail(&at, "createdAt", "must be a time in milliseconds, greater than 0", err);
  out->chat = chat;
  return rc;
}

static enum qp_rc
refuse_chat(struct qp__ls *ls, const char *item, const struct qp__ls_source *source,
            const struct qp_err *why, struct qp_err *err)
{
  if ((source->id && !json_object_get(ls->chat_ids, source->id) &&
       json_object_set_new(ls->chat_ids, source->id, json_false())) ||
      !qp__ls_note(&ls->notes, item, why->rc, "%s", why->msg))
    return no_memory(err);
  return QP_OK;
}

static enum qp_rc
add_chat(struct qp__ls *ls, const struct qp__ls_source *source, size_t list, struct qp_err *err)
{
  if (!qp__vec_reserve(ls->chats, ls->chat_count, ls->chat_cap, 1) ||
      json_object_set_new(ls->chat_ids, source->id, json_integer((json_int_t)list)))
    return no_memory(err);
  ls->chats[ls->chat_count++] = *source;
  return QP_OK;
}

/* One chat of list `list`. A chat that is also in a newer list is skipped. */
static enum qp_rc
read_chat(struct qp__ls *ls, size_t list, const char *form, const char *item, json_t *chat,
          struct qp_err *err)
{
  struct qp__ls_source source = { .form = form };
  struct qp_err why = { QP_OK, "" };
  json_t *known;
  enum qp_rc rc;

  if (check_chat(chat, &source, &why))
    return refuse_chat(ls, item, &source, &why, err);
  known = json_object_get(ls->chat_ids, source.id);
  if (json_is_integer(known) && json_integer_value(known) == (json_int_t)list) {
    (void)qp__fail(&why, QP_EXISTS, "duplicate chat '%.60s'; the first one is imported", source.id);
    return refuse_chat(ls, item, &source, &why, err);
  }
  if (json_is_integer(known))
    return QP_OK;
  if (strcmp(form, "v2") == 0 && !json_object_get(chat, "config"))
    source.form = "v2-early";
  rc = find_messages(ls, &source, strcmp(form, "v3") == 0, err);
  return rc ? rc : add_chat(ls, &source, list, err);
}

/* ---- messages without a chat ---- */

static bool
is_chat(const struct qp__ls *ls, const char *id)
{
  return json_object_get(ls->chat_ids, id) != NULL;
}

static enum qp_rc
note_orphans(struct qp__ls *ls, const char *item, const json_t *messages, struct qp_err *err)
{
  size_t n = json_array_size(messages);

  if (!n)
    return QP_OK;
  if (!qp__ls_note(&ls->notes, item, QP_NOTFOUND, "%zu message%s of a chat that does not exist", n,
                   n == 1 ? "" : "s"))
    return no_memory(err);
  return QP_OK;
}

/* {id: […]} of v1 and of the backup. */
static enum qp_rc
note_orphans_of(struct qp__ls *ls, const char *key, json_t *map, struct qp_err *err)
{
  const char *id;
  json_t *messages;
  enum qp_rc rc = QP_OK;

  json_object_foreach (map, id, messages) {
    char item[200];

    (void)snprintf(item, sizeof(item), "%s, messages of chat %.100s", key, id);
    if (!rc && !is_chat(ls, id))
      rc = note_orphans(ls, item, messages, err);
  }
  return rc;
}

static enum qp_rc
find_orphans(struct qp__ls *ls, struct qp_err *err)
{
  const char *key;
  json_t *value;
  enum qp_rc rc = note_orphans_of(ls, MESSAGES_KEY, json_object_get(ls->keys, MESSAGES_KEY), err);

  if (!rc)
    rc = note_orphans_of(ls, BACKUP_KEY,
                         json_object_get(json_object_get(ls->keys, BACKUP_KEY), "messages"), err);
  json_object_foreach (ls->keys, key, value) {
    bool early = strncmp(key, MESSAGES_PREFIX, sizeof(MESSAGES_PREFIX) - 1) == 0;
    bool v2 = strncmp(key, V2_PREFIX, sizeof(V2_PREFIX) - 1) == 0;
    char item[160];

    if (rc || !early || is_chat(ls, key + sizeof(MESSAGES_PREFIX) - 1) ||
        (v2 && is_chat(ls, key + sizeof(V2_PREFIX) - 1)))
      continue;
    (void)snprintf(item, sizeof(item), "key %.150s", key);
    rc = note_orphans(ls, item, value, err);
  }
  return rc;
}

/* ---- all of it ---- */

/* The array at a key; in the backup it is a field of the value. */
static json_t *
get_list(const struct qp__ls *ls, const char *key, const char *name)
{
  json_t *value = json_object_get(ls->keys, key);

  return strcmp(key, BACKUP_KEY) == 0 ? json_object_get(value, name) : value;
}

static enum qp_rc
collect(struct qp__ls *ls, struct qp_err *err)
{
  static const char *const prompts[] = {
    "copilot_custom_system_prompts_v2",
    "copilot_system_prompts_v1",
    BACKUP_KEY,
    "copilot_system_prompts",
  };
  static const struct {
    const char *key, *form;
  } chats[] = {
    { "copilot_chats_v3", "v3" },
    { "copilot_chats_v2", "v2" },
    { BACKUP_KEY, "backup" },
    { "copilot_chats", "v1" },
  };
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < COUNT(prompts) && !rc; i++)
    rc = qp__ls_prompts_read(ls, prompts[i], get_list(ls, prompts[i], "prompts"), err);
  for (size_t i = 0; i < COUNT(chats); i++) {
    json_t *list = get_list(ls, chats[i].key, "chats");

    for (size_t k = 0; k < json_array_size(list) && !rc; k++) {
      char item[100];

      (void)snprintf(item, sizeof(item), "%s, chat %zu", chats[i].key, k + 1);
      rc = read_chat(ls, i, chats[i].form, item, json_array_get(list, k), err);
    }
  }
  return rc ? rc : find_orphans(ls, err);
}

enum qp_rc
qp__ls_open(const char *what, struct qp__buf *text, struct qp__ls **out, struct qp_err *err)
{
  struct qp__ls *ls = qp__alloc0(1, sizeof(*ls));
  json_t *dump = NULL;
  enum qp_rc rc;

  if (!ls)
    return no_memory(err);
  ls->keys = json_object();
  ls->prompt_ids = json_object();
  ls->chat_ids = json_object();
  if (!ls->keys || !ls->prompt_ids || !ls->chat_ids)
    rc = no_memory(err);
  else
    rc = read_dump(ls, what, text, &dump, err);
  if (!rc)
    rc = read_keys(ls, what, dump, err);
  json_decref(dump);
  if (!rc)
    rc = collect(ls, err);
  if (rc)
    qp__ls_close(ls);
  else
    *out = ls;
  return rc;
}

void
qp__ls_close(struct qp__ls *ls)
{
  if (!ls)
    return;
  for (size_t i = 0; i < ls->prompt_count; i++)
    qp__prompt_free(ls->prompts[i].prompt);
  qp__free(ls->prompts);
  qp__free(ls->chats);
  json_decref(ls->keys);
  json_decref(ls->prompt_ids);
  json_decref(ls->chat_ids);
  qp__ls_notes_release(&ls->notes);
  qp__free(ls);
}
