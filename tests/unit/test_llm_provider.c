/* test_llm_provider.c - llm/provider.h: the environment, the configuration, and which provider a
 * model gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "llm/provider.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* Pairs of name and value, ended by NULL. */
static const char *
env(void *arg, const char *name)
{
  for (const char **p = arg; *p; p += 2)
    if (strcmp(*p, name) == 0)
      return p[1];
  return NULL;
}

static void
expect(const struct qp__llm_providers *p, const char *model, const char *provider, const char *wire)
{
  struct qp__models models = { 0 };
  const struct qp__llm_provider *found = NULL;
  const char *name = NULL;
  struct qp_err err = { QP_OK, "" };

  if (qp__llm_resolve(p, &models, model, &found, &name, &err)) {
    assert_null(wire);
    assert_int_equal(err.rc, QP_NOTFOUND);
    assert_non_null(strstr(err.msg, provider));
    return;
  }
  assert_non_null(wire);
  assert_string_equal(found->name, provider);
  assert_string_equal(name, wire);
}

static void
without_keys_the_demo_answers(void **state)
{
  const char *nothing[] = { "ANTHROPIC_API_KEY", "", NULL };
  struct qp__llm_providers p;

  (void)state;
  assert_int_equal(qp__llm_providers_init(&p, env, nothing, NULL), QP_OK);
  expect(&p, NULL, "demo", "demo");
  expect(&p, "", "demo", "demo");
  expect(&p, "demo", "demo", "demo");
  expect(&p, "llama3", "demo", "llama3");
  expect(&p, "anthropic/new", "ANTHROPIC_API_KEY", NULL);
  expect(&p, "openai/new", "OPENAI_API_KEY", NULL);
  expect(&p, "claude-sonnet-5-5", "set ANTHROPIC_API_KEY", NULL);
  expect(&p, "gpt-5", "set OPENAI_API_KEY", NULL);
  qp__llm_providers_release(&p);
}

static void
keys_in_the_environment(void **state)
{
  const char *both[] = { "ANTHROPIC_API_KEY", "a", "OPENAI_API_KEY", "b", NULL };
  const char *own[] = { "OPENAI_BASE_URL", "http://127.0.0.1:8080/v1/", NULL };
  const struct qp__llm_provider *found;
  struct qp__llm_providers p;

  (void)state;
  assert_int_equal(qp__llm_providers_init(&p, env, both, NULL), QP_OK);
  expect(&p, NULL, "anthropic", "claude-sonnet-5-5");
  expect(&p, "claude-haiku-5-5", "anthropic", "claude-haiku-5-5");
  expect(&p, "gpt-5", "openai", "gpt-5");
  expect(&p, "demo", "demo", "demo");
  expect(&p, "openai/claude-like", "openai", "claude-like");
  found = qp__llm_providers_find(&p, "openai");
  assert_string_equal(found->url, "https://api.openai.com/v1");
  assert_string_equal(found->key, "b");
  assert_int_equal(found->flags, QP__LLM_MAX_COMPLETION);
  qp__llm_providers_release(&p);

  assert_int_equal(qp__llm_providers_init(&p, env, own, NULL), QP_OK);
  found = qp__llm_providers_find(&p, "openai");
  assert_string_equal(found->url, "http://127.0.0.1:8080/v1");
  assert_null(found->key);
  assert_int_equal(found->flags, 0);
  expect(&p, "llama3", "openai", "llama3");
  assert_null(qp__llm_providers_find(&p, "anthropic"));
  qp__llm_providers_release(&p);
}

static void
configuration_adds_and_replaces(void **state)
{
  const char *key[] = { "ANTHROPIC_API_KEY", "a", NULL };
  struct qp__llm_provider_spec local = { .name = "local", .protocol = "ollama", .model = "llama3" };
  struct qp__llm_provider_spec proxy = { .name = "anthropic",
                                         .base_url = "https://proxy.example/anthropic/v1/",
                                         .key = "p" };
  struct qp__llm_providers p;

  (void)state;
  assert_int_equal(qp__llm_providers_init(&p, env, key, NULL), QP_OK);
  assert_int_equal(qp__llm_providers_add(&p, &proxy, NULL), QP_OK);
  assert_int_equal(qp__llm_providers_add(&p, &local, NULL), QP_OK);
  assert_int_equal(p.count, 3);
  assert_string_equal(qp__llm_providers_find(&p, "anthropic")->url,
                      "https://proxy.example/anthropic");
  assert_string_equal(qp__llm_providers_find(&p, "anthropic")->key, "p");
  assert_string_equal(qp__llm_providers_find(&p, "local")->url, "http://127.0.0.1:11434");
  expect(&p, NULL, "local", "llama3");
  expect(&p, "qwen3:4b", "local", "qwen3:4b");
  expect(&p, "hf.co/some/model", "local", "hf.co/some/model");
  expect(&p, "claude-opus-5-5", "anthropic", "claude-opus-5-5");
  qp__llm_providers_release(&p);
}

static void
bad_configuration_is_refused(void **state)
{
  static const struct {
    struct qp__llm_provider_spec spec;
    const char *sentence;
  } bad[] = {
    { { .name = NULL }, "the name of a provider" },
    { { .name = "a b", .protocol = "openai" }, "the name of a provider" },
    { { .name = "a/b", .protocol = "openai" }, "the name of a provider" },
    { { .name = "mine" }, "the protocol must be" },
    { { .name = "mine", .protocol = "soap" }, "the protocol must be" },
    { { .name = "openai", .key = "a\r\nX-Evil: 1" }, "control character" },
    { { .name = "openai", .base_url = "ftp://x" }, "the base URL" },
    { { .name = "openai", .base_url = "file:///etc/passwd" }, "the base URL" },
    { { .name = "openai", .base_url = "nonsense url" }, "the base URL" },
    { { .name = "openai", .base_url = "http://x/?a=b" }, "the base URL" },
  };
  static const char *const headers[] = { "a: b", "c: d\r\nX-Evil: 1", NULL };
  static const char *const no_colon[] = { "a b", NULL };
  struct qp__llm_provider_spec evil = { .name = "openai", .headers = headers };
  struct qp__llm_providers p = { 0 };

  (void)state;
  assert_int_equal(qp__llm_providers_add(&p, &evil, NULL), QP_INVALID);
  evil.headers = no_colon;
  assert_int_equal(qp__llm_providers_add(&p, &evil, NULL), QP_INVALID);
  for (size_t i = 0; i < COUNT(bad); i++) {
    struct qp_err err = { QP_OK, "" };

    if (qp__llm_providers_add(&p, &bad[i].spec, &err) != QP_INVALID)
      fail_msg("row %zu was taken", i);
    assert_non_null(strstr(err.msg, bad[i].sentence));
    assert_null(strstr(err.msg, "X-Evil"));
  }
  assert_int_equal(p.count, 0);
  expect(&p, NULL, "no provider of models", NULL);
  qp__llm_providers_release(&p);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(without_keys_the_demo_answers),
    cmocka_unit_test(keys_in_the_environment),
    cmocka_unit_test(configuration_adds_and_replaces),
    cmocka_unit_test(bad_configuration_is_refused),
  };

  return cmocka_run_group_tests_name("provider", tests, NULL, NULL);
}
