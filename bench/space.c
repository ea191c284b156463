/* space.c - how much space compression saves, and how long it takes to read one message of a
 * compressed context.
 *
 * The conversations are real: runs of an airline agent with tool calls and their results, in
 * OpenAI's form, in ../shared/data or in QUIPU_TEST_DATA. Each becomes a context. The bytes of the
 * files that contain messages are counted, before and after. */
#include "bench.h"

#include <errno.h>
#include <ftw.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RUNS "airline-agent-runs.jsonl"
#define LOADS 4000 /* a block */
#define BATCH 1000
#define SHORT_TEXT 30 /* makes a message of about 200 bytes */

/* ---- the runs of an agent as contexts ---- */

static const char *
text_of(const json_t *object, const char *key)
{
  const char *s = json_string_value(json_object_get(object, key));

  return s ? s : "";
}

static void
add_calls(struct qp_message *message, const json_t *calls)
{
  size_t i;
  json_t *call;

  json_array_foreach (calls, i, call) {
    const json_t *function = json_object_get(call, "function");
    struct qp_tool_call c = { .id = text_of(call, "id"),
                              .tool_name = text_of(function, "name"),
                              .arguments_json = text_of(function, "arguments"),
                              .approval = QP_APPROVAL_APPROVED };
    struct qp_err err;

    bench_ok(qp_message_add_tool_call(message, &c, &err), &err, "adding a tool call");
  }
}

static void
set_result(struct qp_message *message, const json_t *object)
{
  char *json = json_dumps(json_object_get(object, "content"), JSON_ENCODE_ANY);
  struct qp_tool_result r = { .request_id = text_of(object, "tool_call_id"), .result_json = json };
  struct qp_err err;

  if (!json)
    bench_die("out of memory");
  bench_ok(qp_message_set_tool_result(message, &r, &err), &err, "adding a result");
  free(json);
}

static void
save_one(struct qp_context *context, const json_t *object)
{
  const char *text = text_of(object, "content");
  struct qp_bytes bytes = { text, strlen(text) };
  struct qp_message *message;
  enum qp_role role;
  struct qp_err err;

  bench_ok(qp_role_parse(text_of(object, "role"), &role, &err), &err, RUNS);
  if (role != QP_ROLE_TOOL && bytes.len)
    bench_ok(qp_message_new_text(role, bytes, &message, &err), &err, "making a message");
  else
    bench_ok(qp_message_new(role, &message, &err), &err, "making a message");
  add_calls(message, json_object_get(object, "tool_calls"));
  if (role == QP_ROLE_TOOL)
    set_result(message, object);
  bench_ok(qp_message_save(context, NULL, message, NULL, &err), &err, "saving a message");
  qp_message_free(message);
}

static struct qp_uuid
save_run(struct qp_store *store, const char *line)
{
  json_t *run = json_loads(line, 0, NULL);
  struct qp_context *context = bench_context_create(store, "a run of an agent");
  struct qp_uuid id = qp_context_id(context);
  json_t *object;
  size_t i;

  if (!run)
    bench_die(RUNS " has a line that is not JSON");
  json_array_foreach (json_object_get(run, "messages"), i, object)
    save_one(context, object);
  json_decref(run);
  qp_context_close(context);
  return id;
}

/* ---- what it saves ---- */

static uint64_t counted; /* by nftw, which hands nothing on */

static int
count_file(const char *path, const struct stat *st, int type, struct FTW *place)
{
  const char *name = path + place->base;

  if (type == FTW_F && (strstr(path, "/messages/") || strstr(name, ".jsonl.zst") ||
                        strcmp(name, "messages.dict") == 0))
    counted += (uint64_t)st->st_size;
  return 0;
}

/* Bytes of all files with messages in them. */
static uint64_t
message_file_bytes(const struct bench *b, const char *store)
{
  char path[BENCH_PATH_MAX];

  bench_path(b, path, store);
  counted = 0;
  if (nftw(path, count_file, 32, FTW_PHYS))
    bench_die("%s: %s", path, strerror(errno));
  return counted;
}

static FILE *
open_runs(void)
{
  const char *dir = getenv("QUIPU_TEST_DATA");
  char path[BENCH_PATH_MAX];
  FILE *file;

  (void)snprintf(path, sizeof(path), "%s/" RUNS, dir && *dir ? dir : "../shared/data");
  file = fopen(path, "re");
  if (!file)
    bench_say("the row on compression is left out: %s: %s", path, strerror(errno));
  return file;
}

static void
compression_row(struct bench *b)
{
  struct qp_uuid ids[256];
  FILE *file = open_runs();
  struct qp_store *store;
  struct bench_row *row;
  struct qp_err err;
  char *line = NULL;
  size_t count = 0;
  size_t cap = 0;
  uint64_t before;

  if (!file)
    return;
  bench_say("storing and compressing " RUNS);
  store = bench_store_open(b, "space/runs");
  while (count < 256 && getline(&line, &cap, file) > 0)
    ids[count++] = save_run(store, line);
  (void)fclose(file);
  free(line);
  bench_settle(b, store);
  before = message_file_bytes(b, "space/runs");
  for (size_t i = 0; i < count; i++)
    bench_ok(qp_context_compress(store, &ids[i], 0, NULL, &err), &err, "compressing a context");
  bench_settle(b, store);
  row = bench_row_add(b, "compression of " RUNS " stored as contexts", BENCH_AT_LEAST, 70,
                      "bytes saved of the files with messages", NULL);
  row->unit = " %";
  bench_row_bytes(row,
                  100.0 - 100.0 * (double)message_file_bytes(b, "space/runs") / (double)before);
  qp_store_close(store);
}

/* ---- one message ---- */

/* The same messages twice: in files of their own, and compressed. */
struct twins {
  struct qp_store *store;
  struct qp_context *files, *packed;
  struct qp_uuid *file_ids, *packed_ids;
  uint64_t count;
  unsigned loads;
  uint64_t seed;
};

static enum qp_rc
list_id(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct qp_uuid *ids = arg;

  (void)json;
  ids[info->position] = info->id;
  return QP_OK;
}

/* Loads messages by chance; both sides the same ones. */
static double
load_some(struct twins *w, struct qp_context *context, const struct qp_uuid *ids)
{
  uint64_t seed = w->seed++ / 2;
  double start = bench_now();

  for (unsigned i = 0; i < w->loads; i++) {
    struct qp_message *message;
    struct qp_err err;

    bench_ok(qp_message_load(context, &ids[bench_random(&seed) % w->count], &message, &err), &err,
             "loading a message");
    qp_message_free(message);
  }
  return (bench_now() - start) / w->loads;
}

static double
load_packed(struct bench *b, void *arg)
{
  struct twins *w = arg;

  (void)b;
  return load_some(w, w->packed, w->packed_ids);
}

static double
load_files(struct bench *b, void *arg)
{
  struct twins *w = arg;

  (void)b;
  return load_some(w, w->files, w->file_ids);
}

/* A context of short messages. */
static struct qp_uuid
fill_short(struct bench *b, struct qp_store *store, uint64_t count)
{
  struct qp_message **messages = bench_alloc(BATCH * sizeof(*messages));
  struct qp_save_result *results = bench_alloc(BATCH * sizeof(*results));
  struct qp_context *context = bench_context_create(store, "short messages");
  struct qp_uuid id = qp_context_id(context);
  struct qp_err err;

  for (uint64_t i = 0; i < count; i += BATCH) {
    size_t n = count - i < BATCH ? (size_t)(count - i) : BATCH;

    for (size_t k = 0; k < n; k++) {
      struct qp_bytes text = { b->texts[(i + k) % BENCH_TEXTS], SHORT_TEXT };

      bench_ok(qp_message_new_text((i + k) % 2 ? QP_ROLE_ASSISTANT : QP_ROLE_USER, text,
                                   &messages[k], &err),
               &err, "making a message");
    }
    bench_ok(qp_message_save_batch(context, NULL, messages, n, results, &err), &err,
             "saving a batch");
    for (size_t k = 0; k < n; k++) {
      bench_ok(results[k].err.rc, &results[k].err, "saving a batch");
      qp_message_free(messages[k]);
    }
  }
  qp_context_close(context);
  free(messages);
  free(results);
  return id;
}

static struct qp_context *
open_listed(struct qp_store *store, const struct qp_uuid *id, uint64_t count, struct qp_uuid *ids)
{
  struct qp_context *context;
  struct qp_err err;

  bench_ok(qp_context_open(store, id, QP_LOAD_NONE, &context, &err), &err, "opening");
  bench_ok(qp_messages_index(context, NULL, 0, count, list_id, ids, &err), &err, "listing");
  return context;
}

static void
message_row(struct bench *b, const char *what, const char *name,
            struct qp_uuid (*fill)(struct bench *b, struct qp_store *store, uint64_t count))
{
  struct qp_store_options tiny = { .size = sizeof(tiny), .pool_bytes = 1 };
  struct bench_row *row = bench_row_add(b, what, BENCH_AT_MOST, 3, "compressed", "in its own file");
  struct twins w = { .count = b->big, .loads = b->quick ? LOADS / 10 : LOADS };
  struct qp_store *store = bench_store_open(b, name);
  struct qp_space_report report;
  struct qp_uuid in_files;
  struct qp_uuid packed;
  char path[BENCH_PATH_MAX];
  struct qp_err err;
  double start;

  bench_say("building and compressing %llu messages", (unsigned long long)w.count);
  in_files = fill(b, store, w.count);
  packed = fill(b, store, w.count);
  start = bench_now();
  bench_ok(qp_context_compress(store, &packed, 0, &report, &err), &err, "compressing");
  bench_say("compressed %.1f MB to %.1f MB in %.1f s", (double)report.bytes_before / 1e6,
            (double)report.bytes_after / 1e6, bench_now() - start);
  bench_settle(b, store);
  qp_store_close(store);

  w.file_ids = bench_alloc(w.count * sizeof(*w.file_ids));
  w.packed_ids = bench_alloc(w.count * sizeof(*w.packed_ids));
  bench_path(b, path, name);
  bench_ok(qp_store_open(path, &tiny, &w.store, &err), &err, "opening a store");
  w.files = open_listed(w.store, &in_files, w.count, w.file_ids);
  w.packed = open_listed(w.store, &packed, w.count, w.packed_ids);
  (void)load_packed(b, &w);
  (void)load_files(b, &w);
  bench_pair(b, row, load_packed, load_files, &w);
  qp_context_close(w.files);
  qp_context_close(w.packed);
  qp_store_close(w.store);
  free(w.file_ids);
  free(w.packed_ids);
}

void
bench_space_rows(struct bench *b)
{
  compression_row(b);
  message_row(b, "one message of 1.15 kB out of 100,000, compressed", "space/long",
              bench_context_fill);
  message_row(b, "one message of 200 B out of 100,000, compressed", "space/short", fill_short);
}
