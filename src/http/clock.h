/* clock.h - the two clocks of the server. */
#ifndef QP_HTTP_CLOCK_H
#define QP_HTTP_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Microseconds of a monotonic clock; its zero is arbitrary. */
int64_t qp__clock_us(void);
/* Wall clock, milliseconds since 1970 UTC. */
int64_t qp__clock_wall_ms(void);

/* A condition whose timed waits use the monotonic clock. */
void qp__clock_cond_init(pthread_cond_t *cond);
/* The end of such a wait. */
struct timespec qp__clock_after(unsigned seconds);

#endif
