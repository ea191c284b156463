// A new conversation: one box to write in, with a choice of model and prompt.

import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Composer } from '../chat/composer';
import type { Part } from '../chat/conversation';
import { act, post, sentence } from '../lib/api';
import { chatHash, go, listChanged, models, prompts, sidebarOpen } from '../lib/store';
import type { Context } from '../lib/types';
import { ModelChoice } from './model-choice';
import { Button, Notice, Sign } from './parts';

const titleOf = (parts: Part[]): string => {
  const text = (parts.find((part) => part.type === 'text')?.text ?? 'Image').replace(/\s+/g, ' ').trim();
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
};

const tries = ['What is a quipu?', 'List the files', 'Write "hello" to notes.txt', 'Run `date`'];

export function Home(): VNode {
  const [problem, setProblem] = useState('');
  const [model, setModel] = useState('');
  const [prompt, setPrompt] = useState('');
  const start = async (parts: Part[]): Promise<boolean> => {
    try {
      const context = await post<Context>('/contexts', { title: titleOf(parts), ...(model ? { model_id: model } : {}), ...(prompt ? { system_prompt_id: prompt } : {}) });
      const content = parts.length === 1 && parts[0]?.type === 'text' ? parts[0].text : parts;
      await act(context.id, 'send_message', { content });
      listChanged();
      go(chatHash(context.id));
      return true;
    } catch (error) {
      setProblem(sentence(error));
      return false;
    }
  };
  const isDemo = models.value?.default === 'demo/demo';
  return (
    <main class="home">
      <header class="title-bar only-phone">
        <Button icon="menu" kind="quiet" label="Conversations" onClick={() => (sidebarOpen.value = true)} />
        <span class="brand-name">
          <Sign /> quipu
        </span>
      </header>
      <div class="home-center">
        <HangingCords />
        <h1>Start a conversation</h1>
        <p class="home-lead">Every message is saved, on every branch, and search finds it again.</p>
        {problem && <Notice kind="error">{problem}</Notice>}
        <Composer id="" busy={false} canQueue={false} onSend={start} onStop={() => undefined} placeholder="Write a message" autoFocus />
        <div class="home-choices">
          <ModelChoice value={model} onChange={setModel} />
          {(prompts.value?.length ?? 0) > 0 && (
            <select aria-label="System prompt" value={prompt} onChange={(event) => setPrompt(event.currentTarget.value)}>
              <option value="">no system prompt</option>
              {prompts.value?.map((one) => (
                <option key={one.id} value={one.id}>
                  {one.name || one.id}
                </option>
              ))}
            </select>
          )}
        </div>
        {isDemo && (
          <div class="home-tries">
            <p class="faint">The demo model answers until a provider is configured. Try:</p>
            {tries.map((text) => (
              <button key={text} type="button" class="chip" onClick={() => void start([{ type: 'text', text }])}>
                {text}
              </button>
            ))}
          </div>
        )}
      </div>
    </main>
  );
}

// The sign of the product, large.
function HangingCords(): VNode {
  const cords: [number, number, number[]][] = [
    [30, 74, [26, 44]],
    [62, 96, [34, 58, 76]],
    [94, 60, [30]],
    [126, 104, [24, 50, 84]],
    [158, 80, [40, 62]],
    [190, 52, [28]],
  ];
  return (
    <svg class="hanging" viewBox="0 0 220 112" width="220" height="112" aria-hidden="true">
      <path class="hanging-main" d="M4 9c50-5 160-5 212 0" />
      {cords.map(([x, end, knots]) => (
        <g key={x}>
          <path d={`M${x} 6c2 20-2 40 0 ${end - 6}`} />
          {knots.map((y) => (
            <rect key={y} x={x - 5} y={y} width="10" height="7" rx="3.500" />
          ))}
        </g>
      ))}
    </svg>
  );
}
