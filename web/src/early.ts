// Asks for what the first view needs while the scripts of the page are still on their way. lib/api.ts
// takes the answers; nothing else is done here, so that it stays tiny.
{
  const key = sessionStorage.getItem('quipu.key') ?? localStorage.getItem('quipu.key');
  const headers: Record<string, string> = key ? { authorization: `Bearer ${key}` } : {};
  const id = /^#\/c\/([0-9a-f-]{36})/i.exec(location.hash)?.[1];
  const paths = ['/contexts?limit=100', ...(id ? [`/contexts/${id}?messages=none`, `/contexts/${id}/state?last=24`] : [])];
  window.quipuEarly = new Map(
    paths.map((path) => {
      const answer = fetch(`/v1${path}`, { headers });
      answer.catch(() => undefined); // reported to the one who takes it
      return [path, answer];
    }),
  );
}
