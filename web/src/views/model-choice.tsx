// The choice of a model, with window and price.

import type { VNode } from 'preact';
import { models } from '../lib/store';
import type { Model } from '../lib/types';
import { tokens } from '../lib/words';

const nameOf = (model: Model): string => `${model.provider}/${model.id}`;

function about(model: Model): string {
  const price = model.input_price ? ` · $${model.input_price}/$${model.output_price}` : '';
  return `${model.id} · ${tokens(model.window)}${price}`;
}

export function ModelChoice({ value, onChange }: { value: string; onChange: (model: string) => void }): VNode | null {
  const all = models.value;
  if (!all) return null;
  const available = all.models.filter((model) => model.available);
  const chosen = value || all.default;
  const known = available.some((model) => nameOf(model) === chosen || model.id === chosen);
  const providers = [...new Set(available.map((model) => model.provider))];
  const current = available.find((model) => nameOf(model) === chosen) ?? available.find((model) => model.id === chosen);
  return (
    <select class="model" aria-label="Model" title="Model, window, price per million tokens in and out" value={current ? nameOf(current) : chosen} onChange={(event) => onChange(event.currentTarget.value)}>
      {!known && <option value={chosen}>{chosen}</option>}
      {providers.map((provider) => (
        <optgroup key={provider} label={provider}>
          {available
            .filter((model) => model.provider === provider)
            .map((model) => (
              <option key={nameOf(model)} value={nameOf(model)}>
                {about(model)}
              </option>
            ))}
        </optgroup>
      ))}
    </select>
  );
}
