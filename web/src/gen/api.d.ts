// Generated from api/openapi.yaml by web/build.mjs.
export interface paths {
    "/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The web page, or links to the parts of the server
         * @description A client whose `Accept` header names `text/html`, as browsers send it, receives the web
         *     page. Every other client receives JSON.
         *
         *     The files of the page contain no data, so they need no key; the page calls the API with one.
         *     They are part of the program. They have strong validators, and a compressed form for
         *     clients that accept `gzip`. Their Content-Security-Policy allows scripts, styles and
         *     requests of this server only. `quipu serve --ui-dir DIR` serves them from a directory
         *     instead, uncompressed, for the development of the page.
         */
        get: operations["getIndex"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/c/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The web page, opened at a conversation
         * @description The same page as `/`. The page itself reads the id from its address.
         */
        get: operations["getConversationPage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/favicon.svg": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The icon of the web page */
        get: operations["getIcon"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/assets/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A script, style, font or image of the web page
         * @description A file whose name contains a hash (`app-0a1b2c3d.js`) never changes: it has `Cache-Control: public, max-age=31536000, immutable`. Other files must be validated before they are used again.
         */
        get: operations["getAsset"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Is the server running? */
        get: operations["getHealth"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Does the server accept work?
         * @description Answers 503 while the server stops and while it accepts no writes. The error says why: the disk is full (`FULL`) or fails (`IO`), the store is read-only (`READONLY`), or the data directory was replaced. Each request makes the server check again, at most once per second; it checks for free space by writing and deleting a file of 64 KiB. A server that was started with `--read-only` answers 200 with the status `read-only`.
         */
        get: operations["getReadiness"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Metrics for Prometheus
         * @description If the server requires keys, this needs a key without an owner.
         */
        get: operations["getMetrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This API description */
        get: operations["getContract"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/mcp": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The MCP server
         * @description Streamable HTTP of the Model Context Protocol, revisions 2024-11-05 to 2025-11-25 and
         *     2026-07-28. Every request is answered by itself with JSON: there are no sessions and no
         *     streams. docs/mcp-server.md lists tools and resources. Only reading is offered unless the
         *     address has `write=true` and the key may write.
         */
        post: operations["callMcp"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Search the messages of all contexts
         * @description Finds the messages that contain all the words in their text, in the tools that they call or
         *     in a tool result. The best hits come first. Messages of deleted branches are found until
         *     `quipu gc` removes them. Every message whose save was acknowledged before the search began
         *     is found.
         */
        get: operations["searchMessages"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The number of bytes an owner has stored
         * @description Counts the messages and metadata of the owner's contexts, its sessions and its system
         *     prompts, all before compression. Events of turns, blobs and indexes are not counted. `limit`
         *     is the setting `owner_bytes` of the server; null means no limit. When an owner has reached
         *     the limit, requests that would store more are rejected with 507 `OWNER_FULL` until something
         *     is deleted.
         */
        get: operations["getUsage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/usage/report": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What models have used, per day, context and model
         * @description Sums of the tokens and costs that providers reported with their answers, over the last days,
         *     today included. Days without answers are left out. `contexts` and `models` have the most
         *     expensive ones first. Answers in the trash count; answers that were deleted for good and the
         *     summaries that compaction asks for do not. `unpriced` counts answers whose cost is unknown.
         *     The sums are kept in the catalogue: no message is read for a report.
         */
        get: operations["getUsageReport"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sizes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Sizes of contexts and their branches, the largest first
         * @description From the catalogue: no context is opened. Sizes are before compression. Each context has its
         *     32 largest branches; branches share the messages before a fork, so their sum may exceed the
         *     size of the context. `total` is about all contexts, not only those of the page. With
         *     `trashed=true` only contexts that have messages in the trash are listed.
         */
        get: operations["listSizes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The available models
         * @description The models of the built-in table and of the configuration. A context names its model in
         *     `config.model_id`, as `model` or `provider/model`; models that are not listed can be used
         *     too. If `config.model_id` is empty, `default` is used.
         */
        get: operations["listModels"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tools": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The tools that models may call
         * @description The built-in tools, if a workspace is configured, the tools of MCP servers, and the state of each MCP server.
         */
        get: operations["listTools"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tools/rules": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The stored approvals of tool calls
         * @description Lists the rules of the key's owner, or all rules for a key without an owner. A rule is
         *     created by `approve_tools` with `always`.
         */
        get: operations["listRules"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tools/rules/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of a rule.
                 * @example 5f0c3a91
                 */
                id: string;
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Delete a rule, so that matching calls need approval again */
        delete: operations["deleteRule"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List contexts, most recently changed first */
        get: operations["listContexts"];
        put?: never;
        /**
         * Create a context
         * @description The context has one empty branch, `main`. All fields are optional, and so is the body.
         */
        post: operations["createContext"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        /** A context, with or without its messages */
        get: operations["getContext"];
        /**
         * The same as PATCH
         * @description For clients that cannot send PATCH. Fields that are not given keep their values.
         */
        put: operations["putContext"];
        post?: never;
        /**
         * Delete a context with all its messages
         * @description Waits until no other request uses the context, then deletes its files. Copies of its text can remain for a while in files that the store shares between contexts: in the journal, until its segments are reused or the server stops, and in catalogue.db and catalogue.db-wal, until SQLite overwrites them. `erase=true` removes these copies too. Blobs and backups are not changed.
         */
        delete: operations["deleteContext"];
        options?: never;
        head?: never;
        /**
         * Change some fields of a context
         * @description Fields that are not given keep their values, also inside `config`; only `parameters` is
         *     replaced as a whole. `null` removes a field or restores its default. If a field of `config`
         *     is also given at the top level of the body, the value at the top level is used.
         */
        patch: operations["updateContext"];
        trace?: never;
    };
    "/v1/contexts/{id}/trash": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What is in the trash of a context
         * @description Garbage collection (`POST /v1/maintenance/gc`) moves messages that no branch reaches to the
         *     trash, and deletes them for good after a grace period. Each item is a row of such messages,
         *     for instance a deleted branch: from the first one, whose parent is not in the trash, to the
         *     last one, which has no child there. A fork `at` the `last_message_id` restores the row
         *     (`POST /v1/contexts/{id}/branches`); a collection with `grace_seconds: 0` deletes everything
         *     in the trash. The rows of the newest messages are first.
         */
        get: operations["listTrash"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/size": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        /** The size of a context */
        get: operations["getContextSize"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/outline": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        /**
         * A whole branch at a glance
         * @description Comes from the index: no message is read, so the cost depends on the number of messages and
         *     not on their sizes. If the range has more than `max` messages, `items` has the landmarks
         *     only: messages of the user, branch points, pinned and damaged messages. `buckets` then sums
         *     up equal parts of the range. Texts: `GET …/previews`.
         */
        get: operations["getOutline"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/previews": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        /**
         * The beginnings of given messages
         * @description For the visible part of an outline. Unknown ids are left out.
         */
        get: operations["getPreviews"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/find": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        /**
         * Search the messages of one context, on all its branches
         * @description With `q`: the messages that contain all the words, as `GET /v1/search` finds them, in the
         *     order in which they were saved. With `message`: where this message is.
         */
        get: operations["findInContext"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        /**
         * The messages of a branch, page by page
         * @description Follow `next_cursor` from page to page: messages that are added in the meantime do not shift
         *     the pages. Use `offset` to jump to a page; it counts messages from the start of the order.
         */
        get: operations["listMessages"];
        put?: never;
        /**
         * Append messages to a branch
         * @description Stores a message as it is, or a list of up to 256 messages in one commit, and answers when
         *     all of it is durable. No model is called: that is `actions/send_message`. Besides the form of
         *     quipu, messages of OpenAI's API (`tool_calls` with `function`, `tool_call_id`, `image_url` …)
         *     and of Anthropic's API (blocks `tool_use`, `tool_result`, `thinking`, `image`) are accepted.
         *     A message with several tool results becomes several messages.
         *
         *     The spelling `/api/contexts/{id}/messages` is deprecated: its responses have the header
         *     `Deprecation`, and a `Link` to this description and to `actions/send_message`.
         */
        post: operations["saveMessage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/state": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        /**
         * Poll a context
         * @description Returns the state and the messages of the active branch. The response has a strong `ETag`,
         *     which changes exactly when something visible changes. Send it back in `If-None-Match`: while
         *     nothing has changed, the response is 304 without a body.
         */
        get: operations["getState"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/actions/send_message": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a message and let the model answer
         * @description The message is durable before the model is called. The response is sent when the turn stops:
         *     the model has answered (`Idle`), tool calls wait for approval (`AwaitingToolApproval`), or
         *     the turn failed (`Failed`, with `state_detail.error`). Allowed in `Idle` and `Failed`.
         */
        post: operations["sendMessage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/actions/approve_tools": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Approve or deny pending tool calls
         * @description `state_detail.pending` shows what each call will do, in `preview`:
         *
         *     - `{"kind":"diff","path","diff","base"}` for `write_file`, `edit_file` and `delete_file`: a
         *       unified diff against the file as it was when the model called the tool. `cut` marks a diff
         *       that was too long, `binary` a file that is no text. If the file has changed when the
         *       approved call runs, nothing is written, and the result of the call is an error.
         *     - `{"kind":"command","command","directory"}` for `run_command`.
         *     - `{"kind":"arguments"}` for all other tools; with `error` for a call that will fail.
         *
         *     Approves some calls and denies others; calls that are not listed stay pending. The approved
         *     tools run, and the model continues with their results. The result of a denied call is an
         *     error with the reason. Without pending calls the response is 400 "No pending tool
         *     approvals".
         */
        post: operations["approveTools"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/actions/submit_tool_results": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Bring the results of tools that the client runs itself
         * @description For calls of tools in `config.tools` or in `tools` of `send_message`: they wait in
         *     `AwaitingToolApproval`, with `"kind": "client"`, over restarts and without a time limit.
         *     Brings the results of some or all of them; calls that are not listed keep waiting. Each
         *     result is stored at once. When no call waits any more, the tools of the server run and the
         *     model continues.
         */
        post: operations["submitToolResults"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/actions/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Stop the turn
         * @description The part of the answer that was received is kept and marked as interrupted. Running tools
         *     are stopped, and their calls get an error as result. Allowed in every state except `Idle`.
         */
        post: operations["cancelTurn"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/actions/retry": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Call the model again
         * @description If the last message of the branch is from the user or is a tool result, the model answers on
         *     the same branch. Otherwise this is the same as `regenerate`. Allowed in `Idle`, `Failed` and
         *     `TransientFailure`.
         */
        post: operations["retryTurn"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/actions/regenerate": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Generate another answer to the same message
         * @description The answer is stored on a new branch, which becomes the active branch. Allowed in `Idle` and
         *     `Failed`.
         */
        post: operations["regenerateAnswer"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/actions/edit_message": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Replace a user message and let the model answer
         * @description The new message is stored on a new branch, which becomes the active branch, and the model is
         *     called. The old message stays on its own branch. Allowed in `Idle` and `Failed`.
         */
        post: operations["editMessage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/actions/switch_branch": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Make another branch active
         * @description Allowed in `Idle` and `Failed`.
         */
        post: operations["switchBranch"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/actions/compact": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Compact the conversation now
         * @description Replaces the older messages by a summary in what the model is sent from now on. The messages
         *     themselves stay as they are and can always be read. `dry_run` shows what would happen, and
         *     changes nothing. If nothing can be gained, the response is 409 and nothing has changed.
         *     Allowed in `Idle` and `Failed`, unless compaction is `off` for this context.
         */
        post: operations["compactContext"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/actions/undo_compact": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Undo the compaction that is in use
         * @description The model is sent what it was sent before that compaction, byte for byte. The record stays
         *     and `redo_compact` uses it again. In mode `auto` the next message may compact again, if the
         *     conversation is over the threshold. 404 if nothing is compacted.
         */
        post: operations["undoCompaction"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/actions/redo_compact": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Use the compaction that was undone last again
         * @description 404 if none was undone; 409 if there is a newer compaction.
         */
        post: operations["redoCompaction"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/actions/edit_summary": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Replace the narrative of the summary
         * @description Makes a new record for the same messages. The old record stays, and `undo_compact` brings it
         *     back. The list of exact values beside the narrative is made from the messages and does not
         *     change. 404 if nothing is compacted.
         */
        post: operations["editSummary"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/actions/expand": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send some of the covered messages again, unchanged
         * @description The messages from `from` to `to` are sent beside the summary that covers them. Makes a new
         *     record; `undo_compact` brings the old one back. 404 if nothing is compacted; 400 if a message
         *     is not covered.
         */
        post: operations["expandMessages"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/actions/pin": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Always send this message unchanged
         * @description A pinned message is never summarised and never shortened. Pinning a message twice changes
         *     nothing.
         */
        post: operations["pinMessage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/actions/unpin": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Remove the pin of a message
         * @description 404 if the message is not pinned.
         */
        post: operations["unpinMessage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/compactions": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        /**
         * The compaction records and the pins of a context
         * @description All records, oldest first, also those that were undone and those of other branches. `active`
         *     is the one that is in use on the branch.
         */
        get: operations["listCompactions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/view": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        /**
         * What the model would be sent now
         * @description The system prompt, the names of the tools and the messages as the next call of the model
         *     would have them: the summary, covered messages that are shown nevertheless, and the newest
         *     messages, in which old tool outputs may be stubs. It does not compact; a message that is
         *     sent next may. The summary is a message with `metadata.compact` = `summary`.
         */
        get: operations["getView"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/tools/approve": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The same as actions/approve_tools
         * @description A second path for the same operation.
         */
        post: operations["approvePendingTools"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        /**
         * Follow the events of a context
         * @description Sends everything that happens in the context as server-sent events, in the order of their
         *     numbers: state changes, pieces of an answer, tools, usage. docs/turns.md lists the types.
         *     After a lost connection, send the number of the last event you received: no event is missed,
         *     not even if the server was restarted. If the events after that number are no longer kept,
         *     the first event is `gap`: read the state again. A comment line every 15 seconds keeps the
         *     connection alive. The server disconnects a client that is more than 1 MiB behind.
         */
        get: operations["followContext"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/queue": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        /** The messages that wait for the end of the running turn */
        get: operations["listQueue"];
        put?: never;
        /**
         * Send a message as soon as no turn is running
         * @description The message is durable when the response is sent. When a turn ends and the context is
         *     `Idle`, the server sends the first message of the queue by itself; if no turn is running it
         *     does so at once. After a turn that `Failed`, the queue waits for the next turn that ends well
         *     or for `POST …/send`. The message keeps its id when it is sent, so it is sent once, also
         *     after a crash. Each change of the queue is an event `queue`. A queue holds at most 50
         *     messages and 2 MiB.
         */
        post: operations["queueMessage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/queue/{item}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Remove a message that waits */
        delete: operations["dropQueuedMessage"];
        options?: never;
        head?: never;
        /**
         * Change the text of a message that waits
         * @description Its images stay. 404 means that the message was sent or dropped in the meantime.
         */
        patch: operations["editQueuedMessage"];
        trace?: never;
    };
    "/v1/contexts/{id}/queue/{item}/send": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a message that waits now
         * @description It becomes the first of the queue, the running turn is cancelled, and the message is sent. The response does not wait for that: follow the events.
         */
        post: operations["sendQueuedMessage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/branches": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        /** The branches of a context, sorted by name */
        get: operations["listBranches"];
        put?: never;
        /**
         * Create a branch that shares its first messages with another branch
         * @description No message is copied.
         */
        post: operations["forkBranch"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contexts/{id}/branches/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
                /**
                 * @description The name of the branch, percent-encoded where necessary.
                 * @example main
                 */
                name: components["schemas"]["BranchName"];
            };
            cookie?: never;
        };
        /** A branch */
        get: operations["getBranch"];
        /**
         * The same as PATCH
         * @description For clients that cannot send PATCH.
         */
        put: operations["putBranch"];
        post?: never;
        /**
         * Delete a branch
         * @description Messages that belong to no other branch become garbage, which `quipu gc` removes. The active
         *     branch cannot be deleted (409).
         */
        delete: operations["deleteBranch"];
        options?: never;
        head?: never;
        /**
         * Rename, activate or rewind a branch, or set its system prompt
         * @description One change per request, so that a request is carried out completely or not at all.
         */
        patch: operations["updateBranch"];
        trace?: never;
    };
    "/v1/system-prompts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All system prompts, sorted by id */
        get: operations["listPrompts"];
        put?: never;
        /** Create a system prompt */
        post: operations["createPrompt"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/system-prompts/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the system prompt.
                 * @example brief
                 */
                id: components["schemas"]["PromptId"];
            };
            cookie?: never;
        };
        /** A system prompt */
        get: operations["getPrompt"];
        /**
         * The same as PATCH
         * @description For clients that cannot send PATCH. Fields that are not given keep their values.
         */
        put: operations["putPrompt"];
        post?: never;
        /** Delete a system prompt and every reference to it */
        delete: operations["deletePrompt"];
        options?: never;
        head?: never;
        /**
         * Change a system prompt
         * @description The change applies at once to every context that refers to the prompt.
         */
        patch: operations["updatePrompt"];
        trace?: never;
    };
    "/v1/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All sessions, most recently changed first */
        get: operations["listSessions"];
        put?: never;
        /**
         * Create a session
         * @description All fields are optional, and so is the body.
         */
        post: operations["createSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the session, percent-encoded where necessary.
                 * @example bot:1
                 */
                id: components["parameters"]["SessionId"];
            };
            cookie?: never;
        };
        /** A session */
        get: operations["getSession"];
        put?: never;
        post?: never;
        /** Delete a session with its messages */
        delete: operations["deleteSession"];
        options?: never;
        head?: never;
        /**
         * Change the number of messages per file of a session
         * @description Applies to files that are created later.
         */
        patch: operations["updateSession"];
        trace?: never;
    };
    "/v1/sessions/{id}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the session, percent-encoded where necessary.
                 * @example bot:1
                 */
                id: components["parameters"]["SessionId"];
            };
            cookie?: never;
        };
        /**
         * The newest messages of a session, oldest first
         * @description Returns the messages as they were stored. If the first messages would be tool results whose
         *     calls are not included, these results are omitted.
         */
        get: operations["readSession"];
        put?: never;
        /**
         * Append a message to a session
         * @description Answers after the message is durable. Unknown fields are kept.
         */
        post: operations["appendToSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The jobs of the caller, newest first
         * @description Queued and running jobs, and the last that have ended. A key with an owner sees the jobs
         *     that were started with keys of that owner, other callers see all jobs. Jobs are kept in
         *     memory: a restart of the server forgets them.
         */
        get: operations["listJobs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the job.
                 * @example 01a1e837-9542-733c-a046-f54f2a4b36b9
                 */
                id: components["parameters"]["JobId"];
            };
            cookie?: never;
        };
        /**
         * The state and the progress of a job, and its report at the end
         * @description A job that was interrupted by a restart of the server is not found any more. The message
         *     says so. What the job had done until then is kept; start it again to continue.
         */
        get: operations["getJob"];
        put?: never;
        post?: never;
        /**
         * Cancel a job
         * @description A queued job is cancelled at once. A running job ends after the step that it is at: one
         *     context, or one chat of an import. What it has done is kept, and is in its report. A job
         *     that has ended stays as it is.
         */
        delete: operations["cancelJob"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the job.
                 * @example 01a1e837-9542-733c-a046-f54f2a4b36b9
                 */
                id: components["parameters"]["JobId"];
            };
            cookie?: never;
        };
        /**
         * Follow the progress of a job
         * @description Sends the job as server-sent events: at once, while it makes progress at most every 100 ms
         *     (`progress`), and when it has ended (`end`). Then the stream ends. The data of each event is
         *     the whole job, so a client that reconnects has missed nothing.
         */
        get: operations["followJob"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/maintenance/check": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Check index, files and hashes
         * @description Reads every message and compares index, files, hashes and branches with each other, like
         *     `quipu check`. Without `repair` nothing is written. The job is `done` also when it has found
         *     problems: its report lists them.
         *     With `context_id` the job is about that context. Without it the job is about all contexts of
         *     the owner of the key. For a key without an owner that is the whole store, and needs the
         *     scope `admin`. A check of the whole store also covers prompts, sessions and blobs.
         */
        post: operations["checkStore"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/maintenance/gc": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Delete messages that no branch reaches
         * @description Moves messages that no branch reaches to the trash, and deletes those that have been there
         *     for `grace_seconds`, like `quipu gc`. 0 empties the trash at once.
         *     With `context_id` the job is about that context. Without it the job is about all contexts of
         *     the owner of the key. For a key without an owner that is the whole store, and needs the
         *     scope `admin`.
         *     A context in which a turn is running is skipped and listed in `failures`. While the job
         *     works on a context, requests for that context wait for up to 2 seconds and then get 503.
         */
        post: operations["collectGarbage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/maintenance/archive": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Move old messages into compressed files
         * @description Moves messages that are older than `older_than_days` into one compressed file per month,
         *     like `quipu archive`. They stay readable and searchable.
         *     With `context_id` the job is about that context. Without it the job is about all contexts of
         *     the owner of the key. For a key without an owner that is the whole store, and needs the
         *     scope `admin`.
         *     A context in which a turn is running is skipped and listed in `failures`. While the job
         *     works on a context, requests for that context wait for up to 2 seconds and then get 503.
         */
        post: operations["archiveMessages"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/maintenance/compress": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Pack all messages of a context into one compressed file
         * @description Like `quipu compress`. The messages stay readable and searchable, and new ones can be added.
         *     With `context_id` the job is about that context. Without it the job is about all contexts of
         *     the owner of the key. For a key without an owner that is the whole store, and needs the
         *     scope `admin`.
         *     A context in which a turn is running is skipped and listed in `failures`. While the job
         *     works on a context, requests for that context wait for up to 2 seconds and then get 503.
         */
        post: operations["compressContexts"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/maintenance/decompress": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Unpack every message into a file of its own
         * @description Reverts `compress` and `archive`, like `quipu decompress`.
         *     With `context_id` the job is about that context. Without it the job is about all contexts of
         *     the owner of the key. For a key without an owner that is the whole store, and needs the
         *     scope `admin`.
         *     A context in which a turn is running is skipped and listed in `failures`. While the job
         *     works on a context, requests for that context wait for up to 2 seconds and then get 503.
         */
        post: operations["decompressContexts"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/maintenance/reindex": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Rebuild the search index
         * @description Reads every message and rebuilds the database behind lists and search, like `quipu reindex`.
         *     Only for keys without an owner.
         */
        post: operations["reindexStore"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/import": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Import conversations of an older program
         * @description The body is the file: a dump of a browser's LocalStorage, as an object of keys, or an old
         *     context in one file. It is recognised by its content and imported by a job. A file that has
         *     nothing that quipu knows makes the job fail with `INVALID`. A chat is imported completely or
         *     not at all, and importing it again changes nothing. What a key with an owner imports belongs
         *     to that owner: its contexts get this owner, its prompts too. The file is not kept in memory;
         *     the setting `max_import`, and not `max_body`, limits its size.
         */
        post: operations["importFile"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/maintenance/migrate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Convert old contexts in the data directory
         * @description Converts the contexts of an older program that lie in the data directory of the server, like
         *     `quipu migrate` without a path. To import a file, use `POST /v1/import`. Only for keys
         *     without an owner.
         */
        post: operations["migrateStore"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        Job: {
            /** Format: uuid */
            id: string;
            /** @enum {string} */
            kind: "check" | "gc" | "archive" | "compress" | "decompress" | "reindex" | "migrate" | "import";
            /**
             * Format: uuid
             * @description The context that the job is about; null if it is about several.
             */
            context_id: string | null;
            /** @description Of the key that started it. */
            owner: string | null;
            /** @enum {string} */
            state: "queued" | "running" | "done" | "failed" | "cancelled";
            /** @description Finished steps. */
            done: number;
            /** @description All steps; 0: not known yet. */
            total: number;
            /** @description What the job is at: the id of a context, the name of a file. */
            current: string | null;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            started_at: string | null;
            /** Format: date-time */
            ended_at: string | null;
            /** @description When the job has ended, also after a failure or a cancellation: what it has done. */
            report: components["schemas"]["CheckReport"] | components["schemas"]["GcReport"] | components["schemas"]["PackReport"] | components["schemas"]["ReindexReport"] | components["schemas"]["MigrateReport"] | components["schemas"]["ImportReport"] | null;
            /** @description Why the job `failed`. */
            error: {
                code: string;
                message: components["schemas"]["ErrorMessage"];
            } | null;
        };
        JobAnswer: {
            job: components["schemas"]["Job"];
        };
        Jobs: {
            jobs: components["schemas"]["Job"][];
        };
        /** @description At most 1,000 contexts or files with which the job could not work; `failed` counts all. */
        JobFailures: {
            /** Format: uuid */
            context_id: string | null;
            /** @description The name of a file. */
            item?: string;
            code: string;
            message: components["schemas"]["ErrorMessage"];
        }[];
        CheckReport: {
            contexts: number;
            messages: number;
            /** @description Of the messages that were compared with their hashes. */
            bytes: number;
            /** @description Without harmless ones. */
            problems: number;
            repaired: number;
            /** @description The first 1,000 problems. */
            found: {
                /** @description For example MESSAGE_MISSING. */
                problem: string;
                /** Format: uuid */
                context_id: string | null;
                /** @description Relative to the data directory. */
                path: string | null;
                detail: string | null;
                repaired: boolean;
                /** @description For information; nothing is lost or wrong. */
                harmless: boolean;
            }[];
            /** @description Problems that `found` does not list. */
            left_off: number;
            failed: number;
            failures: components["schemas"]["JobFailures"];
        };
        GcReport: {
            contexts: number;
            /** @description Messages that were moved to the trash. */
            trashed: number;
            trashed_bytes: number;
            /** @description Messages and leftover files that were deleted. */
            deleted: number;
            deleted_bytes: number;
            /** @description Messages that are still in the trash. */
            waiting: number;
            dry_run: boolean;
            failed: number;
            failures: components["schemas"]["JobFailures"];
        };
        PackReport: {
            contexts: number;
            /** @description Messages that were moved. */
            messages: number;
            /** @description Of the files that held them. */
            bytes_before: number;
            /** @description Of the files that hold them now; 0 after a dry run. */
            bytes_after: number;
            dry_run: boolean;
            failed: number;
            failures: components["schemas"]["JobFailures"];
        };
        ReindexReport: {
            contexts: number;
            failed: number;
            failures: components["schemas"]["JobFailures"];
        };
        MigrateReport: {
            found: number;
            migrated: number;
            /** @description Were migrated before. */
            already: number;
            messages: number;
            dry_run: boolean;
            failed: number;
            failures: components["schemas"]["JobFailures"];
        };
        ImportReport: {
            /** @description Contexts that were created or extended. */
            imported: number;
            /** @description Contexts that were imported before. */
            already: number;
            /** @description Items that could not be imported. */
            failed: number;
            /** @description New system prompts. */
            prompts: number;
            messages: number;
            /** @description The first 1,000 chats, prompts and items with a problem or a note. */
            items: {
                /** @description For example `chat c-1`. */
                item: string;
                outcome: string;
                /** Format: uuid */
                context_id: string | null;
                messages: number;
                notes: string[];
                /** @description Why it was left out. */
                error: string | null;
            }[];
            /** @description Items that are not listed. */
            left_off: number;
        };
        CheckWork: {
            /** Format: uuid */
            context_id?: string | null;
            /**
             * @description Repair what can be repaired.
             * @default false
             */
            repair: boolean;
        };
        GcWork: {
            /** Format: uuid */
            context_id?: string | null;
            /** @default 604800 */
            grace_seconds: number;
            /**
             * @description Only count; write nothing.
             * @default false
             */
            dry_run: boolean;
        };
        ArchiveWork: {
            /** Format: uuid */
            context_id?: string | null;
            /** @default 182 */
            older_than_days: number;
            /**
             * @description Only count; write nothing.
             * @default false
             */
            dry_run: boolean;
        };
        PackWork: {
            /** Format: uuid */
            context_id?: string | null;
            /**
             * @description Only count; write nothing.
             * @default false
             */
            dry_run: boolean;
        };
        MigrateWork: {
            /**
             * @description Read and compare everything, write nothing.
             * @default false
             */
            dry_run: boolean;
        };
        NoWork: Record<string, never>;
        /**
         * @description The kind of error, for programs.
         * @enum {string}
         */
        ErrorCode: "INVALID" | "UNAUTHORIZED" | "DENIED" | "READONLY" | "NOTFOUND" | "METHOD_NOT_ALLOWED" | "EXISTS" | "CONFLICT" | "PRECONDITION_FAILED" | "TOOBIG" | "UNSUPPORTED_MEDIA_TYPE" | "TOO_MANY_REQUESTS" | "HEADER_TOO_LARGE" | "IO" | "CORRUPT" | "MISUSE" | "NOMEM" | "BUSY" | "OVERLOADED" | "STOPPING" | "NO_ENGINE" | "FULL" | "OWNER_FULL" | "TURN_FAILED";
        /** @description One sentence for people. */
        ErrorMessage: string;
        InvalidError: {
            error: {
                /** @constant */
                code: components["schemas"]["ErrorCode"];
                message: components["schemas"]["ErrorMessage"];
            };
        };
        UnauthorizedError: {
            error: {
                /** @constant */
                code: components["schemas"]["ErrorCode"];
                message: components["schemas"]["ErrorMessage"];
            };
        };
        TooManyRequestsError: {
            error: {
                /** @constant */
                code: components["schemas"]["ErrorCode"];
                message: components["schemas"]["ErrorMessage"];
            };
        };
        DeniedError: {
            error: {
                /** @constant */
                code: components["schemas"]["ErrorCode"];
                message: components["schemas"]["ErrorMessage"];
            };
        };
        NotFoundError: {
            error: {
                /** @constant */
                code: components["schemas"]["ErrorCode"];
                message: components["schemas"]["ErrorMessage"];
            };
        };
        WrongMethodError: {
            error: {
                /** @constant */
                code: components["schemas"]["ErrorCode"];
                message: components["schemas"]["ErrorMessage"];
            };
        };
        ConflictError: {
            error: {
                /** @enum {unknown} */
                code: components["schemas"]["ErrorCode"];
                message: components["schemas"]["ErrorMessage"];
                /** @description The state of the context, if that state does not allow the action. */
                state?: components["schemas"]["StateName"];
            };
        };
        NotMatchedError: {
            error: {
                /** @constant */
                code: components["schemas"]["ErrorCode"];
                message: components["schemas"]["ErrorMessage"];
            };
        };
        TooBigError: {
            error: {
                /** @constant */
                code: components["schemas"]["ErrorCode"];
                message: components["schemas"]["ErrorMessage"];
            };
        };
        WrongTypeError: {
            error: {
                /** @constant */
                code: components["schemas"]["ErrorCode"];
                message: components["schemas"]["ErrorMessage"];
            };
        };
        HeaderTooLongError: {
            error: {
                /** @constant */
                code: components["schemas"]["ErrorCode"];
                message: components["schemas"]["ErrorMessage"];
            };
        };
        FailedError: {
            error: {
                /** @enum {unknown} */
                code: components["schemas"]["ErrorCode"];
                message: components["schemas"]["ErrorMessage"];
            };
        };
        TurnFailedError: {
            error: {
                /** @constant */
                code: components["schemas"]["ErrorCode"];
                message: components["schemas"]["ErrorMessage"];
                state: components["schemas"]["StateName"];
            };
        };
        UnavailableError: {
            error: {
                /** @enum {unknown} */
                code: components["schemas"]["ErrorCode"];
                message: components["schemas"]["ErrorMessage"];
            };
        };
        FullError: {
            error: {
                /** @enum {unknown} */
                code: components["schemas"]["ErrorCode"];
                message: components["schemas"]["ErrorMessage"];
            };
        };
        /** @description A UUID. Ids that the server creates have version 7 and sort by time. */
        Id: string;
        IdOrNull: components["schemas"]["Id"] | null;
        /** Format: date-time */
        Time: string;
        /** @description A text without NUL characters. */
        Text: string;
        TextOrNull: components["schemas"]["Text"] | null;
        /** @description At most 1024 bytes. */
        Title: string | null;
        /** @description 1 to 200 bytes without control characters. */
        BranchName: string;
        /** @description Letters, digits, `.`, `_` and `-`. Callers without an owner see the prompts of owners as `OWNER:ID`. */
        PromptId: string;
        PromptIdOrNull: components["schemas"]["PromptId"] | null;
        /** @description 1 to 128 bytes without control characters and without `/`. */
        SessionId: string;
        Count: number;
        /** @enum {string} */
        Role: "system" | "user" | "assistant" | "tool";
        /** @enum {string} */
        MessageType: "text" | "plan" | "question" | "tool_call" | "tool_result";
        /** @enum {string} */
        StateName: "Idle" | "ProcessingUserMessage" | "AwaitingLLMResponse" | "StreamingLLMResponse" | "ProcessingLLMResponse" | "AwaitingToolApproval" | "ExecutingTools" | "ProcessingToolResults" | "GeneratingResponse" | "Compacting" | "TransientFailure" | "Failed";
        /** @enum {string} */
        Display: "Default" | "Collapsible" | "Hidden";
        /** @description Unknown fields are kept. */
        Config: {
            model_id: string;
            mode: string;
            agent_role: string;
            parameters: Record<string, never>;
            system_prompt_id: components["schemas"]["PromptIdOrNull"];
            compaction?: components["schemas"]["CompactionSettings"];
        };
        /**
         * @description When and how this conversation is compacted. A field that is missing has the value of the
         *     server's configuration. docs/compaction.md explains the fields.
         */
        CompactionSettings: {
            /**
             * @description `auto`: when the threshold is reached. `manual`: only by the action `compact`. `off`: never; a request that does not fit fails with `too_long` and the sizes of all parts.
             * @enum {string}
             */
            mode?: "off" | "manual" | "auto";
            /** @description Percent of the window at which `auto` compacts. */
            threshold?: number;
            /** @description The number of newest messages that are kept unchanged. Fewer are kept when they have more than 20,000 tokens or a quarter of the window. */
            keep?: number;
            /** @description Who writes the summary: `fast` (the provider's small model), `own` (the model of the context), `built-in` (no model), or the name of a model. */
            summarizer?: string;
            /** @description Covered messages that fit a new user message are sent along with it, up to so many tokens; 0: none. */
            recall_tokens?: number;
        };
        Context: {
            id: components["schemas"]["Id"];
            parent_id: components["schemas"]["IdOrNull"];
            title: components["schemas"]["Title"];
            created_at: components["schemas"]["Time"];
            updated_at: components["schemas"]["Time"];
            state: components["schemas"]["StateName"];
            /** @description Details of the state. After a change that could not be saved: "error" with "code" and "message", and "failed_at". */
            state_detail?: Record<string, never>;
            config: components["schemas"]["Config"];
            owner: string | null;
            active_branch: components["schemas"]["BranchName"];
            branches: components["schemas"]["Branch"][];
            /** @description Unknown fields of the metadata. */
            extra?: Record<string, never>;
        };
        /** @description A context with its messages. */
        FullContext: {
            id: components["schemas"]["Id"];
            parent_id: components["schemas"]["IdOrNull"];
            title: components["schemas"]["Title"];
            created_at: components["schemas"]["Time"];
            updated_at: components["schemas"]["Time"];
            state: components["schemas"]["StateName"];
            /** @description Details of the state. After a change that could not be saved: "error" with "code" and "message", and "failed_at". */
            state_detail?: Record<string, never>;
            config: components["schemas"]["Config"];
            owner: string | null;
            active_branch: components["schemas"]["BranchName"];
            branches: components["schemas"]["FullBranch"][];
            /** @description Every message of every branch, by id. */
            message_pool: {
                [key: string]: components["schemas"]["Message"];
            };
            /** @description Unknown fields of the metadata. */
            extra?: Record<string, never>;
        };
        ContextList: {
            contexts: (components["schemas"]["ContextRow"] | components["schemas"]["BrokenContext"])[];
            next_cursor: string | null;
        };
        ContextRow: {
            id: components["schemas"]["Id"];
            title: components["schemas"]["Title"];
            /** Format: date-time */
            created_at: string;
            updated_at: components["schemas"]["Time"];
            messages: components["schemas"]["Count"];
            message_bytes: components["schemas"]["Count"];
            branches: components["schemas"]["Count"];
            model_id: string | null;
            mode: string | null;
            state: string | null;
            owner: string | null;
            summary: string | null;
            /** @description Whether the context has an old format. It is read-only until `quipu migrate` converts it. */
            needs_migration: boolean;
        };
        /** @description A context that cannot be opened. */
        BrokenContext: {
            id: components["schemas"]["Id"];
            error: string;
        };
        NewContext: {
            id?: components["schemas"]["Id"];
            parent_id?: components["schemas"]["IdOrNull"];
            title?: components["schemas"]["Title"];
            model_id?: components["schemas"]["Text"];
            mode?: components["schemas"]["Text"];
            agent_role?: components["schemas"]["Text"];
            system_prompt_id?: components["schemas"]["PromptIdOrNull"];
            parameters?: Record<string, never>;
            /** @description Tools that the client runs itself (`actions/submit_tool_results`). */
            tools?: components["schemas"]["ClientTools"] | null;
            compaction?: components["schemas"]["CompactionSettings"];
        };
        ContextChange: {
            title?: components["schemas"]["Title"];
            parent_id?: components["schemas"]["IdOrNull"];
            /** @description Any field. null removes a field or restores its default. */
            config?: {
                model_id?: components["schemas"]["TextOrNull"];
                mode?: components["schemas"]["TextOrNull"];
                agent_role?: components["schemas"]["TextOrNull"];
                parameters?: Record<string, never> | null;
                system_prompt_id?: components["schemas"]["PromptIdOrNull"];
                workspace_path?: components["schemas"]["TextOrNull"];
                /** @description Tools that the client runs itself (`actions/submit_tool_results`). */
                tools?: components["schemas"]["ClientTools"] | null;
                /** @description Replaces all settings of compaction. null restores the defaults. */
                compaction?: components["schemas"]["CompactionSettings"] | null;
            };
            model_id?: components["schemas"]["Text"];
            mode?: components["schemas"]["Text"];
            agent_role?: components["schemas"]["Text"];
            system_prompt_id?: components["schemas"]["PromptIdOrNull"];
            parameters?: Record<string, never>;
            /** @description Tools that the client runs itself (`actions/submit_tool_results`). */
            tools?: components["schemas"]["ClientTools"] | null;
            compaction?: components["schemas"]["CompactionSettings"];
        };
        Size: {
            messages: components["schemas"]["Count"];
            message_bytes: components["schemas"]["Count"];
            metadata_bytes: components["schemas"]["Count"];
            archived_messages: components["schemas"]["Count"];
            archived_bytes: components["schemas"]["Count"];
            pack_bytes: components["schemas"]["Count"];
            trashed_messages: components["schemas"]["Count"];
            trashed_bytes: components["schemas"]["Count"];
        };
        Branch: {
            name: components["schemas"]["BranchName"];
            active: boolean;
            /** @description The newest message of the branch. */
            head: components["schemas"]["IdOrNull"];
            messages: components["schemas"]["Count"];
            message_bytes: components["schemas"]["Count"];
            system_prompt_id: components["schemas"]["PromptIdOrNull"];
            /** @description The current content of the prompt that `system_prompt_id` names. */
            system_prompt: components["schemas"]["UsedPrompt"] | null;
            /** Format: date-time */
            created_at: string;
        };
        FullBranch: {
            name: components["schemas"]["BranchName"];
            active: boolean;
            /** @description The newest message of the branch. */
            head: components["schemas"]["IdOrNull"];
            messages: components["schemas"]["Count"];
            message_bytes: components["schemas"]["Count"];
            system_prompt_id: components["schemas"]["PromptIdOrNull"];
            /** @description The current content of the prompt that `system_prompt_id` names. */
            system_prompt: components["schemas"]["UsedPrompt"] | null;
            /** Format: date-time */
            created_at: string;
            /** @description All messages from the first to the head. */
            message_ids: components["schemas"]["Id"][];
        };
        NewBranch: {
            name: components["schemas"]["BranchName"];
            /** @description The branch whose head is the starting point. Default: the active branch. */
            from?: components["schemas"]["BranchName"];
            /** @description The message that is the starting point, instead of the head of `from`. */
            at?: components["schemas"]["Id"];
        };
        BranchChange: {
            name?: components["schemas"]["BranchName"];
            /**
             * @description Makes the branch the active branch.
             * @enum {boolean}
             */
            active?: true;
            /** @description Moves the head of the branch to this message of the context. null empties the branch. */
            head?: components["schemas"]["IdOrNull"];
            system_prompt_id?: components["schemas"]["PromptIdOrNull"];
        };
        Message: {
            id: components["schemas"]["Id"];
            role: components["schemas"]["Role"];
            type: components["schemas"]["MessageType"];
            /** @description The text parts, joined by line breaks. null if the content is lost. */
            text: string | null;
            thinking?: string;
            images: {
                url: string;
                detail: string | null;
            }[];
            tool_calls: components["schemas"]["ToolCall"][];
            tool_result: components["schemas"]["ToolResult"] | null;
            /** Format: date-time */
            created_at: string;
            parent_id: components["schemas"]["IdOrNull"];
            metadata: Record<string, never> | null;
            /** @description Parts of unknown types, unchanged. */
            other?: Record<string, never>[];
            /** @description Unknown fields, unchanged. */
            extra?: Record<string, never>;
            /**
             * @description Present only if the content is lost.
             * @constant
             */
            status?: "unavailable";
            /**
             * @description Present only if the message is pinned.
             * @constant
             */
            pinned?: true;
        };
        /** @description Unknown fields are kept. */
        ToolCall: {
            id: string;
            tool_name: string;
            arguments: unknown;
            /** @enum {string} */
            approval_status: "Pending" | "Approved" | "Denied";
            display_preference: components["schemas"]["Display"];
            ui_hints?: Record<string, never>;
            /** @description `client`: a tool of the client, which brings the result (`actions/submit_tool_results`). Absent: a tool of the server. */
            kind?: string;
        };
        /** @description Unknown fields are kept. */
        ToolResult: {
            request_id: string;
            result: unknown;
            is_error: boolean;
            display_preference: components["schemas"]["Display"];
        };
        /**
         * @description Either `text` or `content`, which is a string or an array of parts. Missing fields get
         *     default values. Messages of OpenAI's and Anthropic's APIs are accepted as they are.
         */
        NewMessage: {
            /**
             * @description `developer` is stored as `system`.
             * @enum {string}
             */
            role: "system" | "user" | "assistant" | "tool" | "developer";
            text?: string | null;
            content?: null | string | components["schemas"]["NewPart"][];
            tool_calls?: null | (components["schemas"]["NewToolCall"] | components["schemas"]["FunctionCall"])[];
            /** @description Of a message of the role `tool`: the call of which `content` is the result. */
            tool_call_id?: string;
            name?: string;
            tool_result?: components["schemas"]["NewToolResult"] | null;
            metadata?: Record<string, never> | null;
            type?: components["schemas"]["MessageType"] | null;
            id?: components["schemas"]["IdOrNull"];
            /** @description If given, it must be the head of the branch; otherwise 409. */
            parent_id?: components["schemas"]["IdOrNull"];
            /**
             * Format: date-time
             * @description RFC 3339 with any time zone.
             */
            created_at?: string | null;
            /** @description The same as the query parameter `branch`, and overrides it. */
            branch?: components["schemas"]["BranchName"];
        };
        /** @description Unknown fields and parts of unknown types are kept. */
        NewPart: {
            /** @description `text`, `thinking`, `image` or another type. */
            type: string;
            text?: unknown;
            url?: unknown;
            detail?: unknown;
            signature?: unknown;
        } & (unknown & unknown & unknown);
        NewToolCall: {
            id: string;
            tool_name: string;
            arguments?: unknown;
            /** @enum {unknown} */
            approval_status?: "Pending" | "Approved" | "Denied" | null;
            /** @enum {unknown} */
            display_preference?: "Default" | "Collapsible" | "Hidden" | null;
            ui_hints?: Record<string, never> | null;
        };
        /** @description A tool call as OpenAI's API has it. It is stored as approved. */
        FunctionCall: {
            id: string;
            function: {
                name: string;
                /** @description JSON as text. */
                arguments?: unknown;
            };
        };
        NewToolResult: {
            request_id: string;
            result?: unknown;
            is_error?: boolean | null;
            /** @enum {unknown} */
            display_preference?: "Default" | "Collapsible" | "Hidden" | null;
        };
        MessagePage: {
            messages: components["schemas"]["Message"][];
            /**
             * @description Where the conversation was compacted: each entry belongs behind the message `after`. The
             *     last one is the one in use.
             */
            compactions: components["schemas"]["Marker"][];
            /** @description The number of messages of the branch. */
            total: components["schemas"]["Count"];
            /** @description null on the last page. */
            next_cursor: string | null;
            branch: components["schemas"]["BranchName"];
        };
        State: {
            id: components["schemas"]["Id"];
            state: components["schemas"]["StateName"];
            /** @description Details of the state. After a change that could not be saved: "error" with "code" and "message", and "failed_at". */
            state_detail?: Record<string, never>;
            branch: components["schemas"]["BranchName"];
            /** @description The number of messages of the branch, including those that are not in `messages`. */
            total: components["schemas"]["Count"];
            messages: components["schemas"]["Message"][];
            /** @description The calls that wait for approval. */
            pending_tool_calls: components["schemas"]["ToolCall"][];
            window?: components["schemas"]["Window"];
            /**
             * @description The number of the newest event that this state includes. To miss nothing, follow the
             *     events after this number.
             */
            last_event_id: components["schemas"]["Count"];
            updated_at: components["schemas"]["Time"];
        };
        SavedMessage: {
            id: components["schemas"]["Id"];
            state: components["schemas"]["StateName"];
            /** @description Details of the state. After a change that could not be saved: "error" with "code" and "message", and "failed_at". */
            state_detail?: Record<string, never>;
            branch: components["schemas"]["BranchName"];
            /** @description The number of messages of the branch, including those that are not in `messages`. */
            total: components["schemas"]["Count"];
            messages: components["schemas"]["Message"][];
            /** @description The calls that wait for approval. */
            pending_tool_calls: components["schemas"]["ToolCall"][];
            window?: components["schemas"]["Window"];
            /**
             * @description The number of the newest event that this state includes. To miss nothing, follow the
             *     events after this number.
             */
            last_event_id: components["schemas"]["Count"];
            updated_at: components["schemas"]["Time"];
            /** @description The last of the new messages. */
            message_id: components["schemas"]["Id"];
            /** @description All new messages, in their order. */
            message_ids: components["schemas"]["Id"][];
        };
        McpAnswer: Record<string, never> | unknown[];
        /** @description A JSON-RPC error, or an error of the API about the request itself. */
        McpError: {
            error: Record<string, never>;
        };
        /**
         * @description How much of the model's window the conversation fills, in tokens, as it would be sent now.
         *     Missing on a server that runs no turns, and in the response to `POST …/messages`.
         */
        Window: {
            /** @description Everything that would be sent, and the reserve. */
            used: components["schemas"]["Count"];
            /** @description The window of the model. */
            window: components["schemas"]["Count"];
            /** @description The number of tokens at which the conversation is compacted. */
            threshold: components["schemas"]["Count"];
            /** @description Kept free for the answer. */
            reserve: components["schemas"]["Count"];
            /** @description Where each number comes from. */
            origins: {
                /** @enum {string} */
                used: "provider" | "estimate";
                /** @enum {string} */
                window: "user" | "provider" | "table" | "default";
                /** @enum {string} */
                threshold: "user" | "default";
                /** @enum {string} */
                reserve: "user" | "table" | "default";
            };
            /** @description An estimate of what is sent, by kind. */
            parts: {
                system: components["schemas"]["Count"];
                tools: components["schemas"]["Count"];
                summary: components["schemas"]["Count"];
                text: components["schemas"]["Count"];
                thinking: components["schemas"]["Count"];
                calls: components["schemas"]["Count"];
                results: components["schemas"]["Count"];
                images: components["schemas"]["Count"];
            };
            /** @enum {string} */
            mode: "off" | "manual" | "auto";
            /** @description The compaction in use. */
            compaction: null | components["schemas"]["Marker"];
            /** @description Whether the summariser failed three times in a row, so that the built-in summariser is used from now on. */
            breaker: boolean;
        };
        /** @description A compaction as an item of the history. */
        Marker: {
            id: components["schemas"]["Id"];
            /** @description The last message that the summary covers; the mark belongs behind it. */
            after: components["schemas"]["Id"];
            /** @description The same as `after`. */
            last: components["schemas"]["Id"];
            /** @description The number of messages that the summary replaces. */
            covered: components["schemas"]["Count"];
            /** @description The number of newer messages that were kept unchanged. */
            kept: components["schemas"]["Count"];
            tokens_before: components["schemas"]["Count"];
            tokens_after: components["schemas"]["Count"];
            created_at: components["schemas"]["Time"];
        };
        Compactions: {
            /** @description The record in use on the branch; null if the branch is sent whole. */
            active: components["schemas"]["IdOrNull"];
            compactions: components["schemas"]["CompactionRecord"][];
            /** @description The pinned messages. */
            pins: components["schemas"]["Id"][];
        };
        /** @description What a compaction did (`kind` = `compact`), or that one was undone or redone. Records are only added, never changed. */
        CompactionRecord: {
            id: components["schemas"]["Id"];
            /** @enum {string} */
            kind: "compact" | "undo" | "redo";
            /** @description The record that was undone or redone. */
            target?: components["schemas"]["Id"];
            /** @description The record that this one replaced. */
            parent?: components["schemas"]["IdOrNull"];
            created_at: components["schemas"]["Time"];
            reason?: string;
            /** @description The number of messages, from the start of the branch, that the summary replaces. */
            covered?: components["schemas"]["Count"];
            last?: components["schemas"]["IdOrNull"];
            /** @description Of the covered messages. The record holds for branches that begin with them. */
            hash?: string;
            narrative?: string;
            /** @description Exact values, listed from the messages by the server itself. */
            ledger?: string;
            /** @description The model that wrote the narrative; null for the built-in summariser. */
            model?: string | null;
            tokens_before?: components["schemas"]["Count"];
            tokens_after?: components["schemas"]["Count"];
            /** @description In millionths of a millionth of a dollar; -1 if it is not known. */
            cost?: number;
            /** @description 1 for a narrative of the messages themselves, one more for each extension of a narrative; at most 4, or 8 when turns had to wait for it. */
            generation?: number;
        } & {
            [key: string]: unknown;
        };
        View: {
            model: string;
            system: string | null;
            tools: string[];
            /** @description In the stored form. */
            messages: Record<string, never>[];
            tokens: components["schemas"]["Count"];
        };
        /** @description What a compaction would do. */
        CompactPlan: {
            /** @constant */
            dry_run: true;
            plan: {
                /** @enum {string} */
                action: "none" | "stub" | "summarise" | "trim" | "too_long";
                covered: components["schemas"]["Count"];
                kept: components["schemas"]["Count"];
                tokens_before: components["schemas"]["Count"];
                tokens_after: components["schemas"]["Count"];
                /** @description As the built-in summariser writes it; a dry run calls no model. */
                narrative: string | null;
                ledger: string | null;
                why: string;
            };
        };
        Compact: {
            branch?: components["schemas"]["OptionalBranch"];
            /** @description Cover messages up to this one at most. The cut is moved back to a point between turns. */
            up_to?: components["schemas"]["IdOrNull"];
            /** @description What the summary should pay attention to. */
            instructions?: string | null;
            dry_run?: boolean;
        };
        BranchOnly: {
            branch?: components["schemas"]["OptionalBranch"];
        };
        EditSummary: {
            branch?: components["schemas"]["OptionalBranch"];
            text: string;
        };
        Expand: {
            branch?: components["schemas"]["OptionalBranch"];
            from: components["schemas"]["Id"];
            to: components["schemas"]["Id"];
        };
        Pin: {
            message_id: components["schemas"]["Id"];
        };
        /** @description The state of the context and the result of the action. */
        ActionAnswer: {
            id: components["schemas"]["Id"];
            state: components["schemas"]["StateName"];
            /** @description Details of the state. After a change that could not be saved: "error" with "code" and "message", and "failed_at". */
            state_detail?: Record<string, never>;
            branch: components["schemas"]["BranchName"];
            /** @description The number of messages of the branch, including those that are not in `messages`. */
            total: components["schemas"]["Count"];
            messages: components["schemas"]["Message"][];
            /** @description The calls that wait for approval. */
            pending_tool_calls: components["schemas"]["ToolCall"][];
            window?: components["schemas"]["Window"];
            /**
             * @description The number of the newest event that this state includes. To miss nothing, follow the
             *     events after this number.
             */
            last_event_id: components["schemas"]["Count"];
            updated_at: components["schemas"]["Time"];
            /** @description The message that the action saved; null if it saved none. */
            message_id: components["schemas"]["IdOrNull"];
            /** @description The number of the newest event. To miss nothing, follow the events after this number. */
            seq: components["schemas"]["Count"];
            /** @description The rules that `always` has stored. */
            rules?: {
                tool: string;
                arguments: Record<string, never>;
            }[];
            /** @description Whether the action was performed earlier, by a request with the same `Idempotency-Key`. */
            replayed: boolean;
        };
        /**
         * @description Server-sent events. The `data` of each event is one JSON object, described by the schema
         *     Event; `id` is its `seq` and `event` is its `type`.
         */
        EventStream: string;
        /** @description One event of a context. */
        Event: components["schemas"]["StateEvent"] | components["schemas"]["MessageEvent"] | components["schemas"]["BranchEvent"] | components["schemas"]["AnswerEvent"] | components["schemas"]["PieceEvent"] | components["schemas"]["CallEvent"] | components["schemas"]["UsageEvent"] | components["schemas"]["StopEvent"] | components["schemas"]["ToolStartEvent"] | components["schemas"]["ToolEndEvent"] | components["schemas"]["QueueEvent"] | components["schemas"]["CompactStartedEvent"] | components["schemas"]["CompactEvent"] | components["schemas"]["CompactFailedEvent"] | components["schemas"]["CompactionEvent"] | components["schemas"]["GapEvent"];
        /** @description Increases from event to event of a context. Numbers may be missing. */
        EventNumber: number;
        /** @description The context has a new state. The state is durable, except StreamingLLMResponse. */
        StateEvent: {
            seq: components["schemas"]["EventNumber"];
            time: components["schemas"]["Time"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "state";
            state: components["schemas"]["StateName"];
            detail?: Record<string, never>;
            window?: components["schemas"]["Window"];
        };
        /** @description A message was stored. */
        MessageEvent: {
            seq: components["schemas"]["EventNumber"];
            time: components["schemas"]["Time"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "message";
            id: components["schemas"]["Id"];
            role: components["schemas"]["Role"];
            branch?: string;
            /** @description The tool call that this result belongs to. */
            request_id?: string;
        };
        /** @description Another branch is active now. */
        BranchEvent: {
            seq: components["schemas"]["EventNumber"];
            time: components["schemas"]["Time"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "branch";
            branch: string;
            new: boolean;
        };
        /** @description The model begins an answer. Published before the answer is durable. */
        AnswerEvent: {
            seq: components["schemas"]["EventNumber"];
            time: components["schemas"]["Time"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "answer";
            provider: string;
            id: string;
            model: string;
        };
        /** @description The next piece of a block of the answer. Published before it is durable. */
        PieceEvent: {
            seq: components["schemas"]["EventNumber"];
            time: components["schemas"]["Time"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "text" | "thinking" | "signature" | "other" | "arguments" | "call_end";
            block: number;
            text?: string;
            /** @description The piece was too long for the event log. */
            cut?: boolean;
        };
        /** @description The model begins a tool call. */
        CallEvent: {
            seq: components["schemas"]["EventNumber"];
            time: components["schemas"]["Time"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "call";
            block: number;
            id: string;
            name: string;
        };
        /** @description The number of tokens of the answer, as far as it is known. */
        UsageEvent: {
            seq: components["schemas"]["EventNumber"];
            time: components["schemas"]["Time"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "usage";
            input: number;
            cache_read: number;
            cache_write: number;
            cache_write_1h: number;
            output: number;
            reasoning: number;
        };
        /** @description The model has stopped. */
        StopEvent: {
            seq: components["schemas"]["EventNumber"];
            time: components["schemas"]["Time"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "stop";
            stop: number;
            reason: string;
        };
        /** @description A tool was started. */
        ToolStartEvent: {
            seq: components["schemas"]["EventNumber"];
            time: components["schemas"]["Time"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "tool_start";
            id: string;
            name: string;
        };
        /** @description A tool has finished. */
        ToolEndEvent: {
            seq: components["schemas"]["EventNumber"];
            time: components["schemas"]["Time"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "tool_end";
            id: string;
            name: string;
            is_error: boolean;
            ms: number;
        };
        /** @description The queue of the context has changed. Read it again. */
        QueueEvent: {
            seq: components["schemas"]["EventNumber"];
            time: components["schemas"]["Time"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "queue";
            /** @description The number of messages that wait. */
            items: number;
        };
        Queue: {
            items: components["schemas"]["QueueItem"][];
        };
        /** @description A message that waits. It keeps its id when it is sent. */
        QueueItem: {
            id: components["schemas"]["Id"];
            text: string;
            /** @description The number of its images. */
            images: number;
            /** @description The branch to send it on. Null: the branch that is active then. */
            branch: string | null;
            created_at: components["schemas"]["Time"];
            /** @description Why it could not be sent, for example because its branch was deleted. It is tried again after it is edited or sent with `POST …/send`. */
            error: string | null;
        };
        QueueMessage: {
            content: components["schemas"]["Content"];
            branch?: components["schemas"]["OptionalBranch"];
        };
        QueueEdit: {
            text: string;
        };
        QueueAnswer: {
            /** @description The message; null: it was sent in the meantime. */
            queued: components["schemas"]["QueueItem"] | null;
            message_id: components["schemas"]["Id"];
            /** @description The number of messages that wait. */
            items: number;
            /** @description It was queued before with the same key. */
            replayed: boolean;
        };
        /** @description A summary is being made. The conversation is not compacted yet. Not sent when a summary that was prepared ahead of need is used. */
        CompactStartedEvent: {
            seq: components["schemas"]["EventNumber"];
            time: components["schemas"]["Time"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "compact_started";
            branch: string;
            /** @description threshold, request or overflow */
            reason: string;
        };
        /** @description The conversation was compacted. The record is durable. */
        CompactEvent: {
            seq: components["schemas"]["EventNumber"];
            time: components["schemas"]["Time"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "compact";
            id: components["schemas"]["Id"];
            branch: string;
            covered: components["schemas"]["Count"];
            kept: components["schemas"]["Count"];
            tokens_before: components["schemas"]["Count"];
            tokens_after: components["schemas"]["Count"];
            reason: string;
            /** @description Of the summary; null if it is not known. */
            cost_usd: number | null;
            /** @description The model that wrote the narrative; null for the built-in summariser. */
            model: string | null;
            /** @description The number of messages whose tool outputs were replaced by stubs. */
            stubs?: components["schemas"]["Count"];
            /** @description Whether the model has the tools that find covered messages again. */
            recall?: boolean;
        };
        /** @description A compaction failed; nothing has changed. */
        CompactFailedEvent: {
            seq: components["schemas"]["EventNumber"];
            time: components["schemas"]["Time"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "compact_failed";
            branch: string;
            reason: string;
            error: string;
            /** @description Whether it was the third failure in a row. */
            breaker?: boolean;
        };
        /** @description A compaction was undone, redone, edited or expanded, or a message pinned or unpinned. */
        CompactionEvent: {
            seq: components["schemas"]["EventNumber"];
            time: components["schemas"]["Time"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "compaction";
            /** @enum {string} */
            action: "undo" | "redo" | "edit" | "expand" | "pin" | "unpin";
            id?: components["schemas"]["Id"];
            message_id?: components["schemas"]["Id"];
            branch: string;
        };
        /** @description Older events are no longer kept. Read the state again. */
        GapEvent: {
            seq: components["schemas"]["EventNumber"];
            time: components["schemas"]["Time"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "gap";
        };
        /** @description A text, or an array of parts like in a message. */
        Content: string | components["schemas"]["NewPart"][];
        OptionalBranch: components["schemas"]["BranchName"] | null;
        SendMessage: {
            content: components["schemas"]["Content"];
            /** @description The branch to append to. Default: the active branch. */
            branch?: components["schemas"]["OptionalBranch"];
            /** @description The tools of this turn that the client runs itself, instead of those of the context. Retries of the turn use them too. */
            tools?: components["schemas"]["ClientTools"] | null;
        };
        /** @description Tools that the client runs itself, at most 256 KiB of JSON. A name must differ from the names of the other tools, also of those of the server. */
        ClientTools: components["schemas"]["ClientTool"][];
        ClientTool: {
            name: string;
            description?: string | null;
            /** @description The JSON Schema of the arguments, of type object. Default: no arguments. */
            parameters?: Record<string, never> | null;
            /** @description The provider makes sure that arguments fit the schema, if it can. */
            strict?: boolean | null;
        };
        SubmitToolResults: {
            results: {
                tool_call_id: string;
                /** @description What the tool answered. */
                result?: unknown;
                /** @description Why it failed, for the model. */
                error?: unknown;
            }[];
        };
        /** @description At least one call must be listed. */
        ApproveTools: {
            /** @description Ids of the calls that may run. */
            approved?: components["schemas"]["CallIds"];
            /** @description Ids of the calls that must not run. */
            denied?: components["schemas"]["CallIds"];
            /** @description The reason for denying the calls. The model receives it. */
            reason?: string | null;
            /** @description From now on, calls like the approved ones run without asking, in all contexts of the same owner, also after a restart. One rule is stored per approved call. The rule names the tool and all arguments that are paths or commands (for `run_command`: all arguments); a call matches if these arguments are exactly equal. Calls that the policy of the server denies stay denied. `GET /v1/tools/rules` lists the rules; the response names them in `rules`. */
            always?: boolean;
            /** @description Arguments that the person has changed, by the ids of approved calls. The policy is checked again with them: 400 if it does not allow them. The result of the call tells the model what was changed. */
            arguments?: {
                [key: string]: Record<string, never>;
            } | null;
        };
        Rules: {
            rules: components["schemas"]["Rule"][];
        };
        /** @description Tool calls that run without asking, because a user approved an equal call with `always`. */
        Rule: {
            id: string;
            /** @description The rule applies to the contexts of this owner. Missing for contexts without an owner. */
            owner?: string;
            tool: string;
            /** @description The arguments that a call must have, with exactly these values. */
            arguments: {
                [key: string]: unknown;
            };
            /** Format: date-time */
            created_at: string;
        };
        CallIds: null | string[];
        Nothing: Record<string, never>;
        Retry: {
            branch?: components["schemas"]["OptionalBranch"];
        };
        Regenerate: {
            /** @description The answer to generate again. Default: the last answer of the active branch. */
            message_id?: components["schemas"]["IdOrNull"];
            /** @description The name of the new branch. Default: the server chooses a name. */
            branch?: components["schemas"]["OptionalBranch"];
        };
        EditMessage: {
            /** @description The user message to replace. */
            message_id: components["schemas"]["Id"];
            content: components["schemas"]["Content"];
            /** @description The name of the new branch. Default: the server chooses a name. */
            branch?: components["schemas"]["OptionalBranch"];
            /** @description The tools of this turn that the client runs itself, instead of those of the context. Retries of the turn use them too. */
            tools?: components["schemas"]["ClientTools"] | null;
        };
        SwitchBranch: {
            branch: components["schemas"]["BranchName"];
        };
        /** @description The number of bytes stored for an owner. */
        Usage: {
            owner: string;
            bytes: number;
            limit: number | null;
        };
        /** @description Sums over answers of models. */
        UsageSums: {
            answers: number;
            /** @description All input, also from a cache. */
            input_tokens: number;
            output_tokens: number;
            /** @description The part of the input that was read from a cache. */
            cached_tokens: number;
            cost_usd: number;
            /** @description Answers whose cost is unknown. */
            unpriced: number;
        };
        /** @description The sums of a day. */
        UsageDay: {
            /** Format: date */
            day: string;
            answers: number;
            /** @description All input, also from a cache. */
            input_tokens: number;
            output_tokens: number;
            /** @description The part of the input that was read from a cache. */
            cached_tokens: number;
            cost_usd: number;
            /** @description Answers whose cost is unknown. */
            unpriced: number;
        };
        /** @description The sums of a context. */
        UsageContext: {
            context_id: components["schemas"]["Id"];
            title: string | null;
            answers: number;
            /** @description All input, also from a cache. */
            input_tokens: number;
            output_tokens: number;
            /** @description The part of the input that was read from a cache. */
            cached_tokens: number;
            cost_usd: number;
            /** @description Answers whose cost is unknown. */
            unpriced: number;
        };
        /** @description The sums of a model, as the provider calls it; empty if it is unknown. */
        UsageModel: {
            model: string;
            answers: number;
            /** @description All input, also from a cache. */
            input_tokens: number;
            output_tokens: number;
            /** @description The part of the input that was read from a cache. */
            cached_tokens: number;
            cost_usd: number;
            /** @description Answers whose cost is unknown. */
            unpriced: number;
        };
        /** @description What models have used. */
        UsageReport: {
            from: components["schemas"]["Time"];
            total: components["schemas"]["UsageSums"];
            days: components["schemas"]["UsageDay"][];
            contexts: components["schemas"]["UsageContext"][];
            models: components["schemas"]["UsageModel"][];
        };
        /** @description The size of a branch, from the first message to its head. */
        BranchSize: {
            name: components["schemas"]["BranchName"];
            messages: number;
            message_bytes: number;
        };
        /** @description The size of a context. */
        SizeRow: {
            id: components["schemas"]["Id"];
            title: string | null;
            owner: string | null;
            updated_at: components["schemas"]["Time"];
            messages: number;
            message_bytes: number;
            metadata_bytes: number;
            archived_messages: number;
            archived_bytes: number;
            trashed_messages: number;
            trashed_bytes: number;
            branch_count: number;
            branches: components["schemas"]["BranchSize"][];
        };
        /** @description Sums over all contexts. */
        SizeTotal: {
            contexts: number;
            messages: number;
            message_bytes: number;
            metadata_bytes: number;
            archived_messages: number;
            archived_bytes: number;
            trashed_messages: number;
            trashed_bytes: number;
        };
        /** @description A page of sizes. */
        SizeList: {
            total: components["schemas"]["SizeTotal"];
            contexts: components["schemas"]["SizeRow"][];
            next_cursor: string | null;
        };
        /** @description A row of messages in the trash. */
        TrashRow: {
            first_message_id: components["schemas"]["Id"];
            last_message_id: components["schemas"]["Id"];
            messages: number;
            message_bytes: number;
            created_at: components["schemas"]["Time"];
            trashed_at: components["schemas"]["Time"];
        };
        /** @description The trash of a context. */
        Trash: {
            trash: components["schemas"]["TrashRow"][];
            more: boolean;
        };
        Models: {
            models: components["schemas"]["Model"][];
            /** @description The model for contexts that name no model, as `provider/model`. */
            default: string;
        };
        Model: {
            id: string;
            provider: string;
            /** @description The maximum number of tokens of request and answer together. */
            window: number;
            /** @description The maximum number of tokens of an answer. */
            max_output: number;
            /** @description Whether the provider of the model is configured. */
            available: boolean;
            /** @description Dollars per million tokens. */
            input_price?: number;
            output_price?: number;
        };
        Tools: {
            tools: components["schemas"]["Tool"][];
            servers: components["schemas"]["McpServer"][];
        };
        McpServer: {
            name: string;
            /** @enum {unknown} */
            transport: "stdio" | "http";
            /**
             * @description A server that failed is restarted automatically; its tools stay in the list.
             * @enum {unknown}
             */
            state: "starting" | "ready" | "failed";
            /** @description The number of tools that the server offers. */
            tools: number;
            /** @description The number of failures since its last good answer. */
            failures: number;
            /** @description The reason for the last failure. */
            error?: string;
            /**
             * Format: date-time
             * @description When a failed server is restarted.
             */
            next_try?: string;
        };
        Tool: {
            name: string;
            title?: string;
            description: string;
            /** @description `builtin`, or the name of the MCP server that offers the tool. */
            source: string;
            display_preference: components["schemas"]["Display"];
            /** @description Hints for a user interface that shows calls of this tool. */
            ui_hints: Record<string, never>;
            /** @description Whether the tool may change something. */
            changes: boolean;
            /**
             * @description What the policy decides for a call without arguments.
             * @enum {unknown}
             */
            default: "auto" | "ask" | "deny";
            /** @description The JSON Schema of the arguments. */
            schema: Record<string, never>;
        };
        Hits: {
            hits: components["schemas"]["Hit"][];
            next_cursor: string | null;
        };
        Hit: {
            context_id: components["schemas"]["Id"];
            title: components["schemas"]["Title"];
            message_id: components["schemas"]["Id"];
            role: components["schemas"]["Role"];
            /** Format: date-time */
            created_at: string;
            snippet: components["schemas"]["Snippet"];
        };
        /** @description An excerpt of the text. `match` marks the words that were searched for. */
        Snippet: {
            text: string;
            match: boolean;
        }[];
        Finds: {
            hits: components["schemas"]["Find"][];
            next_cursor: string | null;
        };
        /** @description A message, and where it is. */
        Find: {
            id: components["schemas"]["Id"];
            /** @description Its position in the branch, from 1. */
            at: number;
            /** @description A branch that has the message; null if the branch was deleted. */
            branch: string | null;
            role: components["schemas"]["Role"];
            /** Format: date-time */
            created_at: string;
            snippet: components["schemas"]["Snippet"];
        };
        Previews: {
            previews: components["schemas"]["Preview"][];
        };
        Preview: {
            id: components["schemas"]["Id"];
            /** @description The position in its history, from 1. */
            at: number;
            role: components["schemas"]["Role"];
            /** @description At most 200 characters without line breaks: of the text, or the name of the called tool, or of the result of a tool. */
            text: string;
            /** @description The message is damaged or missing. */
            error: boolean;
        };
        Outline: {
            branch: components["schemas"]["BranchName"];
            /** @description The number of messages of the branch. */
            count: number;
            branches: components["schemas"]["Fork"][];
            /** @description Where the history was cut when it was compacted, oldest first. */
            compactions: Record<string, never>[];
            /** @description The number of the oldest landmarks that are not in `items`. */
            left_out?: number;
            /** @description Sums over equal parts of a range with more than `max` messages. */
            buckets?: components["schemas"]["OutlineBucket"][];
            items: components["schemas"]["OutlineItem"][];
        };
        /** @description A branch, compared with the branch of the outline. */
        Fork: {
            name: components["schemas"]["BranchName"];
            /** @description Its last message. */
            head: components["schemas"]["Id"] | null;
            /** @description The number of its messages. */
            messages: number;
            /** @description The number of messages, from the first one on, that both branches have. */
            fork_at: number;
            /** @description Its first message that the branch of the outline does not have, or null. */
            first: components["schemas"]["Id"] | null;
            /** Format: date-time */
            created_at: string;
        };
        OutlineBucket: {
            /** @description The first position. */
            from: number;
            /** @description The last position. */
            to: number;
            /** @description The number of messages. */
            count: number;
            /** @description Messages of the user. */
            prompts: number;
            /** @description Messages with alternatives. */
            branch_points: number;
            tokens: number;
            bytes: number;
        };
        /** @description What the index knows of a message. */
        OutlineItem: {
            /** @description The position in the branch, from 1. */
            at: number;
            id: components["schemas"]["Id"];
            role: components["schemas"]["Role"];
            /** @description The type of the message. */
            type: string;
            /**
             * @description `branch_point`: other branches have another message in this place.
             * @enum {string}
             */
            kind: "message" | "branch_point";
            /** Format: date-time */
            time: string;
            /** @description 0: not counted. */
            tokens: number;
            /** @description The size of the stored message. */
            bytes: number;
            /** @description How many branches continue differently here, this one included. */
            alternatives: number;
            /** @description Compaction keeps the message as it is. */
            pinned: boolean;
            /** @description The message is damaged or missing. */
            error: boolean;
        };
        Prompt: {
            id: components["schemas"]["PromptId"];
            name: string | null;
            description: string | null;
            content: string;
            /** Format: date-time */
            created_at: string;
            updated_at: components["schemas"]["Time"];
        };
        UsedPrompt: {
            id: components["schemas"]["PromptId"];
            name: string | null;
            description: string | null;
            content: string;
        };
        NewPrompt: {
            id?: components["schemas"]["PromptId"];
            name?: components["schemas"]["TextOrNull"];
            description?: components["schemas"]["TextOrNull"];
            content: components["schemas"]["Text"];
        };
        PromptChange: {
            name?: components["schemas"]["Text"];
            description?: components["schemas"]["Text"];
            content?: components["schemas"]["Text"];
        };
        /** @description The number of messages per file. 0 means 512. */
        ChunkSize: number;
        Session: {
            id: components["schemas"]["SessionId"];
            agent_id: string | null;
            source: string | null;
            title: string | null;
            messages: components["schemas"]["Count"];
            /** @description The number of files. */
            chunks: components["schemas"]["Count"];
            chunk_size: components["schemas"]["ChunkSize"];
            /** Format: date-time */
            created_at: string;
            updated_at: components["schemas"]["Time"];
        };
        NewSession: {
            id?: components["schemas"]["SessionId"];
            agent_id?: components["schemas"]["TextOrNull"];
            source?: components["schemas"]["TextOrNull"];
            /** @description Default: the beginning of the first user message. */
            title?: components["schemas"]["TextOrNull"];
            chunk_size?: components["schemas"]["ChunkSize"];
        };
        SessionChange: {
            chunk_size: components["schemas"]["ChunkSize"];
        };
        SessionMessage: {
            timestamp?: unknown;
            role: string;
            content?: string | null;
            tool_calls?: unknown[] | null;
            tool_call_id?: string | null;
        };
        /** @description `content` or at least one tool call is required. */
        NewSessionMessage: {
            /**
             * Format: date-time
             * @description RFC 3339. Default: now.
             */
            timestamp?: string | null;
            role: components["schemas"]["Role"];
            content?: string | null;
            tool_calls?: null | Record<string, never>[];
            tool_call_id?: components["schemas"]["TextOrNull"];
        } | {
            content: string;
        } | {
            tool_calls: unknown[];
        };
        SessionMessages: {
            messages: components["schemas"]["SessionMessage"][];
            total: components["schemas"]["Count"];
            /** @description The number of lines in the files that are not valid messages. They are omitted. */
            bad_lines: components["schemas"]["Count"];
        };
        Index: {
            /** @constant */
            name: "quipu";
            version: string;
            api: string;
            contract: string;
            health: string;
        };
        Health: {
            /** @enum {unknown} */
            status: "ok" | "ready" | "read-only";
            version: string;
        };
    };
    responses: {
        /** @description The resource was deleted. */
        Gone: {
            headers: {
                [name: string]: unknown;
            };
            content?: never;
        };
        /** @description Nothing has changed. */
        NotModified: {
            headers: {
                ETag: components["headers"]["ETag"];
                [name: string]: unknown;
            };
            content?: never;
        };
        /** @description The file has not changed. */
        PageNotModified: {
            headers: {
                ETag: components["headers"]["PageETag"];
                "Cross-Origin-Opener-Policy": components["headers"]["OpenerPolicy"];
                [name: string]: unknown;
            };
            content?: never;
        };
        /** @description The methods that the path supports. */
        Options: {
            headers: {
                Allow: components["headers"]["Allow"];
                [name: string]: unknown;
            };
            content?: never;
        };
        /** @description The request is invalid; the message says which part of it. */
        Invalid: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "INVALID",
                 *         "message": "\"title\" must be a string, or null"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["InvalidError"];
            };
        };
        /** @description The request has no key, or the key is not valid. */
        Unauthorized: {
            headers: {
                "WWW-Authenticate": components["headers"]["WWWAuthenticate"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "UNAUTHORIZED",
                 *         "message": "a key is needed, as 'Authorization: Bearer KEY'"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["UnauthorizedError"];
            };
        };
        /** @description The key has used all its requests per minute, or has too many requests in progress, or its owner has too many turns in progress. The limits are the settings `key_requests`, `key_connections` and `owner_turns` of the server. Nothing was changed. */
        TooManyRequests: {
            headers: {
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "TOO_MANY_REQUESTS",
                 *         "message": "this key has used its 60000 requests per minute"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["TooManyRequestsError"];
            };
        };
        /**
         * @description The request is not permitted: the key does not have the required scope, or the `Origin` or
         *     the `Host` is not one that this server accepts. This status never reports a permission
         *     problem on the server's disk.
         */
        Denied: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "DENIED",
                 *         "message": "the Host 'other.example' is not one of this server's names; --allow-host adds one"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["DeniedError"];
            };
        };
        /** @description The resource does not exist, or it belongs to another owner than the key. */
        NotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "NOTFOUND",
                 *         "message": "Context not found"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["NotFoundError"];
            };
        };
        /** @description The path does not support this method. */
        WrongMethod: {
            headers: {
                Allow: components["headers"]["Allow"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "METHOD_NOT_ALLOWED",
                 *         "message": "PATCH is not allowed on this path; allowed: GET, HEAD, OPTIONS"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["WrongMethodError"];
            };
        };
        /** @description The resource exists already (`EXISTS`), or the request conflicts with its current content (`CONFLICT`). */
        Conflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "EXISTS",
                 *         "message": "system prompt 'brief' exists already"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ConflictError"];
            };
        };
        /** @description The job is queued. It runs when fewer than 2 other jobs are running. */
        JobStarted: {
            headers: {
                Location: components["headers"]["Location"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "job": {
                 *         "id": "01a1e837-9542-733c-a046-f54f2a4b36b9",
                 *         "kind": "check",
                 *         "context_id": null,
                 *         "owner": null,
                 *         "state": "queued",
                 *         "done": 0,
                 *         "total": 0,
                 *         "current": null,
                 *         "created_at": "2026-11-17T06:35:19.234Z",
                 *         "started_at": null,
                 *         "ended_at": null,
                 *         "report": null,
                 *         "error": null
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["JobAnswer"];
            };
        };
        /** @description A job of this kind about the same contexts is queued or running; the message has its id. Or the `Idempotency-Key` was used for another request, or its first request is still being carried out or was interrupted. Nothing was changed. */
        JobConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "CONFLICT",
                 *         "message": "job 01a1e837-9542-733c-a046-f54f2a4b36b9 does this already"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ConflictError"];
            };
        };
        /** @description The `Idempotency-Key` was used for another request, or its first request is still being carried out or was interrupted. Nothing was changed. */
        KeyConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "CONFLICT",
                 *         "message": "the key '7' was used for another request"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ConflictError"];
            };
        };
        /**
         * @description The state of the context, which is in `error.state`, does not allow the action; or the
         *     `Idempotency-Key` was used for another action; or the new branch exists already. Nothing was
         *     changed.
         */
        WrongState: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "CONFLICT",
                 *         "message": "send_message is not possible while the context is StreamingLLMResponse",
                 *         "state": "StreamingLLMResponse"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ConflictError"];
            };
        };
        /** @description The current version of the context is not one that `If-Match` names. */
        NotMatched: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "PRECONDITION_FAILED",
                 *         "message": "the context was changed in the meantime"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["NotMatchedError"];
            };
        };
        /** @description The body, or a part of it, exceeds a limit. */
        TooBig: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "TOOBIG",
                 *         "message": "the body is over the limit of 33554432 bytes"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["TooBigError"];
            };
        };
        /** @description The header of the request exceeds a limit. */
        HeaderTooLong: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "HEADER_TOO_LARGE",
                 *         "message": "the header is over the limit of 8192 bytes"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["HeaderTooLongError"];
            };
        };
        /** @description The Content-Type of the body is not JSON. */
        WrongType: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "UNSUPPORTED_MEDIA_TYPE",
                 *         "message": "the body must be JSON, with Content-Type: application/json"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["WrongTypeError"];
            };
        };
        /** @description The server could not read or write its data. `IO`: a write failed. Only after `IO` is it uncertain whether the change was saved; it may still appear later. `DENIED`: the server has no permission to write a file. `CORRUPT`: stored data is damaged. If a change of a context cannot be saved (500 or 507), the context keeps its previous content; its state is `Failed` until a later change is saved. If the turn of an action cannot be saved, the status is always 500, with `FULL` if the disk is full. */
        Failed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "IO",
                 *         "message": "cannot write the journal"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["FailedError"];
            };
        };
        /** @description Only with `fail=error`: the turn failed, for example because the provider rejected the request or could not answer it. The message names the kind of the failure. The context is `Failed`, and `retry` or the next message is possible. */
        TurnFailed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "TURN_FAILED",
                 *         "message": "the turn failed (rate_limit): too many requests",
                 *         "state": "Failed"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["TurnFailedError"];
            };
        };
        /**
         * @description Temporarily not possible; try again. `OVERLOADED`: too many requests are waiting for the
         *     disk. `READONLY`: the store or its file system is read-only, or the server was started with
         *     `--read-only`; reading still works. `NOMEM`: the server is out of memory or file
         *     descriptors. `STOPPING`: the server is stopping. `NO_ENGINE`: this server runs no turns.
         *     `IO`: the database of the store cannot be reached; a change may have been stored, so repeat
         *     it with the same `Idempotency-Key`. Otherwise nothing was changed. Only `/readyz` reports
         *     `FULL` with this status.
         */
        Unavailable: {
            headers: {
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "STOPPING",
                 *         "message": "the server is stopping"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["UnavailableError"];
            };
        };
        /** @description The disk is full, a disk quota is used up, or a file would exceed the file size limit of the process. Nothing was changed; reading still works. Every operation that writes can answer this, except an action that starts or continues a turn (500 with `FULL`). The store accepts writes again by itself when there is space. `OWNER_FULL`: the disk has space, but the owner of the key has stored as many bytes as the setting `owner_bytes` allows. Waiting does not help; delete something. */
        Full: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "FULL",
                 *         "message": "no space left"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["FullError"];
            };
        };
    };
    parameters: {
        /**
         * @description The id of the job.
         * @example 01a1e837-9542-733c-a046-f54f2a4b36b9
         */
        JobId: string;
        /**
         * @description The id of the context.
         * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
         */
        ContextId: components["schemas"]["Id"];
        /**
         * @description If `true`, 204 is sent only after no file of the data directory contains the text any more:
         *     the journal is overwritten, and the search index and the session index are rewritten. The
         *     more text the store has, the longer this takes. Other requests continue in the meantime;
         *     lists and searches may have to wait. After a crash, the next start of the server completes
         *     the erasure. After an error response the text may be deleted but not yet erased everywhere;
         *     the next start of the server completes this too. Images are erased unless something else
         *     refers to them. Backups, file system snapshots, and unused blocks of the disk are not
         *     erased. See docs/security.md.
         */
        Erase: boolean;
        /**
         * @description The id of the session, percent-encoded where necessary.
         * @example bot:1
         */
        SessionId: components["schemas"]["SessionId"];
        /**
         * @description The name of the branch. Default: the active branch.
         * @example main
         */
        Branch: components["schemas"]["BranchName"];
        /** @description The maximum number of items per page. */
        Limit: number;
        /** @description The `next_cursor` of the previous page. */
        ListCursor: string;
        /** @description Return only this many of the newest messages. Default: all messages. */
        Last: number;
        /**
         * @description Which messages the response has: those of the turn, from the newest message of the user on
         *     (at most 512), or all. Cannot be combined with `last`. Default: `turn`; on paths that begin
         *     with `/api`: `all`.
         */
        TurnMessages: "turn" | "all";
        /** @description Return only this many of the newest messages, also of earlier turns. Default: the messages of the turn, see `messages`. */
        LastOfTurn: number;
        /**
         * @description `error`: if the turn fails, the response is an error (502, `TURN_FAILED`) instead of 200 with
         *     the state `Failed`. Without effect on streams and with `Prefer: respond-async`.
         */
        Fail: "error";
        /**
         * @description An action with the same key is performed only once, for 24 hours and also across restarts.
         *     The same key with a different body is rejected with 409. A key has 1 to 255 printable
         *     characters. A repeated request gets `replayed: true` and the same `message_id`, `seq` and
         *     `branch` as the first request. The rest of the response, especially `state` and `messages`,
         *     is the current content of the context. Like the first time, the response is sent when the
         *     turn stops, or at once with `Prefer: respond-async`.
         * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
         */
        IdempotencyKey: string;
        /**
         * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
         *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
         *     with another method, path, query or body is rejected with 409, and so is a key whose first
         *     request is still being carried out or was interrupted by a crash. A request that failed may
         *     be repeated with its key. Keys of different owners are independent.
         * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
         */
        RequestKey: string;
        /**
         * @description `respond-async`: answer 202 as soon as the action is durable.
         * @example respond-async
         */
        Prefer: string;
        /**
         * @description `text/event-stream`: answer with the events of the turn while they happen.
         * @example text/event-stream
         */
        Accept: string;
        /**
         * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
         *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
         * @example "6f1ed002ab5595859014ebf0951522d9"
         */
        IfMatch: string;
        /**
         * @description Answer 304 without a body if the current `ETag` is in this list.
         * @example "6f1ed002ab5595859014ebf0951522d9"
         */
        IfNoneMatch: string;
    };
    requestBodies: never;
    headers: {
        /**
         * @description A strong validator of the body. A restart of the server does not change it.
         * @example "6f1ed002ab5595859014ebf0951522d9"
         */
        ETag: string;
        /**
         * @description A strong validator of the file. The compressed form has its own, which ends with `-gzip`.
         * @example "6f1ed002ab5595859014ebf0951522d9-gzip"
         */
        PageETag: string;
        /**
         * @description The body is compressed, because the request has `Accept-Encoding` with `gzip`.
         * @example gzip
         */
        ContentEncoding: "gzip";
        /**
         * @description The page shares no window with pages of other origins.
         * @example same-origin
         */
        OpenerPolicy: "same-origin";
        /**
         * @description The path of the new resource.
         * @example /v1/contexts/0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
         */
        Location: string;
        /**
         * @description Only on paths that begin with `/api`: they are deprecated.
         * @example true
         */
        Deprecation: "true";
        /**
         * @description Only on paths that begin with `/api`: links to the description of the deprecated operation and to its replacement.
         * @example </openapi.json#/paths/~1v1~1contexts~1%7Bid%7D~1messages/post>; rel="deprecation"
         */
        Link: string;
        /**
         * @description The methods that the path supports.
         * @example GET, HEAD, OPTIONS
         */
        Allow: string;
        /**
         * @description The authentication that the server requires.
         * @example Bearer realm="quipu"
         */
        WWWAuthenticate: string;
        /**
         * @description Sent with event streams. It makes proxies forward each event at once instead of buffering.
         * @example no
         */
        XAccelBuffering: "no";
        /**
         * @description The preference that was applied.
         * @example respond-async
         */
        PreferenceApplied: "respond-async";
        /**
         * @description The number of seconds after which a new attempt may succeed.
         * @example 1
         */
        RetryAfter: string;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    getIndex: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Answer 304 without a body if the current `ETag` is in this list.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The page; or the version and the paths to start from. */
            200: {
                headers: {
                    ETag: components["headers"]["PageETag"];
                    "Content-Encoding": components["headers"]["ContentEncoding"];
                    "Cross-Origin-Opener-Policy": components["headers"]["OpenerPolicy"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "name": "quipu",
                     *       "version": "0.1.0",
                     *       "api": "/v1",
                     *       "contract": "/openapi.json",
                     *       "health": "/healthz"
                     *     }
                     */
                    "application/json": components["schemas"]["Index"];
                    /** @example <!doctype html> */
                    "text/html; charset=utf-8": string;
                };
            };
            304: components["responses"]["PageNotModified"];
            400: components["responses"]["Invalid"];
            403: components["responses"]["Denied"];
            503: components["responses"]["Unavailable"];
        };
    };
    getConversationPage: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Answer 304 without a body if the current `ETag` is in this list.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path: {
                /**
                 * @description The id of a context; the server does not check it.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The page. */
            200: {
                headers: {
                    ETag: components["headers"]["PageETag"];
                    "Content-Encoding": components["headers"]["ContentEncoding"];
                    "Cross-Origin-Opener-Policy": components["headers"]["OpenerPolicy"];
                    [name: string]: unknown;
                };
                content: {
                    /** @example <!doctype html> */
                    "text/html; charset=utf-8": string;
                };
            };
            304: components["responses"]["PageNotModified"];
            400: components["responses"]["Invalid"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            503: components["responses"]["Unavailable"];
        };
    };
    getIcon: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Answer 304 without a body if the current `ETag` is in this list.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The icon. */
            200: {
                headers: {
                    ETag: components["headers"]["PageETag"];
                    "Content-Encoding": components["headers"]["ContentEncoding"];
                    [name: string]: unknown;
                };
                content: {
                    /** @example <svg xmlns="http://www.w3.org/2000/svg"/> */
                    "image/svg+xml": string;
                };
            };
            304: components["responses"]["PageNotModified"];
            400: components["responses"]["Invalid"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            503: components["responses"]["Unavailable"];
        };
    };
    getAsset: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Answer 304 without a body if the current `ETag` is in this list.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path: {
                /**
                 * @description The name of the file.
                 * @example app-0a1b2c3d.js
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file. */
            200: {
                headers: {
                    ETag: components["headers"]["PageETag"];
                    "Content-Encoding": components["headers"]["ContentEncoding"];
                    [name: string]: unknown;
                };
                content: {
                    /** @example export {}; */
                    "text/javascript; charset=utf-8": string;
                    /** @example :root { color-scheme: light dark; } */
                    "text/css; charset=utf-8": string;
                    /** @example text */
                    "text/plain; charset=utf-8": string;
                    /** @example <svg xmlns="http://www.w3.org/2000/svg"/> */
                    "image/svg+xml": string;
                    /** @example bytes */
                    "image/png": string;
                    /** @example bytes */
                    "image/webp": string;
                    /** @example bytes */
                    "font/woff2": string;
                };
            };
            304: components["responses"]["PageNotModified"];
            400: components["responses"]["Invalid"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            503: components["responses"]["Unavailable"];
        };
    };
    getHealth: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The server is running. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "status": "ok",
                     *       "version": "0.1.0"
                     *     }
                     */
                    "application/json": components["schemas"]["Health"];
                };
            };
            400: components["responses"]["Invalid"];
            403: components["responses"]["Denied"];
            503: components["responses"]["Unavailable"];
        };
    };
    getReadiness: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The server accepts work. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "status": "ready",
                     *       "version": "0.1.0"
                     *     }
                     */
                    "application/json": components["schemas"]["Health"];
                };
            };
            400: components["responses"]["Invalid"];
            403: components["responses"]["Denied"];
            503: components["responses"]["Unavailable"];
        };
    };
    getMetrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Counters in the Prometheus text format. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example # HELP quipu_commits_total Commits that were acknowledged.
                     *     # TYPE quipu_commits_total counter
                     *     quipu_commits_total 12
                     */
                    "text/plain; version=0.0.4; charset=utf-8": string;
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
        };
    };
    getContract: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Answer 304 without a body if the current `ETag` is in this list.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The description in OpenAPI 3.1. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "openapi": "3.1.0",
                     *       "info": {
                     *         "title": "quipu"
                     *       },
                     *       "paths": {}
                     *     }
                     */
                    "application/json": {
                        openapi: string;
                        info: Record<string, never>;
                        paths: Record<string, never>;
                    };
                };
            };
            304: components["responses"]["NotModified"];
            400: components["responses"]["Invalid"];
            403: components["responses"]["Denied"];
            503: components["responses"]["Unavailable"];
        };
    };
    callMcp: {
        parameters: {
            query?: {
                /** @description Offer tools that change something. Needs a key with the scope write. */
                write?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "jsonrpc": "2.0",
                 *       "id": 1,
                 *       "method": "tools/list"
                 *     }
                 */
                "application/json": Record<string, never> | unknown[];
            };
        };
        responses: {
            /** @description The response, or a list of responses. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "jsonrpc": "2.0",
                     *       "id": 1,
                     *       "result": {
                     *         "tools": []
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["McpAnswer"];
                };
            };
            /** @description Notifications and responses need no response. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not JSON, not JSON-RPC, an unknown revision, or headers that contradict the body. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "jsonrpc": "2.0",
                     *       "id": null,
                     *       "error": {
                     *         "code": -32700,
                     *         "message": "the body is no JSON"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["McpError"];
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            /** @description There is no such method. Only in revision 2026-07-28; before, the status is 200. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "jsonrpc": "2.0",
                     *       "id": 1,
                     *       "error": {
                     *         "code": -32601,
                     *         "message": "there is no method 'x'"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["McpError"];
                };
            };
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    searchMessages: {
        parameters: {
            query: {
                /**
                 * @description Words, "phrases", -excluded words and prefixes* of words. Case and accents are ignored.
                 * @example knotted
                 */
                q: string;
                /** @description The maximum number of items per page. */
                limit?: components["parameters"]["Limit"];
                /** @description The `next_cursor` of the previous page. */
                cursor?: components["parameters"]["ListCursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of hits. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "hits": [
                     *         {
                     *           "context_id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *           "title": "Cords",
                     *           "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "snippet": [
                     *             {
                     *               "text": "A quipu is a record kept in ",
                     *               "match": false
                     *             },
                     *             {
                     *               "text": "knotted",
                     *               "match": true
                     *             },
                     *             {
                     *               "text": " cords.",
                     *               "match": false
                     *             }
                     *           ]
                     *         }
                     *       ],
                     *       "next_cursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["Hits"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            413: components["responses"]["TooBig"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    getUsage: {
        parameters: {
            query?: {
                /**
                 * @description The owner whose bytes to count. Optional for a key with an owner, which can ask only for that owner; required for all other callers.
                 * @example alice
                 */
                owner?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The current total. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "owner": "alice",
                     *       "bytes": 73311,
                     *       "limit": 1073741824
                     *     }
                     */
                    "application/json": components["schemas"]["Usage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    getUsageReport: {
        parameters: {
            query?: {
                /**
                 * @description Only contexts of this owner. A key with an owner can ask only for that owner; other callers get all owners by default.
                 * @example alice
                 */
                owner?: string;
                /** @description How many days. */
                days?: number;
                /** @description Where a day begins: the offset of the local time from UTC in minutes, in steps of 15. */
                utc_offset?: number;
                /** @description The maximum number of contexts, and of models. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The sums. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "from": "2026-11-11T00:00:00.000Z",
                     *       "total": {
                     *         "answers": 2,
                     *         "input_tokens": 1200,
                     *         "output_tokens": 340,
                     *         "cached_tokens": 0,
                     *         "cost_usd": 0.0087,
                     *         "unpriced": 0
                     *       },
                     *       "days": [
                     *         {
                     *           "day": "2026-11-17",
                     *           "answers": 2,
                     *           "input_tokens": 1200,
                     *           "output_tokens": 340,
                     *           "cached_tokens": 0,
                     *           "cost_usd": 0.0087,
                     *           "unpriced": 0
                     *         }
                     *       ],
                     *       "contexts": [
                     *         {
                     *           "context_id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *           "title": "Plans",
                     *           "answers": 2,
                     *           "input_tokens": 1200,
                     *           "output_tokens": 340,
                     *           "cached_tokens": 0,
                     *           "cost_usd": 0.0087,
                     *           "unpriced": 0
                     *         }
                     *       ],
                     *       "models": [
                     *         {
                     *           "model": "demo",
                     *           "answers": 2,
                     *           "input_tokens": 1200,
                     *           "output_tokens": 340,
                     *           "cached_tokens": 0,
                     *           "cost_usd": 0.0087,
                     *           "unpriced": 0
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["UsageReport"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    listSizes: {
        parameters: {
            query?: {
                /**
                 * @description Only contexts of this owner. A key with an owner can ask only for that owner; other callers get all owners by default.
                 * @example alice
                 */
                owner?: string;
                /** @description Only contexts with messages in the trash. */
                trashed?: boolean;
                /** @description The maximum number of items per page. */
                limit?: components["parameters"]["Limit"];
                /** @description The `next_cursor` of the previous page. */
                cursor?: components["parameters"]["ListCursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of contexts. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "total": {
                     *         "contexts": 1,
                     *         "messages": 12,
                     *         "message_bytes": 7331,
                     *         "metadata_bytes": 512,
                     *         "archived_messages": 0,
                     *         "archived_bytes": 0,
                     *         "trashed_messages": 0,
                     *         "trashed_bytes": 0
                     *       },
                     *       "contexts": [
                     *         {
                     *           "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *           "title": "Plans",
                     *           "owner": null,
                     *           "updated_at": "2026-11-17T10:00:00.000Z",
                     *           "messages": 12,
                     *           "message_bytes": 7331,
                     *           "metadata_bytes": 512,
                     *           "archived_messages": 0,
                     *           "archived_bytes": 0,
                     *           "trashed_messages": 0,
                     *           "trashed_bytes": 0,
                     *           "branch_count": 1,
                     *           "branches": [
                     *             {
                     *               "name": "main",
                     *               "messages": 12,
                     *               "message_bytes": 7331
                     *             }
                     *           ]
                     *         }
                     *       ],
                     *       "next_cursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["SizeList"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    listModels: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All models. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "models": [
                     *         {
                     *           "id": "demo",
                     *           "provider": "demo",
                     *           "window": 32000,
                     *           "max_output": 4096,
                     *           "available": true,
                     *           "input_price": 0,
                     *           "output_price": 0
                     *         }
                     *       ],
                     *       "default": "demo/demo"
                     *     }
                     */
                    "application/json": components["schemas"]["Models"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
        };
    };
    listTools: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All tools and servers. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "tools": [
                     *         {
                     *           "name": "read_file",
                     *           "title": "Read a file",
                     *           "description": "Reads a text file of the workspace.",
                     *           "source": "builtin",
                     *           "display_preference": "Collapsible",
                     *           "ui_hints": {
                     *             "icon": "file",
                     *             "summary": "path",
                     *             "result": "code"
                     *           },
                     *           "changes": false,
                     *           "default": "auto",
                     *           "schema": {
                     *             "type": "object",
                     *             "properties": {
                     *               "path": {
                     *                 "type": "string"
                     *               }
                     *             },
                     *             "required": [
                     *               "path"
                     *             ]
                     *           }
                     *         }
                     *       ],
                     *       "servers": [
                     *         {
                     *           "name": "files",
                     *           "transport": "stdio",
                     *           "state": "ready",
                     *           "tools": 14,
                     *           "failures": 0
                     *         },
                     *         {
                     *           "name": "far",
                     *           "transport": "http",
                     *           "state": "failed",
                     *           "tools": 0,
                     *           "failures": 2,
                     *           "error": "cannot initialize: Failed to connect",
                     *           "next_try": "2026-11-16T12:00:02.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Tools"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
        };
    };
    listRules: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All rules, oldest first. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "rules": [
                     *         {
                     *           "id": "5f0c3a91",
                     *           "owner": "alice",
                     *           "tool": "run_command",
                     *           "arguments": {
                     *             "command": "make test"
                     *           },
                     *           "created_at": "2026-11-16T12:00:00.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Rules"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    deleteRule: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path: {
                /**
                 * @description The id of a rule.
                 * @example 5f0c3a91
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: components["responses"]["Gone"];
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["KeyConflict"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    listContexts: {
        parameters: {
            query?: {
                /** @description The maximum number of items per page. */
                limit?: components["parameters"]["Limit"];
                /** @description The `next_cursor` of the previous page. */
                cursor?: components["parameters"]["ListCursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of contexts. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "contexts": [
                     *         {
                     *           "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *           "title": "Cords",
                     *           "created_at": "2026-11-15T19:55:40.000Z",
                     *           "updated_at": "2026-11-15T19:55:40.123Z",
                     *           "messages": 2,
                     *           "message_bytes": 514,
                     *           "branches": 1,
                     *           "model_id": "demo",
                     *           "mode": "chat",
                     *           "state": "Idle",
                     *           "owner": null,
                     *           "summary": null,
                     *           "needs_migration": false
                     *         }
                     *       ],
                     *       "next_cursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["ContextList"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    createContext: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "title": "Cords",
                 *       "model_id": "demo",
                 *       "parameters": {
                 *         "temperature": 0.5
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["NewContext"];
            };
        };
        responses: {
            /** @description The context was created. */
            201: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    Location: components["headers"]["Location"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "parent_id": null,
                     *       "title": "Cords",
                     *       "created_at": "2026-11-15T19:55:40.000Z",
                     *       "updated_at": "2026-11-15T19:55:40.123Z",
                     *       "state": "Idle",
                     *       "config": {
                     *         "model_id": "demo",
                     *         "mode": "chat",
                     *         "agent_role": "actor",
                     *         "parameters": {
                     *           "temperature": 0.5
                     *         },
                     *         "system_prompt_id": null
                     *       },
                     *       "owner": null,
                     *       "active_branch": "main",
                     *       "branches": [
                     *         {
                     *           "name": "main",
                     *           "active": true,
                     *           "head": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "messages": 1,
                     *           "message_bytes": 257,
                     *           "system_prompt_id": null,
                     *           "system_prompt": null,
                     *           "created_at": "2026-11-15T19:55:40.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Context"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    getContext: {
        parameters: {
            query?: {
                /**
                 * @description `all`: include `message_pool`, which has every message of every branch by id, and
                 *     `message_ids` in each branch. `none`: omit both.
                 */
                messages?: "all" | "none";
            };
            header?: {
                /**
                 * @description Answer 304 without a body if the current `ETag` is in this list.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The context. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "parent_id": null,
                     *       "title": "Cords",
                     *       "created_at": "2026-11-15T19:55:40.000Z",
                     *       "updated_at": "2026-11-15T19:55:40.123Z",
                     *       "state": "Idle",
                     *       "config": {
                     *         "model_id": "demo",
                     *         "mode": "chat",
                     *         "agent_role": "actor",
                     *         "parameters": {
                     *           "temperature": 0.5
                     *         },
                     *         "system_prompt_id": null
                     *       },
                     *       "owner": null,
                     *       "active_branch": "main",
                     *       "branches": [
                     *         {
                     *           "name": "main",
                     *           "active": true,
                     *           "head": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "messages": 1,
                     *           "message_bytes": 257,
                     *           "system_prompt_id": null,
                     *           "system_prompt": null,
                     *           "created_at": "2026-11-15T19:55:40.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Context"] | components["schemas"]["FullContext"];
                };
            };
            304: components["responses"]["NotModified"];
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    putContext: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "title": null
                 *     }
                 */
                "application/json": components["schemas"]["ContextChange"];
            };
        };
        responses: {
            /** @description The changed context, without messages. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "parent_id": null,
                     *       "title": "Cords",
                     *       "created_at": "2026-11-15T19:55:40.000Z",
                     *       "updated_at": "2026-11-15T19:55:40.123Z",
                     *       "state": "Idle",
                     *       "config": {
                     *         "model_id": "demo",
                     *         "mode": "chat",
                     *         "agent_role": "actor",
                     *         "parameters": {
                     *           "temperature": 0.5
                     *         },
                     *         "system_prompt_id": null
                     *       },
                     *       "owner": null,
                     *       "active_branch": "main",
                     *       "branches": [
                     *         {
                     *           "name": "main",
                     *           "active": true,
                     *           "head": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "messages": 1,
                     *           "message_bytes": 257,
                     *           "system_prompt_id": null,
                     *           "system_prompt": null,
                     *           "created_at": "2026-11-15T19:55:40.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Context"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    deleteContext: {
        parameters: {
            query?: {
                /**
                 * @description If `true`, 204 is sent only after no file of the data directory contains the text any more:
                 *     the journal is overwritten, and the search index and the session index are rewritten. The
                 *     more text the store has, the longer this takes. Other requests continue in the meantime;
                 *     lists and searches may have to wait. After a crash, the next start of the server completes
                 *     the erasure. After an error response the text may be deleted but not yet erased everywhere;
                 *     the next start of the server completes this too. Images are erased unless something else
                 *     refers to them. Backups, file system snapshots, and unused blocks of the disk are not
                 *     erased. See docs/security.md.
                 */
                erase?: components["parameters"]["Erase"];
            };
            header?: {
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: components["responses"]["Gone"];
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["KeyConflict"];
            412: components["responses"]["NotMatched"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    updateContext: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "title": "Knotted cords",
                 *       "config": {
                 *         "model_id": "other"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ContextChange"];
            };
        };
        responses: {
            /** @description The changed context, without messages. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "parent_id": null,
                     *       "title": "Cords",
                     *       "created_at": "2026-11-15T19:55:40.000Z",
                     *       "updated_at": "2026-11-15T19:55:40.123Z",
                     *       "state": "Idle",
                     *       "config": {
                     *         "model_id": "demo",
                     *         "mode": "chat",
                     *         "agent_role": "actor",
                     *         "parameters": {
                     *           "temperature": 0.5
                     *         },
                     *         "system_prompt_id": null
                     *       },
                     *       "owner": null,
                     *       "active_branch": "main",
                     *       "branches": [
                     *         {
                     *           "name": "main",
                     *           "active": true,
                     *           "head": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "messages": 1,
                     *           "message_bytes": 257,
                     *           "system_prompt_id": null,
                     *           "system_prompt": null,
                     *           "created_at": "2026-11-15T19:55:40.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Context"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    listTrash: {
        parameters: {
            query?: {
                /** @description The maximum number of items per page. */
                limit?: components["parameters"]["Limit"];
            };
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The rows; `more` says that there are others. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "trash": [
                     *         {
                     *           "first_message_id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d02",
                     *           "last_message_id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d03",
                     *           "messages": 2,
                     *           "message_bytes": 812,
                     *           "created_at": "2026-11-17T10:00:00.000Z",
                     *           "trashed_at": "2026-11-17T11:00:00.000Z"
                     *         }
                     *       ],
                     *       "more": false
                     *     }
                     */
                    "application/json": components["schemas"]["Trash"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    getContextSize: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Numbers of messages and bytes. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "messages": 2,
                     *       "message_bytes": 514,
                     *       "metadata_bytes": 702,
                     *       "archived_messages": 0,
                     *       "archived_bytes": 0,
                     *       "pack_bytes": 0,
                     *       "trashed_messages": 0,
                     *       "trashed_bytes": 0
                     *     }
                     */
                    "application/json": components["schemas"]["Size"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    getOutline: {
        parameters: {
            query?: {
                /**
                 * @description The name of the branch. Default: the active branch.
                 * @example main
                 */
                branch?: components["parameters"]["Branch"];
                /** @description The number of messages up to which all are listed, and the number of landmarks. If there are more landmarks, the oldest messages of the user are left out. */
                max?: number;
                /** @description The first position of the range, from 1. */
                from?: number;
                /** @description The last position of the range. Default: the end of the branch. */
                to?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The outline. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "branch": "main",
                     *       "count": 1,
                     *       "branches": [
                     *         {
                     *           "name": "main",
                     *           "head": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "messages": 1,
                     *           "fork_at": 1,
                     *           "first": null,
                     *           "created_at": "2026-11-15T19:55:40.000Z"
                     *         }
                     *       ],
                     *       "compactions": [],
                     *       "items": [
                     *         {
                     *           "at": 1,
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "kind": "message",
                     *           "time": "2026-11-15T19:55:40.123Z",
                     *           "tokens": 0,
                     *           "bytes": 301,
                     *           "alternatives": 1,
                     *           "pinned": false,
                     *           "error": false
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Outline"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    getPreviews: {
        parameters: {
            query: {
                /** @description Ids of messages, separated by commas; at most 100. */
                ids: string;
            };
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description One line of text for each message. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "previews": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "at": 1,
                     *           "role": "user",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "error": false
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Previews"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    findInContext: {
        parameters: {
            query?: {
                /**
                 * @description Words, "phrases", -excluded words and prefixes* of words.
                 * @example knotted
                 */
                q?: string;
                /** @description The id of a message, instead of `q`. */
                message?: components["schemas"]["Id"];
                /** @description The branch to name for messages that several branches have. Default: the active branch. */
                branch?: components["schemas"]["BranchName"];
                /** @description The maximum number of hits per page. */
                limit?: number;
                /** @description The `next_cursor` of the previous page. */
                cursor?: components["parameters"]["ListCursor"];
            };
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of hits. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "hits": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "at": 1,
                     *           "branch": "main",
                     *           "role": "user",
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "snippet": [
                     *             {
                     *               "text": "A quipu is a record kept in ",
                     *               "match": false
                     *             },
                     *             {
                     *               "text": "knotted",
                     *               "match": true
                     *             },
                     *             {
                     *               "text": " cords.",
                     *               "match": false
                     *             }
                     *           ]
                     *         }
                     *       ],
                     *       "next_cursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["Finds"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooBig"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    listMessages: {
        parameters: {
            query?: {
                /**
                 * @description The name of the branch. Default: the active branch.
                 * @example main
                 */
                branch?: components["parameters"]["Branch"];
                /** @description The maximum number of items per page. */
                limit?: components["parameters"]["Limit"];
                /** @description Number of messages to skip before the page. Cannot be combined with `cursor`. */
                offset?: number;
                /**
                 * @description The `next_cursor` of the previous page, for the same branch and order.
                 * @example n0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f
                 */
                cursor?: string;
                /** @description Whether the oldest or the newest messages are returned first. */
                order?: "oldest" | "newest";
            };
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of messages. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "total": 2,
                     *       "next_cursor": "n0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "branch": "main",
                     *       "compactions": []
                     *     }
                     */
                    "application/json": components["schemas"]["MessagePage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    saveMessage: {
        parameters: {
            query?: {
                /**
                 * @description The name of the branch. Default: the active branch.
                 * @example main
                 */
                branch?: components["parameters"]["Branch"];
                /** @description The number of newest messages to include in the response. Default: the appended ones. */
                last?: number;
            };
            header?: {
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "role": "user",
                 *       "text": "A quipu is a record kept in knotted cords."
                 *     }
                 */
                "application/json": components["schemas"]["NewMessage"] | components["schemas"]["NewMessage"][];
            };
        };
        responses: {
            /** @description The message is durable. The response has the state, the newest messages and the id of the new message. */
            201: {
                headers: {
                    Deprecation: components["headers"]["Deprecation"];
                    Link: components["headers"]["Link"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "Idle",
                     *       "branch": "main",
                     *       "total": 1,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 0,
                     *       "updated_at": "2026-11-15T19:55:40.123Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "message_ids": [
                     *         "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["SavedMessage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    getState: {
        parameters: {
            query?: {
                /** @description Return only this many of the newest messages. Default: all messages. */
                last?: components["parameters"]["Last"];
            };
            header?: {
                /**
                 * @description Answer 304 without a body if the current `ETag` is in this list.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The state. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "Idle",
                     *       "branch": "main",
                     *       "total": 1,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "window": {
                     *         "used": 5120,
                     *         "window": 200000,
                     *         "threshold": 160000,
                     *         "reserve": 4096,
                     *         "origins": {
                     *           "used": "provider",
                     *           "window": "table",
                     *           "threshold": "default",
                     *           "reserve": "table"
                     *         },
                     *         "parts": {
                     *           "system": 200,
                     *           "tools": 700,
                     *           "summary": 0,
                     *           "text": 124,
                     *           "thinking": 0,
                     *           "calls": 0,
                     *           "results": 0,
                     *           "images": 0
                     *         },
                     *         "mode": "auto",
                     *         "compaction": null,
                     *         "breaker": false
                     *       },
                     *       "last_event_id": 0,
                     *       "updated_at": "2026-11-15T19:55:40.123Z"
                     *     }
                     */
                    "application/json": components["schemas"]["State"];
                };
            };
            304: components["responses"]["NotModified"];
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    sendMessage: {
        parameters: {
            query?: {
                /** @description Return only this many of the newest messages, also of earlier turns. Default: the messages of the turn, see `messages`. */
                last?: components["parameters"]["LastOfTurn"];
                /**
                 * @description Which messages the response has: those of the turn, from the newest message of the user on
                 *     (at most 512), or all. Cannot be combined with `last`. Default: `turn`; on paths that begin
                 *     with `/api`: `all`.
                 */
                messages?: components["parameters"]["TurnMessages"];
                /**
                 * @description `error`: if the turn fails, the response is an error (502, `TURN_FAILED`) instead of 200 with
                 *     the state `Failed`. Without effect on streams and with `Prefer: respond-async`.
                 */
                fail?: components["parameters"]["Fail"];
            };
            header?: {
                /**
                 * @description An action with the same key is performed only once, for 24 hours and also across restarts.
                 *     The same key with a different body is rejected with 409. A key has 1 to 255 printable
                 *     characters. A repeated request gets `replayed: true` and the same `message_id`, `seq` and
                 *     `branch` as the first request. The rest of the response, especially `state` and `messages`,
                 *     is the current content of the context. Like the first time, the response is sent when the
                 *     turn stops, or at once with `Prefer: respond-async`.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description `respond-async`: answer 202 as soon as the action is durable.
                 * @example respond-async
                 */
                Prefer?: components["parameters"]["Prefer"];
                /**
                 * @description `text/event-stream`: answer with the events of the turn while they happen.
                 * @example text/event-stream
                 */
                Accept?: components["parameters"]["Accept"];
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "content": "A quipu is a record kept in knotted cords."
                 *     }
                 */
                "application/json": components["schemas"]["SendMessage"];
            };
        };
        responses: {
            /**
             * @description The turn has stopped. With `Accept: text/event-stream`, the response is the stream of
             *     the turn's events until the turn stops. The turn continues even if the client
             *     disconnects.
             */
            200: {
                headers: {
                    "X-Accel-Buffering": components["headers"]["XAccelBuffering"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "Idle",
                     *       "branch": "main",
                     *       "total": 2,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         },
                     *         {
                     *           "id": "0192f0c4-7b01-7a11-8c22-5d6e7f809102",
                     *           "role": "assistant",
                     *           "type": "text",
                     *           "text": "Each cord hangs from a main one, and knots stand for numbers.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:42.507Z",
                     *           "parent_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "metadata": {
                     *             "provider": "demo",
                     *             "model": "demo",
                     *             "stop_reason": "end_turn"
                     *           }
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 21,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 21,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                    /**
                     * @example : quipu
                     *     retry: 2000
                     *
                     *     id: 12
                     *     event: text
                     *     data: {"seq":12,"time":"2026-11-15T19:55:41.020Z","type":"text","block":0,"text":"Each "}
                     */
                    "text/event-stream": components["schemas"]["EventStream"];
                };
            };
            /** @description The action is durable and the turn continues. Sent if the request has `Prefer: respond-async`. */
            202: {
                headers: {
                    "Preference-Applied": components["headers"]["PreferenceApplied"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "ProcessingUserMessage",
                     *       "branch": "main",
                     *       "total": 1,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 2,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 2,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["WrongState"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            502: components["responses"]["TurnFailed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    approveTools: {
        parameters: {
            query?: {
                /** @description Return only this many of the newest messages, also of earlier turns. Default: the messages of the turn, see `messages`. */
                last?: components["parameters"]["LastOfTurn"];
                /**
                 * @description Which messages the response has: those of the turn, from the newest message of the user on
                 *     (at most 512), or all. Cannot be combined with `last`. Default: `turn`; on paths that begin
                 *     with `/api`: `all`.
                 */
                messages?: components["parameters"]["TurnMessages"];
                /**
                 * @description `error`: if the turn fails, the response is an error (502, `TURN_FAILED`) instead of 200 with
                 *     the state `Failed`. Without effect on streams and with `Prefer: respond-async`.
                 */
                fail?: components["parameters"]["Fail"];
            };
            header?: {
                /**
                 * @description An action with the same key is performed only once, for 24 hours and also across restarts.
                 *     The same key with a different body is rejected with 409. A key has 1 to 255 printable
                 *     characters. A repeated request gets `replayed: true` and the same `message_id`, `seq` and
                 *     `branch` as the first request. The rest of the response, especially `state` and `messages`,
                 *     is the current content of the context. Like the first time, the response is sent when the
                 *     turn stops, or at once with `Prefer: respond-async`.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description `respond-async`: answer 202 as soon as the action is durable.
                 * @example respond-async
                 */
                Prefer?: components["parameters"]["Prefer"];
                /**
                 * @description `text/event-stream`: answer with the events of the turn while they happen.
                 * @example text/event-stream
                 */
                Accept?: components["parameters"]["Accept"];
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "approved": [
                 *         "call_1"
                 *       ],
                 *       "denied": [
                 *         "call_2"
                 *       ],
                 *       "reason": "not that directory"
                 *     }
                 */
                "application/json": components["schemas"]["ApproveTools"];
            };
        };
        responses: {
            /**
             * @description The turn has stopped. With `Accept: text/event-stream`, the response is the stream of
             *     the turn's events until the turn stops. The turn continues even if the client
             *     disconnects.
             */
            200: {
                headers: {
                    "X-Accel-Buffering": components["headers"]["XAccelBuffering"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "Idle",
                     *       "branch": "main",
                     *       "total": 2,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         },
                     *         {
                     *           "id": "0192f0c4-7b01-7a11-8c22-5d6e7f809102",
                     *           "role": "assistant",
                     *           "type": "text",
                     *           "text": "Each cord hangs from a main one, and knots stand for numbers.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:42.507Z",
                     *           "parent_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "metadata": {
                     *             "provider": "demo",
                     *             "model": "demo",
                     *             "stop_reason": "end_turn"
                     *           }
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 21,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 21,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                    /**
                     * @example : quipu
                     *     retry: 2000
                     *
                     *     id: 12
                     *     event: text
                     *     data: {"seq":12,"time":"2026-11-15T19:55:41.020Z","type":"text","block":0,"text":"Each "}
                     */
                    "text/event-stream": components["schemas"]["EventStream"];
                };
            };
            /** @description The action is durable and the turn continues. Sent if the request has `Prefer: respond-async`. */
            202: {
                headers: {
                    "Preference-Applied": components["headers"]["PreferenceApplied"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "ProcessingUserMessage",
                     *       "branch": "main",
                     *       "total": 1,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 2,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 2,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["WrongState"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            502: components["responses"]["TurnFailed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    submitToolResults: {
        parameters: {
            query?: {
                /** @description Return only this many of the newest messages, also of earlier turns. Default: the messages of the turn, see `messages`. */
                last?: components["parameters"]["LastOfTurn"];
                /**
                 * @description Which messages the response has: those of the turn, from the newest message of the user on
                 *     (at most 512), or all. Cannot be combined with `last`. Default: `turn`; on paths that begin
                 *     with `/api`: `all`.
                 */
                messages?: components["parameters"]["TurnMessages"];
                /**
                 * @description `error`: if the turn fails, the response is an error (502, `TURN_FAILED`) instead of 200 with
                 *     the state `Failed`. Without effect on streams and with `Prefer: respond-async`.
                 */
                fail?: components["parameters"]["Fail"];
            };
            header?: {
                /**
                 * @description An action with the same key is performed only once, for 24 hours and also across restarts.
                 *     The same key with a different body is rejected with 409. A key has 1 to 255 printable
                 *     characters. A repeated request gets `replayed: true` and the same `message_id`, `seq` and
                 *     `branch` as the first request. The rest of the response, especially `state` and `messages`,
                 *     is the current content of the context. Like the first time, the response is sent when the
                 *     turn stops, or at once with `Prefer: respond-async`.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description `respond-async`: answer 202 as soon as the action is durable.
                 * @example respond-async
                 */
                Prefer?: components["parameters"]["Prefer"];
                /**
                 * @description `text/event-stream`: answer with the events of the turn while they happen.
                 * @example text/event-stream
                 */
                Accept?: components["parameters"]["Accept"];
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "results": [
                 *         {
                 *           "tool_call_id": "call_1",
                 *           "result": {
                 *             "sky": "blue",
                 *             "celsius": 19
                 *           }
                 *         },
                 *         {
                 *           "tool_call_id": "call_2",
                 *           "error": "there is no such town"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["SubmitToolResults"];
            };
        };
        responses: {
            /**
             * @description The turn has stopped. With `Accept: text/event-stream`, the response is the stream of
             *     the turn's events until the turn stops. The turn continues even if the client
             *     disconnects.
             */
            200: {
                headers: {
                    "X-Accel-Buffering": components["headers"]["XAccelBuffering"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "Idle",
                     *       "branch": "main",
                     *       "total": 2,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         },
                     *         {
                     *           "id": "0192f0c4-7b01-7a11-8c22-5d6e7f809102",
                     *           "role": "assistant",
                     *           "type": "text",
                     *           "text": "Each cord hangs from a main one, and knots stand for numbers.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:42.507Z",
                     *           "parent_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "metadata": {
                     *             "provider": "demo",
                     *             "model": "demo",
                     *             "stop_reason": "end_turn"
                     *           }
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 21,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 21,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                    /**
                     * @example : quipu
                     *     retry: 2000
                     *
                     *     id: 12
                     *     event: text
                     *     data: {"seq":12,"time":"2026-11-15T19:55:41.020Z","type":"text","block":0,"text":"Each "}
                     */
                    "text/event-stream": components["schemas"]["EventStream"];
                };
            };
            /** @description The action is durable and the turn continues. Sent if the request has `Prefer: respond-async`. */
            202: {
                headers: {
                    "Preference-Applied": components["headers"]["PreferenceApplied"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "ProcessingUserMessage",
                     *       "branch": "main",
                     *       "total": 1,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 2,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 2,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["WrongState"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            502: components["responses"]["TurnFailed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    cancelTurn: {
        parameters: {
            query?: {
                /** @description Return only this many of the newest messages, also of earlier turns. Default: the messages of the turn, see `messages`. */
                last?: components["parameters"]["LastOfTurn"];
                /**
                 * @description Which messages the response has: those of the turn, from the newest message of the user on
                 *     (at most 512), or all. Cannot be combined with `last`. Default: `turn`; on paths that begin
                 *     with `/api`: `all`.
                 */
                messages?: components["parameters"]["TurnMessages"];
                /**
                 * @description `error`: if the turn fails, the response is an error (502, `TURN_FAILED`) instead of 200 with
                 *     the state `Failed`. Without effect on streams and with `Prefer: respond-async`.
                 */
                fail?: components["parameters"]["Fail"];
            };
            header?: {
                /**
                 * @description An action with the same key is performed only once, for 24 hours and also across restarts.
                 *     The same key with a different body is rejected with 409. A key has 1 to 255 printable
                 *     characters. A repeated request gets `replayed: true` and the same `message_id`, `seq` and
                 *     `branch` as the first request. The rest of the response, especially `state` and `messages`,
                 *     is the current content of the context. Like the first time, the response is sent when the
                 *     turn stops, or at once with `Prefer: respond-async`.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description `respond-async`: answer 202 as soon as the action is durable.
                 * @example respond-async
                 */
                Prefer?: components["parameters"]["Prefer"];
                /**
                 * @description `text/event-stream`: answer with the events of the turn while they happen.
                 * @example text/event-stream
                 */
                Accept?: components["parameters"]["Accept"];
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /** @example {} */
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            /**
             * @description The turn has stopped. With `Accept: text/event-stream`, the response is the stream of
             *     the turn's events until the turn stops. The turn continues even if the client
             *     disconnects.
             */
            200: {
                headers: {
                    "X-Accel-Buffering": components["headers"]["XAccelBuffering"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "Idle",
                     *       "branch": "main",
                     *       "total": 2,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         },
                     *         {
                     *           "id": "0192f0c4-7b01-7a11-8c22-5d6e7f809102",
                     *           "role": "assistant",
                     *           "type": "text",
                     *           "text": "Each cord hangs from a main one, and knots stand for numbers.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:42.507Z",
                     *           "parent_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "metadata": {
                     *             "provider": "demo",
                     *             "model": "demo",
                     *             "stop_reason": "end_turn"
                     *           }
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 21,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 21,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                    /**
                     * @example : quipu
                     *     retry: 2000
                     *
                     *     id: 12
                     *     event: text
                     *     data: {"seq":12,"time":"2026-11-15T19:55:41.020Z","type":"text","block":0,"text":"Each "}
                     */
                    "text/event-stream": components["schemas"]["EventStream"];
                };
            };
            /** @description The action is durable and the turn continues. Sent if the request has `Prefer: respond-async`. */
            202: {
                headers: {
                    "Preference-Applied": components["headers"]["PreferenceApplied"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "ProcessingUserMessage",
                     *       "branch": "main",
                     *       "total": 1,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 2,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 2,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["WrongState"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            502: components["responses"]["TurnFailed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    retryTurn: {
        parameters: {
            query?: {
                /** @description Return only this many of the newest messages, also of earlier turns. Default: the messages of the turn, see `messages`. */
                last?: components["parameters"]["LastOfTurn"];
                /**
                 * @description Which messages the response has: those of the turn, from the newest message of the user on
                 *     (at most 512), or all. Cannot be combined with `last`. Default: `turn`; on paths that begin
                 *     with `/api`: `all`.
                 */
                messages?: components["parameters"]["TurnMessages"];
                /**
                 * @description `error`: if the turn fails, the response is an error (502, `TURN_FAILED`) instead of 200 with
                 *     the state `Failed`. Without effect on streams and with `Prefer: respond-async`.
                 */
                fail?: components["parameters"]["Fail"];
            };
            header?: {
                /**
                 * @description An action with the same key is performed only once, for 24 hours and also across restarts.
                 *     The same key with a different body is rejected with 409. A key has 1 to 255 printable
                 *     characters. A repeated request gets `replayed: true` and the same `message_id`, `seq` and
                 *     `branch` as the first request. The rest of the response, especially `state` and `messages`,
                 *     is the current content of the context. Like the first time, the response is sent when the
                 *     turn stops, or at once with `Prefer: respond-async`.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description `respond-async`: answer 202 as soon as the action is durable.
                 * @example respond-async
                 */
                Prefer?: components["parameters"]["Prefer"];
                /**
                 * @description `text/event-stream`: answer with the events of the turn while they happen.
                 * @example text/event-stream
                 */
                Accept?: components["parameters"]["Accept"];
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "branch": "main"
                 *     }
                 */
                "application/json": components["schemas"]["Retry"];
            };
        };
        responses: {
            /**
             * @description The turn has stopped. With `Accept: text/event-stream`, the response is the stream of
             *     the turn's events until the turn stops. The turn continues even if the client
             *     disconnects.
             */
            200: {
                headers: {
                    "X-Accel-Buffering": components["headers"]["XAccelBuffering"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "Idle",
                     *       "branch": "main",
                     *       "total": 2,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         },
                     *         {
                     *           "id": "0192f0c4-7b01-7a11-8c22-5d6e7f809102",
                     *           "role": "assistant",
                     *           "type": "text",
                     *           "text": "Each cord hangs from a main one, and knots stand for numbers.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:42.507Z",
                     *           "parent_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "metadata": {
                     *             "provider": "demo",
                     *             "model": "demo",
                     *             "stop_reason": "end_turn"
                     *           }
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 21,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 21,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                    /**
                     * @example : quipu
                     *     retry: 2000
                     *
                     *     id: 12
                     *     event: text
                     *     data: {"seq":12,"time":"2026-11-15T19:55:41.020Z","type":"text","block":0,"text":"Each "}
                     */
                    "text/event-stream": components["schemas"]["EventStream"];
                };
            };
            /** @description The action is durable and the turn continues. Sent if the request has `Prefer: respond-async`. */
            202: {
                headers: {
                    "Preference-Applied": components["headers"]["PreferenceApplied"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "ProcessingUserMessage",
                     *       "branch": "main",
                     *       "total": 1,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 2,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 2,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["WrongState"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            502: components["responses"]["TurnFailed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    regenerateAnswer: {
        parameters: {
            query?: {
                /** @description Return only this many of the newest messages, also of earlier turns. Default: the messages of the turn, see `messages`. */
                last?: components["parameters"]["LastOfTurn"];
                /**
                 * @description Which messages the response has: those of the turn, from the newest message of the user on
                 *     (at most 512), or all. Cannot be combined with `last`. Default: `turn`; on paths that begin
                 *     with `/api`: `all`.
                 */
                messages?: components["parameters"]["TurnMessages"];
                /**
                 * @description `error`: if the turn fails, the response is an error (502, `TURN_FAILED`) instead of 200 with
                 *     the state `Failed`. Without effect on streams and with `Prefer: respond-async`.
                 */
                fail?: components["parameters"]["Fail"];
            };
            header?: {
                /**
                 * @description An action with the same key is performed only once, for 24 hours and also across restarts.
                 *     The same key with a different body is rejected with 409. A key has 1 to 255 printable
                 *     characters. A repeated request gets `replayed: true` and the same `message_id`, `seq` and
                 *     `branch` as the first request. The rest of the response, especially `state` and `messages`,
                 *     is the current content of the context. Like the first time, the response is sent when the
                 *     turn stops, or at once with `Prefer: respond-async`.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description `respond-async`: answer 202 as soon as the action is durable.
                 * @example respond-async
                 */
                Prefer?: components["parameters"]["Prefer"];
                /**
                 * @description `text/event-stream`: answer with the events of the turn while they happen.
                 * @example text/event-stream
                 */
                Accept?: components["parameters"]["Accept"];
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "message_id": "0192f0c4-7b01-7a11-8c22-5d6e7f809102"
                 *     }
                 */
                "application/json": components["schemas"]["Regenerate"];
            };
        };
        responses: {
            /**
             * @description The turn has stopped. With `Accept: text/event-stream`, the response is the stream of
             *     the turn's events until the turn stops. The turn continues even if the client
             *     disconnects.
             */
            200: {
                headers: {
                    "X-Accel-Buffering": components["headers"]["XAccelBuffering"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "Idle",
                     *       "branch": "main",
                     *       "total": 2,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         },
                     *         {
                     *           "id": "0192f0c4-7b01-7a11-8c22-5d6e7f809102",
                     *           "role": "assistant",
                     *           "type": "text",
                     *           "text": "Each cord hangs from a main one, and knots stand for numbers.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:42.507Z",
                     *           "parent_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "metadata": {
                     *             "provider": "demo",
                     *             "model": "demo",
                     *             "stop_reason": "end_turn"
                     *           }
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 21,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 21,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                    /**
                     * @example : quipu
                     *     retry: 2000
                     *
                     *     id: 12
                     *     event: text
                     *     data: {"seq":12,"time":"2026-11-15T19:55:41.020Z","type":"text","block":0,"text":"Each "}
                     */
                    "text/event-stream": components["schemas"]["EventStream"];
                };
            };
            /** @description The action is durable and the turn continues. Sent if the request has `Prefer: respond-async`. */
            202: {
                headers: {
                    "Preference-Applied": components["headers"]["PreferenceApplied"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "ProcessingUserMessage",
                     *       "branch": "main",
                     *       "total": 1,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 2,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 2,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["WrongState"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            502: components["responses"]["TurnFailed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    editMessage: {
        parameters: {
            query?: {
                /** @description Return only this many of the newest messages, also of earlier turns. Default: the messages of the turn, see `messages`. */
                last?: components["parameters"]["LastOfTurn"];
                /**
                 * @description Which messages the response has: those of the turn, from the newest message of the user on
                 *     (at most 512), or all. Cannot be combined with `last`. Default: `turn`; on paths that begin
                 *     with `/api`: `all`.
                 */
                messages?: components["parameters"]["TurnMessages"];
                /**
                 * @description `error`: if the turn fails, the response is an error (502, `TURN_FAILED`) instead of 200 with
                 *     the state `Failed`. Without effect on streams and with `Prefer: respond-async`.
                 */
                fail?: components["parameters"]["Fail"];
            };
            header?: {
                /**
                 * @description An action with the same key is performed only once, for 24 hours and also across restarts.
                 *     The same key with a different body is rejected with 409. A key has 1 to 255 printable
                 *     characters. A repeated request gets `replayed: true` and the same `message_id`, `seq` and
                 *     `branch` as the first request. The rest of the response, especially `state` and `messages`,
                 *     is the current content of the context. Like the first time, the response is sent when the
                 *     turn stops, or at once with `Prefer: respond-async`.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description `respond-async`: answer 202 as soon as the action is durable.
                 * @example respond-async
                 */
                Prefer?: components["parameters"]["Prefer"];
                /**
                 * @description `text/event-stream`: answer with the events of the turn while they happen.
                 * @example text/event-stream
                 */
                Accept?: components["parameters"]["Accept"];
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                 *       "content": "What is a quipu?"
                 *     }
                 */
                "application/json": components["schemas"]["EditMessage"];
            };
        };
        responses: {
            /**
             * @description The turn has stopped. With `Accept: text/event-stream`, the response is the stream of
             *     the turn's events until the turn stops. The turn continues even if the client
             *     disconnects.
             */
            200: {
                headers: {
                    "X-Accel-Buffering": components["headers"]["XAccelBuffering"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "Idle",
                     *       "branch": "main",
                     *       "total": 2,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         },
                     *         {
                     *           "id": "0192f0c4-7b01-7a11-8c22-5d6e7f809102",
                     *           "role": "assistant",
                     *           "type": "text",
                     *           "text": "Each cord hangs from a main one, and knots stand for numbers.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:42.507Z",
                     *           "parent_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "metadata": {
                     *             "provider": "demo",
                     *             "model": "demo",
                     *             "stop_reason": "end_turn"
                     *           }
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 21,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 21,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                    /**
                     * @example : quipu
                     *     retry: 2000
                     *
                     *     id: 12
                     *     event: text
                     *     data: {"seq":12,"time":"2026-11-15T19:55:41.020Z","type":"text","block":0,"text":"Each "}
                     */
                    "text/event-stream": components["schemas"]["EventStream"];
                };
            };
            /** @description The action is durable and the turn continues. Sent if the request has `Prefer: respond-async`. */
            202: {
                headers: {
                    "Preference-Applied": components["headers"]["PreferenceApplied"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "ProcessingUserMessage",
                     *       "branch": "main",
                     *       "total": 1,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 2,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 2,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["WrongState"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            502: components["responses"]["TurnFailed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    switchBranch: {
        parameters: {
            query?: {
                /** @description Return only this many of the newest messages, also of earlier turns. Default: the messages of the turn, see `messages`. */
                last?: components["parameters"]["LastOfTurn"];
                /**
                 * @description Which messages the response has: those of the turn, from the newest message of the user on
                 *     (at most 512), or all. Cannot be combined with `last`. Default: `turn`; on paths that begin
                 *     with `/api`: `all`.
                 */
                messages?: components["parameters"]["TurnMessages"];
                /**
                 * @description `error`: if the turn fails, the response is an error (502, `TURN_FAILED`) instead of 200 with
                 *     the state `Failed`. Without effect on streams and with `Prefer: respond-async`.
                 */
                fail?: components["parameters"]["Fail"];
            };
            header?: {
                /**
                 * @description An action with the same key is performed only once, for 24 hours and also across restarts.
                 *     The same key with a different body is rejected with 409. A key has 1 to 255 printable
                 *     characters. A repeated request gets `replayed: true` and the same `message_id`, `seq` and
                 *     `branch` as the first request. The rest of the response, especially `state` and `messages`,
                 *     is the current content of the context. Like the first time, the response is sent when the
                 *     turn stops, or at once with `Prefer: respond-async`.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description `respond-async`: answer 202 as soon as the action is durable.
                 * @example respond-async
                 */
                Prefer?: components["parameters"]["Prefer"];
                /**
                 * @description `text/event-stream`: answer with the events of the turn while they happen.
                 * @example text/event-stream
                 */
                Accept?: components["parameters"]["Accept"];
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "branch": "other"
                 *     }
                 */
                "application/json": components["schemas"]["SwitchBranch"];
            };
        };
        responses: {
            /**
             * @description The turn has stopped. With `Accept: text/event-stream`, the response is the stream of
             *     the turn's events until the turn stops. The turn continues even if the client
             *     disconnects.
             */
            200: {
                headers: {
                    "X-Accel-Buffering": components["headers"]["XAccelBuffering"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "Idle",
                     *       "branch": "main",
                     *       "total": 2,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         },
                     *         {
                     *           "id": "0192f0c4-7b01-7a11-8c22-5d6e7f809102",
                     *           "role": "assistant",
                     *           "type": "text",
                     *           "text": "Each cord hangs from a main one, and knots stand for numbers.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:42.507Z",
                     *           "parent_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "metadata": {
                     *             "provider": "demo",
                     *             "model": "demo",
                     *             "stop_reason": "end_turn"
                     *           }
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 21,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 21,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                    /**
                     * @example : quipu
                     *     retry: 2000
                     *
                     *     id: 12
                     *     event: text
                     *     data: {"seq":12,"time":"2026-11-15T19:55:41.020Z","type":"text","block":0,"text":"Each "}
                     */
                    "text/event-stream": components["schemas"]["EventStream"];
                };
            };
            /** @description The action is durable and the turn continues. Sent if the request has `Prefer: respond-async`. */
            202: {
                headers: {
                    "Preference-Applied": components["headers"]["PreferenceApplied"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "ProcessingUserMessage",
                     *       "branch": "main",
                     *       "total": 1,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 2,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 2,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["WrongState"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            502: components["responses"]["TurnFailed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    compactContext: {
        parameters: {
            query?: {
                /** @description Return only this many of the newest messages, also of earlier turns. Default: the messages of the turn, see `messages`. */
                last?: components["parameters"]["LastOfTurn"];
                /**
                 * @description Which messages the response has: those of the turn, from the newest message of the user on
                 *     (at most 512), or all. Cannot be combined with `last`. Default: `turn`; on paths that begin
                 *     with `/api`: `all`.
                 */
                messages?: components["parameters"]["TurnMessages"];
                /**
                 * @description `error`: if the turn fails, the response is an error (502, `TURN_FAILED`) instead of 200 with
                 *     the state `Failed`. Without effect on streams and with `Prefer: respond-async`.
                 */
                fail?: components["parameters"]["Fail"];
            };
            header?: {
                /**
                 * @description An action with the same key is performed only once, for 24 hours and also across restarts.
                 *     The same key with a different body is rejected with 409. A key has 1 to 255 printable
                 *     characters. A repeated request gets `replayed: true` and the same `message_id`, `seq` and
                 *     `branch` as the first request. The rest of the response, especially `state` and `messages`,
                 *     is the current content of the context. Like the first time, the response is sent when the
                 *     turn stops, or at once with `Prefer: respond-async`.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description `respond-async`: answer 202 as soon as the action is durable.
                 * @example respond-async
                 */
                Prefer?: components["parameters"]["Prefer"];
                /**
                 * @description `text/event-stream`: answer with the events of the turn while they happen.
                 * @example text/event-stream
                 */
                Accept?: components["parameters"]["Accept"];
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "instructions": "Keep every price.",
                 *       "dry_run": false
                 *     }
                 */
                "application/json": components["schemas"]["Compact"];
            };
        };
        responses: {
            /**
             * @description The compaction is durable; or with `dry_run`, what it would do. With `Accept:
             *     text/event-stream`, the response is the stream of events.
             */
            200: {
                headers: {
                    "X-Accel-Buffering": components["headers"]["XAccelBuffering"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "dry_run": true,
                     *       "plan": {
                     *         "action": "summarise",
                     *         "covered": 234,
                     *         "kept": 6,
                     *         "tokens_before": 164000,
                     *         "tokens_after": 21000,
                     *         "narrative": "Goal: move the flight of Mei Davis to 20 May.",
                     *         "ledger": "- #12 reservation 4WQ150",
                     *         "why": "request"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"] | components["schemas"]["CompactPlan"];
                    /**
                     * @example : quipu
                     *     retry: 2000
                     *
                     *     id: 41
                     *     event: compact_started
                     *     data: {"seq":41,"time":"2026-11-15T19:55:41.020Z","type":"compact_started","branch":"main","reason":"request"}
                     */
                    "text/event-stream": components["schemas"]["EventStream"];
                };
            };
            /** @description The action is durable and the turn continues. Sent if the request has `Prefer: respond-async`. */
            202: {
                headers: {
                    "Preference-Applied": components["headers"]["PreferenceApplied"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "ProcessingUserMessage",
                     *       "branch": "main",
                     *       "total": 1,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 2,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 2,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["WrongState"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            502: components["responses"]["TurnFailed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    undoCompaction: {
        parameters: {
            query?: {
                /** @description Return only this many of the newest messages, also of earlier turns. Default: the messages of the turn, see `messages`. */
                last?: components["parameters"]["LastOfTurn"];
                /**
                 * @description Which messages the response has: those of the turn, from the newest message of the user on
                 *     (at most 512), or all. Cannot be combined with `last`. Default: `turn`; on paths that begin
                 *     with `/api`: `all`.
                 */
                messages?: components["parameters"]["TurnMessages"];
                /**
                 * @description `error`: if the turn fails, the response is an error (502, `TURN_FAILED`) instead of 200 with
                 *     the state `Failed`. Without effect on streams and with `Prefer: respond-async`.
                 */
                fail?: components["parameters"]["Fail"];
            };
            header?: {
                /**
                 * @description An action with the same key is performed only once, for 24 hours and also across restarts.
                 *     The same key with a different body is rejected with 409. A key has 1 to 255 printable
                 *     characters. A repeated request gets `replayed: true` and the same `message_id`, `seq` and
                 *     `branch` as the first request. The rest of the response, especially `state` and `messages`,
                 *     is the current content of the context. Like the first time, the response is sent when the
                 *     turn stops, or at once with `Prefer: respond-async`.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description `respond-async`: answer 202 as soon as the action is durable.
                 * @example respond-async
                 */
                Prefer?: components["parameters"]["Prefer"];
                /**
                 * @description `text/event-stream`: answer with the events of the turn while they happen.
                 * @example text/event-stream
                 */
                Accept?: components["parameters"]["Accept"];
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "branch": "main"
                 *     }
                 */
                "application/json": components["schemas"]["BranchOnly"];
            };
        };
        responses: {
            /**
             * @description The turn has stopped. With `Accept: text/event-stream`, the response is the stream of
             *     the turn's events until the turn stops. The turn continues even if the client
             *     disconnects.
             */
            200: {
                headers: {
                    "X-Accel-Buffering": components["headers"]["XAccelBuffering"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "Idle",
                     *       "branch": "main",
                     *       "total": 2,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         },
                     *         {
                     *           "id": "0192f0c4-7b01-7a11-8c22-5d6e7f809102",
                     *           "role": "assistant",
                     *           "type": "text",
                     *           "text": "Each cord hangs from a main one, and knots stand for numbers.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:42.507Z",
                     *           "parent_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "metadata": {
                     *             "provider": "demo",
                     *             "model": "demo",
                     *             "stop_reason": "end_turn"
                     *           }
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 21,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 21,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                    /**
                     * @example : quipu
                     *     retry: 2000
                     *
                     *     id: 12
                     *     event: text
                     *     data: {"seq":12,"time":"2026-11-15T19:55:41.020Z","type":"text","block":0,"text":"Each "}
                     */
                    "text/event-stream": components["schemas"]["EventStream"];
                };
            };
            /** @description The action is durable and the turn continues. Sent if the request has `Prefer: respond-async`. */
            202: {
                headers: {
                    "Preference-Applied": components["headers"]["PreferenceApplied"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "ProcessingUserMessage",
                     *       "branch": "main",
                     *       "total": 1,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 2,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 2,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["WrongState"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            502: components["responses"]["TurnFailed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    redoCompaction: {
        parameters: {
            query?: {
                /** @description Return only this many of the newest messages, also of earlier turns. Default: the messages of the turn, see `messages`. */
                last?: components["parameters"]["LastOfTurn"];
                /**
                 * @description Which messages the response has: those of the turn, from the newest message of the user on
                 *     (at most 512), or all. Cannot be combined with `last`. Default: `turn`; on paths that begin
                 *     with `/api`: `all`.
                 */
                messages?: components["parameters"]["TurnMessages"];
                /**
                 * @description `error`: if the turn fails, the response is an error (502, `TURN_FAILED`) instead of 200 with
                 *     the state `Failed`. Without effect on streams and with `Prefer: respond-async`.
                 */
                fail?: components["parameters"]["Fail"];
            };
            header?: {
                /**
                 * @description An action with the same key is performed only once, for 24 hours and also across restarts.
                 *     The same key with a different body is rejected with 409. A key has 1 to 255 printable
                 *     characters. A repeated request gets `replayed: true` and the same `message_id`, `seq` and
                 *     `branch` as the first request. The rest of the response, especially `state` and `messages`,
                 *     is the current content of the context. Like the first time, the response is sent when the
                 *     turn stops, or at once with `Prefer: respond-async`.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description `respond-async`: answer 202 as soon as the action is durable.
                 * @example respond-async
                 */
                Prefer?: components["parameters"]["Prefer"];
                /**
                 * @description `text/event-stream`: answer with the events of the turn while they happen.
                 * @example text/event-stream
                 */
                Accept?: components["parameters"]["Accept"];
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "branch": "main"
                 *     }
                 */
                "application/json": components["schemas"]["BranchOnly"];
            };
        };
        responses: {
            /**
             * @description The turn has stopped. With `Accept: text/event-stream`, the response is the stream of
             *     the turn's events until the turn stops. The turn continues even if the client
             *     disconnects.
             */
            200: {
                headers: {
                    "X-Accel-Buffering": components["headers"]["XAccelBuffering"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "Idle",
                     *       "branch": "main",
                     *       "total": 2,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         },
                     *         {
                     *           "id": "0192f0c4-7b01-7a11-8c22-5d6e7f809102",
                     *           "role": "assistant",
                     *           "type": "text",
                     *           "text": "Each cord hangs from a main one, and knots stand for numbers.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:42.507Z",
                     *           "parent_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "metadata": {
                     *             "provider": "demo",
                     *             "model": "demo",
                     *             "stop_reason": "end_turn"
                     *           }
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 21,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 21,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                    /**
                     * @example : quipu
                     *     retry: 2000
                     *
                     *     id: 12
                     *     event: text
                     *     data: {"seq":12,"time":"2026-11-15T19:55:41.020Z","type":"text","block":0,"text":"Each "}
                     */
                    "text/event-stream": components["schemas"]["EventStream"];
                };
            };
            /** @description The action is durable and the turn continues. Sent if the request has `Prefer: respond-async`. */
            202: {
                headers: {
                    "Preference-Applied": components["headers"]["PreferenceApplied"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "ProcessingUserMessage",
                     *       "branch": "main",
                     *       "total": 1,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 2,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 2,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["WrongState"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            502: components["responses"]["TurnFailed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    editSummary: {
        parameters: {
            query?: {
                /** @description Return only this many of the newest messages, also of earlier turns. Default: the messages of the turn, see `messages`. */
                last?: components["parameters"]["LastOfTurn"];
                /**
                 * @description Which messages the response has: those of the turn, from the newest message of the user on
                 *     (at most 512), or all. Cannot be combined with `last`. Default: `turn`; on paths that begin
                 *     with `/api`: `all`.
                 */
                messages?: components["parameters"]["TurnMessages"];
                /**
                 * @description `error`: if the turn fails, the response is an error (502, `TURN_FAILED`) instead of 200 with
                 *     the state `Failed`. Without effect on streams and with `Prefer: respond-async`.
                 */
                fail?: components["parameters"]["Fail"];
            };
            header?: {
                /**
                 * @description An action with the same key is performed only once, for 24 hours and also across restarts.
                 *     The same key with a different body is rejected with 409. A key has 1 to 255 printable
                 *     characters. A repeated request gets `replayed: true` and the same `message_id`, `seq` and
                 *     `branch` as the first request. The rest of the response, especially `state` and `messages`,
                 *     is the current content of the context. Like the first time, the response is sent when the
                 *     turn stops, or at once with `Prefer: respond-async`.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description `respond-async`: answer 202 as soon as the action is durable.
                 * @example respond-async
                 */
                Prefer?: components["parameters"]["Prefer"];
                /**
                 * @description `text/event-stream`: answer with the events of the turn while they happen.
                 * @example text/event-stream
                 */
                Accept?: components["parameters"]["Accept"];
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "text": "Goal: book a flight to Cusco. Decided: the one on 20 May."
                 *     }
                 */
                "application/json": components["schemas"]["EditSummary"];
            };
        };
        responses: {
            /**
             * @description The turn has stopped. With `Accept: text/event-stream`, the response is the stream of
             *     the turn's events until the turn stops. The turn continues even if the client
             *     disconnects.
             */
            200: {
                headers: {
                    "X-Accel-Buffering": components["headers"]["XAccelBuffering"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "Idle",
                     *       "branch": "main",
                     *       "total": 2,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         },
                     *         {
                     *           "id": "0192f0c4-7b01-7a11-8c22-5d6e7f809102",
                     *           "role": "assistant",
                     *           "type": "text",
                     *           "text": "Each cord hangs from a main one, and knots stand for numbers.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:42.507Z",
                     *           "parent_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "metadata": {
                     *             "provider": "demo",
                     *             "model": "demo",
                     *             "stop_reason": "end_turn"
                     *           }
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 21,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 21,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                    /**
                     * @example : quipu
                     *     retry: 2000
                     *
                     *     id: 12
                     *     event: text
                     *     data: {"seq":12,"time":"2026-11-15T19:55:41.020Z","type":"text","block":0,"text":"Each "}
                     */
                    "text/event-stream": components["schemas"]["EventStream"];
                };
            };
            /** @description The action is durable and the turn continues. Sent if the request has `Prefer: respond-async`. */
            202: {
                headers: {
                    "Preference-Applied": components["headers"]["PreferenceApplied"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "ProcessingUserMessage",
                     *       "branch": "main",
                     *       "total": 1,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 2,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 2,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["WrongState"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            502: components["responses"]["TurnFailed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    expandMessages: {
        parameters: {
            query?: {
                /** @description Return only this many of the newest messages, also of earlier turns. Default: the messages of the turn, see `messages`. */
                last?: components["parameters"]["LastOfTurn"];
                /**
                 * @description Which messages the response has: those of the turn, from the newest message of the user on
                 *     (at most 512), or all. Cannot be combined with `last`. Default: `turn`; on paths that begin
                 *     with `/api`: `all`.
                 */
                messages?: components["parameters"]["TurnMessages"];
                /**
                 * @description `error`: if the turn fails, the response is an error (502, `TURN_FAILED`) instead of 200 with
                 *     the state `Failed`. Without effect on streams and with `Prefer: respond-async`.
                 */
                fail?: components["parameters"]["Fail"];
            };
            header?: {
                /**
                 * @description An action with the same key is performed only once, for 24 hours and also across restarts.
                 *     The same key with a different body is rejected with 409. A key has 1 to 255 printable
                 *     characters. A repeated request gets `replayed: true` and the same `message_id`, `seq` and
                 *     `branch` as the first request. The rest of the response, especially `state` and `messages`,
                 *     is the current content of the context. Like the first time, the response is sent when the
                 *     turn stops, or at once with `Prefer: respond-async`.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description `respond-async`: answer 202 as soon as the action is durable.
                 * @example respond-async
                 */
                Prefer?: components["parameters"]["Prefer"];
                /**
                 * @description `text/event-stream`: answer with the events of the turn while they happen.
                 * @example text/event-stream
                 */
                Accept?: components["parameters"]["Accept"];
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "from": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                 *       "to": "0192f0c4-7b01-7a11-8c22-5d6e7f809102"
                 *     }
                 */
                "application/json": components["schemas"]["Expand"];
            };
        };
        responses: {
            /**
             * @description The turn has stopped. With `Accept: text/event-stream`, the response is the stream of
             *     the turn's events until the turn stops. The turn continues even if the client
             *     disconnects.
             */
            200: {
                headers: {
                    "X-Accel-Buffering": components["headers"]["XAccelBuffering"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "Idle",
                     *       "branch": "main",
                     *       "total": 2,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         },
                     *         {
                     *           "id": "0192f0c4-7b01-7a11-8c22-5d6e7f809102",
                     *           "role": "assistant",
                     *           "type": "text",
                     *           "text": "Each cord hangs from a main one, and knots stand for numbers.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:42.507Z",
                     *           "parent_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "metadata": {
                     *             "provider": "demo",
                     *             "model": "demo",
                     *             "stop_reason": "end_turn"
                     *           }
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 21,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 21,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                    /**
                     * @example : quipu
                     *     retry: 2000
                     *
                     *     id: 12
                     *     event: text
                     *     data: {"seq":12,"time":"2026-11-15T19:55:41.020Z","type":"text","block":0,"text":"Each "}
                     */
                    "text/event-stream": components["schemas"]["EventStream"];
                };
            };
            /** @description The action is durable and the turn continues. Sent if the request has `Prefer: respond-async`. */
            202: {
                headers: {
                    "Preference-Applied": components["headers"]["PreferenceApplied"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "ProcessingUserMessage",
                     *       "branch": "main",
                     *       "total": 1,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 2,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 2,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["WrongState"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            502: components["responses"]["TurnFailed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    pinMessage: {
        parameters: {
            query?: {
                /** @description Return only this many of the newest messages, also of earlier turns. Default: the messages of the turn, see `messages`. */
                last?: components["parameters"]["LastOfTurn"];
                /**
                 * @description Which messages the response has: those of the turn, from the newest message of the user on
                 *     (at most 512), or all. Cannot be combined with `last`. Default: `turn`; on paths that begin
                 *     with `/api`: `all`.
                 */
                messages?: components["parameters"]["TurnMessages"];
                /**
                 * @description `error`: if the turn fails, the response is an error (502, `TURN_FAILED`) instead of 200 with
                 *     the state `Failed`. Without effect on streams and with `Prefer: respond-async`.
                 */
                fail?: components["parameters"]["Fail"];
            };
            header?: {
                /**
                 * @description An action with the same key is performed only once, for 24 hours and also across restarts.
                 *     The same key with a different body is rejected with 409. A key has 1 to 255 printable
                 *     characters. A repeated request gets `replayed: true` and the same `message_id`, `seq` and
                 *     `branch` as the first request. The rest of the response, especially `state` and `messages`,
                 *     is the current content of the context. Like the first time, the response is sent when the
                 *     turn stops, or at once with `Prefer: respond-async`.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description `respond-async`: answer 202 as soon as the action is durable.
                 * @example respond-async
                 */
                Prefer?: components["parameters"]["Prefer"];
                /**
                 * @description `text/event-stream`: answer with the events of the turn while they happen.
                 * @example text/event-stream
                 */
                Accept?: components["parameters"]["Accept"];
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f"
                 *     }
                 */
                "application/json": components["schemas"]["Pin"];
            };
        };
        responses: {
            /**
             * @description The turn has stopped. With `Accept: text/event-stream`, the response is the stream of
             *     the turn's events until the turn stops. The turn continues even if the client
             *     disconnects.
             */
            200: {
                headers: {
                    "X-Accel-Buffering": components["headers"]["XAccelBuffering"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "Idle",
                     *       "branch": "main",
                     *       "total": 2,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         },
                     *         {
                     *           "id": "0192f0c4-7b01-7a11-8c22-5d6e7f809102",
                     *           "role": "assistant",
                     *           "type": "text",
                     *           "text": "Each cord hangs from a main one, and knots stand for numbers.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:42.507Z",
                     *           "parent_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "metadata": {
                     *             "provider": "demo",
                     *             "model": "demo",
                     *             "stop_reason": "end_turn"
                     *           }
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 21,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 21,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                    /**
                     * @example : quipu
                     *     retry: 2000
                     *
                     *     id: 12
                     *     event: text
                     *     data: {"seq":12,"time":"2026-11-15T19:55:41.020Z","type":"text","block":0,"text":"Each "}
                     */
                    "text/event-stream": components["schemas"]["EventStream"];
                };
            };
            /** @description The action is durable and the turn continues. Sent if the request has `Prefer: respond-async`. */
            202: {
                headers: {
                    "Preference-Applied": components["headers"]["PreferenceApplied"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "ProcessingUserMessage",
                     *       "branch": "main",
                     *       "total": 1,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 2,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 2,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["WrongState"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            502: components["responses"]["TurnFailed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    unpinMessage: {
        parameters: {
            query?: {
                /** @description Return only this many of the newest messages, also of earlier turns. Default: the messages of the turn, see `messages`. */
                last?: components["parameters"]["LastOfTurn"];
                /**
                 * @description Which messages the response has: those of the turn, from the newest message of the user on
                 *     (at most 512), or all. Cannot be combined with `last`. Default: `turn`; on paths that begin
                 *     with `/api`: `all`.
                 */
                messages?: components["parameters"]["TurnMessages"];
                /**
                 * @description `error`: if the turn fails, the response is an error (502, `TURN_FAILED`) instead of 200 with
                 *     the state `Failed`. Without effect on streams and with `Prefer: respond-async`.
                 */
                fail?: components["parameters"]["Fail"];
            };
            header?: {
                /**
                 * @description An action with the same key is performed only once, for 24 hours and also across restarts.
                 *     The same key with a different body is rejected with 409. A key has 1 to 255 printable
                 *     characters. A repeated request gets `replayed: true` and the same `message_id`, `seq` and
                 *     `branch` as the first request. The rest of the response, especially `state` and `messages`,
                 *     is the current content of the context. Like the first time, the response is sent when the
                 *     turn stops, or at once with `Prefer: respond-async`.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description `respond-async`: answer 202 as soon as the action is durable.
                 * @example respond-async
                 */
                Prefer?: components["parameters"]["Prefer"];
                /**
                 * @description `text/event-stream`: answer with the events of the turn while they happen.
                 * @example text/event-stream
                 */
                Accept?: components["parameters"]["Accept"];
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f"
                 *     }
                 */
                "application/json": components["schemas"]["Pin"];
            };
        };
        responses: {
            /**
             * @description The turn has stopped. With `Accept: text/event-stream`, the response is the stream of
             *     the turn's events until the turn stops. The turn continues even if the client
             *     disconnects.
             */
            200: {
                headers: {
                    "X-Accel-Buffering": components["headers"]["XAccelBuffering"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "Idle",
                     *       "branch": "main",
                     *       "total": 2,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         },
                     *         {
                     *           "id": "0192f0c4-7b01-7a11-8c22-5d6e7f809102",
                     *           "role": "assistant",
                     *           "type": "text",
                     *           "text": "Each cord hangs from a main one, and knots stand for numbers.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:42.507Z",
                     *           "parent_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "metadata": {
                     *             "provider": "demo",
                     *             "model": "demo",
                     *             "stop_reason": "end_turn"
                     *           }
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 21,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 21,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                    /**
                     * @example : quipu
                     *     retry: 2000
                     *
                     *     id: 12
                     *     event: text
                     *     data: {"seq":12,"time":"2026-11-15T19:55:41.020Z","type":"text","block":0,"text":"Each "}
                     */
                    "text/event-stream": components["schemas"]["EventStream"];
                };
            };
            /** @description The action is durable and the turn continues. Sent if the request has `Prefer: respond-async`. */
            202: {
                headers: {
                    "Preference-Applied": components["headers"]["PreferenceApplied"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "ProcessingUserMessage",
                     *       "branch": "main",
                     *       "total": 1,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 2,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 2,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["WrongState"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            502: components["responses"]["TurnFailed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    listCompactions: {
        parameters: {
            query?: {
                /**
                 * @description The name of the branch. Default: the active branch.
                 * @example main
                 */
                branch?: components["parameters"]["Branch"];
            };
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The records. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "active": "0192f0d1-1111-7d20-8f3b-0a1b2c3d4e5f",
                     *       "compactions": [
                     *         {
                     *           "id": "0192f0d1-1111-7d20-8f3b-0a1b2c3d4e5f",
                     *           "parent": null,
                     *           "kind": "compact",
                     *           "created_at": "2026-11-15T20:10:02.000Z",
                     *           "reason": "threshold",
                     *           "covered": 234,
                     *           "last": "0192f0c4-7b01-7a11-8c22-5d6e7f809102",
                     *           "hash": "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
                     *           "shown": [],
                     *           "stubs": [],
                     *           "narrative": "Goal: move the flight of Mei Davis to 20 May.",
                     *           "ledger": "- #12 reservation 4WQ150",
                     *           "recall": true,
                     *           "model": "claude-haiku-4-5",
                     *           "prompt_version": 1,
                     *           "tokens_before": 164000,
                     *           "tokens_after": 21000,
                     *           "cost": 41200000000,
                     *           "generation": 1
                     *         }
                     *       ],
                     *       "pins": []
                     *     }
                     */
                    "application/json": components["schemas"]["Compactions"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    getView: {
        parameters: {
            query?: {
                /**
                 * @description The name of the branch. Default: the active branch.
                 * @example main
                 */
                branch?: components["parameters"]["Branch"];
            };
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The view. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "model": "demo/demo",
                     *       "system": "You are a careful assistant.",
                     *       "tools": [
                     *         "read_file",
                     *         "search_history",
                     *         "read_history"
                     *       ],
                     *       "messages": [
                     *         {
                     *           "role": "user",
                     *           "content": [
                     *             {
                     *               "type": "text",
                     *               "text": "A quipu is a record kept in knotted cords."
                     *             }
                     *           ]
                     *         }
                     *       ],
                     *       "tokens": 5120
                     *     }
                     */
                    "application/json": components["schemas"]["View"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    approvePendingTools: {
        parameters: {
            query?: {
                /** @description Return only this many of the newest messages, also of earlier turns. Default: the messages of the turn, see `messages`. */
                last?: components["parameters"]["LastOfTurn"];
                /**
                 * @description Which messages the response has: those of the turn, from the newest message of the user on
                 *     (at most 512), or all. Cannot be combined with `last`. Default: `turn`; on paths that begin
                 *     with `/api`: `all`.
                 */
                messages?: components["parameters"]["TurnMessages"];
                /**
                 * @description `error`: if the turn fails, the response is an error (502, `TURN_FAILED`) instead of 200 with
                 *     the state `Failed`. Without effect on streams and with `Prefer: respond-async`.
                 */
                fail?: components["parameters"]["Fail"];
            };
            header?: {
                /**
                 * @description An action with the same key is performed only once, for 24 hours and also across restarts.
                 *     The same key with a different body is rejected with 409. A key has 1 to 255 printable
                 *     characters. A repeated request gets `replayed: true` and the same `message_id`, `seq` and
                 *     `branch` as the first request. The rest of the response, especially `state` and `messages`,
                 *     is the current content of the context. Like the first time, the response is sent when the
                 *     turn stops, or at once with `Prefer: respond-async`.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description `respond-async`: answer 202 as soon as the action is durable.
                 * @example respond-async
                 */
                Prefer?: components["parameters"]["Prefer"];
                /**
                 * @description `text/event-stream`: answer with the events of the turn while they happen.
                 * @example text/event-stream
                 */
                Accept?: components["parameters"]["Accept"];
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "approved": [
                 *         "call_1"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["ApproveTools"];
            };
        };
        responses: {
            /**
             * @description The turn has stopped. With `Accept: text/event-stream`, the response is the stream of
             *     the turn's events until the turn stops. The turn continues even if the client
             *     disconnects.
             */
            200: {
                headers: {
                    "X-Accel-Buffering": components["headers"]["XAccelBuffering"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "Idle",
                     *       "branch": "main",
                     *       "total": 2,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         },
                     *         {
                     *           "id": "0192f0c4-7b01-7a11-8c22-5d6e7f809102",
                     *           "role": "assistant",
                     *           "type": "text",
                     *           "text": "Each cord hangs from a main one, and knots stand for numbers.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:42.507Z",
                     *           "parent_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "metadata": {
                     *             "provider": "demo",
                     *             "model": "demo",
                     *             "stop_reason": "end_turn"
                     *           }
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 21,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 21,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                    /**
                     * @example : quipu
                     *     retry: 2000
                     *
                     *     id: 12
                     *     event: text
                     *     data: {"seq":12,"time":"2026-11-15T19:55:41.020Z","type":"text","block":0,"text":"Each "}
                     */
                    "text/event-stream": components["schemas"]["EventStream"];
                };
            };
            /** @description The action is durable and the turn continues. Sent if the request has `Prefer: respond-async`. */
            202: {
                headers: {
                    "Preference-Applied": components["headers"]["PreferenceApplied"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01",
                     *       "state": "ProcessingUserMessage",
                     *       "branch": "main",
                     *       "total": 1,
                     *       "messages": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "role": "user",
                     *           "type": "text",
                     *           "text": "A quipu is a record kept in knotted cords.",
                     *           "images": [],
                     *           "tool_calls": [],
                     *           "tool_result": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "parent_id": null,
                     *           "metadata": null
                     *         }
                     *       ],
                     *       "pending_tool_calls": [],
                     *       "last_event_id": 2,
                     *       "updated_at": "2026-11-15T19:55:42.509Z",
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "seq": 2,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["ActionAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["WrongState"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            502: components["responses"]["TurnFailed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    followContext: {
        parameters: {
            query?: {
                /**
                 * @description Start after the event with this number; 0 starts with the oldest event that is kept.
                 *     Without this parameter and without `Last-Event-ID`, only new events are sent.
                 */
                after?: number;
            };
            header?: {
                /**
                 * @description The same as `after`, in the form that browsers send when they reconnect. It overrides `after`.
                 * @example 11
                 */
                "Last-Event-ID"?: string;
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The events. The stream has no end. */
            200: {
                headers: {
                    "X-Accel-Buffering": components["headers"]["XAccelBuffering"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example : quipu
                     *     retry: 2000
                     *
                     *     id: 12
                     *     event: text
                     *     data: {"seq":12,"time":"2026-11-15T19:55:41.020Z","type":"text","block":0,"text":"Each "}
                     */
                    "text/event-stream": components["schemas"]["EventStream"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    listQueue: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The messages in the order in which they will be sent. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "text": "And the colours?",
                     *           "images": 0,
                     *           "branch": null,
                     *           "created_at": "2026-11-15T19:55:40.123Z",
                     *           "error": null
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Queue"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    queueMessage: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description An action with the same key is performed only once, for 24 hours and also across restarts.
                 *     The same key with a different body is rejected with 409. A key has 1 to 255 printable
                 *     characters. A repeated request gets `replayed: true` and the same `message_id`, `seq` and
                 *     `branch` as the first request. The rest of the response, especially `state` and `messages`,
                 *     is the current content of the context. Like the first time, the response is sent when the
                 *     turn stops, or at once with `Prefer: respond-async`.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "content": "And the colours?"
                 *     }
                 */
                "application/json": components["schemas"]["QueueMessage"];
            };
        };
        responses: {
            /** @description The message is in the queue, or was sent already. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "queued": {
                     *         "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *         "text": "And the colours?",
                     *         "images": 0,
                     *         "branch": null,
                     *         "created_at": "2026-11-15T19:55:40.123Z",
                     *         "error": null
                     *       },
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "items": 1,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["QueueAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    dropQueuedMessage: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
                /**
                 * @description The id of the message in the queue.
                 * @example 0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f
                 */
                item: components["schemas"]["Id"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The message will not be sent. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    editQueuedMessage: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
                /**
                 * @description The id of the message in the queue.
                 * @example 0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f
                 */
                item: components["schemas"]["Id"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "text": "And what do the colours mean?"
                 *     }
                 */
                "application/json": components["schemas"]["QueueEdit"];
            };
        };
        responses: {
            /** @description The changed message. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "queued": {
                     *         "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *         "text": "And the colours?",
                     *         "images": 0,
                     *         "branch": null,
                     *         "created_at": "2026-11-15T19:55:40.123Z",
                     *         "error": null
                     *       },
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "items": 1,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["QueueAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    sendQueuedMessage: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
                /**
                 * @description The id of the message in the queue.
                 * @example 0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f
                 */
                item: components["schemas"]["Id"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The message will be sent next, or was just sent. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "queued": {
                     *         "id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *         "text": "And the colours?",
                     *         "images": 0,
                     *         "branch": null,
                     *         "created_at": "2026-11-15T19:55:40.123Z",
                     *         "error": null
                     *       },
                     *       "message_id": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "items": 1,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["QueueAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    listBranches: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All branches. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "branches": [
                     *         {
                     *           "name": "main",
                     *           "active": true,
                     *           "head": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *           "messages": 1,
                     *           "message_bytes": 257,
                     *           "system_prompt_id": null,
                     *           "system_prompt": null,
                     *           "created_at": "2026-11-15T19:55:40.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": {
                        branches: components["schemas"]["Branch"][];
                    };
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    forkBranch: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "other",
                 *       "from": "main",
                 *       "at": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f"
                 *     }
                 */
                "application/json": components["schemas"]["NewBranch"];
            };
        };
        responses: {
            /** @description The branch was created. */
            201: {
                headers: {
                    Location: components["headers"]["Location"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "name": "main",
                     *       "active": true,
                     *       "head": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "messages": 1,
                     *       "message_bytes": 257,
                     *       "system_prompt_id": null,
                     *       "system_prompt": null,
                     *       "created_at": "2026-11-15T19:55:40.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Branch"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    getBranch: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
                /**
                 * @description The name of the branch, percent-encoded where necessary.
                 * @example main
                 */
                name: components["schemas"]["BranchName"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The branch. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "name": "main",
                     *       "active": true,
                     *       "head": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "messages": 1,
                     *       "message_bytes": 257,
                     *       "system_prompt_id": null,
                     *       "system_prompt": null,
                     *       "created_at": "2026-11-15T19:55:40.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Branch"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    putBranch: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
                /**
                 * @description The name of the branch, percent-encoded where necessary.
                 * @example main
                 */
                name: components["schemas"]["BranchName"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "active": true
                 *     }
                 */
                "application/json": components["schemas"]["BranchChange"];
            };
        };
        responses: {
            /** @description The changed branch. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "name": "main",
                     *       "active": true,
                     *       "head": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "messages": 1,
                     *       "message_bytes": 257,
                     *       "system_prompt_id": null,
                     *       "system_prompt": null,
                     *       "created_at": "2026-11-15T19:55:40.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Branch"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    deleteBranch: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
                /**
                 * @description The name of the branch, percent-encoded where necessary.
                 * @example main
                 */
                name: components["schemas"]["BranchName"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: components["responses"]["Gone"];
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["NotMatched"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    updateBranch: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Perform the request only if the context still has this `ETag` (from a `GET` with or without
                 *     messages); otherwise answer 412. A list of ETags or `*` is also allowed.
                 * @example "6f1ed002ab5595859014ebf0951522d9"
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path: {
                /**
                 * @description The id of the context.
                 * @example 0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01
                 */
                id: components["parameters"]["ContextId"];
                /**
                 * @description The name of the branch, percent-encoded where necessary.
                 * @example main
                 */
                name: components["schemas"]["BranchName"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "head": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f"
                 *     }
                 */
                "application/json": components["schemas"]["BranchChange"];
            };
        };
        responses: {
            /** @description The changed branch. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "name": "main",
                     *       "active": true,
                     *       "head": "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f",
                     *       "messages": 1,
                     *       "message_bytes": 257,
                     *       "system_prompt_id": null,
                     *       "system_prompt": null,
                     *       "created_at": "2026-11-15T19:55:40.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Branch"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["NotMatched"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    listPrompts: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All system prompts. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "prompts": [
                     *         {
                     *           "id": "brief",
                     *           "name": "Brief",
                     *           "description": null,
                     *           "content": "Be brief.",
                     *           "created_at": "2026-11-15T19:55:40.000Z",
                     *           "updated_at": "2026-11-15T19:55:40.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": {
                        prompts: components["schemas"]["Prompt"][];
                    };
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    createPrompt: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "id": "brief",
                 *       "name": "Brief",
                 *       "content": "Be brief."
                 *     }
                 */
                "application/json": components["schemas"]["NewPrompt"];
            };
        };
        responses: {
            /** @description The system prompt was created. */
            201: {
                headers: {
                    Location: components["headers"]["Location"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "brief",
                     *       "name": "Brief",
                     *       "description": null,
                     *       "content": "Be brief.",
                     *       "created_at": "2026-11-15T19:55:40.000Z",
                     *       "updated_at": "2026-11-15T19:55:40.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Prompt"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    getPrompt: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the system prompt.
                 * @example brief
                 */
                id: components["schemas"]["PromptId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The system prompt. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "brief",
                     *       "name": "Brief",
                     *       "description": null,
                     *       "content": "Be brief.",
                     *       "created_at": "2026-11-15T19:55:40.000Z",
                     *       "updated_at": "2026-11-15T19:55:40.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Prompt"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    putPrompt: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path: {
                /**
                 * @description The id of the system prompt.
                 * @example brief
                 */
                id: components["schemas"]["PromptId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "Very brief"
                 *     }
                 */
                "application/json": components["schemas"]["PromptChange"];
            };
        };
        responses: {
            /** @description The changed system prompt. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "brief",
                     *       "name": "Brief",
                     *       "description": null,
                     *       "content": "Be brief.",
                     *       "created_at": "2026-11-15T19:55:40.000Z",
                     *       "updated_at": "2026-11-15T19:55:40.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Prompt"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["KeyConflict"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    deletePrompt: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path: {
                /**
                 * @description The id of the system prompt.
                 * @example brief
                 */
                id: components["schemas"]["PromptId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: components["responses"]["Gone"];
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["KeyConflict"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    updatePrompt: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path: {
                /**
                 * @description The id of the system prompt.
                 * @example brief
                 */
                id: components["schemas"]["PromptId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "content": "Be very brief."
                 *     }
                 */
                "application/json": components["schemas"]["PromptChange"];
            };
        };
        responses: {
            /** @description The changed system prompt. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "brief",
                     *       "name": "Brief",
                     *       "description": null,
                     *       "content": "Be brief.",
                     *       "created_at": "2026-11-15T19:55:40.000Z",
                     *       "updated_at": "2026-11-15T19:55:40.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Prompt"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["KeyConflict"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    listSessions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All sessions. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "sessions": [
                     *         {
                     *           "id": "bot:1",
                     *           "agent_id": "helper",
                     *           "source": null,
                     *           "title": "Hello",
                     *           "messages": 1,
                     *           "chunks": 1,
                     *           "chunk_size": 512,
                     *           "created_at": "2026-11-15T19:55:40.000Z",
                     *           "updated_at": "2026-11-15T19:55:40.123Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": {
                        sessions: components["schemas"]["Session"][];
                    };
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    createSession: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "id": "bot:1",
                 *       "agent_id": "helper",
                 *       "chunk_size": 512
                 *     }
                 */
                "application/json": components["schemas"]["NewSession"];
            };
        };
        responses: {
            /** @description The session was created. */
            201: {
                headers: {
                    Location: components["headers"]["Location"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "bot:1",
                     *       "agent_id": "helper",
                     *       "source": null,
                     *       "title": "Hello",
                     *       "messages": 1,
                     *       "chunks": 1,
                     *       "chunk_size": 512,
                     *       "created_at": "2026-11-15T19:55:40.000Z",
                     *       "updated_at": "2026-11-15T19:55:40.123Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Session"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    getSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the session, percent-encoded where necessary.
                 * @example bot:1
                 */
                id: components["parameters"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The session. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "bot:1",
                     *       "agent_id": "helper",
                     *       "source": null,
                     *       "title": "Hello",
                     *       "messages": 1,
                     *       "chunks": 1,
                     *       "chunk_size": 512,
                     *       "created_at": "2026-11-15T19:55:40.000Z",
                     *       "updated_at": "2026-11-15T19:55:40.123Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Session"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    deleteSession: {
        parameters: {
            query?: {
                /**
                 * @description If `true`, 204 is sent only after no file of the data directory contains the text any more:
                 *     the journal is overwritten, and the search index and the session index are rewritten. The
                 *     more text the store has, the longer this takes. Other requests continue in the meantime;
                 *     lists and searches may have to wait. After a crash, the next start of the server completes
                 *     the erasure. After an error response the text may be deleted but not yet erased everywhere;
                 *     the next start of the server completes this too. Images are erased unless something else
                 *     refers to them. Backups, file system snapshots, and unused blocks of the disk are not
                 *     erased. See docs/security.md.
                 */
                erase?: components["parameters"]["Erase"];
            };
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path: {
                /**
                 * @description The id of the session, percent-encoded where necessary.
                 * @example bot:1
                 */
                id: components["parameters"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: components["responses"]["Gone"];
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["KeyConflict"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    updateSession: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path: {
                /**
                 * @description The id of the session, percent-encoded where necessary.
                 * @example bot:1
                 */
                id: components["parameters"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "chunk_size": 256
                 *     }
                 */
                "application/json": components["schemas"]["SessionChange"];
            };
        };
        responses: {
            /** @description The changed session. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "bot:1",
                     *       "agent_id": "helper",
                     *       "source": null,
                     *       "title": "Hello",
                     *       "messages": 1,
                     *       "chunks": 1,
                     *       "chunk_size": 512,
                     *       "created_at": "2026-11-15T19:55:40.000Z",
                     *       "updated_at": "2026-11-15T19:55:40.123Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Session"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["KeyConflict"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    readSession: {
        parameters: {
            query?: {
                /** @description The maximum number of messages. */
                last?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The id of the session, percent-encoded where necessary.
                 * @example bot:1
                 */
                id: components["parameters"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The messages. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "messages": [
                     *         {
                     *           "timestamp": "2026-11-15T19:55:40.123Z",
                     *           "role": "user",
                     *           "content": "Hello",
                     *           "tool_calls": null,
                     *           "tool_call_id": null
                     *         }
                     *       ],
                     *       "total": 1,
                     *       "bad_lines": 0
                     *     }
                     */
                    "application/json": components["schemas"]["SessionMessages"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    appendToSession: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path: {
                /**
                 * @description The id of the session, percent-encoded where necessary.
                 * @example bot:1
                 */
                id: components["parameters"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "role": "user",
                 *       "content": "Hello"
                 *     }
                 */
                "application/json": components["schemas"]["NewSessionMessage"];
            };
        };
        responses: {
            /** @description The message is durable. The response is the changed session. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "bot:1",
                     *       "agent_id": "helper",
                     *       "source": null,
                     *       "title": "Hello",
                     *       "messages": 1,
                     *       "chunks": 1,
                     *       "chunk_size": 512,
                     *       "created_at": "2026-11-15T19:55:40.000Z",
                     *       "updated_at": "2026-11-15T19:55:40.123Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Session"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["KeyConflict"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    listJobs: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The jobs. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "jobs": [
                     *         {
                     *           "id": "01a1e837-9542-733c-a046-f54f2a4b36b9",
                     *           "kind": "check",
                     *           "context_id": null,
                     *           "owner": null,
                     *           "state": "running",
                     *           "done": 12,
                     *           "total": 40,
                     *           "current": "01a1e837-904a-7041-be6f-4c883aeea769",
                     *           "created_at": "2026-11-17T06:35:19.234Z",
                     *           "started_at": "2026-11-17T06:35:19.235Z",
                     *           "ended_at": null,
                     *           "report": null,
                     *           "error": null
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Jobs"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    getJob: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the job.
                 * @example 01a1e837-9542-733c-a046-f54f2a4b36b9
                 */
                id: components["parameters"]["JobId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The job. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "job": {
                     *         "id": "01a1e837-9542-733c-a046-f54f2a4b36b9",
                     *         "kind": "check",
                     *         "context_id": null,
                     *         "owner": null,
                     *         "state": "running",
                     *         "done": 12,
                     *         "total": 40,
                     *         "current": "01a1e837-904a-7041-be6f-4c883aeea769",
                     *         "created_at": "2026-11-17T06:35:19.234Z",
                     *         "started_at": "2026-11-17T06:35:19.235Z",
                     *         "ended_at": null,
                     *         "report": null,
                     *         "error": null
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["JobAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    cancelJob: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path: {
                /**
                 * @description The id of the job.
                 * @example 01a1e837-9542-733c-a046-f54f2a4b36b9
                 */
                id: components["parameters"]["JobId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The job has ended. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "job": {
                     *         "id": "01a1e837-9542-733c-a046-f54f2a4b36b9",
                     *         "kind": "check",
                     *         "context_id": null,
                     *         "owner": null,
                     *         "state": "cancelled",
                     *         "done": 0,
                     *         "total": 0,
                     *         "current": null,
                     *         "created_at": "2026-11-17T06:35:19.234Z",
                     *         "started_at": null,
                     *         "ended_at": "2026-11-17T06:35:20.010Z",
                     *         "report": null,
                     *         "error": null
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["JobAnswer"];
                };
            };
            /** @description The job will end soon. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "job": {
                     *         "id": "01a1e837-9542-733c-a046-f54f2a4b36b9",
                     *         "kind": "check",
                     *         "context_id": null,
                     *         "owner": null,
                     *         "state": "running",
                     *         "done": 12,
                     *         "total": 40,
                     *         "current": "01a1e837-904a-7041-be6f-4c883aeea769",
                     *         "created_at": "2026-11-17T06:35:19.234Z",
                     *         "started_at": "2026-11-17T06:35:19.235Z",
                     *         "ended_at": null,
                     *         "report": null,
                     *         "error": null
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["JobAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["KeyConflict"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    followJob: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the job.
                 * @example 01a1e837-9542-733c-a046-f54f2a4b36b9
                 */
                id: components["parameters"]["JobId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The events until the end of the job. */
            200: {
                headers: {
                    "X-Accel-Buffering": components["headers"]["XAccelBuffering"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example id: 3
                     *     event: progress
                     *     data: {"id":"01a1e837-9542-733c-a046-f54f2a4b36b9","kind":"check","context_id":null,"owner":null,"state":"running","done":12,"total":40,"current":"01a1e837-904a-7041-be6f-4c883aeea769","created_at":"2026-11-17T06:35:19.234Z","started_at":"2026-11-17T06:35:19.235Z","ended_at":null,"report":null,"error":null}
                     */
                    "text/event-stream": string;
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    checkStore: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "context_id": "01a1e837-904a-7041-be6f-4c883aeea769"
                 *     }
                 */
                "application/json": components["schemas"]["CheckWork"];
            };
        };
        responses: {
            202: components["responses"]["JobStarted"];
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["JobConflict"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    collectGarbage: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "context_id": "01a1e837-904a-7041-be6f-4c883aeea769",
                 *       "grace_seconds": 0
                 *     }
                 */
                "application/json": components["schemas"]["GcWork"];
            };
        };
        responses: {
            202: components["responses"]["JobStarted"];
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["JobConflict"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    archiveMessages: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "older_than_days": 90
                 *     }
                 */
                "application/json": components["schemas"]["ArchiveWork"];
            };
        };
        responses: {
            202: components["responses"]["JobStarted"];
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["JobConflict"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    compressContexts: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "context_id": "01a1e837-904a-7041-be6f-4c883aeea769"
                 *     }
                 */
                "application/json": components["schemas"]["PackWork"];
            };
        };
        responses: {
            202: components["responses"]["JobStarted"];
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["JobConflict"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    decompressContexts: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "context_id": "01a1e837-904a-7041-be6f-4c883aeea769"
                 *     }
                 */
                "application/json": components["schemas"]["PackWork"];
            };
        };
        responses: {
            202: components["responses"]["JobStarted"];
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["JobConflict"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    reindexStore: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /** @example {} */
                "application/json": components["schemas"]["NoWork"];
            };
        };
        responses: {
            202: components["responses"]["JobStarted"];
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            409: components["responses"]["JobConflict"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    importFile: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "copilot_chats": "[]"
                 *     }
                 */
                "application/json": unknown;
            };
        };
        responses: {
            202: components["responses"]["JobStarted"];
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            409: components["responses"]["JobConflict"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
    migrateStore: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A request with the same key is carried out only once, for 24 hours and also across restarts:
                 *     a repetition gets the same response, with the header `Idempotency-Replayed`. The same key
                 *     with another method, path, query or body is rejected with 409, and so is a key whose first
                 *     request is still being carried out or was interrupted by a crash. A request that failed may
                 *     be repeated with its key. Keys of different owners are independent.
                 * @example 2b7c7d1e-8b1a-4d3f-9a52-0e8f6c1f7a10
                 */
                "Idempotency-Key"?: components["parameters"]["RequestKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "dry_run": true
                 *     }
                 */
                "application/json": components["schemas"]["MigrateWork"];
            };
        };
        responses: {
            202: components["responses"]["JobStarted"];
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Denied"];
            409: components["responses"]["JobConflict"];
            413: components["responses"]["TooBig"];
            415: components["responses"]["WrongType"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
            507: components["responses"]["Full"];
        };
    };
}
