/* migrate_prompt.c - the system prompts of an old context.
 *
 * The old program kept prompts in one file, system_prompts.json,
 *   {"<id>": {"id": "<id>", "content": "…"}}
 * in its data directory, that is beside the sources or above them. A context refers to a prompt by
 * config.system_prompt_id; a branch holds a copy {id, content}. Here all of them become system
 * prompts with references.
 *   - A prompt that exists in the store stays unchanged.
 *   - An id that is not valid here, or that belongs to a prompt with another content, is replaced
 *     by an id that is derived from it by a hash: the same prompt always gets the same id.
 *   - A reference to an unknown prompt is cleared. The metadata keeps it (old/legacy.h), so that a
 *     rollback restores it. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "model/prompt.h"
#include "old/migrate_int.h"
#include "os/file.h"

#define FILE_NAME "system_prompts.json"
#define FILE_MAX ((size_t)64 << 20)
#define LEVELS 3     /* directories that are looked at */
#define STEM_MAX 100 /* characters of the old id in a derived one */
#define HASH_BYTES 8 /* of the hash in it */

/* Begins an id with that of the owner, if there is one. Returns its length. */
static size_t
begin_id(const struct qp__migration *m, char out[QP__PROMPT_ID_MAX + 1])
{
  int n = m->owner ? snprintf(out, QP__PROMPT_ID_MAX + 1, "%.80s:", m->owner) : 0;

  return n > 0 ? (size_t)n : 0;
}

/* An id that is derived from an old one, and from the content where that counts. */
static void
derive_id(const struct qp__migration *m, const char *id, const char *content,
          char out[QP__PROMPT_ID_MAX + 1])
{
  crypto_generichash_state state;
  uint8_t hash[16];
  size_t start = begin_id(m, out);
  size_t n = start;

  for (const char *p = id; *p && n < STEM_MAX; p++) {
    bool fine = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
                *p == '_' || *p == '-' || (*p == '.' && n > start);

    if (fine)
      out[n++] = *p;
  }
  if (n > start)
    out[n++] = '-';
  (void)crypto_generichash_init(&state, NULL, 0, sizeof(hash));
  (void)crypto_generichash_update(&state, (const unsigned char *)id, strlen(id) + 1);
  (void)crypto_generichash_update(&state, (const unsigned char *)content, strlen(content));
  (void)crypto_generichash_final(&state, hash, sizeof(hash));
  qp__hex_encode(out + n, hash, HASH_BYTES);
  out[n + 2 * HASH_BYTES] = 0;
}

/* The target of a reference to `id`: the id itself if it is valid here. */
static void
target_id(const struct qp__migration *m, const char *id, char out[QP__PROMPT_ID_MAX + 1])
{
  size_t start = begin_id(m, out);

  if (qp__prompt_id_check(id, NULL) == QP_OK && start + strlen(id) <= QP__PROMPT_ID_MAX)
    (void)snprintf(out + start, QP__PROMPT_ID_MAX + 1 - start, "%s", id);
  else
    derive_id(m, id, "", out);
}

/* Whether the prompt exists, or will exist, and whether it has this content (NULL: any). */
static enum qp_rc
look_up(struct qp__migration *m, const char *id, const char *content, bool *there, bool *same,
        struct qp_err *err)
{
  const char *queued = qp__build_prompt_content(m->build, id);
  struct qp__stored_prompt *p = NULL;
  struct qp_err cause = { QP_OK, "" };
  enum qp_rc rc = qp__prompt_load(m->store, id, &p, &cause);

  *there = !rc || queued;
  *same = !content || (p        ? strcmp(p->content, content) == 0
                       : queued ? strcmp(queued, content) == 0
                                : false);
  qp__prompt_free(p);
  if (rc == QP_CORRUPT) { /* a damaged prompt has no known content */
    *there = true;
    *same = !content;
    return QP_OK;
  }
  if (rc && rc != QP_NOTFOUND) {
    if (err)
      *err = cause;
    return rc;
  }
  return QP_OK;
}

static enum qp_rc
queue(struct qp__migration *m, const char *id, const char *old_id, const char *content,
      bool replaceable, struct qp_err *err)
{
  struct qp_prompt p = { .id = id, .content = content };

  if (strcmp(id, old_id) != 0 && strlen(old_id) <= QP__TITLE_MAX)
    p.name = old_id;
  return qp__build_prompt(m->build, &p, replaceable, err);
}

/* ---- the file ---- */

static enum qp_rc
take_entry(struct qp__migration *m, const char *key, const json_t *entry, struct qp_err *err)
{
  const char *content = json_string_value(json_object_get(entry, "content"));
  char id[QP__PROMPT_ID_MAX + 1];
  bool there = false;
  bool same = false;
  enum qp_rc rc;

  if (!content || strlen(content) > QP__PROMPT_MAX)
    return QP__MIGRATION_NOTE(m, err, "%s: '%.80s' is no system prompt and was left out", FILE_NAME,
                              key);
  target_id(m, key, id);
  rc = look_up(m, id, content, &there, &same, err);
  if (!rc && there && !same)
    return QP__MIGRATION_NOTE(m, err, "%s: '%.80s' differs from the system prompt that is there",
                              FILE_NAME, key);
  return rc || there ? rc : queue(m, id, key, content, true, err);
}

static enum qp_rc
take_file(struct qp__migration *m, struct qp_bytes text, struct qp_err *err)
{
  struct qp_err cause = { QP_OK, "" };
  json_t *root = NULL;
  const char *key;
  json_t *entry;
  enum qp_rc rc = qp__json_parse_object(FILE_NAME, text, &root, &cause);

  if (rc == QP_NOMEM)
    return qp__fail_nomem(err, "migrating a context");
  if (rc)
    return QP__MIGRATION_NOTE(m, err, "%s", cause.msg);
  json_object_foreach (root, key, entry) {
    if (!rc)
      rc = take_entry(m, key, entry, err);
  }
  json_decref(root);
  return rc;
}

/* Searches the source's directory and those above it; the first file that exists is used. A file
 * that cannot be read does not stop the migration. */
static enum qp_rc
find_file(struct qp__migration *m, struct qp__buf *text, bool *found, struct qp_err *err)
{
  const struct qp__os *os = m->store->os;
  struct qp__buf dir;
  int sys = -ENOENT;

  if (!m->parent) { /* one of the store's own */
    sys = qp__file_read(os, m->dirfd, FILE_NAME, text);
    *found = !sys;
    return sys == -ENOMEM ? qp__fail_nomem(err, "migrating a context") : QP_OK;
  }
  qp__buf_init(&dir, (size_t)1 << 16);
  (void)qp__buf_add_str(&dir, m->parent);
  for (int level = 0; level < LEVELS && sys && sys != -ENOMEM && !dir.rc; level++) {
    int fd = os->open_root(os->self, dir.data, 0);

    sys = fd < 0 ? fd : qp__file_read(os, fd, FILE_NAME, text);
    qp__close(os, fd);
    (void)qp__buf_add_str(&dir, "/..");
  }
  *found = !sys;
  if (sys == -ENOMEM || dir.rc) {
    qp__buf_release(&dir);
    return qp__fail_nomem(err, "migrating a context");
  }
  qp__buf_release(&dir);
  return QP_OK;
}

static enum qp_rc
take_prompt_file(struct qp__migration *m, struct qp_err *err)
{
  struct qp__buf text;
  bool found = false;
  enum qp_rc rc;

  qp__buf_init(&text, FILE_MAX);
  rc = find_file(m, &text, &found, err);
  if (!rc && found)
    rc = take_file(m, qp__buf_bytes(&text), err);
  qp__buf_release(&text);
  return rc;
}

/* ---- copies and references ---- */

static enum qp_rc
take_copy(struct qp__migration *m, const struct qp__legacy_prompt *p, struct qp_err *err)
{
  char id[QP__PROMPT_ID_MAX + 1];
  bool there = false;
  bool same = false;
  enum qp_rc rc;

  target_id(m, p->id, id);
  rc = look_up(m, id, p->content, &there, &same, err);
  if (!rc && there && !same) {
    derive_id(m, p->id, p->content, id);
    rc = look_up(m, id, p->content, &there, &same, err);
  }
  if (!rc && there && !same)
    rc = qp__fail(err, QP_EXISTS, "system prompt '%s' exists with other content", id);
  if (!rc && !there)
    rc = queue(m, id, p->id, p->content, false, err);
  if (!rc)
    rc = qp__meta_set_prompt(m->meta, p->branch, id, err);
  if (!rc && strcmp(id, p->id) != 0)
    rc =
        QP__MIGRATION_NOTE(m, err, "the prompt '%.80s' of branch '%.80s' is system prompt '%s' now",
                           p->id, p->branch, id);
  return rc;
}

/* A reference of the configuration (`branch` NULL) or of a branch. */
static enum qp_rc
check_reference(struct qp__migration *m, const char *branch, const char *ref, struct qp_err *err)
{
  char id[QP__PROMPT_ID_MAX + 1];
  bool there = false;
  bool same = false;
  enum qp_rc rc;

  if (!ref)
    return QP_OK;
  target_id(m, ref, id);
  rc = look_up(m, id, NULL, &there, &same, err);
  if (rc || (there && strcmp(id, ref) == 0))
    return rc;
  if (there)
    return qp__meta_set_prompt(m->meta, branch, id, err);
  rc = QP__MIGRATION_NOTE(
      m, err,
      "%s%.80s refers to system prompt '%.80s', which does not exist: the reference was removed",
      branch ? "branch " : "the configuration", branch ? branch : "", ref);
  return rc ? rc : qp__meta_set_prompt(m->meta, branch, NULL, err);
}

enum qp_rc
qp__migrate_prompts(struct qp__migration *m, struct qp_err *err)
{
  enum qp_rc rc = m->owner ? QP_OK : take_prompt_file(m, err);

  for (size_t i = 0; i < qp__legacy_prompt_count(m->source) && !rc; i++) {
    struct qp__legacy_prompt p;

    qp__legacy_prompt(m->source, i, &p);
    rc = take_copy(m, &p, err);
  }
  if (!rc)
    rc = check_reference(
        m, NULL, json_string_value(json_object_get(m->meta->config, "system_prompt_id")), err);
  for (size_t i = 0; i < m->meta->branch_count && !rc; i++)
    rc = check_reference(m, m->meta->branches[i].name, m->meta->branches[i].system_prompt_id, err);
  return rc;
}
