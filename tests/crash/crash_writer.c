/* crash_writer.c - a process that writes to a store from several threads until it is killed, and
 * tells on standard output what was acknowledged; test_kill.c starts it and kills it.
 *
 *   crash_writer DIR SEED           write for ever
 *   crash_writer DIR SEED reopen    open, which recovers, and close
 *
 * One line for each acknowledgement, written after it with one call:
 *   N context                               one of the three lasting contexts was created
 *   C context                               a context was created that may be deleted
 *   D context                               a context was deleted
 *   M thread context branch id hash         a message was saved; hash is of its text
 *   U context number                        the metadata has "note": number
 *   P number                                the prompt "p" has the content "number"
 *   E sentence                              a call failed; the process ends
 * `branch` is "main" or "own": thread_branch() names the latter. Messages of a batch have a text
 * that begins with "batch <name> <i> of <n> ", so that a part of one can be told from a whole. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crash_writer.h"
#include "quipu.h"

#define THREADS 8
#define BATCH_MAX 40
#define LINE_LEN 160

static struct qp_store *store;
static struct qp_context *shared;      /* all threads write to it */
static struct qp_context *separate[2]; /* a half of the threads to each */
static uint64_t seed;

/* ---- telling ---- */

static void
tell(const char *lines, size_t len)
{
  while (len) {
    ssize_t n = write(STDOUT_FILENO, lines, len);

    if (n <= 0)
      _exit(4); /* the test is gone */
    lines += n;
    len -= (size_t)n;
  }
}

static void
give_up(const char *what, const struct qp_err *err)
{
  char line[512];
  int n = snprintf(line, sizeof(line), "E %s: %.400s\n", what, err->msg);

  tell(line, (size_t)n);
  _exit(3);
}

static void
must(enum qp_rc rc, const char *what, const struct qp_err *err)
{
  if (rc)
    give_up(what, err);
}

static void
tell_context(char letter, const struct qp_uuid *id)
{
  char text[QP_UUID_TEXT];
  char line[LINE_LEN];
  int n = snprintf(line, sizeof(line), "%c %s\n", letter, qp_uuid_text(id, text));

  tell(line, (size_t)n);
}

static void
tell_number(const struct qp_context *c, uint64_t number)
{
  struct qp_uuid id;
  char text[QP_UUID_TEXT];
  char line[LINE_LEN];
  int n;

  if (c) {
    id = qp_context_id(c);
    n = snprintf(line, sizeof(line), "U %s %llu\n", qp_uuid_text(&id, text),
                 (unsigned long long)number);
  } else {
    n = snprintf(line, sizeof(line), "P %llu\n", (unsigned long long)number);
  }
  tell(line, (size_t)n);
}

static int
format_message(char line[LINE_LEN], unsigned thread, const struct qp_context *c, bool own,
               const struct qp_uuid *id, uint64_t hash)
{
  struct qp_uuid context = qp_context_id(c);
  char a[QP_UUID_TEXT];
  char b[QP_UUID_TEXT];

  return snprintf(line, LINE_LEN, "M %u %s %s %s %016llx\n", thread, qp_uuid_text(&context, a),
                  own ? "own" : "main", qp_uuid_text(id, b), (unsigned long long)hash);
}

/* ---- what a thread does ---- */

struct writer {
  unsigned number;
  uint64_t random;
  uint64_t count; /* messages so far */
};

static uint64_t
below(struct writer *w, uint64_t n)
{
  w->random = w->random * 6364136223846793005u + 1442695040888963407u;
  return (w->random >> 33) % n;
}

static struct qp_message *
new_message(const char *text)
{
  struct qp_bytes bytes = { text, strlen(text) };
  struct qp_message *message = NULL;
  struct qp_err err;

  must(qp_message_new_text(QP_ROLE_USER, bytes, &message, &err), "a message", &err);
  return message;
}

static void
fill(struct writer *w, char *text, size_t used, size_t size)
{
  while (used + 1 < size)
    text[used++] = (char)('a' + below(w, 26));
  text[used] = 0;
}

static void
save_one(struct writer *w, struct qp_context *c, bool own)
{
  char branch[THREAD_BRANCH_LEN];
  char line[LINE_LEN];
  char text[600];
  struct qp_message *message;
  struct qp_uuid id;
  struct qp_err err;
  int n =
      snprintf(text, sizeof(text), "single %u %llu ", w->number, (unsigned long long)w->count++);

  fill(w, text, (size_t)n, (size_t)n + 1 + below(w, 200));
  message = new_message(text);
  must(qp_message_save(c, own ? thread_branch(branch, w->number) : "main", message, &id, &err),
       "save", &err);
  qp_message_free(message);
  n = format_message(line, w->number, c, own, &id, text_hash(text, strlen(text)));
  tell(line, (size_t)n);
}

static void
save_batch(struct writer *w, struct qp_context *c, bool own)
{
  struct qp_message *messages[BATCH_MAX];
  struct qp_save_result results[BATCH_MAX];
  uint64_t hashes[BATCH_MAX];
  char lines[BATCH_MAX * LINE_LEN];
  char branch[THREAD_BRANCH_LEN];
  char text[200];
  size_t n = 2 + (size_t)below(w, BATCH_MAX - 1);
  size_t used = 0;
  struct qp_err err;

  for (size_t i = 0; i < n; i++) {
    int len = snprintf(text, sizeof(text), "batch %llu-%u-%llu %zu of %zu ",
                       (unsigned long long)seed, w->number, (unsigned long long)w->count, i, n);

    fill(w, text, (size_t)len, (size_t)len + 20);
    hashes[i] = text_hash(text, strlen(text));
    messages[i] = new_message(text);
  }
  w->count++;
  must(qp_message_save_batch(c, own ? thread_branch(branch, w->number) : "main", messages, n,
                             results, &err),
       "batch", &err);
  for (size_t i = 0; i < n; i++) {
    must(results[i].err.rc, "a message of a batch", &results[i].err);
    used += (size_t)format_message(lines + used, w->number, c, own, &results[i].id, hashes[i]);
    qp_message_free(messages[i]);
  }
  tell(lines, used);
}

/* A number that grows for ever; it goes on where the last process ended. */
static void
update_note(struct qp_context *c)
{
  char patch[64];
  struct qp_bytes bytes = { patch, 0 };
  struct qp_err err;
  char *text = NULL;
  size_t len = 0;
  const char *at;
  uint64_t note = 0;

  must(qp_context_metadata(c, &text, &len, &err), "metadata", &err);
  at = strstr(text, "\"note\": ");
  if (at)
    note = strtoull(at + 8, NULL, 10);
  qp_free(text);
  note++;
  bytes.len = (size_t)snprintf(patch, sizeof(patch), "{\"note\":%llu}", (unsigned long long)note);
  must(qp_context_update(c, bytes, &err), "update", &err);
  tell_number(c, note);
}

static enum qp_rc
read_number(void *arg, const struct qp_prompt *prompt)
{
  *(uint64_t *)arg = strtoull(prompt->content, NULL, 10);
  return QP_OK;
}

static void
update_prompt(void)
{
  char text[32];
  struct qp_prompt prompt = { .id = "p", .content = text };
  uint64_t number = 0;
  struct qp_err err;
  enum qp_rc rc = qp_prompt_get(store, "p", read_number, &number, &err);

  if (rc && rc != QP_NOTFOUND)
    give_up("prompt", &err);
  (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)number + 1);
  must(rc ? qp_prompt_create(store, &prompt, NULL, &err) : qp_prompt_update(store, &prompt, &err),
       "prompt", &err);
  tell_number(NULL, number + 1);
}

/* A context that comes and goes. */
static void
make_and_delete(struct writer *w)
{
  struct qp_context *c = NULL;
  struct qp_uuid id;
  struct qp_err err;

  must(qp_context_create(store, NULL, &c, &err), "create", &err);
  id = qp_context_id(c);
  tell_context('C', &id);
  save_one(w, c, false);
  qp_context_close(c);
  if (below(w, 8) == 0)
    return; /* this one stays */
  must(qp_context_delete(store, &id, &err), "delete", &err);
  tell_context('D', &id);
}

static void *
write_for_ever(void *arg)
{
  struct writer *w = arg;
  struct qp_context *own = separate[w->number % 2];

  for (;;) {
    struct qp_context *c = below(w, 2) ? shared : own;
    uint64_t dice = below(w, 100);

    if (dice < 70)
      save_one(w, c, below(w, 2) == 0);
    else if (dice < 85)
      save_batch(w, c, below(w, 2) == 0);
    else if (dice < 90 && w->number < 2)
      update_note(w->number ? separate[1] : shared);
    else if (dice < 90 && w->number == 2)
      update_prompt();
    else if (dice < 93 && w->number == 3)
      make_and_delete(w);
  }
  return NULL;
}

/* ---- beginning ---- */

struct ids {
  struct qp_uuid list[3];
  size_t count;
};

/* The three contexts with the smallest ids, which are the oldest. */
static enum qp_rc
collect(void *arg, const struct qp_uuid *id)
{
  struct ids *ids = arg;
  struct qp_uuid at = *id;

  for (size_t i = 0; i < ids->count; i++) {
    if (memcmp(&at, &ids->list[i], sizeof(at)) < 0) {
      struct qp_uuid other = ids->list[i];

      ids->list[i] = at;
      at = other;
    }
  }
  if (ids->count < 3)
    ids->list[ids->count++] = at;
  return QP_OK;
}

static struct qp_context *
open_or_create(const struct ids *ids, size_t i)
{
  struct qp_context *c = NULL;
  struct qp_uuid id;
  struct qp_err err;

  if (i < ids->count) {
    must(qp_context_open(store, &ids->list[i], QP_LOAD_NONE, &c, &err), "open", &err);
    return c;
  }
  must(qp_context_create(store, NULL, &c, &err), "create", &err);
  id = qp_context_id(c);
  tell_context('N', &id);
  return c;
}

static void
make_branches(struct qp_context *c)
{
  char name[THREAD_BRANCH_LEN];
  struct qp_err err;

  for (unsigned i = 0; i < THREADS; i++) {
    enum qp_rc rc = qp_branch_fork(c, thread_branch(name, i), "main", NULL, &err);

    if (rc != QP_EXISTS)
      must(rc, "fork", &err);
  }
}

int
main(int argc, char **argv)
{
  struct qp_store_options options = { .size = sizeof(options) };
  static struct writer writers[THREADS];
  struct ids ids = { .count = 0 };
  pthread_t threads[THREADS];
  struct qp_err err = { QP_OK, "" };

  if (argc < 3)
    return 2;
  seed = strtoull(argv[2], NULL, 10);
  options.journal_bytes = seed % 2 ? (size_t)64 << 10 : (size_t)1 << 20;
  must(qp_store_open(argv[1], &options, &store, &err), "opening", &err);
  if (argc > 3) {
    qp_store_close(store);
    return 0;
  }
  must(qp_context_list(store, collect, &ids, &err), "list", &err);
  shared = open_or_create(&ids, 0);
  separate[0] = open_or_create(&ids, 1);
  separate[1] = open_or_create(&ids, 2);
  make_branches(shared);
  make_branches(separate[0]);
  make_branches(separate[1]);
  for (unsigned i = 0; i < THREADS; i++) {
    writers[i].number = i;
    writers[i].random = seed * 1000 + i;
    if (pthread_create(&threads[i], NULL, write_for_ever, &writers[i]))
      return 5;
  }
  for (unsigned i = 0; i < THREADS; i++)
    (void)pthread_join(threads[i], NULL);
  return 0;
}
