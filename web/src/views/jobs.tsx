// Long work of the server: started here, followed until it ends.

import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ask, remove, sentence } from '../lib/api';
import { chatHash } from '../lib/store';
import type { Job } from '../lib/types';
import { bytes, count } from '../lib/words';
import { Button, Notice } from './parts';

const every = 400;

export async function startJob(path: string, body: unknown = {}, raw?: BodyInit): Promise<Job> {
  const options = raw === undefined ? { method: 'POST', body } : { method: 'POST', raw, headers: { 'content-type': 'application/json' } };
  return (await ask<{ job: Job }>(path, options)).job;
}

// Whether the contract of this server has a path.
export const hasPath = async (path: string): Promise<boolean> => {
  try {
    return (await (await fetch('/openapi.json')).text()).includes(`"${path}"`);
  } catch {
    return true; // the request itself will say what is wrong
  }
};

const isOpen = (job: Job): boolean => job.state === 'queued' || job.state === 'running';
// The server calls a file that was sent import.json.
const problemOf = (job: Job): string => {
  const text = (typeof job.error === 'string' ? job.error : (job.error?.message ?? '')).replace(/^import\.json: /, '');
  return text.charAt(0).toUpperCase() + text.slice(1);
};

export function JobView({ job: first, label, onEnd }: { job: Job; label: string; onEnd?: (job: Job) => void }): VNode {
  const [job, setJob] = useState(first);
  const [problem, setProblem] = useState('');
  useEffect(() => {
    let gone = false;
    const look = async () => {
      for (let now = first; !gone; ) {
        if (!isOpen(now)) return onEnd?.(now);
        await new Promise((resolve) => setTimeout(resolve, every));
        try {
          const found = await ask<Job | { job: Job }>(`/jobs/${first.id}`);
          now = 'job' in found ? found.job : found;
          if (!gone) setJob(now);
        } catch (error) {
          return setProblem(sentence(error));
        }
      }
      return undefined;
    };
    void look();
    return () => void (gone = true);
  }, [first.id]);
  const isRunning = isOpen(job);
  return (
    <div class="job" role="status">
      <div class="job-head">
        <strong>{label}</strong>
        <span class="faint">{isRunning ? (job.total > 0 ? `${count(job.done)} of ${count(job.total)}` : job.state === 'queued' ? 'waits for other work' : 'working') : job.state}</span>
        <span class="push" />
        {isRunning && (
          <Button small onClick={() => void remove(`/jobs/${job.id}`)}>
            Stop
          </Button>
        )}
      </div>
      {isRunning && <progress aria-label={label} {...(job.total === 0 ? {} : { value: job.done, max: job.total })} />}
      {(problem || problemOf(job)) && <Notice kind="error">{problem || problemOf(job)}</Notice>}
      {!isRunning && job.report && (job.state !== 'failed' || hasFacts(job.report)) && <Report report={job.report} />}
    </div>
  );
}

// Things that a report lists: what was imported, what is damaged, what failed.
interface Item {
  item?: string;
  outcome?: string;
  problem?: string;
  path?: string;
  code?: string;
  detail?: string;
  message?: string;
  error?: string | null;
  notes?: string[];
  context_id?: string | null;
}

const words = (name: string): string => name.replaceAll('_', ' ').replace(/ bytes$/, '');

const hasFacts = (report: Record<string, unknown>): boolean => Object.values(report).some((value) => (typeof value === 'number' ? value > 0 : Array.isArray(value) && value.length > 0));

function Report({ report }: { report: Record<string, unknown> }): VNode {
  const facts = Object.entries(report).filter(([, value]) => typeof value === 'number' && value > 0);
  const lists = Object.entries(report).filter((entry): entry is [string, Item[]] => Array.isArray(entry[1]) && entry[1].length > 0);
  return (
    <>
      {facts.length === 0 && <p class="faint">There was nothing to do.</p>}
      <dl class="facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{words(name)}</dt>
            <dd>{name.includes('bytes') ? bytes(value as number) : count(value as number)}</dd>
          </div>
        ))}
      </dl>
      {report.dry_run === true && <p class="faint">A trial: nothing was changed.</p>}
      {lists.map(([name, items]) => (
        <ul key={name} class="report" aria-label={words(name)} tabIndex={0}>
          {items.map((one, n) => (
            <ReportItem key={n} one={one} />
          ))}
        </ul>
      ))}
    </>
  );
}

function ReportItem({ one }: { one: Item }): VNode {
  const name = one.item ?? one.path ?? one.context_id ?? '';
  const why = [one.problem, one.error, one.message, one.detail, ...(one.notes ?? [])].filter(Boolean).join('; ');
  const isBad = one.outcome === 'failed' || Boolean(one.code ?? one.problem);
  return (
    <li class={isBad ? 'bad' : undefined}>
      <span class="report-name">{one.context_id && !isBad ? <a href={chatHash(one.context_id)}>{name}</a> : name}</span>
      {one.outcome && <span class="faint">{one.outcome}</span>}
      {why && <span class="report-why">{why}</span>}
    </li>
  );
}
