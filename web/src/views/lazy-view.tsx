// A view whose code is loaded when it is first shown.

import type { ComponentType, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { sentence } from '../lib/api';
import { Loading, Notice } from './parts';

// `load` fetches the code before it is shown.
export function lazyView<Props extends object>(read: () => Promise<ComponentType<Props>>): ((props: Props) => VNode) & { load: () => Promise<ComponentType<Props>> } {
  let loaded: ComponentType<Props> | undefined;
  const load = async () => (loaded ??= await read());
  function LazyView(props: Props): VNode {
    const [View, setView] = useState<ComponentType<Props> | undefined>(() => loaded);
    const [problem, setProblem] = useState('');
    useEffect(() => {
      if (View) return;
      load().then(
        (found) => setView(() => found),
        (error: unknown) => setProblem(sentence(error)),
      );
    }, []);
    if (problem) return <Notice kind="error">This part of the page cannot be loaded: {problem}. Reload the page.</Notice>;
    return View ? <View {...props} /> : <Loading />;
  }
  return Object.assign(LazyView, { load });
}
