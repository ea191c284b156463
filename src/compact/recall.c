/* recall.c - see recall.h. */
#include "compact/recall.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"
#include "compact/count.h"

#define K1 1.2
#define B 0.6
#define WORD_WEIGHT 1.0
#define VALUE_WEIGHT 2.2
#define PART_WEIGHT 0.5   /* a part of an identifier, in a message */
#define LATER_WEIGHT 0.05 /* of the score, for the last message */

#define CALL_MAX 120 /* bytes of a call in the heading of its result */

static const char what[] = "the index of covered messages";

/* One word in one message. */
struct posting {
  uint32_t message;
  float count;
};

struct term {
  uint64_t key;  /* 0: the place is free */
  uint32_t last; /* 1 + the last posting that was added, in a list through `links` */
  uint32_t messages;
};

struct document {
  struct qp_bytes text;
  struct qp_bytes call; /* what asked for a result */
  float length;
  uint64_t hash;  /* of the text: copies are equal */
  bool is_copied; /* a later message has the same text */
};

struct qp__recall {
  struct qp__arena arena;
  struct qp__source source;
  struct document *documents;
  double average;
  struct term *table;
  size_t table_size, term_count;
  struct posting *postings;
  uint32_t *links;
  size_t posting_count, posting_cap, link_count, link_cap;
};

/* ---- the index ---- */

static struct term *
find_term(const struct qp__recall *r, uint64_t key)
{
  size_t i = (size_t)(key * 0x9e3779b97f4a7c15u >> 20) & (r->table_size - 1);

  while (r->table[i].key && r->table[i].key != key)
    i = (i + 1) & (r->table_size - 1);
  return &r->table[i];
}

static bool
grow_terms(struct qp__recall *r)
{
  struct term *old = r->table;
  size_t old_size = r->table_size;

  r->table_size = old_size ? 2 * old_size : 4096;
  r->table = qp__alloc0(r->table_size, sizeof(*r->table));
  if (!r->table) {
    r->table = old;
    r->table_size = old_size;
    return false;
  }
  for (size_t i = 0; i < old_size; i++)
    if (old[i].key)
      *find_term(r, old[i].key) = old[i];
  qp__free(old);
  return true;
}

static enum qp_rc
add_term(struct qp__recall *r, uint64_t key, uint32_t message, float count, struct qp_err *err)
{
  struct term *t;

  if (2 * (r->term_count + 1) > r->table_size && !grow_terms(r))
    return qp__fail_nomem(err, what);
  key = key ? key : 1;
  t = find_term(r, key);
  if (!t->key) {
    t->key = key;
    r->term_count++;
  }
  if (t->last && r->postings[t->last - 1].message == message) {
    r->postings[t->last - 1].count += count;
    return QP_OK;
  }
  if (!qp__vec_reserve(r->links, r->link_count, r->link_cap, 1) ||
      !qp__vec_push(r->postings, r->posting_count, r->posting_cap,
                    (struct posting){ message, count }))
    return qp__fail_nomem(err, what);
  r->links[r->link_count++] = t->last;
  t->last = (uint32_t)r->posting_count;
  t->messages++;
  return QP_OK;
}

static bool
splits(char c)
{
  return c == '_' || c == '-' || c == '/' || c == '.' || c == '@' || c == ':';
}

/* The parts of flight_number, mia.li@example.com, src/base/json.c. */
static enum qp_rc
add_parts(struct qp__recall *r, const struct qp__lexeme *l, uint32_t message, struct qp_err *err)
{
  size_t start = 0;
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i <= l->n; i++) {
    struct qp__lexeme part = { QP__LEX_WORD, l->p + start, i - start };

    if (i < l->n && !splits(l->p[i]))
      continue;
    start = i + 1;
    if (part.n > 1 && part.n < l->n && !qp__lex_is_stop(&part))
      rc = add_term(r, qp__lex_key(&part), message, (float)PART_WEIGHT, err);
  }
  return rc;
}

static enum qp_rc
add_text(struct qp__recall *r, struct qp_bytes text, uint32_t message, struct qp_err *err)
{
  struct qp__lexer lexer;
  struct qp__lexeme l;
  enum qp_rc rc = QP_OK;

  qp__lexer_init(&lexer, text);
  while (!rc && qp__lexer_next(&lexer, &l)) {
    if (qp__lex_is_stop(&l))
      continue;
    r->documents[message].length += 1;
    rc = add_term(r, qp__lex_key(&l), message, 1, err);
    if (!rc && l.kind != QP__LEX_NUMBER && l.kind != QP__LEX_AMOUNT && l.kind != QP__LEX_DATE)
      rc = add_parts(r, &l, message, err);
  }
  return rc;
}

static uint64_t
hash_text(struct qp_bytes text)
{
  uint64_t h = 0xcbf29ce484222325u ^ text.len;

  for (size_t i = 0; i < text.len; i++)
    h = (h ^ (unsigned char)text.data[i]) * 0x100000001b3u;
  return h;
}

/* The call that message i answers, as a text. */
static enum qp_rc
read_call(struct qp__recall *r, size_t i, struct qp_bytes *out, struct qp_err *err)
{
  const struct qp_message *m = r->source.messages[i];

  *out = (struct qp_bytes){ "", 0 };
  for (size_t k = i; m->has_result && k-- > 0 && i - k < 64;)
    for (size_t c = 0; c < r->source.messages[k]->call_count; c++) {
      const struct qp_tool_call *call = &r->source.messages[k]->calls[c].view;
      const char *args = call->arguments_json ? call->arguments_json : "";
      size_t name = strlen(call->tool_name), len = strlen(args);
      char *copy;

      if (strcmp(call->id, m->result.request_id) != 0)
        continue;
      copy = qp__arena_alloc(&r->arena, name + len + 2);
      if (!copy)
        return qp__fail_nomem(err, what);
      memcpy(copy, call->tool_name, name);
      copy[name] = ' ';
      memcpy(copy + name + 1, args, len);
      *out = (struct qp_bytes){ copy, name + len + 1 };
      return QP_OK;
    }
  return QP_OK;
}

static enum qp_rc
add_message(struct qp__recall *r, uint32_t i, struct qp_err *err)
{
  const struct qp_message *m = r->source.messages[i];
  struct document *d = &r->documents[i];
  enum qp_rc rc = qp__source_text(m, &r->arena, &d->text, err);

  if (!rc)
    rc = read_call(r, i, &d->call, err);
  if (!rc)
    rc = add_text(r, d->text, i, err);
  if (!rc)
    rc = add_text(r, d->call, i, err);
  for (size_t c = 0; !rc && c < m->call_count; c++) {
    const char *args = m->calls[c].view.arguments_json ? m->calls[c].view.arguments_json : "";
    const char *name = m->calls[c].view.tool_name;

    rc = add_text(r, (struct qp_bytes){ name, strlen(name) }, i, err);
    if (!rc)
      rc = add_text(r, (struct qp_bytes){ args, strlen(args) }, i, err);
  }
  d->hash = hash_text(d->text) ^ hash_text(d->call) * 3;
  return rc;
}

struct copy {
  uint64_t hash;
  uint32_t message;
};

static int
by_hash(const void *a, const void *b)
{
  const struct copy *x = a, *y = b;

  if (x->hash != y->hash)
    return x->hash < y->hash ? -1 : 1;
  return x->message < y->message ? -1 : 1;
}

static enum qp_rc
mark_copies(struct qp__recall *r, struct qp_err *err)
{
  size_t n = r->source.count;
  struct copy *list = qp__alloc((n + 1) * sizeof(*list));

  if (!list)
    return qp__fail_nomem(err, what);
  for (size_t i = 0; i < n; i++)
    list[i] = (struct copy){ r->documents[i].hash, (uint32_t)i };
  qsort(list, n, sizeof(*list), by_hash);
  for (size_t i = 0; i + 1 < n; i++)
    r->documents[list[i].message].is_copied =
        list[i].hash == list[i + 1].hash && r->documents[list[i].message].text.len > 0;
  qp__free(list);
  return QP_OK;
}

enum qp_rc
qp__recall_new(const struct qp__source *source, struct qp__recall **out, struct qp_err *err)
{
  struct qp__recall *r = qp__alloc0(1, sizeof(*r));
  double sum = 0;
  enum qp_rc rc = QP_OK;

  assert(source->count < UINT32_MAX);
  if (!r)
    return qp__fail_nomem(err, what);
  r->source = *source;
  r->documents = qp__alloc0(source->count + 1, sizeof(*r->documents));
  if (!r->documents || !grow_terms(r)) {
    qp__recall_free(r);
    return qp__fail_nomem(err, what);
  }
  for (size_t i = 0; !rc && i < source->count; i++) {
    rc = add_message(r, (uint32_t)i, err);
    sum += (double)r->documents[i].length;
  }
  if (!rc)
    rc = mark_copies(r, err);
  if (rc) {
    qp__recall_free(r);
    return rc;
  }
  r->average = source->count ? sum / (double)source->count + 1 : 1;
  *out = r;
  return QP_OK;
}

void
qp__recall_free(struct qp__recall *r)
{
  if (!r)
    return;
  qp__free(r->documents);
  qp__free(r->table);
  qp__free(r->postings);
  qp__free(r->links);
  qp__arena_release(&r->arena);
  qp__free(r);
}

/* ---- searching ---- */

struct query {
  uint64_t keys[QP__RECALL_QUERY];
  double weights[QP__RECALL_QUERY];
  size_t count;
  double total;
};

static void
query_add(struct query *q, uint64_t key, double weight)
{
  key = key ? key : 1;
  for (size_t i = 0; i < q->count; i++)
    if (q->keys[i] == key)
      return;
  if (q->count == QP__RECALL_QUERY)
    return;
  q->keys[q->count] = key;
  q->weights[q->count++] = weight;
  q->total += weight;
}

static void
query_init(struct query *q, struct qp_bytes text)
{
  struct qp__lexer lexer;
  struct qp__lexeme l;

  memset(q, 0, sizeof(*q));
  qp__lexer_init(&lexer, text);
  while (qp__lexer_next(&lexer, &l)) {
    if (qp__lex_is_stop(&l))
      continue;
    query_add(q, qp__lex_key(&l), l.kind == QP__LEX_WORD ? WORD_WEIGHT : VALUE_WEIGHT);
    if (l.kind == QP__LEX_WORD && memchr(l.p, '_', l.n)) {
      size_t start = 0;

      for (size_t i = 0; i <= l.n; i++) {
        struct qp__lexeme part = { QP__LEX_WORD, l.p + start, i - start };

        if (i < l.n && l.p[i] != '_')
          continue;
        start = i + 1;
        if (part.n > 1)
          query_add(q, qp__lex_key(&part), WORD_WEIGHT * PART_WEIGHT);
      }
    }
  }
}

static int
by_score(const void *a, const void *b)
{
  const struct qp__recall_hit *x = a, *y = b;

  if (x->score != y->score)
    return x->score > y->score ? -1 : 1;
  return x->at > y->at ? -1 : x->at < y->at;
}

/* The logarithm to base 2, linear between powers of two: the same on every machine. */
static double
doublings(double x)
{
  double n = 0;

  while (x >= 2) {
    x /= 2;
    n++;
  }
  return n + x - 1;
}

/* Scores of all messages for a query, and how much of it each has. NULL: no memory. */
static double *
score_all(const struct qp__recall *r, const struct query *q)
{
  size_t n = r->source.count;
  double *scores = qp__alloc0(2 * n + 1, sizeof(*scores));
  double *has = scores ? scores + n : NULL;

  for (size_t k = 0; scores && k < q->count; k++) {
    const struct term *t = find_term(r, q->keys[k]);
    double idf;

    if (!t->key)
      continue;
    idf = doublings(1 + ((double)n - t->messages + 0.5) / (t->messages + 0.5));
    for (uint32_t p = t->last; p; p = r->links[p - 1]) {
      const struct posting *posting = &r->postings[p - 1];
      double length = (double)r->documents[posting->message].length / r->average;
      double tf = (double)posting->count;

      scores[posting->message] +=
          q->weights[k] * idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * length));
      has[posting->message] += q->weights[k];
    }
  }
  for (size_t i = 0; scores && i < n; i++)
    scores[i] *=
        (0.5 + 0.5 * has[i] / (q->total + 1e-9)) * (1 + LATER_WEIGHT * (double)(i + 1) / (double)n);
  return scores;
}

enum qp_rc
qp__recall_search(const struct qp__recall *r, struct qp_bytes query, struct qp__recall_hit *hits,
                  size_t max, size_t *count, struct qp_err *err)
{
  size_t n = r->source.count, found = 0;
  struct qp__recall_hit *all = qp__alloc((n + 1) * sizeof(*all));
  enum qp_rc rc = QP_OK;
  struct query q;
  double *scores;

  query_init(&q, query);
  scores = score_all(r, &q);
  if (!all || !scores) {
    rc = qp__fail_nomem(err, what);
    goto out;
  }
  for (size_t i = 0; i < n; i++)
    if (scores[i] > 0 && !r->documents[i].is_copied)
      all[found++] =
          (struct qp__recall_hit){ r->source.first + i, r->source.messages[i]->id, scores[i] };
  qsort(all, found, sizeof(*all), by_score);
  *count = found < max ? found : max;
  memcpy(hits, all, *count * sizeof(*hits));
out:
  qp__free(scores);
  qp__free(all);
  return rc;
}

/* ---- showing ---- */

static const struct document *
document_at(const struct qp__recall *r, uint64_t at)
{
  return at >= r->source.first && at - r->source.first < r->source.count
             ? &r->documents[at - r->source.first]
             : NULL;
}

/* How many words of the query a piece of text has, by weight. */
static double
weigh(const struct query *q, struct qp_bytes text)
{
  bool seen[QP__RECALL_QUERY] = { false };
  struct qp__lexer lexer;
  struct qp__lexeme l;
  double sum = 0;

  qp__lexer_init(&lexer, text);
  while (qp__lexer_next(&lexer, &l)) {
    uint64_t key = qp__lex_key(&l);

    for (size_t i = 0; i < q->count; i++)
      if (q->keys[i] == key && !seen[i]) {
        seen[i] = true;
        sum += q->weights[i];
      }
  }
  return sum;
}

static size_t
char_start(struct qp_bytes text, size_t i)
{
  while (i && i < text.len && (text.data[i] & 0xc0) == 0x80)
    i--;
  return i;
}

enum qp_rc
qp__recall_snippet(const struct qp__recall *r, uint64_t at, struct qp_bytes query,
                   struct qp__buf *out, struct qp_err *err)
{
  const struct document *d = document_at(r, at);
  size_t best = 0, end;
  double best_weight = -1;
  struct query q;

  if (!d)
    return qp__fail(err, QP_NOTFOUND, "message #%llu is not covered", (unsigned long long)at);
  query_init(&q, query);
  for (size_t i = 0; i == 0 || i + QP__RECALL_SNIPPET / 2 < d->text.len;
       i += QP__RECALL_SNIPPET / 2) {
    size_t n = d->text.len - i < QP__RECALL_SNIPPET ? d->text.len - i : QP__RECALL_SNIPPET;
    double weight = weigh(&q, (struct qp_bytes){ d->text.data + i, n });

    if (weight > best_weight) {
      best_weight = weight;
      best = i;
    }
  }
  end = best + QP__RECALL_SNIPPET < d->text.len ? char_start(d->text, best + QP__RECALL_SNIPPET)
                                                : d->text.len;
  best = char_start(d->text, best);
  if (best)
    (void)qp__buf_add_str(out, "…");
  for (size_t i = best; i < end; i++)
    (void)qp__buf_add_char(out, d->text.data[i] == '\n' ? ' ' : d->text.data[i]);
  if (end < d->text.len)
    (void)qp__buf_add_str(out, "…");
  return qp__buf_check(out, what, err);
}

static const char *
speaker(const struct qp_message *m)
{
  return m->has_result                  ? "tool output"
         : m->role == QP_ROLE_ASSISTANT ? "assistant"
         : m->role == QP_ROLE_SYSTEM    ? "note"
                                        : "user";
}

enum qp_rc
qp__recall_for(const struct qp__recall *r, struct qp_bytes message, int64_t budget,
               struct qp__buf *out, struct qp_err *err)
{
  struct qp__recall_hit hits[10];
  size_t n = 0;
  struct qp__buf line;
  struct query q;
  enum qp_rc rc = qp__recall_search(r, message, hits, 10, &n, err);

  query_init(&q, message);
  qp__buf_init(&line, 1 << 20);
  for (size_t i = 0; !rc && i < n; i++) {
    const struct document *d = document_at(r, hits[i].at);
    int64_t cost;

    if (weigh(&q, d->text) < 2 * WORD_WEIGHT)
      continue;
    qp__buf_reset(&line);
    (void)qp__buf_addf(&line, "#%llu %s: ", (unsigned long long)hits[i].at,
                       speaker(r->source.messages[hits[i].at - r->source.first]));
    rc = qp__recall_snippet(r, hits[i].at, message, &line, err);
    cost = rc ? 0 : qp__count_text(qp__buf_bytes(&line)) + 2;
    if (rc || cost > budget)
      continue;
    budget -= cost;
    (void)qp__buf_addf(out, "%s%s", out->len ? "\n" : "", line.data);
  }
  qp__buf_release(&line);
  return rc ? rc : qp__buf_check(out, what, err);
}

enum qp_rc
qp__recall_read(const struct qp__recall *r, uint64_t at, size_t from, int64_t budget,
                struct qp__buf *out, uint64_t *next, size_t *offset, struct qp_err *err)
{
  if (!document_at(r, at))
    return qp__fail(err, QP_NOTFOUND, "message #%llu is not covered", (unsigned long long)at);
  *next = 0;
  *offset = 0;
  for (; document_at(r, at); at++, from = 0) {
    const struct document *d = document_at(r, at);
    const struct qp_message *m = r->source.messages[at - r->source.first];
    struct qp_bytes text = d->text;
    size_t low = 0, high, heading;

    from = char_start(text, from < text.len ? from : text.len);
    text.data += from;
    text.len -= from;
    heading = d->call.len < CALL_MAX ? d->call.len : 0;
    budget -= 12 + qp__count_text((struct qp_bytes){ d->call.data, heading });
    for (high = text.len; low < high && budget > 0;) {
      size_t mid = low + (high - low + 1) / 2;

      if (mid / 16 > (size_t)budget || qp__count_text((struct qp_bytes){ text.data, mid }) > budget)
        high = mid - 1;
      else
        low = mid;
    }
    low = low < text.len ? char_start(text, low) : low;
    if (budget <= 0 || (low == 0 && text.len)) {
      *next = at;
      *offset = from;
      break;
    }
    (void)qp__buf_addf(out, "%s#%llu %s%s%.*s:\n", out->len ? "\n\n" : "", (unsigned long long)at,
                       speaker(m), heading ? " of " : "", (int)heading, d->call.data);
    for (size_t c = 0; c < m->call_count; c++)
      (void)qp__buf_addf(out, "[calls %s]\n", m->calls[c].view.tool_name);
    (void)qp__buf_add(out, text.data, low);
    budget -= qp__count_text((struct qp_bytes){ text.data, low });
    if (low < text.len) {
      *next = at;
      *offset = from + low;
      break;
    }
  }
  return qp__buf_check(out, what, err);
}
