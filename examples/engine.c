/* engine.c - a turn in a program of your own: a store, an engine with the built-in demo model, the
 * events of the turn as they happen, and a tool call that a person approves.
 *
 *   cc engine.c $(pkg-config --cflags --libs quipu) -pthread -o engine
 *   ./engine ./knots ./workspace "hello"
 *
 * The demo model follows a script, needs no network and no key. To use another model, set
 * QP_ENGINE_ENV and the environment variable of its provider (docs/providers.md). */
#include <pthread.h>
#include <quipu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the demo model answers: first a tool call, then, when it has the result, a text. Tools that
 * change something ask a person first (docs/tools.md). */
static const char script[] =
    "{ \"interval_ms\": 0, \"steps\": ["
    "  { \"play\": [ { \"text\": \"I write it down.\" }, { \"call\": \"write_file\", "
    "\"id\": \"call-1\", \"arguments\": { \"path\": \"notes.txt\", \"content\": \"a knot\\n\" } } "
    "] },"
    "  { \"after_tool\": \"write_file\", \"play\": [ { \"text\": \"It is in notes.txt.\" } ] } ] }";

/* The end of an action, which the engine's thread reports to the main thread. */
struct waiting {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool done;
  enum qp_state state;
  enum qp_rc rc;
  struct qp_err err;
};

/* Called on the engine's thread: it must return quickly and must not write to the store. */
static void
on_event(void *arg, const struct qp_event_info *event)
{
  (void)arg;
  if (event)
    printf("%s %.*s\n", event->type, (int)event->json.len, event->json.data);
}

static void
on_done(void *arg, const struct qp_action_result *result, enum qp_rc rc, const struct qp_err *err)
{
  struct waiting *w = arg;

  (void)pthread_mutex_lock(&w->lock);
  w->done = true;
  w->state = result->state;
  w->rc = rc;
  w->err = *err;
  (void)pthread_cond_signal(&w->changed);
  (void)pthread_mutex_unlock(&w->lock);
}

/* Acts, and waits until the context waits for a client again. */
static enum qp_rc
act(struct qp_engine *engine, struct qp_action *action, enum qp_state *state, struct qp_err *err)
{
  struct waiting w = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
  enum qp_rc rc;

  action->wait = true;
  rc = qp_engine_act(engine, action, on_done, &w, err);
  if (rc)
    return rc;
  (void)pthread_mutex_lock(&w.lock);
  while (!w.done)
    (void)pthread_cond_wait(&w.changed, &w.lock);
  (void)pthread_mutex_unlock(&w.lock);
  *state = w.state;
  *err = w.err;
  return w.rc;
}

static enum qp_rc
print_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  (void)arg;
  printf("saved %s: %.*s\n", qp_role_name(info->role), (int)json.len, json.data);
  return QP_OK;
}

/* Sends the text; approves the call of the demo model when the engine asks. */
static enum qp_rc
run_turn(struct qp_engine *engine, struct qp_context *context, const char *text, struct qp_err *err)
{
  static const char *const approved[] = { "call-1" };
  struct qp_action send = { .size = sizeof(send),
                            .kind = QP_ACTION_SEND_MESSAGE,
                            .context = qp_context_id(context),
                            .text = { text, strlen(text) } };
  struct qp_action approve = { .size = sizeof(approve),
                               .kind = QP_ACTION_APPROVE_TOOLS,
                               .context = qp_context_id(context),
                               .approved = approved,
                               .approved_count = 1 };
  enum qp_state state = QP_STATE_IDLE;
  enum qp_rc rc = act(engine, &send, &state, err);

  if (!rc && state == QP_STATE_AWAITING_TOOL_APPROVAL) {
    puts("the engine asks whether call-1 may run: yes");
    rc = act(engine, &approve, &state, err);
  }
  if (!rc)
    printf("the context is %s\n", qp_state_name(state));
  return rc;
}

static enum qp_rc
run(struct qp_store *store, const char *workspace, const char *text, struct qp_err *err)
{
  struct qp_engine_options options = QP_INIT(struct qp_engine_options);
  struct qp_context_spec spec = { .size = sizeof(spec), .title = "An engine", .model_id = "demo" };
  struct qp_subscription *subscription = NULL;
  struct qp_context *context = NULL;
  struct qp_engine *engine = NULL;
  struct qp_limits limits;
  struct qp_uuid id;
  enum qp_rc rc;

  options.demo_script = script;
  options.workspace = workspace;
  rc = qp_engine_start(store, &options, &engine, err);
  if (!rc)
    rc = qp_context_create(store, &spec, &context, err);
  if (rc)
    goto out;
  qp_engine_limits(engine, &limits);
  printf("a turn has at most %llu tool calls\n", (unsigned long long)limits.calls);
  id = qp_context_id(context);
  rc = qp_engine_subscribe(engine, &id, QP_SEQ_NOW, on_event, NULL, &subscription, err);
  if (!rc)
    rc = run_turn(engine, context, text, err);
  qp_engine_unsubscribe(subscription);
  if (!rc)
    rc = qp_messages_last(context, NULL, 10, print_message, NULL, err);
out:
  qp_engine_stop(engine);
  qp_context_close(context);
  return rc;
}

int
main(int argc, char **argv)
{
  struct qp_store *store = NULL;
  struct qp_err err = { QP_OK, "" };
  char *workspace = NULL;
  enum qp_rc rc;

  if (argc != 4) {
    fprintf(stderr, "usage: engine DIRECTORY WORKSPACE TEXT\n");
    return 2;
  }
  workspace = realpath(argv[2], NULL); /* the engine wants an absolute path */
  rc = qp_store_open(argv[1], NULL, &store, &err);
  if (!rc)
    rc = run(store, workspace, argv[3], &err);
  if (rc)
    fprintf(stderr, "engine: %s: %s\n", qp_rc_name(rc), err.msg);
  qp_store_close(store);
  free(workspace);
  return rc != QP_OK;
}
