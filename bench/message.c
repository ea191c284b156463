/* message.c - the messages and contexts that are measured.
 *
 * Texts are sentences of plain English words, 900 to 1000 bytes, made from a fixed seed: the
 * same in every run. Stored, with its other fields, such a message has about 1.15 kB. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/uuid.h"
#include "store/files/index/index.h"

#define TEXT_MIN 900
#define TEXT_MAX 1000
#define BATCH 1000
#define PIECE ((size_t)1 << 20)

/* ---- texts ---- */

static const char *const words[] = {
  "the",     "a",       "we",     "it",       "this",    "that",     "which",   "because",
  "when",    "after",   "before", "while",    "every",   "another",  "first",   "last",
  "message", "branch",  "answer", "question", "file",    "server",   "client",  "record",
  "window",  "garden",  "river",  "mountain", "letter",  "morning",  "evening", "journey",
  "is",      "was",     "has",    "keeps",    "writes",  "reads",    "finds",   "follows",
  "returns", "carries", "begins", "ends",     "grows",   "changes",  "waits",   "remembers",
  "slowly",  "quickly", "again",  "often",    "never",   "together", "quietly", "perhaps",
  "small",   "large",   "old",    "new",      "simple",  "careful",  "durable", "plain",
  "in",      "on",      "under",  "with",     "without", "between",  "through", "towards",
  "and",     "but",     "or",     "so",       "then",    "there",    "here",    "where",
};
#define WORDS (sizeof(words) / sizeof(words[0]))

static void
add_sentence(char *text, size_t cap, size_t *len, uint64_t *seed)
{
  unsigned count = 6 + (unsigned)(bench_random(seed) % 12);

  for (unsigned i = 0; i < count; i++) {
    const char *word = words[bench_random(seed) % WORDS];
    size_t n = strlen(word);

    if (*len + n + 3 > cap)
      return;
    memcpy(text + *len, word, n);
    if (i == 0)
      text[*len] = (char)(text[*len] - 'a' + 'A');
    *len += n;
    text[(*len)++] = i + 1 == count ? '.' : bench_random(seed) % 9 == 0 ? ',' : ' ';
    if (text[*len - 1] != ' ')
      text[(*len)++] = i + 1 == count && bench_random(seed) % 5 == 0 ? '\n' : ' ';
  }
}

static char *
make_text(uint64_t *seed)
{
  size_t cap = TEXT_MIN + (size_t)(bench_random(seed) % (TEXT_MAX - TEXT_MIN));
  char *text = bench_alloc(cap + 1);
  size_t len = 0;

  while (len + 16 < cap)
    add_sentence(text, cap, &len, seed);
  text[len] = 0;
  return text;
}

struct qp_message *
bench_message_new(const struct bench *b, uint64_t i)
{
  const char *text = b->texts[i % BENCH_TEXTS];
  struct qp_bytes bytes = { text, strlen(text) };
  struct qp_message *message;
  struct qp_err err;

  bench_ok(qp_message_new_text(i % 2 ? QP_ROLE_ASSISTANT : QP_ROLE_USER, bytes, &message, &err),
           &err, "making a message");
  return message;
}

static struct qp_uuid
random_id(uint64_t *seed)
{
  struct qp_uuid id;

  for (int i = 0; i < 2; i++) {
    uint64_t v = bench_random(seed);

    memcpy(id.b + (ptrdiff_t)8 * i, &v, sizeof(v));
  }
  return id;
}

/* What message i looks like once it is stored, newline included; only ids and time are made up. */
static struct qp_bytes
make_line(const struct bench *b, uint64_t i, uint64_t *seed)
{
  struct qp_message *message = bench_message_new(b, i);
  struct qp_uuid id = random_id(seed);
  struct qp_uuid parent = random_id(seed);
  struct qp_bytes line;
  struct qp_err err;
  char *json;
  char *copy;
  size_t len;

  qp_message_set_id(message, &id);
  qp_message_set_parent(message, &parent);
  qp_message_set_created_at(message, 1800000000000 + (int64_t)i);
  bench_ok(qp_message_json(message, &json, &len, &err), &err, "encoding a message");
  copy = bench_alloc(len + 2);
  memcpy(copy, json, len);
  copy[len] = '\n';
  line.data = copy;
  line.len = len + 1;
  qp_free(json);
  qp_message_free(message);
  return line;
}

void
bench_messages_make(struct bench *b)
{
  uint64_t seed = 20261115;

  for (size_t i = 0; i < BENCH_TEXTS; i++)
    b->texts[i] = make_text(&seed);
  for (size_t i = 0; i < BENCH_TEXTS; i++)
    b->lines[i] = make_line(b, i, &seed);
}

void
bench_append(const struct bench *b, struct qp_context *context, uint64_t i)
{
  struct qp_message *message = bench_message_new(b, i);
  struct qp_err err;

  bench_ok(qp_message_save(context, NULL, message, NULL, &err), &err, "saving a message");
  qp_message_free(message);
}

/* ---- contexts ---- */

static void
save_batch(struct bench *b, struct qp_context *context, uint64_t first, size_t n)
{
  struct qp_message **messages = bench_alloc(n * sizeof(*messages));
  struct qp_save_result *results = bench_alloc(n * sizeof(*results));
  struct qp_err err;

  for (size_t i = 0; i < n; i++)
    messages[i] = bench_message_new(b, first + i);
  bench_ok(qp_message_save_batch(context, NULL, messages, n, results, &err), &err,
           "saving a batch");
  for (size_t i = 0; i < n; i++) {
    bench_ok(results[i].err.rc, &results[i].err, "saving a batch");
    qp_message_free(messages[i]);
  }
  free(messages);
  free(results);
}

struct qp_uuid
bench_context_fill(struct bench *b, struct qp_store *store, uint64_t count)
{
  struct qp_context *context = bench_context_create(store, "filled in batches");
  struct qp_uuid id = qp_context_id(context);

  for (uint64_t i = 0; i < count; i += BATCH)
    save_batch(b, context, i, count - i < BATCH ? (size_t)(count - i) : BATCH);
  qp_context_close(context);
  return id;
}

/* ---- an index without messages ---- */

static void
make_tree(struct qp__tree *tree, uint64_t count)
{
  struct qp__uuid_gen gen;
  uint64_t seed = count;
  uint16_t dir;

  qp__uuid_gen_init(&gen);
  qp__tree_init(tree);
  if (qp__tree_dir(tree, "branch-main", 11, &dir) || !qp__tree_reserve(tree, (size_t)count))
    bench_die("no memory for an index of %llu messages", (unsigned long long)count);
  for (uint64_t i = 0; i < count; i++) {
    struct qp__entry e = { .role = QP_ROLE_USER, .type = QP_TYPE_TEXT, .dir = dir };
    struct qp_uuid noise = random_id(&seed);
    struct qp_uuid hash = random_id(&seed);

    e.time = 1700000000000 + (int64_t)i * 20000; /* a message every 20 seconds */
    e.id = qp__uuid_next(&gen, e.time, noise.b);
    memcpy(e.hash, hash.b, sizeof(e.hash));
    e.role = i % 2 ? QP_ROLE_ASSISTANT : QP_ROLE_USER;
    e.size = 1100 + (uint32_t)(bench_random(&seed) % 100);
    e.parent = i ? (uint32_t)i - 1 : QP__NO_SLOT;
    (void)qp__tree_add(tree, &e);
  }
  qp__uuid_gen_release(&gen);
}

static void
flush(int fd, struct qp__buf *text)
{
  size_t at = 0;

  if (text->rc)
    bench_die("an index could not be encoded");
  while (at < text->len) {
    ssize_t put = write(fd, text->data + at, text->len - at);

    if (put <= 0)
      bench_die("writing an index: %s", strerror(errno));
    at += (size_t)put;
  }
  qp__buf_reset(text);
}

struct qp_uuid
bench_context_index_alone(struct bench *b, const char *store_name, uint64_t count)
{
  struct qp_store *store = bench_store_open(b, store_name);
  struct qp_context *context = bench_context_create(store, "an index alone");
  struct qp_uuid id = qp_context_id(context);
  char main_name[] = "main";
  struct qp__head head = { .name = main_name, .slot = (uint32_t)count - 1 };
  char name[BENCH_PATH_MAX];
  char path[BENCH_PATH_MAX];
  char id_text[QP_UUID_TEXT];
  struct qp__tree tree;
  struct qp__buf text;
  int fd;

  qp_context_close(context);
  qp_store_close(store);
  (void)snprintf(name, sizeof(name), "%s/contexts/%s/index.json", store_name,
                 qp_uuid_text(&id, id_text));
  bench_path(b, path, name);
  fd = open(path, O_WRONLY | O_TRUNC);
  if (fd < 0)
    bench_die("%s: %s", path, strerror(errno));
  make_tree(&tree, count);
  qp__buf_init(&text, 2 * PIECE);
  (void)qp__index_json_head(&text, &id, 1, (uint32_t)count);
  for (uint32_t i = 0; i < count; i++) {
    (void)qp__index_json_entry(&text, &tree, i, i + 1 == count);
    if (text.len > PIECE)
      flush(fd, &text);
  }
  (void)qp__index_json_tail(&text, &id, 1, (uint32_t)count, &tree, &head, 1);
  flush(fd, &text);
  (void)close(fd);
  qp__buf_release(&text);
  qp__tree_release(&tree);
  return id;
}

/* ---- the same as one JSON file ---- */

struct json_out {
  FILE *file;
  bool any;
};

static enum qp_rc
write_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct json_out *out = arg;

  if (info->status != QP_STATUS_LIVE)
    bench_die("a message of a benchmark's context is not there");
  if (out->any)
    (void)fputc(',', out->file);
  out->any = true;
  (void)fwrite(json.data, 1, json.len, out->file);
  return QP_OK;
}

void
bench_context_to_json(struct qp_context *context, const char *path)
{
  struct json_out out = { .file = fopen(path, "we") };
  struct qp_err err;
  char *meta;
  size_t len;

  if (!out.file)
    bench_die("%s: %s", path, strerror(errno));
  bench_ok(qp_context_metadata(context, &meta, &len, &err), &err, "reading metadata");
  (void)fprintf(out.file, "{\"metadata\":%s,\"messages\":[", meta);
  bench_ok(qp_messages_range(context, NULL, 0, UINT64_MAX, write_message, &out, &err), &err,
           "reading messages");
  (void)fputs("]}\n", out.file);
  if (fclose(out.file))
    bench_die("%s: %s", path, strerror(errno));
  qp_free(meta);
}
