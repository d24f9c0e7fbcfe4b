// The TypeScript SDK's client against one server: node sdk.mjs URL TOKEN [sse]. Prints what happened, as JSON.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { ElicitRequestSchema, LoggingMessageNotificationSchema, ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

const [url, token, kind] = process.argv.slice(2);
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
const eventSourceInit = { fetch: (u, init) => fetch(u, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } }) };
const transport = kind === "sse" ? new SSEClientTransport(new URL(url), { requestInit, eventSourceInit }) : new StreamableHTTPClientTransport(new URL(url), { requestInit });
const client = new Client({ name: "sdk", version: "1" }, { capabilities: { elicitation: {} } });
const seen = { logs: 0, changed: 0, progress: 0, questions: 0 };
client.setNotificationHandler(LoggingMessageNotificationSchema, () => seen.logs++);
client.setNotificationHandler(ToolListChangedNotificationSchema, () => seen.changed++);
client.setRequestHandler(ElicitRequestSchema, async () => {
	seen.questions++;
	return { action: "accept", content: { username: "u", email: "e@example.com" } };
});
await client.connect(transport);
const text = async (name, args = {}, options) => (await client.callTool({ name, arguments: args }, undefined, options)).content[0].text;
const out = {
	tools: (await client.listTools()).tools.length,
	simple: await text("ext_suite_test_simple_text"),
	answered: await text("ext_suite_test_elicitation", { message: "who?" }),
	logged: await text("ext_suite_test_tool_with_logging"),
	progressed: await text("ext_suite_test_tool_with_progress", {}, { onprogress: () => seen.progress++ }),
	resource: (await client.readResource({ uri: "test://template/7/data" })).contents[0].text,
	prompt: (await client.getPrompt({ name: "test_prompt_with_arguments", arguments: { arg1: "a", arg2: "b" } })).messages[0].content.text,
	completed: (await client.complete({ ref: { type: "ref/prompt", name: "test_prompt_with_arguments" }, argument: { name: "arg1", value: "t" } })).completion.values,
};
try {
	await client.callTool({ name: "ext_suite_test_tool_with_progress", arguments: {} }, undefined, { signal: AbortSignal.timeout(30) });
} catch (e) {
	out.aborted = String(e.message);
}
console.log(JSON.stringify({ ...out, ...seen }));
await client.close();
