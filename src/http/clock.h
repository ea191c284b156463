/* clock.h - the two clocks of the server. */
#ifndef QP_HTTP_CLOCK_H
#define QP_HTTP_CLOCK_H

#include <stdint.h>

/* Microseconds of a monotonic clock; its zero is arbitrary. */
int64_t qp__clock_us(void);
/* Wall clock, milliseconds since 1970 UTC. */
int64_t qp__clock_wall_ms(void);

#endif
