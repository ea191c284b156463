/* ledger.c - see ledger.h: reading. ledger_bounds.c keeps it small, ledger_render.c writes. */
#include "compact/ledger.h"

#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"
#include "compact/count.h"
#include "compact/ledger_int.h"
#include "llm/content.h"

#define STATEMENTS_BACK 400 /* a statement replaces at most one of the last so many */
#define ERROR_MAX 160       /* bytes of an error */
#define DEEDS_BACK 2000
#define VALUE_MAX 120 /* bytes */
#define DEED_MAX 256  /* bytes of a command or of arguments */
#define RECENT_MAX ((size_t)64 << 10)

static const char what[] = "the ledger of a conversation";

/* ---- texts ---- */

struct qp_bytes
qp__ledger_copy(struct qp__ledger *ledger, struct qp_bytes text, size_t max)
{
  struct qp_bytes copy = { NULL, text.len < max ? text.len : max };

  copy.data = qp__arena_strndup(&ledger->arena, text.data, copy.len);
  ledger->text_bytes += (copy.len + 16) & ~(size_t)15; /* as the arena rounds up */
  return copy;
}

enum qp_rc
qp__source_text(const struct qp_message *m, struct qp__arena *arena, struct qp_bytes *out,
                struct qp_err *err)
{
  size_t texts = 0, len = 0;
  char *all;

  if (m->has_result) {
    struct qp__content content = { .text = { "", 0 } };
    enum qp_rc rc;

    if (json_is_string(m->result_value)) {
      *out = (struct qp_bytes){ json_string_value(m->result_value),
                                json_string_length(m->result_value) };
      return QP_OK;
    }
    rc = qp__content_of_result(m, false, arena, &content, err);
    if (!rc)
      *out = content.text;
    return rc;
  }
  *out = (struct qp_bytes){ "", 0 };
  for (size_t i = 0; i < m->part_count; i++)
    if (m->parts[i].view.kind == QP_PART_TEXT) {
      *out = m->parts[i].view.text;
      len += out->len + 1;
      texts++;
    }
  if (texts <= 1)
    return QP_OK;
  all = qp__arena_alloc(arena, len);
  if (!all)
    return qp__fail_nomem(err, what);
  out->data = all;
  out->len = len - 1;
  for (size_t i = 0; i < m->part_count; i++)
    if (m->parts[i].view.kind == QP_PART_TEXT) {
      const struct qp_bytes *text = &m->parts[i].view.text;

      memcpy(all, text->data, text->len);
      all += text->len;
      if (--texts)
        *all++ = '\n';
    }
  return QP_OK;
}

/* Whether a text has one of the phrases of a list "|a|b|", in any case, as whole words. */
static bool
has_phrase(struct qp_bytes text, const char *const *phrases)
{
  for (size_t i = 0; i < text.len; i++) {
    int c = tolower((unsigned char)text.data[i]);

    if (i && isalpha((unsigned char)text.data[i - 1]))
      continue;
    for (const char *const *p = phrases; *p; p++) {
      size_t k = 0;

      if ((*p)[0] != c)
        continue;
      while ((*p)[k] && i + k < text.len && tolower((unsigned char)text.data[i + k]) == (*p)[k])
        k++;
      if (!(*p)[k] && (i + k == text.len || !isalpha((unsigned char)text.data[i + k])))
        return true;
    }
  }
  return false;
}

bool
qp__reads_like_orders(struct qp_bytes text)
{
  static const char *const orders[] = {
    "ignore your",
    "ignore all",
    "ignore the above",
    "ignore previous",
    "ignore any",
    "disregard",
    "your instructions",
    "new instructions",
    "previous instructions",
    "system prompt",
    "you are now",
    "you must now",
    "run the following",
    "execute the",
    "next step",
    "as an ai",
    "do not tell the user",
    "without telling",
    "forget everything",
    "override",
    NULL,
  };

  return has_phrase(text, orders);
}

/* ---- statements of the user ---- */

static const char *const rule_words[] = {
  "do not",     "don't",     "dont",    "never",   "must",     "always",     "only",
  "no longer",  "avoid",     "without", "at most", "at least", "should not", "shouldn't",
  "not before", "make sure", "require", "forbid",  "nicht",    "niemals",    NULL,
};
static const char *const decision_words[] = {
  "let's", "lets",    "decided",   "decide",  "decision", "we will", "i will",
  "i'll",  "go with", "choose",    "chose",   "use",      "prefer",  "agreed",
  "agree", "approve", "confirmed", "instead", "switch",   "rather",  NULL,
};
static const char *const wish_words[] = {
  "want", "need", "please", "can you", "could you", "i'd like", "would like", "help", "goal", NULL,
};
static const char *const correction_words[] = {
  "actually", "correction", "instead",   "changed",     "change", "now",      "rather",
  "update",   "updated",    "no longer", "sorry",       "meant",  "moved to", "wait",
  "scratch",  "new",        "replace",   "not anymore", NULL,
};

static const char *const equals[] = { "is", "are", "will be", "equals", NULL };

static enum qp__statement_kind
statement_kind(struct qp_bytes text)
{
  if (has_phrase(text, rule_words))
    return QP__STATEMENT_RULE;
  if (has_phrase(text, decision_words))
    return QP__STATEMENT_DECISION;
  return has_phrase(text, wish_words) ? QP__STATEMENT_WISH : QP__STATEMENT_PLAIN;
}

static bool
is_correction_word(const struct qp__lexeme *l)
{
  return has_phrase((struct qp_bytes){ l->p, l->n }, correction_words);
}

/* What a sentence is about, and which values it gives. */
static void
read_keys(struct qp__statement *s)
{
  struct qp__lexer lexer;
  struct qp__lexeme l;

  qp__lexer_init(&lexer, s->text);
  while (qp__lexer_next(&lexer, &l)) {
    if (l.kind != QP__LEX_WORD) {
      if (!(s->kinds & 1u << l.kind))
        s->values[l.kind] = qp__lex_key(&l);
      s->kinds |= 1u << l.kind;
    } else if (s->key_count < QP__LEDGER_KEYS && !qp__lex_is_stop(&l) && !is_correction_word(&l)) {
      s->keys[s->key_count++] = qp__lex_key(&l);
    }
  }
}

static size_t
shared_keys(const struct qp__statement *a, const struct qp__statement *b)
{
  size_t n = 0;

  for (size_t i = 0; i < a->key_count; i++)
    for (size_t k = 0; k < b->key_count; k++)
      if (a->keys[i] == b->keys[k]) {
        n++;
        break;
      }
  return n;
}

/* Whether `later` gives another value for what `earlier` is about. */
static bool
replaces(const struct qp__statement *later, const struct qp__statement *earlier)
{
  uint32_t kinds = later->kinds & earlier->kinds & ~(1u << QP__LEX_WORD);
  size_t smaller = later->key_count < earlier->key_count ? later->key_count : earlier->key_count;
  size_t larger = later->key_count > earlier->key_count ? later->key_count : earlier->key_count;
  size_t shared;
  bool differs = false;

  if (!kinds || !smaller)
    return false;
  for (int k = 0; k < QP__LEX_KINDS; k++)
    differs = differs || ((kinds & 1u << k) && later->values[k] != earlier->values[k]);
  if (!differs)
    return false;
  shared = shared_keys(later, earlier);
  /* Two identifiers are two things, unless the identifier itself is what was corrected. */
  if ((kinds & 1u << QP__LEX_ID) && kinds != 1u << QP__LEX_ID &&
      later->values[QP__LEX_ID] != earlier->values[QP__LEX_ID])
    return false;
  if (later->correction) /* names differ: "Anna's budget" is not "Ben's budget" */
    return shared && (shared == smaller || (shared >= 3 && 4 * shared >= 3 * smaller));
  /* Without a word like "now" or "instead" only the same sentence with another value counts, when
   * it says what is: "book seat 5" does not take back "book seat 4". */
  return shared >= 2 && shared == larger && later->kind != QP__STATEMENT_WISH &&
         earlier->kind != QP__STATEMENT_WISH && later->equates && earlier->equates;
}

static struct qp__ledger_value *
find_value(const struct qp__ledger *ledger, uint64_t key)
{
  size_t i = (size_t)key & (ledger->table_size - 1);

  for (; ledger->table_size && ledger->table[i]; i = (i + 1) & (ledger->table_size - 1))
    if (ledger->values[ledger->table[i] - 1].key == key)
      return &ledger->values[ledger->table[i] - 1];
  return NULL;
}

/* Marks the statement that the newest one replaces, and its values. */
static void
replace_older(struct qp__ledger *ledger)
{
  struct qp__statement *later = &ledger->statements[ledger->statement_count - 1];
  size_t i = ledger->statement_count - 1;

  for (size_t back = 0; i > 0 && back < STATEMENTS_BACK; back++) {
    struct qp__statement *s = &ledger->statements[--i];

    if (s->replaced || !replaces(later, s))
      continue;
    s->replaced = true;
    for (int k = 0; k < QP__LEX_KINDS; k++) {
      struct qp__ledger_value *value =
          s->kinds & later->kinds & 1u << k && s->values[k] != later->values[k]
              ? find_value(ledger, s->values[k])
              : NULL;

      if (value && value->at < later->at)
        value->replaced = true;
    }
  }
}

static enum qp_rc
add_statements(struct qp__ledger *ledger, struct qp_bytes text, uint64_t at, struct qp_err *err)
{
  struct qp_bytes sentence;

  while (qp__lex_sentence(&text, &sentence)) {
    struct qp__statement s = { .text = sentence, .at = at };

    if (sentence.len > QP__LEDGER_STATEMENT)
      continue;
    s.correction = has_phrase(sentence, correction_words);
    s.equates = has_phrase(sentence, equals);
    s.kind = statement_kind(sentence);
    if (s.correction && s.kind < QP__STATEMENT_DECISION)
      s.kind = QP__STATEMENT_DECISION;
    read_keys(&s);
    if (!s.key_count && !s.kinds)
      continue; /* "Yes." */
    s.text = qp__ledger_copy(ledger, sentence, sentence.len);
    s.tokens = qp__count_text(sentence);
    if (!s.text.data ||
        !qp__vec_push(ledger->statements, ledger->statement_count, ledger->statement_cap, s))
      return qp__fail_nomem(err, what);
    replace_older(ledger);
  }
  return QP_OK;
}

/* ---- values ---- */

bool
qp__ledger_index(struct qp__ledger *ledger, size_t size)
{
  uint32_t *table = qp__alloc0(size, sizeof(*table));

  if (!table)
    return false;
  for (size_t v = 0; v < ledger->value_count; v++) {
    size_t i = (size_t)ledger->values[v].key & (size - 1);

    while (table[i])
      i = (i + 1) & (size - 1);
    table[i] = (uint32_t)v + 1;
  }
  qp__free(ledger->table);
  ledger->table = table;
  ledger->table_size = size;
  return true;
}

/* A value that was replaced and is said again counts again. */
static enum qp_rc
add_value(struct qp__ledger *ledger, const struct qp__lexeme *l, uint64_t at, bool by_user,
          enum qp__path_state state, struct qp_err *err)
{
  uint64_t key = qp__lex_key(l);
  struct qp__ledger_value *value = find_value(ledger, key);
  bool says_more = value && value->kind == QP__LEX_NUMBER && l->kind == QP__LEX_AMOUNT;
  struct qp_bytes text = { value ? value->p : NULL, value ? value->n : 0 };
  size_t i;

  if (!value || says_more) {
    text = qp__ledger_copy(ledger, (struct qp_bytes){ l->p, l->n }, VALUE_MAX);
    if (!text.data)
      return qp__fail_nomem(err, what);
  }
  if (value) {
    value->replaced = value->replaced && at <= value->at;
    value->at = at;
    value->by_user = value->by_user || by_user;
    if (state != QP__PATH_MENTIONED)
      value->state = state;
    if (says_more)
      value->kind = l->kind;
    value->p = text.data;
    value->n = text.len;
    if (says_more)
      value->tokens = qp__count_text(text);
    return QP_OK;
  }
  if (2 * (ledger->value_count + 1) > ledger->table_size &&
      !qp__ledger_index(ledger, ledger->table_size ? ledger->table_size * 2 : 1024))
    return qp__fail_nomem(err, what);
  if (!qp__vec_push(ledger->values, ledger->value_count, ledger->value_cap,
                    (struct qp__ledger_value){ .key = key,
                                               .kind = l->kind,
                                               .state = state,
                                               .p = text.data,
                                               .n = text.len,
                                               .tokens = qp__count_text(text),
                                               .at = at,
                                               .by_user = by_user }))
    return qp__fail_nomem(err, what);
  for (i = (size_t)key & (ledger->table_size - 1); ledger->table[i];)
    i = (i + 1) & (ledger->table_size - 1);
  ledger->table[i] = (uint32_t)ledger->value_count;
  return QP_OK;
}

/* Whether the name of a member of a JSON object was read last: "address1": */
static bool
is_member(const struct qp__lexer *lexer)
{
  return lexer->end - lexer->p >= 2 && lexer->p[0] == '"' && lexer->p[1] == ':';
}

static enum qp_rc
add_values(struct qp__ledger *ledger, struct qp_bytes text, uint64_t at, bool by_user,
           enum qp__path_state state, struct qp_err *err)
{
  struct qp__lexer lexer;
  struct qp__lexeme l;
  enum qp_rc rc = QP_OK;

  qp__lexer_init(&lexer, text);
  while (!rc && qp__lexer_next(&lexer, &l))
    if (l.kind != QP__LEX_WORD && l.n <= VALUE_MAX && !is_member(&lexer))
      rc = add_value(ledger, &l, at, by_user, l.kind == QP__LEX_PATH ? state : QP__PATH_MENTIONED,
                     err);
  return rc;
}

/* ---- tools ---- */

static bool
name_has(const char *name, const char *const *parts)
{
  for (; *parts; parts++)
    if (strstr(name, *parts))
      return true;
  return false;
}

static enum qp__path_state
state_of_tool(const char *name)
{
  static const char *const deletes[] = { "delete", "remove", "unlink", "trash", NULL };
  static const char *const changes[] = { "write",  "edit",  "create", "patch",  "replace",
                                         "append", "save",  "update", "insert", "move",
                                         "rename", "mkdir", "modify", "apply",  NULL };
  static const char *const reads[] = { "read", "view",   "cat",  "open", "get",  "list",
                                       "grep", "search", "find", "glob", "stat", NULL };

  if (name_has(name, deletes))
    return QP__PATH_DELETED;
  if (name_has(name, changes))
    return QP__PATH_CHANGED;
  return name_has(name, reads) ? QP__PATH_READ : QP__PATH_MENTIONED;
}

/* Whether a call changes anything, as far as its name says. */
static bool
is_change(const char *name)
{
  static const char *const looks[] = { "get",   "search", "list", "read", "find",
                                       "view",  "think",  "calc", "grep", "fetch",
                                       "query", "show",   "stat", "glob", NULL };

  return !name_has(name, looks);
}

static struct qp_bytes
bytes_of(const char *s)
{
  return (struct qp_bytes){ s ? s : "", s ? strlen(s) : 0 };
}

/* The command line that a tool is asked to run, or an empty text. */
static struct qp_bytes
command_of(const struct qp__message_call *call)
{
  static const char *const keys[] = { "command", "cmd", "script", "shell" };

  for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
    const json_t *value = json_object_get(call->arguments, keys[i]);

    if (json_is_string(value))
      return bytes_of(json_string_value(value));
  }
  return bytes_of(NULL);
}

/* "rm a b" deletes its paths. */
static enum qp__path_state
state_of_command(struct qp_bytes command)
{
  static const char *const deletes[] = { "rm ", "rm -", "rmdir ", "git rm ", NULL };

  for (size_t i = 0; deletes[i]; i++)
    if (command.len > strlen(deletes[i]) &&
        memcmp(command.data, deletes[i], strlen(deletes[i])) == 0)
      return QP__PATH_DELETED;
  return QP__PATH_MENTIONED;
}

static uint64_t
text_key(const char *a, const char *b)
{
  uint64_t h = 0xcbf29ce484222325u;

  for (const char *p = a; *p; p++)
    h = (h ^ (unsigned char)*p) * 0x100000001b3u;
  for (const char *p = b; *p; p++)
    h = (h ^ (unsigned char)*p) * 0x100000001b3u;
  return h;
}

static enum qp_rc
add_call(struct qp__ledger *ledger, const struct qp__message_call *call, uint64_t at,
         struct qp_err *err)
{
  const char *name = call->view.tool_name ? call->view.tool_name : "";
  struct qp_bytes arguments = bytes_of(call->view.arguments_json);
  struct qp_bytes command = command_of(call);
  struct qp__deed deed = { .at = at };
  enum qp__path_state state;

  deed.tool = qp__ledger_copy(ledger, bytes_of(name), DEED_MAX).data;
  deed.arguments = qp__ledger_copy(ledger, arguments, DEED_MAX);
  deed.command = qp__ledger_copy(ledger, command, DEED_MAX);
  deed.tokens = qp__count_text(deed.command);
  deed.changes = is_change(name);
  deed.orders = qp__reads_like_orders(arguments);
  deed.key = text_key(name, arguments.data);
  deed.id = text_key(call->view.id, "");
  for (size_t i = ledger->deed_count, back = 0; i-- > 0 && back < DEEDS_BACK; back++)
    if (ledger->deeds[i].key == deed.key)
      ledger->deeds[i].replaced = true;
  if (!deed.tool || !deed.arguments.data || !deed.command.data ||
      !qp__vec_push(ledger->deeds, ledger->deed_count, ledger->deed_cap, deed))
    return qp__fail_nomem(err, what);
  state = command.len ? state_of_command(command) : state_of_tool(name);
  return add_values(ledger, command.len ? command : arguments, at, false, state, err);
}

/* "exit status 2", "exit code: 2", "exit_code": 2 in a result; false: it says nothing. */
static bool
read_exit(struct qp_bytes text, int *out)
{
  static const char *const marks[] = { "exit status", "exit code", "exit_code",
                                       "exit_status", "Exit code", NULL };

  for (size_t m = 0; marks[m]; m++) {
    const char *p = memmem(text.data, text.len, marks[m], strlen(marks[m]));
    const char *end = text.data + text.len;

    if (!p)
      continue;
    for (p += strlen(marks[m]); p < end && strchr("\": =", *p) && *p; p++)
      ;
    if (p < end && isdigit((unsigned char)*p)) {
      *out = *p - '0';
      for (p++; p < end && isdigit((unsigned char)*p) && *out < 1000; p++)
        *out = *out * 10 + (*p - '0');
      return true;
    }
  }
  return false;
}

static struct qp_bytes
first_line(struct qp_bytes text)
{
  const char *stop = memchr(text.data, '\n', text.len);

  if (stop)
    text.len = (size_t)(stop - text.data);
  if (text.len > ERROR_MAX)
    text.len = ERROR_MAX;
  while (text.len && text.data[text.len - 1] && (text.data[text.len - 1] & 0xc0) == 0x80)
    text.len--;
  if (text.len && (text.data[text.len - 1] & 0xc0) == 0xc0)
    text.len--;
  return text;
}

static enum qp_rc
add_result(struct qp__ledger *ledger, const struct qp_message *m, struct qp_bytes text, uint64_t at,
           struct qp_err *err)
{
  bool failed = m->result.is_error || (text.len >= 6 && (memcmp(text.data, "Error:", 6) == 0 ||
                                                         memcmp(text.data, "error:", 6) == 0));
  struct qp_bytes line = first_line(text);
  uint64_t id = text_key(m->result.request_id, "");

  for (size_t i = ledger->open_deeds; i < ledger->deed_count; i++) {
    struct qp__deed *deed = &ledger->deeds[i];

    if (deed->id != id)
      continue;
    deed->done = true;
    deed->has_exit = read_exit(text, &deed->exit_status);
    deed->failed = failed || (deed->has_exit && deed->exit_status != 0);
  }
  if (failed && line.len && !qp__reads_like_orders(line)) {
    struct qp__ledger_error error = { qp__ledger_copy(ledger, line, line.len), qp__count_text(line),
                                      at };

    if (!error.text.data ||
        !qp__vec_push(ledger->errors, ledger->error_count, ledger->error_cap, error))
      return qp__fail_nomem(err, what);
  }
  return add_values(ledger, text, at, false, QP__PATH_MENTIONED, err);
}

static enum qp_rc
add_recent(struct qp__ledger *ledger, struct qp_bytes text, uint64_t at, struct qp_err *err)
{
  struct qp__ledger_recent *recent = ledger->recent;
  size_t n = text.len < RECENT_MAX ? text.len : RECENT_MAX;
  char *copy = qp__alloc(n + 1);

  if (!copy)
    return qp__fail_nomem(err, what);
  memcpy(copy, text.data, n);
  if (ledger->recent_count == QP__LEDGER_RECENT) {
    qp__free((char *)recent[0].text.data);
    memmove(recent, recent + 1, --ledger->recent_count * sizeof(*recent));
  }
  recent[ledger->recent_count++] = (struct qp__ledger_recent){ { copy, n }, at };
  return QP_OK;
}

/* ---- the walk ---- */

void
qp__ledger_init(struct qp__ledger *ledger)
{
  *ledger = (struct qp__ledger){
    .limits = { .statements = 4000, .values = 16000, .deeds = 2000, .errors = 500 },
  };
}

static enum qp_rc
add_message(struct qp__ledger *ledger, const struct qp_message *m, uint64_t at,
            struct qp__arena *arena, struct qp_err *err)
{
  bool user = m->role == QP_ROLE_USER;
  struct qp_bytes text;
  enum qp_rc rc = qp__source_text(m, arena, &text, err);

  if (rc)
    return rc;
  if (m->has_result)
    return add_result(ledger, m, text, at, err);
  rc = add_values(ledger, text, at, user, QP__PATH_MENTIONED, err);
  if (!rc && user)
    rc = add_statements(ledger, text, at, err);
  if (!rc && user)
    rc = add_recent(ledger, text, at, err);
  if (m->call_count)
    ledger->open_deeds = ledger->deed_count;
  for (size_t c = 0; !rc && c < m->call_count; c++)
    rc = add_call(ledger, &m->calls[c], at, err);
  return rc;
}

enum qp_rc
qp__ledger_extend(struct qp__ledger *ledger, const struct qp__source *source, struct qp_err *err)
{
  struct qp__arena arena = { NULL };
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < ledger->statement_count; i++)
    ledger->statements[i].quoted = false;
  for (size_t i = 0; !rc && i < source->count; i++) {
    const struct qp_message *m = source->messages[i];

    if (m->role == QP_ROLE_SYSTEM && !m->has_result)
      continue; /* notes of the program */
    rc = add_message(ledger, m, source->first + i, &arena, err);
    if (!rc)
      rc = qp__ledger_bound(ledger, err);
    qp__arena_release(&arena);
  }
  return rc;
}

size_t
qp__ledger_bytes(const struct qp__ledger *ledger)
{
  size_t recent = 0;

  for (size_t i = 0; i < ledger->recent_count; i++)
    recent += ledger->recent[i].text.len;
  return sizeof(*ledger) + ledger->text_bytes + recent +
         ledger->statement_cap * sizeof(*ledger->statements) +
         ledger->value_cap * sizeof(*ledger->values) + ledger->table_size * sizeof(*ledger->table) +
         ledger->deed_cap * sizeof(*ledger->deeds) + ledger->error_cap * sizeof(*ledger->errors);
}

void
qp__ledger_release(struct qp__ledger *ledger)
{
  qp__free(ledger->statements);
  qp__free(ledger->values);
  qp__free(ledger->table);
  qp__free(ledger->deeds);
  qp__free(ledger->errors);
  for (size_t i = 0; i < ledger->recent_count; i++)
    qp__free((char *)ledger->recent[i].text.data);
  qp__arena_release(&ledger->arena);
  memset(ledger, 0, sizeof(*ledger));
}
