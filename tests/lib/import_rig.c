/* import_rig.c - see import_rig.h. */
#include "import_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "old/localstorage.h"
#include "os/file.h"

#define CALL                                                                                    \
  "{'id':'m2','role':'assistant','type':'tool_call','toolCalls':[{'toolCallId':'t','toolName':" \
  "'n','parameters':{}}]}"
#define RESULT "{'id':'m3','role':'assistant','type':'tool_result','toolCallId':'t','result':'r'}"

static const char first_dump[] =
    "{'copilot_chats_v2':["
    "{'id':'grows','title':'New Chat','createdAt':1000,'config':{}},"
    "{'id':'stays','title':'Stays','createdAt':2000,'config':{'systemPromptId':'p1'}}],"
    "'copilot_messages_v2_grows':[{'id':'m1','role':'user','content':'one'}," CALL "],"
    "'copilot_messages_v2_stays':[{'id':'s1','role':'user','content':'stay'}],"
    "'copilot_system_prompts_v1':[{'id':'p1','content':'One.'}]}";

static const char second_dump[] =
    "{'copilot_chats_v2':["
    "{'id':'grows','title':'Grown','createdAt':1000,'config':{'systemPromptId':'p2'}},"
    "{'id':'stays','title':'Stays','createdAt':2000,'config':{'systemPromptId':'p1'}},"
    "{'id':'comes','title':'Comes','createdAt':3000,'systemPrompt':'A text of its own.'}],"
    "'copilot_messages_v2_grows':[{'id':'m1','role':'user','content':'one'}," CALL "," RESULT ","
    "{'id':'m4','role':'user','content':'four','images':[{'base64':'data:image/png;base64,"
    "YWJj'}]}],"
    "'copilot_messages_v2_stays':[{'id':'s1','role':'user','content':'stay'}],"
    "'copilot_messages_v2_comes':[{'id':'c1','role':'user','content':'c','images':[{'base64':"
    "'data:image/png;base64,ZGVm'}]},{'id':'c2','role':'assistant','content':'d'}],"
    "'copilot_system_prompts_v1':[{'id':'p1','content':'One.'},{'id':'p2','content':'Two.'}]}";

static const char *const ids[IMPORT_CHATS] = { "grows", "stays", "comes" };

/* ---- the dumps ---- */

static char *
quoted(const char *text)
{
  char *s = strdup(text);

  assert_non_null(s);
  for (char *p = s; *p; p++)
    if (*p == '\'')
      *p = '"';
  return s;
}

static void
write_one(const struct qp__os *os, int dir, const char *name, const char *text)
{
  char *s = quoted(text);
  int fd;

  assert_int_equal(qp__file_create(os, dir, name, (struct qp_bytes){ s, strlen(s) }), 0);
  fd = qp__open(os, dir, name, O_RDWR, 0);
  assert_true(fd >= 0);
  assert_int_equal(qp__fsync(os, fd), 0);
  qp__close(os, fd);
  free(s);
}

void
import_rig_write(const struct qp__os *os, const char *dir)
{
  int fd = os->open_root(os->self, dir, 1);

  assert_true(fd >= 0);
  write_one(os, fd, "first.json", first_dump);
  write_one(os, fd, "second.json", second_dump);
  assert_int_equal(qp__fsync(os, fd), 0);
  qp__close(os, fd);
}

/* ---- importing ---- */

static enum qp_rc
note_report(void *arg, const char *item, const struct qp_import_report *report)
{
  struct import_told *told = arg;

  if (report->outcome == QP_IMPORT_FAILED) {
    if (!told->failed)
      (void)snprintf(told->text, sizeof(told->text), "%.100s: %s", item, report->err.msg);
    told->failed = true;
  }
  for (size_t i = 0; i < IMPORT_CHATS; i++)
    if (strncmp(item, "chat ", 5) == 0 && strcmp(item + 5, ids[i]) == 0)
      told->done[i] = report->outcome != QP_IMPORT_FAILED;
  return QP_OK;
}

static enum qp_rc
import(struct qp_store *store, const char *dir, const char *name, struct import_told *told,
       struct qp_err *err)
{
  char path[400];

  memset(told, 0, sizeof(*told));
  (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
  return qp_localstorage_import(store, path, 0, note_report, told, err);
}

enum qp_rc
import_rig_first(struct qp_store *store, const char *dir, struct qp_err *err)
{
  struct import_told told;

  return import(store, dir, "first.json", &told, err);
}

enum qp_rc
import_rig_second(struct qp_store *store, const char *dir, struct import_told *told,
                  struct qp_err *err)
{
  return import(store, dir, "second.json", told, err);
}

/* ---- what must hold ---- */

static struct qp__ls *
open_dump(const char *text)
{
  struct qp__ls *ls = NULL;
  struct qp__buf buf;
  char *s = quoted(text);

  qp__buf_init(&buf, QP__LS_MAX);
  assert_int_equal(qp__buf_add_str(&buf, s), QP_OK);
  assert_int_equal(qp__ls_open("dump", &buf, &ls, NULL), QP_OK);
  qp__buf_release(&buf);
  free(s);
  return ls;
}

struct walk {
  const struct qp__ls_chat *chat;
  size_t at;
  bool same;
};

static enum qp_rc
compare_id(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct walk *w = arg;

  (void)json;
  w->same =
      w->same && w->at < w->chat->count && qp_uuid_equal(&info->id, &w->chat->messages[w->at]->id);
  w->at++;
  return QP_OK;
}

static const char *
hash_in(const json_t *meta)
{
  const char *hash =
      json_string_value(json_object_get(json_object_get(meta, "localstorage"), "hash"));

  return hash ? hash : "";
}

/* Whether the context is chat `id` of the dump: its metadata, and all of its messages in order. */
static bool
is_chat_of(struct qp_context *c, const char *dump, const char *id)
{
  struct qp__ls *ls = open_dump(dump);
  struct qp__ls_chat *chat = NULL;
  struct walk w = { .same = true };
  json_t *meta = NULL;
  char *text = NULL;
  size_t len;

  for (size_t i = 0; i < ls->chat_count && !chat; i++)
    if (strcmp(ls->chats[i].id, id) == 0)
      assert_int_equal(qp__ls_chat_load(ls, i, (size_t)16 << 20, &chat, NULL), QP_OK);
  assert_int_equal(qp_context_metadata(c, &text, &len, NULL), QP_OK);
  meta = json_loadb(text, len, 0, NULL);
  assert_non_null(meta);
  w.chat = chat;
  if (chat) {
    w.same = strcmp(hash_in(meta), hash_in(chat->meta->extra)) == 0 &&
             strcmp(json_string_value(json_object_get(meta, "title")), chat->meta->title) == 0;
    assert_int_equal(qp_messages_index(c, "main", 0, UINT64_MAX, compare_id, &w, NULL), QP_OK);
  }
  w.same = w.same && chat && w.at == chat->count;
  qp_free(text);
  json_decref(meta);
  qp__ls_chat_free(chat);
  qp__ls_close(ls);
  return w.same;
}

/* The state of one chat: 0 missing, 1 as in the first dump, 2 as in the second, -1 anything
 * else. */
static int
state_of(struct qp_store *store, const char *id)
{
  struct qp_uuid uuid = qp__ls_chat_uuid(id);
  struct qp_context *c = NULL;
  enum qp_rc rc = qp_context_open(store, &uuid, QP_LOAD_NONE, &c, NULL);
  int state = -1;

  if (rc)
    return rc == QP_NOTFOUND ? 0 : -1;
  if (is_chat_of(c, second_dump, id))
    state = 2;
  else if (is_chat_of(c, first_dump, id))
    state = 1;
  qp_context_close(c);
  return state;
}

static void
note_problem(void *arg, const struct qp_problem *problem)
{
  (void)snprintf(arg, IMPORT_WHY, "%s %.200s: %.200s", qp_problem_name(problem->kind),
                 problem->path, problem->detail);
}

bool
import_rig_holds(struct qp_store *store, const struct import_told *told, bool all,
                 char why[IMPORT_WHY])
{
  struct qp_check_summary sum;
  struct qp_err err = { QP_OK, "" };

  why[0] = 0;
  if (qp_store_check(store, NULL, 0, note_problem, why, &sum, &err)) {
    (void)snprintf(why, IMPORT_WHY, "the check says: %s", err.msg);
    return false;
  }
  if (why[0])
    return false;
  for (size_t i = 0; i < IMPORT_CHATS; i++) {
    int state = state_of(store, ids[i]);
    bool new_one = strcmp(ids[i], "comes") == 0;

    if (state == 2 || (!all && !told->done[i] && state == (new_one ? 0 : 1)))
      continue;
    (void)snprintf(why, IMPORT_WHY, "chat '%s' is in state %d though %s was said of it", ids[i],
                   state, told->done[i] ? "done" : "nothing");
    return false;
  }
  return true;
}
