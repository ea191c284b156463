/* chat_markdown.h - the text of an answer on a terminal, as it arrives: wrapped between words at
 * the right edge, and the usual Markdown shown instead of spelled.
 *
 * Shown: headings and **bold** in bold, `code` and fenced blocks in colour, "- " as a bullet. The
 * rest is printed as it is. Lines of fenced blocks and of tables are never wrapped. Control
 * characters are spelled out (cli_put_wordn). */
#ifndef QP_CLI_CHAT_MARKDOWN_H
#define QP_CLI_CHAT_MARKDOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define CHAT_WORD_MAX 512 /* bytes; a longer word is printed in pieces */

struct chat_markdown {
  FILE *f;
  size_t width;  /* columns of the terminal; 0: no wrapping */
  size_t column; /* that the next character gets */
  size_t indent; /* of lines that a wrap begins */
  char word[CHAT_WORD_MAX];
  size_t word_len;
  size_t spaces; /* blanks before the word; dropped when the word is wrapped */
  size_t ticks;  /* backticks that were read and may be the beginning of a fence */
  size_t stars;  /* asterisks likewise, of "**" */
  size_t hashes; /* '#' at the beginning of a line */
  bool at_start; /* nothing but what is counted above stands on this line */
  bool fenced, fence_line, heading, table, bold, code;
  bool style_bold, style_code; /* what the terminal shows now */
};

void cli_markdown_begin(struct chat_markdown *m, FILE *f);
void cli_markdown_feed(struct chat_markdown *m, const char *text, size_t len);
/* Prints what is held back and ends every style. The line is not ended. */
void cli_markdown_end(struct chat_markdown *m);

#endif
