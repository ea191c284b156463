// A view whose code is loaded when it is first shown.

import type { ComponentType, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { lost, online, reach, sentence } from '../lib/api';
import { Empty, Loading, Notice } from './parts';

// `load` fetches the code before it is shown.
export function lazyView<Props extends object>(read: () => Promise<ComponentType<Props>>): ((props: Props) => VNode) & { load: () => Promise<ComponentType<Props>> } {
  let loaded: ComponentType<Props> | undefined;
  const load = async () => (loaded ??= await read());
  function LazyView(props: Props): VNode {
    const [View, setView] = useState<ComponentType<Props> | undefined>(() => loaded);
    const [problem, setProblem] = useState('');
    const [waiting, setWaiting] = useState(false);
    const isOnline = online.value;
    useEffect(() => {
      if (View || problem || (waiting && !isOnline)) return;
      const fail = async (error: unknown): Promise<void> => {
        if (!(await reach())) {
          void lost();
          setWaiting(true);
        } else if (waiting) location.reload(); // some browsers remember that a file could not be loaded
        else setProblem(sentence(error));
      };
      load().then((found) => setView(() => found), fail);
    }, [isOnline, waiting]);
    if (problem) return <Notice kind="error">This part of the page cannot be loaded: {problem}. Reload the page.</Notice>;
    if (waiting && !View)
      return (
        <Empty title="This part of the page is on the server">
          <p>It opens by itself when the server can be reached again.</p>
        </Empty>
      );
    return View ? <View {...props} /> : <Loading />;
  }
  return Object.assign(LazyView, { load });
}
