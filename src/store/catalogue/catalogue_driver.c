/* catalogue_driver.c - lists, searches and sizes of a store whose driver keeps the catalogue
 * (struct qp__driver_catalogue): cursors, the words of a query, snippets. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/catalogue/catalogue_int.h"
#include "store/catalogue/words.h"

/* ---- lists ---- */

struct listing {
  qp_catalogue_visit *visit;
  void *arg;
  uint32_t count, limit;
  bool more;
  char cursor[QP__CAT_CURSOR];
};

/* One row more than asked for tells whether there is another page. */
static enum qp_rc
visit_row(void *arg, const struct qp_catalogue_row *row)
{
  struct listing *l = arg;

  l->more = l->count == l->limit;
  if (l->more)
    return QP_OK;
  l->count++;
  qp__cat_write_list_cursor(row, l->cursor);
  return l->visit(l->arg, row);
}

enum qp_rc
qp__cat_driver_list(struct qp_store *s, const struct qp_catalogue_query *query,
                    qp_catalogue_visit *visit, void *arg, char **next_cursor, struct qp_err *err)
{
  struct listing l = { .visit = visit, .arg = arg, .limit = qp__cat_limit(query->limit) };
  struct qp__list_query q = { .owner = query->owner,
                              .updated_at = INT64_MAX,
                              .limit = l.limit + 1 };
  enum qp_rc rc = QP_OK;

  memset(q.id.b, 0xff, sizeof(q.id.b));
  if (query->cursor)
    rc = qp__cat_parse_list_cursor(query->cursor, &q.updated_at, &q.id, err);
  if (!rc)
    rc = s->driver->catalogue->list(s->self, &q, visit_row, &l, err);
  return rc ? rc : qp__cat_give_cursor(l.cursor, l.more, next_cursor, err);
}

/* ---- sizes ---- */

struct sizing {
  qp_size_visit *visit;
  void *arg;
  uint32_t count, limit;
  bool more;
  char cursor[QP__CAT_CURSOR];
};

static enum qp_rc
visit_size(void *arg, const struct qp_size_row *row)
{
  struct sizing *s = arg;
  char id[QP_UUID_TEXT];

  s->more = s->count == s->limit;
  if (s->more)
    return QP_OK;
  s->count++;
  (void)snprintf(s->cursor, sizeof(s->cursor), "%" PRIu64 ".%s", row->bytes,
                 qp_uuid_text(&row->id, id));
  return s->visit(s->arg, row);
}

enum qp_rc
qp__cat_driver_sizes(struct qp_store *s, const struct qp_size_query *query, qp_size_visit *visit,
                     void *arg, char **next_cursor, struct qp_err *err)
{
  struct sizing x = { .visit = visit, .arg = arg, .limit = query->limit };
  struct qp__size_page q = {
    .owner = query->owner, .bytes = INT64_MAX, .limit = x.limit + 1, .trashed = query->trashed
  };
  enum qp_rc rc = QP_OK;

  memset(q.id.b, 0xff, sizeof(q.id.b));
  if (query->cursor)
    rc = qp__cat_parse_list_cursor(query->cursor, &q.bytes, &q.id, err);
  if (!rc)
    rc = s->driver->catalogue->sizes(s->self, &q, visit_size, &x, err);
  return rc ? rc : qp__cat_give_cursor(x.cursor, x.more, next_cursor, err);
}

/* ---- searches ---- */

struct finding {
  struct qp__words *words;
  struct qp__cat_terms terms;
  struct qp__buf text; /* the words of all phrases, each with its NUL */
  struct qp__phrase phrases[QP__CAT_TERMS_MAX];
  size_t count, wanted;
  struct qp__buf match; /* for the snippets */
  struct qp__buf snippet;
  qp_search_visit *visit;
  void *arg;
  uint32_t found, limit;
  bool more;
  char cursor[QP__CAT_CURSOR];
  struct qp_err *err;
};

/* "{rank}/{number}.{context}" of the last hit of a page. */
static enum qp_rc
parse_cursor(const char *cursor, struct qp__find_query *q, struct qp_err *err)
{
  char *end = NULL;
  char *last = NULL;

  errno = 0;
  q->rank = strtod(cursor, &end);
  if (end == cursor || *end != '/' || !isfinite(q->rank))
    return qp__cat_bad_cursor(err);
  q->number = strtoll(end + 1, &last, 10);
  if (errno || last == end + 1 || *last != '.' || qp_uuid_parse(last + 1, &q->context, NULL))
    return qp__cat_bad_cursor(err);
  return QP_OK;
}

static enum qp_rc
visit_found(void *arg, const struct qp__found *found)
{
  struct finding *f = arg;
  struct qp_search_hit hit = found->hit;
  char id[QP_UUID_TEXT];
  enum qp_rc rc;

  f->more = f->found == f->limit;
  if (f->more)
    return QP_OK;
  f->found++;
  (void)snprintf(f->cursor, sizeof(f->cursor), "%.17g/%" PRId64 ".%s", hit.rank, found->number,
                 qp_uuid_text(&hit.context, id));
  qp__buf_reset(&f->snippet);
  rc = qp__words_snippet(f->words, found->stored, qp__buf_bytes(&f->match), &f->snippet, f->err);
  if (rc)
    return rc;
  hit.snippet = f->snippet.data ? f->snippet.data : "";
  return f->visit(f->arg, &hit);
}

/* The words of the terms. Those without words, such as "+", say nothing. */
static enum qp_rc
make_phrases(struct finding *f, struct qp_err *err)
{
  size_t starts[QP__CAT_TERMS_MAX] = { 0 };
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < f->terms.count && !rc; i++) {
    const struct qp__cat_term *t = &f->terms.list[i];
    size_t start = f->text.len;
    uint32_t words = 0;

    rc = qp__words_split(f->words, t->text, &f->text, &words, err);
    if (rc || !words)
      continue;
    starts[f->count] = start;
    f->phrases[f->count].words.len = f->text.len - start - t->prefix;
    f->phrases[f->count++].unwanted = t->unwanted;
    f->wanted += !t->unwanted;
    if (t->prefix) /* it is open at its end */
      f->text.data[f->text.len - 1] = 0;
    else
      (void)qp__buf_add_char(&f->text, 0);
    rc = qp__buf_check(&f->text, "the search", err);
  }
  for (size_t i = 0; i < f->count; i++)
    f->phrases[i].words.data = f->text.data + starts[i];
  return rc;
}

static enum qp_rc
search(struct qp_store *s, const struct qp_search_query *query, struct finding *f,
       struct qp_err *err)
{
  struct qp__find_query q = {
    .owner = query->owner, .only = query->context, .rank = -INFINITY, .limit = f->limit + 1
  };
  enum qp_rc rc = qp__cat_parse_terms(query->text, &f->terms, err);

  if (!rc && query->cursor)
    rc = parse_cursor(query->cursor, &q, err);
  if (!rc)
    rc = qp__cat_write_match(&f->terms, &f->match, err);
  if (!rc)
    rc = qp__words_take(&s->catalogue->words, &f->words, err);
  if (!rc)
    rc = make_phrases(f, err);
  if (rc || !f->wanted)
    return rc;
  q.phrases = f->phrases;
  q.count = f->count;
  return s->driver->catalogue->search(s->self, &q, visit_found, f, err);
}

enum qp_rc
qp__cat_driver_search(struct qp_store *s, const struct qp_search_query *query,
                      qp_search_visit *visit, void *arg, char **next_cursor, struct qp_err *err)
{
  struct finding *f = qp__alloc0(1, sizeof(*f));
  enum qp_rc rc;

  if (!f)
    return qp__fail_nomem(err, "a search");
  f->visit = visit;
  f->arg = arg;
  f->err = err;
  f->limit = qp__cat_limit(query->limit);
  qp__buf_init(&f->text, QP__CAT_MATCH_MAX);
  qp__buf_init(&f->match, QP__CAT_MATCH_MAX);
  qp__buf_init(&f->snippet, (size_t)1 << 20);
  rc = search(s, query, f, err);
  if (!rc)
    rc = qp__cat_give_cursor(f->cursor, f->more, next_cursor, err);
  qp__words_give(&s->catalogue->words, f->words);
  qp__buf_release(&f->text);
  qp__buf_release(&f->match);
  qp__buf_release(&f->snippet);
  qp__free(f);
  return rc;
}
