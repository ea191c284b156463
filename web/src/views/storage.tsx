// What the conversations take on the disk, and the work that keeps it small and sound.

import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ask, inPath, remove, sentence } from '../lib/api';
import { chatHash, listChanged, notify, rows } from '../lib/store';
import type { Context, ContextRow, Job, Session } from '../lib/types';
import { bytes, count, plural, shortTime } from '../lib/words';
import { JobView, startJob } from './jobs';
import { Bars, Page } from './page';
import { Button, Dialog, Empty, Loading, Notice } from './parts';

interface Size {
  messages: number;
  message_bytes: number;
  metadata_bytes: number;
  archived_messages: number;
  archived_bytes: number;
  pack_bytes: number;
  trashed_messages: number;
  trashed_bytes: number;
}

const works: { kind: string; label: string; about: string }[] = [
  { kind: 'check', label: 'Check', about: 'Reads everything and compares it with its checksums. Changes nothing.' },
  { kind: 'compress', label: 'Compress', about: 'Packs the messages of conversations into one file each.' },
  { kind: 'archive', label: 'Archive', about: 'Moves old messages into compressed files. They stay readable and searchable.' },
  { kind: 'gc', label: 'Empty the trash', about: 'Deletes messages that no branch reaches any more, after their grace period.' },
  { kind: 'reindex', label: 'Rebuild the search', about: 'Reads every message again and writes a new search index.' },
  { kind: 'migrate', label: 'Convert old formats', about: 'Converts conversations of the older program that lie in the data directory.' },
];

export function Storage(): VNode {
  const [jobs, setJobs] = useState<{ job: Job; label: string }[]>([]);
  const [detail, setDetail] = useState<ContextRow | null>(null);
  const [problem, setProblem] = useState('');
  const start = async (kind: string, label: string, body: unknown = {}) => {
    setProblem('');
    try {
      const job = await startJob(`/maintenance/${kind}`, body);
      setJobs((old) => [{ job, label }, ...old]);
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  const all = rows.value;
  const total = all.reduce((sum, row) => sum + row.message_bytes, 0);
  const largest = [...all].sort((a, b) => b.message_bytes - a.message_bytes).slice(0, 15);
  return (
    <Page title="Storage" lead="Plain files on the disk of the server.">
      <dl class="tiles">
        <div>
          <dt>Conversations</dt>
          <dd>{count(all.length)}</dd>
        </div>
        <div>
          <dt>Messages</dt>
          <dd>{count(all.reduce((sum, row) => sum + row.messages, 0))}</dd>
        </div>
        <div>
          <dt>Text</dt>
          <dd>{bytes(total)}</dd>
        </div>
      </dl>
      {problem && <Notice kind="error">{problem}</Notice>}
      {jobs.map(({ job, label }) => (
        <JobView key={job.id} job={job} label={label} onEnd={listChanged} />
      ))}
      <section>
        <h2>Largest conversations</h2>
        {all.length === 0 ? (
          <Empty title="Nothing is stored yet" />
        ) : (
          <Bars label="Bytes per conversation" bars={largest.map((row) => ({ label: row.title || 'Untitled', value: row.message_bytes, shown: `${bytes(row.message_bytes)} · ${plural(row.messages, 'message')}`, href: chatHash(row.id), act: <Button small kind="quiet" icon="right" label={`Details of ${row.title || 'Untitled'}`} onClick={() => setDetail(row)} /> }))} />
        )}
      </section>
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

function Detail({ row, onClose, onWork }: { row: ContextRow; onClose: () => void; onWork: (kind: string, label: string) => void }): VNode {
  const [size, setSize] = useState<Size | null>(null);
  const [context, setContext] = useState<Context | null>(null);
  const [problem, setProblem] = useState('');
  useEffect(() => {
    Promise.all([ask<Size>(`/contexts/${row.id}/size`), ask<Context>(`/contexts/${row.id}?messages=none`)]).then(
      ([found, about]) => {
        setSize(found);
        setContext(about);
      },
      (error: unknown) => setProblem(sentence(error)),
    );
  }, []);
  return (
    <Dialog title={row.title || 'Untitled'} onClose={onClose}>
      {problem && <Notice kind="error">{problem}</Notice>}
      {!size && !problem && <Loading />}
      {size && (
        <>
          <Bars
            label="Bytes by place"
            bars={[
              { label: 'Messages', value: size.message_bytes, shown: bytes(size.message_bytes) },
              { label: 'Archived', value: size.archived_bytes, shown: `${bytes(size.archived_bytes)} · ${count(size.archived_messages)}` },
              { label: 'Packed on disk', value: size.pack_bytes, shown: bytes(size.pack_bytes) },
              { label: 'Trash', value: size.trashed_bytes, shown: `${bytes(size.trashed_bytes)} · ${count(size.trashed_messages)}` },
              { label: 'Index', value: size.metadata_bytes, shown: bytes(size.metadata_bytes) },
            ]}
          />
          <h3>Branches</h3>
          <Bars label="Bytes per branch" bars={(context?.branches ?? []).map((branch) => ({ label: branch.name, value: branch.message_bytes, shown: `${bytes(branch.message_bytes)} · ${plural(branch.messages, 'message')}` }))} />
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
        </>
      )}
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
