/* test_http.c - the parts of the server that need no socket: the route table agrees with
 * api/openapi.yaml; validators, walking over stored text, flat messages, pending calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "http/dto.h"
#include "http/json_walk.h"
#include "http/openapi.h"
#include "http/route.h"
#include "http_rig.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define BIG ((size_t)1 << 24)

static struct qp_bytes
bytes(const char *s)
{
  return (struct qp_bytes){ s, strlen(s) };
}

/* ---- the contract ---- */

static json_t *contract;

static int
load_contract(void **state)
{
  const struct qp_bytes text = { (const char *)qp__openapi_json, qp__openapi_json_len };
  struct qp_err err;

  (void)state;
  if (qp__json_parse_object("the contract", text, &contract, &err))
    fail_msg("%s", err.msg);
  return 0;
}

static int
drop_contract(void **state)
{
  (void)state;
  json_decref(contract);
  return 0;
}

/* The thing itself, or what its "$ref" points to. */
static const json_t *
resolve(const json_t *node)
{
  const char *ref = json_string_value(json_object_get(node, "$ref"));
  char part[200];

  if (!ref)
    return node;
  node = contract;
  ref++;
  while (*ref) {
    size_t n = strcspn(++ref, "/");

    assert_true(n < sizeof(part));
    memcpy(part, ref, n);
    part[n] = '\0';
    node = json_object_get(node, part);
    ref += n;
  }
  assert_non_null(node);
  return node;
}

static const json_t *
find_operation(const struct qp__route *route)
{
  const json_t *item = json_object_get(json_object_get(contract, "paths"), route->path);
  char method[10] = "";

  for (size_t i = 0; route->method[i]; i++)
    method[i] = (char)(route->method[i] | 0x20);
  return json_object_get(item, method);
}

static bool
has_word(const char *list, const char *word)
{
  size_t n = strlen(word);

  for (const char *s = list; s && *s; s += strcspn(s, " "), s += *s == ' ')
    if (strncmp(s, word, n) == 0 && (s[n] == ' ' || !s[n]))
      return true;
  return false;
}

static size_t
count_words(const char *list)
{
  size_t n = list && *list;

  for (const char *s = list; s && *s; s++)
    n += *s == ' ';
  return n;
}

static void
expect_query(const struct qp__route *route, const json_t *operation)
{
  const json_t *list = json_object_get(operation, "parameters");
  size_t found = 0;

  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *parameter = resolve(json_array_get(list, i));
    const char *name = json_string_value(json_object_get(parameter, "name"));

    if (strcmp(json_string_value(json_object_get(parameter, "in")), "query") != 0)
      continue;
    found++;
    if (!has_word(route->query, name))
      fail_msg("%s %s does not take '%s'", route->method, route->path, name);
  }
  if (found != count_words(route->query))
    fail_msg("%s %s takes '%s'; the contract does not tell of all", route->method, route->path,
             route->query);
}

/* Routes of other protocols have contracts of their own, which e2e/face_contract compares. */
static bool
is_face(const struct qp__route *route)
{
  return strncmp(route->path, "/openai/", 8) == 0 || strncmp(route->path, "/anthropic/", 11) == 0 ||
         strncmp(route->path, "/ai/", 4) == 0;
}

static void
test_route_table_is_the_contract(void **state)
{
  static const char *const scopes[] = { "none", "read", "write", "admin" };
  const char *path;
  json_t *item;
  size_t operations = 0;
  size_t faces = 0;

  (void)state;
  for (size_t i = 0; i < qp__route_count(); i++) {
    const struct qp__route *route = qp__route_at(i);
    const json_t *operation = find_operation(route);

    if (is_face(route)) {
      faces++;
      continue;
    }
    if (!operation)
      fail_msg("the contract does not tell of %s %s", route->method, route->path);
    assert_string_equal(json_string_value(json_object_get(operation, "x-scope")),
                        scopes[route->scope]);
    assert_int_equal(json_object_get(operation, "requestBody") != NULL,
                     (route->flags & QP__ROUTE_BODY) != 0);
    expect_query(route, operation);
  }
  json_object_foreach (json_object_get(contract, "paths"), path, item)
    operations += json_object_size(item) - (json_object_get(item, "parameters") != NULL);
  assert_int_equal(operations + faces, qp__route_count());
  assert_string_equal(
      json_string_value(json_object_get(json_object_get(contract, "info"), "version")),
      qp_version());
}

/* The contract lists each code with its status. */
static void
test_codes_are_the_contract(void **state)
{
  static const struct {
    const char *schema;
    enum qp_rc rc;
    int status;
  } rows[] = {
    { "InvalidError", QP_INVALID, 400 },
    { "FailedError", QP_DENIED, 500 },
    { "UnavailableError", QP_READONLY, 503 },
    { "NotFoundError", QP_NOTFOUND, 404 },
    { "ConflictError", QP_EXISTS, 409 },
    { "ConflictError", QP_CONFLICT, 409 },
    { "TooBigError", QP_TOOBIG, 413 },
    { "FailedError", QP_IO, 500 },
    { "FailedError", QP_CORRUPT, 500 },
    { "FailedError", QP_MISUSE, 500 },
    { "UnavailableError", QP_NOMEM, 503 },
    { "UnavailableError", QP_BUSY, 503 },
    { "FullError", QP_FULL, 507 },
  };
  const json_t *schemas = json_object_get(json_object_get(contract, "components"), "schemas");

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    const json_t *schema = json_object_get(schemas, rows[i].schema);
    struct qp__buf text;

    assert_non_null(schema);
    qp__buf_init(&text, BIG);
    assert_int_equal(qp__json_write(&text, schema), QP_OK);
    if (!strstr(text.data, qp_rc_name(rows[i].rc)))
      fail_msg("%s does not list %s", rows[i].schema, qp_rc_name(rows[i].rc));
    assert_int_equal(qp__http_status(rows[i].rc), rows[i].status);
    qp__buf_release(&text);
  }
  assert_int_equal(qp__http_status((enum qp_rc) - 77), 500); /* not a code */
#define ONLY_OK_IS_200(name, number, text) \
  assert_int_equal(qp__http_status(QP_##name) == 200, QP_##name == QP_OK);
  QP_RC_MAP(ONLY_OK_IS_200)
#undef ONLY_OK_IS_200
}

/* ---- validators ---- */

static void
test_lists_of_validators(void **state)
{
  static const struct {
    const char *list;
    bool strong, weak;
  } rows[] = {
    { "\"a\"", true, true },
    { "W/\"a\"", false, true },
    { "*", true, true },
    { " \"x\" ,\t\"a\"", true, true },
    { "\"x\",W/\"a\"", false, true },
    { "", false, false },
    { ",,, ,", false, false },
    { "a", false, false },
    { "\"a", false, false },
    { "\"ab\"", false, false },
    { "W/", false, false },
    { "\"x\", *", true, true },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    if (qp__etag_in(rows[i].list, "\"a\"", false) != rows[i].strong)
      fail_msg("'%s' as If-Match", rows[i].list);
    if (qp__etag_in(rows[i].list, "\"a\"", true) != rows[i].weak)
      fail_msg("'%s' as If-None-Match", rows[i].list);
  }
}

/* ---- addresses ---- */

static void
test_addresses(void **state)
{
  static const struct {
    const char *uri;
    unsigned status;
  } rows[] = {
    { "/healthz", 200 },
    { "/%68ealthz", 200 },
    { "/healthz?", 200 },
    { "/healthz?&&", 200 },
    { "/healthz?x=1", 400 },
    { "/healthz/", 404 },
    { "healthz", 400 },
    { "/healthz%", 400 },
    { "/healthz%0", 400 },
    { "/healthz%00", 400 },
    { "/healthz%7f", 400 },
    { "/%c0%af", 400 },
    { "/a/b/c/d/e/f/g/h/i", 404 },
    { "/api/contexts/" RIG_CONTEXT, 200 },
    { "/v1/contexts/" RIG_CONTEXT "/branches/other", 200 },
    { "/v1/contexts/" RIG_CONTEXT "/branches/o%74her", 200 },
    { "/v1/contexts/" RIG_CONTEXT "/branches/", 404 },
    { "/v1/contexts/..%2f..%2fetc", 404 },
    { "/v1/search?q=a&q=b", 400 },
    { "/v1/search?q=knotted+cords", 200 },
    { "/v1/search?a=&b=&c=&d=&e=&f=&g=&h=&i=&j=&k=&l=&m=&n=&o=&p=&q=", 400 },
    { "/api", 404 },
    { "/api/healthz", 404 },
  };
  struct http_rig rig;

  (void)state;
  assert_true(http_rig_make(&rig));
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct qp__request *r = NULL;
    struct qp_err err;
    enum qp_rc rc = http_rig_ask(&rig, "GET", rows[i].uri, bytes(""), &r, &err);

    assert_non_null(r);
    if (http_rig_status(r, rc) != rows[i].status)
      fail_msg("%s: %u %s", rows[i].uri, http_rig_status(r, rc), err.msg);
    qp__request_free(r);
  }
  http_rig_release(&rig);
}

/* ---- stored text ---- */

static void
test_walking(void **state)
{
  static const char text[] = " { \"a\" : [1, \"}\\\"]\", {\"x\":[]}] , \"b\\\"\":null,\"c\":-1e5} ";
  static const char *const want[] = { "a",   "[1, \"}\\\"]\", {\"x\":[]}]", "b\\\"", "null", "c",
                                      "-1e5" };
  struct qp__walk w = qp__walk_into(bytes(text));
  struct qp_bytes key;
  struct qp_bytes value;
  size_t n = 0;

  (void)state;
  for (; qp__walk_member(&w, &key, &value); n += 2) {
    assert_true(n + 1 < COUNT(want));
    assert_true(qp__token_is(key, want[n]));
    assert_true(qp__token_is(value, want[n + 1]));
  }
  assert_int_equal(n, COUNT(want));
}

/* Whatever the text is cut to, nothing is read behind its end; AddressSanitizer says so. */
static void
test_cut_text(void **state)
{
  static const char text[] =
      "{\"id\":\"x\",\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\\\\\\\"\"},"
      "{\"type\":\"image\",\"url\":\"u\"},[1,{\"t\":\"\\u00fc\"}]],\"tool_calls\":[{\"id\":\"c\","
      "\"approval_status\":\"Pending\"}],\"tool_result\":{\"request_id\":\"c\"},\"x\":{\"y\":1}}";

  (void)state;
  for (size_t n = 1; n < sizeof(text); n++) {
    const struct qp_message_info info = { .role = QP_ROLE_USER };
    struct qp__pending_calls pending;
    struct qp__buf out;
    char *copy = malloc(n);

    assert_non_null(copy);
    memcpy(copy, text, n);
    qp__buf_init(&out, BIG);
    qp__pending_calls_init(&pending);
    qp__dto_message(&out, NULL, &info, (struct qp_bytes){ copy, n });
    qp__pending_calls_see(&pending, (struct qp_bytes){ copy, n });
    assert_int_equal(out.rc, QP_OK);
    qp__pending_calls_release(&pending);
    qp__buf_release(&out);
    free(copy);
  }
}

static void
test_flat_message(void **state)
{
  static const char stored[] =
      "{\"id\":\"i\",\"parent_id\":null,\"role\":\"assistant\",\"type\":\"text\",\"created_at\":"
      "\"t\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"thinking\",\"text\":\"h\"}"
      ","
      "{\"type\":\"text\",\"text\":\"\\\"b\"},{\"type\":\"x\",\"y\":1}],\"k\":[2]}";
  static const char flat[] =
      "{\"id\":\"i\",\"role\":\"assistant\",\"type\":\"text\",\"text\":\"a\\n\\\"b\","
      "\"thinking\":\"h\",\"images\":[],\"tool_calls\":[],\"tool_result\":null,\"created_at\":"
      "\"t\",\"parent_id\":null,\"metadata\":null,\"other\":[{\"type\":\"x\",\"y\":1}],\"extra\":{"
      "\"k\":[2]}}";
  const struct qp_message_info info = { .role = QP_ROLE_USER };
  struct qp__buf out;

  (void)state;
  qp__buf_init(&out, BIG);
  qp__dto_message(&out, NULL, &info, bytes(stored));
  assert_string_equal(out.data, flat);
  qp__buf_release(&out);
}

static void
test_calls_that_wait(void **state)
{
  static const char *const messages[] = {
    "{\"tool_calls\":[{\"id\":\"a\",\"approval_status\":\"Pending\"},"
    "{\"id\":\"b\",\"approval_status\":\"Approved\"},{\"id\":\"c\",\"approval_status\":\"Pending\"}"
    "]}",
    "{\"tool_result\":{\"request_id\":\"a\"}}",
    "{\"tool_result\":{\"request_id\":\"nobody\"}}",
  };
  struct qp__pending_calls pending;
  struct qp__buf out;

  (void)state;
  qp__pending_calls_init(&pending);
  qp__buf_init(&out, BIG);
  for (size_t i = 0; i < COUNT(messages); i++)
    qp__pending_calls_see(&pending, bytes(messages[i]));
  qp__pending_calls_emit(&pending, &out, NULL);
  assert_string_equal(out.data, "[{\"id\":\"c\",\"approval_status\":\"Pending\"}]");
  qp__buf_release(&out);
  qp__pending_calls_release(&pending);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_route_table_is_the_contract),
    cmocka_unit_test(test_codes_are_the_contract),
    cmocka_unit_test(test_lists_of_validators),
    cmocka_unit_test(test_addresses),
    cmocka_unit_test(test_walking),
    cmocka_unit_test(test_cut_text),
    cmocka_unit_test(test_flat_message),
    cmocka_unit_test(test_calls_that_wait),
  };

  return cmocka_run_group_tests_name("http", tests, load_contract, drop_contract);
}
