/* crash_writer.h - what the process that is killed and the test that kills it agree on. */
#ifndef CRASH_WRITER_H
#define CRASH_WRITER_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define THREAD_BRANCH_LEN 208

/* The name of a thread's own branch. It is long, so that the index grows fast and is folded
 * often. */
static inline const char *
thread_branch(char out[THREAD_BRANCH_LEN], unsigned thread)
{
  (void)snprintf(out, THREAD_BRANCH_LEN, "thread-%u-%0150d", thread, 0);
  return out;
}

/* FNV-1a. */
static inline uint64_t
text_hash(const char *text, size_t len)
{
  uint64_t h = 0xcbf29ce484222325u;

  for (size_t i = 0; i < len; i++)
    h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
  return h;
}

#endif
