// The view as a picture file: the tiles drawn again at the screen's or the full resolution, a scale bar, a caption, and the caption
// and the link as text inside the PNG.

import type { Channel } from "./data";
import { h, sheet } from "./dom";
import { type Grid, type Rectangle, TILE } from "./geometry";
import type { Layer } from "./layers";
import { bar } from "./scale";
import { draw } from "./tiles";

const MAX_PIXELS = 64e6;
/** Tiles requested at once. */
const AT_ONCE = 6;

/** A plane to draw: what lies where on the picture is `part`, at so many pixels per unit. */
export interface Plane {
  grid: Grid;
  layers: Layer[];
  part: Rectangle;
  /** Of the picture. */
  left: number;
  top: number;
  width: number;
  height: number;
  scale: number;
  channel: Channel | undefined;
}

/** A picture that can be made. */
export interface Choice {
  says: string;
  width: number;
  height: number;
  planes: Plane[];
}

/** Draws the tiles of a plane. */
async function drawPlane(context: CanvasRenderingContext2D, plane: Plane, signal: AbortSignal): Promise<void> {
  const { layers, part, left, top, width, height, scale } = plane;
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.imageSmoothingEnabled = scale < 0.99;
  // Where data is missing, the picture is transparent.
  if (layers.some((layer) => layer.mayMiss)) context.clearRect(left - part.x * scale, top - part.y * scale, plane.grid.width * scale, plane.grid.height * scale);
  for (const [index, layer] of layers.entries()) {
    const level = layer.grid.best(scale);
    const first = layer.grid.tileAt(level, part.x, part.y);
    const last = layer.grid.tileAt(level, part.x + part.width, part.y + part.height);
    const tiles = [];
    for (let row = first.row; row <= last.row; row += 1) for (let column = first.column; column <= last.column; column += 1) tiles.push({ level, row, column });
    while (tiles.length) {
      const now = tiles.splice(0, AT_ONCE);
      const drawn = await Promise.all(now.map((tile) => draw(layer.address(level, tile.row, tile.column), layer, tile, signal)));
      context.globalAlpha = layer.opacity;
      context.globalCompositeOperation = index > 0 && layer.adds ? "lighter" : "source-over";
      now.forEach((tile, i) => {
        const inside = layer.grid.inside(level, tile.column, tile.row);
        const place = layer.grid.bounds(level, tile.column, tile.row);
        const x = (units: number) => left + Math.floor((units - part.x) * scale + 0.501);
        const y = (units: number) => top + Math.floor((units - part.y) * scale + 0.501);
        const [x0, y0, x1, y1] = [x(place.x), y(place.y), x(place.x + place.width), y(place.y + place.height)];
        const tileCanvas = drawn[i]?.canvas;
        if (tileCanvas) context.drawImage(tileCanvas, 0, 0, Math.min(TILE, inside.width), Math.min(TILE, inside.height), x0, y0, Math.max(1, x1 - x0), Math.max(1, y1 - y0));
      });
    }
  }
  context.restore();
}

function drawBar(context: CanvasRenderingContext2D, { channel, grid, scale, left, top, width, height }: Plane, size: number): void {
  const found = bar(channel, grid.plane, scale, Math.max(width / 5, 40));
  if (!found) return;
  const [x, y] = [left + size, top + height - 1.4 * size];
  context.font = `${size}px system-ui, sans-serif`;
  const wide = Math.max(found.pixels, context.measureText(found.says).width) + size;
  context.fillStyle = "#000a";
  context.fillRect(x - size / 2, y - 1.5 * size, wide, 2.3 * size);
  context.fillStyle = "#fff";
  context.fillRect(x, y, found.pixels, Math.max(2, size / 6));
  context.fillText(found.says, x, y - size / 3);
}

/** Lines that fit a width. */
function wrapped(context: CanvasRenderingContext2D, text: string, width: number): string[] {
  return text.split(" · ").reduce<string[]>((lines, part) => {
    const longer = lines.length ? `${lines.at(-1)} · ${part}` : part;
    return lines.length && context.measureText(longer).width <= width ? [...lines.slice(0, -1), longer] : [...lines, part];
  }, []);
}

async function render(choice: Choice, caption: string, withBar: boolean, withCaption: boolean, signal: AbortSignal): Promise<HTMLCanvasElement> {
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  const size = Math.max(11, Math.min(48, Math.round(choice.width / 70)));
  context.font = `${size}px system-ui, sans-serif`;
  const lines = withCaption ? wrapped(context, caption, choice.width - 2 * size) : [];
  canvas.width = choice.width;
  canvas.height = choice.height + (lines.length ? Math.ceil((lines.length * 1.4 + 1) * size) : 0);
  context.fillStyle = "#000";
  context.fillRect(0, 0, canvas.width, choice.height);
  for (const plane of choice.planes) await drawPlane(context, plane, signal);
  if (withBar) for (const plane of choice.planes) drawBar(context, plane, size);
  context.fillStyle = "#fff";
  context.fillRect(0, choice.height, canvas.width, canvas.height);
  context.fillStyle = "#111";
  context.font = `${size}px system-ui, sans-serif`;
  lines.forEach((line, i) => context.fillText(line, size, choice.height + (1.4 * i + 1.5) * size));
  return canvas;
}

/** The checksum of a PNG's chunks (CRC-32). */
function checksum(bytes: Uint8Array): number {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1;
  }
  return (sum ^ 0xffffffff) >>> 0;
}

/** A PNG with texts (`iTXt`) after its header. */
export function withTexts(png: Uint8Array, texts: Record<string, string>): Uint8Array<ArrayBuffer> {
  const chunks = Object.entries(texts).map(([keyword, text]) => {
    const body = new TextEncoder().encode(`iTXt${keyword}\0\0\0\0\0${text}`);
    const chunk = new Uint8Array(body.length + 8);
    const view = new DataView(chunk.buffer);
    view.setUint32(0, body.length - 4);
    chunk.set(body, 4);
    view.setUint32(body.length + 4, checksum(body));
    return chunk;
  });
  const HEADER = 33; // the signature and the chunk IHDR
  const parts = [png.subarray(0, HEADER), ...chunks, png.subarray(HEADER)];
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((place, part) => {
    whole.set(part, place);
    return place + part.length;
  }, 0);
  return whole;
}

/** Lets the browser save bytes as a file. */
export function save(bytes: BlobPart, type: string, name: string): void {
  const address = URL.createObjectURL(new Blob([bytes], { type }));
  const link = h("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  window.setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

export interface PictureOf {
  choices: Choice[];
  caption: string;
  name: string;
}

/** Asks which picture, and saves it. */
export function pictureSheet({ choices, caption, name }: PictureOf, failed: (error: unknown) => void): HTMLDialogElement {
  const ending = new AbortController();
  const large = (choice: Choice) => choice.width * choice.height > MAX_PIXELS;
  const radios = choices.map((choice, i) => h("input", { type: "radio", name: "resolution", id: `resolution-${i}`, checked: i === 0, disabled: large(choice) }));
  const box = (id: string) => h("input", { type: "checkbox", id, checked: true });
  const [scaled, captioned] = [box("with-scale"), box("with-caption")];
  const button = h("button", { type: "button", autofocus: true }, "Save picture");
  const make = async () => {
    const choice = choices[radios.findIndex((radio) => radio.checked)];
    if (!choice) return;
    button.disabled = true;
    button.textContent = "Drawing …";
    try {
      const canvas = await render(choice, caption, scaled.checked, captioned.checked, ending.signal);
      const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/png"));
      if (!blob) throw new Error("The browser cannot make a picture of this size");
      const texts = { Title: name, Description: caption, Source: location.href, Software: "voltile" };
      save(withTexts(new Uint8Array(await blob.arrayBuffer()), texts), "image/png", `${name}.png`);
    } catch (error) {
      if (!ending.signal.aborted) failed(error);
    }
    dialog.close();
  };
  button.addEventListener("click", () => void make());
  const dialog = sheet("Picture",
    ...choices.map((choice, i) => h("label", { className: "field" }, radios[i], `${choice.says}: ${choice.width} × ${choice.height} pixels`,
      large(choice) && " (more than 64 million; zoom in)")),
    h("label", { className: "field" }, scaled, "Scale bar"),
    h("label", { className: "field" }, captioned, "Caption: ", h("span", {}, caption)),
    button);
  dialog.addEventListener("close", () => ending.abort());
  return dialog;
}
