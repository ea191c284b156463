/* test_llm_modellist.c - the models that servers report, in the formats of their sources
 * (tests/fixtures/models; docs/providers.md says which sources were read). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "llm/modellist.h"

#define STEPS 6

struct step {
  enum qp__modellist_step step;
  const char *file; /* NULL: the server has no good answer */
};

struct server {
  const char *name;
  bool is_ollama;
  struct step steps[STEPS]; /* those that are asked, in their order */
  const char *want;         /* "ID WINDOW" of each model, "-" behind those that take no images */
};

#define LIST(file)           \
  {                          \
    QP__MODELLIST_LIST, file \
  }
#define PROPS(file)           \
  {                           \
    QP__MODELLIST_PROPS, file \
  }
#define STUDIO(file)           \
  {                            \
    QP__MODELLIST_STUDIO, file \
  }
#define SHOW(file)           \
  {                          \
    QP__MODELLIST_SHOW, file \
  }
#define PS(file)           \
  {                        \
    QP__MODELLIST_PS, file \
  }

static const struct server servers[] = {
  { "llama.cpp: the window that it runs with, not the one of the training",
    false,
    { LIST("llamacpp-list"), PROPS(NULL) },
    "qwen3-4b.gguf 8192; " },
  { "llama.cpp: /props has window and images where the list has not",
    false,
    { LIST("llamacpp-list-old"), PROPS("llamacpp-props") },
    "../models/old.gguf 4096-; " },
  { "llama.cpp while it loads: no window yet",
    false,
    { LIST("llamacpp-list-loading"), PROPS(NULL) },
    "slow.gguf 0; " },
  { "llama.cpp with many models: the loaded one first, and /props is not asked",
    false,
    { LIST("llamacpp-router") },
    "b/loaded:Q8_0 16384; a/unloaded:Q4_K_M 0-; " },
  { "vLLM: an adapter has the window of its model",
    false,
    { LIST("vllm-list") },
    "mistral-small 16384; my-lora 16384; " },
  { "Ollama: the longest window of a model is not the one that it runs with",
    false,
    { LIST("ollama-list"), SHOW("ollama-show"), SHOW("ollama-show-vision"), PS("ollama-ps-none") },
    "llama3.2:latest 0-; llava:7b 4096; " },
  { "Ollama: the window of a loaded model",
    false,
    { LIST("ollama-list"), SHOW("ollama-show"), SHOW("ollama-show-vision"), PS("ollama-ps") },
    "llama3.2:latest 32768-; llava:7b 4096; " },
  { "Ollama: num_ctx of the model's file",
    true,
    { LIST("ollama-tags"), SHOW("ollama-show-num-ctx"), PS(NULL) },
    "llama3.2:latest 8192-; " },
  { "Ollama: an old version says in /api/show alone what a model can do",
    true,
    { LIST("ollama-tags-old"), SHOW("ollama-show-embedding"), PS("ollama-ps-none") },
    "" },
  { "Ollama: a model of somebody else, by its tag",
    false,
    { LIST("ollama-list-other"), SHOW("ollama-show-num-ctx"), PS("ollama-ps-none") },
    "hf.co/someone/llama3.2-GGUF:Q4_K_M 8192-; " },
  { "Ollama without models", true, { LIST("ollama-list-none") }, "" },
  { "LM Studio: no embeddings, the loaded one first",
    false,
    { LIST("lmstudio-list"), STUDIO("lmstudio-v0") },
    "qwen2-vl-7b-instruct 4096; meta-llama-3.1-8b-instruct 0-; " },
  { "LM Studio before 0.3.6: the list alone",
    false,
    { LIST("lmstudio-list"), STUDIO(NULL) },
    "text-embedding-nomic-embed-text-v1.5 0; meta-llama-3.1-8b-instruct 0; "
    "qwen2-vl-7b-instruct 0; " },
  { "OpenRouter",
    false,
    { LIST("openrouter-list") },
    "maker/words:free 131072-; maker/eyes 200000; maker/auto 32768; " },
  { "Mistral",
    false,
    { LIST("mistral-list") },
    "mistral-large-latest 131072-; pixtral-12b 131072; " },
  { "Together: the list is the whole answer",
    false,
    { LIST("together-list") },
    "maker/chat-13b 2048; " },
  { "Groq", false, { LIST("groq-list") }, "llama-3.1-8b-instant 131072; " },
  { "OpenAI's own shape has no windows; a name with ':' is asked of Ollama once",
    false,
    { LIST("openai-list"), SHOW(NULL) },
    "gpt-x 0; ft:gpt-x:org:name:1 0; " },
  { "odd values are taken as nothing", false, { LIST("odd") }, "a 0; b 0; " },
  { "no answer", false, { LIST(NULL) }, "" },
};

struct told {
  char text[1000];
};

static enum qp_rc
tell(void *arg, const struct qp__known_model *model)
{
  struct told *told = arg;
  size_t n = strlen(told->text);

  (void)snprintf(told->text + n, sizeof(told->text) - n, "%s %lld%s; ", model->id,
                 (long long)model->window, model->blind ? "-" : "");
  return QP_OK;
}

static json_t *
load(const char *name)
{
  char path[1000];
  json_t *root;

  if (!name)
    return NULL;
  (void)snprintf(path, sizeof(path), "%s/models/%s.json", TEST_FIXTURES, name);
  root = json_load_file(path, 0, NULL);
  assert_non_null(root);
  return root;
}

static void
ask(struct qp__known *known, const struct server *server)
{
  struct qp__modellist m;

  qp__modellist_init(&m, known, "mine", server->is_ollama);
  for (size_t i = 0; i < STEPS && server->steps[i].step; i++) {
    json_t *root = load(server->steps[i].file);

    if (m.step != server->steps[i].step)
      fail_msg("%s: step %zu is %d", server->name, i, (int)m.step);
    qp__modellist_read(&m, root);
    json_decref(root);
  }
  if (m.step != QP__MODELLIST_END)
    fail_msg("%s: asks on: %d", server->name, (int)m.step);
  qp__modellist_release(&m);
}

static void
each_server_is_read_as_its_source_prints_it(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
    struct qp__known known;
    struct told told = { "" };

    qp__known_init(&known);
    ask(&known, &servers[i]);
    (void)qp__known_each(&known, tell, &told);
    if (strcmp(told.text, servers[i].want) != 0)
      fail_msg("%s: '%s' instead of '%s'", servers[i].name, told.text, servers[i].want);
    qp__known_release(&known);
  }
}

/* llama.cpp started anew with a model that takes images, and one that has none any more. */
static void
a_later_answer_takes_the_place_of_the_earlier_one(void **state)
{
  static const struct server blind = {
    "blind", false, { LIST("llamacpp-list-old"), PROPS("llamacpp-props") }, ""
  };
  struct qp__known known;
  struct qp__modellist m;
  json_t *root = json_loads("{\"default_generation_settings\":{\"n_ctx\":2048},"
                            "\"modalities\":{\"vision\":true}}",
                            0, NULL);
  struct told told = { "" };

  (void)state;
  qp__known_init(&known);
  ask(&known, &blind);
  assert_true(qp__known_is_blind(&known, "mine", "../models/old.gguf"));
  qp__modellist_init(&m, &known, "mine", false);
  assert_int_equal(json_array_append_new(m.ids, json_string("../models/old.gguf")), 0);
  m.step = QP__MODELLIST_PROPS;
  qp__modellist_read(&m, root);
  assert_false(qp__known_is_blind(&known, "mine", "../models/old.gguf"));
  qp__known_set_blind(&known, "mine", "../models/old.gguf"); /* it refuses them all the same */
  m.step = QP__MODELLIST_PROPS;
  qp__modellist_read(&m, root);
  assert_true(qp__known_is_blind(&known, "mine", "../models/old.gguf"));
  (void)qp__known_each(&known, tell, &told);
  assert_string_equal(told.text, "../models/old.gguf 2048; ");
  json_decref(root);
  qp__modellist_release(&m);
  qp__known_release(&known);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_server_is_read_as_its_source_prints_it),
    cmocka_unit_test(a_later_answer_takes_the_place_of_the_earlier_one),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
