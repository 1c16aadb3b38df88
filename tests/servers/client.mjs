// A client of the TypeScript SDK that does what it is told, for tests.
//
//     node client.mjs v1|v2 MODE
//
// Each line of input is a JSON array: what to do, and its arguments; each line of output is
// {"result": …} or {"error": {"code", "message"}}. `connect COMMAND [arguments]` starts a server: all
// that follows is done with it, by a new client. It answers what it is asked as
// eras.py says that every client here does.

import { createInterface } from "node:readline";

const [generation, mode] = process.argv.slice(2);
const LOG_LEVEL = "io.modelcontextprotocol/logLevel";

const v1 = generation === "v1";
const base = v1 ? "@modelcontextprotocol/sdk/client" : "@modelcontextprotocol/client";
const { Client } = await import(v1 ? `${base}/index.js` : base);
const { StdioClientTransport } = await import(v1 ? `${base}/stdio.js` : `${base}/stdio`);
const types = v1 ? await import("@modelcontextprotocol/sdk/types.js") : {};

const SCHEMAS = {
  "sampling/createMessage": "CreateMessageRequestSchema",
  "elicitation/create": "ElicitRequestSchema",
  "roots/list": "ListRootsRequestSchema",
  "notifications/message": "LoggingMessageNotificationSchema",
  "notifications/resources/updated": "ResourceUpdatedNotificationSchema",
  "notifications/tools/list_changed": "ToolListChangedNotificationSchema",
};
const known = (method) => (v1 ? types[SCHEMAS[method]] : method);

const answers = {
  "sampling/createMessage": {
    role: "assistant", model: "none", content: { type: "text", text: "sampled" },
  },
  "elicitation/create": { action: "accept", content: { answer: "elicited" } },
  "roots/list": { roots: [{ uri: "file:///root" }] },
};
const isModern = mode !== "legacy";
const text = (result) => result.content.map((block) => block.text ?? "").join("");

// What can be done with one server.
const session = (command, args) => {
  const client = new Client(
    { name: "typescript", version: "1" },
    {
      capabilities: { sampling: {}, elicitation: {}, roots: {} },
      ...(v1 ? {} : { versionNegotiation: { mode } }),
    },
  );
  for (const [method, answer] of Object.entries(answers))
    client.setRequestHandler(known(method), async () => answer);

  // What was heard and nobody took, and who waits for it.
  const heard = {};
  const waiting = {};
  for (const method of ["message", "resources/updated", "tools/list_changed"])
    client.setNotificationHandler(known(`notifications/${method}`), (message) => {
      if (waiting[method]) waiting[method].shift()(message.params ?? {});
      else (heard[method] ??= []).push(message.params ?? {});
      if (waiting[method]?.length === 0) delete waiting[method];
    });
  const next = (method) =>
    heard[method]?.length
      ? heard[method].shift()
      : new Promise((resolve) => (waiting[method] ??= []).push(resolve));

  const callTool = (name, options, meta) => {
    const params = { name, arguments: { uri: "res://one" }, ...(meta ? { _meta: meta } : {}) };
    return v1 ? client.callTool(params, undefined, options) : client.callTool(params, options);
  };
  const during = async (filter, action) => {
    const stream = isModern ? await client.listen(filter) : undefined;
    const outcome = await action();
    await stream?.close();
    return outcome;
  };

  return {
    connect: () => client.connect(new StdioClientTransport({ command, args })),
    names: async () => ({
      tools: (await client.listTools()).tools.map((one) => one.name),
      prompts: (await client.listPrompts()).prompts.map((one) => one.name),
      resources: (await client.listResources()).resources.map((one) => one.uri),
      templates: (await client.listResourceTemplates()).resourceTemplates.map((t) => t.uriTemplate),
    }),
    call: async (name) => text(await callTool(name)),
    get: async (name) => JSON.stringify((await client.getPrompt({ name })).messages),
    read: async (uri) => JSON.stringify((await client.readResource({ uri })).contents),
    complete: async (name, argument) => {
      const ref = { type: "ref/prompt", name };
      const params = { ref, argument: { name: argument, value: "v" } };
      return (await client.complete(params)).completion.values.join();
    },
    progress: async (name) => {
      // The SDK forgets who waits for progress with the answer, which may come in the same read: so
      // this is a call that goes on.
      const controller = new AbortController();
      return new Promise((resolve) => {
        const onprogress = ({ progress }) => resolve([progress]);
        callTool(name, { onprogress, signal: controller.signal }).catch(() => {});
      }).finally(() => controller.abort("enough"));
    },
    cancel: async (name) => {
      const controller = new AbortController();
      const call = callTool(name, {
        signal: controller.signal, onprogress: () => controller.abort("enough"),
      });
      return call.then(() => "answered", () => "cancelled");
    },
    log: async (name) => {
      if (!isModern) await client.setLoggingLevel("info");
      await callTool(name, undefined, isModern ? { [LOG_LEVEL]: "info" } : undefined);
      return (await next("message")).level;
    },
    watch: (name, uri) =>
      during({ resourceSubscriptions: [uri] }, async () => {
        if (!isModern) await client.subscribeResource({ uri });
        await callTool(name);
        const found = (await next("resources/updated")).uri;
        if (!isModern) await client.unsubscribeResource({ uri });
        return found;
      }),
    change: (name) =>
      during({ toolsListChanged: true }, async () => {
        await callTool(name);
        await next("tools/list_changed");
        return (await client.listTools()).tools.map((one) => one.name);
      }),
    close: () => client.close(),
  };
};

let actions;
for await (const line of createInterface({ input: process.stdin })) {
  const [action, ...given] = JSON.parse(line);
  if (action === "connect") actions = session(given.shift(), given);
  let answer;
  try {
    answer = { result: (await actions[action](...given)) ?? null };
  } catch (error) {
    answer = { error: { code: error.code ?? 0, message: String(error.message) } };
  }
  console.log(JSON.stringify(answer));
}
