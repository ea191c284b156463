// What a person likes: kept in this browser. And the stored approvals, which the server keeps.

import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ask, remove, sentence } from '../lib/api';
import { loadTools, notify, set, settings, type Settings, tools } from '../lib/store';
import type { Rule } from '../lib/types';
import { Page, Segments } from './page';
import { Button } from './parts';

const keys: [string, string][] = [
  ['Commands', 'Ctrl K'],
  ['New conversation', 'Ctrl Shift O'],
  ['Search all conversations', '/'],
  ['Find in the conversation', 'Ctrl Shift F'],
  ['Outline', 'Ctrl Shift L'],
  ['Next or previous conversation', 'Alt ↓ ↑'],
  ['Next or previous branch point', 'Alt Shift ↓ ↑'],
  ['Along the cord, when it has the focus', '↓ ↑ Home End'],
];

export function SettingsView(): VNode {
  const [rules, setRules] = useState<Rule[]>([]);
  const load = () => ask<{ rules: Rule[] }>('/tools/rules').then((found) => setRules(found.rules), () => setRules([]));
  useEffect(() => {
    void load();
    void loadTools();
  }, []);
  const now = settings.value;
  const choice = <K extends keyof Settings>(name: K, label: string, options: [Settings[K], string][]) => (
    <fieldset class="choice">
      <legend>{label}</legend>
      <Segments name={name} label={label} value={now[name]} options={options} onChange={(value) => set({ [name]: value } as Partial<Settings>)} />
    </fieldset>
  );
  return (
    <Page title="Settings">
      <section class="settings">
        {choice('theme', 'Colours', [['system', 'System'], ['light', 'Light'], ['dark', 'Dark']])}
        {choice('face', 'Typeface of answers', [['sans', 'Sans serif'], ['serif', 'Serif']])}
        {choice('sendWith', 'Send with', [['enter', 'Enter'], ['ctrl', 'Ctrl Enter']])}
        {choice('wide', 'Reading column', [[false, '70 characters'], [true, 'Wide']])}
      </section>
      <section>
        <h2>Stored approvals</h2>
        {rules.length === 0 ? (
          <p class="faint">None. “Always allow” on a tool call stores one.</p>
        ) : (
          <ul class="works">
            {rules.map((rule) => (
              <li key={rule.id}>
                <div>
                  <strong>{rule.tool}</strong> <code>{JSON.stringify(rule.arguments)}</code>
                </div>
                <Button small onClick={() => void remove(`/tools/rules/${rule.id}`).then(load, (error: unknown) => notify(sentence(error)))}>
                  Ask again
                </Button>
              </li>
            ))}
          </ul>
        )}
      </section>
      <section>
        <h2>Tools</h2>
        {tools.value.length === 0 ? (
          <p class="faint">The server offers no tools. Start it with a workspace: quipu serve --workspace DIR.</p>
        ) : (
          <ul class="works">
            {tools.value.map((tool) => (
              <li key={tool.name}>
                <div>
                  <strong>{tool.title ?? tool.name}</strong>
                  <p class="faint">{tool.description}</p>
                </div>
                <span class={`tag${tool.default === 'ask' ? ' wait' : ''}`}>{{ auto: 'runs by itself', ask: 'asks you', deny: 'denied' }[tool.default]}</span>
              </li>
            ))}
          </ul>
        )}
      </section>
      <section>
        <h2>Keys</h2>
        <dl class="facts">
          {keys.map(([what, key]) => (
            <div key={what}>
              <dt>{what}</dt>
              <dd>
                <kbd>{key}</kbd>
              </dd>
            </div>
          ))}
        </dl>
      </section>
    </Page>
  );
}
