// Tokens and money: per day and per conversation. The figures are those that providers reported with
// their answers.

import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ask, sentence } from '../lib/api';
import { chatHash, models } from '../lib/store';
import type { UsageDay, UsageReport } from '../lib/types';
import { count, money, plural, tokens } from '../lib/words';
import { Bars, Page, Segments } from './page';
import { Empty, Loading, Notice } from './parts';

const periods: [number, string][] = [[7, '7 days'], [30, '30 days'], [90, '90 days']];

// Minutes that the local time is ahead of UTC: days begin at the midnight of the reader.
const utcOffset = (): number => -new Date().getTimezoneOffset();

export function Usage(): VNode {
  const [days, setDays] = useState(30);
  const [report, setReport] = useState<UsageReport | null>(null);
  const [problem, setProblem] = useState('');
  useEffect(() => {
    let gone = false;
    setProblem('');
    ask<UsageReport>(`/usage/report?days=${days}&utc_offset=${utcOffset()}`).then(
      (found) => !gone && setReport(found),
      (error: unknown) => !gone && setProblem(sentence(error)),
    );
    return () => void (gone = true);
  }, [days]);
  const all = report?.total;
  return (
    <Page title="Usage" lead="Tokens and cost as the providers reported them, of all conversations." acts={<Segments name="period" label="Period" value={days} options={periods} onChange={setDays} />}>
      {problem && <Notice kind="error">{problem}</Notice>}
      {!report && !problem && <Loading label="Adding up" />}
      {all && all.answers === 0 && (
        <Empty title={`Nothing used in the last ${days} days`}>
          <p>After the next answer, tokens and cost appear here, per day, per model and per conversation.</p>
        </Empty>
      )}
      {report && all && all.answers > 0 && (
        <>
          <dl class="tiles">
            <div>
              <dt>Answers</dt>
              <dd>{count(all.answers)}</dd>
            </div>
            <div>
              <dt>Tokens in</dt>
              <dd>{tokens(all.input_tokens)}</dd>
            </div>
            <div>
              <dt>Tokens out</dt>
              <dd>{tokens(all.output_tokens)}</dd>
            </div>
            <div>
              <dt>Cost</dt>
              <dd>{money(all.cost_usd)}</dd>
            </div>
          </dl>
          {all.unpriced > 0 && <p class="faint">The price of {plural(all.unpriced, 'answer')} is unknown and not in the cost.</p>}
          <section>
            <h2>Per day</h2>
            <DayChart days={report.days} n={days} />
          </section>
          <section>
            <h2>Per model</h2>
            <Bars label="Tokens per model" bars={report.models.map((one) => ({ label: one.model || 'unknown', value: one.input_tokens + one.output_tokens, shown: `${tokens(one.input_tokens + one.output_tokens)} · ${money(one.cost_usd)} · ${plural(one.answers, 'answer')}` }))} />
          </section>
          <section>
            <h2>Per conversation</h2>
            <Bars label="Tokens per conversation" bars={report.contexts.map((one) => ({ label: one.title || 'Untitled', value: one.input_tokens + one.output_tokens, shown: `${tokens(one.input_tokens + one.output_tokens)} · ${money(one.cost_usd)} · ${plural(one.answers, 'answer')}`, href: chatHash(one.context_id) }))} />
          </section>
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
function everyDay(days: UsageDay[], n: number): UsageDay[] {
  const known = new Map(days.map((day) => [day.day, day]));
  return Array.from({ length: n }, (_, at) => {
    const day = new Date(Date.now() + utcOffset() * 60_000 - (n - 1 - at) * 86_400_000).toISOString().slice(0, 10);
    return known.get(day) ?? { day, input_tokens: 0, output_tokens: 0, cached_tokens: 0, cost_usd: 0, answers: 0, unpriced: 0 };
  });
}

const dayWord = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' });

function DayChart({ days, n: length }: { days: UsageDay[]; n: number }): VNode {
  const shown = everyDay(days, length);
  const everyNth = length <= 7 ? (innerWidth < 600 ? 2 : 1) : length <= 30 ? 7 : innerWidth < 600 ? 30 : 15;
  const most = roundUp(Math.max(1, ...shown.map((day) => day.input_tokens + day.output_tokens)));
  const width = innerWidth < 600 ? 340 : 640; // the text of a picture shrinks with it
  const height = 150;
  const left = 34;
  const step = (width - left) / shown.length;
  const y = (value: number) => height - (value / most) * (height - 14);
  return (
    <figure class="chart">
      <svg viewBox={`0 0 ${width} ${height + 22}`} role="img" aria-label={`Tokens per day: ${shown.filter((day) => day.answers > 0).map((day) => `${day.day} ${day.input_tokens + day.output_tokens}`).join(', ')}`}>
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
          const mid = y(day.input_tokens);
          return (
            <g key={day.day} class="chart-day">
              <title>{`${dayWord.format(new Date(day.day))}: ${count(day.input_tokens)} in, ${count(day.output_tokens)} out, ${money(day.cost_usd)}, ${plural(day.answers, 'answer')}`}</title>
              <rect class="chart-touch" x={left + n * step} y="0" width={step} height={height} />
              <rect class="chart-in" x={x} y={mid} width={step * 0.7} height={height - mid} rx="2" />
              <rect class="chart-out" x={x} y={y(day.input_tokens + day.output_tokens)} width={step * 0.7} height={mid - y(day.input_tokens + day.output_tokens)} rx="2" />
              {(shown.length - 1 - n) % everyNth === 0 && (
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
