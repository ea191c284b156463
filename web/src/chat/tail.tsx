// What stands below the last message: calls that wait for a decision, what the turn is doing, why it
// stopped, and messages that wait for their turn.

import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { ask } from '../lib/api';
import { DiffLines } from '../lib/markdown';
import { notify, tools } from '../lib/store';
import type { Queued, Rule, ToolCall } from '../lib/types';
import { Button, focusAtFirst, Icon, Notice } from '../views/parts';
import type { Conversation } from './conversation';
import { Arguments, summaryOf, toolIcon, Writing } from './message';

const doing: Record<string, string> = {
  ProcessingUserMessage: 'Saving your message',
  AwaitingLLMResponse: 'Waiting for the model',
  ProcessingLLMResponse: 'Saving the answer',
  ExecutingTools: 'Tools are running',
  ProcessingToolResults: 'Saving the results',
  GeneratingResponse: 'Waiting for the model',
  Compacting: 'Compacting older messages: nothing is lost',
};

export function Tail({ chat }: { chat: Conversation }): VNode {
  const turn = chat.turn.value;
  const calls = turn.state === 'AwaitingToolApproval' ? chat.pending.value : [];
  const running = turn.tools.filter((tool) => !tool.ended).map((tool) => tool.name);
  const label = turn.state === 'ExecutingTools' && running.length > 0 ? `${running.join(', ')} ${running.length === 1 ? 'is' : 'are'} running` : doing[turn.state];
  return (
    <div class="tail">
      {label && !turn.answer && <Writing label={label} />}
      {turn.state === 'TransientFailure' && (
        <Notice actions={<Button small onClick={() => void chat.cancel()}>Stop trying</Button>}>
          {turn.detail.error?.message ?? 'The provider did not answer.'} Trying again by itself; your message is saved.
        </Notice>
      )}
      {turn.state === 'Failed' && <Failure chat={chat} />}
      {calls.length > 0 && <Approvals chat={chat} calls={calls} />}
      <Queue chat={chat} items={chat.queue.value ?? []} />
    </div>
  );
}

// ---- why a turn stopped ----

function advice(kind: string | undefined): string {
  switch (kind) {
    case 'auth':
      return 'The key of the provider was rejected. Change it in the configuration of the server.';
    case 'quota':
      return 'The provider account has no credit left, or its quota is used up.';
    case 'model':
      return 'The provider does not know this model. Choose another one above.';
    case 'too_long':
      return 'The conversation is too long for this model. Compact it, branch off earlier, or choose a model with a larger window.';
    case 'limit':
      return 'A limit of this conversation was reached.';
    case 'interrupted':
      return 'The server stopped in the middle of the turn. What had arrived is saved.';
    case 'save':
      return 'The server could not save. Your earlier messages are safe.';
    default:
      return 'Your message is saved.';
  }
}

function Failure({ chat }: { chat: Conversation }): VNode {
  const error = chat.turn.value.detail.error;
  return (
    <Notice
      kind="error"
      actions={
        <>
          <Button small kind="primary" icon="retry" onClick={() => void chat.retry()}>
            Try again
          </Button>
          {error?.kind === 'too_long' && chat.canCompact.value && (
            <Button small icon="wrap" onClick={() => void chat.action('compact')}>
              Compact
            </Button>
          )}
        </>
      }
    >
      <strong>The answer failed.</strong> {advice(error?.kind)}
      {error?.message && <span class="error-detail">{error.message}</span>}
    </Notice>
  );
}

// ---- approvals ----

function Approvals({ chat, calls }: { chat: Conversation; calls: ToolCall[] }): VNode {
  const [edited, setEdited] = useState<Record<string, unknown>>({});
  const ids = calls.map((call) => call.id);
  const change = (id: string, value: unknown) => setEdited({ ...edited, [id]: value });
  const withEdits = (some: string[]) => {
    const changed = Object.fromEntries(some.filter((id) => id in edited).map((id) => [id, edited[id]]));
    return Object.keys(changed).length > 0 ? { arguments: changed } : {};
  };
  return (
    <section class="approvals" aria-label="Tools that need your decision">
      {calls.map((call) => (
        <Approval key={call.id} chat={chat} call={call} edited={edited[call.id]} onEdit={(value) => change(call.id, value)} extra={() => withEdits([call.id])} />
      ))}
      {calls.length > 1 && (
        <div class="row-end approve-all">
          <Button onClick={() => void chat.decide({ denied: ids })}>Deny all {calls.length}</Button>
          <Button kind="primary" onClick={() => void chat.decide({ approved: ids, ...withEdits(ids) })}>
            Approve all {calls.length}
          </Button>
        </div>
      )}
    </section>
  );
}

function Approval({ chat, call, edited, onEdit, extra }: { chat: Conversation; call: ToolCall; edited: unknown; onEdit: (value: unknown) => void; extra: () => { arguments?: Record<string, unknown> } }): VNode {
  const [editing, setEditing] = useState<string | null>(null);
  const [wrong, setWrong] = useState('');
  const [denying, setDenying] = useState<string | null>(null);
  const tool = tools.value.find((one) => one.name === call.tool_name);
  const shown = edited === undefined ? call : { ...call, arguments: edited };
  const always = async () => {
    const before = new Set((await rules()).map((rule) => rule.id));
    if (!(await chat.decide({ approved: [call.id], always: true, ...extra() }))) return;
    const added = (await rules()).filter((rule) => !before.has(rule.id));
    for (const rule of added) notify(`Rule saved: ${rule.tool} ${Object.entries(rule.arguments).map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(' ')} runs without asking`, { label: 'Remove', run: () => void ask(`/tools/rules/${rule.id}`, { method: 'DELETE' }) });
  };
  const deny = () => void chat.decide({ denied: [call.id], ...(denying ? { reason: denying } : {}) });
  const saveEdit = () => {
    try {
      onEdit(JSON.parse(editing ?? '') as unknown);
      setEditing(null);
      setWrong('');
    } catch (error) {
      setWrong(`This is not valid JSON: ${error instanceof Error ? error.message : ''}`);
    }
  };
  return (
    <div class="approval" role="group" aria-label={`${call.tool_name} asks for permission`}>
      <header>
        <Icon name={toolIcon(call)} />
        <h3>
          {tool?.title ?? call.tool_name} <code>{summaryOf(shown)}</code>
        </h3>
        <span class="tag wait">waits for you</span>
      </header>
      {editing === null ? (
        <What call={shown} isEdited={edited !== undefined} />
      ) : (
        <div class="edit-box">
          <textarea class="code-box" aria-label="Arguments as JSON" rows={8} value={editing} onInput={(event) => setEditing(event.currentTarget.value)} />
          {wrong && <p class="wrong">{wrong}</p>}
          <div class="row-end">
            <Button small onClick={() => setEditing(null)}>
              Cancel
            </Button>
            <Button small kind="primary" onClick={saveEdit}>
              Use these arguments
            </Button>
          </div>
        </div>
      )}
      {denying !== null && editing === null && (
        <label class="field">
          Reason, for the model to read (optional)
          <input
            value={denying}
            ref={focusAtFirst}
            onInput={(event) => setDenying(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === 'Enter') deny();
              if (event.key === 'Escape') setDenying(null);
            }}
          />
        </label>
      )}
      {editing === null && (
        <footer>
          <Button small kind="quiet" icon="edit" onClick={() => setEditing(JSON.stringify(shown.arguments, null, 2))}>
            Edit arguments
          </Button>
          <span class="push" />
          {denying === null ? (
            <Button small onClick={() => setDenying('')}>
              Deny
            </Button>
          ) : (
            <Button small kind="danger" onClick={deny}>
              Deny
            </Button>
          )}
          <Button small onClick={() => void always()} label="Approve this call and all equal ones from now on">
            Always allow
          </Button>
          <Button small kind="primary" onClick={() => void chat.decide({ approved: [call.id], ...extra() })}>
            {edited === undefined ? 'Approve' : 'Approve as edited'}
          </Button>
        </footer>
      )}
    </div>
  );
}

const rules = async (): Promise<Rule[]> => (await ask<{ rules: Rule[] }>('/tools/rules').catch(() => ({ rules: [] }))).rules;

// What will happen: the change of a file, the command with its directory, or else the arguments.
function What({ call, isEdited }: { call: ToolCall; isEdited: boolean }): VNode {
  const { preview } = call;
  if (preview?.kind === 'diff' && !isEdited)
    return (
      <figure class="code">
        <figcaption>
          <span>{preview.path}</span>
          <span class="faint">change against the file as it is now</span>
        </figcaption>
        <pre tabIndex={0} aria-label={`Change of ${preview.path}`}>
          <code dir="ltr">
            {preview.binary ? 'The file is not text.' : preview.diff ? <DiffLines text={preview.diff} /> : 'The file does not change.'}
            {preview.cut && <span class="diff-meta">… the rest of the change is too long to show</span>}
          </code>
        </pre>
      </figure>
    );
  const args = (call.arguments ?? {}) as { command?: string | string[]; directory?: string };
  const command = preview?.kind === 'command' && !isEdited ? preview.command : args.command;
  if (command !== undefined) {
    const directory = (preview?.kind === 'command' && !isEdited ? preview.directory : args.directory) ?? '.';
    return (
      <figure class="code terminal">
        <figcaption>
          <span>in {directory}</span>
        </figcaption>
        <pre tabIndex={0}>
          <code dir="ltr">
            <span class="prompt-sign">$ </span>
            {Array.isArray(command) ? command.map((word) => (/[^\w./=-]/.test(word) ? JSON.stringify(word) : word)).join(' ') : command}
          </code>
        </pre>
      </figure>
    );
  }
  return (
    <>
      {preview?.kind === 'arguments' && preview.error && !isEdited && <Notice>This call will fail: {preview.error}</Notice>}
      <Arguments value={call.arguments} />
    </>
  );
}

// ---- messages that wait for their turn ----

function Queue({ chat, items }: { chat: Conversation; items: Queued[] }): VNode | null {
  if (items.length === 0) return null;
  return (
    <section class="queue" aria-label="Messages that wait for their turn">
      <h3>
        Next {items.length > 1 ? `(${items.length})` : ''} <span class="faint">sent when the answer is complete</span>
      </h3>
      {items.map((item) => (
        <QueuedItem key={item.id} chat={chat} item={item} />
      ))}
    </section>
  );
}

function QueuedItem({ chat, item }: { chat: Conversation; item: Queued }): VNode {
  const { text } = item;
  const [value, setValue] = useState<string | null>(null);
  return (
    <div class="queued">
      {value === null ? (
        <p dir="auto">
          {text}
          {item.images > 0 && <span class="faint"> {item.images === 1 ? '1 image' : `${item.images} images`}</span>}
          {item.error && <span class="error-detail">{item.error}</span>}
        </p>
      ) : (
        <textarea aria-label="Waiting message" value={value} rows={2} onInput={(event) => setValue(event.currentTarget.value)} />
      )}
      <div class="acts">
        {value === null ? (
          <>
            <Button small kind="quiet" icon="edit" label="Edit" onClick={() => setValue(text)} />
            <Button small kind="quiet" icon="send" label="Send now: stops the running answer" onClick={() => void chat.queueSend(item.id)} />
            <Button small kind="quiet" icon="close" label="Drop" onClick={() => void chat.queueDrop(item.id)} />
          </>
        ) : (
          <Button small kind="primary" onClick={() => void chat.queueChange(item.id, value).then((ok) => ok && setValue(null))}>
            Save
          </Button>
        )}
      </div>
    </div>
  );
}

