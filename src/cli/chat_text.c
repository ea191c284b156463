/* chat_text.c - see chat_text.h. */
#include "cli/chat_text.h"

#include <stdbool.h>
#include <string.h>

#include "cli/out.h"

void
cli_chat_put_text(FILE *f, const char *s, size_t n)
{
  for (size_t i = 0; i < n;) {
    size_t run = i;

    while (run < n && s[run] != '\n' && s[run] != '\t' && s[run] != '\r')
      run++;
    cli_put_wordn(f, s + i, run - i);
    if (run < n && s[run] != '\r') /* line breaks of another system lose their first half */
      putc(s[run], f);
    else if (run < n && (run + 1 == n || s[run + 1] != '\n'))
      cli_put_wordn(f, "\r", 1);
    i = run + 1;
  }
}

/* The marks U+200E, U+200F, U+202A to U+202E and U+2066 to U+2069, and U+061C. */
static bool
turns_writing(const unsigned char *s, size_t n)
{
  if (n >= 2 && s[0] == 0xd8 && s[1] == 0x9c)
    return true;
  if (n < 3 || s[0] != 0xe2)
    return false;
  return (s[1] == 0x80 && (s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xaa && s[2] <= 0xae))) ||
         (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9);
}

void
cli_chat_put_line(FILE *f, const char *s, size_t n, size_t max)
{
  size_t end = n > max ? max : n;

  if (n > max)
    while (end > 0 && ((unsigned char)s[end] & 0xc0) == 0x80)
      end--;
  for (size_t i = 0; i < end;) {
    size_t run = i;

    while (run < end && !turns_writing((const unsigned char *)s + run, end - run))
      run++;
    cli_put_wordn(f, s + i, run - i);
    if (run < end) { /* a byte alone is no character, so it is spelled out, and those behind it */
      cli_put_wordn(f, s + run, 1);
      run++;
    }
    i = run;
  }
  if (end < n)
    fputs("…", f);
}
