/* fuzz_localstorage.c - everything that is read as a dump gives messages, metadata and prompts that
 * can be stored: they encode, decode and encode to the same bytes; each message follows the one
 * before it, ids are unique, and blobs have the names of their content. Invalid input gives an
 * error message. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/blob_name.h"
#include "old/localstorage.h"

#define BIG ((size_t)1 << 30)
#define MESSAGE_MAX ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
die(const char *why, const struct qp_err *err)
{
  (void)fprintf(stderr, "%s: %s\n", why, err->msg);
  abort();
}

static void
check_message(const struct qp_message *m, const struct qp_message *before)
{
  static const struct qp_uuid none;
  struct qp_err err = { QP_OK, "" };
  struct qp_message *again = NULL;
  struct qp__buf a;
  struct qp__buf b;

  qp__buf_init(&a, BIG);
  qp__buf_init(&b, BIG);
  if (qp__message_encode(m, &a, &err))
    die("a message does not encode", &err);
  if (a.len > MESSAGE_MAX)
    die("a message is too large", &err);
  if (qp__message_decode("encoded", qp__buf_bytes(&a), &again, &err))
    die("a message does not decode", &err);
  if (qp__message_encode(again, &b, &err))
    die("a message does not encode again", &err);
  if (a.len != b.len || memcmp(a.data, b.data, a.len) != 0)
    die("a message is not the same the second time", &err);
  if (qp_uuid_is_none(&m->id) || !m->created_at ||
      !qp_uuid_equal(&m->parent, before ? &before->id : &none))
    die("a message has no id, time or parent", &err);
  qp_message_free(again);
  qp__buf_release(&a);
  qp__buf_release(&b);
}

static void
check_meta(const struct qp__meta *meta)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__meta *again = NULL;
  struct qp__buf text;

  qp__buf_init(&text, BIG);
  if (qp__meta_encode(meta, &text, &err))
    die("metadata does not encode", &err);
  if (text.len <= QP__META_MAX) {
    if (qp__meta_decode("encoded", qp__buf_bytes(&text), &again, &err))
      die("metadata does not decode", &err);
    if (!qp__meta_equal(meta, again))
      die("metadata is not equal the second time", &err);
  }
  qp__meta_free(again);
  qp__buf_release(&text);
}

static void
check_notes(const struct qp__ls_notes *notes)
{
  for (size_t i = 0; i < notes->count; i++)
    if (!notes->list[i].err.msg[0])
      die("a note without a sentence", &notes->list[i].err);
}

static int
by_id(const void *a, const void *b)
{
  return memcmp(a, b, sizeof(struct qp_uuid));
}

/* No id is there twice. */
static void
check_ids(const struct qp__ls_chat *chat)
{
  struct qp_err err = { QP_OK, "" };
  struct qp_uuid *ids = malloc((chat->count + 1) * sizeof(*ids));

  if (!ids)
    abort();
  for (size_t i = 0; i < chat->count; i++)
    ids[i] = chat->messages[i]->id;
  qsort(ids, chat->count, sizeof(*ids), by_id);
  for (size_t i = 1; i < chat->count; i++)
    if (qp_uuid_equal(&ids[i], &ids[i - 1]))
      die("two messages have one id", &err);
  free(ids);
}

static void
check_chat(const struct qp__ls_chat *chat)
{
  struct qp_err err = { QP_OK, "" };
  char name[QP_BLOB_ID];

  for (size_t i = 0; i < chat->count; i++)
    check_message(chat->messages[i], i ? chat->messages[i - 1] : NULL);
  for (size_t i = 0; i < chat->blob_count; i++) {
    qp__blob_name((struct qp_bytes){ chat->blobs[i].data, chat->blobs[i].len }, name);
    if (strcmp(name, chat->blobs[i].id) != 0 || chat->blobs[i].len > QP__BLOB_MAX)
      die("a blob has a wrong name or size", &err);
  }
  check_ids(chat);
  check_meta(chat->meta);
  check_notes(&chat->notes);
}

static void
check_prompt(const struct qp__stored_prompt *p)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__stored_prompt *again = NULL;
  struct qp__buf text;

  qp__buf_init(&text, BIG);
  if (qp__prompt_encode(p, &text, &err))
    die("a prompt does not encode", &err);
  if (qp__prompt_decode("encoded", qp__buf_bytes(&text), &again, &err))
    die("a prompt does not decode", &err);
  qp__prompt_free(again);
  qp__buf_release(&text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__ls *ls = NULL;
  struct qp__buf text;

  qp__buf_init(&text, BIG);
  if (qp__buf_add(&text, data, size))
    abort();
  if (qp__ls_open("input", &text, &ls, &err) && !err.msg[0])
    die("refused without a reason", &err);
  qp__buf_release(&text);
  for (size_t i = 0; ls && i < ls->chat_count; i++) {
    struct qp__ls_chat *chat = NULL;

    err.msg[0] = 0;
    if (qp__ls_chat_load(ls, i, MESSAGE_MAX, &chat, &err) && !err.msg[0])
      die("a chat is refused without a reason", &err);
    if (chat)
      check_chat(chat);
    qp__ls_chat_free(chat);
  }
  for (size_t i = 0; ls && i < ls->prompt_count; i++)
    check_prompt(ls->prompts[i].prompt);
  if (ls)
    check_notes(&ls->notes);
  qp__ls_close(ls);
  return 0;
}
