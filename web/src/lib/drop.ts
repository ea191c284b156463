// Files that a person drops on the page or chooses. The view that is shown takes them, wherever they were
// dropped. If it takes no files, nothing happens; the browser alone would open the file in place of the page.

import { useEffect, useRef, useState } from 'preact/hooks';

const hasFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes('Files') ?? false;

export function refuseDrops(): void {
  for (const type of ['dragover', 'drop'] as const)
    addEventListener(type, (event) => {
      if (!event.dataTransfer || !hasFiles(event)) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = 'none';
    });
}

// What was chosen in a file input. The input is emptied, so that the same file can be chosen again.
export function chosenFiles(input: HTMLInputElement): File[] {
  const files = [...(input.files ?? [])];
  input.value = '';
  return files;
}

// Whether files hover over the page.
export function useDrop(take: (files: File[]) => void): boolean {
  const [over, setOver] = useState(false);
  const newest = useRef(take);
  newest.current = take;
  useEffect(() => {
    const ends = new AbortController();
    const hover = (event: DragEvent) => {
      if (!event.dataTransfer || !hasFiles(event)) return;
      event.dataTransfer.dropEffect = 'copy';
      setOver(true);
    };
    const leave = (event: DragEvent) => {
      if (!event.relatedTarget) setOver(false);
    };
    const drop = (event: DragEvent) => {
      setOver(false);
      if (event.dataTransfer && hasFiles(event)) newest.current([...event.dataTransfer.files]);
    };
    addEventListener('dragover', hover, ends);
    addEventListener('dragleave', leave, ends);
    addEventListener('drop', drop, ends);
    return () => ends.abort();
  }, []);
  return over;
}
