/* test_sized.c - structs that begin with their size (quipu/base.h): a program that was compiled
 * with an older header passes a shorter struct, one with a newer header a longer one.
 *
 * Each struct is passed at the end of a page that nobody may read behind: a library that reads more
 * than `size` bytes crashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
/* cmocka needs those above */
#include <cmocka.h>

#include "quipu.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define LONGER 64 /* bytes of members that this library does not know */

struct world {
  struct qp_store *store;
  struct qp_context *context;
  struct qp_engine *engine;
  struct qp_uuid id;
  char *page; /* readable, … */
  size_t page_size;
};

static struct world w;

/* ---- the calls: each may be made again and again ---- */

static enum qp_rc
open_store(const void *options)
{
  struct qp_store *store = NULL;
  enum qp_rc rc = qp_store_open("memory:", options, &store, NULL);

  qp_store_close(store);
  return rc;
}

static enum qp_rc
create_context(const void *spec)
{
  struct qp_context *context = NULL;
  struct qp_uuid id;
  enum qp_rc rc = qp_context_create(w.store, spec, &context, NULL);

  if (rc)
    return rc;
  id = qp_context_id(context);
  qp_context_close(context);
  return qp_context_delete(w.store, &id, NULL);
}

static enum qp_rc
create_session(const void *spec)
{
  char *id = NULL;
  enum qp_rc rc = qp_session_create(w.store, spec, &id, NULL);

  if (!rc)
    rc = qp_session_delete(w.store, id, NULL);
  qp_free(id);
  return rc;
}

static enum qp_rc
commit(const void *change)
{
  return qp_context_commit(w.context, change, NULL, NULL, NULL, NULL);
}

static enum qp_rc
back_up(const void *options)
{
  struct qp_backup_report report;

  return qp_store_backup(w.store, "/nowhere", options, &report, NULL);
}

static enum qp_rc
restore(const void *options)
{
  struct qp_backup_report report;

  return qp_store_restore("/nowhere/backup", "/nowhere", options, &report, NULL);
}

static enum qp_rc
see_row(void *arg, const struct qp_catalogue_row *row)
{
  (void)arg;
  (void)row;
  return QP_OK;
}

static enum qp_rc
list(const void *query)
{
  return qp_catalogue_list(w.store, query, see_row, NULL, NULL, NULL);
}

static enum qp_rc
see_hit(void *arg, const struct qp_search_hit *hit)
{
  (void)arg;
  (void)hit;
  return QP_OK;
}

static enum qp_rc
search(const void *query)
{
  return qp_search(w.store, query, see_hit, NULL, NULL, NULL);
}

static enum qp_rc
see_size(void *arg, const struct qp_size_row *row)
{
  (void)arg;
  (void)row;
  return QP_OK;
}

static enum qp_rc
list_sizes(const void *query)
{
  return qp_size_list(w.store, query, see_size, NULL, NULL, NULL);
}

static enum qp_rc
see_usage(void *arg, const struct qp_usage_row *row)
{
  (void)arg;
  (void)row;
  return QP_OK;
}

static enum qp_rc
list_usage(const void *query)
{
  return qp_usage_list(w.store, query, see_usage, NULL, NULL);
}

static enum qp_rc
copy_store(const void *options)
{
  struct qp_copy_report report;
  struct qp_store *to = NULL;
  enum qp_rc rc = qp_store_open("memory:", NULL, &to, NULL);

  if (!rc)
    rc = qp_store_copy(w.store, to, options, &report, NULL);
  qp_store_close(to);
  return rc;
}

static enum qp_rc
act(const void *action)
{
  return qp_engine_act(w.engine, action, NULL, NULL, NULL);
}

static enum qp_rc
add_to_queue(const void *spec)
{
  return qp_queue_add(w.engine, spec, NULL, NULL, NULL);
}

static enum qp_rc
start_engine(const void *options)
{
  struct qp_engine *engine = NULL;
  struct qp_store *store = NULL;
  enum qp_rc rc = qp_store_open("memory:", NULL, &store, NULL);

  if (!rc)
    rc = qp_engine_start(store, options, &engine, NULL);
  qp_engine_stop(engine);
  qp_store_close(store);
  return rc;
}

static enum qp_rc
start_with_provider(const void *provider)
{
  struct qp_engine_options options = QP_INIT(struct qp_engine_options);

  options.providers = provider;
  options.provider_count = 1;
  return start_engine(&options);
}

static void
end_at_once(void *arg, const char *arguments, struct qp_tool_task *task)
{
  (void)arg;
  (void)arguments;
  (void)qp_tool_task_end(task, "null", false, NULL);
}

static enum qp_rc
add_tool(const void *spec)
{
  struct qp_engine_options options = QP_INIT(struct qp_engine_options);
  struct qp_engine *engine = NULL;
  struct qp_store *store = NULL;
  enum qp_rc rc = qp_store_open("memory:", NULL, &store, NULL);

  if (!rc)
    rc = qp_engine_start(store, &options, &engine, NULL);
  if (!rc)
    rc = qp_engine_add_tool(engine, spec, NULL);
  qp_engine_stop(engine);
  qp_store_close(store);
  return rc;
}

/* ---- the table ---- */

static const struct qp_store_options store_options = { .size = sizeof(store_options),
                                                       .flags = QP_STORE_NO_THREAD,
                                                       .event_bytes = 1 << 16 };
static const struct qp_context_spec context_spec = { .size = sizeof(context_spec),
                                                     .title = "t",
                                                     .owner = "somebody" };
static const struct qp_session_spec session_spec = { .size = sizeof(session_spec),
                                                     .id = "s",
                                                     .chunk_size = 7 };
static const struct qp_change change = { .size = sizeof(change),
                                         .metadata = { "{\"title\":\"x\"}", 13 } };
static const struct qp_backup_options backup_options = { .size = sizeof(backup_options),
                                                         .keep = 1 };
static const struct qp_catalogue_query list_query = { .size = sizeof(list_query), .limit = 2 };
static const struct qp_search_query search_query = { .size = sizeof(search_query),
                                                     .text = "word",
                                                     .limit = 2 };
static const struct qp_size_query size_query = { .size = sizeof(size_query), .limit = 2 };
static const struct qp_usage_query usage_query = { .size = sizeof(usage_query), .limit = 2 };
static const struct qp_copy_options copy_options = { .size = sizeof(copy_options), .flags = 0 };
static const struct qp_action action = { .size = sizeof(action), .kind = QP_ACTION_CANCEL };
static const struct qp_queue_spec queue_spec = { .size = sizeof(queue_spec), .text = { "hi", 2 } };
static const struct qp_engine_options engine_options = { .size = sizeof(engine_options),
                                                         .flags = QP_ENGINE_QUICK_START,
                                                         .limits = { .rounds = 3 } };
static const struct qp_tool_spec tool_spec = { .size = sizeof(tool_spec),
                                               .name = "nothing",
                                               .call = end_at_once };
static const struct qp_provider_spec provider_spec = { .size = sizeof(provider_spec),
                                                       .name = "mine",
                                                       .protocol = "demo" };

static const struct {
  const char *name;
  const void *value; /* that works */
  size_t size;
  enum qp_rc (*call)(const void *value);
} rows[] = {
  { "qp_store_options", &store_options, sizeof(store_options), open_store },
  { "qp_context_spec", &context_spec, sizeof(context_spec), create_context },
  { "qp_session_spec", &session_spec, sizeof(session_spec), create_session },
  { "qp_change", &change, sizeof(change), commit },
  { "qp_backup_options", &backup_options, sizeof(backup_options), back_up },
  { "qp_backup_options", &backup_options, sizeof(backup_options), restore },
  { "qp_catalogue_query", &list_query, sizeof(list_query), list },
  { "qp_search_query", &search_query, sizeof(search_query), search },
  { "qp_size_query", &size_query, sizeof(size_query), list_sizes },
  { "qp_usage_query", &usage_query, sizeof(usage_query), list_usage },
  { "qp_copy_options", &copy_options, sizeof(copy_options), copy_store },
  { "qp_action", &action, sizeof(action), act },
  { "qp_tool_spec", &tool_spec, sizeof(tool_spec), add_tool },
  { "qp_queue_spec", &queue_spec, sizeof(queue_spec), add_to_queue },
  { "qp_engine_options", &engine_options, sizeof(engine_options), start_engine },
  { "qp_provider_spec", &provider_spec, sizeof(provider_spec), start_with_provider },
};

/* ---- the world ---- */

static int
set_up(void **state)
{
  struct qp_context_spec spec = QP_INIT(struct qp_context_spec);

  (void)state;
  w.page_size = (size_t)sysconf(_SC_PAGESIZE);
  w.page = mmap(NULL, 2 * w.page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (w.page == MAP_FAILED || mprotect(w.page + w.page_size, w.page_size, PROT_NONE))
    return 1;
  if (qp_store_open("memory:", NULL, &w.store, NULL) ||
      qp_context_create(w.store, &spec, &w.context, NULL) ||
      qp_engine_start(w.store, NULL, &w.engine, NULL))
    return 1;
  w.id = qp_context_id(w.context);
  return 0;
}

static int
tear_down(void **state)
{
  (void)state;
  qp_engine_stop(w.engine);
  qp_context_close(w.context);
  qp_store_close(w.store);
  return munmap(w.page, 2 * w.page_size);
}

/* The first `size` bytes of a struct, with that as its `size`, before the end of the page. */
static void *
at_the_edge(const void *value, size_t size)
{
  char *place = w.page + w.page_size - size;

  memcpy(place, value, size);
  memcpy(place, &size, sizeof(size));
  return place;
}

/* ---- tests ---- */

/* Members that are missing count as zero, which is their default. */
static void
test_a_shorter_struct_counts_as_one_with_zeros(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++)
    for (size_t size = sizeof(size_t); size <= rows[i].size; size += sizeof(void *)) {
      char whole[512] = { 0 };
      enum qp_rc want;
      enum qp_rc got;

      assert_true(rows[i].size <= sizeof(whole));
      memcpy(whole, rows[i].value, size);
      memcpy(whole, &rows[i].size, sizeof(size_t));
      want = rows[i].call(whole);
      got = rows[i].call(at_the_edge(rows[i].value, size));
      if (got != want || got == QP_MISUSE)
        fail_msg("%s of %zu bytes: %s, and with zeros %s", rows[i].name, size, qp_rc_name(got),
                 qp_rc_name(want));
    }
}

static void
test_a_longer_struct_works_while_it_asks_for_nothing_new(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    char longer[512 + LONGER] = { 0 };
    size_t size = rows[i].size + LONGER;
    enum qp_rc want = rows[i].call(rows[i].value);

    assert_int_not_equal(want, QP_MISUSE);
    memcpy(longer, rows[i].value, rows[i].size);
    assert_int_equal(rows[i].call(at_the_edge(longer, size)), want);
    longer[size - 1] = 1;
    assert_int_equal(rows[i].call(at_the_edge(longer, size)), QP_MISUSE);
  }
}

static void
test_a_struct_without_its_size_is_refused(void **state)
{
  static const char zeros[512];

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++)
    assert_int_equal(rows[i].call(zeros), QP_MISUSE);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_shorter_struct_counts_as_one_with_zeros),
    cmocka_unit_test(test_a_longer_struct_works_while_it_asks_for_nothing_new),
    cmocka_unit_test(test_a_struct_without_its_size_is_refused),
  };

  return cmocka_run_group_tests(tests, set_up, tear_down);
}
