/* test_kill.c - kill -9 at any moment, on real files and with many threads.
 *
 * A child (crash_writer.c) writes from eight threads and tells each acknowledgement through a pipe.
 * It is killed at a random moment; the store is opened again, sometimes after the opening itself
 * was killed, and must hold every acknowledged message, with its text and in its thread's order,
 * every batch as a whole, the latest metadata, and nothing that a check complains of. Then the next
 * child goes on in the same directory; every few rounds begin with an empty one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crash_writer.h"
#include "quipu.h"
#include "scenario.h"

#define ROUNDS_A_STORE 8

struct acked {
  struct qp_uuid context;
  struct qp_uuid id;
  uint64_t hash;
  unsigned thread;
  bool own; /* on the thread's own branch, else on main */
};

enum fate { LASTING, MAY_BE_GONE, GONE };

struct known {
  struct qp_uuid id;
  enum fate fate;
  uint64_t note;
  bool seen;
};

struct rig {
  char top[PATH_MAX]; /* removed at the end */
  char dir[PATH_MAX + 8];
  char program[PATH_MAX + 32];
  struct rng rng;
  uint64_t round;
  struct acked *acked;
  size_t acked_count;
  size_t acked_cap;
  struct known *contexts;
  size_t context_count;
  uint64_t prompt; /* number in the prompt "p"; 0: none */
  char line[512];  /* of the pipe, as far as it is read */
  size_t line_len;
};

static void complain(const struct rig *x, const char *fmt, ...) QP_PRINTF(2, 3);

static void
complain(const struct rig *x, const char *fmt, ...)
{
  char text[800];
  va_list args;

  va_start(args, fmt);
  (void)vsnprintf(text, sizeof(text), fmt, args);
  va_end(args);
  fail_msg("round %llu: %s (the store is left in %s)", (unsigned long long)x->round, text, x->dir);
}

/* ---- what the child says ---- */

static struct known *
find_known(struct rig *x, const struct qp_uuid *id)
{
  for (size_t i = 0; i < x->context_count; i++)
    if (qp_uuid_equal(&x->contexts[i].id, id))
      return &x->contexts[i];
  return NULL;
}

static struct known *
add_known(struct rig *x, const struct qp_uuid *id, enum fate fate)
{
  struct known *k;

  x->contexts = realloc(x->contexts, (x->context_count + 1) * sizeof(*k));
  assert_non_null(x->contexts);
  k = &x->contexts[x->context_count++];
  memset(k, 0, sizeof(*k));
  k->id = *id;
  k->fate = fate;
  return k;
}

static struct qp_uuid
parse_id(const struct rig *x, const char *text)
{
  struct qp_uuid id;

  if (qp_uuid_parse(text, &id, NULL))
    complain(x, "the child says '%s'", x->line);
  return id;
}

static void
take_message(struct rig *x, const char *line)
{
  struct acked *a;
  char context[64];
  char branch[8];
  char id[64];
  unsigned long long hash;
  unsigned thread;

  if (sscanf(line, "M %u %63s %7s %63s %llx", &thread, context, branch, id, &hash) != 5)
    complain(x, "the child says '%s'", line);
  if (x->acked_count == x->acked_cap) {
    x->acked_cap = x->acked_cap * 2 + 1024;
    x->acked = realloc(x->acked, x->acked_cap * sizeof(*x->acked));
    assert_non_null(x->acked);
  }
  a = &x->acked[x->acked_count++];
  a->context = parse_id(x, context);
  a->id = parse_id(x, id);
  a->hash = hash;
  a->thread = thread;
  a->own = strcmp(branch, "own") == 0;
}

static void
take_line(struct rig *x, const char *line)
{
  struct qp_uuid id;
  struct known *k;
  char text[64];
  unsigned long long number;

  if (line[0] == 'M') {
    take_message(x, line);
  } else if (sscanf(line, "N %63s", text) == 1) {
    id = parse_id(x, text);
    (void)add_known(x, &id, LASTING);
  } else if (sscanf(line, "C %63s", text) == 1) {
    id = parse_id(x, text);
    (void)add_known(x, &id, MAY_BE_GONE);
  } else if (sscanf(line, "D %63s", text) == 1) {
    id = parse_id(x, text);
    k = find_known(x, &id);
    assert_non_null(k);
    k->fate = GONE;
  } else if (sscanf(line, "U %63s %llu", text, &number) == 2) {
    id = parse_id(x, text);
    k = find_known(x, &id);
    assert_non_null(k);
    k->note = number;
  } else if (sscanf(line, "P %llu", &number) == 1) {
    x->prompt = number;
  } else {
    complain(x, "the child says '%s'", line);
  }
}

static void
take_bytes(struct rig *x, const char *data, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    if (data[i] != '\n') {
      assert_true(x->line_len + 1 < sizeof(x->line));
      x->line[x->line_len++] = data[i];
      continue;
    }
    x->line[x->line_len] = 0;
    x->line_len = 0;
    take_line(x, x->line);
  }
}

/* ---- children ---- */

static pid_t
start_child(struct rig *x, bool reopen, int *out)
{
  char seed[32];
  int fds[2];
  pid_t pid;

  (void)snprintf(seed, sizeof(seed), "%llu", (unsigned long long)x->round);
  assert_int_equal(pipe(fds), 0);
  pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    (void)dup2(fds[1], STDOUT_FILENO);
    (void)close(fds[0]);
    (void)close(fds[1]);
    (void)execl(x->program, x->program, x->dir, seed, reopen ? "reopen" : NULL, NULL);
    _exit(127);
  }
  (void)close(fds[1]);
  *out = fds[0];
  return pid;
}

static int64_t
now_us(void)
{
  struct timespec ts;

  (void)clock_gettime(CLOCK_MONOTONIC, &ts);
  return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* Listens until the time is over (-1: to the end). */
static void
listen_for(struct rig *x, int fd, int64_t us)
{
  int64_t end = now_us() + us;
  char data[16384];

  for (;;) {
    struct pollfd p = { fd, POLLIN, 0 };
    int64_t left = us < 0 ? 1000000 : end - now_us();
    struct timespec ts = { left / 1000000, left % 1000000 * 1000 };
    ssize_t n;

    if (left <= 0)
      return;
    if (ppoll(&p, 1, &ts, NULL) <= 0)
      continue;
    n = read(fd, data, sizeof(data));
    if (n <= 0)
      return;
    take_bytes(x, data, (size_t)n);
  }
}

/* Kills a child and makes sure that it was that which ended it, or, for one that only opens, that
 * it ended well. */
static void
end_child(struct rig *x, pid_t pid, int fd, bool may_end)
{
  int status = 0;

  (void)kill(pid, SIGKILL);
  listen_for(x, fd, -1);
  (void)close(fd);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
    return;
  if (may_end && WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return;
  complain(x, "the child ended by itself, with status %#x", (unsigned)status);
}

/* ---- looking ---- */

static enum qp_rc
note_context(void *arg, const struct qp_uuid *id)
{
  struct rig *x = arg;
  struct known *k = find_known(x, id);
  char text[QP_UUID_TEXT];

  if (!k) /* created, and killed before it could say so */
    k = add_known(x, id, LASTING);
  if (k->fate == GONE)
    complain(x, "context %s is back", qp_uuid_text(id, text));
  k->fate = LASTING;
  k->seen = true;
  return QP_OK;
}

/* A deletion that was under way explains one context that is gone. */
static void
look_at_contexts(struct rig *x, struct qp_store *store)
{
  struct qp_err err;
  char text[QP_UUID_TEXT];
  size_t gone = 0;

  for (size_t i = 0; i < x->context_count; i++)
    x->contexts[i].seen = false;
  if (qp_context_list(store, note_context, x, &err))
    complain(x, "list: %s", err.msg);
  for (size_t i = 0; i < x->context_count; i++) {
    struct known *k = &x->contexts[i];

    if (k->seen || k->fate == GONE)
      continue;
    if (k->fate == LASTING || gone++)
      complain(x, "context %s is lost", qp_uuid_text(&k->id, text));
    k->fate = GONE;
  }
}

struct branch_look {
  struct rig *rig;
  struct qp_uuid *ids; /* by position */
  size_t count;
  size_t cap;
  char batch[64]; /* the batch of the message before … */
  unsigned next;  /* … and which of its messages comes next; 0: none */
};

/* A batch is there from its first message to its last, with nothing between. */
static void
look_at_batch(struct branch_look *l, const char *text)
{
  char name[64] = "";
  unsigned i = 0;
  unsigned n = 0;
  bool is_batch = sscanf(text, "batch %63s %u of %u ", name, &i, &n) == 3;

  if (l->next ? (!is_batch || i != l->next || strcmp(name, l->batch) != 0) : (is_batch && i != 0))
    complain(l->rig, "a part of batch '%s' is there: '%.60s' comes at %u", l->batch, text, l->next);
  memcpy(l->batch, name, sizeof(name));
  l->next = is_batch && i + 1 < n ? i + 1 : 0;
}

static enum qp_rc
look_at_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct branch_look *l = arg;
  struct qp_message *message = NULL;
  struct qp_part part;
  char text[700];
  char id[QP_UUID_TEXT];
  struct qp_err err;

  if (info->status != QP_STATUS_LIVE || info->position != l->count ||
      qp_message_parse(json, &message, &err))
    complain(l->rig, "message %s at %zu cannot be read", qp_uuid_text(&info->id, id), l->count);
  part = qp_message_part(message, 0);
  (void)snprintf(text, sizeof(text), "%.*s", (int)part.text.len, part.text.data);
  look_at_batch(l, text);
  qp_message_free(message);
  if (l->count == l->cap) {
    l->cap = l->cap * 2 + 256;
    l->ids = realloc(l->ids, l->cap * sizeof(*l->ids));
    assert_non_null(l->ids);
  }
  l->ids[l->count++] = info->id;
  return QP_OK;
}

/* What a thread got acknowledged on this branch is there in that order. */
static void
compare_acked(struct rig *x, struct qp_context *c, unsigned thread, bool own,
              const struct branch_look *l)
{
  struct qp_uuid context = qp_context_id(c);
  size_t from = 0;

  for (size_t i = 0; i < x->acked_count; i++) {
    const struct acked *a = &x->acked[i];
    struct qp_message *message = NULL;
    struct qp_message_info info;
    struct qp_part part;
    char id[QP_UUID_TEXT];
    struct qp_err err = { QP_OK, "" };

    if (a->thread != thread || a->own != own || !qp_uuid_equal(&a->context, &context))
      continue;
    if (qp_message_find(c, &a->id, &info, &err) || qp_message_load(c, &a->id, &message, &err))
      complain(x, "message %s is lost: %s", qp_uuid_text(&a->id, id), err.msg);
    part = qp_message_part(message, 0);
    if (text_hash(part.text.data, part.text.len) != a->hash)
      complain(x, "message %s has another text", qp_uuid_text(&a->id, id));
    qp_message_free(message);
    if (info.position < from || info.position >= l->count ||
        !qp_uuid_equal(&l->ids[info.position], &a->id))
      complain(x, "message %s is not in its place", qp_uuid_text(&a->id, id));
    from = (size_t)info.position + 1;
  }
}

static void
look_at_branch(struct rig *x, struct qp_context *c, const char *name, unsigned thread, bool own)
{
  struct branch_look l = { .rig = x };
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc = qp_messages_range(c, name, 0, UINT64_MAX, look_at_message, &l, &err);

  if (rc && rc != QP_NOTFOUND) /* not forked yet */
    complain(x, "branch '%s': %s", name, err.msg);
  if (l.next)
    complain(x, "a part of batch '%s' is at the end of '%s'", l.batch, name);
  for (unsigned t = own ? thread : 0; t <= (own ? thread : 7); t++)
    compare_acked(x, c, t, own, &l);
  free(l.ids);
}

static void
look_at_context(struct rig *x, struct qp_store *store, struct known *k)
{
  struct qp_context *c = NULL;
  struct qp_err err;
  char name[THREAD_BRANCH_LEN];
  char *text = NULL;
  size_t len = 0;
  uint64_t note;
  json_t *o;

  if (qp_context_open(store, &k->id, QP_LOAD_NONE, &c, &err))
    complain(x, "open: %s", err.msg);
  look_at_branch(x, c, "main", 0, false);
  for (unsigned t = 0; t < 8; t++)
    look_at_branch(x, c, thread_branch(name, t), t, true);
  if (qp_context_metadata(c, &text, &len, &err))
    complain(x, "metadata: %s", err.msg);
  o = json_loadb(text, len, 0, NULL);
  note = (uint64_t)json_integer_value(json_object_get(o, "note"));
  if (note != k->note && note != k->note + 1)
    complain(x, "the note is %llu and not %llu", (unsigned long long)note,
             (unsigned long long)k->note);
  k->note = note; /* the kill may have come before the child could tell of it */
  json_decref(o);
  qp_free(text);
  qp_context_close(c);
}

static enum qp_rc
look_at_prompt(void *arg, const struct qp_prompt *prompt)
{
  struct rig *x = arg;
  uint64_t number = strtoull(prompt->content, NULL, 10);

  if (number != x->prompt && number != x->prompt + 1)
    complain(x, "the prompt is at %llu and not %llu", (unsigned long long)number,
             (unsigned long long)x->prompt);
  x->prompt = number;
  return QP_OK;
}

static void
tell_problem(void *arg, const struct qp_problem *problem)
{
  complain(arg, "the check finds %s, %s: %s", qp_problem_name(problem->kind), problem->path,
           problem->detail);
}

static void
look_at_store(struct rig *x)
{
  struct qp_store_options options = { .size = sizeof(options), .flags = QP_STORE_NO_THREAD };
  struct qp_store *store = NULL;
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc;

  if (qp_store_open(x->dir, &options, &store, &err))
    complain(x, "opening: %s", err.msg);
  look_at_contexts(x, store);
  for (size_t i = 0; i < x->context_count; i++)
    if (x->contexts[i].fate == LASTING)
      look_at_context(x, store, &x->contexts[i]);
  rc = qp_prompt_get(store, "p", look_at_prompt, x, &err);
  if (rc && (rc != QP_NOTFOUND || x->prompt))
    complain(x, "the prompt: %s", err.msg);
  if (qp_store_check(store, NULL, 0, tell_problem, x, NULL, &err))
    complain(x, "the check: %s", err.msg);
  qp_store_close(store);
}

/* ---- rounds ---- */

static int
remove_path(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  (void)st;
  (void)type;
  (void)ftw;
  return remove(path);
}

static void
start_afresh(struct rig *x)
{
  (void)nftw(x->dir, remove_path, 16, FTW_DEPTH | FTW_PHYS);
  x->acked_count = 0;
  x->context_count = 0;
  x->prompt = 0;
}

static void
run_round(struct rig *x)
{
  int fd;
  pid_t pid = start_child(x, false, &fd);
  uint64_t before = x->acked_count;
  int64_t deadline = now_us() + 20000000;

  /* Every fourth one is killed while it begins, the others at work. */
  if (x->round % 4 != 3)
    while (x->acked_count == before && now_us() < deadline)
      listen_for(x, fd, 2000);
  listen_for(x, fd, (int64_t)rng_below(&x->rng, rng_below(&x->rng, 4) ? 60000 : 300000));
  end_child(x, pid, fd, false);
  x->line_len = 0; /* a line that was cut off */
  for (uint64_t kills = x->round % 3 == 0 ? 1 + rng_below(&x->rng, 3) : 0; kills; kills--) {
    pid = start_child(x, true, &fd);
    listen_for(x, fd, (int64_t)rng_below(&x->rng, 20000));
    end_child(x, pid, fd, true);
  }
  look_at_store(x);
}

static void
rig_make(struct rig *x)
{
  const char *tmp = getenv("TMPDIR");
  char self[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

  memset(x, 0, sizeof(*x));
  assert_true(n > 0);
  self[n] = 0;
  (void)snprintf(x->program, sizeof(x->program), "%s/crash_writer", dirname(self));
  if (access(x->program, X_OK) != 0)
    fail_msg("there is no '%s'", x->program);
  (void)snprintf(x->top, sizeof(x->top), "%s/kill-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(x->top));
  (void)snprintf(x->dir, sizeof(x->dir), "%s/data", x->top);
  x->rng.state = test_seed((uint64_t)now_us());
}

static void
test_kill_loses_nothing_that_was_acknowledged(void **state)
{
  uint64_t rounds = test_is_long() ? 400 : 20;
  uint64_t total = 0;
  struct rig x;

  (void)state;
  rig_make(&x);
  for (x.round = 1; x.round <= rounds; x.round++) {
    run_round(&x);
    if (x.round % ROUNDS_A_STORE == 0 || x.round == rounds) {
      total += x.acked_count;
      start_afresh(&x);
    }
  }
  print_message("%llu acknowledged messages in %llu rounds\n", (unsigned long long)total,
                (unsigned long long)rounds);
  assert_true(total > 100);
  free(x.acked);
  free(x.contexts);
  assert_int_equal(nftw(x.top, remove_path, 16, FTW_DEPTH | FTW_PHYS), 0);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_kill_loses_nothing_that_was_acknowledged),
  };

  return cmocka_run_group_tests_name("kill", tests, NULL, NULL);
}
