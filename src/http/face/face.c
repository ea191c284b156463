/* face.c - see face.h. */
#include "http/face/face.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "http/clock.h"
#include "os/os.h"

#define ANSWER_MAX ((size_t)12 << 20) /* bytes of text, thinking and arguments */
#define OUT_MAX ((size_t)128 << 20)   /* text of ANSWER_MAX bytes, escaped several times */
#define ID_BYTES 16

bool
qp__face_random(char *out, size_t bytes)
{
  const struct qp__os *os = &qp__os_posix;
  uint8_t random[ID_BYTES];

  out[0] = '\0';
  if (bytes > sizeof(random) || os->random(os->self, random, bytes))
    return false;
  qp__hex_encode(out, random, bytes);
  out[2 * bytes] = '\0';
  return true;
}

void
qp__face_init(struct qp__face *f, const struct qp__face_form *form, const char *id_prefix)
{
  char hex[2 * ID_BYTES + 1];

  memset(f, 0, sizeof(*f));
  f->form = form;
  f->created = qp__clock_wall_ms() / 1000;
  f->round = 1;
  qp__buf_init(&f->out, OUT_MAX);
  (void)qp__face_random(hex, ID_BYTES); /* without it an id that nobody can look up is shorter */
  (void)snprintf(f->id, sizeof(f->id), "%s%s", id_prefix, hex);
}

static void
free_item(struct qp__item *item)
{
  qp__buf_release(&item->text);
  qp__buf_release(&item->result);
  qp__free(item->id);
  qp__free(item->name);
  qp__free(item->signature);
  qp__free(item);
}

void
qp__face_release(struct qp__face *f)
{
  for (size_t i = 0; i < f->count; i++)
    free_item(f->items[i]);
  qp__free(f->items);
  qp__buf_release(&f->out);
  f->items = NULL;
  f->count = 0;
}

/* ---- items ---- */

static bool
shows(const struct qp__face *f, const struct qp__item *item)
{
  return f->streams && (!item->of_server || f->form->shows_server_calls);
}

void
qp__face_begin(struct qp__face *f)
{
  if (f->begun)
    return;
  f->begun = true;
  if (f->form->begin)
    f->form->begin(f);
}

static void
end_item(struct qp__face *f, struct qp__item *item)
{
  if (!item->open)
    return;
  item->open = false;
  if (shows(f, item))
    f->form->item_end(f, item);
}

/* Texts and thinking end where something else begins; calls may arrive interleaved. */
static void
end_texts(struct qp__face *f)
{
  for (size_t i = f->count; i-- > 0 && f->items[i]->round == f->round;)
    if (f->items[i]->kind != QP__ITEM_CALL)
      end_item(f, f->items[i]);
}

static struct qp__item *
find_item(const struct qp__face *f, size_t block)
{
  for (size_t i = f->count; i-- > 0 && f->items[i]->round == f->round;)
    if (f->items[i]->block == block)
      return f->items[i];
  return NULL;
}

static bool
is_of_server(const struct qp__face *f, const char *name)
{
  if (!f->client_tools)
    return false;
  for (size_t i = 0; f->client_tools[i]; i++)
    if (strcmp(f->client_tools[i], name) == 0)
      return false;
  return true;
}

static struct qp__item *
add_item(struct qp__face *f, enum qp__item_kind kind, const struct qp__llm_event *event)
{
  struct qp__item *item = qp__alloc0(1, sizeof(*item));

  if (!item || !qp__vec_reserve(f->items, f->count, f->cap, 1)) {
    qp__free(item);
    return NULL;
  }
  qp__buf_init(&item->text, ANSWER_MAX + 1);
  qp__buf_init(&item->result, ANSWER_MAX + 1);
  item->kind = kind;
  item->block = event->block;
  item->round = f->round;
  item->open = true;
  if (kind == QP__ITEM_CALL) {
    item->id = qp__strdup(event->id ? event->id : "");
    item->name = qp__strdup(event->name ? event->name : "");
    if (!item->id || !item->name) {
      free_item(item);
      return NULL;
    }
    item->of_server = f->call_kind == QP__CALL_BY_NAME ? is_of_server(f, item->name)
                                                       : f->call_kind == QP__CALL_OF_SERVER;
  }
  end_texts(f);
  f->items[f->count++] = item;
  if (!item->of_server || f->form->shows_server_calls)
    item->place = f->places++;
  if (kind == QP__ITEM_CALL && !item->of_server)
    item->number = f->calls++;
  qp__face_begin(f);
  if (shows(f, item))
    f->form->item_begin(f, item);
  return item;
}

static enum qp_rc
add_text(struct qp__face *f, struct qp__item *item, struct qp_bytes text, struct qp_err *err)
{
  f->bytes += text.len;
  if (f->bytes > ANSWER_MAX)
    return qp__fail(err, QP_TOOBIG, "the answer is longer than %zu bytes", ANSWER_MAX);
  if (qp__buf_add(&item->text, text.data, text.len))
    return qp__fail_nomem(err, "an answer");
  if (text.len && shows(f, item))
    f->form->item_more(f, item, text);
  return QP_OK;
}

/* A piece of a text or of thinking. */
static enum qp_rc
feed_text(struct qp__face *f, enum qp__item_kind kind, const struct qp__llm_event *event,
          struct qp_err *err)
{
  struct qp__item *item = find_item(f, event->block);

  if (!item || item->kind != kind || !item->open)
    item = add_item(f, kind, event);
  return item ? add_text(f, item, event->text, err) : qp__fail_nomem(err, "an answer");
}

/* What the provider did not send in pieces comes as a whole now. */
static enum qp_rc
end_call(struct qp__face *f, struct qp__item *item, const struct qp__llm_event *event,
         struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (!item->text.len)
    rc = add_text(f, item, event->text, err);
  if (!rc)
    end_item(f, item);
  return rc;
}

static enum qp_rc
keep_signature(struct qp__item *item, struct qp_bytes text, struct qp_err *err)
{
  char *more = qp__strf("%s%.*s", item->signature ? item->signature : "", (int)text.len, text.data);

  if (!more)
    return qp__fail_nomem(err, "an answer");
  qp__free(item->signature);
  item->signature = more;
  return QP_OK;
}

static void
keep_usage(struct qp__face *f, const struct qp__llm_usage *u)
{
  const struct qp__llm_usage *past = &f->usage_past;

  f->usage = (struct qp__llm_usage){ past->input + u->input,
                                     past->cache_read + u->cache_read,
                                     past->cache_write + u->cache_write,
                                     past->cache_write_1h + u->cache_write_1h,
                                     past->output + u->output,
                                     past->reasoning + u->reasoning };
}

void
qp__face_round(struct qp__face *f)
{
  end_texts(f);
  f->usage_past = f->usage;
  f->round++;
}

enum qp_rc
qp__face_feed(struct qp__face *f, const struct qp__llm_event *event, struct qp_err *err)
{
  struct qp__item *item = find_item(f, event->block);

  switch (event->kind) {
  case QP__LLM_START:
    if (event->name && *event->name)
      (void)snprintf(f->model, sizeof(f->model), "%s", event->name);
    return QP_OK;
  case QP__LLM_TEXT:
    return feed_text(f, QP__ITEM_TEXT, event, err);
  case QP__LLM_THINKING:
    return feed_text(f, QP__ITEM_THINKING, event, err);
  case QP__LLM_SIGNATURE:
    return item && item->kind == QP__ITEM_THINKING ? keep_signature(item, event->text, err) : QP_OK;
  case QP__LLM_CALL:
    return add_item(f, QP__ITEM_CALL, event) ? QP_OK : qp__fail_nomem(err, "an answer");
  case QP__LLM_ARGUMENTS:
    return item && item->open ? add_text(f, item, event->text, err) : QP_OK;
  case QP__LLM_CALL_END:
    return item && item->open ? end_call(f, item, event, err) : QP_OK;
  case QP__LLM_USAGE:
    keep_usage(f, &event->usage);
    return QP_OK;
  case QP__LLM_STOP:
    f->stop = event->stop;
    (void)snprintf(f->stop_reason, sizeof(f->stop_reason), "%s", event->name ? event->name : "");
    return QP_OK;
  case QP__LLM_OTHER:
    break; /* a block that only its provider understands: no other protocol has a place for it */
  }
  return QP_OK;
}

void
qp__face_result(struct qp__face *f, const char *id, struct qp_bytes result, bool failed)
{
  for (size_t i = f->count; i-- > 0;) {
    struct qp__item *item = f->items[i];

    if (item->kind != QP__ITEM_CALL || strcmp(item->id, id) != 0 || item->result.len)
      continue;
    (void)qp__buf_add(&item->result, result.data, result.len);
    item->failed = failed;
    if (item->of_server && shows(f, item) && f->form->item_result)
      f->form->item_result(f, item);
    return;
  }
  if (f->form->stray_result)
    f->form->stray_result(f, id, result, failed);
}

void
qp__face_end(struct qp__face *f, const struct qp__llm_fault *fault)
{
  if (f->ended)
    return;
  f->ended = true;
  qp__face_begin(f);
  for (size_t i = 0; i < f->count; i++)
    end_item(f, f->items[i]);
  f->form->end(f, fault);
}

/* ---- what forms ask ---- */

bool
qp__face_calls(const struct qp__face *f)
{
  for (size_t i = 0; i < f->count; i++)
    if (f->items[i]->kind == QP__ITEM_CALL && !f->items[i]->of_server)
      return true;
  return false;
}

int64_t
qp__face_input(const struct qp__face *f)
{
  return f->usage.input + f->usage.cache_read + f->usage.cache_write;
}

struct qp_bytes
qp__item_arguments(const struct qp__item *item)
{
  json_t *value = NULL;
  bool good = item->text.len &&
              qp__json_parse_object("arguments", qp__buf_bytes(&item->text), &value, NULL) == QP_OK;

  json_decref(value);
  return good ? qp__buf_bytes(&item->text) : (struct qp_bytes){ "{}", 2 };
}

void
qp__frame_open(struct qp__buf *out, const char *event)
{
  if (event)
    (void)qp__buf_addf(out, "event: %s\n", event);
  (void)qp__buf_add_str(out, "data: ");
  (void)qp__buf_add_char(out, '{');
}

void
qp__frame_close(struct qp__buf *out)
{
  (void)qp__buf_add_str(out, "}\n\n");
}
