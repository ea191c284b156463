// Which parts of messages are open. A row that scrolls out of view loses its nodes, so this is kept
// beside them.

const open = new Map<string, boolean>();

export function disclosure(id: string, atFirst = false): { open: boolean; onToggle: (event: globalThis.Event) => void } {
  return {
    open: open.get(id) ?? atFirst,
    onToggle: (event) => {
      const isOpen = (event.currentTarget as HTMLDetailsElement).open;
      if (isOpen !== (open.get(id) ?? atFirst)) open.set(id, isOpen);
    },
  };
}
