/* test_catalogue_same.c - the lists, searches and reports of every driver are those of the memory
 * driver on the same random data: rows, order, pages, hits, snippets, ranks, sizes and usage. Hits
 * of the same rank may come in another order. */
#include <math.h>
#include <stdio.h>

#include "scenario.h"
#include "store/store_int.h"
#include "store_test.h"

#define CONTEXTS 8
#define HITS_MAX 600

static const char *const words[] = {
  "fish",  "Fish", "fishing", "trout",   "quick", "brown",  "fox",    "Café",  "cafe",
  "naïve", "a",    "b",       "C",       "2024",  "日本語", "本日",   "ไทย",   "학교에서",
  "it's",  "x_y",  "--",      "“quote”", "und",   "über",   "ÜBER",   "don't", "<b>",
  "&amp;", "\\",   "'",       "a'b",     "100%",  "ß",      "Straße", "🎣",     "e\xcc\x81tude",
};

/* ---- a clock of the test ---- */

static int64_t clock_ms = INT64_C(1700000000000);

static int64_t
read_clock(void *self)
{
  (void)self;
  return clock_ms;
}

/* ---- two stores ---- */

struct pair {
  struct fixture *f;
  struct qp_store *other; /* the memory driver's */
  struct rng rng;
  struct qp_uuid ids[CONTEXTS]; /* none: there is no such context */
};

static struct qp_store *
store_of(struct pair *p, int which)
{
  return which ? p->other : p->f->store;
}

static size_t
pick(struct pair *p, size_t n)
{
  return (size_t)rng_below(&p->rng, n);
}

static void
make_text(struct pair *p, char *out, size_t size, size_t most)
{
  size_t n = 1 + pick(p, most);

  out[0] = 0;
  for (size_t i = 0; i < n; i++) {
    size_t len = strlen(out);

    (void)snprintf(out + len, size - len, "%s%s", i ? (pick(p, 9) ? " " : ", ") : "",
                   words[pick(p, COUNT(words))]);
  }
}

/* ---- changes, the same in both ---- */

static void
create(struct pair *p, struct qp_uuid *id)
{
  static const char *const owners[] = { NULL, "ann", "bob" };
  char title[200];
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec) };

  *id = rng_uuid(&p->rng);
  make_text(p, title, sizeof(title), 4);
  spec.id = *id;
  spec.owner = owners[pick(p, 3)];
  spec.title = pick(p, 4) ? title : NULL;
  for (int i = 0; i < 2; i++) {
    struct qp_context *c = NULL;

    OK(qp_context_create(store_of(p, i), &spec, &c, &failure));
    qp_context_close(c);
  }
}

/* What an answer has used, if it is known. The costs add up exactly in any order. */
static void
add_metadata(struct pair *p, struct qp_message *m)
{
  static const char *const models[] = { "", ",\"model\":\"one\"", ",\"model\":\"two\"" };
  static const char *const costs[] = { "", ",\"cost_usd\":0.25", ",\"cost_usd\":-1" };
  char json[256];

  if (!pick(p, 4))
    return;
  (void)snprintf(json, sizeof(json),
                 "{\"tokens\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,"
                 "\"cache_read_tokens\":%zu}%s%s}",
                 pick(p, 1000), pick(p, 100), pick(p, 10), models[pick(p, COUNT(models))],
                 costs[pick(p, COUNT(costs))]);
  OK(qp_message_set_metadata(m, json, &failure));
}

static struct qp_message *
random_message(struct pair *p, const struct qp_uuid *id)
{
  struct qp_message *m;
  char text[2000];

  make_text(p, text, sizeof(text), pick(p, 10) ? 12 : 150);
  m = new_text(pick(p, 2) ? QP_ROLE_USER : QP_ROLE_ASSISTANT, text);
  qp_message_set_id(m, id);
  add_metadata(p, m);
  return m;
}

static void
save(struct pair *p, const struct qp_uuid *id, const char *branch)
{
  struct rng before;
  struct qp_uuid ids[5];
  size_t n = 1 + pick(p, 5);

  for (size_t i = 0; i < n; i++)
    ids[i] = rng_uuid(&p->rng);
  before = p->rng;
  for (int k = 0; k < 2; k++) {
    struct qp_context *c = NULL;

    p->rng = before;
    OK(qp_context_open(store_of(p, k), id, 0, &c, &failure));
    for (size_t i = 0; i < n; i++) {
      struct qp_message *m = random_message(p, &ids[i]);

      OK(qp_message_save(c, branch, m, NULL, &failure));
      qp_message_free(m);
    }
    qp_context_close(c);
  }
}

/* To one of the last messages of the branch. */
static void
rewind_or_fork(struct pair *p, const struct qp_uuid *id)
{
  bool fork = pick(p, 2) != 0;
  size_t at = pick(p, 4);
  char name[16];

  (void)snprintf(name, sizeof(name), "b%zu", pick(p, 4));
  for (int k = 0; k < 2; k++) {
    struct qp_context *c = NULL;
    struct qp_branch_info info;
    struct qp_uuid place;
    enum qp_rc rc;

    OK(qp_context_open(store_of(p, k), id, 0, &c, &failure));
    info = branch_of(c, "main");
    place = info.head;
    for (size_t i = 0; i < at && !qp_uuid_is_none(&place); i++) {
      struct qp_message *m = NULL;

      OK(qp_message_load(c, &place, &m, &failure));
      place = qp_message_parent(m);
      qp_message_free(m);
    }
    if (fork)
      rc = qp_branch_fork(c, name, "main", qp_uuid_is_none(&place) ? NULL : &place, &failure);
    else
      rc = qp_branch_rewind(c, "main", qp_uuid_is_none(&place) ? NULL : &place, &failure);
    assert_true(rc == QP_OK || rc == QP_EXISTS);
    qp_context_close(c);
  }
}

static void
update(struct pair *p, const struct qp_uuid *id)
{
  static const char *const patches[] = {
    "{\"title\":\"another one\"}",
    "{\"current_state\":\"Failed\"}",
    "{\"current_state\":\"Idle\"}",
    "{\"title\":\"Über 'quotes' \\\"\\\\ <b>\"}",
    "{\"compaction\":{\"summary\":\"What was said.\"}}",
  };
  const char *patch = patches[pick(p, COUNT(patches))];

  for (int k = 0; k < 2; k++) {
    struct qp_context *c = NULL;

    OK(qp_context_open(store_of(p, k), id, 0, &c, &failure));
    OK(qp_context_update(c, bytes_of(patch), &failure));
    qp_context_close(c);
  }
}

static void
drop_branch(struct pair *p, const struct qp_uuid *id)
{
  char name[16];

  (void)snprintf(name, sizeof(name), "b%zu", pick(p, 4));
  for (int k = 0; k < 2; k++) {
    struct qp_context *c = NULL;
    enum qp_rc rc;

    OK(qp_context_open(store_of(p, k), id, 0, &c, &failure));
    rc = qp_branch_delete(c, name, &failure);
    assert_true(rc == QP_OK || rc == QP_NOTFOUND);
    qp_context_close(c);
  }
}

static void
collect(struct pair *p, const struct qp_uuid *id)
{
  int64_t grace = pick(p, 2) ? INT64_MAX : 0;

  if (!has(p->f, NEEDS_GC))
    return;
  for (int k = 0; k < 2; k++)
    OK(qp_context_gc(store_of(p, k), id, grace, 0, NULL, &failure));
}

static void
change(struct pair *p)
{
  struct qp_uuid *id = &p->ids[pick(p, CONTEXTS)];
  size_t what = pick(p, 20);

  clock_ms += (int64_t)pick(p, 3) + (pick(p, 10) ? 0 : (int64_t)pick(p, 5) * 3600000);
  if (qp_uuid_is_none(id)) {
    create(p, id);
    return;
  }
  if (what == 0) {
    for (int k = 0; k < 2; k++)
      OK(qp_context_delete(store_of(p, k), id, &failure));
    memset(id, 0, sizeof(*id));
  } else if (what < 3) {
    update(p, id);
  } else if (what < 6) {
    rewind_or_fork(p, id);
  } else if (what == 6) {
    drop_branch(p, id);
  } else if (what == 7) {
    collect(p, id);
  } else {
    save(p, id, NULL);
  }
}

/* ---- lists ---- */

struct lines {
  char text[16384];
  size_t len;
};

static void
add_line(struct lines *l, const char *line)
{
  int n = snprintf(l->text + l->len, sizeof(l->text) - l->len, "%s\n", line);

  assert_true(n > 0 && (size_t)n < sizeof(l->text) - l->len);
  l->len += (size_t)n;
}

static enum qp_rc
add_row(void *arg, const struct qp_catalogue_row *row)
{
  char line[1024];
  char id[QP_UUID_TEXT];

  (void)snprintf(line, sizeof(line), "%s %lld %lld %llu %llu %llu %s/%s/%s/%s/%s/%s %d %d",
                 qp_uuid_text(&row->id, id), (long long)row->created_at, (long long)row->updated_at,
                 (unsigned long long)row->messages, (unsigned long long)row->bytes,
                 (unsigned long long)row->branches, row->title ? row->title : "-",
                 row->model_id ? row->model_id : "-", row->mode ? row->mode : "-",
                 qp_state_name(row->state), row->owner ? row->owner : "-",
                 row->summary ? row->summary : "-", row->needs_migration, row->rc);
  add_line(arg, line);
  return QP_OK;
}

static void
list(struct qp_store *store, const char *owner, uint32_t limit, struct lines *out)
{
  char *cursor = NULL;

  out->len = 0;
  out->text[0] = 0;
  do {
    struct qp_catalogue_query q = {
      .size = sizeof(q), .owner = owner, .cursor = cursor, .limit = limit
    };
    char *next = NULL;

    OK(qp_catalogue_list(store, &q, add_row, out, &next, &failure));
    add_line(out, next ? next : "end");
    qp_free(cursor);
    cursor = next;
  } while (cursor);
}

static void
compare_lists(struct pair *p)
{
  static const char *const owners[] = { NULL, "ann", "bob", "nobody" };
  static struct lines lines[2];

  for (size_t i = 0; i < COUNT(owners); i++) {
    uint32_t limit = 1 + (uint32_t)pick(p, CONTEXTS);
    uint64_t bytes[2] = { 0, 0 };

    for (int k = 0; k < 2; k++) {
      list(store_of(p, k), owners[i], limit, &lines[k]);
      if (owners[i])
        OK(qp_owner_bytes(store_of(p, k), owners[i], 0, &bytes[k], &failure));
    }
    assert_string_equal(lines[0].text, lines[1].text);
    assert_int_equal(bytes[0], bytes[1]);
  }
}

/* ---- reports ---- */

static enum qp_rc
add_size(void *arg, const struct qp_size_row *row)
{
  char line[1024];
  char id[QP_UUID_TEXT];
  int n = snprintf(
      line, sizeof(line),
      "%s %s/%s %lld %llu %llu %llu trash %llu %llu, %llu:", qp_uuid_text(&row->id, id),
      row->title ? row->title : "-", row->owner ? row->owner : "-", (long long)row->updated_at,
      (unsigned long long)row->messages, (unsigned long long)row->bytes,
      (unsigned long long)row->metadata_bytes, (unsigned long long)row->trashed_messages,
      (unsigned long long)row->trashed_bytes, (unsigned long long)row->branches);

  for (size_t i = 0; i < row->size_count; i++)
    n += snprintf(line + n, sizeof(line) - (size_t)n, " %s %llu %llu", row->sizes[i].name,
                  (unsigned long long)row->sizes[i].messages,
                  (unsigned long long)row->sizes[i].bytes);
  add_line(arg, line);
  return QP_OK;
}

static void
list_sizes(struct qp_store *store, const char *owner, uint32_t limit, bool trashed,
           struct lines *out)
{
  struct qp_size_total t;
  char line[256];
  char *cursor = NULL;

  out->len = 0;
  do {
    struct qp_size_query q = {
      .size = sizeof(q), .owner = owner, .cursor = cursor, .limit = limit, .trashed = trashed
    };
    char *next = NULL;

    OK(qp_size_list(store, &q, add_size, out, &next, &failure));
    add_line(out, next ? next : "end");
    qp_free(cursor);
    cursor = next;
  } while (cursor);
  OK(qp_size_sum(store, owner, &t, &failure));
  (void)snprintf(line, sizeof(line), "%llu %llu %llu %llu %llu %llu",
                 (unsigned long long)t.contexts, (unsigned long long)t.messages,
                 (unsigned long long)t.bytes, (unsigned long long)t.metadata_bytes,
                 (unsigned long long)t.trashed_messages, (unsigned long long)t.trashed_bytes);
  add_line(out, line);
}

static enum qp_rc
add_group(void *arg, const struct qp_usage_row *row)
{
  char line[1024];
  char id[QP_UUID_TEXT];

  (void)snprintf(line, sizeof(line), "%lld %s %s %s: %llu %llu %llu %llu %g %llu",
                 (long long)row->day, qp_uuid_text(&row->context, id),
                 row->title ? row->title : "-", row->model ? row->model : "-",
                 (unsigned long long)row->answers, (unsigned long long)row->input_tokens,
                 (unsigned long long)row->output_tokens, (unsigned long long)row->cached_tokens,
                 row->cost_usd, (unsigned long long)row->unpriced);
  add_line(arg, line);
  return QP_OK;
}

static void
compare_reports(struct pair *p)
{
  static const char *const owners[] = { NULL, "ann", "nobody" };
  static struct lines lines[2];

  for (size_t i = 0; i < COUNT(owners); i++) {
    uint32_t limit = 1 + (uint32_t)pick(p, CONTEXTS);
    bool trashed = pick(p, 2) != 0;

    for (int k = 0; k < 2; k++)
      list_sizes(store_of(p, k), owners[i], limit, trashed, &lines[k]);
    assert_string_equal(lines[0].text, lines[1].text);
    for (int group = QP_USAGE_DAY; group <= QP_USAGE_MODEL; group++) {
      struct qp_usage_query q = { .size = sizeof(q), .group = (enum qp_usage_group)group };

      q.owner = owners[i];
      q.utc_offset = (int32_t)pick(p, 2880) - 1440;
      q.limit = group == QP_USAGE_DAY ? 1 + (uint32_t)pick(p, 5) : 0;
      q.from = pick(p, 2) ? clock_ms - (int64_t)pick(p, 100) * 3600000 : 0;
      q.until = pick(p, 2) ? clock_ms - (int64_t)pick(p, 50) * 3600000 : 0;
      for (int k = 0; k < 2; k++) {
        lines[k].len = 0;
        add_line(&lines[k], "usage");
        OK(qp_usage_list(store_of(p, k), &q, add_group, &lines[k], &failure));
      }
      assert_string_equal(lines[0].text, lines[1].text);
    }
  }
}

/* ---- searches ---- */

struct found {
  struct qp_uuid message;
  double rank;
  char text[512]; /* everything else */
};

struct hits {
  struct found at[HITS_MAX];
  size_t count;
};

static enum qp_rc
add_hit(void *arg, const struct qp_search_hit *hit)
{
  struct hits *hits = arg;
  struct found *h = &hits->at[hits->count++];
  char id[QP_UUID_TEXT];

  assert_true(hits->count < HITS_MAX);
  h->message = hit->message;
  h->rank = hit->rank;
  (void)snprintf(h->text, sizeof(h->text), "%s %s %d %lld %s", qp_uuid_text(&hit->context, id),
                 hit->title ? hit->title : "-", hit->role, (long long)hit->created_at,
                 hit->snippet);
  return QP_OK;
}

/* All pages. */
static enum qp_rc
search(struct qp_store *store, const struct qp_search_query *query, struct hits *out)
{
  struct qp_search_query q = *query;
  char *cursor = NULL;
  enum qp_rc rc;

  out->count = 0;
  do {
    char *next = NULL;

    q.cursor = cursor;
    rc = qp_search(store, &q, add_hit, out, &next, &failure);
    qp_free(cursor);
    cursor = next;
  } while (cursor);
  assert_true(rc == QP_OK || (rc == QP_INVALID && !out->count)); /* no words in it */
  return rc;
}

static int
by_message(const void *a, const void *b)
{
  return memcmp(a, b, sizeof(struct qp_uuid));
}

static void
compare_hits(const struct qp_search_query *q, struct hits hits[2])
{
  bool ordered = !qp_uuid_is_none(&q->context);

  if (hits[0].count != hits[1].count)
    fail_msg("'%s' finds %zu and %zu messages", q->text, hits[0].count, hits[1].count);
  for (int k = 0; k < 2; k++) {
    for (size_t i = 1; i < hits[k].count && !ordered; i++)
      assert_true(hits[k].at[i - 1].rank <= hits[k].at[i].rank);
    if (!ordered)
      qsort(hits[k].at, hits[k].count, sizeof(hits[k].at[0]), by_message);
  }
  for (size_t i = 0; i < hits[0].count; i++) {
    const struct found *a = &hits[0].at[i];
    const struct found *b = &hits[1].at[i];

    expect_id(&a->message, &b->message);
    if (strcmp(a->text, b->text) != 0 || fabs(a->rank - b->rank) > 1e-12 * fabs(b->rank))
      fail_msg("'%s' finds\n%.17g %s and not\n%.17g %s", q->text, a->rank, a->text, b->rank,
               b->text);
  }
}

/* Words, beginnings, phrases, and without some. No phrase begins and ends with the same word: how
 * often it is in a text in which it overlaps itself is counted in two ways (docs/postgres.md). */
static void
make_query(struct pair *p, char *out, size_t size)
{
  static const char *const ends[] = { "fox", "trout", "brown", "2024" };
  size_t n = 1 + pick(p, 3);

  out[0] = 0;
  for (size_t i = 0; i < n; i++) {
    size_t len = strlen(out);
    size_t w = pick(p, COUNT(words));
    const char *minus = i && !pick(p, 4) ? "-" : "";
    const char *star = pick(p, 4) ? "" : "*";

    if (pick(p, 3))
      (void)snprintf(out + len, size - len, "%s%s%s ", minus, words[w], star);
    else
      (void)snprintf(out + len, size - len, "%s\"%s %s\"%s ", minus, words[w],
                     strcmp(words[w], ends[w % 4]) == 0 ? "fish" : ends[w % 4], star);
  }
}

static void
compare_searches(struct pair *p)
{
  static struct hits hits[2];
  char text[256];

  for (int i = 0; i < 12; i++) {
    struct qp_search_query q = { .size = sizeof(q), .text = text };

    make_query(p, text, sizeof(text));
    q.limit = 1 + (uint32_t)pick(p, 40);
    if (!pick(p, 3))
      q.owner = pick(p, 2) ? "ann" : "bob";
    else if (!pick(p, 3))
      q.context = p->ids[pick(p, CONTEXTS)];
    assert_int_equal(search(store_of(p, 0), &q, &hits[0]), search(store_of(p, 1), &q, &hits[1]));
    compare_hits(&q, hits);
  }
}

/* ---- the test ---- */

static void
run_seed(struct fixture *f, const struct qp__os *os, uint64_t seed, int steps)
{
  struct pair p = { .f = f, .rng = { seed } };
  struct qp_store_options options = { .size = sizeof(options) };

  OK(qp__store_open_driver(&qp__driver_memory, "", &options, os, &p.other, &failure));
  for (int step = 0; step < steps; step++) {
    change(&p);
    if (!pick(&p, 10)) {
      compare_lists(&p);
      compare_searches(&p);
      compare_reports(&p);
    }
    if (!pick(&p, 60) && f->driver->durable) {
      close_store(f);
      open_store(f);
    }
    if (!pick(&p, 100))
      OK(qp_store_reindex(f->store, NULL, NULL, &failure));
  }
  compare_lists(&p);
  compare_searches(&p);
  compare_reports(&p);
  for (size_t i = 0; i < CONTEXTS; i++)
    if (!qp_uuid_is_none(&p.ids[i]))
      OK(qp_context_delete(f->store, &p.ids[i], &failure));
  qp_store_close(p.other);
}

static void
test_every_driver_gives_the_same_answers(void **state)
{
  struct fixture *f = *state;
  uint64_t first = test_seed(1);
  uint64_t count = getenv("QUIPU_TEST_SEED") ? 1 : test_is_long() ? 40 : 1;
  struct qp__os os = qp__os_posix;

  os.now_ms = read_clock;
  close_store(f);
  f->os = &os;
  open_store(f);
  for (uint64_t seed = first; seed < first + count; seed++) {
    print_message("seed %llu\n", (unsigned long long)seed);
    run_seed(f, &os, seed, 300);
  }
  close_store(f);
  f->os = &qp__os_posix;
  open_store(f);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_driver_gives_the_same_answers),
  };

  return run_on_all("catalogue_same", tests, COUNT(tests));
}
