// Which branches part where. The outline names, for each other branch, the last position that it shares
// with the shown branch; branches with the same first message after it are one alternative.

import type { Outline, OutlineBranch } from '../lib/types';

export interface Alternatives {
  at: number; // of the shown one
  names: string[]; // one branch per alternative
}

// By the position (from 0) of the message that has alternatives.
export function alternativesOf(outline: Outline | null, shown: string): Map<number, Alternatives> {
  const found = new Map<number, Alternatives>();
  if (!outline) return found;
  const forks = new Map<number, OutlineBranch[]>();
  for (const branch of outline.branches) {
    if (branch.name === shown || branch.fork_at >= outline.count) continue;
    if (branch.messages !== undefined && branch.messages <= branch.fork_at) continue; // nothing of its own
    forks.set(branch.fork_at, [...(forks.get(branch.fork_at) ?? []), branch]);
  }
  for (const [forkAt, branches] of forks) {
    const own = outline.branches.find((branch) => branch.name === shown);
    const seen = new Set<string>();
    const others = branches.filter((branch) => {
      const first = branch.first ?? branch.name;
      if (seen.has(first)) return false;
      seen.add(first);
      return true;
    });
    const all = [...others, own ?? { name: shown, fork_at: forkAt }].sort((a, b) => (a.created_at ?? '').localeCompare(b.created_at ?? '') || a.name.localeCompare(b.name));
    found.set(forkAt, { at: all.findIndex((branch) => branch.name === shown), names: all.map((branch) => branch.name) });
  }
  return found;
}
