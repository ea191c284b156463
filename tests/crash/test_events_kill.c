/* test_events_kill.c - kill -9 while turns are committed, on real files.
 *
 * A child commits turns (a message, the title, three events, a key) without waiting for them, tells
 * the numbers of their events as soon as they are safe, and each turn when it is durable, through a
 * pipe. It is killed at a random moment. Then every turn that was acknowledged is there, each turn
 * is there with all its parts or not at all, and no number that any child has told is given to
 * another event by the next one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <ftw.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "quipu.h"
#include "scenario.h"

#define EVENTS_A_TURN 3
#define UNDER_WAY 16

struct rig {
  char dir[PATH_MAX];
  struct qp_uuid id;
  uint64_t round;
  uint64_t acked; /* turns */
  uint64_t told;  /* the highest number that a child has told */
  uint64_t told_before;
  uint64_t durable; /* the number of the last event that was found */
};

static enum qp_rc
open_rig(const struct rig *x, struct qp_store **store, struct qp_context **c)
{
  struct qp_store_options options = { .size = sizeof(options),
                                      .journal_bytes = (size_t)256 << 10,
                                      .event_bytes = (size_t)64 << 10 };
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .id = x->id };
  struct qp_err err;
  enum qp_rc rc = qp_store_open(x->dir, &options, store, &err);

  if (!rc)
    rc = qp_context_open(*store, &x->id, QP_LOAD_NONE, c, &err);
  if (rc == QP_NOTFOUND)
    rc = qp_context_create(*store, &spec, c, &err);
  if (rc)
    (void)fprintf(stderr, "opening: %s\n", err.msg);
  return rc;
}

/* ---- the child ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t fewer = PTHREAD_COND_INITIALIZER;
static unsigned under_way;

static void
say_line(char what, uint64_t number)
{
  char line[40];
  int n = snprintf(line, sizeof(line), "%c %llu\n", what, (unsigned long long)number);

  if (write(STDOUT_FILENO, line, (size_t)n) != n) /* shorter than PIPE_BUF: whole or not at all */
    _exit(3);
}

static void
turn_is_done(void *arg, enum qp_rc rc, const struct qp_err *err)
{
  if (rc) {
    (void)fprintf(stderr, "a turn: %s\n", err->msg);
    _exit(4);
  }
  say_line('T', (uint64_t)(uintptr_t)arg);
  (void)pthread_mutex_lock(&lock);
  under_way--;
  (void)pthread_cond_signal(&fewer);
  (void)pthread_mutex_unlock(&lock);
}

static void
commit_turn(struct qp_context *c, uint64_t turn)
{
  struct qp_event events[EVENTS_A_TURN] = { { .type = "a" }, { .type = "b" }, { .type = "c" } };
  struct qp_change change = { .size = sizeof(change), .key_result = { "1", 1 } };
  struct qp_event_range range;
  struct qp_message *m = NULL;
  struct qp_err err;
  char text[40];
  char key[40];
  uint64_t first = 0;

  (void)snprintf(text, sizeof(text), "{\"title\":\"%llu\"}", (unsigned long long)turn);
  (void)snprintf(key, sizeof(key), "k%llu", (unsigned long long)turn);
  change.metadata = (struct qp_bytes){ text, strlen(text) };
  change.events = events;
  change.event_count = EVENTS_A_TURN;
  change.key = key;
  if (qp_message_new_text(QP_ROLE_USER, change.metadata, &m, &err))
    _exit(5);
  change.messages = &m;
  change.message_count = 1;
  (void)pthread_mutex_lock(&lock);
  while (under_way == UNDER_WAY)
    (void)pthread_cond_wait(&fewer, &lock);
  under_way++;
  (void)pthread_mutex_unlock(&lock);
  if (qp_context_commit(c, &change, &first, turn_is_done, (void *)(uintptr_t)turn, &err) ||
      qp_events_range(c, &range, &err)) {
    (void)fprintf(stderr, "turn %llu: %s\n", (unsigned long long)turn, err.msg);
    _exit(6);
  }
  say_line('F', first); /* for the test alone */
  for (uint64_t n = first; n < first + EVENTS_A_TURN; n++)
    if (n <= range.safe)
      say_line('N', n);
  qp_message_free(m);
}

static enum qp_rc
see_messages(void *arg, const struct qp_branch_info *b)
{
  *(uint64_t *)arg = b->messages;
  return QP_OK;
}

static _Noreturn void
be_child(const struct rig *x, int out)
{
  struct qp_store *store = NULL;
  struct qp_context *c = NULL;
  uint64_t turn = 0;

  (void)dup2(out, STDOUT_FILENO);
  if (open_rig(x, &store, &c) || qp_branch_list(c, see_messages, &turn, NULL))
    _exit(2);
  for (;;)
    commit_turn(c, ++turn);
}

/* ---- the parent ---- */

static void
take_line(struct rig *x, const char *line)
{
  unsigned long long n = strtoull(line + 1, NULL, 10);

  if (line[0] == 'F' && n <= x->told_before)
    fail_msg("round %llu: number %llu was told before", (unsigned long long)x->round, n);
  if (line[0] == 'N' && n > x->told)
    x->told = n;
  if (line[0] == 'T' && n > x->acked)
    x->acked = n;
}

/* Listens until so many turns are acknowledged, and a little longer. */
static void
listen_to(struct rig *x, int fd, pid_t pid, uint64_t turns)
{
  static char text[1 << 16];
  uint64_t until = x->acked + turns;
  bool killed = false;
  size_t len = 0;
  ssize_t n;

  while ((n = read(fd, text + len, sizeof(text) - len - 1)) > 0 || (n < 0 && errno == EINTR)) {
    char *line = text;
    char *nl;

    len += n > 0 ? (size_t)n : 0;
    text[len] = 0;
    for (; (nl = strchr(line, '\n')); line = nl + 1)
      take_line(x, line);
    len = strlen(line);
    memmove(text, line, len + 1);
    if (!killed && x->acked >= until) {
      (void)kill(pid, SIGKILL);
      killed = true;
    }
  }
}

static void
run_child(struct rig *x, uint64_t turns)
{
  int status = 0;
  int fds[2];
  pid_t pid;

  x->told_before = x->told;
  assert_int_equal(pipe(fds), 0);
  pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    (void)close(fds[0]);
    be_child(x, fds[1]);
  }
  (void)close(fds[1]);
  listen_to(x, fds[0], pid, turns);
  (void)close(fds[0]);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
    fail_msg("round %llu: the child ended by itself, with status %#x", (unsigned long long)x->round,
             (unsigned)status);
}

struct look {
  uint64_t count;
  uint64_t last;
  bool wrong;
};

/* The events of a turn stand together, with numbers that rise by one. */
static enum qp_rc
see_event(void *arg, const struct qp_event_info *e)
{
  struct look *l = arg;
  bool begins = e->type[0] == 'a';

  l->wrong |= e->seq <= l->last || (!begins && e->seq != l->last + 1) ||
              e->type[0] != (char)('a' + l->count % EVENTS_A_TURN);
  l->last = e->seq;
  l->count++;
  return QP_OK;
}

static void
see_problem(void *arg, const struct qp_problem *p)
{
  (void)arg;
  fail_msg("the check finds %s: %s", p->path, p->detail);
}

static void
expect_title(struct qp_context *c, uint64_t turns)
{
  char *text = NULL;
  size_t len = 0;
  json_t *meta;
  const char *title;

  assert_int_equal(qp_context_metadata(c, &text, &len, NULL), QP_OK);
  meta = json_loadb(text, len, 0, NULL);
  title = json_string_value(json_object_get(meta, "title"));
  assert_int_equal(title ? strtoull(title, NULL, 10) : 0, turns);
  json_decref(meta);
  qp_free(text);
}

static void
look_at_store(struct rig *x)
{
  struct qp_store *store = NULL;
  struct qp_context *c = NULL;
  struct qp_event_range range;
  struct look l = { 0 };
  uint64_t turns = 0;
  char *result = NULL;
  size_t len = 0;
  char key[40];

  assert_int_equal(open_rig(x, &store, &c), QP_OK);
  assert_int_equal(qp_branch_list(c, see_messages, &turns, NULL), QP_OK);
  assert_true(turns >= x->acked && turns <= x->acked + UNDER_WAY);
  expect_title(c, turns);
  (void)snprintf(key, sizeof(key), "k%llu", (unsigned long long)turns);
  assert_int_equal(qp_idempotency_find(c, key, &result, &len, NULL), turns ? QP_OK : QP_NOTFOUND);
  qp_free(result);
  (void)snprintf(key, sizeof(key), "k%llu", (unsigned long long)turns + 1);
  assert_int_equal(qp_idempotency_find(c, key, &result, &len, NULL), QP_NOTFOUND);
  assert_int_equal(qp_events_range(c, &range, NULL), QP_OK);
  assert_int_equal(
      qp_events_read(c, range.oldest ? range.oldest - 1 : 0, UINT64_MAX, see_event, &l, NULL),
      QP_OK);
  assert_false(l.wrong);
  assert_int_equal(l.count % EVENTS_A_TURN, 0);
  assert_true(l.last == range.newest && range.newest >= x->durable && range.next > x->told);
  assert_true(l.count == turns * EVENTS_A_TURN || range.bytes > 50000);
  x->durable = range.newest;
  x->acked = turns;
  qp_context_close(c);
  assert_int_equal(qp_store_check(store, NULL, 0, see_problem, NULL, NULL, NULL), QP_OK);
  qp_store_close(store);
}

static int
remove_path(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  (void)st;
  (void)type;
  (void)ftw;
  return remove(path);
}

static void
test_turns_survive_kills_as_a_whole_and_numbers_are_given_once(void **state)
{
  const char *tmp = getenv("TMPDIR");
  uint64_t rounds = test_is_long() ? 300 : 12;
  struct rng r = { test_seed(7) };
  static struct rig x;

  (void)state;
  (void)snprintf(x.dir, sizeof(x.dir), "%s/quipu-kill-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(x.dir));
  x.id = rng_uuid(&r);
  for (x.round = 0; x.round < rounds; x.round++) {
    run_child(&x, x.round % 4 == 3 ? 1 : 1 + rng_below(&r, 200));
    look_at_store(&x);
  }
  assert_true(x.told > 1000000); /* numbers were told ahead, in more than one life */
  assert_int_equal(nftw(x.dir, remove_path, 16, FTW_DEPTH | FTW_PHYS), 0);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_turns_survive_kills_as_a_whole_and_numbers_are_given_once),
  };

  return cmocka_run_group_tests_name("events_kill", tests, NULL, NULL);
}
