/* store_test.c - see store_test.h. */
#include "store_test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc_fault.h"
#include "map_driver.h"
#include "os_gate.h"
#include "pg_server.h"
#include "store/store_int.h"

_Thread_local struct qp_err failure;

static const struct driver drivers[] = {
  { "map", &map_driver, false, 0 },
  { "memory", &qp__driver_memory, false, 0 },
  { "file", &qp__driver_files, true, 0 },
  { "file without threads", &qp__driver_files, true, QP_STORE_NO_THREAD },
#ifdef QP_POSTGRES
  { "postgres", &qp__driver_postgres, true, 0 },
#endif
};
#define FILES_ALONE (&drivers[3])

static bool
is_postgres(const struct driver *d)
{
  return strcmp(d->name, "postgres") == 0;
}

/* For enum needs: the pointer of the driver that offers it. */
static const struct {
  unsigned what;
  const char *name;
  size_t at;
} capabilities[] = {
  { NEEDS_DIRECTORY, "directory", offsetof(struct qp__driver, directory) },
  { NEEDS_BUILD, "build", offsetof(struct qp__driver, build) },
  { NEEDS_PACK, "pack", offsetof(struct qp__driver, pack) },
  { NEEDS_GC, "gc", offsetof(struct qp__driver, gc) },
  { NEEDS_OLD, "old", offsetof(struct qp__driver, old) },
  { NEEDS_ERASE, "erase", offsetof(struct qp__driver, erase) },
  { NEEDS_BACKUP, "backup", offsetof(struct qp__driver, backup) },
  { NEEDS_PROCESS, "process", offsetof(struct qp__driver, process) },
};

/* The name of a capability that the driver lacks, or NULL. */
static const char *
lacks(const struct driver *d, unsigned what)
{
  if (is_postgres(d) && pg_server_missing())
    return pg_server_missing();
  if (what & NEEDS_REOPEN && !d->durable)
    return "reopen";
  for (size_t i = 0; i < COUNT(capabilities); i++) {
    const void *p;

    memcpy(&p, (const char *)d->driver + capabilities[i].at, sizeof(p));
    if (what & capabilities[i].what && !p)
      return capabilities[i].name;
  }
  return NULL;
}

bool
has(const struct fixture *f, unsigned what)
{
  return !lacks(f->driver, what);
}

/* ---- text that grows ---- */

struct text {
  char *data;
  size_t len;
};

static void add_text(struct text *t, const char *fmt, ...) QP_PRINTF(2, 3);

static void
add_text(struct text *t, const char *fmt, ...)
{
  char line[2 * PATH_LEN];
  va_list args;
  int n;

  va_start(args, fmt);
  n = vsnprintf(line, sizeof(line), fmt, args);
  va_end(args);
  assert_true(n >= 0 && (size_t)n < sizeof(line));
  t->data = realloc(t->data, t->len + (size_t)n + 1);
  assert_non_null(t->data);
  memcpy(t->data + t->len, line, (size_t)n + 1);
  t->len += (size_t)n;
}

/* ---- expecting ---- */

void
clear_failure(void)
{
  failure.rc = QP_OK;
  failure.msg[0] = 0;
}

void
expect_rc(enum qp_rc got, enum qp_rc want, const char *call, const char *file, int line)
{
  if (got != want) {
    print_error("%s:%d: %s answered %s (%s) instead of %s\n", file, line, call, qp_rc_name(got),
                failure.msg, qp_rc_name(want));
    _fail(file, line);
  }
  if (got && (failure.rc != got || !failure.msg[0] || strchr(failure.msg, '\n'))) {
    print_error("%s:%d: %s answered %s without a sentence of its own: %s '%s'\n", file, line, call,
                qp_rc_name(got), qp_rc_name(failure.rc), failure.msg);
    _fail(file, line);
  }
}

void
expect_sentence(const char *part)
{
  if (!strstr(failure.msg, part))
    fail_msg("'%s' does not say '%s'", failure.msg, part);
}

void
expect_id(const struct qp_uuid *got, const struct qp_uuid *want)
{
  char a[QP_UUID_TEXT];
  char b[QP_UUID_TEXT];

  assert_string_equal(qp_uuid_text(got, a), qp_uuid_text(want, b));
}

/* ---- the fixture ---- */

static void
keep_line(void *arg, enum qp_log_level level, const char *feature, const char *text)
{
  struct fixture *f = arg;
  size_t n = strlen(feature) + strlen(text) + 3;
  char *log;

  if (level > QP_LOG_WARN)
    return;
  (void)pthread_mutex_lock(&f->lock);
  log = realloc(f->log, f->log_len + n + 1);
  if (log) {
    f->log = log;
    (void)snprintf(log + f->log_len, n + 1, "%s: %s\n", feature, text);
    f->log_len += n;
    f->warnings++;
  }
  (void)pthread_mutex_unlock(&f->lock);
}

static int
make_fixture(void **state)
{
  const char *tmp = getenv("TMPDIR");
  struct fixture *f = calloc(1, sizeof(*f));

  assert_non_null(f);
  f->driver = *state;
  (void)pthread_mutex_init(&f->lock, NULL);
  (void)snprintf(f->dir, sizeof(f->dir), "%s/quipu-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(f->dir));
  (void)snprintf(f->data, sizeof(f->data), "%.900s/data", f->dir);
  make_directory(pathf("%s/outside", f->dir));
  write_text(pathf("%s/outside/note.txt", f->dir), "nothing here is quipu's\n");
  write_text(pathf("%s/outside/message.json", f->dir), "{\"role\":\"user\",\"text\":\"secret\"}\n");
  make_directory(pathf("%s/outside/empty", f->dir));
  f->outside = take_picture(pathf("%s/outside", f->dir));
  f->os = &qp__os_posix;
  f->options.size = sizeof(f->options);
  f->options.flags = f->driver->flags;
  f->options.workers = 3;
  f->options.journal_bytes = (size_t)64 << 10;
  f->options.log = keep_line;
  f->options.log_arg = f;
  if (is_postgres(f->driver)) {
    (void)snprintf(f->data, sizeof(f->data), "%s", pg_database());
    pg_empty();
  }
  open_store(f);
  *state = f;
  return 0;
}

static int
end_fixture(void **state)
{
  struct fixture *f = *state;

  close_store(f);
  expect_outside_untouched(f);
  remove_tree(f->dir);
  qp__os_fault_free(f->fault);
  (void)pthread_mutex_destroy(&f->lock);
  free(f->outside);
  free(f->log);
  free(f);
  return 0;
}

/* Runs instead of a test that needs more than the driver offers; its state is the name of the
 * capability. */
static void
skip_test(void **state)
{
  print_message("needs: %s\n", (const char *)*state);
  skip();
}

static int
run_on(const char *suite, const struct CMUnitTest *tests, size_t n, const struct driver *first,
       size_t count)
{
  struct CMUnitTest *all = calloc(n * count, sizeof(*all));
  int failed;

  alloc_fault_init();
  if (!all)
    return 1;
  for (size_t i = 0; i < n * count; i++) {
    const struct driver *d = &first[i % count];
    size_t len = strlen(tests[i / count].name) + strlen(d->name) + 4;
    const char *missing;
    char *name = malloc(len);

    if (!name)
      return 1;
    (void)snprintf(name, len, "%s [%s]", tests[i / count].name, d->name);
    missing = lacks(d, (unsigned)(uintptr_t)tests[i / count].initial_state);
    all[i].name = name;
    all[i].test_func = missing ? skip_test : tests[i / count].test_func;
    all[i].setup_func = missing ? NULL : make_fixture;
    all[i].teardown_func = missing ? NULL : end_fixture;
    all[i].initial_state = missing ? (void *)missing : (void *)d;
  }
  failed = _cmocka_run_group_tests(suite, all, n * count, NULL, NULL);
  for (size_t i = 0; i < n * count; i++)
    free((void *)all[i].name);
  free(all);
  return failed;
}

int
run_on_all(const char *suite, const struct CMUnitTest *tests, size_t n)
{
  return run_on(suite, tests, n, drivers, COUNT(drivers));
}

int
run_on_files(const char *suite, const struct CMUnitTest *tests, size_t n)
{
  return run_on(suite, tests, n, FILES_ALONE, 1);
}

void
open_store(struct fixture *f)
{
  const char *where = f->driver->durable ? f->data : "";

  assert_null(f->store);
  OK(qp__store_open_driver(f->driver->driver, where, &f->options, f->os, &f->store, &failure));
}

void
close_store(struct fixture *f)
{
  qp_store_close(f->store);
  f->store = NULL;
}

void
reload(struct fixture *f)
{
  struct findings found;

  if (f->driver->durable) {
    close_store(f);
    open_store(f);
  } else { /* a repair claims every context, and releases it afterwards */
    check_store(f, QP_CHECK_REPAIR, &found);
    assert_int_equal(found.count, 0);
    assert_int_equal(stats(f).contexts_open, 0);
  }
}

void
watch_calls(struct fixture *f)
{
  close_store(f);
  if (!f->fault) {
    f->fault = qp__os_fault_new(&qp__os_posix);
    assert_non_null(f->fault);
  }
  f->os = os_gate_over(qp__os_fault_os(f->fault));
  open_store(f);
  count_calls_to(f, NULL);
}

void
count_calls_to(struct fixture *f, const char *part)
{
  assert_int_equal(qp__os_fault_filter(f->fault, part), 0);
  qp__os_fault_reset(f->fault);
  os_gate_reset();
}

uint64_t
calls_of(struct fixture *f, enum qp__os_slot slot)
{
  return slot == QP__SLOT__MAX ? qp__os_fault_calls(f->fault) : qp__os_fault_count(f->fault, slot);
}

void
forget_warnings(struct fixture *f)
{
  (void)pthread_mutex_lock(&f->lock);
  f->warnings = 0;
  f->log_len = 0;
  if (f->log)
    f->log[0] = 0;
  (void)pthread_mutex_unlock(&f->lock);
}

void
expect_warning(struct fixture *f, const char *part)
{
  if (!f->warnings || !strstr(f->log, part))
    fail_msg("no warning says '%s': %s", part, f->log ? f->log : "no warning");
}

void
expect_outside_untouched(struct fixture *f)
{
  char *now = take_picture(pathf("%s/outside", f->dir));
  DIR *dir = opendir(f->dir);
  const struct dirent *e;

  expect_difference(f->outside, now, "");
  free(now);
  assert_non_null(dir);
  while ((e = readdir(dir)))
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
        strcmp(e->d_name, "data") != 0 && strcmp(e->d_name, "outside") != 0 &&
        strncmp(e->d_name, "copy", 4) != 0)
      fail_msg("beside the data directory there is '%s' now", e->d_name);
  (void)closedir(dir);
}

/* ---- short forms ---- */

struct qp_context *
new_context(struct fixture *f)
{
  struct qp_context *c = NULL;

  OK(qp_context_create(f->store, NULL, &c, &failure));
  return c;
}

struct qp_context *
open_context(struct fixture *f, const struct qp_uuid *id)
{
  struct qp_context *c = NULL;

  OK(qp_context_open(f->store, id, QP_LOAD_NONE, &c, &failure));
  return c;
}

struct qp_store_stats
stats(struct fixture *f)
{
  struct qp_store_stats s;

  qp_store_stats_get(f->store, &s);
  return s;
}

struct qp_bytes
bytes_of(const char *text)
{
  struct qp_bytes b = { text, strlen(text) };

  return b;
}

struct qp_uuid
id_of(const char *text)
{
  struct qp_uuid id;

  OK(qp_uuid_parse(text, &id, &failure));
  return id;
}

struct qp_message *
new_text(enum qp_role role, const char *text)
{
  struct qp_message *m = NULL;

  OK(qp_message_new_text(role, bytes_of(text), &m, &failure));
  return m;
}

struct qp_uuid
say(struct qp_context *c, const char *branch, const char *text)
{
  struct qp_message *m = new_text(QP_ROLE_USER, text);
  struct qp_uuid id;

  OK(qp_message_save(c, branch, m, &id, &failure));
  qp_message_free(m);
  return id;
}

void
say_many(struct qp_context *c, const char *branch, const char *word, size_t n, struct qp_uuid *ids)
{
  struct qp_message **list = calloc(n, sizeof(*list));
  struct qp_save_result *results = calloc(n, sizeof(*results));
  char text[64];

  assert_true(list && results);
  for (size_t i = 0; i < n; i++) {
    (void)snprintf(text, sizeof(text), "%s%zu", word, i);
    list[i] = new_text(QP_ROLE_USER, text);
  }
  OK(qp_message_save_batch(c, branch, list, n, results, &failure));
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(results[i].err.rc, QP_OK);
    if (ids)
      ids[i] = results[i].id;
    qp_message_free(list[i]);
  }
  free(list);
  free(results);
}

static enum qp_rc
add_message_text(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct text *t = arg;
  struct qp_message *m = NULL;
  struct qp_part part;

  if (!json.len) {
    assert_int_equal(info->status, QP_STATUS_UNAVAILABLE);
    add_text(t, "%s?", t->len ? " " : "");
    return QP_OK;
  }
  OK(qp_message_parse(json, &m, &failure));
  part = qp_message_part(m, 0);
  add_text(t, "%s%.*s", t->len ? " " : "", (int)part.text.len, part.text.data);
  qp_message_free(m);
  return QP_OK;
}

void
expect_texts(struct qp_context *c, const char *branch, const char *want)
{
  struct text t = { NULL, 0 };

  add_text(&t, "%s", "");
  OK(qp_messages_range(c, branch, 0, UINT64_MAX, add_message_text, &t, &failure));
  assert_string_equal(t.data, want);
  free(t.data);
}

static enum qp_rc
copy_stored(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  char **out = arg;

  (void)info;
  *out = strndup(json.data, json.len);
  assert_non_null(*out);
  return QP_OK;
}

char *
stored(struct qp_context *c, const struct qp_uuid *id)
{
  struct qp_message_info info;
  char *out = NULL;

  OK(qp_branch_fork(c, "helper", NULL, id, &failure));
  OK(qp_message_find(c, id, &info, &failure));
  OK(qp_messages_last(c, "helper", 1, copy_stored, &out, &failure));
  OK(qp_branch_delete(c, "helper", &failure));
  assert_int_equal(strlen(out), info.size);
  return out;
}

json_t *
metadata_of(struct qp_context *c)
{
  char *text = NULL;
  size_t len = 0;
  json_t *meta;

  OK(qp_context_metadata(c, &text, &len, &failure));
  assert_int_equal(strlen(text), len);
  meta = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
  assert_non_null(meta);
  qp_free(text);
  return meta;
}

struct wanted_branch {
  const char *name;
  struct qp_branch_info info;
  bool found;
};

static enum qp_rc
take_branch(void *arg, const struct qp_branch_info *branch)
{
  static char prompt[200];
  struct wanted_branch *w = arg;

  if (w->name ? strcmp(w->name, branch->name) != 0 : !branch->active)
    return QP_OK;
  w->info = *branch;
  w->info.name = NULL;
  if (branch->system_prompt_id) {
    (void)snprintf(prompt, sizeof(prompt), "%s", branch->system_prompt_id);
    w->info.system_prompt_id = prompt;
  }
  w->found = true;
  return QP_OK;
}

struct qp_branch_info
branch_of(struct qp_context *c, const char *name)
{
  struct wanted_branch w = { .name = name };

  OK(qp_branch_list(c, take_branch, &w, &failure));
  if (!w.found)
    fail_msg("branch '%s'", name);
  return w.info;
}

static enum qp_rc
add_branch_name(void *arg, const struct qp_branch_info *branch)
{
  struct text *t = arg;

  add_text(t, "%s%s%s", t->len ? " " : "", branch->name, branch->active ? "*" : "");
  return QP_OK;
}

void
expect_branches(struct qp_context *c, const char *want)
{
  struct text t = { NULL, 0 };

  OK(qp_branch_list(c, add_branch_name, &t, &failure));
  assert_string_equal(t.data, want);
  free(t.data);
}

void
set_prompt(struct fixture *f, const char *id, const char *content)
{
  struct qp_prompt p = { .id = id, .content = content };

  OK(qp_prompt_create(f->store, &p, NULL, &failure));
}

/* ---- findings ---- */

static void
keep_finding(void *arg, const struct qp_problem *problem)
{
  struct findings *found = arg;

  assert_true(found->count < FINDINGS_MAX);
  found->list[found->count].kind = problem->kind;
  found->list[found->count].context = problem->context;
  found->list[found->count].repaired = problem->repaired;
  found->list[found->count].harmless = problem->harmless;
  (void)snprintf(found->list[found->count].path, PATH_LEN, "%s", problem->path);
  (void)snprintf(found->list[found->count].detail, sizeof(found->list[0].detail), "%s",
                 problem->detail);
  found->count++;
}

void
check_store(struct fixture *f, unsigned flags, struct findings *out)
{
  size_t problems = 0;
  size_t repaired = 0;

  memset(out, 0, sizeof(*out));
  OK(qp_store_check(f->store, NULL, flags, keep_finding, out, &out->summary, &failure));
  for (size_t i = 0; i < out->count; i++) {
    const char *path = out->list[i].path;
    char id[QP_UUID_TEXT];
    const char *prefix = pathf("contexts/%s", qp_uuid_text(&out->list[i].context, id));

    if (!qp_uuid_is_none(&out->list[i].context) && strncmp(path, prefix, strlen(prefix)) != 0)
      fail_msg("'%s' is not below %s", path, prefix);
    if (!path[0] || path[0] == '/' || strstr(path, f->dir))
      fail_msg("'%s' is not relative to the data directory", path);
    if (!out->list[i].detail[0] || strchr(out->list[i].detail, '\n'))
      fail_msg("'%s' is no sentence", out->list[i].detail);
    assert_false(out->list[i].repaired && !(flags & QP_CHECK_REPAIR));
    problems += !out->list[i].harmless;
    repaired += !out->list[i].harmless && out->list[i].repaired;
  }
  assert_int_equal(out->summary.problems, problems);
  assert_int_equal(out->summary.repaired, repaired);
}

static void
print_findings(const struct findings *found)
{
  for (size_t i = 0; i < found->count; i++)
    print_error("  %s%s %s: %s%s\n", qp_problem_name(found->list[i].kind),
                found->list[i].harmless ? " (harmless)" : "", found->list[i].path,
                found->list[i].detail, found->list[i].repaired ? " (repaired)" : "");
}

size_t
expect_finding(const struct findings *found, enum qp_problem_kind kind, const char *path_end)
{
  size_t seen = 0;
  size_t at = 0;

  for (size_t i = 0; i < found->count; i++) {
    size_t n = strlen(found->list[i].path);
    size_t end = strlen(path_end);

    if (found->list[i].kind != kind || n < end ||
        strcmp(found->list[i].path + n - end, path_end) != 0)
      continue;
    seen++;
    at = i;
  }
  if (seen != 1) {
    print_findings(found);
    fail_msg("%zu findings %s …%s", seen, qp_problem_name(kind), path_end);
  }
  return at;
}

void
expect_no_findings(struct fixture *f)
{
  struct findings found;

  check_store(f, 0, &found);
  if (found.count) {
    print_findings(&found);
    fail_msg("%zu findings", found.count);
  }
}

void
expect_sound(struct fixture *f)
{
  struct findings found;

  check_store(f, 0, &found);
  if (found.summary.problems) {
    print_findings(&found);
    fail_msg("%zu problems", (size_t)found.summary.problems);
  }
}
