/* handlers.h - the handlers of the route table, by file. */
#ifndef QP_HTTP_HANDLERS_H
#define QP_HTTP_HANDLERS_H

#include "http/route.h"

/* h_health.c */
qp__handler qp__h_healthz, qp__h_readyz, qp__h_metrics, qp__h_openapi;
/* h_page.c */
qp__handler qp__h_index, qp__h_page, qp__h_favicon, qp__h_asset;
/* h_context.c */
qp__handler qp__h_context_create, qp__h_context_get, qp__h_context_size, qp__h_context_update,
    qp__h_context_delete;
/* h_catalogue.c */
qp__handler qp__h_context_list, qp__h_search;
/* The snippet of a hit in parts, each marked whether it was searched for. */
void qp__emit_snippet(struct qp__buf *out, const char *snippet);
/* h_report.c */
qp__handler qp__h_usage_report, qp__h_size_list, qp__h_trash_list;
/* h_outline.c */
qp__handler qp__h_outline;
/* h_find.c */
qp__handler qp__h_previews, qp__h_find;
/* h_message.c */
qp__handler qp__h_message_list, qp__h_message_save;
/* h_state.c */
qp__handler qp__h_state;
/* h_action.c: of all actions */
qp__handler qp__h_action;
/* h_compaction.c */
qp__handler qp__h_compaction_list, qp__h_view;
/* h_events.c */
qp__handler qp__h_events;
/* mcp/h_mcp.c */
qp__handler qp__h_mcp;
/* h_engine.c */
qp__handler qp__h_models, qp__h_tools, qp__h_rule_list, qp__h_rule_delete;
qp__handler qp__h_usage;
/* h_branch.c */
qp__handler qp__h_branch_list, qp__h_branch_get, qp__h_branch_fork, qp__h_branch_update,
    qp__h_branch_delete;
/* h_queue.c */
qp__handler qp__h_queue_list, qp__h_queue_add, qp__h_queue_edit, qp__h_queue_drop, qp__h_queue_send;
/* h_prompt.c */
qp__handler qp__h_prompt_list, qp__h_prompt_get, qp__h_prompt_create, qp__h_prompt_update,
    qp__h_prompt_delete;
/* h_session.c */
qp__handler qp__h_session_list, qp__h_session_get, qp__h_session_create, qp__h_session_update,
    qp__h_session_delete, qp__h_session_messages, qp__h_session_append;

/* job.c */
qp__handler qp__h_job_list, qp__h_job_get, qp__h_job_cancel, qp__h_job_events;
/* h_import.c */
qp__handler qp__h_import;
/* h_maintenance.c: of all kinds */
qp__handler qp__h_maintenance;

/* openai/h_openai.c */
qp__handler qp__h_openai_chat, qp__h_openai_models, qp__h_openai_model;
/* openai/h_responses.c */
qp__handler qp__h_response_create, qp__h_response_get, qp__h_response_delete, qp__h_response_cancel,
    qp__h_response_inputs, qp__h_response_count, qp__h_response_compact;
/* openai/h_conversations.c */
qp__handler qp__h_conversation_create, qp__h_conversation_get, qp__h_conversation_update,
    qp__h_conversation_delete, qp__h_items_add, qp__h_items_list, qp__h_item_get, qp__h_item_delete;
/* aisdk/h_ai.c */
qp__handler qp__h_ai_chat, qp__h_ai_stream, qp__h_ai_messages, qp__h_ai_stop;
/* anthropic/h_anthropic.c */
qp__handler qp__h_anthropic_messages, qp__h_anthropic_count;

#endif
