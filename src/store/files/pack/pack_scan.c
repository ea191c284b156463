/* pack_scan.c - visits a whole pack and skips damaged parts. See pack.h.
 *
 * Where no valid frame begins, the next magic number is searched. Neither of the two can be part of
 * a message, because JSON has no unescaped control characters and UTF-8 no byte 0xfd; if one occurs
 * by chance, the checksum of the frame fails. */
#include "store/files/pack/pack_int.h"

#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "os/file.h"
#include "store/files/index/index.h"

#define SEARCH_PIECE ((size_t)64 << 10)

struct scan {
  struct qp__pack_file file;
  int root;
  const char *dict_path;
  uint64_t bytes; /* of the file */
  struct qp__pack_decoder *decoder;
  ZSTD_DDict *dict;
  struct qp__buf content;
  json_t *dirs; /* of the frame, or NULL */
  qp__pack_visit *visit;
  void *arg;
  bool damaged;
};

/* ---- the header ---- */

/* Whether the sum in the header is correct for the text before it. */
static bool
sum_ok(struct qp_bytes header)
{
  static const char before[] = QP__PACK_HEADER_BEGIN "\"dirs\":";
  static const char after[] = ",\"sum\":\"";
  size_t tail = strlen(after) + QP__PACK_SUM_LEN + strlen("\"}\n");
  char sum[QP__PACK_SUM_LEN];
  struct qp_bytes dirs;

  if (header.len < strlen(before) + tail || memcmp(header.data, before, strlen(before)) != 0)
    return false;
  dirs.data = header.data + strlen(before);
  dirs.len = header.len - strlen(before) - tail;
  qp__pack_sum(sum, dirs);
  return memcmp(dirs.data + dirs.len, after, strlen(after)) == 0 &&
         memcmp(dirs.data + dirs.len + strlen(after), sum, sizeof(sum)) == 0;
}

/* Reads the directories of the next frame; an invalid header is damage. QP_NOMEM. */
static enum qp_rc
read_header(struct scan *s, struct qp_bytes header, struct qp_err *err)
{
  json_t *object = NULL;
  json_t *dirs;
  enum qp_rc rc;

  json_decref(s->dirs);
  s->dirs = NULL;
  if (!header.len || !sum_ok(header)) {
    s->damaged = true;
    return QP_OK;
  }
  rc = qp__json_parse_object("header of a frame", header, &object, err);
  if (rc == QP_NOMEM)
    return rc;
  dirs = rc ? NULL : json_object_get(object, "dirs");
  if (json_is_array(dirs))
    s->dirs = json_incref(dirs);
  else
    s->damaged = true;
  json_decref(object);
  return QP_OK;
}

/* The directory of the next message; *run and *left are the position in the list. */
static const char *
next_dir(const struct scan *s, size_t *run, json_int_t *left)
{
  const json_t *item;
  const char *name;

  while (*left <= 0) {
    item = json_array_get(s->dirs, *run);
    if (!item)
      return NULL;
    *left = json_integer_value(json_array_get(item, 1));
    ++*run;
  }
  --*left;
  name = json_string_value(json_array_get(json_array_get(s->dirs, *run - 1), 0));
  return name && qp__branch_dir_ok(name, strlen(name)) ? name : NULL;
}

/* ---- frames ---- */

static enum qp_rc
visit_lines(struct scan *s, uint64_t offset, struct qp_err *err)
{
  const char *end = s->content.data + s->content.len;
  const char *line = s->content.data;
  json_int_t left = 0;
  size_t run = 0;

  while (line < end) {
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    const char *dir = next_dir(s, &run, &left);
    struct qp_bytes json = { line, (size_t)((newline ? newline : end) - line) };
    enum qp_rc rc;

    s->damaged |= !newline || !dir;
    if (!newline)
      return QP_OK;
    rc = s->visit ? s->visit(s->arg, dir ? dir : "", offset, (uint32_t)(line - s->content.data),
                             json, err)
                  : QP_OK;
    if (rc)
      return rc;
    line = newline + 1;
  }
  s->damaged |= next_dir(s, &run, &left) != NULL;
  return QP_OK;
}

/* QP_CORRUPT: it cannot be decompressed. */
static enum qp_rc
decode(struct scan *s, const struct qp__frame_place *place, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (place->dict_id && !s->dict)
    rc = qp__dict_load(&s->file, s->root, s->dict_path, place->dict_id, &s->dict, err);
  if (rc)
    return rc;
  qp__buf_reset(&s->content);
  (void)qp__buf_reserve(&s->content, place->content);
  rc = qp__buf_check(&s->content, "a frame of a pack", err);
  if (!rc)
    rc = qp__frame_decode(&s->file, s->decoder, place, s->dict, s->content.data, err);
  if (!rc)
    s->content.len = place->content;
  return rc;
}

/* Whether a header or a frame begins here: a frame without its header is useful too. */
static bool
is_mark(const char *p)
{
  static const unsigned char skippable[] = { 0x50, 0x2a, 0x4d, 0x18 };
  static const unsigned char frame[] = { 0x28, 0xb5, 0x2f, 0xfd };

  if (memcmp(p, frame, sizeof(frame)) == 0)
    return true;
  return memcmp(p, skippable, sizeof(skippable)) == 0 &&
         memcmp(p + QP__SKIPPABLE_LEN, QP__PACK_HEADER_BEGIN, strlen(QP__PACK_HEADER_BEGIN)) == 0;
}

/* Finds the next offset from `from` on where a frame can begin; the end of the file if there is
 * none. Fewer bytes than a magic number cannot be a frame. */
static enum qp_rc
search(struct scan *s, uint64_t from, uint64_t *out, struct qp_err *err)
{
  size_t mark = QP__SKIPPABLE_LEN + strlen(QP__PACK_HEADER_BEGIN);
  struct qp__buf *in = &s->content;

  qp__buf_reset(in);
  (void)qp__buf_reserve(in, SEARCH_PIECE);
  if (in->rc)
    return qp__buf_check(in, "searching a pack", err);
  while (from < s->bytes) {
    ssize_t got = qp__read_at(s->file.os, s->file.fd, in->data, SEARCH_PIECE, (off_t)from);

    if (got < 0)
      return qp__fail_sys(err, (int)got, "cannot read the pack '%s'", s->file.path);
    for (size_t i = 0; i + mark <= (size_t)got; i++)
      if (is_mark(in->data + i)) {
        *out = from + i;
        return QP_OK;
      }
    if ((size_t)got < SEARCH_PIECE)
      break;
    from += SEARCH_PIECE - mark + 1;
  }
  *out = s->bytes;
  return QP_OK;
}

static enum qp_rc
scan_frames(struct scan *s, struct qp_err *err)
{
  uint64_t offset = 0;
  enum qp_rc rc = QP_OK;

  while (!rc && offset < s->bytes) {
    struct qp__frame_place place;
    struct qp_err broken;

    rc = qp__frame_find(&s->file, s->decoder, offset, QP__FRAME_MAX, &place, &broken);
    if (!rc)
      rc = decode(s, &place, &broken);
    if (rc == QP_CORRUPT) {
      s->damaged = true;
      rc = search(s, offset + 1, &offset, err);
      continue;
    }
    if (rc)
      return qp__fail_as(err, rc, &broken);
    rc = read_header(s, place.header, err);
    if (!rc)
      rc = visit_lines(s, offset, err);
    offset = place.next;
  }
  return rc;
}

enum qp_rc
qp__pack_scan(const struct qp__os *os, int root, const char *path, const char *dict_path,
              qp__pack_visit *visit, void *arg, bool *damaged, struct qp_err *err)
{
  struct scan s = { .file = { os, -1, path }, .root = root, .dict_path = dict_path };
  enum qp_rc rc;

  s.visit = visit;
  s.arg = arg;
  qp__buf_init(&s.content, QP__FRAME_MAX);
  rc = qp__pack_file_open(os, root, path, &s.file.fd, &s.bytes, err);
  if (rc)
    return rc;
  s.decoder = qp__decoder_new();
  rc = s.decoder ? scan_frames(&s, err) : qp__fail_nomem(err, "reading a pack");
  qp__decoder_free(s.decoder);
  (void)ZSTD_freeDDict(s.dict);
  json_decref(s.dirs);
  qp__buf_release(&s.content);
  qp__close(os, s.file.fd);
  if (!rc)
    *damaged = s.damaged;
  return rc;
}
