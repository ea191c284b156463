// Asks for what the first view needs while the scripts of the page are still on their way: the script of a
// conversation, and the data, which lib/api.ts takes. Nothing else is done here, so that it stays tiny.
{
  const id = /^#\/c\/([0-9a-f-]{36})/i.exec(location.hash)?.[1];
  for (const href of id ? (document.currentScript?.dataset.chat ?? '').split(' ') : []) {
    const link = document.createElement('link');
    link.rel = 'modulepreload';
    link.href = href;
    document.head.append(link);
  }
  // As in lib/api.ts: an empty key says that the session has it. Reading a storage for the first time takes long.
  const kept = localStorage.getItem('quipu.key');
  const key = kept === '' ? sessionStorage.getItem('quipu.key') : kept;
  const headers: Record<string, string> = key ? { authorization: `Bearer ${key}` } : {};
  const paths = id ? [`/contexts/${id}/state?last=24`, `/contexts/${id}?messages=none`] : ['/contexts?limit=100'];
  window.quipuEarly = new Map(
    paths.map((path) => {
      const answer = fetch(`/v1${path}`, { headers });
      answer.catch(() => undefined); // reported to the one who takes it
      return [path, answer];
    }),
  );
}
