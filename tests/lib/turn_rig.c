/* turn_rig.c - see turn_rig.h. */
#include "turn_rig.h"

#include <stdio.h>
#include <time.h>

#define PATIENCE_S 60
#define TEXT_LEN 65536

void
turn_rig_init(struct turn_rig *rig, struct fixture *f, const char *script)
{
  struct qp_context *c;

  memset(rig, 0, sizeof(*rig));
  rig->f = f;
  rig->options.size = sizeof(rig->options);
  rig->options.demo_script = script;
  rig->options.retry_ms = 1;
  rig->options.flush_ms = 5;
  (void)pthread_mutex_init(&rig->lock, NULL);
  (void)pthread_cond_init(&rig->changed, NULL);
  if (!f->store)
    return;
  c = new_context(f);
  rig->id = qp_context_id(c);
  qp_context_close(c);
}

void
turn_rig_workspace(struct turn_rig *rig)
{
  (void)snprintf(rig->workspace, sizeof(rig->workspace), "%s", pathf("%s/work", rig->f->dir));
  make_directory(rig->workspace);
  write_text(pathf("%s/notes.txt", rig->workspace), "remember the milk\n");
  rig->options.workspace = rig->workspace;
}

void
turn_rig_start(struct turn_rig *rig)
{
  OK(qp_engine_start(rig->f->store, &rig->options, &rig->engine, &failure));
}

void
turn_rig_stop(struct turn_rig *rig)
{
  qp_engine_stop(rig->engine);
  rig->engine = NULL;
}

void
turn_rig_release(struct turn_rig *rig)
{
  turn_unlisten(rig);
  turn_rig_stop(rig);
  if (rig->workspace[0])
    remove_tree(rig->workspace);
  free(rig->events);
  (void)pthread_cond_destroy(&rig->changed);
  (void)pthread_mutex_destroy(&rig->lock);
}

/* Waits for a change, with the lock held; false: timed out. */
static bool
wait_change(struct turn_rig *rig, const struct timespec *until)
{
  return pthread_cond_timedwait(&rig->changed, &rig->lock, until) == 0;
}

static struct timespec
deadline(void)
{
  struct timespec until;

  (void)clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += PATIENCE_S;
  return until;
}

/* ---- actions ---- */

static void
on_answer(void *arg, const struct qp_action_result *result, enum qp_rc rc, const struct qp_err *err)
{
  struct turn_answer *a = arg;
  struct turn_rig *rig = a->rig;

  (void)pthread_mutex_lock(&rig->lock);
  a->rc = rc;
  a->times++;
  (void)snprintf(a->msg, sizeof(a->msg), "%s", rc ? err->msg : "");
  (void)snprintf(a->state, sizeof(a->state), "%s", qp_state_name(result->state));
  (void)snprintf(a->branch, sizeof(a->branch), "%s", result->branch ? result->branch : "");
  a->message = result->message;
  a->seq = result->seq;
  a->replayed = result->replayed;
  a->done = true;
  (void)pthread_cond_broadcast(&rig->changed);
  (void)pthread_mutex_unlock(&rig->lock);
}

enum qp_rc
turn_try(struct turn_rig *rig, const struct qp_action *action, struct turn_answer *answer)
{
  struct qp_action a = *action;

  a.size = sizeof(a);
  memset(answer, 0, sizeof(*answer));
  answer->rig = rig;
  if (qp_uuid_is_none(&a.context))
    a.context = rig->id;
  return qp_engine_act(rig->engine, &a, on_answer, answer, &failure);
}

void
turn_begin(struct turn_rig *rig, const struct qp_action *action, struct turn_answer *answer)
{
  OK(turn_try(rig, action, answer));
}

void
turn_wait(struct turn_answer *answer)
{
  struct turn_rig *rig = answer->rig;
  struct timespec until = deadline();
  bool done;

  (void)pthread_mutex_lock(&rig->lock);
  while (!answer->done && wait_change(rig, &until))
    ;
  done = answer->done;
  (void)pthread_mutex_unlock(&rig->lock);
  if (!done)
    fail_msg("an action was not answered; heard so far:\n%s", rig->events ? rig->events : "");
}

struct turn_answer
turn_act(struct turn_rig *rig, struct qp_action action)
{
  struct turn_answer answer;

  action.wait = true;
  turn_begin(rig, &action, &answer);
  turn_wait(&answer);
  return answer;
}

struct turn_answer
turn_send(struct turn_rig *rig, const char *text)
{
  return turn_act(rig,
                  (struct qp_action){ .kind = QP_ACTION_SEND_MESSAGE, .text = bytes_of(text) });
}

struct turn_answer
turn_do(struct turn_rig *rig, enum qp_action_kind kind)
{
  return turn_act(rig, (struct qp_action){ .kind = kind });
}

struct turn_answer
turn_approve(struct turn_rig *rig, const char *approved, const char *denied)
{
  return turn_act(rig, (struct qp_action){ .kind = QP_ACTION_APPROVE_TOOLS,
                                           .approved = &approved,
                                           .approved_count = approved != NULL,
                                           .denied = &denied,
                                           .denied_count = denied != NULL,
                                           .reason = denied ? "not today" : NULL });
}

/* ---- events ---- */

static void
on_event(void *arg, const struct qp_event_info *event)
{
  struct turn_rig *rig = arg;

  (void)pthread_mutex_lock(&rig->lock);
  if (!event) {
    rig->ended = true;
  } else {
    size_t need = rig->events_len + event->json.len + 2;

    if (need > rig->events_cap) {
      rig->events_cap = need * 2;
      rig->events = realloc(rig->events, rig->events_cap);
    }
    memcpy(rig->events + rig->events_len, event->json.data, event->json.len);
    rig->events_len += event->json.len;
    rig->events[rig->events_len++] = '\n';
    rig->events[rig->events_len] = 0;
    rig->event_count++;
    if (event->seq <= rig->last_seq)
      rig->out_of_order = true;
    rig->last_seq = event->seq;
  }
  (void)pthread_cond_broadcast(&rig->changed);
  (void)pthread_mutex_unlock(&rig->lock);
}

void
turn_listen(struct turn_rig *rig, uint64_t after)
{
  turn_unlisten(rig);
  rig->events_len = rig->event_count = 0;
  rig->last_seq = 0;
  rig->ended = rig->out_of_order = false;
  if (rig->events)
    rig->events[0] = 0;
  OK(qp_engine_subscribe(rig->engine, &rig->id, after, on_event, rig, &rig->sub, &failure));
}

void
turn_unlisten(struct turn_rig *rig)
{
  qp_engine_unsubscribe(rig->sub);
  rig->sub = NULL;
  assert_false(rig->out_of_order);
}

bool
turn_has_heard(struct turn_rig *rig, const char *part)
{
  bool found;

  (void)pthread_mutex_lock(&rig->lock);
  found = rig->events && strstr(rig->events, part);
  (void)pthread_mutex_unlock(&rig->lock);
  return found;
}

void
turn_hear(struct turn_rig *rig, const char *part)
{
  struct timespec until = deadline();
  bool found;

  (void)pthread_mutex_lock(&rig->lock);
  while (!(found = rig->events && strstr(rig->events, part)) && wait_change(rig, &until))
    ;
  (void)pthread_mutex_unlock(&rig->lock);
  if (!found)
    fail_msg("'%s' was not heard, but:\n%s", part, rig->events ? rig->events : "");
}

void
turn_hear_end(struct turn_rig *rig)
{
  struct timespec until = deadline();
  bool ended;

  (void)pthread_mutex_lock(&rig->lock);
  while (!(ended = rig->ended) && wait_change(rig, &until))
    ;
  (void)pthread_mutex_unlock(&rig->lock);
  assert_true(ended);
}

/* Calls fn for each recorded line, as JSON. */
static void
each_line(struct turn_rig *rig, void (*fn)(const json_t *line, char *out), char *out)
{
  (void)pthread_mutex_lock(&rig->lock);
  for (const char *at = rig->events; at && *at;) {
    const char *end = strchr(at, '\n');
    json_t *line = json_loadb(at, (size_t)(end - at), 0, NULL);

    assert_non_null(line);
    fn(line, out);
    json_decref(line);
    at = end + 1;
  }
  (void)pthread_mutex_unlock(&rig->lock);
}

static void
add(char *out, const char *before, const char *text)
{
  size_t len = strlen(out);

  (void)snprintf(out + len, TEXT_LEN - len, "%s%s", before, text);
}

static bool
is_type(const json_t *line, const char *type)
{
  return strcmp(json_string_value(json_object_get(line, "type")), type) == 0;
}

static void
add_state(const json_t *line, char *out)
{
  if (is_type(line, "state")) {
    add(out, "", json_string_value(json_object_get(line, "state")));
    add(out, " ", "");
  }
}

static void
add_text(const json_t *line, char *out)
{
  if (is_type(line, "text"))
    add(out, "", json_string_value(json_object_get(line, "text")));
}

const char *
turn_states(struct turn_rig *rig)
{
  static char out[TEXT_LEN];

  out[0] = 0;
  each_line(rig, add_state, out);
  return out;
}

const char *
turn_text(struct turn_rig *rig)
{
  static char out[TEXT_LEN];

  out[0] = 0;
  each_line(rig, add_text, out);
  return out;
}

/* ---- what is stored ---- */

const char *
turn_stored_state(struct turn_rig *rig)
{
  static char out[64];
  struct qp_context *c = open_context(rig->f, &rig->id);
  json_t *metadata = metadata_of(c);

  (void)snprintf(out, sizeof(out), "%s",
                 json_string_value(json_object_get(metadata, "current_state")));
  json_decref(metadata);
  qp_context_close(c);
  return out;
}

const char *
turn_detail(struct turn_rig *rig, const char *field, const char *inner)
{
  static char out[512];
  struct qp_context *c = open_context(rig->f, &rig->id);
  json_t *metadata = metadata_of(c);
  json_t *value = json_object_get(json_object_get(metadata, "state_detail"), field);

  if (inner)
    value = json_object_get(value, inner);
  out[0] = 0;
  if (json_is_string(value))
    (void)snprintf(out, sizeof(out), "%s", json_string_value(value));
  else if (json_is_integer(value))
    (void)snprintf(out, sizeof(out), "%lld", (long long)json_integer_value(value));
  json_decref(metadata);
  qp_context_close(c);
  return out;
}

static enum qp_rc
tell_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  char *out = arg;
  json_t *m = json_loadb(json.data, json.len, 0, NULL);
  json_t *part;
  json_t *call;
  json_t *result = json_object_get(m, "tool_result");
  json_t *metadata = json_object_get(m, "metadata");
  size_t i;

  assert_non_null(m);
  add(out, "", qp_role_name(info->role));
  add(out, "",
      json_is_true(json_object_get(metadata, "interrupted")) ||
              json_is_true(json_object_get(result, "is_error"))
          ? "!"
          : ":");
  json_array_foreach (json_object_get(m, "content"), i, part) {
    if (strcmp(json_string_value(json_object_get(part, "type")), "text") == 0)
      add(out, " ", json_string_value(json_object_get(part, "text")));
  }
  json_array_foreach (json_object_get(m, "tool_calls"), i, call) {
    add(out, " [", json_string_value(json_object_get(call, "tool_name")));
    add(out, " ", json_string_value(json_object_get(call, "id")));
    add(out, " ", json_string_value(json_object_get(call, "approval_status")));
    add(out, "]", "");
  }
  if (result) {
    char *text = json_dumps(json_object_get(result, "result"), JSON_ENCODE_ANY | JSON_COMPACT);

    add(out, " ", json_string_value(json_object_get(result, "request_id")));
    add(out, " ", text);
    free(text);
  }
  add(out, "", "\n");
  json_decref(m);
  return QP_OK;
}

const char *
turn_story(struct turn_rig *rig)
{
  static char out[TEXT_LEN];
  struct qp_context *c = open_context(rig->f, &rig->id);

  out[0] = 0;
  OK(qp_messages_range(c, NULL, 0, UINT64_MAX, tell_message, out, &failure));
  qp_context_close(c);
  return out;
}
