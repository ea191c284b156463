// One message of a conversation: stored, being sent, or being streamed. They look the same, so that
// nothing moves when an answer becomes durable.

import type { ComponentChildren, VNode } from 'preact';
import { useState } from 'preact/hooks';
import { CodeBlock, Markdown } from '../lib/markdown';
import { painted } from '../lib/lazy';
import { type Answer, textOf, thinkingOf } from '../lib/reduce';
import { notify, settings } from '../lib/store';
import type { Message as Stored, ToolCall, ToolResult } from '../lib/types';
import { count, duration, fullTime, money, shortTime, tokens } from '../lib/words';
import { Button, CopyButton, focusAtFirst, Icon, Menu } from '../views/parts';
import type { Alternatives } from './branches';
import type { Conversation, Part } from './conversation';
import { disclosure } from './disclosure';

interface Metadata {
  model?: string;
  provider?: string;
  tokens?: { prompt_tokens?: number; completion_tokens?: number; total_tokens?: number };
  cost_usd?: number;
  interrupted?: boolean;
  stop_reason?: string;
  ms?: number;
  approval_status?: string;
  decided_by?: string;
  recall?: { text?: string; hits?: string[] };
}

const metaOf = (message: Stored): Metadata => (message.metadata ?? {}) as Metadata;

const isLost = (message: Stored): boolean => message.status === 'unavailable' || (message.text === null && !message.tool_calls.length && !message.tool_result);

// Whether the row of an answer that was streamed can go on with it.
export const isAnswer = (message: Stored): boolean => message.role === 'assistant' && !isLost(message);

export function Message({ chat, message, alternatives, isLast }: { chat: Conversation; message: Stored; alternatives?: Alternatives | undefined; isLast: boolean }): VNode {
  if (isLost(message))
    return (
      <article class="message lost" aria-label="Message that is not available">
        <p class="faint">
          <Icon name="warn" size={16} /> This message was saved, but its content cannot be read. The messages around it are complete.
        </p>
      </article>
    );
  if (message.role === 'tool') return <ToolOutput chat={chat} message={message} />;
  if (message.role === 'user') return <UserMessage chat={chat} message={message} alternatives={alternatives} />;
  if (message.role === 'system')
    return (
      <article class="message system" aria-label="System message">
        <details {...disclosure(`${message.id}:system`)}>
          <summary>System message</summary>
          <Markdown text={message.text ?? ''} />
        </details>
      </article>
    );
  return <AssistantMessage chat={chat} message={message} alternatives={alternatives} isLast={isLast} wasStreamed={false} />;
}

// ---- the user's own messages ----

function UserMessage({ chat, message, alternatives }: { chat: Conversation; message: Stored; alternatives: Alternatives | undefined }): VNode {
  const [editing, setEditing] = useState(false);
  const text = message.text ?? '';
  const recall = metaOf(message).recall;
  return (
    <article class="message user" aria-label={painted.value ? `You, ${shortTime(message.created_at)}` : 'You'}>
      {editing ? (
        <EditBox
          text={text}
          onCancel={() => setEditing(false)}
          onSave={async (changed) => {
            if (await chat.edit(message.id, changed)) setEditing(false);
          }}
        />
      ) : (
        <div class="bubble" dir="auto">
          <Images urls={message.images.map((image) => image.url)} />
          {text && <p class="said">{text}</p>}
        </div>
      )}
      {recall?.text && (
        <details class="recall" {...disclosure(`${message.id}:recall`)}>
          <summary>{recall.hits?.length ? `${count(recall.hits.length)} earlier ${recall.hits.length === 1 ? 'message' : 'messages'} recalled for this question` : 'Recalled for this question'}</summary>
          <Markdown text={recall.text} />
        </details>
      )}
      <footer class="message-bar">
        {painted.value && !editing && (
          <>
            {alternatives && <Arrows chat={chat} alternatives={alternatives} />}
            <span class="acts">
              <CopyButton text={() => text} label="Copy" />
              <Button small kind="quiet" icon="edit" label="Edit and ask again" disabled={chat.busy.value} onClick={() => setEditing(true)} />
              <PinButton chat={chat} message={message} />
              <BranchMenu chat={chat} message={message} />
            </span>
            <time dateTime={message.created_at} title={fullTime(message.created_at)}>
              {shortTime(message.created_at)}
            </time>
          </>
        )}
      </footer>
    </article>
  );
}

function EditBox({ text, onSave, onCancel }: { text: string; onSave: (text: string) => Promise<void>; onCancel: () => void }): VNode {
  const [value, setValue] = useState(text);
  return (
    <form
      class="edit-box"
      onSubmit={(event) => {
        event.preventDefault();
        if (value.trim()) void onSave(value);
      }}
    >
      <textarea
        aria-label="Your message"
        value={value}
        rows={Math.min(12, value.split('\n').length + 1)}
        ref={focusAtFirst}
        onInput={(event) => setValue(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Escape') onCancel();
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey || (settings.value.sendWith === 'enter' && !event.shiftKey))) {
            event.preventDefault();
            event.currentTarget.form?.requestSubmit();
          }
        }}
      />
      <div class="row-end">
        <span class="faint">The old message stays on its own branch.</span>
        <Button small onClick={onCancel}>
          Cancel
        </Button>
        <Button small kind="primary" type="submit">
          Ask again
        </Button>
      </div>
    </form>
  );
}

export function Sending({ parts }: { parts: Part[] }): VNode {
  return (
    <article class="message user sending" aria-label="You, sending">
      <div class="bubble" dir="auto">
        <Images urls={parts.filter((part) => part.type === 'image').map((part) => part.url ?? '')} />
        {parts.map((part, n) => part.type === 'text' && <p key={n} class="said">{part.text}</p>)}
      </div>
      <footer class="message-bar">
        <time>Sending…</time>
      </footer>
    </article>
  );
}

function Images({ urls }: { urls: string[] }): VNode | null {
  const own = urls.filter((url) => /^(data:image\/|blob:|\/)/.test(url));
  if (urls.length === 0) return null;
  return (
    <div class="images">
      {own.map((url, n) => (
        <a key={n} href={url} target="_blank" rel="noopener">
          <img src={url} alt={`Image ${n + 1} of the message`} loading="lazy" />
        </a>
      ))}
      {own.length < urls.length && <span class="faint">{urls.length - own.length} more from other places, not loaded</span>}
    </div>
  );
}

// ---- answers ----

// Stored or being written: one component, so that the nodes stay when an answer becomes durable.
export function AssistantMessage({ chat, message, answer, alternatives, isLast, wasStreamed = true }: { chat: Conversation; message?: Stored; answer?: Answer; alternatives?: Alternatives | undefined; isLast: boolean; wasStreamed?: boolean }): VNode {
  const meta = message ? metaOf(message) : {};
  const text = message ? (message.text ?? '') : answer ? textOf(answer) : '';
  const thinking = message ? (message.thinking ?? '') : answer ? thinkingOf(answer) : '';
  const isWriting = answer !== undefined && !answer.done;
  const running = chat.tools.value;
  // A call that waits for a decision has a card below the message.
  const isWaiting = (id: string) => message !== undefined && chat.state.value === 'AwaitingToolApproval' && chat.pending.value.some((one) => one.id === id);
  const isRunning = (id: string) => running.some((tool) => tool.id === id && !tool.ended);
  const calls: ToolCall[] = message
    ? message.tool_calls
    : (answer?.blocks ?? []).filter((block) => block.kind === 'call').map((block) => ({ id: block.id ?? '', tool_name: block.name ?? '', arguments: parse(block.text), approval_status: 'Pending', display_preference: 'Default' }));
  return (
    <article class={`message assistant${wasStreamed ? ' streamed' : ''}${calls.length > 0 && !isLast ? ' calling' : ''}`} aria-label={!message ? 'Answer, being written' : painted.value ? `Answer, ${shortTime(message.created_at)}` : 'Answer'} aria-busy={isWriting}>
      {thinking && <Thinking id={answer?.key ?? message?.id ?? ''} text={thinking} live={isWriting && !text} />}
      {text && <Markdown text={text} streaming={isWriting} />}
      {isWriting && !text && !thinking && calls.length === 0 && <Writing label="The answer begins" />}
      {calls.map((call) => !isWaiting(call.id) && <CallLine key={call.id} call={call} writing={isWriting} running={isRunning(call.id)} />)}
      {meta.interrupted && (
        <p class="mark-line">
          <Icon name="warn" size={16} /> The answer was interrupted here. What arrived is saved.
        </p>
      )}
      {meta.stop_reason === 'max_tokens' && (
        <p class="mark-line">
          <Icon name="warn" size={16} /> The model reached its limit of output tokens.
        </p>
      )}
      <footer class={`message-bar${isLast ? ' shown' : ''}`}>
        {message && painted.value && (
          <>
            {alternatives && <Arrows chat={chat} alternatives={alternatives} />}
            <span class="acts">
              {text && <CopyButton text={() => text} label="Copy" />}
              <Button small kind="quiet" icon="retry" label="Answer again on a new branch" disabled={chat.busy.value} onClick={() => void chat.regenerate(message.id)} />
              <PinButton chat={chat} message={message} />
              <BranchMenu chat={chat} message={message} />
            </span>
            <Usage meta={meta} time={message.created_at} />
          </>
        )}
      </footer>
    </article>
  );
}

function Usage({ meta, time }: { meta: Metadata; time: string }): VNode {
  const used = meta.tokens;
  const parts = [meta.model, used?.total_tokens ? `${tokens(used.total_tokens)} tokens` : '', meta.cost_usd ? money(meta.cost_usd) : '', shortTime(time)].filter(Boolean);
  const title = [fullTime(time), used ? `${count(used.prompt_tokens ?? 0)} in, ${count(used.completion_tokens ?? 0)} out` : ''].filter(Boolean).join(' · ');
  return <time dateTime={time} title={title}>{parts.join(' · ')}</time>;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export function Writing({ label }: { label: string }): VNode {
  return (
    <p class="writing" role="status">
      <span class="writing-knots" aria-hidden="true">
        <i />
        <i />
        <i />
      </span>
      {label}
    </p>
  );
}

function Thinking({ id, text, live }: { id: string; text: string; live: boolean }): VNode {
  return (
    <details class="thinking" {...disclosure(`${id}:thinking`)}>
      <summary>{live ? 'Thinking…' : 'Thought before answering'}</summary>
      <Markdown text={text} streaming={live} />
    </details>
  );
}

// ---- arrows, pins, branches ----

export function Arrows({ chat, alternatives }: { chat: Conversation; alternatives: Alternatives }): VNode {
  const { at, names } = alternatives;
  const move = (by: number) => {
    const name = names[(at + by + names.length) % names.length];
    if (name) void chat.switchBranch(name);
  };
  return (
    <span class="arrows" role="group" aria-label="Alternatives">
      <Button small kind="quiet" icon="left" label="Previous alternative" disabled={chat.busy.value} onClick={() => move(-1)} />
      <span>
        {at + 1}/{names.length}
      </span>
      <Button small kind="quiet" icon="right" label="Next alternative" disabled={chat.busy.value} onClick={() => move(1)} />
    </span>
  );
}

function PinButton({ chat, message }: { chat: Conversation; message: Stored }): VNode | null {
  if (!chat.canCompact.value) return null;
  const isPinned = message.pinned === true || chat.pins.value.has(message.id);
  return (
    <Button small kind="quiet" icon="pin" class={isPinned ? 'on' : ''} aria-pressed={isPinned} label={isPinned ? 'Unpin: may be compacted' : 'Pin: never compacted'} onClick={() => void chat.action(isPinned ? 'unpin' : 'pin', { message_id: message.id })} />
  );
}

function BranchMenu({ chat, message }: { chat: Conversation; message: Stored }): VNode {
  const fork = async () => {
    const taken = new Set(chat.context.value?.branches.map((branch) => branch.name));
    let n = 2;
    while (taken.has(`branch ${n}`)) n++;
    if (await chat.newBranch(`branch ${n}`, message.id)) notify(`Now on “branch ${n}”. The other messages stay where they were.`);
  };
  const compact = chat.canCompact.value ? { label: 'Compact up to here', icon: 'wrap', run: () => void chat.action('compact', { up_to: message.id }) } : null;
  return <Menu small label="More" items={[{ label: 'Branch off here', icon: 'branch', run: () => void fork() }, { label: 'Copy link to message', icon: 'copy', run: () => void navigator.clipboard.writeText(`${location.origin}/#/c/${chat.id}/m/${message.id}`) }, compact]} />;
}

// ---- tools ----

const toolIcons: Record<string, string> = { edit: 'edit', file: 'file', terminal: 'terminal', search: 'search', trash: 'trash', list: 'list', folder: 'list' };

export function summaryOf(call: ToolCall): string {
  const args = call.arguments as Record<string, unknown> | null;
  const named = (call.ui_hints as { summary?: string } | undefined)?.summary;
  if (!args || typeof args !== 'object') return '';
  const value = (named && args[named]) ?? args.path ?? args.command ?? args.pattern ?? args.query ?? Object.values(args)[0];
  const text = Array.isArray(value) ? value.join(' ') : typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value);
  return text.length > 90 ? `${text.slice(0, 90)}…` : text;
}

export const toolIcon = (call: ToolCall): string => toolIcons[String((call.ui_hints as { icon?: string } | undefined)?.icon ?? '')] ?? 'tool';

function CallLine({ call, writing, running }: { call: ToolCall; writing: boolean; running: boolean }): VNode | null {
  if (call.display_preference === 'Hidden') return null;
  const state = running ? 'running' : writing ? 'being written' : call.approval_status === 'Denied' ? 'denied' : '';
  return (
    <details class="call" {...disclosure(`${call.id}:call`)}>
      <summary>
        <Icon name={toolIcon(call)} size={16} />
        <span class="call-name">{call.tool_name}</span>
        <code class="call-what">{summaryOf(call)}</code>
        {state && <span class="tag">{state}</span>}
      </summary>
      <Arguments value={call.arguments} />
    </details>
  );
}

export function Arguments({ value }: { value: unknown }): VNode {
  if (value === null || typeof value !== 'object') return <CodeBlock code={String(value ?? '')} info="" />;
  return (
    <dl class="arguments">
      {Object.entries(value).map(([name, one]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{typeof one === 'string' ? <pre tabIndex={0}>{one}</pre> : <code>{JSON.stringify(one)}</code>}</dd>
        </div>
      ))}
    </dl>
  );
}

function resultText(result: unknown): { text: string; info: string } {
  if (typeof result === 'string') return { text: result, info: '' };
  const command = result as { exit_code?: number | null; stdout?: string; stderr?: string } | null;
  if (command && typeof command === 'object' && 'stdout' in command) {
    const parts = [command.stdout, command.stderr].filter(Boolean).join('\n');
    return { text: parts || '(no output)', info: command.exit_code === 0 ? '' : `exit ${command.exit_code}` };
  }
  return { text: JSON.stringify(result, null, 2), info: 'json' };
}

function ToolOutput({ chat, message }: { chat: Conversation; message: Stored }): VNode {
  void chat.version.value; // the call may be in a page that is loaded later
  const result = message.tool_result as ToolResult;
  const meta = metaOf(message);
  const call = callOf(chat, result?.request_id ?? '');
  const { text, info } = resultText(result?.result ?? message.text ?? '');
  const display = result?.display_preference ?? 'Default';
  const name = call?.tool_name ?? 'tool';
  const lines = text.split('\n').length;
  if (display === 'Hidden' && !result?.is_error) return <article class="message tool hidden-result" aria-label={`Result of ${name}, hidden`} />;
  const head: ComponentChildren = (
    <>
      <Icon name={result?.is_error ? 'warn' : 'check'} size={16} />
      <span class="call-name">{result?.is_error ? (meta.approval_status === 'Denied' ? 'denied' : 'failed') : 'result'}</span>
      <span class="faint">{[info, lines > 1 ? `${count(lines)} lines` : '', meta.ms ? duration(meta.ms) : ''].filter(Boolean).join(' · ')}</span>
    </>
  );
  const hint = String((call?.ui_hints as { result?: string } | undefined)?.result ?? '');
  const body = hint === 'code' || info === 'json' || hint === 'terminal' || lines > 3 ? <CodeBlock code={text} info={languageOf(call) || (info === 'json' ? 'json' : '')} /> : <p class="tool-text" dir="auto">{text}</p>;
  const opensAtOnce = result?.is_error || (display === 'Default' && lines <= 12);
  return (
    <article class={`message tool${result?.is_error ? ' is-error' : ''}`} aria-label={`Result of ${name}`}>
      <details class="result" {...disclosure(`${message.id}:result`, opensAtOnce)}>
        <summary>{head}</summary>
        {body}
      </details>
    </article>
  );
}

function languageOf(call: ToolCall | undefined): string {
  const path = String((call?.arguments as { path?: unknown } | undefined)?.path ?? '');
  const end = /\.([a-z0-9+]+)$/i.exec(path)?.[1]?.toLowerCase() ?? '';
  return { h: 'c', hpp: 'cpp', txt: '', md: 'markdown' }[end] ?? end;
}

// The call that a result answers: in one of the messages just before it.
function callOf(chat: Conversation, id: string): ToolCall | undefined {
  for (const [, message] of chat.loaded().reverse()) {
    const call = message.tool_calls.find((one) => one.id === id);
    if (call) return call as ToolCall;
  }
  return undefined;
}
