/* chat_input.c - see chat_input.h. The history is in $XDG_STATE_HOME/quipu/chat_history, by default
 * ~/.local/state/quipu/chat_history, readable only by its owner, and is saved with every line. */
#include "cli/chat_input.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/chat_interrupt.h"
#include "cli/input.h"
#include "cli/out.h"

#define LINE_LIMIT ((size_t)16 << 20)
#define HISTORY_LINES 1000
#define PROMPT_MAX 64
#define HELD_MAX 128
#define PASTE_ON "\x1b[?2004h" /* makes the terminal mark pasted text … */
#define PASTE_OFF "\x1b[?2004l"
#define PASTE_BEGIN "\x1b[200~" /* … with these */
#define PASTE_END "\x1b[201~"

struct chat_input {
  struct cli_lines lines; /* without a terminal */
  EditLine *editor;       /* with a terminal */
  History *history;       /* may be NULL, as may its file */
  char *history_file;
  char prompt[PROMPT_MAX];
  bool interrupted;
  char held[HELD_MAX]; /* bytes that are read before those of the terminal */
  size_t held_from, held_to;
  bool pastes;           /* the terminal marks pasted text */
  struct qp__buf pasted; /* pasted text of several lines: the editor shows `mark` instead … */
  char mark[HELD_MAX];   /* … "[pasted 3 lines]"; "": nothing was pasted */
  struct qp__buf text;   /* the whole line */
};

/* ---- the history ---- */

/* Creates the missing directories above a file, for their owner only. */
static void
make_parents(char *path)
{
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    (void)mkdir(path, 0700);
    *slash = '/';
  }
}

static char *
history_path(void)
{
  const char *state = getenv("XDG_STATE_HOME");
  const char *home = getenv("HOME");

  if (state && state[0] == '/')
    return qp__strf("%s/quipu/chat_history", state);
  if (home && home[0] == '/')
    return qp__strf("%s/.local/state/quipu/chat_history", home);
  return NULL;
}

/* If it has no place or cannot be read, the history starts empty. */
static void
open_history(struct chat_input *in)
{
  HistEvent event;

  in->history = history_init();
  if (!in->history)
    return;
  (void)history(in->history, &event, H_SETSIZE, HISTORY_LINES);
  (void)history(in->history, &event, H_SETUNIQUE, 1);
  in->history_file = history_path();
  if (!in->history_file)
    return;
  make_parents(in->history_file);
  (void)history(in->history, &event, H_LOAD, in->history_file);
}

static void
keep_line(struct chat_input *in)
{
  HistEvent event;

  if (!in->history || !in->text.len)
    return;
  (void)history(in->history, &event, H_ENTER, in->text.data);
  if (in->history_file)
    (void)history(in->history, &event, H_SAVE, in->history_file);
}

/* ---- the terminal ---- */

static char *
get_prompt(EditLine *editor)
{
  struct chat_input *in = NULL;
  static char none[] = "";

  (void)el_get(editor, EL_CLIENTDATA, &in);
  return in ? in->prompt : none;
}

/* The next byte of the terminal: 1, 0 at the end, or -1 if Ctrl-C was pressed. */
static int
read_terminal(struct chat_input *in, char *out)
{
  for (;;) {
    struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
                            { .fd = cli_interrupt_fd(), .events = POLLIN } };
    ssize_t got;

    if (poll(fds, 2, -1) < 0 && errno != EINTR)
      return 0;
    if (cli_interrupt_take()) {
      in->interrupted = true;
      return -1;
    }
    if (!fds[0].revents)
      continue;
    got = read(STDIN_FILENO, out, 1);
    if (got >= 0)
      return (int)got;
    if (errno != EINTR && errno != EAGAIN)
      return 0;
  }
}

static void
hold(struct chat_input *in, const char *bytes, size_t n)
{
  memcpy(in->held, bytes, n);
  in->held_from = 0;
  in->held_to = n;
}

/* Reads pasted text up to its end. False: it is too long, or the input has ended. */
static bool
read_paste(struct chat_input *in, struct qp__buf *text)
{
  static const size_t end_len = sizeof(PASTE_END) - 1;
  char c = 0;

  while (read_terminal(in, &c) == 1 && !qp__buf_add_char(text, c))
    if (text->len >= end_len && memcmp(text->data + text->len - end_len, PASTE_END, end_len) == 0) {
      text->len -= end_len;
      return true;
    }
  return false;
}

/* Terminals send line breaks as carriage returns. Those at the end are not part of the text. */
static void
plain_breaks(struct qp__buf *text)
{
  for (size_t i = 0; i < text->len; i++)
    if (text->data[i] == '\r')
      text->data[i] = '\n';
  while (text->len && text->data[text->len - 1] == '\n')
    text->len--;
  text->data[text->len] = '\0';
}

/* Handles pasted text. One line is inserted like typed text. For several lines the editor gets a
 * mark, which is replaced when the line is complete, because a line editor cannot show them. */
static void
take_paste(struct chat_input *in)
{
  struct qp__buf text;
  size_t lines = 1;

  qp__buf_init(&text, LINE_LIMIT + sizeof(PASTE_END));
  if (!read_paste(in, &text))
    goto out;
  plain_breaks(&text);
  for (size_t i = 0; i < text.len; i++)
    lines += text.data[i] == '\n';
  if (in->mark[0]) { /* the second paste is appended to the first */
    (void)qp__buf_add_char(&in->pasted, '\n');
    (void)qp__buf_add(&in->pasted, text.data, text.len);
  } else if (lines == 1 && text.len <= sizeof(in->held)) {
    hold(in, text.data, text.len);
  } else if (!qp__buf_add(&in->pasted, text.data, text.len)) {
    (void)snprintf(in->mark, sizeof(in->mark), "[pasted %zu line%s]", lines, cli_plural(lines));
    hold(in, in->mark, strlen(in->mark));
  }
out:
  qp__buf_release(&text);
}

/* The next byte for the editor: a held one, or one of the terminal. */
static int
read_byte(struct chat_input *in, char *out)
{
  static const size_t begin_len = sizeof(PASTE_BEGIN) - 1;
  char seen[sizeof(PASTE_BEGIN)];
  size_t n = 0;
  int got;

  for (;;) {
    if (in->held_from < in->held_to) {
      *out = in->held[in->held_from++];
      return 1;
    }
    got = read_terminal(in, out);
    if (got != 1 || !in->pastes || *out != '\x1b')
      return got;
    for (seen[n++] = *out; n < begin_len && seen[n - 1] == PASTE_BEGIN[n - 1]; n++)
      if ((got = read_terminal(in, seen + n)) != 1)
        return got;
    if (memcmp(seen, PASTE_BEGIN, n) == 0 && n == begin_len)
      take_paste(in);
    else
      hold(in, seen, n);
    n = 0;
  }
}

/* The next character for the editor. Bytes that are not UTF-8 are skipped. */
static int
get_char(EditLine *editor, wchar_t *out)
{
  struct chat_input *in = NULL;
  mbstate_t state = { 0 };

  (void)el_get(editor, EL_CLIENTDATA, &in);
  for (;;) {
    char byte = 0;
    int got = read_byte(in, &byte);
    size_t n;

    if (got <= 0)
      return got;
    n = mbrtowc(out, &byte, 1, &state);
    if (n == (size_t)-1)
      state = (mbstate_t){ 0 };
    else if (n != (size_t)-2)
      return 1;
  }
}

/* The editor needs the character encoding of the terminal. All our text is UTF-8, so this is
 * assumed if the environment does not name an encoding. */
static void
use_utf8(void)
{
  if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
    (void)setlocale(LC_CTYPE, "C.UTF-8");
}

static enum qp_rc
open_editor(struct chat_input *in, struct qp_err *err)
{
  const char *term = getenv("TERM");

  use_utf8();
  in->editor = el_init("quipu", stdin, stdout, stderr);
  if (!in->editor)
    return qp__fail(err, QP_IO, "cannot edit lines on this terminal");
  open_history(in);
  (void)el_set(in->editor, EL_CLIENTDATA, in);
  (void)el_set(in->editor, EL_SIGNAL, 1);
  (void)el_set(in->editor, EL_PROMPT, get_prompt);
  (void)el_set(in->editor, EL_EDITOR, "emacs");
  (void)el_set(in->editor, EL_GETCFN, get_char);
  if (in->history)
    (void)el_set(in->editor, EL_HIST, history, in->history);
  (void)el_source(in->editor, NULL); /* ~/.editrc, if it exists */
  in->pastes = !term || strcmp(term, "dumb") != 0;
  return QP_OK;
}

/* ---- life ---- */

enum qp_rc
cli_input_open(bool tty, struct chat_input **out, struct qp_err *err)
{
  struct chat_input *in = qp__alloc0(1, sizeof(*in));
  enum qp_rc rc;

  if (!in)
    return cli_fail_nomem(err);
  qp__buf_init(&in->text, SIZE_MAX / 4);
  qp__buf_init(&in->pasted, SIZE_MAX / 4);
  rc = tty ? open_editor(in, err) : cli_lines_open(&in->lines, "-", LINE_LIMIT, err);
  if (rc)
    qp__free(in);
  else
    *out = in;
  return rc;
}

void
cli_input_close(struct chat_input *in)
{
  if (!in)
    return;
  if (in->editor)
    el_end(in->editor);
  else
    cli_lines_close(&in->lines);
  if (in->history)
    history_end(in->history);
  qp__free(in->history_file);
  qp__buf_release(&in->pasted);
  qp__buf_release(&in->text);
  qp__free(in);
}

/* ---- lines ---- */

static enum qp_rc
add_text(struct chat_input *in, const char *text, size_t len, struct qp_err *err)
{
  return qp__buf_add(&in->text, text, len) ? cli_fail_nomem(err) : QP_OK;
}

/* Adds a line of the editor, with the pasted text in place of its mark. */
static enum qp_rc
add_edited(struct chat_input *in, const char *line, size_t len, struct qp_err *err)
{
  const char *mark = in->mark[0] ? memmem(line, len, in->mark, strlen(in->mark)) : NULL;
  size_t before = mark ? (size_t)(mark - line) : len;
  enum qp_rc rc = add_text(in, line, before, err);

  if (mark && !rc)
    rc = add_text(in, in->pasted.data, in->pasted.len, err);
  if (mark && !rc)
    rc = add_text(in, mark + strlen(in->mark), len - before - strlen(in->mark), err);
  qp__buf_reset(&in->pasted);
  in->mark[0] = '\0';
  return rc;
}

static enum qp_rc
edited_line(struct chat_input *in, enum chat_typed *typed, struct qp_err *err)
{
  const char *line;
  int len = 0;

  in->interrupted = false;
  if (in->pastes)
    fputs(PASTE_ON, stdout);
  cli_interrupt_listen(true);
  line = el_gets(in->editor, &len);
  cli_interrupt_listen(false);
  if (in->pastes)
    fputs(PASTE_OFF, stdout);
  if (!line || len <= 0) {
    *typed = in->interrupted ? CHAT_INTERRUPT : CHAT_END;
    putchar('\n');
    return cli_out_flush(err);
  }
  *typed = CHAT_LINE;
  while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
    len--;
  return add_edited(in, line, (size_t)len, err);
}

/* Waits for input or Ctrl-C, unless a complete line was received already. */
static bool
interrupted_before_line(const struct chat_input *in)
{
  const struct cli_lines *l = &in->lines;
  struct pollfd fds[] = { { .fd = l->fd, .events = POLLIN },
                          { .fd = cli_interrupt_fd(), .events = POLLIN } };

  if (l->eof || (l->end > l->start && memchr(l->data + l->start, '\n', l->end - l->start)))
    return cli_interrupt_take();
  cli_interrupt_listen(true);
  while (poll(fds, 2, -1) < 0 && errno == EINTR) {
    /* a signal; if it was Ctrl-C the pipe is readable */
  }
  cli_interrupt_listen(false);
  return cli_interrupt_take();
}

static enum qp_rc
plain_line(struct chat_input *in, enum chat_typed *typed, struct qp_err *err)
{
  struct qp_bytes line = { "", 0 };
  bool more = false;
  enum qp_rc rc;

  *typed = CHAT_INTERRUPT;
  if (interrupted_before_line(in))
    return QP_OK;
  rc = cli_lines_next(&in->lines, &line, &more, err);
  if (rc)
    return rc;
  *typed = more ? CHAT_LINE : CHAT_END;
  if (line.len && line.data[line.len - 1] == '\r')
    line.len--;
  return more ? add_text(in, line.data, line.len, err) : QP_OK;
}

enum qp_rc
cli_input_line(struct chat_input *in, const char *prompt, const char *preset, bool keep,
               enum chat_typed *typed, const char **line, struct qp_err *err)
{
  enum qp_rc rc = cli_out_flush(err); /* earlier output must be visible before the prompt */

  if (rc)
    return rc;
  qp__buf_reset(&in->text);
  (void)snprintf(in->prompt, sizeof(in->prompt), "%s", prompt);
  if (in->editor && preset)
    el_push(in->editor, preset);
  for (;;) {
    size_t from = in->text.len;

    rc = in->editor ? edited_line(in, typed, err) : plain_line(in, typed, err);
    if (rc || *typed == CHAT_INTERRUPT || (*typed == CHAT_END && !from))
      return rc;
    if (*typed == CHAT_END || in->text.len == from || in->text.data[in->text.len - 1] != '\\')
      break;
    in->text.data[in->text.len - 1] = '\n';
    (void)snprintf(in->prompt, sizeof(in->prompt), "  ");
  }
  *typed = CHAT_LINE;
  if (keep && in->editor)
    keep_line(in);
  *line = qp__buf_bytes(&in->text).data;
  return QP_OK;
}
