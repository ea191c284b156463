/* agent.c - a program that embeds quipu with a tool of its own: the model asks for the number of
 * knots in a cord, a thread of this program counts them, and the model answers with the result.
 *
 *   cc agent.c $(pkg-config --cflags --libs quipu) -pthread -o agent
 *   ./agent ./knots
 *
 * The demo model follows a script and needs no network and no key. */
#include <pthread.h>
#include <quipu.h>
#include <stdio.h>
#include <string.h>

static const char script[] = "{ \"interval_ms\": 0, \"steps\": ["
                             "  { \"play\": [ { \"call\": \"count_knots\", \"id\": \"call-1\", "
                             "\"arguments\": { \"cord\": \"o-o--o\" } } ] },"
                             "  { \"after_tool\": \"count_knots\", \"play\": [ { \"text\": \"It "
                             "has three knots.\" } ] } ] }";

static const char parameters[] =
    "{\"type\":\"object\",\"properties\":{\"cord\":{\"type\":\"string\"}},\"required\":[\"cord\"]}";

/* ---- the tool ---- */

/* Runs in a thread of its own: it may take as long as it likes. */
static void *
count(void *arg)
{
  struct qp_tool_task *task = arg;
  struct qp_err err;

  if (qp_tool_task_is_cancelled(task))
    puts("nobody waits for the number of knots any more");
  if (qp_tool_task_end(task, "{\"knots\":3}", false, &err))
    fprintf(stderr, "agent: %s\n", err.msg);
  return NULL;
}

/* Called on the engine's thread: it must return quickly. */
static void
count_knots(void *arg, const char *arguments, struct qp_tool_task *task)
{
  pthread_t *thread = arg;
  struct qp_err err;

  printf("the model calls count_knots with %s\n", arguments);
  if (pthread_create(thread, NULL, count, task))
    (void)qp_tool_task_end(task, "\"no thread could be started\"", true, &err);
}

/* ---- the turn ---- */

struct waiting {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool done;
  enum qp_state state;
  enum qp_rc rc;
};

static void
on_done(void *arg, const struct qp_action_result *result, enum qp_rc rc, const struct qp_err *err)
{
  struct waiting *w = arg;

  (void)err;
  (void)pthread_mutex_lock(&w->lock);
  w->done = true;
  w->state = result->state;
  w->rc = rc;
  (void)pthread_cond_signal(&w->changed);
  (void)pthread_mutex_unlock(&w->lock);
}

static enum qp_rc
print_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  (void)arg;
  printf("saved %s: %.*s\n", qp_role_name(info->role), (int)json.len, json.data);
  return QP_OK;
}

static enum qp_rc
ask(struct qp_engine *engine, struct qp_context *context, struct qp_err *err)
{
  struct waiting w = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
  struct qp_action send = { .size = sizeof(send),
                            .kind = QP_ACTION_SEND_MESSAGE,
                            .context = qp_context_id(context),
                            .text = { "How many knots has o-o--o?", 26 },
                            .wait = true };
  enum qp_rc rc = qp_engine_act(engine, &send, on_done, &w, err);

  if (rc)
    return rc;
  (void)pthread_mutex_lock(&w.lock);
  while (!w.done)
    (void)pthread_cond_wait(&w.changed, &w.lock);
  (void)pthread_mutex_unlock(&w.lock);
  printf("the context is %s\n", qp_state_name(w.state));
  return w.rc ? w.rc : qp_messages_last(context, NULL, 10, print_message, NULL, err);
}

static enum qp_rc
run(struct qp_store *store, struct qp_err *err)
{
  struct qp_engine_options options = QP_INIT(struct qp_engine_options);
  struct qp_context_spec spec = { .size = sizeof(spec), .title = "Knots", .model_id = "demo" };
  pthread_t thread;
  struct qp_tool_spec tool = { .size = sizeof(tool),
                               .name = "count_knots",
                               .description = "Counts the knots of a cord",
                               .parameters_json = parameters,
                               .call = count_knots,
                               .arg = &thread };
  struct qp_context *context = NULL;
  struct qp_engine *engine = NULL;
  enum qp_rc rc;

  options.demo_script = script;
  rc = qp_engine_start(store, &options, &engine, err);
  if (!rc)
    rc = qp_engine_add_tool(engine, &tool, err);
  if (!rc)
    rc = qp_context_create(store, &spec, &context, err);
  if (!rc)
    rc = ask(engine, context, err);
  if (!rc)
    (void)pthread_join(thread, NULL);
  qp_engine_stop(engine);
  qp_context_close(context);
  return rc;
}

int
main(int argc, char **argv)
{
  struct qp_store *store = NULL;
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc;

  if (argc != 2) {
    fprintf(stderr, "usage: agent DIRECTORY\n");
    return 2;
  }
  rc = qp_store_open(argv[1], NULL, &store, &err);
  if (!rc)
    rc = run(store, &err);
  if (rc)
    fprintf(stderr, "agent: %s: %s\n", qp_rc_name(rc), err.msg);
  qp_store_close(store);
  return rc != QP_OK;
}
