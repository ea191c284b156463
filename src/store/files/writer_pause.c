/* writer_pause.c - see writer_pause.h. */
#include "store/files/writer_pause.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>

#include "os/file.h"

#define PATIENCE_MS 10000 /* the longest pause that a backup gets */
#define BUSY_MS 100       /* the longest wait for `busy`, which a backup holds for an instant */
#define NAP_MS 2          /* how often a leader checks whether a pause is over */

/* ---- the writer's side ---- */

struct timespec
qp__mono_after(const struct qp__os *os, int64_t ms)
{
  int64_t until = os->mono_ms(os->self) + ms;

  return (struct timespec){ .tv_sec = (time_t)(until / 1000),
                            .tv_nsec = (long)(until % 1000) * 1000000 };
}

void
qp__gate_init(struct qp__gate *g, const struct qp__os *os, int root, int tmp,
              const struct qp__log *log)
{
  struct qp__mutex alone = QP__MUTEX_INIT(QP__RANK_NONE);

  *g = (struct qp__gate){ .os = os, .log = *log, .tmp = tmp };
  g->contexts = qp__open(os, root, "contexts", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  qp__cond_init_mono(&g->nap);
  (void)os->random(os->self, &g->session, sizeof(g->session));
  qp__mutex_lock(&alone);
  qp__gate_enter(g, &alone);
  qp__mutex_unlock(&alone);
}

void
qp__gate_release(struct qp__gate *g)
{
  if (!g->os)
    return;
  qp__close(g->os, g->contexts);
  (void)pthread_cond_destroy(&g->nap);
}

/* False: the lock was not available until the time `until`. Without `wait` it is tried once. */
static bool
lock_shared(struct qp__gate *g, struct qp__mutex *mutex, int fd, bool wait, int64_t until)
{
  int rc;

  while ((rc = qp__flock(g->os, fd, LOCK_SH | LOCK_NB)) == -EWOULDBLOCK && wait &&
         g->os->mono_ms(g->os->self) < until) {
    struct timespec ts = qp__mono_after(g->os, NAP_MS);

    (void)qp__mutex_timedwait(mutex, &g->nap, &ts);
  }
  return rc == 0;
}

void
qp__gate_enter(struct qp__gate *g, struct qp__mutex *mutex)
{
  int64_t until = g->os->mono_ms(g->os->self) + PATIENCE_MS;
  bool open = lock_shared(g, mutex, g->tmp, !g->impatient, until);

  if (!open && !g->impatient) {
    g->impatient = true;
    qp__log(&g->log, QP_LOG_WARN, "journal",
            "a backup has stopped all writes for %d seconds; continuing without waiting for it",
            PATIENCE_MS / 1000);
  }
  if (!g->inside++ && g->contexts >= 0)
    (void)lock_shared(g, mutex, g->contexts, true, g->os->mono_ms(g->os->self) + BUSY_MS);
  if (open) {
    g->impatient = false;
    (void)qp__flock(g->os, g->tmp, LOCK_UN);
  }
}

void
qp__gate_leave(struct qp__gate *g)
{
  if (!--g->inside && g->contexts >= 0)
    (void)qp__flock(g->os, g->contexts, LOCK_UN);
}

/* ---- the backup's side ---- */

/* Opens a directory and locks it. */
static int
take(const struct qp__os *os, int root, const char *name, int *out)
{
  int fd = qp__open(os, root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  int rc;

  if (fd == -ENOENT)
    return 0;
  if (fd < 0)
    return fd;
  rc = qp__flock(os, fd, LOCK_EX);
  if (rc)
    qp__close(os, fd);
  else
    *out = fd;
  return rc;
}

int
qp__pause_begin(const struct qp__os *os, int root, struct qp__pause *out)
{
  int busy = -1;
  int rc;

  out->gate = -1;
  rc = take(os, root, "tmp", &out->gate);
  if (!rc)
    rc = take(os, root, "contexts", &busy);
  qp__close(os, busy);
  if (rc)
    qp__pause_end(os, out);
  return rc;
}

void
qp__pause_end(const struct qp__os *os, struct qp__pause *p)
{
  qp__close(os, p->gate);
  p->gate = -1;
}
