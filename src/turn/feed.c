/* feed.c - see feed.h. */
#include "turn/feed.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#define EVENT_MAX ((size_t)1 << 20)
#define LINE_COST 128 /* the largest size of a line without its data */

void
qp__feed_init(struct qp__feed *feed)
{
  memset(feed, 0, sizeof(*feed));
  feed->last = &feed->first;
}

static void
free_lines(struct qp__line *line)
{
  while (line) {
    struct qp__line *next = line->next;

    qp__free(line);
    line = next;
  }
}

void
qp__feed_release(struct qp__feed *feed)
{
  free_lines(feed->first);
  qp__feed_init(feed);
}

/* ---- subscribers ---- */

void
qp__sub_ref(struct qp_subscription *sub)
{
  (void)pthread_mutex_lock(&sub->lock);
  sub->refs++;
  (void)pthread_mutex_unlock(&sub->lock);
}

void
qp__sub_unref(struct qp_subscription *sub)
{
  bool last;

  (void)pthread_mutex_lock(&sub->lock);
  QP_ASSERT(sub->refs);
  last = --sub->refs == 0;
  (void)pthread_mutex_unlock(&sub->lock);
  if (!last)
    return;
  free_lines(sub->backlog);
  (void)pthread_mutex_destroy(&sub->lock);
  qp__free(sub);
}

void
qp__sub_deliver(struct qp_subscription *sub, const struct qp_event_info *event)
{
  if (event->seq <= sub->seen)
    return;
  sub->seen = event->seq;
  (void)pthread_mutex_lock(&sub->lock);
  if (!sub->dead && sub->engine)
    sub->fn(sub->arg, event);
  (void)pthread_mutex_unlock(&sub->lock);
}

void
qp__sub_end(struct qp_subscription *sub)
{
  (void)pthread_mutex_lock(&sub->lock);
  if (!sub->dead && sub->engine)
    sub->fn(sub->arg, NULL);
  sub->engine = NULL;
  (void)pthread_mutex_unlock(&sub->lock);
}

/* The line as the log holds it, without its newline. */
static enum qp_rc
write_line(struct qp__buf *out, const struct qp__line *line)
{
  char when[QP__TIME_LEN];

  qp__time_format(when, line->time);
  (void)qp__buf_addf(out, "{\"seq\":%llu,\"time\":\"%.*s\",\"type\":\"%s\"%s",
                     (unsigned long long)line->seq, QP__TIME_LEN, when, line->type,
                     line->len > 2 ? "," : "");
  return qp__buf_add(out, line->data + 1, line->len - 1);
}

/* When out of memory, the subscription ends; the client can subscribe again. */
static void
tell_line(struct qp_subscription *sub, const struct qp__line *line)
{
  struct qp__buf text;

  qp__buf_init(&text, EVENT_MAX + 256);
  if (write_line(&text, line))
    qp__sub_end(sub);
  else
    qp__sub_deliver(
        sub, &(struct qp_event_info){ line->seq, line->time, line->type, qp__buf_bytes(&text) });
  qp__buf_release(&text);
}

static enum qp_rc
add_backlog(struct qp_subscription *sub, const struct qp__line *line)
{
  struct qp__line *copy = qp__alloc(sizeof(*copy) + line->len + 1);

  if (!copy)
    return QP_NOMEM;
  memcpy(copy, line, sizeof(*copy) + line->len + 1);
  copy->next = NULL;
  *sub->backlog_end = copy;
  sub->backlog_end = &copy->next;
  return QP_OK;
}

static void
offer(struct qp_subscription *sub, const struct qp__line *line)
{
  if (!sub->reading)
    tell_line(sub, line);
  else if (add_backlog(sub, line))
    qp__sub_end(sub);
}

void
qp__sub_catch_up(struct qp_subscription *sub)
{
  struct qp__line *line = sub->backlog;

  sub->reading = false;
  sub->backlog = NULL;
  sub->backlog_end = &sub->backlog;
  for (const struct qp__line *at = line; at; at = at->next)
    tell_line(sub, at);
  free_lines(line);
}

enum qp_rc
qp__feed_subscribe(struct qp__feed *feed, struct qp_subscription *sub, struct qp_err *err)
{
  for (const struct qp__line *line = feed->first; sub->reading && line; line = line->next)
    if (line->view == QP__LINE_SHOWN && add_backlog(sub, line))
      return qp__fail_nomem(err, "subscribing to a context");
  sub->next = feed->subs;
  feed->subs = sub;
  qp__sub_ref(sub);
  return QP_OK;
}

bool
qp__sub_is_gone(struct qp_subscription *sub)
{
  bool gone;

  (void)pthread_mutex_lock(&sub->lock);
  gone = sub->dead || !sub->engine;
  (void)pthread_mutex_unlock(&sub->lock);
  return gone;
}

void
qp__feed_remove_ended(struct qp__feed *feed)
{
  struct qp_subscription **at = &feed->subs;

  while (*at) {
    struct qp_subscription *sub = *at;

    if (qp__sub_is_gone(sub)) {
      *at = sub->next;
      qp__sub_unref(sub);
    } else {
      at = &sub->next;
    }
  }
}

void
qp__feed_end_subs(struct qp__feed *feed)
{
  for (struct qp_subscription *sub = feed->subs; sub; sub = sub->next)
    qp__sub_end(sub);
  qp__feed_remove_ended(feed);
}

/* ---- lines ---- */

enum qp_rc
qp__feed_add(struct qp__feed *feed, const char *type, json_t *data, int64_t now, bool held,
             struct qp_err *err)
{
  struct qp__line *line = NULL;
  struct qp__buf text;
  enum qp_rc rc;

  if (!data)
    return qp__fail_nomem(err, "an event");
  qp__buf_init(&text, EVENT_MAX);
  (void)qp__json_write(&text, data);
  json_decref(data);
  rc = qp__buf_check(&text, "an event", err);
  if (!rc) {
    line = qp__alloc0(1, sizeof(*line) + text.len + 1);
    if (!line)
      rc = qp__fail_nomem(err, "an event");
  }
  if (line) {
    line->seq = feed->next_seq++;
    line->time = now;
    line->type = type;
    line->view = held ? QP__LINE_HELD : QP__LINE_READY;
    line->len = text.len;
    memcpy(line->data, text.data, text.len);
    *feed->last = line;
    feed->last = &line->next;
    feed->count++;
    feed->unstaged += line->len + LINE_COST;
    if (!feed->unshown)
      feed->unshown = line;
  }
  qp__buf_release(&text);
  return rc;
}

static bool
is_finished(const struct qp__line *line)
{
  return line->view == QP__LINE_SHOWN && line->save == QP__LINE_ENDED;
}

/* Frees the finished lines at the beginning. */
static void
trim(struct qp__feed *feed)
{
  while (feed->first && is_finished(feed->first)) {
    struct qp__line *line = feed->first;

    feed->first = line->next;
    feed->count--;
    qp__free(line);
  }
  if (!feed->first)
    feed->last = &feed->first;
}

void
qp__feed_show(struct qp__feed *feed)
{
  while (feed->unshown && feed->unshown->view != QP__LINE_HELD) {
    struct qp__line *line = feed->unshown;

    feed->unshown = line->next;
    QP_ASSERT(line->view == QP__LINE_READY);
    line->view = QP__LINE_SHOWN;
    for (struct qp_subscription *sub = feed->subs; sub; sub = sub->next)
      offer(sub, line);
  }
  trim(feed);
}

bool
qp__feed_has_unstaged(const struct qp__feed *feed)
{
  return feed->unstaged > 0;
}

struct qp_event *
qp__feed_stage(struct qp__feed *feed, size_t *count)
{
  struct qp_event *events;
  size_t n = 0;

  for (const struct qp__line *line = feed->first; line; line = line->next)
    n += line->save == QP__LINE_NEW;
  *count = n;
  if (n == 0)
    return NULL;
  events = qp__alloc0(n, sizeof(*events));
  if (!events)
    return NULL;
  n = 0;
  for (struct qp__line *line = feed->first; line; line = line->next) {
    if (line->save != QP__LINE_NEW)
      continue;
    line->save = QP__LINE_STAGED;
    events[n].seq = line->seq;
    events[n].time = line->time;
    events[n].type = line->type;
    events[n].data = (struct qp_bytes){ line->data, line->len };
    n++;
  }
  feed->unstaged = 0;
  return events;
}

void
qp__feed_unstage(struct qp__feed *feed, uint64_t from, uint64_t upto)
{
  for (struct qp__line *line = feed->first; line; line = line->next)
    if (line->seq >= from && line->seq < upto && line->save == QP__LINE_STAGED) {
      line->save = QP__LINE_NEW;
      feed->unstaged += line->len + LINE_COST;
    }
}

void
qp__feed_saved(struct qp__feed *feed, uint64_t from, uint64_t upto)
{
  for (struct qp__line *line = feed->first; line; line = line->next)
    if (line->seq >= from && line->seq <= upto) {
      QP_ASSERT(line->save == QP__LINE_STAGED);
      if (line->view == QP__LINE_HELD)
        line->view = QP__LINE_READY;
      line->save = QP__LINE_ENDED;
    }
  qp__feed_show(feed);
}

void
qp__feed_drop(struct qp__feed *feed, uint64_t from, uint64_t upto)
{
  struct qp__line **at = &feed->first;

  feed->unshown = NULL;
  while (*at) {
    struct qp__line *line = *at;

    if (line->seq >= from && line->seq <= upto) {
      if (line->save == QP__LINE_NEW)
        feed->unstaged -= line->len + LINE_COST;
      line->save = QP__LINE_ENDED;
      if (line->view != QP__LINE_SHOWN) {
        *at = line->next;
        feed->count--;
        qp__free(line);
        continue;
      }
    }
    if (line->view != QP__LINE_SHOWN && !feed->unshown)
      feed->unshown = line;
    at = &line->next;
  }
  feed->last = at;
  qp__feed_show(feed);
}

/* ---- rules ---- */

const char *
qp__feed_violation(const struct qp__feed *feed)
{
  struct qp__line *const *end = &feed->first;
  const struct qp__line *unshown = NULL;
  uint64_t seq = 0;
  size_t count = 0;
  size_t unstaged = 0;

  for (const struct qp__line *line = feed->first; line; line = line->next) {
    if (count && line->seq <= seq)
      return "the numbers of the lines do not ascend";
    if (unshown && line->view == QP__LINE_SHOWN)
      return "a line was shown before an earlier one";
    if (line->view == QP__LINE_HELD && line->save == QP__LINE_ENDED)
      return "a durable line is held";
    if (!unshown && line->view != QP__LINE_SHOWN)
      unshown = line;
    if (line->save == QP__LINE_NEW)
      unstaged += line->len + LINE_COST;
    seq = line->seq;
    count++;
    end = &line->next;
  }
  if (count && seq >= feed->next_seq)
    return "a line has a number that was not given out";
  if (feed->unshown != unshown)
    return "'unshown' is not the first line that was not shown";
  if (feed->unstaged != unstaged)
    return "'unstaged' is not the size of the new lines";
  if (feed->count != count || feed->last != end)
    return "the list of lines is broken";
  for (const struct qp_subscription *sub = feed->subs; sub; sub = sub->next)
    if (!sub->reading && sub->backlog)
      return "a subscriber has a backlog and nothing is read for it";
  return NULL;
}
