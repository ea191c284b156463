// Which parts of messages are open. A row that scrolls out of view loses its nodes, so this is kept
// beside them.

const open = new Map<string, boolean>();

interface Disclosure {
  open: boolean;
  onClick: (event: MouseEvent) => void;
  onToggle: (event: globalThis.Event) => void;
}

export function disclosure(id: string, atFirst = false): Disclosure {
  const keep = (isOpen: boolean) => {
    if (isOpen !== (open.get(id) ?? atFirst)) open.set(id, isOpen);
  };
  return {
    open: open.get(id) ?? atFirst,
    // `toggle` is sent later, and not at all if the row was drawn anew in between: the click counts.
    onClick: (event) => {
      const details = event.currentTarget as HTMLDetailsElement;
      if ((event.target as HTMLElement).closest('summary')?.parentElement === details) keep(!details.open);
    },
    // The browser opens it to show what its own search found.
    onToggle: (event) => keep((event.currentTarget as HTMLDetailsElement).open),
  };
}
