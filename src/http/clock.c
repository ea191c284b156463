/* clock.c - the two clocks of the server. os/os.h counts milliseconds, which is too coarse for the
 * duration of a request. */
#include "http/clock.h"

int64_t
qp__clock_us(void)
{
  struct timespec t = { 0 };

  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t
qp__clock_wall_ms(void)
{
  struct timespec t = { 0 };

  (void)clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void
qp__clock_cond_init(pthread_cond_t *cond)
{
  pthread_condattr_t attr;

  (void)pthread_condattr_init(&attr); /* none of these can fail on Linux */
  (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  (void)pthread_cond_init(cond, &attr);
  (void)pthread_condattr_destroy(&attr);
}

struct timespec
qp__clock_after(unsigned seconds)
{
  struct timespec t = { 0 };

  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  t.tv_sec += (time_t)seconds;
  return t;
}
