/* recalling.c - see recalling.h. */
#include "turn/recalling.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "compact/recall.h"
#include "model/message.h"
#include "store/context/context_int.h"
#include "turn/compacting.h"
#include "turn/conversation.h"
#include "turn/originals.h"

#define HITS_DEFAULT 10
#define HITS_MAX 50
#define READ_DEFAULT 2000 /* tokens */
#define READ_MAX 8000
#define READ_MESSAGES 200 /* at once */
#define PAGE 1000         /* messages that are indexed at once */
#define TEXT_MAX ((size_t)1 << 20)

static const char what[] = "a search in the history";

enum job_kind {
  JOB_SEARCH, /* search_history */
  JOB_READ,   /* read_history */
  JOB_RECALL, /* for a message */
  JOB_BUILD,  /* only makes the index */
};

struct job {
  uv_work_t work; /* first */
  enum job_kind kind;
  struct qp__actor *actor;
  struct qp__conversation conversation;
  struct qp__originals originals; /* that were read last */
  uint64_t began;

  /* of a tool */
  json_t *arguments;
  qp__recall_done *done;
  void *run;

  /* of a message */
  struct qp__action_request *request;
  int64_t budget;
  struct qp__buf query;
  json_t *hits;
  bool must_build; /* only the newest covered messages were searched */

  struct qp__buf text;
  struct qp_err err;
};

static void
free_job(struct job *j)
{
  qp__originals_release(&j->originals);
  json_decref(j->arguments);
  json_decref(j->hits);
  qp__buf_release(&j->query);
  qp__buf_release(&j->text);
  qp__conversation_release(&j->conversation);
  qp__free(j);
}

static struct job *
new_job(struct qp__actor *t, enum job_kind kind, const char *branch)
{
  struct job *j = qp__alloc0(1, sizeof(*j));

  if (!j)
    return NULL;
  j->kind = kind;
  j->actor = t;
  j->conversation.engine = t->engine;
  j->conversation.context = t->context;
  j->conversation.stops = &t->recall_stops;
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

/* Reads messages of the branch in the place of those that were read before. */
static enum qp_rc
read_range(struct job *j, uint64_t from, uint64_t count)
{
  enum qp_rc rc = qp__originals_read(&j->originals, &j->conversation, from, count, &j->err);

  if (!rc && !j->originals.source.count)
    rc = qp__fail(&j->err, QP_NOTFOUND, "there is no such message");
  return rc;
}

/* Adds the messages before `end`, page by page, to an index that has those before `from`. */
static enum qp_rc
extend(struct job *j, struct qp__recall *index, uint64_t from, uint64_t end, struct qp_uuid *last)
{
  enum qp_rc rc = QP_OK;

  while (!rc && from < end) {
    uint64_t back = from < QP__RECALL_LOOK_BACK ? from : QP__RECALL_LOOK_BACK;
    uint64_t count = end - from < PAGE ? end - from : PAGE;
    const struct qp__source *source = &j->originals.source;

    if (!qp__recall_next(index))
      back = 0;
    rc = read_range(j, from - back, back + count);
    if (!rc)
      rc = qp__recall_add(index, source, &j->err);
    if (!rc)
      *last = source->messages[source->count - 1]->id;
    from += count;
  }
  return rc;
}

/* The index of everything that is covered; thing NULL: there is none, and making it would take
 * longer than a new message may wait. */
static enum qp_rc
take_index(struct job *j, struct qp__covered_entry *out)
{
  struct qp__conversation *c = &j->conversation;
  uint64_t covered = c->record->covered;
  struct qp__covered_entry e = qp__covered_cache_take(&c->engine->recalls, &c->context->id);
  struct qp__recall *index = e.thing;
  enum qp_rc rc = QP_OK;

  if (index && !qp__conversation_holds(c, e.covered, &e.last, NULL)) {
    qp__recall_free(index); /* of another branch */
    index = NULL;
  }
  if (!index)
    e.covered = 0;
  if (j->kind == JOB_RECALL && covered > e.covered + QP__RECALL_MESSAGES) {
    qp__recall_free(index);
    j->must_build = true;
    return QP_OK;
  }
  if (!index)
    rc = qp__recall_new(&index, &j->err);
  if (!rc)
    rc = extend(j, index, e.covered, covered, &e.last);
  if (rc) {
    qp__recall_free(index);
    return rc;
  }
  e.covered = qp__recall_next(index) - 1;
  e.bytes = qp__recall_bytes(index);
  e.thing = index;
  *out = e;
  return QP_OK;
}

/* Searches what is covered. */
static enum qp_rc
find_hits(struct job *j, struct qp_bytes query, struct qp__recall_hit *hits, size_t max,
          size_t *count)
{
  struct qp__conversation *c = &j->conversation;
  uint64_t covered = c->record->covered;
  struct qp__covered_entry e = { .thing = NULL };
  struct qp__recall *index;
  enum qp_rc rc = take_index(j, &e);

  index = e.thing;
  if (!rc && !index) {
    rc = qp__recall_new(&index, &j->err);
    if (!rc)
      rc = extend(j, index, covered - QP__RECALL_MESSAGES, covered, &e.last);
  }
  if (!rc)
    rc = qp__recall_search(index, query, covered, hits, max, count, &j->err);
  if (!rc && !j->must_build)
    qp__covered_cache_put(&c->engine->recalls, &e);
  else
    qp__recall_free(index);
  return rc;
}

/* Reads the messages of hits. */
static enum qp_rc
load_hits(struct job *j, const struct qp__recall_hit *hits, size_t n)
{
  enum qp_rc rc = QP_OK;

  qp__originals_reset(&j->originals);
  for (size_t i = 0; !rc && i < n; i++)
    rc = qp__originals_add(&j->originals, &j->conversation, &hits[i].id, &j->err);
  return rc;
}

static enum qp_rc
search(struct job *j)
{
  const json_t *value = json_object_get(j->arguments, "query");
  struct qp_bytes query = { json_string_value(value), json_string_length(value) };
  json_int_t limit = json_integer_value(json_object_get(j->arguments, "limit"));
  struct qp__arena *arena = &j->conversation.arena;
  struct qp__recall_hit hits[HITS_MAX];
  size_t n = 0;
  enum qp_rc rc;

  if (!query.data || !query.len)
    return qp__fail(&j->err, QP_INVALID, "\"query\" must be a text");
  if (limit < 1 || limit > HITS_MAX)
    limit = HITS_DEFAULT;
  rc = find_hits(j, query, hits, (size_t)limit, &n);
  if (!rc)
    rc = load_hits(j, hits, n);
  for (size_t i = 0; i < n && !rc; i++) {
    const struct qp_message *m = j->originals.source.messages[i];
    struct qp_bytes text = { "", 0 };
    char id[QP_UUID_TEXT];

    (void)qp__buf_addf(&j->text, "#%llu (%s, id %s): ", (unsigned long long)hits[i].at,
                       qp_role_name(m->role), qp_uuid_text(&hits[i].id, id));
    rc = qp__source_text(m, arena, &text, &j->err);
    if (!rc)
      rc = qp__recall_snippet(text, query, &j->text, &j->err);
    (void)qp__buf_add_char(&j->text, '\n');
  }
  if (!rc && !n)
    (void)qp__buf_add_str(&j->text, "Nothing was found. Try other words.");
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
  uint64_t at = 0;
  uint64_t next = 0;
  size_t from = 0;
  enum qp_rc rc = find_start(j, &at);

  if (budget < 100 || budget > READ_MAX)
    budget = READ_DEFAULT;
  if (!rc)
    rc = read_range(j, at - 1, READ_MESSAGES);
  if (!rc)
    rc = qp__recall_read(&j->originals.source, at, offset > 0 ? (size_t)offset : 0, budget,
                         &j->text, &next, &from, &j->err);
  if (!rc && next)
    (void)qp__buf_addf(&j->text,
                       "\n\n[there is more: read_history with \"id\": \"%llu\", \"offset\": %zu]",
                       (unsigned long long)next, from);
  return rc ? rc : qp__buf_check(&j->text, what, &j->err);
}

/* What is recalled for a message, and the ids of the hits that it shows. */
static enum qp_rc
recall(struct job *j)
{
  struct qp_bytes query = qp__buf_bytes(&j->query);
  struct qp__recall_hit hits[HITS_DEFAULT];
  size_t n = 0;
  enum qp_rc rc = find_hits(j, query, hits, HITS_DEFAULT, &n);

  if (!rc)
    rc = load_hits(j, hits, n);
  if (!rc)
    rc = qp__recall_show(query, hits, j->originals.source.messages, &n, j->budget, &j->text,
                         &j->err);
  j->hits = json_array();
  for (size_t i = 0; i < n && !rc && j->hits; i++) {
    char id[QP_UUID_TEXT];

    if (json_array_append_new(j->hits, json_string(qp_uuid_text(&hits[i].id, id))))
      rc = qp__fail_nomem(&j->err, what);
  }
  return rc;
}

static enum qp_rc
build(struct job *j)
{
  struct qp__conversation *c = &j->conversation;
  struct qp__covered_entry e;
  enum qp_rc rc = take_index(j, &e);

  if (!rc)
    qp__covered_cache_put(&c->engine->recalls, &e);
  return rc;
}

static void
work(uv_work_t *w)
{
  static enum qp_rc (*const works[])(struct job * j) = {
    [JOB_SEARCH] = search, [JOB_READ] = read_messages, [JOB_RECALL] = recall, [JOB_BUILD] = build
  };
  struct job *j = (struct job *)w;
  struct qp__conversation *c = &j->conversation;
  enum qp_rc rc = qp__conversation_records(c, false, &j->err);

  if (!rc && j->kind != JOB_READ && (!c->record || !c->record->covered))
    rc = qp__fail(&j->err, QP_NOTFOUND, "nothing is covered: the whole conversation is shown");
  j->err.rc = rc ? rc : works[j->kind](j);
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
  bool reads = strcmp(name, qp__recall_tools[1].name) == 0;
  struct job *j = new_job(t, reads ? JOB_READ : JOB_SEARCH, t->open->facts.branch);
  struct qp_err err;

  if (!j)
    return false;
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
  json_t *metadata = m->metadata ? qp__json_deep_copy(m->metadata) : json_object();
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
on_built(uv_work_t *w, int status)
{
  struct job *j = (struct job *)w;
  struct qp__actor *t = j->actor;

  (void)status;
  t->jobs--;
  t->recall_builds = false;
  if (j->err.rc && j->err.rc != QP_STOPPED)
    qp__log(&t->engine->log, QP_LOG_WARN, "compact", "covered messages were not indexed: %s",
            j->err.msg);
  free_job(j);
  qp__actor_pump(t);
}

/* Makes the index in the background. Without a worker the next message tries again. */
static void
start_build(struct qp__actor *t, const char *branch)
{
  struct job *j;

  if (t->recall_builds || t->stage != QP__ACTOR_OPEN || t->engine->phase != QP__ENGINE_RUNNING)
    return;
  j = new_job(t, JOB_BUILD, branch);
  if (!j)
    return;
  if (uv_queue_work(&t->engine->loop, &j->work, work, on_built)) {
    free_job(j);
    return;
  }
  t->recall_builds = true;
  t->jobs++;
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
  if (!status && j->must_build)
    start_build(t, j->conversation.branch);
  request->rules = QP__RULES_STORED;
  free_job(j);
  qp__actor_enqueue(t, &request->input);
  qp__actor_pump(t);
}

bool
qp__recall_for_request(struct qp__actor *t, struct qp__action_request *request)
{
  struct qp__compact_settings settings;
  struct job *j = new_job(t, JOB_RECALL, request->branch);
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
