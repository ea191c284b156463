/* chat_markdown.h - prints the text of an answer on a terminal as it arrives: wrapped between
 * words, with common Markdown rendered.
 *
 * Rendered: headings and **bold** in bold, `code` and fenced blocks in colour, "- " as a bullet.
 * Everything else is printed unchanged. Lines of fenced blocks and of tables are never wrapped.
 * Control characters are escaped (cli_put_wordn). */
#ifndef QP_CLI_CHAT_MARKDOWN_H
#define QP_CLI_CHAT_MARKDOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define CHAT_WORD_MAX 512 /* bytes; a longer word is printed in pieces */

struct chat_markdown {
  FILE *f;
  size_t width;  /* columns of the terminal; 0: no wrapping */
  size_t column; /* of the next character */
  size_t indent; /* of wrapped lines */
  char word[CHAT_WORD_MAX];
  size_t word_len;
  size_t spaces; /* blanks before the word; dropped if the word is wrapped */
  size_t ticks;  /* backticks that may be the beginning of a fence */
  size_t stars;  /* asterisks that may be a "**" */
  size_t hashes; /* '#' at the beginning of a line */
  bool at_start; /* this line has only the characters counted above */
  bool fenced, fence_line, heading, table, bold, code;
  bool style_bold, style_code; /* the current style of the terminal */
};

void cli_markdown_begin(struct chat_markdown *m, FILE *f);
void cli_markdown_feed(struct chat_markdown *m, const char *text, size_t len);
/* Prints held text and ends every style. Does not end the line. */
void cli_markdown_end(struct chat_markdown *m);

#endif
