/* mem.h - every allocation of the command line. It is apart from the library's own allocator
 * because the command line uses nothing of the library but quipu.h. NULL is an answer that
 * callers handle. */
#ifndef QP_CLI_MEM_H
#define QP_CLI_MEM_H

#include <stdbool.h>
#include <stddef.h>

void *cli_realloc(void *p, size_t count, size_t size); /* p may be NULL and stays valid on NULL */
void cli_free(void *p);

/* jansson's reader drops a character where memory is out and goes on. So its allocations are
 * watched from cli_watch_json() on, and what it read counts only while cli_json_failed() is
 * false. */
void cli_watch_json(void);
/* For a program with many threads, before they start: they share heaps, one for two processors.
 * Each of its own would keep what it once needed. */
void cli_share_heaps(void);
bool cli_json_failed(void);

#endif
