/* migrate.c - the migration of an old context, from the first byte of its file to the commit, with
 * everything compared and durable, against a bare loop that writes the same message files and
 * leaves it to the system when they reach the disk. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FULL 20000
#define QUICK 2000

struct migrate {
  struct qp_store *store;
  unsigned count; /* of messages */
  unsigned done;  /* contexts so far */
  unsigned dirs;
  struct qp_bytes *files; /* what the migration wrote, message by message */
  size_t file_count;
};

static void
message_id(char out[QP_UUID_TEXT], unsigned context, unsigned i)
{
  (void)snprintf(out, QP_UUID_TEXT, "%08x-0000-4000-8000-%012x", context + 1, i + 1);
}

static void
context_id(char out[QP_UUID_TEXT], unsigned context)
{
  (void)snprintf(out, QP_UUID_TEXT, "%08x-0000-4000-9000-000000000000", context + 1);
}

/* A node of the pool as the old program writes it. */
static void
put_node(FILE *f, const struct bench *b, unsigned context, unsigned i)
{
  json_t *text = json_string(b->texts[i % BENCH_TEXTS]);
  char *quoted = json_dumps(text, JSON_ENCODE_ANY);
  char id[QP_UUID_TEXT];
  char parent[QP_UUID_TEXT + 2] = "null";

  message_id(id, context, i);
  if (i) {
    parent[0] = '"';
    message_id(parent + 1, context, i - 1);
    parent[37] = '"';
    parent[38] = 0;
  }
  fprintf(
      f,
      "%s\n    \"%s\": {\n      \"id\": \"%s\",\n      \"message\": {\n        \"role\": \"%s\",\n"
      "        \"content\": [\n          {\n            \"type\": \"text\",\n"
      "            \"text\": %s\n          }\n        ],\n        \"metadata\": {\n"
      "          \"created_at\": \"2025-11-01T08:%02u:%02u.442124Z\"\n        },\n"
      "        \"message_type\": \"text\"\n      },\n      \"parent_id\": %s\n    }",
      i ? "," : "", id, id, i % 2 ? "Assistant" : "User", quoted, i / 60 % 60, i % 60, parent);
  free(quoted);
  json_decref(text);
}

/* Makes the next old context in the store. */
static void
make_old(const struct bench *b, struct migrate *t, char path[BENCH_PATH_MAX])
{
  char id[QP_UUID_TEXT];
  char name[96];
  FILE *f;

  context_id(id, t->done);
  (void)snprintf(name, sizeof(name), "migrate/store/contexts/%s.json", id);
  bench_path(b, path, name);
  f = fopen(path, "w");
  if (!f)
    bench_die("%s: %s", path, strerror(errno));
  fprintf(f,
          "{\n  \"id\": \"%s\",\n  \"parent_id\": null,\n  \"config\": {\n    \"model_id\": "
          "\"gpt-4\",\n"
          "    \"mode\": \"chat\",\n    \"parameters\": {},\n    \"agent_role\": \"actor\"\n  },\n"
          "  \"message_pool\": {",
          id);
  for (unsigned i = 0; i < t->count; i++)
    put_node(f, b, t->done, i);
  fprintf(f, "\n  },\n  \"branches\": {\n    \"main\": {\n      \"name\": \"main\",\n"
             "      \"message_ids\": [");
  for (unsigned i = 0; i < t->count; i++) {
    message_id(id, t->done, i);
    fprintf(f, "%s\n        \"%s\"", i ? "," : "", id);
  }
  fprintf(f,
          "\n      ],\n      \"system_prompt\": null,\n      \"user_prompt\": null\n    }\n  },\n"
          "  \"active_branch_name\": \"main\",\n  \"current_state\": \"idle\"\n}");
  if (fclose(f))
    bench_die("%s: %s", path, strerror(errno));
}

static enum qp_rc
keep_file(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct migrate *t = arg;
  char *copy = bench_alloc(json.len + 1);

  (void)info;
  memcpy(copy, json.data, json.len);
  copy[json.len] = '\n';
  t->files[t->file_count++] = (struct qp_bytes){ copy, json.len + 1 };
  return QP_OK;
}

/* What the peer writes: the files of the first migration. */
static void
keep_files(struct migrate *t, const struct qp_uuid *id)
{
  struct qp_context *c;
  struct qp_err err;

  if (t->files)
    return;
  t->files = bench_alloc(t->count * sizeof(*t->files));
  bench_ok(qp_context_open(t->store, id, QP_LOAD_NONE, &c, &err), &err, "open");
  bench_ok(qp_messages_range(c, NULL, 0, UINT64_MAX, keep_file, t, &err), &err, "read");
  qp_context_close(c);
}

static double
migrate_ours(struct bench *b, void *arg)
{
  struct migrate *t = arg;
  struct qp_import_report report = { 0 };
  char path[BENCH_PATH_MAX];
  struct qp_err err;
  double took;

  make_old(b, t, path);
  bench_settle(b, t->store);
  took = bench_now();
  bench_ok(qp_legacy_import(t->store, path, 0, &report, &err), &err, "migrate");
  took = bench_now() - took;
  t->done++;
  if (report.messages != t->count)
    bench_die("%s: %llu messages", path, (unsigned long long)report.messages);
  keep_files(t, &report.context);
  qp_import_report_release(&report);
  bench_settle(b, t->store);
  return took;
}

static double
migrate_bare(struct bench *b, void *arg)
{
  struct migrate *t = arg;
  char name[64];
  char path[BENCH_PATH_MAX];
  double took;
  int dir;

  (void)snprintf(name, sizeof(name), BENCH_PEER "/migrate-%u", t->dirs++);
  bench_path(b, path, name);
  if (mkdir(path, 0700) || (dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
    bench_die("%s: %s", path, strerror(errno));
  bench_settle(b, NULL);
  took = bench_now();
  for (unsigned i = 0; i < t->count; i++) {
    const struct qp_bytes *file = &t->files[i];
    int fd;

    (void)snprintf(name, sizeof(name), "01a1e0ff-%04x-7035-8c1a-f758%08x.json", i >> 16, i);
    fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, file->data, file->len) != (ssize_t)file->len || close(fd))
      bench_die("%s/%s: %s", path, name, strerror(errno));
  }
  took = bench_now() - took;
  (void)close(dir);
  return took;
}

void
bench_migrate_row(struct bench *b)
{
  static struct migrate t;

  t.count = b->quick ? QUICK : FULL;
  t.store = bench_store_open(b, "migrate/store");
  bench_pair(b,
             bench_row_add(b, "migration", BENCH_AT_MOST, 1.5,
                           "qp_legacy_import, compared and durable",
                           "open + write + close of the same files"),
             migrate_ours, migrate_bare, &t);
  qp_store_close(t.store);
  for (size_t i = 0; i < t.file_count; i++)
    free((char *)t.files[i].data);
  free(t.files);
}
