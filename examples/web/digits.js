/* A drawing is a list of strokes, each a list of points (x, y from 0 to 280).  It is kept in the address after "#", so
 * that a drawing is a link: index.html#[[[140,30],[140,250]]] */
import { load } from "./rushlight.mjs";

const paper = document.getElementById("paper"), pen = paper.getContext("2d", { willReadFrequently: true });
const model = await load(await fetch("digits.wasm"));
let strokes = [];

function draw() {
  pen.clearRect(0, 0, 280, 280);
  pen.lineWidth = 26;
  pen.lineCap = pen.lineJoin = "round";
  for (const stroke of strokes) {
    pen.beginPath();
    for (const [x, y] of stroke) pen.lineTo(x, y);
    if (stroke.length === 1) pen.lineTo(stroke[0][0] + 0.1, stroke[0][1]);
    pen.stroke();
  }
}

/* What the network was trained on: the drawing as large as it fits into 32 x 32 dots, then how many dots of each
 * 4 x 4 are black, from -1 to 1. */
function picture() {
  const { data } = pen.getImageData(0, 0, 280, 280);
  const inked = (x, y) => data[4 * (280 * y + x) + 3] > 127;
  let left = 280, right = -1, top = 280, bottom = -1;
  for (let y = 0; y < 280; y++)
    for (let x = 0; x < 280; x++)
      if (inked(x, y)) {
        left = Math.min(left, x), right = Math.max(right, x);
        top = Math.min(top, y), bottom = Math.max(bottom, y);
      }
  const side = Math.max(right - left, bottom - top) + 1, found = new Float32Array(64).fill(-1);
  const x0 = (left + right + 1 - side) / 2, y0 = (top + bottom + 1 - side) / 2;
  for (let v = 0; v < 32; v++)
    for (let u = 0; u < 32; u++) {
      const x = Math.floor(x0 + (u + 0.5) * side / 32), y = Math.floor(y0 + (v + 0.5) * side / 32);
      if (x >= 0 && y >= 0 && x < 280 && y < 280 && inked(x, y)) found[8 * (v >> 2) + (u >> 2)] += 1 / 8;
    }
  return found;
}

function classify() {
  draw();
  const began = performance.now(), [scores] = strokes.length ? model.run([picture()]) : [[]];
  const most = Math.max(...scores), parts = [...scores].map((s) => Math.exp(s - most));
  const total = parts.reduce((a, b) => a + b, 0);
  document.getElementById("guess").textContent = strokes.length ? scores.indexOf(most) : "";
  document.getElementById("scores").innerHTML =
    parts.map((p, k) => `<div>${k}<span style="width:${(12 * p / total).toFixed(2)}em"></span></div>`).join("");
  document.getElementById("time").textContent =
    strokes.length ? `in ${(performance.now() - began).toFixed(1)} ms` : "";
}

const point = (event) => [Math.round(event.offsetX), Math.round(event.offsetY)];
paper.addEventListener("pointerdown", (event) => {
  paper.setPointerCapture(event.pointerId);
  strokes.push([point(event)]);
  classify();
});
paper.addEventListener("pointermove", (event) => {
  if (!event.buttons || !strokes.length) return;
  strokes.at(-1).push(point(event));
  classify();
});
paper.addEventListener("pointerup", () => history.replaceState(null, "", "#" + JSON.stringify(strokes)));
document.getElementById("clear").addEventListener("click", () => {
  strokes = [];
  history.replaceState(null, "", "#");
  classify();
});
function follow() {
  const told = decodeURIComponent(location.hash.slice(1));
  strokes = told ? JSON.parse(told) : [];
  classify();
}
addEventListener("hashchange", follow);
follow();
