// The view as a picture: the tiles drawn again at the screen's or the full resolution, a scale bar,
// the measured line, a caption, and the caption and the link as text inside the PNG.

import type { Channel } from "./data";
import { h } from "./dom";
import { type Grid, type Rectangle, TILE } from "./geometry";
import type { Layer } from "./layers";
import { bar, barOf } from "./scale";
import { draw } from "./tiles";

/** Tiles requested at once. */
const AT_ONCE = 6;
/** The pixels between planes that are drawn side by side, at factor 1. */
const GAP = 4;

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
  /** The measured line, in units, and its length. */
  line: { from: { x: number; y: number }; to: { x: number; y: number }; says: string } | null;
}

/** A picture that can be made. */
export interface Choice {
  says: string;
  width: number;
  height: number;
  planes: Plane[];
  /** What parts of it are, and where these begin. */
  titles: { says: string; left: number }[];
}

/** How the scale bar is drawn. */
export interface BarLook {
  /** As typed; empty for a round length. */
  length: string;
  place: "bottom left" | "bottom right" | "top left" | "top right";
  /** `#rrggbb`. */
  colour: string;
}

/** What is drawn beside the tiles. */
export interface Extras {
  bar: BarLook | null;
  line: boolean;
  /** Below the picture; empty for none. */
  caption: string;
}

/** A picture so many times as large. */
export const enlarged = (choice: Choice, factor: number): Choice => ({
  ...choice,
  width: choice.width * factor,
  height: choice.height * factor,
  titles: choice.titles.map((title) => ({ ...title, left: title.left * factor })),
  planes: choice.planes.map((plane) => ({
    ...plane,
    left: plane.left * factor,
    top: plane.top * factor,
    width: plane.width * factor,
    height: plane.height * factor,
    scale: plane.scale * factor,
  })),
});

/** Pictures of one size in a row, each with its title. */
export function sideBySide(choices: [string, Choice][]): Choice {
  const [[, first]] = choices as [[string, Choice]];
  const left = (i: number) => i * (first.width + GAP);
  return {
    ...first,
    width: left(choices.length) - GAP,
    titles: choices.map(([says], i) => ({ says, left: left(i) })),
    planes: choices.flatMap(([, { planes }], i) =>
      planes.map((plane) => ({ ...plane, left: plane.left + left(i) })),
    ),
  };
}

/** Draws the tiles of a plane. */
async function drawPlane(
  context: CanvasRenderingContext2D,
  plane: Plane,
  signal: AbortSignal,
): Promise<void> {
  const { layers, part, left, top, width, height, scale } = plane;
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.imageSmoothingEnabled = scale < 0.99;
  // Where data is missing, the picture is transparent.
  if (layers.some((layer) => layer.mayMiss))
    context.clearRect(
      left - part.x * scale,
      top - part.y * scale,
      plane.grid.width * scale,
      plane.grid.height * scale,
    );
  for (const [index, layer] of layers.entries()) {
    const level = layer.grid.best(scale);
    const first = layer.grid.tileAt(level, part.x, part.y);
    const last = layer.grid.tileAt(level, part.x + part.width, part.y + part.height);
    const tiles = [];
    for (let row = first.row; row <= last.row; row += 1)
      for (let column = first.column; column <= last.column; column += 1)
        tiles.push({ level, row, column });
    while (tiles.length) {
      const now = tiles.splice(0, AT_ONCE);
      const drawn = await Promise.all(
        now.map((tile) => draw(layer.address(level, tile.row, tile.column), layer, tile, signal)),
      );
      context.globalAlpha = layer.opacity;
      context.globalCompositeOperation = index > 0 && layer.adds ? "lighter" : "source-over";
      now.forEach((tile, i) => {
        const inside = layer.grid.inside(level, tile.column, tile.row);
        const place = layer.grid.bounds(level, tile.column, tile.row);
        const x = (units: number) => left + Math.floor((units - part.x) * scale + 0.501);
        const y = (units: number) => top + Math.floor((units - part.y) * scale + 0.501);
        const [x0, y0, x1, y1] = [
          x(place.x),
          y(place.y),
          x(place.x + place.width),
          y(place.y + place.height),
        ];
        const tileCanvas = drawn[i]?.canvas;
        if (tileCanvas)
          context.drawImage(
            tileCanvas,
            0,
            0,
            Math.min(TILE, inside.width),
            Math.min(TILE, inside.height),
            x0,
            y0,
            Math.max(1, x1 - x0),
            Math.max(1, y1 - y0),
          );
      });
    }
  }
  context.restore();
}

/** The side of letters on a picture. */
const sizeOf = ({ width }: Choice): number => Math.max(11, Math.min(48, Math.round(width / 70)));

/** Text or a line that is seen on any ground: drawn in a colour, with an edge of black or white. */
function edged(context: CanvasRenderingContext2D, colour: string, width: number): void {
  const light = [1, 3, 5].reduce((sum, at) => sum + parseInt(colour.slice(at, at + 2), 16), 0);
  context.fillStyle = colour;
  context.strokeStyle = light > 380 ? "#000" : "#fff";
  context.lineWidth = width;
  context.lineJoin = "round";
}

function drawBar(
  context: CanvasRenderingContext2D,
  { channel, grid, scale, left, top, width, height }: Plane,
  size: number,
  look: BarLook,
): void {
  const found = look.length
    ? barOf(channel, grid.plane, scale, look.length)
    : bar(channel, grid.plane, scale, Math.max(width / 5, 40));
  if (!found) return;
  const thick = Math.max(2, Math.round(size / 5));
  const [pixels, above] = [Math.max(1, Math.round(found.pixels)), look.place.startsWith("top")];
  const x = look.place.endsWith("left") ? left + size : left + width - size - pixels;
  const y = above ? top + size : top + height - size - thick;
  edged(context, look.colour, thick / 2);
  context.strokeRect(x, y, pixels, thick);
  context.fillRect(x, y, pixels, thick);
  context.font = `${size}px system-ui, sans-serif`;
  context.textAlign = "center";
  const place = [x + pixels / 2, above ? y + thick + size * 1.1 : y - size / 3] as const;
  context.strokeText(found.says, ...place);
  context.fillText(found.says, ...place);
  context.textAlign = "start";
}

const LINE = "#ffe066";

function drawLine(
  context: CanvasRenderingContext2D,
  { line, part, scale, left, top, width, height }: Plane,
  size: number,
): void {
  if (!line) return;
  const [from, to] = [line.from, line.to].map(({ x, y }) => ({
    x: left + (x - part.x) * scale,
    y: top + (y - part.y) * scale,
  })) as [{ x: number; y: number }, { x: number; y: number }];
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.strokeStyle = LINE;
  context.lineWidth = Math.max(2, size / 7);
  context.beginPath();
  context.moveTo(from.x, from.y);
  context.lineTo(to.x, to.y);
  context.stroke();
  edged(context, LINE, size / 6);
  context.font = `${size}px system-ui, sans-serif`;
  context.strokeText(line.says, to.x + size / 2, to.y - size / 3);
  context.fillText(line.says, to.x + size / 2, to.y - size / 3);
  context.restore();
}

/** Lines that fit a width. */
function wrapped(context: CanvasRenderingContext2D, text: string, width: number): string[] {
  return text.split(" · ").reduce<string[]>((lines, part) => {
    const longer = lines.length ? `${lines.at(-1)} · ${part}` : part;
    return lines.length && context.measureText(longer).width <= width
      ? [...lines.slice(0, -1), longer]
      : [...lines, part];
  }, []);
}

async function render(
  choice: Choice,
  extras: Extras,
  signal: AbortSignal,
): Promise<HTMLCanvasElement> {
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  const size = sizeOf(choice);
  context.font = `${size}px system-ui, sans-serif`;
  const lines = extras.caption ? wrapped(context, extras.caption, choice.width - 2 * size) : [];
  canvas.width = choice.width;
  canvas.height = choice.height + (lines.length ? Math.ceil((lines.length * 1.4 + 1) * size) : 0);
  context.fillStyle = "#000";
  context.fillRect(0, 0, canvas.width, choice.height);
  for (const plane of choice.planes) await drawPlane(context, plane, signal);
  for (const plane of choice.planes) {
    if (extras.line) drawLine(context, plane, size);
    if (extras.bar) drawBar(context, plane, size, extras.bar);
  }
  edged(context, "#ffffff", size / 6);
  context.font = `${size}px system-ui, sans-serif`;
  for (const { says, left } of choice.titles) {
    context.strokeText(says, left + size, 1.6 * size);
    context.fillText(says, left + size, 1.6 * size);
  }
  context.fillStyle = "#fff";
  context.fillRect(0, choice.height, canvas.width, canvas.height);
  context.fillStyle = "#111";
  lines.forEach((line, i) => context.fillText(line, size, choice.height + (1.4 * i + 1.5) * size));
  return canvas;
}

/** A picture as a PNG file with texts. */
export async function png(
  choice: Choice,
  extras: Extras,
  texts: Record<string, string>,
  signal: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  const canvas = await render(choice, extras, signal);
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/png"));
  if (!blob) throw new Error("The browser cannot make a picture of this size");
  return withTexts(new Uint8Array(await blob.arrayBuffer()), texts);
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
function withTexts(png: Uint8Array, texts: Record<string, string>): Uint8Array<ArrayBuffer> {
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
