// Conversations of other programs: found in this browser, or as files.

import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { sentence } from '../lib/api';
import { chosenFiles, useDrop } from '../lib/drop';
import { listChanged, loadPrompts } from '../lib/store';
import type { Job } from '../lib/types';
import { bytes, plural } from '../lib/words';
import { hasPath, JobView, startJob } from './jobs';
import { Page } from './page';
import { Button, Icon, Notice } from './parts';

const isOld = (name: string): boolean => /^(copilot_|system_prompt)/.test(name);

// What the older program left in this origin.
export function foundHere(): { text: string; chats: number } | null {
  const keys = Object.keys(localStorage).filter(isOld);
  if (!keys.some((name) => /^copilot_(chats|migration_backup)/.test(name))) return null;
  const dump = Object.fromEntries(keys.map((name) => [name, localStorage.getItem(name) ?? '']));
  let chats = 0;
  for (const name of ['copilot_chats_v3', 'copilot_chats_v2', 'copilot_chats'])
    try {
      const list = JSON.parse(dump[name] ?? '[]') as unknown[];
      chats = Math.max(chats, list.length);
    } catch {
      // Damaged: the server reports what it can read.
    }
  return { text: JSON.stringify(dump), chats };
}

export function Import(): VNode {
  const [jobs, setJobs] = useState<{ job: Job; label: string }[]>([]);
  const [problem, setProblem] = useState('');
  const [can, setCan] = useState<boolean | null>(null);
  const file = useRef<HTMLInputElement>(null);
  const found = foundHere();
  useEffect(() => void hasPath('/v1/import').then(setCan), []);
  const send = async (text: BodyInit, label: string) => {
    try {
      const job = await startJob('/import', {}, text);
      setJobs((old) => [{ job, label }, ...old]);
    } catch (error) {
      setProblem(`${label}: ${sentence(error)}`);
    }
  };
  const take = async (files: File[]) => {
    setProblem('');
    for (const one of can ? files : []) await send(one, `${one.name}, ${bytes(one.size)}`);
  };
  const dropping = useDrop((files) => void take(files));
  const ended = () => {
    listChanged();
    void loadPrompts();
  };
  return (
    <Page title="Import" lead="Conversations keep their ids, times, branches, tool calls and pictures. Importing twice adds nothing twice.">
      {can === false && <Notice>This server imports only on the command line: quipu import FILE.</Notice>}
      {problem && <Notice kind="error">{problem}</Notice>}
      {found && can && (
        <section class="card found-here">
          <h2>Found in this browser</h2>
          <p>{plural(found.chats, 'conversation')} of the older program, {bytes(found.text.length)}. They stay in the browser until you delete them there.</p>
          <Button kind="primary" icon="import" onClick={() => void send(found.text, 'Conversations of this browser')}>
            Import them
          </Button>
        </section>
      )}
      {can && (
        <div class={`drop${dropping ? ' dropping' : ''}`}>
          <Icon name="import" size={28} />
          <p>Drop files here: old conversations, dumps of a browser's storage</p>
          <Button onClick={() => file.current?.click()}>Choose files</Button>
          <input ref={file} type="file" multiple hidden aria-label="Files to import" onChange={(event) => void take(chosenFiles(event.currentTarget))} />
        </div>
      )}
      {jobs.map(({ job, label }) => (
        <JobView key={job.id} job={job} label={label} onEnd={ended} />
      ))}
    </Page>
  );
}
