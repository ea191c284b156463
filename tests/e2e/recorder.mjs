// A provider that takes down every request and gives the same short answer, in OpenAI's, Anthropic's
// and Ollama's protocol.

import http from 'node:http';

const events = (list) => list.map(([event, data]) => `${event ? `event: ${event}\n` : ''}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`).join('');

const chunk = (choice, more = {}) => [undefined, { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm', choices: choice ? [{ index: 0, finish_reason: null, ...choice }] : [], ...more }];

const answers = {
  '/v1/chat/completions': (text) => ['text/event-stream', events([
    chunk({ delta: { role: 'assistant', content: text } }), chunk({ delta: {}, finish_reason: 'stop' }),
    chunk(undefined, { usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 } }), [undefined, '[DONE]'],
  ])],
  '/v1/messages': (text) => ['text/event-stream', events([
    ['message_start', { type: 'message_start', message: { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', content: [], stop_reason: null, stop_sequence: null, usage: { input_tokens: 3, output_tokens: 1 } } }],
    ['content_block_start', { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }],
    ['content_block_delta', { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }],
    ['content_block_stop', { type: 'content_block_stop', index: 0 }],
    ['message_delta', { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 2 } }],
    ['message_stop', { type: 'message_stop' }],
  ])],
  '/api/chat': (text) => ['application/x-ndjson', `${JSON.stringify({ model: 'm', message: { role: 'assistant', content: text }, done: false })}\n${JSON.stringify({ model: 'm', message: { role: 'assistant', content: '' }, done: true, done_reason: 'stop', prompt_eval_count: 3, eval_count: 2 })}\n`],
};

export class Recorder {
  // `env` makes a server ask it, under the names openai, anthropic and ollama.
  static async start(t) {
    const recorder = new Recorder();
    recorder.sent = [];
    const server = http.createServer((request, response) => {
      let text = '';
      request.setEncoding('utf8').on('data', (data) => (text += data));
      request.on('end', () => {
        const answer = answers[request.url];
        if (request.method !== 'POST' || !answer) return response.writeHead(404).end();
        recorder.sent.push({ path: request.url, body: JSON.parse(text) });
        const [type, body] = answer('Seen.');
        return response.writeHead(200, { 'content-type': type }).end(body);
      });
    });
    const port = await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server.address().port)));
    const url = `http://127.0.0.1:${port}`;
    recorder.env = { ANTHROPIC_API_KEY: 'key-of-nobody', ANTHROPIC_BASE_URL: url, OPENAI_API_KEY: 'key-of-nobody', OPENAI_BASE_URL: `${url}/v1`, QUIPU_OLLAMA_URL: url };
    t.after(() => {
      server.close();
      server.closeAllConnections();
    });
    return recorder;
  }

  // The body of the next request, by what the function sends.
  async during(ask) {
    this.sent.length = 0;
    const answer = await ask();
    return { answer, sent: this.sent[0]?.body, path: this.sent[0]?.path };
  }
}
