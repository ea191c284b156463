/* fuzz_pack.c - arbitrary bytes as a pack. Scanning must not crash; every message that a scan finds
 * can be read at its place with the same bytes, and a pack written from them returns them.
 *
 * The input is a pack; if its first byte is not that of a magic number, the rest is the content of
 * one frame, in lines. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/file.h"
#include "os_sim.h"
#include "store/files/pack/pack_int.h"

#define FOUND_MAX 1000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct found {
  char *json;
  size_t len;
  uint64_t frame;
  uint32_t pos;
  char dir[280];
};

struct list {
  struct found items[FOUND_MAX];
  size_t count;
};

static void
die(const char *why, const char *what)
{
  (void)fprintf(stderr, "%s: %s\n", why, what);
  abort();
}

static enum qp_rc
keep(void *arg, const char *dir, uint64_t frame, uint32_t pos, struct qp_bytes json,
     struct qp_err *err)
{
  struct list *l = arg;
  struct found *f = &l->items[l->count];

  (void)err;
  if (l->count == FOUND_MAX)
    return QP_STOPPED;
  f->json = malloc(json.len + 1);
  if (!f->json)
    die("no memory", "message");
  memcpy(f->json, json.data, json.len);
  f->len = json.len;
  f->frame = frame;
  f->pos = pos;
  (void)snprintf(f->dir, sizeof(f->dir), "%s", *dir && strlen(dir) < 280 ? dir : "branch-main");
  l->count++;
  return QP_OK;
}

static void
release(struct list *l)
{
  for (size_t i = 0; i < l->count; i++)
    free(l->items[i].json);
  l->count = 0;
}

static void
put(const struct qp__os *os, int root, const char *path, struct qp_bytes bytes)
{
  if (qp__file_create(os, root, path, bytes))
    die("cannot write", path);
}

static void
scan(const struct qp__os *os, int root, const char *path, struct list *l, bool *damaged)
{
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc = qp__pack_scan(os, root, path, NULL, keep, l, damaged, &err);

  if (rc && rc != QP_STOPPED)
    die("a scan fails", err.msg);
}

static void
read_found(const struct qp__os *os, int root, const char *path, const struct list *l)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__pack_cache *c;

  if (qp__pack_cache_new(os, root, &c, &err))
    die("no memory", "cache");
  for (size_t i = 0; i < l->count; i++) {
    const struct found *f = &l->items[i];
    struct qp__buf out;

    qp__buf_init(&out, (size_t)1 << 30);
    /* A frame of many messages that is longer than we write them is scanned, but not read. */
    if (qp__pack_read(c, path, NULL, f->frame, f->pos, (uint32_t)f->len, &out, &err)) {
      if (!strstr(err.msg, "longer than it may be"))
        die("what was scanned cannot be read", err.msg);
    } else if (out.len != f->len || (f->len && memcmp(out.data, f->json, f->len) != 0)) {
      die("another message is read", f->json);
    }
    qp__buf_release(&out);
  }
  qp__pack_cache_free(c);
}

/* Writes what was found as a pack of its own and compares. */
static void
write_again(const struct qp__os *os, int root, struct list *first)
{
  static struct list second;
  struct qp_bytes none = { NULL, 0 };
  struct qp__pack_writer *w;
  struct qp_err err;
  bool damaged = true;
  uint64_t bytes;
  size_t kept = 0;

  if (qp__pack_create(os, root, "again", none, 1, &w, &err))
    die("a pack cannot be made", err.msg);
  for (size_t i = 0; i < first->count; i++) {
    struct found f = first->items[i];
    struct qp_bytes json = { f.json, f.len };

    if (!f.len) {
      free(f.json);
      continue;
    }
    if (qp__pack_add(w, f.dir, json, &f.frame, &f.pos, &err))
      die("a message cannot be added", err.msg);
    first->items[kept++] = f;
  }
  first->count = kept;
  if (qp__pack_finish(w, &bytes, &err))
    die("a pack cannot be finished", err.msg);
  qp__pack_free(w);
  scan(os, root, "again", &second, &damaged);
  if (damaged || second.count != first->count)
    die("is damaged", "the second pack");
  for (size_t i = 0; i < first->count; i++) {
    const struct found *a = &first->items[i];
    const struct found *b = &second.items[i];

    if (a->len != b->len || memcmp(a->json, b->json, a->len) != 0 || a->frame != b->frame ||
        a->pos != b->pos || strcmp(a->dir, b->dir) != 0)
      die("has another message", "the second pack");
  }
  release(&second);
}

/* One frame, as the input's lines. */
static void
put_lines(const struct qp__os *os, int root, struct qp_bytes lines)
{
  size_t cap = ZSTD_compressBound(lines.len);
  char *out = malloc(cap);
  ZSTD_CCtx *cctx = ZSTD_createCCtx();
  size_t n;

  if (!out || !cctx)
    die("no memory", "frame");
  (void)ZSTD_CCtx_setParameter(cctx, ZSTD_c_checksumFlag, 1);
  n = ZSTD_compress2(cctx, out, cap, lines.data, lines.len);
  if (ZSTD_isError(n))
    die("cannot compress", ZSTD_getErrorName(n));
  put(os, root, "pack", (struct qp_bytes){ out, n });
  (void)ZSTD_freeCCtx(cctx);
  free(out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static struct list found;
  struct qp__os_sim *sim = qp__os_sim_new(1);
  const struct qp__os *os;
  bool damaged = false;
  int root;

  if (!sim)
    return 0;
  os = qp__os_sim_os(sim);
  root = os->open_root(os->self, "/data", 1);
  if (root < 0)
    die("cannot be made", "/data");
  if (size && data[0] != 0x28 && data[0] != 0x50)
    put_lines(os, root, (struct qp_bytes){ (const char *)data + 1, size - 1 });
  else
    put(os, root, "pack", (struct qp_bytes){ (const char *)data, size });
  scan(os, root, "pack", &found, &damaged);
  read_found(os, root, "pack", &found);
  write_again(os, root, &found);
  release(&found);
  qp__close(os, root);
  qp__os_sim_free(sim);
  return 0;
}
