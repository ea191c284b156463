/* ls_int.h - shared by localstorage.c and the ls_*.c files.
 *
 * To convert an object of the dump, every converted field is removed from `rest`, a shallow copy of
 * it, and the remaining fields are kept together. So nothing is lost by being forgotten. */
#ifndef QP_OLD_LS_INT_H
#define QP_OLD_LS_INT_H

#include "model/message_int.h"
#include "old/localstorage.h"

/* ---- notes ---- */

/* `item` may be NULL. False: out of memory. */
bool qp__ls_note(struct qp__ls_notes *notes, const char *item, enum qp_rc rc, const char *fmt, ...)
    QP_PRINTF(4, 5);

/* ---- taking ---- */

/* Removes a field from `rest` and returns its value, still owned by the original object. NULL:
 * absent. */
json_t *qp__ls_take(json_t *rest, const json_t *object, const char *key);
/* The same for a non-empty string without NUL; any other value stays. */
const char *qp__ls_take_string(json_t *rest, const json_t *object, const char *key);
/* A time: milliseconds since 1970, or RFC 3339; not 0. False: invalid, and it stays. */
bool qp__ls_time(const json_t *value, int64_t *ms);
/* Adds the remaining fields of `rest` to `target` as QP__LS_FIELD, unless there are none. 0 or
 * -1. */
int qp__ls_set_rest(json_t *target, json_t *rest);

/* ---- ids ---- */

/* A UUID (version 8) from the hash of a kind and two values: always the same for the same input. */
struct qp_uuid qp__ls_derive(const char *kind, struct qp_bytes scope, struct qp_bytes id);
/* `id` itself if it is a UUID. */
bool qp__ls_uuid(const char *id, struct qp_uuid *out);
/* The id of a prompt in quipu, as a new string; NULL: out of memory. */
char *qp__ls_prompt_id(const char *id);

/* ---- the parts ---- */

/* Reads the array of prompts at `key`. */
enum qp_rc qp__ls_prompts_read(struct qp__ls *ls, const char *key, const json_t *array,
                               struct qp_err *err);
const struct qp__ls_prompt *qp__ls_prompt_find(const struct qp__ls *ls, const char *old_id);

/* Converts one message and appends it to the chat. `seen` has a key for each id of the chat.
 * QP_INVALID, QP_TOOBIG: it cannot be imported. */
enum qp_rc qp__ls_message_add(struct qp__ls_chat *chat, const json_t *object, size_t position,
                              json_t *seen, struct qp_err *err);

/* Adds an image of the form {base64, type, name, size, width, height, …} to the message: a blob of
 * the chat, and a part that refers to it. An unreadable image is kept unchanged, with a note.
 * `item` is the subject of notes. */
enum qp_rc qp__ls_image_add(struct qp__ls_chat *chat, struct qp_message *m, const char *item,
                            json_t *image, struct qp_err *err);
/* The same for a part of a content array whose image is the string `url`. */
enum qp_rc qp__ls_image_part(struct qp__ls_chat *chat, struct qp_message *m, const char *item,
                             const char *url, const char *detail, json_t *rest, struct qp_err *err);
/* Adds a part of an unknown type: {"type": `type`, QP__LS_FIELD: value}. */
enum qp_rc qp__ls_keep_part(struct qp_message *m, const char *type, json_t *value,
                            struct qp_err *err);

#endif
