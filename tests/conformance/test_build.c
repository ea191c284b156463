/* test_build.c - adding whole contexts at once (store/context/context_build.h), with every driver,
 * and with a power cut at any moment. */
#include <stdio.h>

#include "model/message.h"
#include "os_sim.h"
#include "store/context/context_build.h"
#include "store/store_int.h"
#include "store_test.h"

#define CONTEXT "11111111-0000-4000-8000-000000000001"
#define COUNT_MAIN 2500 /* more than a window */
#define COUNT_ALT 3

/* ---- a source of messages ---- */

struct source {
  uint32_t salt;     /* of the ids */
  size_t count_main; /* "m0", "m1", …, each behind the one before; then "a0" … behind m1 */
  size_t fail_at;    /* message that cannot be had, or SIZE_MAX */
  size_t differ_at;  /* message whose comparison fails, or SIZE_MAX */
  size_t twin_at;    /* message that has the id of the first one, or SIZE_MAX */
  size_t filler;     /* bytes that each message has besides */
  size_t verified;   /* under the lock */
  pthread_mutex_t lock;
};

static struct source
make_source(size_t count_main)
{
  struct source s = { .salt = 1, .count_main = count_main };

  s.fail_at = s.differ_at = s.twin_at = SIZE_MAX;
  (void)pthread_mutex_init(&s.lock, NULL);
  return s;
}

static struct qp_uuid
id_at(const struct source *s, size_t i)
{
  char text[64];

  (void)snprintf(text, sizeof(text), "%08x-0000-4000-9000-%012zx", s->salt, i + 1);
  return id_of(text);
}

static size_t
parent_at(const struct source *s, size_t i)
{
  return i == s->count_main ? 1 : i - 1;
}

static enum qp_rc
give(void *arg, size_t i, struct qp_message **out, struct qp_err *err)
{
  struct source *s = arg;
  struct qp_uuid id = id_at(s, i == s->twin_at ? 0 : i);
  struct qp_uuid parent = id_at(s, parent_at(s, i));
  char text[32];
  struct qp_message *m = NULL;
  enum qp_rc rc;

  if (i == s->fail_at) {
    (void)snprintf(err->msg, sizeof(err->msg), "message %zu is not to be had", i);
    return err->rc = QP_INVALID;
  }
  (void)snprintf(text, sizeof(text), i < s->count_main ? "m%zu" : "a%zu",
                 i < s->count_main ? i : i - s->count_main);
  rc = qp_message_new_text(QP_ROLE_USER, bytes_of(text), &m, err);
  if (rc)
    return rc;
  if (s->filler) {
    char *more = calloc(1, s->filler + 16);

    assert_non_null(more);
    (void)snprintf(more, s->filler + 16, "{\"f\":\"%0*d\"}", (int)s->filler, 0);
    rc = qp_message_set_metadata(m, more, err);
    free(more);
    if (rc) {
      qp_message_free(m);
      return rc;
    }
  }
  qp_message_set_id(m, &id);
  qp_message_set_created_at(m, 1000 + (int64_t)i);
  if (i)
    qp_message_set_parent(m, &parent);
  *out = m;
  return QP_OK;
}

static enum qp_rc
compare(void *arg, size_t i, struct qp_bytes json, struct qp_err *err)
{
  struct source *s = arg;
  struct qp_message *m = NULL;
  struct qp_uuid want = id_at(s, i == s->twin_at ? 0 : i);
  struct qp_uuid got;
  enum qp_rc rc = qp_message_parse(json, &m, err);

  if (rc)
    return rc;
  got = qp_message_id(m);
  (void)pthread_mutex_lock(&s->lock);
  s->verified++;
  (void)pthread_mutex_unlock(&s->lock);
  qp_message_free(m);
  if (i != s->differ_at && qp_uuid_equal(&got, &want))
    return QP_OK;
  (void)snprintf(err->msg, sizeof(err->msg), "message %zu differs", i);
  return err->rc = QP_CORRUPT;
}

/* ---- building ---- */

static enum qp_rc
add_all(struct qp__build *b, struct source *s, struct qp_err *err)
{
  enum qp_rc rc = qp__build_add(b, "main", 0, s->count_main, give, compare, s, err);

  return rc ? rc : qp__build_add(b, "alt/1", s->count_main, COUNT_ALT, give, compare, s, err);
}

static enum qp_rc
make_meta(const struct qp_uuid *id, const char *prompt, struct qp__meta **out, struct qp_err *err)
{
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec),
                                  .id = *id,
                                  .title = "built" };
  struct qp__meta *meta = NULL;
  enum qp_rc rc;

  spec.system_prompt_id = prompt;
  rc = qp__meta_new(&spec, 1000, &meta, err);
  if (!rc)
    rc = qp__meta_branch_add(meta, "alt/1", 1000, NULL, err);
  if (rc)
    qp__meta_free(meta);
  else
    *out = meta;
  return rc;
}

/* The whole way. */
static enum qp_rc
build(struct qp_store *store, const struct qp_uuid *id, struct source *s, const char *prompt,
      struct qp_err *err)
{
  struct qp__build_head heads[] = { { "alt/1", id_at(s, s->count_main + COUNT_ALT - 1) },
                                    { "main", id_at(s, s->count_main - 1) } };
  struct qp__build *b = NULL;
  struct qp__meta *meta = NULL;
  enum qp_rc rc = qp__build_begin(store, id, &b, err);

  if (rc)
    return rc;
  rc = add_all(b, s, err);
  if (!rc)
    rc = make_meta(id, prompt, &meta, err);
  if (!rc)
    rc = qp__build_commit(b, meta, heads, COUNT(heads), NULL, 0, err);
  qp__meta_free(meta);
  qp__build_free(b);
  return rc;
}

/* Nothing in tmp/ but the directories that are kept there for other files. */
static void
expect_no_leftovers(struct fixture *f)
{
  if (has(f, NEEDS_DIRECTORY))
    assert_int_equal(count_files(pathf("%s/tmp", f->data), ".json"), 0);
}

/* ---- the tests ---- */

static void
test_a_built_context_is_like_any_other(void **state)
{
  struct fixture *f = *state;
  struct source s = make_source(COUNT_MAIN);
  struct qp_uuid id = id_of(CONTEXT);
  struct qp_context *c;
  struct qp_branch_info main_branch;
  struct qp_uuid head = id_at(&s, COUNT_MAIN - 1);

  OK(build(f->store, &id, &s, NULL, &failure));
  assert_int_equal(s.verified, COUNT_MAIN + COUNT_ALT);
  for (int again = 0; again < 2; again++) {
    c = open_context(f, &id);
    expect_branches(c, "alt/1 main*");
    main_branch = branch_of(c, "main");
    assert_int_equal(main_branch.messages, COUNT_MAIN);
    expect_id(&main_branch.head, &head);
    expect_texts(c, "alt/1", "m0 m1 a0 a1 a2");
    qp_context_close(c);
    reload(f);
  }
  expect_no_findings(f);
  c = open_context(f, &id);
  (void)say(c, "alt/1", "on");
  expect_texts(c, "alt/1", "m0 m1 a0 a1 a2 on");
  qp_context_close(c);
  expect_no_findings(f);
  expect_no_leftovers(f);
}

static void
test_what_cannot_be_built_leaves_nothing(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = id_of(CONTEXT);
  struct qp_context *c = NULL;
  struct source s = make_source(40);

  s.fail_at = 33;
  FAILS(build(f->store, &id, &s, NULL, &failure), QP_INVALID);
  expect_sentence("message 33 is not to be had");
  s = make_source(40);
  s.differ_at = 20;
  FAILS(build(f->store, &id, &s, NULL, &failure), QP_CORRUPT);
  expect_sentence("message 20 differs");
  s = make_source(40);
  s.twin_at = 39;
  FAILS(build(f->store, &id, &s, NULL, &failure), QP_INVALID);
  expect_sentence("duplicate");
  s = make_source(40);
  s.twin_at = 41; /* in another directory */
  FAILS(build(f->store, &id, &s, NULL, &failure), QP_INVALID);
  expect_sentence("duplicate");
  s = make_source(40);
  FAILS(build(f->store, &id, &s, "nowhere", &failure), QP_NOTFOUND);
  FAILS(qp_context_open(f->store, &id, QP_LOAD_NONE, &c, &failure), QP_NOTFOUND);
  expect_no_leftovers(f);
  expect_no_findings(f);
  OK(build(f->store, &id, &s, NULL, &failure));
}

static void
test_an_id_that_is_taken(void **state)
{
  struct fixture *f = *state;
  struct source s = make_source(5);
  struct source other = make_source(5);
  struct qp_uuid id = id_of(CONTEXT);
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .id = id };
  struct qp__build *b = NULL;
  struct qp__meta *meta = NULL;
  struct qp__build_head heads[] = { { "alt/1", id_at(&s, 7) }, { "main", id_at(&s, 4) } };
  struct qp_context *c = NULL;

  OK(qp__build_begin(f->store, &id, &b, &failure));
  OK(add_all(b, &s, &failure));
  OK(make_meta(&id, NULL, &meta, &failure));
  other.salt = 2;
  OK(build(f->store, &id, &other, NULL, &failure)); /* the quicker one has it */
  FAILS(qp__build_commit(b, meta, heads, COUNT(heads), NULL, 0, &failure), QP_EXISTS);
  qp__build_free(b);
  qp__meta_free(meta);
  FAILS(qp__build_begin(f->store, &id, &b, &failure), QP_EXISTS);
  FAILS(qp_context_create(f->store, &spec, &c, &failure), QP_EXISTS);
  expect_no_findings(f);
  expect_no_leftovers(f);
}

static void
test_a_prompt_that_it_refers_to_can_be_deleted(void **state)
{
  struct fixture *f = *state;
  struct source s = make_source(5);
  struct qp_uuid id = id_of(CONTEXT);

  set_prompt(f, "terse", "Be terse.");
  OK(build(f->store, &id, &s, "terse", &failure));
  OK(qp_prompt_delete(f->store, "terse", &failure));
  expect_no_findings(f);
}

/* ---- crashes ---- */

/* What a machine has done when its power goes, and what may be there then. */
struct story {
  struct qp__os_sim *sim;
  struct qp_store *store;
  struct qp_uuid id;
  unsigned steps; /* that were acknowledged */
  size_t filler;  /* large contexts take another way to the disk */
};

static enum qp_rc
open_sim(struct story *x, struct qp_err *err)
{
  struct qp_store_options o = { .size = sizeof(o), .flags = QP_STORE_NO_THREAD };

  o.journal_bytes = (size_t)64 << 10;
  return qp__store_open_os("file:/data", &o, qp__os_sim_os(x->sim), &x->store, err);
}

static enum qp_rc
create_and_say(struct qp_store *store, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .id = *id };
  struct qp_message *m = new_text(QP_ROLE_USER, "by hand");
  struct qp_context *c = NULL;
  enum qp_rc rc = qp_context_create(store, &spec, &c, err);

  if (!rc)
    rc = qp_message_save(c, "main", m, NULL, err);
  qp_context_close(c);
  qp_message_free(m);
  return rc;
}

static enum qp_rc
append(struct qp_store *store, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp_message *m = new_text(QP_ROLE_USER, "more");
  struct qp_context *c = NULL;
  enum qp_rc rc = qp_context_open(store, id, QP_LOAD_NONE, &c, err);

  if (!rc)
    rc = qp_message_save(c, "main", m, NULL, err);
  qp_context_close(c);
  qp_message_free(m);
  return rc;
}

/* Messages of the context after each step; -1: there is none. Two numbers where a step has two
 * commits. */
static const int after[][2] = {
  { -1, -1 }, { 0, 1 },   { -1, -1 }, { 9, 9 },   { 10, 10 }, { -1, -1 },
  { 9, 9 },   { -1, -1 }, { 0, 1 },   { -1, -1 }, { 9, 9 },
};

/* The next step; every name in it is used again and again within one journal. */
static enum qp_rc
do_step(struct story *x, unsigned step, struct qp_err *err)
{
  struct source s = make_source(6);

  switch (step) {
  case 0:
  case 7:
    return create_and_say(x->store, &x->id, err);
  case 1:
  case 4:
  case 6:
  case 8:
    return qp_context_delete(x->store, &x->id, err);
  case 3:
    return append(x->store, &x->id, err);
  default: /* 2, 5, 9 */
    s.salt = step;
    s.filler = x->filler;
    return build(x->store, &x->id, &s, NULL, err);
  }
}

static int
count_messages(struct story *x)
{
  struct qp_context *c = NULL;
  struct qp_size size;
  enum qp_rc rc = qp_context_open(x->store, &x->id, QP_LOAD_NONE, &c, &failure);

  if (rc == QP_NOTFOUND)
    return -1;
  assert_int_equal(rc, QP_OK);
  qp_context_size(c, &size);
  qp_context_close(c);
  return (int)size.messages;
}

static bool
may_be(const struct story *x, int count)
{
  for (unsigned step = x->steps; step <= x->steps + 1 && step < COUNT(after); step++)
    if (count == after[step][0] || count == after[step][1])
      return true;
  return false;
}

/* Runs the story until the power goes after n mutations. False: it came to its end before. */
static bool
live_and_die(uint64_t n, uint64_t seed, size_t filler)
{
  struct story x = { .sim = qp__os_sim_new(seed), .id = id_of(CONTEXT), .filler = filler };
  struct qp_check_summary sum;
  bool died;

  assert_non_null(x.sim);
  OK(open_sim(&x, &failure));
  qp__os_sim_cut_after(x.sim, n);
  while (x.steps + 1 < COUNT(after) && do_step(&x, x.steps, &failure) == QP_OK)
    x.steps++;
  died = qp__os_sim_is_off(x.sim);
  assert_true(died || x.steps + 1 == COUNT(after));
  qp_store_close(x.store);
  assert_int_equal(qp__os_sim_power_cut(x.sim), 0);
  OK(open_sim(&x, &failure));
  if (!may_be(&x, count_messages(&x)))
    fail_msg("cut %llu, seed %llu, filler %zu, after step %u: %d messages", (unsigned long long)n,
             (unsigned long long)seed, filler, x.steps, count_messages(&x));
  OK(qp_store_check(x.store, NULL, 0, NULL, NULL, &sum, &failure));
  assert_int_equal(sum.problems, 0);
  qp_store_close(x.store);
  qp__os_sim_free(x.sim);
  return died;
}

static void
test_the_power_goes_at_any_moment(void **state)
{
  (void)state;
  for (uint64_t n = 0; live_and_die(n, n * 7 + 1, 0); n++)
    continue;
  for (uint64_t n = 0; live_and_die(n, n * 7 + 1, 5000); n++)
    continue;
}

static void
sync_sim(struct qp__os_sim *sim)
{
  const struct qp__os *os = qp__os_sim_os(sim);
  int fd = os->open_root(os->self, "/data", 0);

  assert_true(fd >= 0);
  assert_int_equal(os->syncfs(os->self, fd), 0);
  assert_int_equal(os->close(os->self, fd), 0);
}

/* The process ends without a word, and everything that it wrote is there: the journal is replayed
 * over files on which all of it was carried out already. */
static void
test_everything_is_replayed_over_what_is_there(void **state)
{
  struct story x = { .id = id_of(CONTEXT) };
  struct qp_check_summary sum;

  (void)state;
  for (unsigned n = 2; n < 2 * COUNT(after); n++) {
    unsigned upto = n / 2;

    x.filler = n % 2 ? 5000 : 0;
    x.sim = qp__os_sim_new(upto);
    OK(open_sim(&x, &failure));
    for (unsigned step = 0; step < upto; step++)
      OK(do_step(&x, step, &failure));
    sync_sim(x.sim);
    qp__os_sim_cut_after(x.sim, 0);
    qp_store_close(x.store);
    assert_int_equal(qp__os_sim_power_cut(x.sim), 0);
    OK(open_sim(&x, &failure));
    assert_int_equal(count_messages(&x), after[upto][1]);
    OK(qp_store_check(x.store, NULL, 0, NULL, NULL, &sum, &failure));
    assert_int_equal(sum.problems, 0);
    qp_store_close(x.store);
    qp__os_sim_free(x.sim);
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    needs(test_a_built_context_is_like_any_other, NEEDS_BUILD),
    needs(test_what_cannot_be_built_leaves_nothing, NEEDS_BUILD),
    needs(test_an_id_that_is_taken, NEEDS_BUILD),
    needs(test_a_prompt_that_it_refers_to_can_be_deleted, NEEDS_BUILD),
  };
  const struct CMUnitTest crashes[] = {
    cmocka_unit_test(test_the_power_goes_at_any_moment),
    cmocka_unit_test(test_everything_is_replayed_over_what_is_there),
  };
  int failed = run_on_all("build", tests, COUNT(tests));

  return failed + run_on_files("build", crashes, COUNT(crashes));
}
