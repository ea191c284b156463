// A view whose code is loaded when it is first shown.

import type { ComponentType, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { sentence } from '../lib/api';
import { Loading, Notice } from './parts';

export function lazyView<Props extends object>(load: () => Promise<ComponentType<Props>>): (props: Props) => VNode {
  let loaded: ComponentType<Props> | undefined;
  return function LazyView(props: Props): VNode {
    const [View, setView] = useState<ComponentType<Props> | undefined>(() => loaded);
    const [problem, setProblem] = useState('');
    useEffect(() => {
      if (View) return;
      load().then(
        (found) => {
          loaded = found;
          setView(() => found);
        },
        (error: unknown) => setProblem(sentence(error)),
      );
    }, []);
    if (problem) return <Notice kind="error">This part of the page cannot be loaded: {problem}. Reload the page.</Notice>;
    return View ? <View {...props} /> : <Loading />;
  };
}
