/* test_turn_edges.c - turns in special situations: a stop, a release or a failing disk in the
 * middle of an operation; answers that their provider pauses; images, which a worker reads. */
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "os_gate.h"
#include "provider.h"
#include "turn/engine.h"
#include "turn_rig.h"

#define PIXEL "\x89PNG\r\n\x1a\n-not-much-of-a-picture"
#define PIXEL_BASE64 "iVBORw0KGgotbm90LW11Y2gtb2YtYS1waWN0dXJl"

/* A provider, and what it was asked last. */
struct shop {
  struct provider provider;
  struct qp_provider_spec spec;
  pthread_mutex_t lock;
  char asked[4][8192];
  size_t count;
  const char *const *answers; /* for the first, the second …; ends with NULL, then the last again */
  const char *text;           /* of the other protocol; NULL: all is well */
};

static void
remember(struct shop *shop, const char *body)
{
  (void)pthread_mutex_lock(&shop->lock);
  (void)snprintf(shop->asked[shop->count % COUNT(shop->asked)], sizeof(shop->asked[0]), "%s", body);
  shop->count++;
  (void)pthread_mutex_unlock(&shop->lock);
}

/* "text|stop_reason". */
static char *
answer_anthropic(void *arg, const char *body)
{
  struct shop *shop = arg;
  const char *answer = shop->answers[0];
  char text[200];
  size_t n;

  remember(shop, body);
  for (size_t i = 1; shop->answers[i] && i < shop->count; i++)
    answer = shop->answers[i];
  n = strcspn(answer, "|");
  memcpy(text, answer, n);
  text[n] = 0;
  return provider_anthropic_text(text, answer + n + 1);
}

static char *
answer_openai(void *arg, const char *body)
{
  struct shop *shop = arg;

  remember(shop, body);
  return provider_openai_text(shop->text ? shop->text : "All is well.");
}

/* A rig whose context asks the shop. */
static void
open_shop(struct shop *shop, struct turn_rig *rig, const char *protocol)
{
  struct qp_context *c;

  (void)pthread_mutex_init(&shop->lock, NULL);
  provider_start(&shop->provider,
                 strcmp(protocol, "openai") == 0 ? answer_openai : answer_anthropic, shop);
  shop->spec = (struct qp_provider_spec){ .size = sizeof(struct qp_provider_spec),
                                          .name = "shop",
                                          .protocol = protocol,
                                          .base_url = shop->provider.url,
                                          .key = "k" };
  rig->options.providers = &shop->spec;
  rig->options.provider_count = 1;
  c = open_context(rig->f, &rig->id);
  OK(qp_context_update(c, bytes_of("{\"config\":{\"model_id\":\"shop/m\"}}"), &failure));
  qp_context_close(c);
}

static void
close_shop(struct shop *shop)
{
  provider_stop(&shop->provider);
  (void)pthread_mutex_destroy(&shop->lock);
}

/* ---- pause_turn ---- */

static void
test_a_paused_answer_goes_on_by_itself(void **state)
{
  static const char *const answers[] = { "I search|pause_turn", "Found it.|end_turn", NULL };
  struct shop shop = { .answers = answers };
  struct turn_rig rig;
  const char *last;

  turn_rig_init(&rig, *state, NULL);
  open_shop(&shop, &rig, "anthropic");
  turn_rig_start(&rig);
  turn_listen(&rig, 0);
  assert_string_equal(turn_send(&rig, "where is it").state, "Idle");
  assert_string_equal(turn_story(&rig),
                      "user: where is it\nassistant: I search\nassistant: Found it.\n");
  assert_int_equal(shop.count, 2);
  last = strstr(shop.asked[1], "\"messages\"");
  assert_non_null(last);
  assert_non_null(strstr(last, "I search"));
  assert_null(strstr(strstr(last, "I search"), "\"user\"")); /* it is the last word */
  turn_hear(&rig, "\"state\":\"Idle\"");
  assert_string_equal(turn_states(&rig),
                      "ProcessingUserMessage AwaitingLLMResponse StreamingLLMResponse "
                      "ProcessingLLMResponse GeneratingResponse StreamingLLMResponse "
                      "ProcessingLLMResponse Idle ");
  turn_rig_release(&rig);
  close_shop(&shop);
}

static void
test_an_answer_that_is_paused_for_ever_reaches_the_limit(void **state)
{
  static const char *const answers[] = { "Still|pause_turn", NULL };
  struct shop shop = { .answers = answers };
  struct turn_rig rig;
  struct turn_answer answer;

  turn_rig_init(&rig, *state, NULL);
  rig.options.limits.rounds = 3;
  open_shop(&shop, &rig, "anthropic");
  turn_rig_start(&rig);
  answer = turn_send(&rig, "where is it");
  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(answer.state, "Failed");
  assert_string_equal(turn_detail(&rig, "error", "kind"), "limit");
  assert_int_equal(shop.count, 4);
  turn_rig_release(&rig);
  close_shop(&shop);
}

/* ---- images ---- */

/* While the disk is slow to give an image, other contexts go on. */
static void
test_images_are_read_beside_the_loop(void **state)
{
  struct fixture *f = *state;
  struct shop shop = { .answers = NULL };
  struct qp_message *message = NULL;
  struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE, .wait = true };
  struct turn_rig rig;
  struct turn_answer answer;
  struct turn_answer other;
  char id[QP_BLOB_ID];
  char url[sizeof(QP_BLOB_URL) + QP_BLOB_ID];
  struct qp_context *c = NULL;

  if (has(f, NEEDS_DIRECTORY))
    watch_calls(f);
  turn_rig_init(&rig, f,
                "{\"interval_ms\":0,\"steps\":[{\"match\":\"*\",\"play\":["
                "{\"text\":\"Here.\"}]}]}");
  open_shop(&shop, &rig, "openai");
  OK(qp_blob_put(f->store, (struct qp_bytes){ PIXEL, sizeof(PIXEL) - 1 }, id, &failure));
  (void)snprintf(url, sizeof(url), "%s%s", QP_BLOB_URL, id);
  OK(qp_message_new_text(QP_ROLE_USER, bytes_of("what is this"), &message, &failure));
  OK(qp_message_add_part(message, &(struct qp_part){ .kind = QP_PART_IMAGE, .url = url },
                         &failure));
  send.message = message;
  turn_rig_start(&rig);
  if (has(f, NEEDS_DIRECTORY))
    os_gate_shut(QP__SLOT_OPENAT, "blobs");
  turn_begin(&rig, &send, &answer);
  if (has(f, NEEDS_DIRECTORY)) {
    assert_true(os_gate_await(1));
    OK(qp_context_create(
        f->store,
        &(struct qp_context_spec){ .size = sizeof(struct qp_context_spec), .model_id = "demo" }, &c,
        &failure));
    other = turn_act(&rig, (struct qp_action){ .kind = QP_ACTION_SEND_MESSAGE,
                                               .context = qp_context_id(c),
                                               .text = bytes_of("are you there") });
    qp_context_close(c);
    assert_string_equal(other.state, "Idle");
    os_gate_open();
  }
  turn_wait(&answer);
  assert_string_equal(answer.state, "Idle");
  assert_non_null(strstr(shop.asked[shop.count - 1], PIXEL_BASE64));
  qp_message_free(message);
  turn_rig_release(&rig);
  close_shop(&shop);
}

/* ---- more than a commit takes ---- */

struct texts {
  size_t heard, stored;
  bool idle;
  pthread_mutex_t lock;
  pthread_cond_t changed;
};

static void
count_text(void *arg, const struct qp_event_info *event)
{
  struct texts *texts = arg;
  json_t *line = event ? json_loadb(event->json.data, event->json.len, 0, NULL) : NULL;

  (void)pthread_mutex_lock(&texts->lock);
  if (event && strcmp(event->type, "text") == 0)
    texts->heard += json_string_length(json_object_get(line, "text"));
  if (event && strcmp(event->type, "state") == 0)
    texts->idle = strcmp(json_string_value(json_object_get(line, "state")), "Idle") == 0;
  (void)pthread_cond_broadcast(&texts->changed);
  (void)pthread_mutex_unlock(&texts->lock);
  json_decref(line);
}

static enum qp_rc
count_stored(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct texts *texts = arg;

  texts->stored = info->role == QP_ROLE_ASSISTANT ? json.len : 0;
  return QP_OK;
}

/* A server that does not stream says all at once: the log takes it in several commits. */
static void
test_an_answer_of_many_megabytes_in_one_piece(void **state)
{
  const size_t size = (size_t)9 << 20;
  struct fixture *f = *state;
  struct texts texts = { .heard = 0 };
  struct shop shop = { .text = NULL };
  struct qp_subscription *sub = NULL;
  struct qp_context *c;
  struct turn_rig rig;
  char *text = malloc(size + 1);

  assert_non_null(text);
  memset(text, 'x', size);
  text[size] = 0;
  (void)pthread_mutex_init(&texts.lock, NULL);
  (void)pthread_cond_init(&texts.changed, NULL);
  turn_rig_init(&rig, f, NULL);
  shop.text = text;
  open_shop(&shop, &rig, "openai");
  turn_rig_start(&rig);
  OK(qp_engine_subscribe(rig.engine, &rig.id, 0, count_text, &texts, &sub, &failure));
  assert_string_equal(turn_send(&rig, "all").state, "Idle");
  (void)pthread_mutex_lock(&texts.lock);
  while (!texts.idle)
    (void)pthread_cond_wait(&texts.changed, &texts.lock);
  (void)pthread_mutex_unlock(&texts.lock);
  assert_int_equal(texts.heard, size);
  qp_engine_unsubscribe(sub);
  c = open_context(f, &rig.id);
  OK(qp_messages_range(c, NULL, 0, UINT64_MAX, count_stored, &texts, &failure));
  assert_true(texts.stored > size);
  qp_context_close(c);
  turn_rig_release(&rig);
  close_shop(&shop);
  (void)pthread_cond_destroy(&texts.changed);
  (void)pthread_mutex_destroy(&texts.lock);
  free(text);
}

/* ---- tools of servers ---- */

#define MCP(mode)                                                                                  \
  "{\"mcpServers\":{\"s\":{\"command\":\"node\",\"args\":[\"" TEST_LIB "/mcp_server.mjs\",\"" mode \
  "\"]}}}"

/* A server that says its lines whatever it is asked. The engine waits five seconds for it, and a
 * shell has begun long before that also where Node.js has not. */
static char *
script_of_server(void)
{
  static const char script[] =
      "read l; echo '{\"id\":1,\"error\":{\"code\":-1,\"message\":\"no\"}}'; "
      "read l; echo '{\"id\":2,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":"
      "{\"tools\":{}}}}'; read l; "
      "read l; echo '{\"id\":3,\"result\":{\"tools\":[{\"name\":\"echo\",\"inputSchema\":{}}]}}'; "
      "read l";
  json_t *servers = json_pack("{s:{s:{s:s, s:[s, s]}}}", "mcpServers", "s", "command", "/bin/sh",
                              "args", "-c", script);
  char *text = json_dumps(servers, 0);

  assert_non_null(text);
  json_decref(servers);
  return text;
}

/* A message that is sent as soon as the engine is there has the tools of its servers. */
static void
test_the_first_question_waits_for_the_tools(void **state)
{
  struct shop shop = { .answers = NULL };
  char *servers = script_of_server();
  struct turn_rig rig;

  turn_rig_init(&rig, *state, NULL);
  rig.options.mcp_json = servers;
  open_shop(&shop, &rig, "openai");
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "echo").state, "Idle");
  assert_non_null(strstr(shop.asked[0], "__echo\""));
  turn_rig_release(&rig);
  close_shop(&shop);
  free(servers);
}

/* A server that dies keeps nobody waiting, and neither does a cancel. */
static void
test_a_server_without_tools_keeps_nobody_waiting(void **state)
{
  struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE, .text = bytes_of("hello") };
  struct shop shop = { .answers = NULL };
  struct turn_rig rig;
  struct turn_answer sent;

  turn_rig_init(&rig, *state, NULL);
  rig.options.mcp_json = MCP("die-start");
  open_shop(&shop, &rig, "openai");
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "hello").state, "Idle");
  assert_int_equal(shop.count, 1);
  turn_rig_stop(&rig);
  rig.options.mcp_json = MCP("never");
  turn_rig_start(&rig);
  turn_begin(&rig, &send, &sent);
  turn_wait(&sent);
  assert_string_equal(turn_do(&rig, QP_ACTION_CANCEL).state, "Idle");
  turn_begin(&rig, &send, &sent);
  turn_wait(&sent);
  turn_rig_stop(&rig); /* in the middle of the waiting */
  assert_string_equal(turn_stored_state(&rig), "Failed");
  assert_int_equal(shop.count, 1);
  turn_rig_release(&rig);
  close_shop(&shop);
}

/* ---- a stop in the middle of a commit ---- */

static void *
stop_engine(void *arg)
{
  qp_engine_stop(arg);
  return NULL;
}

/* Shuts the gate before syncs, so that the commit of the next action stays under way. */
static bool
can_hold_commits(struct fixture *f)
{
  if (!has(f, NEEDS_DIRECTORY) || f->driver->flags)
    return false; /* a commit is over before the engine can do anything else */
  watch_calls(f);
  return true;
}

static void
await_end(struct turn_rig *rig)
{
  bool ended = false;

  while (!ended) {
    (void)pthread_mutex_lock(&rig->lock);
    ended = rig->ended;
    (void)pthread_mutex_unlock(&rig->lock);
    (void)usleep(1000);
  }
}

static void
test_a_stop_while_a_message_is_saved_does_not_ask_the_model(void **state)
{
  struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE,
                            .text = bytes_of("begin"),
                            .wait = true };
  struct shop shop = { .answers = NULL };
  struct turn_rig rig;
  struct turn_answer sent;
  pthread_t stopper;

  if (!can_hold_commits(*state))
    return;
  turn_rig_init(&rig, *state, NULL);
  open_shop(&shop, &rig, "openai");
  turn_rig_start(&rig);
  turn_listen(&rig, 0);
  os_gate_shut(QP__SLOT_FDATASYNC, NULL);
  turn_begin(&rig, &send, &sent);
  assert_true(os_gate_await(1));
  assert_int_equal(pthread_create(&stopper, NULL, stop_engine, rig.engine), 0);
  await_end(&rig); /* the engine drains now */
  os_gate_open();
  (void)pthread_join(stopper, NULL);
  rig.engine = NULL;
  assert_true(sent.done);
  assert_int_equal(sent.rc, QP_STOPPED);
  assert_int_equal(shop.count, 0);
  assert_string_equal(turn_story(&rig), "user: begin\n");
  assert_string_equal(turn_stored_state(&rig), "Failed");
  assert_string_equal(turn_detail(&rig, "error", "kind"), "interrupted");
  turn_rig_start(&rig);
  assert_string_equal(turn_do(&rig, QP_ACTION_RETRY).state, "Idle");
  assert_string_equal(turn_story(&rig), "user: begin\nassistant: All is well.\n");
  turn_rig_release(&rig);
  close_shop(&shop);
}

static void
test_a_stop_while_an_approval_is_saved_does_not_run_the_tool(void **state)
{
  static const char *const ids[] = { "w1" };
  struct qp_action approve = {
    .kind = QP_ACTION_APPROVE_TOOLS, .approved = ids, .approved_count = 1, .wait = true
  };
  struct turn_rig rig;
  struct turn_answer approved;
  pthread_t stopper;

  if (!can_hold_commits(*state))
    return;
  turn_rig_init(&rig, *state,
                "{\"interval_ms\":0,\"steps\":[{\"match\":\"*\",\"play\":[{\"call\":"
                "\"write_file\",\"id\":\"w1\",\"arguments\":{\"path\":\"new.txt\",\"content\":"
                "\"x\"}}]}]}");
  turn_rig_workspace(&rig);
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "write").state, "AwaitingToolApproval");
  turn_listen(&rig, QP_SEQ_NOW);
  os_gate_shut(QP__SLOT_FDATASYNC, NULL);
  turn_begin(&rig, &approve, &approved);
  assert_true(os_gate_await(1));
  assert_int_equal(pthread_create(&stopper, NULL, stop_engine, rig.engine), 0);
  await_end(&rig);
  os_gate_open();
  (void)pthread_join(stopper, NULL);
  rig.engine = NULL;
  assert_int_equal(approved.rc, QP_STOPPED);
  assert_false(file_exists(pathf("%s/new.txt", rig.workspace)));
  assert_string_equal(turn_stored_state(&rig), "Failed");
  assert_non_null(strstr(turn_story(&rig), "\ntool! w1 "));
  turn_rig_release(&rig);
}

/* ---- releases ---- */

struct releaser {
  pthread_t thread;
  struct turn_rig *rig;
};

static void *
release_context(void *arg)
{
  struct turn_rig *rig = ((struct releaser *)arg)->rig;

  qp_engine_release(rig->engine, &rig->id);
  return NULL;
}

/* Looks at the newest of those who wait for a release, on the engine's thread. */
struct look {
  struct qp__post post; /* first */
  const void *newest;
  uv_sem_t done;
};

static void
run_look(struct qp_engine *e, struct qp__post *post)
{
  struct look *look = (struct look *)post;

  look->newest = e->releases;
  uv_sem_post(&look->done);
}

static const void *
newest_release(struct qp_engine *e)
{
  struct look look = { .post = { .run = run_look } };

  assert_int_equal(uv_sem_init(&look.done, 0), 0);
  qp__engine_post(e, &look.post);
  uv_sem_wait(&look.done);
  uv_sem_destroy(&look.done);
  return look.newest;
}

static void
test_all_who_release_a_context_are_woken(void **state)
{
  struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE,
                            .text = bytes_of("begin"),
                            .wait = true };
  struct fixture *f = *state;
  struct releaser releasers[3];
  struct turn_rig rig;
  struct turn_answer sent;
  const void *before = NULL;

  if (!can_hold_commits(f))
    return;
  turn_rig_init(&rig, f, NULL);
  turn_rig_start(&rig);
  os_gate_shut(QP__SLOT_FDATASYNC, NULL);
  turn_begin(&rig, &send, &sent);
  assert_true(os_gate_await(1));
  for (size_t i = 0; i < COUNT(releasers); i++) {
    const void *now;

    releasers[i].rig = &rig;
    assert_int_equal(pthread_create(&releasers[i].thread, NULL, release_context, &releasers[i]), 0);
    while ((now = newest_release(rig.engine)) == before)
      (void)usleep(1000);
    before = now;
  }
  os_gate_open();
  for (size_t i = 0; i < COUNT(releasers); i++)
    (void)pthread_join(releasers[i].thread, NULL);
  turn_wait(&sent);
  assert_int_equal(sent.rc, QP_STOPPED);
  OK(qp_context_delete(f->store, &rig.id, &failure));
  turn_rig_release(&rig);
}

/* A context whose log is being read for a subscriber is not let go before that is over. */
static void
test_a_release_waits_for_who_reads_the_log(void **state)
{
  struct fixture *f = *state;
  struct releaser releaser;
  struct turn_rig rig;

  if (!can_hold_commits(f))
    return;
  turn_rig_init(&rig, f, NULL);
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "hello").state, "Idle");
  turn_rig_stop(&rig);
  reload(f);
  turn_rig_start(&rig);
  os_gate_shut(QP__SLOT_OPENAT, "events");
  turn_listen(&rig, 0);
  assert_true(os_gate_await(1));
  releaser.rig = &rig;
  assert_int_equal(pthread_create(&releaser.thread, NULL, release_context, &releaser), 0);
  await_end(&rig);
  assert_non_null(newest_release(rig.engine)); /* it waits */
  os_gate_open();
  (void)pthread_join(releaser.thread, NULL);
  OK(qp_context_delete(f->store, &rig.id, &failure));
  turn_rig_release(&rig);
}

/* ---- a disk that fails under many ---- */

/* Another context's commit fails, and with it the journal, while a model is about to answer. */
static void
test_an_answer_that_begins_when_nothing_can_be_saved_any_more(void **state)
{
  struct fixture *f = *state;
  struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE,
                            .text = bytes_of("begin"),
                            .wait = true };
  struct shop shop = { .answers = NULL };
  struct turn_rig rig;
  struct turn_answer waits;
  struct turn_answer fails;
  struct qp_context *c;

  watch_calls(f);
  turn_rig_init(&rig, f, NULL);
  open_shop(&shop, &rig, "openai");
  provider_hold(&shop.provider, 2);
  turn_rig_start(&rig);
  turn_begin(&rig, &send, &waits);
  assert_true(provider_await(&shop.provider, 1));
  c = new_context(f);
  send.context = qp_context_id(c);
  qp_context_close(c);
  qp__os_fault_only(f->fault, QP__SLOT_FDATASYNC);
  qp__os_fault_arm(f->fault, 1, QP__FAULT_EIO, false);
  turn_begin(&rig, &send, &fails);
  turn_wait(&fails);
  assert_int_equal(fails.rc, QP_IO);
  assert_string_equal(fails.state, "Failed");
  provider_hold(&shop.provider, 0);
  turn_wait(&waits);
  assert_int_equal(waits.rc, QP_IO);
  assert_string_equal(waits.state, "Failed");
  turn_rig_stop(&rig);
  forget_warnings(f);
  reload(f);
  turn_rig_start(&rig); /* the context that waited is brought to rest */
  assert_string_equal(turn_stored_state(&rig), "Failed");
  assert_string_equal(turn_do(&rig, QP_ACTION_RETRY).state, "Idle");
  turn_rig_release(&rig);
  close_shop(&shop);
}

/* A message that names no parent continues the branch, wherever its head is. */
static void
test_a_message_of_parts_can_be_sent_and_edited_anywhere_on_a_branch(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;
  struct qp_message *message = NULL;
  static const char parts[] = "{\"role\":\"user\",\"content\":[{\"type\":\"text\","
                              "\"text\":\"b\"},{\"type\":\"image\",\"url\":"
                              "\"https://example.org/knot.png\"}]}";

  turn_rig_init(&rig, *state,
                "{\"interval_ms\":0,\"steps\":[{\"play\":[{\"text\":\"One.\"}]},"
                "{\"play\":[{\"text\":\"Two.\"}]},{\"play\":[{\"text\":\"Three.\"}]}]}");
  turn_rig_start(&rig);
  assert_int_equal(turn_send(&rig, "hello").rc, QP_OK);
  OK(qp_message_parse(bytes_of(parts), &message, &failure));
  answer = turn_act(&rig, (struct qp_action){ .kind = QP_ACTION_SEND_MESSAGE, .message = message });
  assert_string_equal(answer.msg, "");
  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(turn_story(&rig), "user: hello\nassistant: One.\nuser: b\nassistant: Two.\n");
  answer = turn_act(&rig, (struct qp_action){ .kind = QP_ACTION_EDIT_MESSAGE,
                                              .target = answer.message,
                                              .message = message });
  assert_string_equal(answer.msg, "");
  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(answer.branch, "main-2");
  assert_string_equal(turn_story(&rig),
                      "user: hello\nassistant: One.\nuser: b\nassistant: Three.\n");
  qp_message_free(message);
  turn_rig_release(&rig);
}

/* Lines of the engine at debug level that tell of a change of state; the engine's thread. */
static void
keep_trace(void *arg, enum qp_log_level level, const char *feature, const char *text)
{
  struct qp__buf *trace = arg;

  if (level == QP_LOG_DEBUG && strcmp(feature, "turn") == 0 && strstr(text, " -> "))
    (void)qp__buf_addf(trace, "%s\n", strstr(text, ": ") + 2);
}

static void
test_every_change_of_state_is_logged(void **state)
{
  struct qp__buf trace;
  struct turn_rig rig;

  qp__buf_init(&trace, 4096);
  turn_rig_init(&rig, *state, NULL);
  rig.options.log = keep_trace;
  rig.options.log_arg = &trace;
  turn_rig_start(&rig);
  assert_int_equal(turn_send(&rig, "hello").rc, QP_OK);
  turn_rig_stop(&rig);
  assert_string_equal(trace.data, "Idle -> ProcessingUserMessage (send_message)\n"
                                  "ProcessingUserMessage -> AwaitingLLMResponse (SAVED)\n"
                                  "AwaitingLLMResponse -> StreamingLLMResponse (ANSWER_BEGAN)\n"
                                  "StreamingLLMResponse -> ProcessingLLMResponse (ANSWER_ENDED)\n"
                                  "ProcessingLLMResponse -> Idle (NO_CALLS)\n");
  turn_rig_release(&rig);
  qp__buf_release(&trace);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_change_of_state_is_logged),
    cmocka_unit_test(test_a_message_of_parts_can_be_sent_and_edited_anywhere_on_a_branch),
    cmocka_unit_test(test_a_paused_answer_goes_on_by_itself),
    cmocka_unit_test(test_an_answer_that_is_paused_for_ever_reaches_the_limit),
    cmocka_unit_test(test_images_are_read_beside_the_loop),
    cmocka_unit_test(test_an_answer_of_many_megabytes_in_one_piece),
    cmocka_unit_test(test_the_first_question_waits_for_the_tools),
    cmocka_unit_test(test_a_server_without_tools_keeps_nobody_waiting),
    cmocka_unit_test(test_a_stop_while_a_message_is_saved_does_not_ask_the_model),
    cmocka_unit_test(test_a_stop_while_an_approval_is_saved_does_not_run_the_tool),
    cmocka_unit_test(test_all_who_release_a_context_are_woken),
    cmocka_unit_test(test_a_release_waits_for_who_reads_the_log),
    needs(test_an_answer_that_begins_when_nothing_can_be_saved_any_more, NEEDS_DIRECTORY),
  };

  return run_on_all("turn_edges", tests, COUNT(tests));
}
