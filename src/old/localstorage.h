/* localstorage.h - reads a dump of the LocalStorage of a chat page.
 *
 * A dump is a JSON object of keys; a value is JSON, or a string that contains JSON, as in
 * LocalStorage itself. {"localStorage": {…}} around it is accepted. Five forms are known, newest
 * first:
 *
 *   v3        copilot_chats_v3: whole chats with their messages
 *   v2        copilot_chats_v2, and copilot_messages_v2_<id> for each chat
 *   backup    copilot_migration_backup_v1: {chats, messages: {id: […]}, prompts} of v2
 *   v2-early  copilot_chats_v2, and copilot_messages_<id> for each chat
 *   v1        copilot_chats, and copilot_messages: {id: […]}
 *
 * and prompts in copilot_custom_system_prompts_v2, copilot_system_prompts_v1, the backup and
 * copilot_system_prompts. All other keys are ignored. A dump may have several forms: of each chat,
 * and of each prompt, the newest form is used.
 *
 * What cannot be imported is recorded as a note with a code other than QP_OK and omitted; this does
 * not affect the rest. Data for which quipu has no field is kept in a field "localstorage" of the
 * metadata, the message, the part, the call or the prompt. docs/formats.md describes the mapping of
 * all fields.
 *
 * The result depends only on the dump: the same chat always gives the same ids and the same bytes,
 * and the first messages of a longer chat are those of the shorter one. */
#ifndef QP_OLD_LOCALSTORAGE_H
#define QP_OLD_LOCALSTORAGE_H

#include <jansson.h>

#include "base/buf.h"
#include "model/message.h"
#include "model/meta.h"
#include "model/prompt.h"
#include "quipu.h"

#define QP__LS_FIELD "localstorage"
#define QP__LS_MAX ((size_t)512 << 20) /* of a dump; reading one needs a few times its size */

/* ---- what a person should know ---- */

struct qp__ls_note {
  char *item;        /* "message 3", "key copilot_chats_v2"; NULL: the chat itself */
  struct qp_err err; /* QP_OK: imported, with this remark; otherwise why it was not */
};

/* A zeroed struct is an empty list. */
struct qp__ls_notes {
  struct qp__ls_note *list;
  size_t count, cap;
};

void qp__ls_notes_release(struct qp__ls_notes *notes);

/* ---- a dump ---- */

struct qp__ls_prompt {
  const char *old_id;               /* borrowed from the dump */
  struct qp__stored_prompt *prompt; /* ready to be stored, except its times */
};

struct qp__ls_source {
  const char *id;     /* in the dump; borrowed, like the rest */
  const char *form;   /* "v2" */
  const json_t *chat; /* an object with a valid id, title and createdAt */
  json_t *messages;   /* an array; NULL: none */
  int64_t created_at;
};

struct qp__ls {
  json_t *keys; /* owns everything that is borrowed here */
  struct qp__ls_prompt *prompts;
  size_t prompt_count, prompt_cap;
  json_t *prompt_ids; /* old id → position in the list */
  struct qp__ls_source *chats;
  size_t chat_count, chat_cap;
  json_t *chat_ids; /* a key for each id: the list it is from; false: rejected */
  struct qp__ls_notes notes;
};

/* `what` begins the error message. The text is modified if it has halves of surrogate pairs, and is
 * not needed afterwards. QP_INVALID: not JSON, or not a known dump. */
enum qp_rc qp__ls_open(const char *what, struct qp__buf *text, struct qp__ls **out,
                       struct qp_err *err);
void qp__ls_close(struct qp__ls *ls);

/* ---- a chat ---- */

struct qp__ls_blob {
  char id[QP_BLOB_ID];
  char *data;
  size_t len;
};

struct qp__ls_chat {
  struct qp__meta *meta;        /* without a reference to a prompt */
  struct qp_message **messages; /* each with id, time and the previous message as its parent */
  size_t count, cap;
  struct qp__ls_blob *blobs; /* that the messages refer to, without duplicates */
  size_t blob_count, blob_cap;
  json_t *blob_ids;        /* a key for each of them */
  const char *owner;       /* that its context gets, or NULL; borrowed */
  char *prompt_id;         /* the id of its prompt in quipu, or NULL */
  const char *prompt_old;  /* the same in the dump */
  bool prompt_known;       /* the dump has that prompt */
  const char *prompt_text; /* its text in the chat, or NULL; borrowed from the dump */
  size_t max_message;
  struct qp__ls_notes notes;
};

/* Converts chat i of the dump. Messages that cannot be imported, or would be larger than
 * `max_message` bytes, are in the notes, with their position. */
enum qp_rc qp__ls_chat_load(const struct qp__ls *ls, size_t i, size_t max_message,
                            struct qp__ls_chat **out, struct qp_err *err);
void qp__ls_chat_free(struct qp__ls_chat *chat);

/* The id of the context for chat `id`. */
struct qp_uuid qp__ls_chat_uuid(const char *id);

#endif
