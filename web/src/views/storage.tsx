// What the conversations take on the disk, and the work that keeps it small and sound.

import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ask, inPath, remove, sentence } from '../lib/api';
import { chatHash, listChanged, notify } from '../lib/store';
import type { Job, Session, SizeList, SizeRow } from '../lib/types';
import { bytes, count, plural, shortTime } from '../lib/words';
import { JobView, startJob } from './jobs';
import { Bars, Page, type Bar } from './page';
import { Button, Dialog, Empty, Loading, Notice } from './parts';
import { Trash } from './trash';

const page = 15; // conversations that are shown at a time

const works: { kind: string; label: string; about: string }[] = [
  { kind: 'check', label: 'Check', about: 'Reads everything and compares it with its checksums. Changes nothing.' },
  { kind: 'compress', label: 'Compress', about: 'Packs the messages of conversations into one file each.' },
  { kind: 'archive', label: 'Archive', about: 'Moves old messages into compressed files. They stay readable and searchable.' },
  { kind: 'gc', label: 'Collect the trash', about: 'Moves messages that no branch reaches to the trash, and deletes those that have been there for a week.' },
  { kind: 'reindex', label: 'Rebuild the search', about: 'Reads every message again and writes a new search index.' },
  { kind: 'migrate', label: 'Convert old formats', about: 'Converts conversations of the older program that lie in the data directory.' },
];

export function Storage(): VNode {
  const [jobs, setJobs] = useState<{ job: Job; label: string }[]>([]);
  const [sizes, setSizes] = useState<SizeList | null>(null);
  const [detail, setDetail] = useState<SizeRow | null>(null);
  const [problem, setProblem] = useState('');
  const [version, setVersion] = useState(0); // of what is stored: jobs change it
  const load = async (cursor?: string | null) => {
    try {
      const next = await ask<SizeList>(`/sizes?limit=${page}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`);
      setSizes((old) => (cursor && old ? { ...next, contexts: [...old.contexts, ...next.contexts] } : next));
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  useEffect(() => void load(), [version]);
  const changed = () => {
    listChanged();
    setVersion((old) => old + 1);
  };
  const start = async (kind: string, label: string, body: unknown = {}) => {
    setProblem('');
    try {
      const job = await startJob(`/maintenance/${kind}`, body);
      setJobs((old) => [{ job, label }, ...old]);
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  const total = sizes?.total;
  return (
    <Page title="Storage" lead="What the conversations take on the disk of the server, before compression.">
      {problem && <Notice kind="error">{problem}</Notice>}
      {!sizes && !problem && <Loading />}
      {total && (
        <dl class="tiles">
          <div>
            <dt>Conversations</dt>
            <dd>{count(total.contexts)}</dd>
          </div>
          <div>
            <dt>Messages</dt>
            <dd>{count(total.messages)}</dd>
          </div>
          <div>
            <dt>Text</dt>
            <dd>{bytes(total.message_bytes)}</dd>
          </div>
          <div>
            <dt>Compressed</dt>
            <dd>{bytes(total.archived_bytes)}</dd>
          </div>
        </dl>
      )}
      {jobs.map(({ job, label }) => (
        <JobView key={job.id} job={job} label={label} onEnd={changed} />
      ))}
      {sizes && (
        <section>
          <h2>Largest conversations</h2>
          {sizes.contexts.length === 0 ? (
            <Empty title="Nothing is stored yet" />
          ) : (
            <Bars label="Bytes per conversation and branch" bars={sizes.contexts.flatMap((row) => barsOf(row, () => setDetail(row)))} />
          )}
          {sizes.next_cursor && (
            <Button small onClick={() => void load(sizes.next_cursor)}>
              Show more
            </Button>
          )}
        </section>
      )}
      <Trash version={version} onChanged={changed} onPurge={(row) => void start('gc', row ? `Delete the trash of “${row.title || 'Untitled'}”` : 'Delete all trash', { grace_seconds: 0, ...(row && { context_id: row.id }) })} />
      <section>
        <h2>Maintenance</h2>
        <ul class="works">
          {works.map((work) => (
            <li key={work.kind}>
              <div>
                <strong>{work.label}</strong>
                <p class="faint">{work.about}</p>
              </div>
              <Button small onClick={() => void start(work.kind, work.label)}>
                {work.label}
              </Button>
            </li>
          ))}
        </ul>
      </section>
      <Sessions />
      {detail && <Detail row={detail} onClose={() => setDetail(null)} onWork={(kind, label) => void start(kind, `${label} “${detail.title || 'Untitled'}”`, { context_id: detail.id })} />}
    </Page>
  );
}

const branchesShown = 4;

// A bar of the conversation, and one for each branch if it has several.
function barsOf(row: SizeRow, onDetail: () => void): Bar[] {
  const title = row.title || 'Untitled';
  const own: Bar = { label: title, value: row.message_bytes, shown: `${bytes(row.message_bytes)} · ${plural(row.messages, 'message')}`, href: chatHash(row.id), act: <Button small kind="quiet" icon="right" label={`Details of ${title}`} onClick={onDetail} /> };
  if (row.branch_count < 2) return [own];
  return [own, ...row.branches.slice(0, branchesShown).map((branch) => ({ label: branch.name, value: branch.message_bytes, shown: `${bytes(branch.message_bytes)} · ${plural(branch.messages, 'message')}`, isPart: true }))];
}

function Detail({ row, onClose, onWork }: { row: SizeRow; onClose: () => void; onWork: (kind: string, label: string) => void }): VNode {
  const left = row.branch_count - row.branches.length;
  return (
    <Dialog title={row.title || 'Untitled'} onClose={onClose}>
      <Bars
        label="Bytes by place"
        bars={[
          { label: 'Messages', value: row.message_bytes, shown: `${bytes(row.message_bytes)} · ${count(row.messages)}` },
          { label: 'Compressed', value: row.archived_bytes, shown: `${bytes(row.archived_bytes)} · ${count(row.archived_messages)}` },
          { label: 'Trash', value: row.trashed_bytes, shown: `${bytes(row.trashed_bytes)} · ${count(row.trashed_messages)}` },
          { label: 'Metadata', value: row.metadata_bytes, shown: bytes(row.metadata_bytes) },
        ]}
      />
      <h3>Branches</h3>
      <Bars label="Bytes per branch" bars={row.branches.map((branch) => ({ label: branch.name, value: branch.message_bytes, shown: `${bytes(branch.message_bytes)} · ${plural(branch.messages, 'message')}` }))} />
      {left > 0 && <p class="faint">{plural(left, 'smaller branch', 'smaller branches')} not shown.</p>}
      <div class="row-end">
        {works.slice(0, 4).map((work) => (
          <Button
            key={work.kind}
            small
            onClick={() => {
              onWork(work.kind, work.label);
              onClose();
            }}
          >
            {work.label}
          </Button>
        ))}
      </div>
    </Dialog>
  );
}

function Sessions(): VNode | null {
  const [sessions, setSessions] = useState<Session[] | null>(null);
  const load = () => ask<{ sessions: Session[] }>('/sessions').then((found) => setSessions(found.sessions), () => setSessions([]));
  useEffect(() => void load(), []);
  if (!sessions || sessions.length === 0) return null;
  return (
    <section>
      <h2>Sessions of bots</h2>
      <ul class="works">
        {sessions.map((session) => (
          <li key={session.id}>
            <div>
              <strong>{session.title || session.id}</strong>
              <p class="faint">
                {plural(session.messages, 'message')} in {plural(session.chunks, 'file')} · {shortTime(session.updated_at)}
              </p>
            </div>
            <Button small icon="trash" label={`Delete ${session.id}`} onClick={() => void remove(`/sessions/${inPath(session.id)}`).then(load, (error: unknown) => notify(sentence(error)))} />
          </li>
        ))}
      </ul>
    </section>
  );
}
