// Loads the tools of an MCP server with the AI SDK. Prints the name and the parameters of each tool as JSON.
import { createMCPClient } from '@ai-sdk/mcp';
import { asSchema } from 'ai';

const headers = { Authorization: `Bearer ${process.env.CALLGATE_TOKEN}` };
const client = await createMCPClient({ transport: { type: 'http', url: process.argv[2], headers } });
const tools = await client.tools();
const schemas = Object.entries(tools).map(([name, tool]) => [name, asSchema(tool.inputSchema).jsonSchema]);
process.stdout.write(JSON.stringify(Object.fromEntries(await Promise.all(schemas))));
await client.close();
