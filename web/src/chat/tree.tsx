// The whole conversation as one picture, the cord drawn large: every branch is a cord that leaves its
// parent where they part. And two branches side by side from the place where they part.

import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ask, inPath, sentence, tryAsk } from '../lib/api';
import { Markdown } from '../lib/markdown';
import type { Branch, Message, Outline } from '../lib/types';
import { count, plural, roleWord, shortTime } from '../lib/words';
import { Button, focusAtFirst, Loading, Menu, Notice } from '../views/parts';
import type { Conversation } from './conversation';

const mostBranches = 40;

interface Hung {
  branch: Branch;
  parent: number; // index, or -1 for the first cord
  forkAt: number; // shared with the parent
}

// Each branch hangs from the older one that it shares most with.
async function hang(chat: Conversation): Promise<Hung[]> {
  const branches = [...(chat.context.value?.branches ?? [])].sort((a, b) => a.created_at.localeCompare(b.created_at)).slice(0, mostBranches);
  const outlines = await Promise.all(branches.map((branch) => tryAsk<Outline>(`/contexts/${chat.id}/outline?branch=${inPath(branch.name)}&max=1`)));
  return branches.map((branch, at) => {
    let parent = -1;
    let forkAt = 0;
    for (let n = 0; n < at; n++) {
      const shared = outlines[at]?.branches.find((one) => one.name === branches[n]?.name)?.fork_at ?? 0;
      if (parent < 0 || shared > forkAt) {
        parent = n;
        forkAt = shared;
      }
    }
    return { branch, parent, forkAt };
  });
}

const left = 60;
const gap = 110;
const head = 14;

export function Tree({ chat, onClose }: { chat: Conversation; onClose: () => void }): VNode {
  const [cords, setCords] = useState<Hung[] | null>(null);
  const [problem, setProblem] = useState('');
  const [naming, setNaming] = useState<{ name: string; to: string } | null>(null);
  const branches = chat.context.value?.branches;
  useEffect(() => {
    hang(chat).then(setCords, (error: unknown) => setProblem(sentence(error)));
  }, [chat, branches]);
  if (problem) return <Notice kind="error">{problem}</Notice>;
  if (!cords) return <Loading label="Drawing the branches" />;
  const longest = Math.max(1, ...cords.map((cord) => cord.branch.messages));
  const step = Math.max(4, Math.min(34, 440 / longest));
  const y = (at: number) => head + 14 + at * step;
  const x = (n: number) => left + n * gap;
  const width = x(cords.length - 1) + gap;
  const height = Math.max(y(longest), ...cords.map((cord) => y(cord.forkAt) + 70)) + 34;
  const active = chat.branch.value;
  const choose = async (name: string) => {
    if (name !== active) await chat.switchBranch(name);
    onClose();
  };
  return (
    <div class="tree">
      <div class="tree-picture" tabIndex={0} role="group" aria-label={`${plural(cords.length, 'branch', 'branches')} of this conversation`}>
        <svg width={width} height={height} aria-hidden="true">
          <path class="tree-main" d={`M6 ${head}H${width - 20}`} />
          {cords.map((cord, n) => {
            const from = cord.parent < 0 ? head : y(cord.forkAt);
            const own = cord.branch.messages - (cord.parent < 0 ? 0 : cord.forkAt);
            const end = y(cord.branch.messages);
            const start = cord.parent < 0 ? `M${x(n)} ${head}` : `M${x(cord.parent)} ${from}C${x(cord.parent)} ${from + 26} ${x(n)} ${from - 4} ${x(n)} ${from + 30}`;
            const every = Math.max(1, Math.ceil(own / 40));
            const knots: VNode[] = [];
            for (let k = 1; k <= own; k += every) {
              const at = y((cord.parent < 0 ? 0 : cord.forkAt) + k);
              knots.push(<rect key={k} x={x(n) - 7} y={Math.max(at, from + (cord.parent < 0 ? 0 : 30)) - 4.5} width="14" height="9" rx="4.500" />);
            }
            return (
              <g key={cord.branch.name} class={`tree-cord${cord.branch.name === active ? ' on' : ''}`} onClick={() => void choose(cord.branch.name)}>
                <path class="tree-touch" d={`${start}V${Math.max(end, from + 44)}`} />
                <path class="tree-line" d={`${start}V${Math.max(end, from + 44)}`} />
                {knots}
                <text x={x(n)} y={Math.max(end, from + 44) + 20} text-anchor="middle">
                  {cord.branch.name.length > 16 ? `${cord.branch.name.slice(0, 15)}…` : cord.branch.name}
                </text>
              </g>
            );
          })}
        </svg>
      </div>
      <ul class="branch-list">
        {cords.map((cord) => {
          const { branch } = cord;
          const isActive = branch.name === active;
          return (
            <li key={branch.name} class={isActive ? 'on' : undefined}>
              {naming?.name === branch.name ? (
                <form
                  onSubmit={(event) => {
                    event.preventDefault();
                    void chat.changeBranch(branch.name, { name: naming.to }).then((ok) => ok && setNaming(null));
                  }}
                >
                  <input aria-label="Label of the branch" value={naming.to} ref={focusAtFirst} onInput={(event) => setNaming({ ...naming, to: event.currentTarget.value })} />
                  <Button small kind="primary" type="submit">
                    Save
                  </Button>
                </form>
              ) : (
                <>
                  <button type="button" class="branch-name" onClick={() => void choose(branch.name)} disabled={chat.busy.value}>
                    <strong>{branch.name}</strong>
                    <span class="faint">
                      {plural(branch.messages, 'message')}
                      {cord.parent >= 0 ? `, leaves ${cords[cord.parent]?.branch.name} after ${count(cord.forkAt)}` : ''} · {shortTime(branch.created_at)}
                      {isActive ? ' · shown' : ''}
                    </span>
                  </button>
                  <Menu
                    small
                    label={`Actions for ${branch.name}`}
                    items={[
                      { label: 'Label…', icon: 'edit', run: () => setNaming({ name: branch.name, to: branch.name }) },
                      { label: 'Delete branch', icon: 'trash', danger: true, disabled: isActive, run: () => void chat.deleteBranch(branch.name) },
                    ]}
                  />
                </>
              )}
            </li>
          );
        })}
      </ul>
      {chat.problem.value && <Notice kind="error">{chat.problem.value}</Notice>}
    </div>
  );
}

// ---- two branches side by side ----

export function Compare({ chat, onClose }: { chat: Conversation; onClose: () => void }): VNode {
  const names = (chat.context.value?.branches ?? []).map((branch) => branch.name);
  const [one, setOne] = useState(chat.branch.value);
  const [other, setOther] = useState(names.find((name) => name !== chat.branch.value) ?? chat.branch.value);
  const [shared, setShared] = useState<number | null>(null);
  const [sides, setSides] = useState<[Message[], Message[]] | null>(null);
  const [problem, setProblem] = useState('');
  useEffect(() => {
    setSides(null);
    void (async () => {
      try {
        const outline = await ask<Outline>(`/contexts/${chat.id}/outline?branch=${inPath(one)}&max=1`);
        const forkAt = outline.branches.find((branch) => branch.name === other)?.fork_at ?? 0;
        const read = async (name: string) => (await ask<{ messages: Message[] }>(`/contexts/${chat.id}/messages?branch=${inPath(name)}&offset=${forkAt}&limit=50`)).messages;
        setShared(forkAt);
        setSides(one === other ? [[], []] : await Promise.all([read(one), read(other)]));
        setProblem('');
      } catch (error) {
        setProblem(sentence(error));
      }
    })();
  }, [one, other]);
  const choice = (value: string, change: (name: string) => void, label: string) => (
    <select aria-label={label} value={value} onChange={(event) => change(event.currentTarget.value)}>
      {names.map((name) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  );
  const side = (messages: Message[], name: string) => (
    <div class="compare-side">
      {messages.length === 0 && <p class="faint">Nothing of its own.</p>}
      {messages.map((message) => (
        <section key={message.id} class={`compare-${message.role}`}>
          <h3>{roleWord(message.role)}</h3>
          {message.tool_calls.map((call) => (
            <code key={call.id}>{call.tool_name}</code>
          ))}
          <Markdown text={message.text ?? (message.tool_result ? String(message.tool_result.result) : '')} />
        </section>
      ))}
      {name !== chat.branch.value && (
        <Button onClick={() => void chat.switchBranch(name).then((ok) => ok && onClose())} disabled={chat.busy.value}>
          Continue on “{name}”
        </Button>
      )}
    </div>
  );
  return (
    <div class="compare">
      {problem && <Notice kind="error">{problem}</Notice>}
      <p class="faint">{shared === null ? '' : shared === 1 ? 'The first message is the same.' : `The first ${plural(shared, 'message')} are the same.`}</p>
      <div class="compare-sides">
        <div>
          {choice(one, setOne, 'Left branch')}
          {sides && side(sides[0], one)}
        </div>
        <div>
          {choice(other, setOther, 'Right branch')}
          {sides && side(sides[1], other)}
        </div>
      </div>
    </div>
  );
}
