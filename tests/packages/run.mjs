/* Runs a model on inputs from files: node run.mjs rushlight.mjs model.wasm repetitions shapes input...
 * It prints each output's numbers as hexadecimal bytes, the milliseconds of a call, and its shapes. */
import { readFileSync } from "node:fs";

const [code, path, times, shapes, ...files] = process.argv.slice(2);
const { load } = await import(code);
const ARRAYS = { float32: Float32Array, int64: BigInt64Array, bfloat16: Uint16Array, float16: Uint16Array };
const model = await load(readFileSync(path));
const inputs = files.map((file, k) => {
  const bytes = new Uint8Array(readFileSync(file));
  return new ARRAYS[model.manifest.inputs[k].dtype](bytes.buffer);
});
let outputs, least = Infinity;
try {
  for (let k = 0; k < Number(times); k++) {
    const began = performance.now();
    outputs = model.run(inputs, JSON.parse(shapes));
    least = Math.min(least, performance.now() - began);
  }
  for (const one of outputs) console.log(Buffer.from(one.buffer).toString("hex"));
  console.log(JSON.stringify({ milliseconds: least, shapes: model.shapes, strides: model.strides }));
} catch (error) {
  console.log(`${error.name}: ${error.message}`);
  process.exit(1);
}
