// Asks Perfetto's own trace processor about a trace.
//
//   node query.mjs WEB_DIST TRACE < SQL...      one statement a line; prints one JSON array of rows for each
//
// WEB_DIST holds `engine_bundle.js` and `trace_processor.wasm` of a Perfetto UI. The bundle is the UI's
// worker: it expects a worker's globals, a synchronous request for its wasm, and a message port. It gets them
// here, so the engine that parses the trace is, byte for byte, the one that the UI runs. What goes through the
// port is a stream of `TraceProcessorRpc` messages (protos/perfetto/trace_processor/trace_processor.proto).
import { readFileSync } from "node:fs";
import { join } from "node:path";
import vm from "node:vm";

const [dist, trace] = process.argv.slice(2);
if (!trace) {
  console.error("usage: node query.mjs WEB_DIST TRACE < SQL, a statement a line");
  process.exit(2);
}

// ---- protocol buffers: the four shapes that are needed ----

const varint = (n) => {
  const out = [];
  for (n = BigInt(n); n > 127n; n >>= 7n) out.push(Number(n & 127n) | 128);
  out.push(Number(n));
  return Buffer.from(out);
};
const number = (field, n) => Buffer.concat([varint(field << 3), varint(n)]);
const bytes = (field, b) => Buffer.concat([varint((field << 3) | 2), varint(b.length), b]);

function* fields(b) {
  let at = 0;
  const next = () => {
    let n = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = b[at++];
      n |= BigInt(byte & 127) << shift;
      if (byte < 128) return n;
    }
  };
  while (at < b.length) {
    const key = Number(next());
    const field = key >> 3;
    switch (key & 7) {
      case 0: yield [field, next()]; break;
      case 1: yield [field, b.subarray(at, (at += 8))]; break;
      case 2: { const n = Number(next()); yield [field, b.subarray(at, (at += n))]; break; }
      case 5: yield [field, b.subarray(at, (at += 4))]; break;
      default: throw new Error(`wire type ${key & 7}`);
    }
  }
}
function* varints(b) {
  for (let at = 0; at < b.length; ) {
    let n = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = b[at++];
      n |= BigInt(byte & 127) << shift;
      if (byte < 128) break;
    }
    yield BigInt.asIntN(64, n);
  }
}

// ---- the worker ----

const web = vm.createContext({
  console: { log() {}, warn() {}, error: console.error },
  TextDecoder, TextEncoder, setTimeout, performance, URL, crypto: globalThis.crypto,
});
Object.assign(web, {
  self: web,
  WorkerGlobalScope: class {},
  importScripts() {},
  location: { href: "file:///engine_bundle.js" },
  XMLHttpRequest: class {
    open(_method, url) { this.url = String(url).split("/").pop(); }
    send() { this.response = new Uint8Array(readFileSync(join(dist, this.url))); this.status = 200; }
  },
});
vm.runInContext(readFileSync(join(dist, "engine_bundle.js"), "utf8"), web);

const replies = [];
const port = {
  postMessage(data) {
    for (const [field, message] of fields(Buffer.from(data))) if (field === 1) replies.push(Buffer.from(message));
  },
};
web.onmessage({ data: port });
// The engine has its buffer one microtask after its wasm; both are there when timers run.
await new Promise((done) => setTimeout(done, 0));

const InThere = vm.runInContext("Uint8Array", web);
let seq = 0n;
function call(method, ...args) {
  replies.length = 0;
  const message = Buffer.concat([number(1, seq++), number(2, method), ...args]);
  port.onmessage({ data: InThere.from(bytes(1, message)) });
  for (const reply of replies) {
    for (const [field, value] of fields(reply)) if (field === 5) throw new Error(`fatal: ${value}`);
  }
  return replies;
}
const [APPEND, FINALIZE, QUERY] = [1, 2, 3];

function query(sql) {
  let names = [];
  const cells = [];
  for (const reply of call(QUERY, bytes(103, bytes(1, Buffer.from(sql))))) {
    for (const [field, result] of fields(reply)) {
      if (field !== 203) continue;
      const columns = [];
      for (const [f, v] of fields(result)) {
        if (f === 1) columns.push(v.toString());
        if (f === 2) throw new Error(`${sql}: ${v}`);
        if (f === 3) cells.push(...batch(v));
      }
      if (columns.length) names = columns;
    }
  }
  const rows = [];
  for (let i = 0; i < cells.length; i += names.length) {
    rows.push(Object.fromEntries(names.map((n, k) => [n, cells[i + k]])));
  }
  return rows;
}

// A batch of cells: their kinds, and the values by kind.
function batch(b) {
  const kinds = [], whole = [], real = [], text = [];
  for (const [field, value] of fields(b)) {
    if (field === 1) kinds.push(...varints(value));
    if (field === 2) whole.push(...varints(value));
    if (field === 3) for (let i = 0; i < value.length; i += 8) real.push(value.readDoubleLE(i));
    if (field === 5) text.push(...value.toString().split("\0"));
  }
  return kinds.map((k) => {
    switch (Number(k)) {
      case 2: return Number(whole.shift());
      case 3: return real.shift();
      case 4: return text.shift();
      default: return null;
    }
  });
}

call(APPEND, bytes(101, readFileSync(trace)));
call(FINALIZE);
for (const sql of readFileSync(0, "utf8").split("\n").filter((line) => line.trim())) {
  console.log(JSON.stringify(query(sql)));
}
// The engine keeps nothing open, but let nothing keep us.
process.exit(0);
