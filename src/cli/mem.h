/* mem.h - every allocation of the command line. It is apart from the library's own allocator
 * because the command line uses nothing of the library but quipu.h. NULL is an answer that
 * callers handle. */
#ifndef QP_CLI_MEM_H
#define QP_CLI_MEM_H

#include <stddef.h>

void *cli_realloc(void *p, size_t count, size_t size); /* p may be NULL and stays valid on NULL */
void cli_free(void *p);

#endif
