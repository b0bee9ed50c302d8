// Calls one MCP client library in a fixed list of steps against a server,
// and prints one JSON line per step on stdout.
//
//   node client.mjs --client sdk1|client2-default|client2-auto|client2-pinned --http URL
//   node client.mjs --client ... --stdio COMMAND ARG...
//
// Over HTTP the environment variable CALLGATE_TOKEN, if set, is sent as a bearer token.
import { setTimeout as sleep } from 'node:timers/promises';

const CLIENTS = {
  'sdk1': { load: loadSdk1 },
  'client2-default': { load: loadClient2 },
  'client2-auto': { load: loadClient2, mode: 'auto' },
  'client2-pinned': { load: loadClient2, mode: { pin: '2026-07-28' } },
};
const NAME = { name: 'callgate-tests', version: '1.0.0' };
const CHANGE_WAIT_MS = 30_000;

async function loadSdk1() {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const http = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const stdio = await import('@modelcontextprotocol/sdk/client/stdio.js');
  const { ToolListChangedNotificationSchema } = await import('@modelcontextprotocol/sdk/types.js');
  const client = new Client(NAME);
  return {
    client,
    Http: http.StreamableHTTPClientTransport,
    Stdio: stdio.StdioClientTransport,
    listPage: params => client.listTools(params),
    // Each listTools() replaces all output validators by the validators of its page,
    // so the page with the tool whose output is validated comes last.
    prepareValidation: async page => void await client.listTools(page),
    callTool: (params, options) => client.callTool(params, undefined, options),
    onToolsChanged: handler => client.setNotificationHandler(ToolListChangedNotificationSchema, handler),
  };
}

async function loadClient2(mode) {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const client = new Client(NAME, mode && { versionNegotiation: { mode } });
  return {
    client,
    Http: StreamableHTTPClientTransport,
    Stdio: StdioClientTransport,
    // listTools() without a cursor walks all pages itself; request() gives the raw page.
    listPage: params => client.request({ method: 'tools/list', params }),
    // Fills the cache that output validation and the Mcp-Param-* headers read.
    prepareValidation: async () => (await client.listTools()).tools.map(tool => tool.name),
    callTool: (params, options) => client.callTool(params, options),
    onToolsChanged: handler => client.setNotificationHandler('notifications/tools/list_changed', handler),
  };
}

function parseArguments(argv) {
  const [flag, client, transport, ...rest] = argv;
  const isKnown = flag === '--client' && client in CLIENTS;
  if (!isKnown || !['--http', '--stdio'].includes(transport) || rest.length === 0) {
    console.error(`usage: client.mjs --client ${Object.keys(CLIENTS).join('|')} (--http URL | --stdio COMMAND ARG...)`);
    process.exit(2);
  }
  return { client, transport, rest };
}

function makeTransport({ Http, Stdio }, { transport, rest }) {
  if (transport === '--stdio') {
    return new Stdio({ command: rest[0], args: rest.slice(1), env: process.env });
  }
  const token = process.env.CALLGATE_TOKEN;
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  return new Http(new URL(rest[0]), { requestInit: { headers } });
}

const print = (step, details) => process.stdout.write(JSON.stringify({ step, ...details }) + '\n');

/** The outcome of a call that may be answered by a result or by an error. */
async function outcome(promise) {
  try {
    return { result: await promise };
  } catch (error) {
    // sdk1 puts the HTTP status into `code`, where JSON-RPC codes are negative.
    const http = error.data?.status ?? (error.code > 0 ? error.code : undefined);
    return { error: { code: error.code, message: error.message, ...(http && { http }) } };
  }
}

async function listTools(listPage) {
  const pages = [];
  const cursors = new Set();
  let params;
  for (;;) {
    const { tools, nextCursor } = await listPage(params);
    pages.push({ params, tools });
    if (nextCursor === undefined) break;
    if (cursors.has(nextCursor)) throw new Error(`tools/list repeats the cursor ${nextCursor}`);
    cursors.add(nextCursor);
    params = { cursor: nextCursor };
  }
  const tools = pages.flatMap(page => page.tools);
  return { pages, tools, names: tools.map(tool => tool.name) };
}

async function run(options) {
  const { load, mode } = CLIENTS[options.client];
  const library = await load(mode);
  const { client, callTool } = library;
  client.onerror = error => console.error('onerror:', error.message);
  const transport = makeTransport(library, options);

  // Both libraries tell the transport the negotiated version; transports over stdio do not need it.
  let protocol;
  const setProtocolVersion = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = version => {
    protocol = version;
    setProtocolVersion?.(version);
  };

  await client.connect(transport);
  const modern = protocol >= '2026-07-28';
  const capabilities = client.getServerCapabilities() ?? {};
  print('connect', { protocol, server: client.getServerVersion(), capabilities });

  const listed = await listTools(library.listPage);
  const page = listed.pages.find(({ tools }) => tools.some(tool => tool.name === 'content_types_list'));
  const accepted = await library.prepareValidation(page?.params) ?? listed.names;
  const dropped = listed.names.filter(name => !accepted.includes(name));
  print('list', { pages: listed.pages.length, tools: listed.names, ...(dropped.length && { dropped }) });

  const article = id => callTool({ name: 'content_article_markdown', arguments: { id } });
  print('works', { result: await article(1) });

  const schema = listed.tools.find(tool => tool.name === 'content_types_list')?.outputSchema;
  const types = await callTool({ name: 'content_types_list', arguments: {} });
  print('structured', { outputSchema: schema !== undefined, result: types });

  print('fails', await outcome(article(999)));
  print('bad_argument', await outcome(article('x')));
  print('forbidden', await outcome(callTool({ name: 'content_article_delete', arguments: { id: 1 } })));
  print('unknown', await outcome(callTool({ name: 'nothing_here', arguments: {} })));

  print('cancel', await cancel(callTool, article));

  const notifications = [];
  const report = await callTool(
    { name: 'report_yearly', arguments: { seconds: 6 } },
    { onprogress: progress => notifications.push(progress) },
  );
  print('progress', { notifications, result: report });

  print('resources', await readResources(client, capabilities));
  print('ping', await ping(client, capabilities, modern));

  if (capabilities.tools?.listChanged) {
    print('changed', await waitForChange(library, modern));
  } else {
    print('changed', { skipped: 'no capability: tools.listChanged' });
  }

  const terminated = transport.sessionId !== undefined;
  if (terminated) await transport.terminateSession();
  await client.close();
  print('closed', { ...(terminated && { terminated }) });
}

async function cancel(callTool, article) {
  const controller = new AbortController();
  const started = Date.now();
  const call = callTool(
    { name: 'report_yearly', arguments: { seconds: 20 } },
    { signal: controller.signal },
  );
  const pending = outcome(call);
  await sleep(300);
  controller.abort('no longer wanted');
  const { result, error } = await pending;
  const ms = Date.now() - started;
  const second = await article(1);
  return { rejected: error !== undefined, message: error?.message, alive: !second.isError, ms, ...(result && { result }) };
}

async function readResources(client, capabilities) {
  const details = {};
  if (capabilities.resources) {
    const { resources } = await client.listResources();
    details.resources = resources;
    if (resources.length > 0) {
      const { contents } = await client.readResource({ uri: resources[0].uri });
      details.read = (contents[0]?.text ?? contents[0]?.blob)?.slice(0, 200);
    }
    details.templates = (await client.listResourceTemplates()).resourceTemplates;
  }
  if (capabilities.prompts) {
    details.prompts = (await client.listPrompts()).prompts;
  }
  const missing = ['resources', 'prompts'].filter(name => !capabilities[name]);
  return { ...details, ...(missing.length && { skipped: `no capability: ${missing.join(', ')}` }) };
}

async function ping(client, capabilities, modern) {
  if (modern) return { skipped: 'revision 2026-07-28 has neither ping nor logging/setLevel' };
  const result = await client.ping();
  if (!capabilities.logging) return { result, skipped: 'no capability: logging' };
  return { result, logging: await client.setLoggingLevel('warning') };
}

async function waitForChange({ client, listPage, onToolsChanged }, modern) {
  const changed = new Promise(resolve => onToolsChanged(resolve));
  // A modern server sends change notifications only on a subscriptions/listen stream.
  const subscription = modern ? await client.listen({ toolsListChanged: true }) : undefined;
  print('ready_for_change', { ...(subscription && { honored: subscription.honoredFilter }) });
  await withTimeout(CHANGE_WAIT_MS, changed, 'no tools/list_changed notification');
  const { names } = await listTools(listPage);
  await subscription?.close();
  return { tools: names };
}

function withTimeout(ms, promise, message) {
  let timer;
  const timeout = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(message)), ms);
  });
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
}

// The libraries write some warnings with console.debug(), which goes to stdout.
console.debug = console.info = console.log = console.error;

const options = parseArguments(process.argv.slice(2));
try {
  await run(options);
} catch (error) {
  console.error(error);
  process.exit(1);
}
