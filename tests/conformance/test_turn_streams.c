/* test_turn_streams.c - a thousand models that answer at once, over real HTTP, from a provider that
 * sends nothing before it has received all requests: every text is correct, every log is complete,
 * and the syncs are shared. Meanwhile another thread cancels some turns, and subscribers disconnect
 * and reconnect. Also for the thread sanitizer. */
#include <stdio.h>
#include <unistd.h>

#include "provider.h"
#include "quipu/turns.h"
#include "store_test.h"

#define STREAMS 1000 /* on the driver that a server uses; on the others FEWER */
#define FEWER 100
#define THREADS 16
#define WORDS 12
#define TEXT_LEN 256

struct stream {
  struct crowd *crowd;
  size_t number;
  struct qp_uuid id;
  struct qp_subscription *sub;
  uint64_t last_seq;
  unsigned heard;      /* words */
  char text[TEXT_LEN]; /* of them */
  unsigned leave_at;   /* words after which the subscriber goes away; 0: never */
  bool comes_back;
  unsigned cancel_at; /* words after which the turn is cancelled; 0: never */
  bool wants;         /* to leave: for the main thread */
  bool gone, idle, wrong;
};

struct crowd {
  struct fixture *f;
  struct qp_engine *engine;
  struct stream *list;
  size_t count;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  size_t answered, well;
};

/* ---- the provider ---- */

static void
words_of(size_t number, char out[TEXT_LEN])
{
  size_t len = 0;

  for (unsigned i = 0; i < WORDS; i++)
    len += (size_t)snprintf(out + len, TEXT_LEN - len, "%zu.%u ", number, i);
}

static char *
answer(void *arg, const char *body)
{
  const char *asked = strstr(body, "say number ");
  char text[TEXT_LEN];

  (void)arg;
  if (!asked)
    return NULL;
  words_of(strtoul(asked + strlen("say number "), NULL, 10), text);
  return provider_openai_text(text);
}

/* ---- the crowd ---- */

static void
on_answer(void *arg, const struct qp_action_result *result, enum qp_rc rc, const struct qp_err *err)
{
  struct crowd *crowd = arg;

  (void)err;
  (void)pthread_mutex_lock(&crowd->lock);
  crowd->answered++;
  crowd->well += rc == QP_OK && result->state == QP_STATE_IDLE;
  (void)pthread_cond_broadcast(&crowd->changed);
  (void)pthread_mutex_unlock(&crowd->lock);
}

static void
on_word(struct stream *s, const json_t *line)
{
  size_t len = strlen(s->text);

  s->heard++;
  (void)snprintf(s->text + len, TEXT_LEN - len, "%s",
                 json_string_value(json_object_get(line, "text")));
  if (s->heard == s->leave_at)
    s->wants = true;
  if (s->heard == s->cancel_at) {
    struct qp_action cancel = { .size = sizeof(struct qp_action),
                                .kind = QP_ACTION_CANCEL,
                                .context = s->id };

    s->wrong |= qp_engine_act(s->crowd->engine, &cancel, NULL, NULL, NULL) != QP_OK;
  }
}

static void
on_event(void *arg, const struct qp_event_info *event)
{
  struct stream *s = arg;
  struct crowd *crowd = s->crowd;
  json_t *line;

  if (!event)
    return;
  line = json_loadb(event->json.data, event->json.len, 0, NULL);
  (void)pthread_mutex_lock(&crowd->lock);
  s->wrong |= s->last_seq && event->seq != s->last_seq + 1;
  s->last_seq = event->seq;
  if (strcmp(event->type, "text") == 0)
    on_word(s, line);
  else if (strcmp(event->type, "state") == 0)
    s->idle = strcmp(json_string_value(json_object_get(line, "state")), "Idle") == 0;
  (void)pthread_cond_broadcast(&crowd->changed);
  (void)pthread_mutex_unlock(&crowd->lock);
  json_decref(line);
}

/* Several threads that each do something for their part of the streams. */
struct helper {
  pthread_t thread;
  struct crowd *crowd;
  size_t first;
};

static void
help(struct crowd *crowd, void *(*fn)(void *helper))
{
  struct helper list[THREADS];

  for (size_t i = 0; i < THREADS; i++) {
    list[i] = (struct helper){ .crowd = crowd, .first = i };
    assert_int_equal(pthread_create(&list[i].thread, NULL, fn, &list[i]), 0);
  }
  for (size_t i = 0; i < THREADS; i++)
    (void)pthread_join(list[i].thread, NULL);
}

/* Together, so that they share their syncs. */
static void *
create_all(void *arg)
{
  const struct helper *helper = arg;
  struct crowd *crowd = helper->crowd;

  for (size_t i = helper->first; i < crowd->count; i += THREADS) {
    struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .model_id = "local/m" };
    struct qp_context *c = NULL;

    if (qp_context_create(crowd->f->store, &spec, &c, NULL))
      abort();
    crowd->list[i].id = qp_context_id(c);
    qp_context_close(c);
  }
  return NULL;
}

static void *
send_all(void *arg)
{
  const struct helper *helper = arg;
  struct crowd *crowd = helper->crowd;

  for (size_t i = helper->first; i < crowd->count; i += THREADS) {
    char text[64];
    int len = snprintf(text, sizeof(text), "say number %zu", i);
    struct qp_action send = { .size = sizeof(struct qp_action),
                              .kind = QP_ACTION_SEND_MESSAGE,
                              .context = crowd->list[i].id,
                              .text = { text, (size_t)len },
                              .wait = true };

    if (qp_engine_act(crowd->engine, &send, on_answer, crowd, NULL))
      abort();
  }
  return NULL;
}

/* A subscriber that wants to leave, taken from the list; NULL: nobody. With the lock held. */
static struct stream *
find_leaver(struct crowd *crowd)
{
  for (size_t i = 0; i < crowd->count; i++)
    if (crowd->list[i].wants)
      return &crowd->list[i];
  return NULL;
}

static bool
all_is_over(const struct crowd *crowd)
{
  if (crowd->answered < crowd->count)
    return false;
  for (size_t i = 0; i < crowd->count; i++)
    if (!crowd->list[i].gone && !crowd->list[i].idle)
      return false;
  return true;
}

/* Lets subscribers go, and some come back for what they have missed, until all is over. */
static void
look_after(struct crowd *crowd)
{
  (void)pthread_mutex_lock(&crowd->lock);
  while (!all_is_over(crowd)) {
    struct stream *s = find_leaver(crowd);
    uint64_t after;

    if (!s) {
      (void)pthread_cond_wait(&crowd->changed, &crowd->lock);
      continue;
    }
    s->wants = false;
    s->gone = !s->comes_back;
    (void)pthread_mutex_unlock(&crowd->lock);
    qp_engine_unsubscribe(s->sub);
    s->sub = NULL;
    (void)pthread_mutex_lock(&crowd->lock);
    after = s->last_seq;
    (void)pthread_mutex_unlock(&crowd->lock);
    if (s->comes_back)
      OK(qp_engine_subscribe(crowd->engine, &s->id, after, on_event, s, &s->sub, &failure));
    (void)pthread_mutex_lock(&crowd->lock);
  }
  (void)pthread_mutex_unlock(&crowd->lock);
}

/* ---- what is left of it ---- */

struct log {
  uint64_t last_seq;
  bool gap;
  char text[TEXT_LEN];
};

static enum qp_rc
read_event(void *arg, const struct qp_event_info *event)
{
  struct log *log = arg;

  log->gap |= log->last_seq && event->seq != log->last_seq + 1;
  log->last_seq = event->seq;
  if (strcmp(event->type, "text") == 0) {
    json_t *line = json_loadb(event->json.data, event->json.len, 0, NULL);
    size_t len = strlen(log->text);

    (void)snprintf(log->text + len, TEXT_LEN - len, "%s",
                   json_string_value(json_object_get(line, "text")));
    json_decref(line);
  }
  return QP_OK;
}

static enum qp_rc
read_answer(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  char *out = arg;
  json_t *m = json_loadb(json.data, json.len, 0, NULL);
  json_t *part = json_array_get(json_object_get(m, "content"), 0);

  if (info->role == QP_ROLE_ASSISTANT)
    (void)snprintf(out, TEXT_LEN, "%s", json_string_value(json_object_get(part, "text")));
  json_decref(m);
  return QP_OK;
}

/* The text in the log, that in the message and that which was heard are the same; a turn that was
 * cancelled has the beginning. */
static void
expect_good(struct stream *s)
{
  struct qp_context *c = open_context(s->crowd->f, &s->id);
  struct log log = { .gap = false };
  char want[TEXT_LEN];
  char stored[TEXT_LEN] = "";

  words_of(s->number, want);
  OK(qp_events_read(c, 0, UINT64_MAX, read_event, &log, &failure));
  OK(qp_messages_range(c, NULL, 0, UINT64_MAX, read_answer, stored, &failure));
  qp_context_close(c);
  assert_false(log.gap);
  assert_false(s->wrong);
  assert_string_equal(log.text, stored);
  if (!s->gone) {
    assert_int_equal(s->last_seq, log.last_seq);
    assert_string_equal(s->text, stored);
  }
  if (!s->cancel_at)
    assert_string_equal(stored, want);
  else
    assert_int_equal(strncmp(stored, want, strlen(stored)), 0);
}

static void
make_crowd(struct crowd *crowd, struct fixture *f)
{
  unsigned seed = 7;

  memset(crowd, 0, sizeof(*crowd));
  crowd->f = f;
  crowd->count = has(f, NEEDS_DIRECTORY) && !f->driver->flags ? STREAMS : FEWER;
  crowd->list = calloc(crowd->count, sizeof(*crowd->list));
  assert_non_null(crowd->list);
  (void)pthread_mutex_init(&crowd->lock, NULL);
  (void)pthread_cond_init(&crowd->changed, NULL);
  for (size_t i = 0; i < crowd->count; i++) {
    struct stream *s = &crowd->list[i];

    s->crowd = crowd;
    s->number = i;
    if (rand_r(&seed) % 5 == 0)
      s->leave_at = 1 + (unsigned)rand_r(&seed) % WORDS;
    s->comes_back = rand_r(&seed) % 2;
    if (rand_r(&seed) % 10 == 0)
      s->cancel_at = 1 + (unsigned)rand_r(&seed) % WORDS;
  }
  help(crowd, create_all);
}

/* ---- a disk ---- */

#define SYNC_MS 2

static const struct qp__os *quick;

/* Where a sync costs nothing, on a file system in memory, nobody comes meanwhile who could share
 * the next one. */
static int
slow_fdatasync(void *self, int fd)
{
  (void)usleep(SYNC_MS * 1000);
  return quick->fdatasync(self, fd);
}

static void
watch_a_disk(struct fixture *f)
{
  static struct qp__os slow;

  watch_calls(f);
  close_store(f);
  quick = f->os;
  slow = *quick;
  slow.fdatasync = slow_fdatasync;
  f->os = &slow;
  open_store(f);
}

static void
test_a_thousand_streams_at_once(void **state)
{
  struct fixture *f = *state;
  struct provider provider = { .beat_ms = 5 };
  struct qp_provider_spec spec = { .size = sizeof(struct qp_provider_spec),
                                   .name = "local",
                                   .protocol = "openai" };
  struct qp_engine_options options = { .size = sizeof(options),
                                       .providers = &spec,
                                       .provider_count = 1 };
  struct crowd crowd;

  if (has(f, NEEDS_DIRECTORY) && !f->driver->flags)
    watch_a_disk(f);
  make_crowd(&crowd, f);
  provider_start(&provider, answer, NULL);
  provider_hold(&provider, crowd.count);
  spec.base_url = provider.url;
  OK(qp_engine_start(f->store, &options, &crowd.engine, &failure));
  for (size_t i = 0; i < crowd.count; i++)
    OK(qp_engine_subscribe(crowd.engine, &crowd.list[i].id, 0, on_event, &crowd.list[i],
                           &crowd.list[i].sub, &failure));
  if (f->fault)
    count_calls_to(f, NULL);
  help(&crowd, send_all);
  look_after(&crowd);
  /* A turn has at least five commits. */
  if (f->fault)
    assert_in_range(calls_of(f, QP__SLOT_FDATASYNC), 1, 3 * crowd.count);
  assert_int_equal(crowd.well, crowd.count);
  assert_int_equal(provider.peak, crowd.count);
  assert_int_equal(provider_requests(&provider), crowd.count);
  for (size_t i = 0; i < crowd.count; i++) {
    qp_engine_unsubscribe(crowd.list[i].sub);
    expect_good(&crowd.list[i]);
  }
  qp_engine_stop(crowd.engine);
  provider_stop(&provider);
  free(crowd.list);
  (void)pthread_cond_destroy(&crowd.changed);
  (void)pthread_mutex_destroy(&crowd.lock);
}

int
main(void)
{
  const struct CMUnitTest tests[] = { cmocka_unit_test(test_a_thousand_streams_at_once) };

  return run_on_all("turn_streams", tests, COUNT(tests));
}
