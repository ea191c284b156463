// What garbage collection has moved to the trash: rows of messages that no branch reaches.

import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { act, ask, post, sentence } from '../lib/api';
import { chatHash, go, notify } from '../lib/store';
import type { SizeList, SizeRow, TrashRow } from '../lib/types';
import { bytes, plural, shortTime } from '../lib/words';
import { Button, Empty, Loading, Notice } from './parts';

interface Props {
  version: number; // another one: the trash may have changed
  onChanged: () => void;
  onPurge: (row: SizeRow | null) => void; // null: of all conversations
}

export function Trash({ version, onChanged, onPurge }: Props): VNode {
  const [found, setFound] = useState<SizeList | null>(null);
  const [problem, setProblem] = useState('');
  useEffect(() => {
    ask<SizeList>('/sizes?trashed=true&limit=100').then(setFound, (error: unknown) => setProblem(sentence(error)));
  }, [version]);
  return (
    <section>
      <div class="row-head">
        <h2>Trash</h2>
        {found && found.contexts.length > 0 && (
          <Button small icon="trash" onClick={() => onPurge(null)}>
            Delete all for good
          </Button>
        )}
      </div>
      {problem && <Notice kind="error">{problem}</Notice>}
      {!found && !problem && <Loading />}
      {found && found.contexts.length === 0 && (
        <Empty title="The trash is empty">
          <p>“Collect the trash” moves the messages of deleted branches here. They can be restored for a week.</p>
        </Empty>
      )}
      {found?.contexts.map((row) => <Conversation key={row.id} row={row} version={version} onChanged={onChanged} onPurge={() => onPurge(row)} />)}
    </section>
  );
}

function Conversation({ row, version, onChanged, onPurge }: { row: SizeRow; version: number; onChanged: () => void; onPurge: () => void }): VNode {
  const [items, setItems] = useState<TrashRow[] | null>(null);
  const [texts, setTexts] = useState(new Map<string, string>());
  const [problem, setProblem] = useState('');
  const title = row.title || 'Untitled';
  const load = async () => {
    try {
      const { trash } = await ask<{ trash: TrashRow[] }>(`/contexts/${row.id}/trash?limit=50`);
      setItems(trash);
      const ids = trash.map((item) => item.first_message_id);
      if (ids.length === 0) return;
      const { previews } = await ask<{ previews: { id: string; text: string }[] }>(`/contexts/${row.id}/previews?ids=${ids.join(',')}`);
      setTexts(new Map(previews.map((one) => [one.id, one.text])));
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  useEffect(() => void load(), [version]);
  const restore = async (item: TrashRow) => {
    const name = `restored-${item.last_message_id.slice(-6)}`;
    try {
      await post(`/contexts/${row.id}/branches`, { name, at: item.last_message_id });
      onChanged();
      notify(`Restored as branch ${name}.`, { label: 'Open', run: () => void act(row.id, 'switch_branch', { branch: name }).finally(() => go(chatHash(row.id))) });
    } catch (error) {
      notify(sentence(error));
    }
  };
  return (
    <div class="trash">
      <div class="row-head">
        <a href={chatHash(row.id)}>
          <strong>{title}</strong>
        </a>
        <span class="faint">
          {plural(row.trashed_messages, 'message')} · {bytes(row.trashed_bytes)}
        </span>
        <span class="push" />
        <Button small kind="quiet" icon="trash" label={`Delete the trash of ${title} for good`} onClick={onPurge} />
      </div>
      {problem && <Notice kind="error">{problem}</Notice>}
      {!items && !problem && <Loading />}
      <ul class="works">
        {items?.map((item) => (
          <li key={item.last_message_id}>
            <div>
              <p class="clip" dir="auto">
                {texts.get(item.first_message_id) || 'Messages without text'}
              </p>
              <p class="faint">
                {plural(item.messages, 'message')} · {bytes(item.message_bytes)} · in the trash since {shortTime(item.trashed_at)}
              </p>
            </div>
            <Button small onClick={() => void restore(item)}>
              Restore
            </Button>
          </li>
        ))}
      </ul>
    </div>
  );
}
