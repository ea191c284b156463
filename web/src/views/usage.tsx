// Tokens and money: per day and per conversation. The figures are those that providers reported with
// their answers.

import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ask, sentence, tryAsk } from '../lib/api';
import { chatHash, models, rows } from '../lib/store';
import type { Message } from '../lib/types';
import { count, money, plural, tokens } from '../lib/words';
import { Bars, Page } from './page';
import { Empty, Loading, Notice } from './parts';

interface Day {
  day: string;
  input: number;
  output: number;
  cost_usd: number;
  turns: number;
}

interface Sum extends Omit<Day, 'day'> {
  id: string;
  title: string;
}

const recent = 40; // conversations that are read when the server has no sums
const perConversation = 200; // newest messages of each

interface Figures {
  days: Day[];
  conversations: Sum[];
  isPartial: boolean;
}

async function gather(onProgress: (done: number, total: number) => void): Promise<Figures> {
  const daily = await tryAsk<{ days: Day[] }>('/usage/daily?days=30');
  const days = new Map<string, Day>();
  const conversations: Sum[] = [];
  const some = rows.value.slice(0, recent);
  let isPartial = rows.value.length > recent;
  for (const [n, row] of some.entries()) {
    onProgress(n, some.length);
    const page = await ask<{ messages: Message[]; total: number }>(`/contexts/${row.id}/messages?order=newest&limit=${perConversation}`).catch(() => ({ messages: [], total: 0 }));
    if (page.total > perConversation) isPartial = true;
    const sum: Sum = { id: row.id, title: row.title || 'Untitled', input: 0, output: 0, cost_usd: 0, turns: 0 };
    for (const message of page.messages) {
      const meta = message.metadata as { tokens?: { prompt_tokens?: number; completion_tokens?: number }; cost_usd?: number } | null;
      if (message.role !== 'assistant' || !meta?.tokens) continue;
      const one = { input: meta.tokens.prompt_tokens ?? 0, output: meta.tokens.completion_tokens ?? 0, cost_usd: meta.cost_usd ?? 0, turns: 1 };
      const day = message.created_at.slice(0, 10);
      const old = days.get(day) ?? { day, input: 0, output: 0, cost_usd: 0, turns: 0 };
      days.set(day, { day, input: old.input + one.input, output: old.output + one.output, cost_usd: old.cost_usd + one.cost_usd, turns: old.turns + 1 });
      sum.input += one.input;
      sum.output += one.output;
      sum.cost_usd += one.cost_usd;
      sum.turns++;
    }
    if (sum.turns > 0) conversations.push(sum);
  }
  conversations.sort((a, b) => b.cost_usd - a.cost_usd || b.input + b.output - a.input - a.output);
  return { days: daily?.days ?? [...days.values()].sort((a, b) => a.day.localeCompare(b.day)), conversations, isPartial };
}

export function Usage(): VNode {
  const [figures, setFigures] = useState<Figures | null>(null);
  const [progress, setProgress] = useState('');
  const [problem, setProblem] = useState('');
  const ready = rows.value.length > 0;
  useEffect(() => {
    gather((done, total) => setProgress(`${done} of ${total} conversations`)).then(setFigures, (error: unknown) => setProblem(sentence(error)));
  }, [ready]);
  const all = figures?.days.reduce((sum, day) => ({ input: sum.input + day.input, output: sum.output + day.output, cost: sum.cost + day.cost_usd, turns: sum.turns + day.turns }), { input: 0, output: 0, cost: 0, turns: 0 });
  return (
    <Page title="Usage" lead="Tokens and cost as the providers reported them.">
      {problem && <Notice kind="error">{problem}</Notice>}
      {!figures && !problem && <Loading label={`Adding up ${progress}`} />}
      {figures && all && all.turns === 0 && (
        <Empty title="Nothing used yet">
          <p>After the first answer, tokens and cost appear here, per day and per conversation.</p>
        </Empty>
      )}
      {figures && all && all.turns > 0 && (
        <>
          <dl class="tiles">
            <div>
              <dt>Answers</dt>
              <dd>{count(all.turns)}</dd>
            </div>
            <div>
              <dt>Tokens in</dt>
              <dd>{tokens(all.input)}</dd>
            </div>
            <div>
              <dt>Tokens out</dt>
              <dd>{tokens(all.output)}</dd>
            </div>
            <div>
              <dt>Cost</dt>
              <dd>{money(all.cost)}</dd>
            </div>
          </dl>
          <section>
            <h2>Per day</h2>
            <DayChart days={figures.days} />
          </section>
          <section>
            <h2>Per conversation</h2>
            <Bars label="Tokens per conversation" bars={figures.conversations.slice(0, 20).map((one) => ({ label: one.title, value: one.input + one.output, shown: `${tokens(one.input + one.output)} · ${money(one.cost_usd)} · ${plural(one.turns, 'answer')}`, href: chatHash(one.id) }))} />
          </section>
          {figures.isPartial && <p class="faint">Counted over the newest {recent} conversations and the newest {perConversation} messages of each.</p>}
        </>
      )}
      <section>
        <h2>Models</h2>
        <div class="md-table" role="region" aria-label="Models" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th>Model</th>
                <th>Window</th>
                <th>In, per million</th>
                <th>Out, per million</th>
              </tr>
            </thead>
            <tbody>
              {models.value?.models
                .filter((model) => model.available)
                .map((model) => (
                  <tr key={`${model.provider}/${model.id}`}>
                    <td>
                      {model.provider}/{model.id}
                    </td>
                    <td>{tokens(model.window)}</td>
                    <td>{model.input_price === undefined ? 'unknown' : money(model.input_price)}</td>
                    <td>{model.output_price === undefined ? 'unknown' : money(model.output_price)}</td>
                  </tr>
                ))}
            </tbody>
          </table>
        </div>
      </section>
    </Page>
  );
}

// The days up to today without a gap, so that distances are true.
function everyDay(days: Day[], n: number): Day[] {
  const known = new Map(days.map((day) => [day.day, day]));
  return Array.from({ length: n }, (_, at) => {
    const day = new Date(Date.now() - (n - 1 - at) * 86_400_000).toISOString().slice(0, 10);
    return known.get(day) ?? { day, input: 0, output: 0, cost_usd: 0, turns: 0 };
  });
}

const dayWord = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' });

function DayChart({ days }: { days: Day[] }): VNode {
  const shown = everyDay(days, 30);
  const most = roundUp(Math.max(1, ...shown.map((day) => day.input + day.output)));
  const width = 640;
  const height = 150;
  const left = 34;
  const step = (width - left) / shown.length;
  const y = (value: number) => height - (value / most) * (height - 14);
  return (
    <figure class="chart">
      <svg viewBox={`0 0 ${width} ${height + 22}`} role="img" aria-label={`Tokens per day: ${shown.filter((day) => day.turns > 0).map((day) => `${day.day} ${day.input + day.output}`).join(', ')}`}>
        {[0, most / 2, most].map((value) => (
          <g key={value}>
            <path class={value === 0 ? 'chart-base' : 'chart-line'} d={`M${left} ${y(value)}H${width}`} />
            <text x={left - 6} y={y(value) + 3.5} text-anchor="end">
              {tokens(value)}
            </text>
          </g>
        ))}
        {shown.map((day, n) => {
          const x = left + n * step + step * 0.15;
          const mid = y(day.input);
          return (
            <g key={day.day} class="chart-day">
              <title>{`${dayWord.format(new Date(day.day))}: ${count(day.input)} in, ${count(day.output)} out, ${money(day.cost_usd)}, ${plural(day.turns, 'answer')}`}</title>
              <rect class="chart-touch" x={left + n * step} y="0" width={step} height={height} />
              <rect class="chart-in" x={x} y={mid} width={step * 0.7} height={height - mid} rx="2" />
              <rect class="chart-out" x={x} y={y(day.input + day.output)} width={step * 0.7} height={mid - y(day.input + day.output)} rx="2" />
              {(shown.length - 1 - n) % 7 === 0 && (
                <text x={x + step * 0.35} y={height + 16} text-anchor={n === shown.length - 1 ? 'end' : 'middle'} dx={n === shown.length - 1 ? step * 0.35 : 0}>
                  {n === shown.length - 1 ? 'today' : dayWord.format(new Date(day.day))}
                </text>
              )}
            </g>
          );
        })}
      </svg>
      <figcaption class="legend-line">
        <i class="chart-in" /> tokens in <i class="chart-out" /> tokens out
      </figcaption>
    </figure>
  );
}

// The next 1, 2 or 5 times a power of ten: the top line of a chart.
function roundUp(n: number): number {
  const power = 10 ** Math.floor(Math.log10(n));
  return ([1, 2, 5, 10].find((one) => one * power >= n) ?? 10) * power;
}
