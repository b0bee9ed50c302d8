// Calls one MCP client library over stdio. The library starts the bridge, which connects to a server with all
// features: npm's `server-everything`, or our example. Prints one JSON line per step on stdout. At a step that
// begins with `ready_`, this program waits for a line on stdin, so that the test can change the state of the
// server or of the bridge meanwhile.
//
//   node everything.mjs --client sdk1|client2-default|client2-auto|client2-pinned --server npm|ours COMMAND ARG...
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const NAME = { name: 'callgate-tests', version: '1.0.0' };

// For each server, the names and arguments of the same features.
const SERVERS = {
  npm: {
    elicited: { name: 'Ada', check: true, integer: 42 },
    echo: message => ({ name: 'echo', arguments: { message } }),
    progress: { name: 'trigger-long-running-operation', arguments: { duration: 1, steps: 4 } },
    long: { name: 'trigger-long-running-operation', arguments: { duration: 60, steps: 4 } },
    elicitation: { name: 'trigger-elicitation-request', arguments: {} },
  },
  ours: {
    elicited: { username: 'Ada', email: 'ada@example.org' },
    echo: message => ({ name: 'greet', arguments: { name: message } }),
    progress: { name: 'test_tool_with_progress', arguments: {} },
    long: { name: 'slow_compute', arguments: { seconds: 60 } },
    elicitation: { name: 'test_elicitation', arguments: { message: 'Who are you?' } },
  },
};
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

// The libraries write some warnings with console.debug(), which goes to stdout.
console.debug = console.info = console.log = console.error;

const print = (step, details) => process.stdout.write(JSON.stringify({ step, ...details }) + '\n');

async function pause(step) {
  print(step);
  await lines.next();
}

async function loadSdk1(content) {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
  const { ElicitRequestSchema } = await import('@modelcontextprotocol/sdk/types.js');
  const client = new Client(NAME, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept', content }));
  return { client, Stdio: StdioClientTransport, callTool: (params, options) => client.callTool(params, undefined, options) };
}

async function loadClient2(content, mode) {
  const { Client } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const client = new Client(NAME, {
    capabilities: { elicitation: {} },
    ...(mode && { versionNegotiation: { mode } }),
  });
  client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content }));
  return { client, Stdio: StdioClientTransport, callTool: (params, options) => client.callTool(params, options) };
}

const CLIENTS = {
  'sdk1': loadSdk1,
  'client2-default': content => loadClient2(content),
  'client2-auto': content => loadClient2(content, 'auto'),
  'client2-pinned': content => loadClient2(content, { pin: '2026-07-28' }),
};

async function run(name, server, command) {
  const { client, Stdio, callTool } = await CLIENTS[name](server.elicited);
  client.onerror = error => console.error('onerror:', error.message);
  const transport = new Stdio({ command: command[0], args: command.slice(1), env: process.env });
  const echo = async message => (await callTool(server.echo(message))).content[0].text;

  print('connecting');
  await client.connect(transport);
  print('connect', { pid: transport.pid, server: client.getServerVersion() });

  const { tools } = await client.listTools();
  print('list', { tools: tools.map(tool => tool.name) });
  print('call', { text: await echo('one') });

  const progress = [];
  const done = await callTool(server.progress, { onprogress: ({ progress: at }) => progress.push(at) });
  print('progress', { progress, text: done.content[0].text });

  const controller = new AbortController();
  const cancelled = callTool(server.long, { signal: controller.signal }).then(() => 'answered', () => 'rejected');
  await sleep(300);
  controller.abort('no longer wanted');
  print('cancel', { outcome: await cancelled, alive: await echo('two') });

  const elicited = await callTool(server.elicitation);
  print('elicitation', { text: elicited.content.map(part => part.text).join('\n') });

  await pause('ready_for_restart');
  print('restarted', { text: await echo('three') });
  await pause('ready_for_sleep');
  print('awake', { text: await echo('four') });

  await client.close();
  print('closed');
}

const [flag, name, serverFlag, server, ...command] = process.argv.slice(2);
if (flag !== '--client' || serverFlag !== '--server' || !(name in CLIENTS) || !(server in SERVERS)) {
  console.error(`usage: everything.mjs --client ${Object.keys(CLIENTS).join('|')} --server npm|ours COMMAND ARG...`);
  process.exit(2);
}
try {
  await run(name, SERVERS[server], command);
  process.exit(0);
} catch (error) {
  console.error(error);
  process.exit(1);
}
