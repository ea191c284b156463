/* clock.c - the two clocks of the server. os/os.h counts milliseconds, which is too coarse for the
 * duration of a request. */
#include "http/clock.h"

#include <time.h>

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
