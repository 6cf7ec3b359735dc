// Runs the simulator beside the page. The page sends the compiled module, then what it asks; a run goes on in
// pieces of a few tens of milliseconds, so that a message that ends it is heard.
"use strict";

const PIECE = 40;
const [encoder, decoder] = [new TextEncoder(), new TextDecoder()];
let simulator;
let run = 0;

/** The answer to a request; of a panic, what it said is the error. */
function ask(request) {
  const bytes = encoder.encode(JSON.stringify(request));
  // First the room: taking it may grow the memory, which is another buffer then.
  const room = simulator.room(bytes.length);
  new Uint8Array(simulator.memory.buffer, room, bytes.length).set(bytes);
  const text = (at, length) => decoder.decode(new Uint8Array(simulator.memory.buffer, at, length));
  let length;
  try {
    length = simulator.ask();
  } catch (trapped) {
    throw new Error(text(simulator.panic_text(), simulator.panic_length()) || String(trapped));
  }
  return JSON.parse(text(simulator.answer(), length));
}

const rest = ms => new Promise(done => setTimeout(done, ms));

async function simulate({ text, seed, point, pace }) {
  const own = ++run;
  const began = ask({ ask: "begin", text, seed, point });
  if (began.error) return postMessage({ refused: began });
  postMessage({ began });
  const begin = performance.now();
  let busy = 0;
  for (let ended = false; !ended;) {
    const from = performance.now();
    const steps = [];
    let step;
    do {
      step = ask({ ask: "step" });
      if (step.error) return postMessage({ refused: step });
      steps.push(step);
      ended = step.is_end;
    } while (!ended && performance.now() - from < PIECE && !(pace && due(step) > performance.now() - begin));
    busy += performance.now() - from;
    postMessage({ steps, busy });
    if (!ended) await rest(pace ? Math.max(0, due(step) - (performance.now() - begin)) : 0);
    if (own !== run) return;
  }
  postMessage({ outcome: ask({ ask: "outcome" }), busy });

  /** When this step is to be seen, since the beginning. */
  function due(step) { return step.at_ns / began.duration_ns * pace * 1000; }
}

onmessage = async ({ data }) => {
  try {
    if (data.module) {
      simulator = (await WebAssembly.instantiate(data.module)).exports;
      simulator.note_panics();
      postMessage({ words: ask({ ask: "words" }) });
    }
    if (data.files) ask({ ask: "files", files: data.files });
    if (data.check !== undefined) postMessage({ checked: ask({ ask: "check", text: data.check }), of: data.check });
    if (data.end) { run++; postMessage({ heard: true }); }
    if (data.run) await simulate(data.run);
  } catch (why) {
    postMessage({ panic: why.message });
  }
};
