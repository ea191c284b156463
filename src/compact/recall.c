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
  struct qp_uuid id;
  float length;
  uint64_t copies; /* the term of the messages with this text; 0: it has none */
};

struct qp__recall {
  uint64_t first; /* number of the first message */
  struct document *documents;
  size_t count, cap;
  double lengths; /* of all documents */
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
read_call(const struct qp__source *source, size_t i, struct qp__arena *arena, struct qp_bytes *out,
          struct qp_err *err)
{
  const struct qp_message *m = source->messages[i];

  *out = (struct qp_bytes){ "", 0 };
  for (size_t k = i; m->has_result && k-- > 0 && i - k < QP__RECALL_LOOK_BACK;)
    for (size_t c = 0; c < source->messages[k]->call_count; c++) {
      const struct qp_tool_call *call = &source->messages[k]->calls[c].view;
      const char *args = call->arguments_json ? call->arguments_json : "";
      size_t name = strlen(call->tool_name), len = strlen(args);
      char *copy;

      if (strcmp(call->id, m->result.request_id) != 0)
        continue;
      copy = qp__arena_alloc(arena, name + len + 2);
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
add_message(struct qp__recall *r, const struct qp__source *source, size_t i,
            struct qp__arena *arena, struct qp_err *err)
{
  const struct qp_message *m = source->messages[i];
  uint32_t at = (uint32_t)r->count;
  struct qp_bytes text, call;
  struct document *d;
  enum qp_rc rc = qp__source_text(m, arena, &text, err);

  if (!rc)
    rc = read_call(source, i, arena, &call, err);
  if (rc)
    return rc;
  if (!qp__vec_push(r->documents, r->count, r->cap, (struct document){ .id = m->id }))
    return qp__fail_nomem(err, what);
  rc = add_text(r, text, at, err);
  if (!rc)
    rc = add_text(r, call, at, err);
  for (size_t c = 0; !rc && c < m->call_count; c++) {
    const char *args = m->calls[c].view.arguments_json ? m->calls[c].view.arguments_json : "";
    const char *name = m->calls[c].view.tool_name;

    rc = add_text(r, (struct qp_bytes){ name, strlen(name) }, at, err);
    if (!rc)
      rc = add_text(r, (struct qp_bytes){ args, strlen(args) }, at, err);
  }
  d = &r->documents[at];
  r->lengths += (double)d->length;
  if (rc || !text.len)
    return rc;
  d->copies = hash_text(text) ^ hash_text(call) * 3;
  d->copies = d->copies ? d->copies : 1;
  return add_term(r, d->copies, at, 1, err);
}

enum qp_rc
qp__recall_new(struct qp__recall **out, struct qp_err *err)
{
  struct qp__recall *r = qp__alloc0(1, sizeof(*r));

  if (!r || !grow_terms(r)) {
    qp__free(r);
    return qp__fail_nomem(err, what);
  }
  *out = r;
  return QP_OK;
}

enum qp_rc
qp__recall_add(struct qp__recall *r, const struct qp__source *source, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (!r->first)
    r->first = source->first;
  assert(source->first <= qp__recall_next(r) && r->count + source->count < UINT32_MAX);
  for (size_t i = 0; !rc && i < source->count; i++) {
    struct qp__arena arena = { NULL };

    if (source->first + i >= qp__recall_next(r))
      rc = add_message(r, source, i, &arena, err);
    qp__arena_release(&arena);
  }
  return rc;
}

uint64_t
qp__recall_next(const struct qp__recall *r)
{
  return r->first ? r->first + r->count : 0;
}

size_t
qp__recall_bytes(const struct qp__recall *r)
{
  return sizeof(*r) + r->cap * sizeof(*r->documents) + r->table_size * sizeof(*r->table) +
         r->posting_cap * sizeof(*r->postings) + r->link_cap * sizeof(*r->links);
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

/* What one word of a query adds to the score of one message. */
struct share {
  uint32_t message;
  uint32_t word;
  double score;
};

static int
by_message(const void *a, const void *b)
{
  const struct share *x = a, *y = b;

  if (x->message != y->message)
    return x->message < y->message ? -1 : 1;
  return x->word < y->word ? -1 : x->word > y->word;
}

/* Appends the shares of one word, of messages before `end`. */
static size_t
add_shares(const struct qp__recall *r, const struct query *q, size_t word, size_t end,
           struct share *out)
{
  const struct term *t = find_term(r, q->keys[word]);
  double n = (double)r->count, average = r->lengths / n + 1;
  double idf = doublings(1 + (n - t->messages + 0.5) / (t->messages + 0.5));
  size_t count = 0, seen = 0;

  for (uint32_t p = t->key ? t->last : 0; p && seen < QP__RECALL_POSTINGS;
       p = r->links[p - 1], seen++) {
    const struct posting *posting = &r->postings[p - 1];
    double length = (double)r->documents[posting->message].length / average;
    double tf = (double)posting->count;

    if (posting->message < end)
      out[count++] = (struct share){ posting->message, (uint32_t)word,
                                     q->weights[word] * idf * tf * (K1 + 1) /
                                         (tf + K1 * (1 - B + B * length)) };
  }
  return count;
}

/* Whether a later message before `end` has the same text. */
static bool
is_copied(const struct qp__recall *r, uint32_t message, size_t end)
{
  uint64_t key = r->documents[message].copies;
  uint32_t p = key ? find_term(r, key)->last : 0;

  while (p && r->postings[p - 1].message >= end)
    p = r->links[p - 1];
  return p && r->postings[p - 1].message != message;
}

/* Adds up the shares of each message. Returns the number of hits. */
static size_t
add_up(const struct qp__recall *r, const struct query *q, const struct share *shares, size_t count,
       size_t end, struct qp__recall_hit *hits)
{
  size_t found = 0;

  for (size_t i = 0; i < count;) {
    uint32_t message = shares[i].message;
    double score = 0, has = 0;

    for (; i < count && shares[i].message == message; i++) {
      score += shares[i].score;
      has += q->weights[shares[i].word];
    }
    score *= (0.5 + 0.5 * has / (q->total + 1e-9)) *
             (1 + LATER_WEIGHT * (double)(message + 1) / (double)r->count);
    if (score > 0 && !is_copied(r, message, end))
      hits[found++] =
          (struct qp__recall_hit){ r->first + message, r->documents[message].id, score };
  }
  return found;
}

enum qp_rc
qp__recall_search(const struct qp__recall *r, struct qp_bytes query, uint64_t last,
                  struct qp__recall_hit *hits, size_t max, size_t *count, struct qp_err *err)
{
  size_t end = last < r->first                  ? 0
               : last - r->first + 1 < r->count ? last - r->first + 1
                                                : r->count;
  struct qp__recall_hit *all = NULL;
  struct share *shares = NULL;
  size_t room = 0, n = 0;
  enum qp_rc rc = QP_OK;
  struct query q;

  query_init(&q, query);
  for (size_t k = 0; k < q.count; k++) {
    size_t messages = find_term(r, q.keys[k])->messages;

    room += messages < QP__RECALL_POSTINGS ? messages : QP__RECALL_POSTINGS;
  }
  *count = 0;
  if (!room)
    return QP_OK;
  shares = qp__alloc(room * sizeof(*shares));
  all = qp__alloc(room * sizeof(*all));
  if (!all || !shares) {
    rc = qp__fail_nomem(err, what);
    goto out;
  }
  for (size_t k = 0; k < q.count; k++)
    n += add_shares(r, &q, k, end, shares + n);
  qsort(shares, n, sizeof(*shares), by_message);
  n = add_up(r, &q, shares, n, end, all);
  qsort(all, n, sizeof(*all), by_score);
  *count = n < max ? n : max;
  memcpy(hits, all, *count * sizeof(*hits));
out:
  qp__free(shares);
  qp__free(all);
  return rc;
}

/* ---- showing ---- */

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
qp__recall_snippet(struct qp_bytes text, struct qp_bytes query, struct qp__buf *out,
                   struct qp_err *err)
{
  size_t best = 0, end;
  double best_weight = -1;
  struct query q;

  query_init(&q, query);
  for (size_t i = 0; i == 0 || i + QP__RECALL_SNIPPET / 2 < text.len; i += QP__RECALL_SNIPPET / 2) {
    size_t n = text.len - i < QP__RECALL_SNIPPET ? text.len - i : QP__RECALL_SNIPPET;
    double weight = weigh(&q, (struct qp_bytes){ text.data + i, n });

    if (weight > best_weight) {
      best_weight = weight;
      best = i;
    }
  }
  end =
      best + QP__RECALL_SNIPPET < text.len ? char_start(text, best + QP__RECALL_SNIPPET) : text.len;
  best = char_start(text, best);
  if (best)
    (void)qp__buf_add_str(out, "…");
  for (size_t i = best; i < end; i++)
    (void)qp__buf_add_char(out, text.data[i] == '\n' ? ' ' : text.data[i]);
  if (end < text.len)
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
qp__recall_show(struct qp_bytes query, struct qp__recall_hit *hits,
                const struct qp_message *const *messages, size_t *count, int64_t budget,
                struct qp__buf *out, struct qp_err *err)
{
  struct qp__arena arena = { NULL };
  size_t shown = 0;
  struct qp__buf line;
  struct query q;
  enum qp_rc rc = QP_OK;

  query_init(&q, query);
  qp__buf_init(&line, 1 << 20);
  for (size_t i = 0; !rc && i < *count; i++) {
    struct qp_bytes text = { "", 0 };
    int64_t cost;

    rc = qp__source_text(messages[i], &arena, &text, err);
    if (rc || weigh(&q, text) < 2 * WORD_WEIGHT)
      continue;
    qp__buf_reset(&line);
    (void)qp__buf_addf(&line, "#%llu %s: ", (unsigned long long)hits[i].at, speaker(messages[i]));
    rc = qp__recall_snippet(text, query, &line, err);
    cost = rc ? 0 : qp__count_text(qp__buf_bytes(&line)) + 2;
    if (rc || cost > budget)
      continue;
    budget -= cost;
    (void)qp__buf_addf(out, "%s%s", out->len ? "\n" : "", line.data);
    hits[shown++] = hits[i];
  }
  *count = shown;
  qp__buf_release(&line);
  qp__arena_release(&arena);
  return rc ? rc : qp__buf_check(out, what, err);
}

/* The number of bytes of a text that have at most so many tokens. */
static size_t
fit(struct qp_bytes text, int64_t budget)
{
  size_t low = 0, high = text.len;

  while (low < high && budget > 0) {
    size_t mid = low + (high - low + 1) / 2;

    if (mid / 16 > (size_t)budget || qp__count_text((struct qp_bytes){ text.data, mid }) > budget)
      high = mid - 1;
    else
      low = mid;
  }
  return low < text.len ? char_start(text, low) : low;
}

enum qp_rc
qp__recall_read(const struct qp__source *source, uint64_t at, size_t from, int64_t budget,
                struct qp__buf *out, uint64_t *next, size_t *offset, struct qp_err *err)
{
  struct qp__arena arena = { NULL };
  enum qp_rc rc = QP_OK;

  if (at < source->first || at - source->first >= source->count)
    return qp__fail(err, QP_NOTFOUND, "message #%llu does not exist", (unsigned long long)at);
  *next = 0;
  *offset = 0;
  for (; !rc && at - source->first < source->count; at++, from = 0) {
    const struct qp_message *m = source->messages[at - source->first];
    struct qp_bytes text, call;
    size_t shown, heading;

    rc = qp__source_text(m, &arena, &text, err);
    if (!rc)
      rc = read_call(source, (size_t)(at - source->first), &arena, &call, err);
    if (rc)
      break;
    from = char_start(text, from < text.len ? from : text.len);
    text.data += from;
    text.len -= from;
    heading = call.len < CALL_MAX ? call.len : 0;
    budget -= 12 + qp__count_text((struct qp_bytes){ call.data, heading });
    shown = fit(text, budget);
    if (budget <= 0 || (shown == 0 && text.len)) {
      *next = at;
      *offset = from;
      break;
    }
    (void)qp__buf_addf(out, "%s#%llu %s%s%.*s:\n", out->len ? "\n\n" : "", (unsigned long long)at,
                       speaker(m), heading ? " of " : "", (int)heading, call.data);
    for (size_t c = 0; c < m->call_count; c++)
      (void)qp__buf_addf(out, "[calls %s]\n", m->calls[c].view.tool_name);
    (void)qp__buf_add(out, text.data, shown);
    budget -= qp__count_text((struct qp_bytes){ text.data, shown });
    if (shown < text.len) {
      *next = at;
      *offset = from + shown;
      break;
    }
  }
  qp__arena_release(&arena);
  return rc ? rc : qp__buf_check(out, what, err);
}
