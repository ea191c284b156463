/* fuzz_terminal.c - arbitrary text of a model, printed to a terminal. The first byte is the width
 * of the terminal, the second how the text is split; the output does not depend on the split, and
 * has no control characters except the styles of chat_markdown.c and line breaks. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/chat_markdown.h"
#include "cli/out.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct shown {
  char *text;
  size_t len;
};

static void
die(const char *why, const struct shown *shown)
{
  (void)fprintf(stderr, "%s:\n", why);
  (void)fwrite(shown->text, 1, shown->len, stderr);
  abort();
}

/* A style of our own at `s`: its length; else 0. */
static size_t
style_at(const char *s, size_t n)
{
  static const char *const styles[] = { "\x1b[0m", "\x1b[1m", "\x1b[36m" };

  for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++)
    if (n >= strlen(styles[i]) && memcmp(s, styles[i], strlen(styles[i])) == 0)
      return strlen(styles[i]);
  return 0;
}

static void
must_be_harmless(const struct shown *shown, bool styles)
{
  for (size_t i = 0; i < shown->len; i++) {
    unsigned char c = (unsigned char)shown->text[i];
    size_t style = styles ? style_at(shown->text + i, shown->len - i) : 0;

    if (style)
      i += style - 1;
    else if ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f)
      die("a control character", shown);
    else if (c == 0xc2 && i + 1 < shown->len && (unsigned char)shown->text[i + 1] < 0xa0)
      die("a C1 control character", shown);
  }
}

static struct shown
show_markdown(const char *text, size_t n, size_t width, size_t step)
{
  struct shown out = { NULL, 0 };
  FILE *f = open_memstream(&out.text, &out.len);
  struct chat_markdown m;

  if (!f)
    abort();
  cli_markdown_begin(&m, f);
  m.width = width;
  for (size_t at = 0; at < n;) {
    size_t piece = step && step < n - at ? step : n - at;

    cli_markdown_feed(&m, text + at, piece);
    at += piece;
  }
  cli_markdown_end(&m);
  (void)fclose(f);
  return out;
}

static void
try_text(const char *text, size_t n)
{
  struct shown out = { NULL, 0 };
  FILE *f = open_memstream(&out.text, &out.len);

  if (!f)
    abort();
  cli_put_piece(f, text, n);
  cli_put_snippet(f, text, n, 60);
  (void)fclose(f);
  must_be_harmless(&out, false);
  free(out.text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const char *text = (const char *)data + 2;
  struct shown whole;
  struct shown cut;

  if (size < 2)
    return 0;
  whole = show_markdown(text, size - 2, data[0], 0);
  cut = show_markdown(text, size - 2, data[0], data[1] % 8 + 1);
  must_be_harmless(&whole, true);
  if (whole.len != cut.len || memcmp(whole.text, cut.text, cut.len) != 0)
    die("in pieces it is shown in another way", &cut);
  free(whole.text);
  free(cut.text);
  try_text(text, size - 2);
  return 0;
}
