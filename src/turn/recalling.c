/* recalling.c - see recalling.h. */
#include "turn/recalling.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"
#include "compact/recall.h"
#include "model/message.h"
#include "store/context/context_int.h"
#include "turn/compacting.h"
#include "turn/conversation.h"

#define HITS_DEFAULT 10
#define HITS_MAX 50
#define READ_DEFAULT 2000 /* tokens */
#define READ_MAX 8000
#define READ_MESSAGES 200 /* at once */
#define TEXT_MAX ((size_t)1 << 20)

static const char what[] = "a search in the history";

struct job {
  uv_work_t work; /* first */
  struct qp__actor *actor;
  struct qp__conversation conversation;
  struct qp_message **messages;
  size_t count, cap;
  uint64_t first; /* number of the first */
  uint64_t began;

  /* of a tool */
  bool reads; /* read_history */
  json_t *arguments;
  qp__recall_done *done;
  void *run;

  /* of a message */
  struct qp__action_request *request;
  int64_t budget;
  struct qp__buf query;
  json_t *hits;

  struct qp__buf text;
  struct qp_err err;
};

static void
free_job(struct job *j)
{
  for (size_t i = 0; i < j->count; i++)
    qp_message_free(j->messages[i]);
  qp__free(j->messages);
  json_decref(j->arguments);
  json_decref(j->hits);
  qp__buf_release(&j->query);
  qp__buf_release(&j->text);
  qp__conversation_release(&j->conversation);
  qp__free(j);
}

static struct job *
new_job(struct qp__actor *t, const char *branch)
{
  struct job *j = qp__alloc0(1, sizeof(*j));

  if (!j)
    return NULL;
  j->actor = t;
  j->conversation.engine = t->engine;
  j->conversation.context = t->context;
  j->conversation.branch = qp__arena_strdup(&j->conversation.arena, branch);
  j->began = uv_now(&t->engine->loop);
  qp__buf_init(&j->query, TEXT_MAX);
  qp__buf_init(&j->text, TEXT_MAX);
  if (!j->conversation.branch) {
    free_job(j);
    return NULL;
  }
  return j;
}

/* ---- in the worker ---- */

static enum qp_rc
add_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct job *j = arg;
  struct qp_message *message = NULL;
  enum qp_rc rc;

  if (!qp__vec_reserve(j->messages, j->count, j->cap, 1))
    return qp__fail_nomem(&j->err, what);
  /* A message that is lost keeps its number. */
  rc = info->status == QP_STATUS_UNAVAILABLE
           ? qp_message_new_text(QP_ROLE_SYSTEM, (struct qp_bytes){ "", 0 }, &message, &j->err)
           : qp_message_parse(json, &message, &j->err);
  if (rc)
    return rc;
  if (!j->count)
    j->first = info->position + 1;
  j->messages[j->count++] = message;
  return QP_OK;
}

/* Reads messages of the branch and indexes them. */
static enum qp_rc
index_messages(struct job *j, uint64_t from, uint64_t count, struct qp__recall **out)
{
  struct qp__conversation *c = &j->conversation;
  struct qp__source source;
  enum qp_rc rc = qp_messages_range(c->context, c->branch, from, count, add_message, j, &j->err);

  if (rc)
    return rc;
  if (!j->count)
    return qp__fail(&j->err, QP_NOTFOUND, "there is no such message");
  source = (struct qp__source){ (const struct qp_message *const *)j->messages, j->count, j->first };
  return qp__recall_new(&source, out, &j->err);
}

static enum qp_rc
search(struct job *j)
{
  const json_t *value = json_object_get(j->arguments, "query");
  struct qp_bytes query = { json_string_value(value), json_string_length(value) };
  json_int_t limit = json_integer_value(json_object_get(j->arguments, "limit"));
  struct qp__recall_hit hits[HITS_MAX];
  struct qp__recall *recall = NULL;
  size_t n = 0;
  enum qp_rc rc;

  if (!query.data || !query.len)
    return qp__fail(&j->err, QP_INVALID, "\"query\" must be a text");
  if (limit < 1 || limit > HITS_MAX)
    limit = HITS_DEFAULT;
  rc = index_messages(j, 0, j->conversation.record->covered, &recall);
  if (!rc)
    rc = qp__recall_search(recall, query, hits, (size_t)limit, &n, &j->err);
  for (size_t i = 0; i < n && !rc; i++) {
    char id[QP_UUID_TEXT];

    (void)qp__buf_addf(&j->text, "#%llu (%s, id %s): ", (unsigned long long)hits[i].at,
                       qp_role_name(j->messages[hits[i].at - j->first]->role),
                       qp_uuid_text(&hits[i].id, id));
    rc = qp__recall_snippet(recall, hits[i].at, query, &j->text, &j->err);
    (void)qp__buf_add_char(&j->text, '\n');
  }
  if (!rc && !n)
    (void)qp__buf_add_str(&j->text, "Nothing was found. Try other words.");
  qp__recall_free(recall);
  return rc ? rc : qp__buf_check(&j->text, what, &j->err);
}

/* The number of the message that read_history begins with. */
static enum qp_rc
find_start(struct job *j, uint64_t *out)
{
  const json_t *value = json_object_get(j->arguments, "id");
  const char *text = json_string_value(value);
  json_int_t before = json_integer_value(json_object_get(j->arguments, "before"));
  struct qp_message_info info;
  struct qp_uuid id;
  uint64_t at;

  if (json_is_integer(value))
    at = (uint64_t)json_integer_value(value);
  else if (text && !qp_uuid_parse(text, &id, NULL)) {
    enum qp_rc rc = qp_message_find(j->conversation.context, &id, &info, &j->err);

    if (rc)
      return rc;
    at = info.position + 1;
  } else {
    at = text ? strtoull(text + (*text == '#'), NULL, 10) : 0;
  }
  if (!at)
    return qp__fail(&j->err, QP_INVALID,
                    "\"id\" must be the number of a message, such as 12, or its id");
  *out = before > 0 && (uint64_t)before < at ? at - (uint64_t)before : before > 0 ? 1 : at;
  return QP_OK;
}

static enum qp_rc
read_messages(struct job *j)
{
  json_int_t offset = json_integer_value(json_object_get(j->arguments, "offset"));
  json_int_t budget = json_integer_value(json_object_get(j->arguments, "max_tokens"));
  struct qp__recall *recall = NULL;
  uint64_t at = 0;
  uint64_t next = 0;
  size_t from = 0;
  enum qp_rc rc = find_start(j, &at);

  if (budget < 100 || budget > READ_MAX)
    budget = READ_DEFAULT;
  if (!rc)
    rc = index_messages(j, at - 1, READ_MESSAGES, &recall);
  if (!rc)
    rc = qp__recall_read(recall, at, offset > 0 ? (size_t)offset : 0, budget, &j->text, &next,
                         &from, &j->err);
  if (!rc && next)
    (void)qp__buf_addf(&j->text,
                       "\n\n[there is more: read_history with \"id\": \"%llu\", \"offset\": %zu]",
                       (unsigned long long)next, from);
  qp__recall_free(recall);
  return rc ? rc : qp__buf_check(&j->text, what, &j->err);
}

/* What is recalled for a message, and the ids of the hits that it shows. */
static enum qp_rc
recall(struct job *j)
{
  uint64_t covered = j->conversation.record->covered;
  uint64_t from = covered > QP__RECALL_MESSAGES ? covered - QP__RECALL_MESSAGES : 0;
  struct qp__recall_hit hits[HITS_DEFAULT];
  struct qp__recall *index = NULL;
  size_t n = 0;
  enum qp_rc rc = index_messages(j, from, covered - from, &index);

  if (!rc)
    rc = qp__recall_for(index, qp__buf_bytes(&j->query), j->budget, &j->text, &j->err);
  if (!rc && j->text.len)
    rc = qp__recall_search(index, qp__buf_bytes(&j->query), hits, HITS_DEFAULT, &n, &j->err);
  j->hits = json_array();
  for (size_t i = 0; i < n && !rc && j->hits; i++) {
    char id[QP_UUID_TEXT];

    if (json_array_append_new(j->hits, json_string(qp_uuid_text(&hits[i].id, id))))
      rc = qp__fail_nomem(&j->err, what);
  }
  qp__recall_free(index);
  return rc;
}

static void
work(uv_work_t *w)
{
  struct job *j = (struct job *)w;
  struct qp__conversation *c = &j->conversation;
  enum qp_rc rc = qp__conversation_records(c, false, &j->err);

  if (!rc && j->reads)
    rc = read_messages(j);
  else if (!rc && (!c->record || !c->record->covered))
    rc = qp__fail(&j->err, QP_NOTFOUND, "nothing is covered: the whole conversation is shown");
  else if (!rc)
    rc = j->request ? recall(j) : search(j);
  j->err.rc = rc;
}

/* ---- tools, on the loop ---- */

static void
on_tool(uv_work_t *w, int status)
{
  struct job *j = (struct job *)w;
  struct qp__actor *t = j->actor;
  json_t *value;

  t->jobs--;
  if (status)
    j->err.rc = qp__fail(&j->err, QP_STOPPED, "the search was stopped");
  value = j->err.rc ? json_string(j->err.msg) : json_stringn(j->text.data, j->text.len);
  j->done(j->run, value, j->err.rc != QP_OK, uv_now(&t->engine->loop) - j->began);
  json_decref(value);
  free_job(j);
  qp__actor_pump(t);
}

bool
qp__recall_start(struct qp__actor *t, const char *name, const char *arguments,
                 qp__recall_done *done, void *run)
{
  struct job *j = new_job(t, t->open->facts.branch);
  struct qp_err err;

  if (!j)
    return false;
  j->reads = strcmp(name, qp__recall_tools[1].name) == 0;
  j->done = done;
  j->run = run;
  if (qp__json_parse_outside_object(
          "the arguments", (struct qp_bytes){ arguments, strlen(arguments) }, &j->arguments, &err))
    j->arguments = json_object(); /* the answer says which argument is missing */
  if (!j->arguments || uv_queue_work(&t->engine->loop, &j->work, work, on_tool)) {
    free_job(j);
    return false;
  }
  t->jobs++;
  return true;
}

/* ---- messages, on the loop ---- */

bool
qp__recall_is_wanted(struct qp__actor *t, const struct qp__action_request *request)
{
  struct qp__compact_settings settings;
  struct qp__view *v;
  bool wanted;

  if (!request->message || request->rules != QP__RULES_NONE)
    return false;
  v = qp__view_get(t->context);
  qp__conversation_settings(t->engine, v->meta->config, &settings);
  wanted = settings.recall_tokens > 0 && qp__branch_is_compacted(t->context, v, request->branch);
  qp__view_unref(v);
  return wanted;
}

static int
set_recall(struct job *j)
{
  struct qp_message *m = j->request->message;
  json_t *metadata = m->metadata ? json_deep_copy(m->metadata) : json_object();
  json_t *found = json_pack("{s:s%, s:O}", "text", j->text.data, j->text.len, "hits", j->hits);
  struct qp__buf text;
  struct qp_err err;
  int bad = !metadata || json_object_set_new(metadata, "recall", found);

  qp__buf_init(&text, TEXT_MAX);
  bad = bad || qp__json_write(&text, metadata) || qp_message_set_metadata(m, text.data, &err);
  qp__buf_release(&text);
  json_decref(metadata);
  return bad;
}

static void
on_recalled(uv_work_t *w, int status)
{
  struct job *j = (struct job *)w;
  struct qp__actor *t = j->actor;
  struct qp__action_request *request = j->request;

  t->jobs--;
  if (!status && !j->err.rc && j->text.len)
    (void)set_recall(j); /* without memory nothing is recalled */
  request->rules = QP__RULES_STORED;
  free_job(j);
  qp__actor_enqueue(t, &request->input);
  qp__actor_pump(t);
}

bool
qp__recall_for_request(struct qp__actor *t, struct qp__action_request *request)
{
  struct qp__compact_settings settings;
  struct job *j = new_job(t, request->branch);
  struct qp__view *v;

  if (!j)
    return false;
  v = qp__view_get(t->context);
  qp__conversation_settings(t->engine, v->meta->config, &settings);
  qp__view_unref(v);
  j->request = request;
  j->budget = settings.recall_tokens;
  for (size_t i = 0; i < qp_message_part_count(request->message); i++) {
    struct qp_part part = qp_message_part(request->message, i);

    if (part.kind == QP_PART_TEXT)
      (void)qp__buf_add(&j->query, part.text.data, part.text.len);
  }
  if (!j->query.len || uv_queue_work(&t->engine->loop, &j->work, work, on_recalled)) {
    free_job(j);
    return false;
  }
  t->jobs++;
  return true;
}
