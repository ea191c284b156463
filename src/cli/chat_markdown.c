/* chat_markdown.c - see chat_markdown.h. */
#define _XOPEN_SOURCE 700
#include "cli/chat_markdown.h"

#include <string.h>
#include <sys/ioctl.h>
#include <wchar.h>

#include "cli/out.h"

#define STYLE_PLAIN "\x1b[0m"
#define STYLE_BOLD "\x1b[1m"
#define STYLE_CODE "\x1b[36m"
#define WIDTH_MIN 20

/* ---- printing ---- */

static void
set_style(struct chat_markdown *m)
{
  bool bold = m->heading || m->bold;
  bool code = m->code || m->fenced || m->fence_line;

  if (bold == m->style_bold && code == m->style_code)
    return;
  fputs(STYLE_PLAIN, m->f);
  if (bold)
    fputs(STYLE_BOLD, m->f);
  if (code)
    fputs(STYLE_CODE, m->f);
  m->style_bold = bold;
  m->style_code = code;
}

/* The number of columns of a text; control characters count as their escapes, "\x1b". */
static size_t
columns(const char *text, size_t len)
{
  size_t n = 0;

  for (size_t i = 0; i < len;) {
    mbstate_t state = { 0 };
    wchar_t c = 0;
    size_t got = mbrtowc(&c, text + i, len - i, &state);
    int width = got && got < (size_t)-2 ? wcwidth(c) : -1;

    n += width < 0 ? 4 : (size_t)width;
    i += got && got < (size_t)-2 ? got : 1;
  }
  return n;
}

/* Prints the held word, on the next line if it does not fit on this one. */
static void
put_word(struct chat_markdown *m)
{
  size_t cols = columns(m->word, m->word_len);
  bool wraps = m->width && !m->fenced && !m->fence_line && !m->table;

  if (!m->word_len && !m->spaces)
    return;
  if (wraps && m->word_len && m->column > m->indent && m->column + m->spaces + cols > m->width) {
    putc('\n', m->f);
    fprintf(m->f, "%*s", (int)m->indent, "");
    m->column = m->indent;
    m->spaces = 0;
  }
  fprintf(m->f, "%*s", (int)m->spaces, "");
  m->column += m->spaces;
  cli_put_wordn(m->f, m->word, m->word_len);
  m->column += cols;
  m->word_len = m->spaces = 0;
}

static void
add_to_word(struct chat_markdown *m, char c)
{
  if (m->word_len == sizeof(m->word))
    put_word(m);
  m->word[m->word_len++] = c;
}

/* ---- marks ---- */

/* The counted characters are complete: prints them as text or applies the mark. */
static void
end_marks(struct chat_markdown *m, char next)
{
  if (m->hashes) {
    if (next == ' ' && m->hashes <= 6) {
      m->heading = true;
      set_style(m);
    } else {
      for (size_t i = 0; i < m->hashes; i++)
        add_to_word(m, '#');
    }
    m->hashes = 0;
  }
  if (m->ticks >= 3 && m->at_start) {
    m->fence_line = true;
    put_word(m);
    set_style(m);
    for (size_t i = 0; i < m->ticks; i++)
      add_to_word(m, '`');
  } else if (m->ticks == 1 && !m->fenced) {
    put_word(m);
    m->code = !m->code;
    set_style(m);
  } else {
    for (size_t i = 0; i < m->ticks; i++)
      add_to_word(m, '`');
  }
  m->ticks = 0;
  if (m->stars == 2 && !m->fenced && !m->code) {
    put_word(m);
    m->bold = !m->bold;
    set_style(m);
  } else {
    for (size_t i = 0; i < m->stars; i++)
      add_to_word(m, '*');
  }
  m->stars = 0;
}

static void
end_line(struct chat_markdown *m)
{
  end_marks(m, '\n');
  put_word(m);
  if (m->fence_line)
    m->fenced = !m->fenced;
  m->fence_line = m->heading = m->table = m->bold = m->code = false;
  set_style(m);
  putc('\n', m->f);
  m->column = m->indent = 0;
  m->at_start = true;
}

/* A '-', '*' or '+' and a blank begin a list item; its other lines are indented. */
static void
begin_item(struct chat_markdown *m)
{
  static const char bullet[] = "•";

  memcpy(m->word, bullet, sizeof(bullet) - 1);
  m->word_len = sizeof(bullet) - 1;
  m->indent = m->spaces + 2;
}

static void
feed_char(struct chat_markdown *m, char c)
{
  if (c == '\n') {
    end_line(m);
    return;
  }
  if (c == '`' && !m->stars && !m->hashes && (!m->fenced || m->at_start)) {
    m->ticks++;
    return;
  }
  if (c == '*' && !m->ticks && !m->hashes && !m->fenced && !m->code && m->stars < 2) {
    m->stars++;
    return;
  }
  if (c == '#' && m->at_start && !m->word_len && !m->spaces && !m->ticks && !m->stars &&
      !m->fenced) {
    m->hashes++;
    return;
  }
  end_marks(m, c);
  if (c == ' ' && m->heading && m->at_start) { /* the blank after the hashes */
    m->at_start = false;
    return;
  }
  if (c == ' ' || c == '\t') {
    if (m->at_start && m->word_len == 1 && strchr("-*+", m->word[0]) && !m->fenced)
      begin_item(m);
    if (m->word_len)
      put_word(m);
    m->spaces += c == ' ' ? 1 : 8 - (m->column + m->spaces) % 8;
    return;
  }
  if (m->at_start && c == '|' && !m->word_len)
    m->table = true;
  add_to_word(m, c);
  if (m->word_len > 1 || !strchr("-*+", c))
    m->at_start = false;
}

/* ---- life ---- */

void
cli_markdown_begin(struct chat_markdown *m, FILE *f)
{
  struct winsize size;

  *m = (struct chat_markdown){ .f = f, .at_start = true };
  if (ioctl(fileno(f), TIOCGWINSZ, &size) == 0 && size.ws_col >= WIDTH_MIN)
    m->width = size.ws_col;
}

void
cli_markdown_feed(struct chat_markdown *m, const char *text, size_t len)
{
  for (size_t i = 0; i < len; i++)
    if (text[i] != '\r')
      feed_char(m, text[i]);
}

void
cli_markdown_end(struct chat_markdown *m)
{
  end_marks(m, '\n');
  put_word(m);
  m->fenced = m->fence_line = m->heading = m->bold = m->code = false;
  set_style(m);
}
