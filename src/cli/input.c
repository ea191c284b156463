/* input.c - see input.h. Uses read(2) instead of stdio: a line must be returned when it arrives on
 * a pipe, and memory must depend on the longest line, not on the length of the input. */
#include "cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/out.h"

#define FIRST_SIZE ((size_t)64 << 10)

enum qp_rc
cli_lines_open(struct cli_lines *in, const char *path, size_t limit, struct qp_err *err)
{
  bool standard = strcmp(path, "-") == 0;
  int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);

  if (fd < 0)
    return qp__fail_sys(err, -errno, "cannot open '%.150s'", path);
  *in = (struct cli_lines){ .fd = fd, .owns_fd = !standard, .limit = limit };
  return QP_OK;
}

void
cli_lines_close(struct cli_lines *in)
{
  if (in->owns_fd)
    (void)close(in->fd);
  qp__free(in->data);
  *in = (struct cli_lines){ .fd = -1, .eof = true };
}

/* Makes space after `end`: first by moving the rest to the front, then by growing. */
static enum qp_rc
make_room(struct cli_lines *in, struct qp_err *err)
{
  size_t cap = in->cap ? in->cap * 2 : FIRST_SIZE;
  char *grown;

  if (in->start) {
    memmove(in->data, in->data + in->start, in->end - in->start);
    in->end -= in->start;
    in->start = 0;
  }
  if (in->end < in->cap)
    return QP_OK;
  if (cap > in->limit + FIRST_SIZE)
    cap = in->limit + FIRST_SIZE;
  grown = qp__realloc(in->data, cap);
  if (!grown)
    return cli_fail_nomem(err);
  in->data = grown;
  in->cap = cap;
  return QP_OK;
}

static enum qp_rc
read_more(struct cli_lines *in, struct qp_err *err)
{
  enum qp_rc rc = in->end == in->cap ? make_room(in, err) : QP_OK;
  ssize_t got;

  if (rc)
    return rc;
  do
    got = read(in->fd, in->data + in->end, in->cap - in->end);
  while (got < 0 && errno == EINTR);
  if (got < 0)
    return qp__fail_sys(err, -errno, "cannot read the input");
  in->eof = got == 0;
  in->end += (size_t)got;
  return QP_OK;
}

static bool
is_blank(const char *s, size_t n)
{
  while (n && (s[n - 1] == ' ' || s[n - 1] == '\t' || s[n - 1] == '\r'))
    n--;
  return n == 0;
}

enum qp_rc
cli_lines_next(struct cli_lines *in, struct qp_bytes *line, bool *more, struct qp_err *err)
{
  size_t seen = 0; /* bytes from start without a newline */

  for (;;) {
    size_t have = in->end - in->start;
    const char *from = have ? in->data + in->start : "";
    const char *newline = have > seen ? memchr(from + seen, '\n', have - seen) : NULL;
    size_t len = newline ? (size_t)(newline - from) : have;
    bool complete = newline || in->eof;
    enum qp_rc rc;

    if (in->skipping) {
      in->start += newline ? len + 1 : len;
      in->skipping = !newline;
      seen = 0;
      if (!newline && in->eof)
        in->skipping = false;
    } else if (len > in->limit) {
      in->number++;
      in->skipping = true;
      return qp__fail(err, QP_TOOBIG, "longer than %zu bytes", in->limit);
    } else if (complete && (newline || len)) {
      in->start += newline ? len + 1 : len;
      in->number++;
      seen = 0;
      if (is_blank(from, len))
        continue;
      *line = (struct qp_bytes){ from, len };
      *more = true;
      return QP_OK;
    } else if (in->eof) {
      *more = false;
      return QP_OK;
    } else {
      seen = have;
    }
    if (!newline && !in->eof) {
      if (in->start == in->end)
        in->start = in->end = 0;
      rc = read_more(in, err);
      if (rc)
        return rc;
    }
  }
}

enum qp_rc
cli_read_all(const char *path, size_t limit, char **out, size_t *len, struct qp_err *err)
{
  struct cli_lines in;
  enum qp_rc rc = cli_lines_open(&in, path, limit, err);

  if (rc)
    return rc;
  while (!in.eof && in.end <= limit) {
    rc = read_more(&in, err);
    if (rc)
      goto out;
  }
  if (in.end > limit) {
    rc = qp__fail(err, QP_TOOBIG, "the input is longer than %zu bytes", limit);
    goto out;
  }
  rc = in.end == in.cap ? make_room(&in, err) : QP_OK;
  if (rc)
    goto out;
  in.data[in.end] = '\0';
  *out = in.data;
  *len = in.end;
  in.data = NULL; /* ownership moves to the caller here */
out:
  cli_lines_close(&in);
  return rc;
}

enum qp_rc
cli_feed_check(const char *text, const char *jsonl, const char *role, bool keep_going,
               struct qp_err *err)
{
  if ((jsonl != NULL) == (text != NULL))
    return qp__fail(err, QP_INVALID,
                    jsonl ? "--text and --jsonl cannot be used together"
                          : "nothing to add: give --text TEXT or --jsonl FILE");
  if (jsonl && role)
    return qp__fail(err, QP_INVALID, "--role cannot be used with --jsonl: each line has its own");
  if (!jsonl && keep_going)
    return qp__fail(err, QP_INVALID, "--keep-going needs --jsonl");
  return QP_OK;
}

enum qp_rc
cli_feed_text(const char *given, size_t limit, char **owned, struct qp_bytes *out,
              struct qp_err *err)
{
  size_t len;
  enum qp_rc rc;

  if (strcmp(given, "-") != 0) {
    *out = (struct qp_bytes){ given, strlen(given) };
    return QP_OK;
  }
  rc = cli_read_all("-", limit, owned, &len, err);
  if (rc)
    return rc;
  if (len && (*owned)[len - 1] == '\n')
    len--;
  *out = (struct qp_bytes){ *owned, len };
  return QP_OK;
}

bool
cli_feed_is_bad_line(enum qp_rc rc)
{
  return rc == QP_INVALID || rc == QP_TOOBIG || rc == QP_EXISTS || rc == QP_CONFLICT;
}

enum qp_rc
cli_feed_line_failed(struct cli_feed *feed, uint64_t line, struct qp_err *err)
{
  char what[32];

  (void)snprintf(what, sizeof(what), "line %llu", (unsigned long long)line);
  (void)cli_err_prefix(err, what);
  if (!feed->keep_going || !cli_feed_is_bad_line(err->rc))
    return err->rc;
  if (!feed->bad++)
    feed->first = *err;
  cli_report(err, feed->json);
  return QP_OK;
}

enum qp_rc
cli_feed_verdict(const struct cli_feed *feed, struct qp_err *err)
{
  if (!feed->bad)
    return QP_OK;
  return qp__fail(err, feed->first.rc, "%llu of %llu lines were not saved",
                  (unsigned long long)feed->bad, (unsigned long long)(feed->bad + feed->saved));
}

enum qp_rc
cli_confirm_check(bool yes, struct qp_err *err)
{
  return yes || isatty(STDIN_FILENO)
             ? QP_OK
             : qp__fail(err, QP_INVALID,
                        "cannot ask for confirmation: standard input is not a terminal; use --yes "
                        "to delete without asking");
}

enum qp_rc
cli_confirm(const char *kind, const char *id, uint64_t messages, struct qp_err *err)
{
  char answer[16] = "";

  fprintf(stderr, "Delete %s", kind);
  cli_put_word(stderr, id);
  fprintf(stderr, " with %llu message%s for good? [y/N] ", (unsigned long long)messages,
          cli_plural(messages));
  (void)fflush(stderr);
  if (fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
    return QP_OK;
  return qp__fail(err, QP_STOPPED, "nothing was deleted");
}
