/* Models packaged by Rushlight as WebAssembly, for browsers and Node.
 *
 *     const model = await load(await fetch("model.wasm"));   // or the bytes of the file
 *     const [scores] = model.run([pixels]);                  // typed arrays in and out
 *
 * `model.manifest` tells names, shapes, strides (in elements) and dtypes of `inputs` and `outputs`.  Where sizes vary
 * (`manifest.varying`), `run` takes the shape of each input, too, and `model.shapes` tells those of its last outputs.
 * Halves are their bits, complex numbers pairs.
 */
const ARRAYS = {
  float32: Float32Array, float64: Float64Array, float16: Uint16Array, bfloat16: Uint16Array, int8: Int8Array,
  uint8: Uint8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array, bool: Uint8Array,
  complex64: Float32Array, complex128: Float64Array };
const PARTS = { complex64: 2, complex128: 2 };  // numbers of an element

/* C's functions by name: those of one precision take and give what WebAssembly converts. */
function mathematics() {
  const found = {};
  for (const name of ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log10",
    "log1p", "log2", "sin", "sinh", "tan", "tanh", "atan2", "pow", "cbrt", "hypot"])
    found[name] = found[name + "f"] = Math[name];
  found.exp2 = found.exp2f = (x) => 2 ** x;
  found.fmod = found.fmodf = (x, y) => x % y;
  return found;
}

export async function load(source) {
  const bytes = typeof source.arrayBuffer === "function" ? await source.arrayBuffer() : source;
  const { instance } = await WebAssembly.instantiate(bytes, { env: mathematics() });
  return new Model(instance.exports);
}

export class Model {
  constructor(library) {
    this.library = library;
    this.model = library.rl_create();
    if (!this.model) throw new Error("there is no memory for the model");
    this.manifest = JSON.parse(this.text(library.rl_manifest()));
    this.shapes = this.manifest.outputs.map((row) => row.shape);
    this.strides = this.manifest.outputs.map((row) => row.strides);
  }

  text(at) {
    const memory = new Uint8Array(this.library.memory.buffer);
    return new TextDecoder().decode(memory.slice(at, memory.indexOf(0, at)));
  }

  /* An address of memory with room for so many bytes. */
  room(bytes) {
    const at = this.library.rl_allocate(BigInt(bytes)) >>> 0;
    if (!at) throw new Error("there is no memory for a call");
    this.held.push(at);
    return at;
  }

  /* An address of 64-bit numbers. */
  words(numbers) {
    const at = this.room(8 * numbers.length + 8);
    new BigInt64Array(this.library.memory.buffer, at, numbers.length).set(numbers.map(BigInt));
    return at;
  }

  refuse(code) {
    if (code !== 0n) throw new Error(this.text(this.library.rl_error(code)));
  }

  /* The outputs for inputs, all typed arrays; `shapes`: of each input, where sizes vary. */
  run(inputs, shapes = null) {
    const { library, manifest } = this;
    if (inputs.length !== manifest.inputs.length)
      throw new TypeError(`the model takes ${manifest.inputs.length} inputs, but got ${inputs.length}`);
    this.held = [];
    try {
      const given = inputs.map((input, k) => this.given(input, manifest.inputs[k], shapes && shapes[k]));
      const table = shapes && this.words(shapes.map((shape) => this.words(shape)));
      if (shapes) this.measure(table);
      const counts = manifest.outputs.map((row, k) => span(this.shapes[k], this.strides[k]) * (PARTS[row.dtype] || 1));
      const made = manifest.outputs.map((row, k) => this.room(counts[k] * ARRAYS[row.dtype].BYTES_PER_ELEMENT));
      const from = this.words(given), to = this.words(made);
      this.refuse(shapes ? library.rl_run_sized(this.model, from, table, to) : library.rl_run(this.model, from, to));
      return manifest.outputs.map((row, k) =>
        new ARRAYS[row.dtype](library.memory.buffer, made[k], counts[k]).slice());
    } finally {
      for (const at of this.held) library.rl_free(at);
    }
  }

  /* The address of a copy of an input. */
  given(input, row, shape) {
    const wanted = shape ? shape.reduce((a, b) => a * b, 1) : span(row.shape, row.strides);
    if (input.constructor !== ARRAYS[row.dtype] || input.length !== wanted * (PARTS[row.dtype] || 1))
      throw new TypeError(`${row.name} is a ${input.constructor.name} of ${input.length} numbers; the model takes ` +
        `${row.dtype} of shape [${shape || row.shape}]`);
    const at = this.room(input.byteLength);
    new input.constructor(this.library.memory.buffer, at, input.length).set(input);
    return at;
  }

  /* Asks for the shapes of outputs. */
  measure(table) {
    const ranks = this.manifest.outputs.map((row) => row.shape.length);
    const at = this.room(16 * ranks.reduce((a, b) => a + b, 0) + 8);
    this.refuse(this.library.rl_output_sizes(table, at));
    let place = at;
    const take = (rank) => {
      const found = [...new BigInt64Array(this.library.memory.buffer, place, rank)].map(Number);
      place += 8 * rank;
      return found;
    };
    ranks.forEach((rank, k) => { this.shapes[k] = take(rank); this.strides[k] = take(rank); });
  }
}

/* How many elements lie between the first and the last one, both included. */
function span(shape, strides) {
  return shape.some((n) => n === 0) ? 0 : shape.reduce((sum, n, k) => sum + (n - 1) * strides[k], 1);
}
