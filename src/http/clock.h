/* clock.h - the server's two clocks. */
#ifndef QP_HTTP_CLOCK_H
#define QP_HTTP_CLOCK_H

#include <stdint.h>

/* Microseconds of a clock that only goes forwards; its zero means nothing. */
int64_t qp__clock_us(void);
/* Wall clock, milliseconds since 1970 UTC. */
int64_t qp__clock_wall_ms(void);

#endif
