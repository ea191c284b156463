/* pg_proxy.h - stands between a store and its PostgreSQL server, and cuts a connection behind a
 * chosen message of the protocol, as a statement or a row of an answer is. One per process. */
#ifndef PG_PROXY_H
#define PG_PROXY_H

#include <stdbool.h>
#include <stddef.h>

enum pg_direction { PG_TO_SERVER, PG_TO_CLIENT };

/* `url` ends in host=DIR; *out gets the same with the directory of the proxy. */
void pg_proxy_start(const char *url, char *out, size_t size);
void pg_proxy_stop(void);

/* The next `passed` messages in this direction pass, of all connections together; then the
 * connection of the last one is closed, on both sides. */
void pg_proxy_cut(enum pg_direction direction, int passed);
/* Nothing is cut any more. Whether a connection was cut since pg_proxy_cut(). */
bool pg_proxy_calm(void);

#endif
