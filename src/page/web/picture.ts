// Draws the view as a picture in a PNG file. The tiles are drawn again, at the screen's or the full
// resolution, with a scale bar, the measured line and a caption. The file can also hold texts, such
// as the caption and the link.

import { type Channel, sum } from "./data";
import { clamp, type Grid, type Rectangle } from "./geometry";
import type { Layer } from "./layers";
import { type Code, partsOf } from "./paint";
import { withTexts } from "./png";
import { typedBar, roundBar } from "./scale";
import { draw, type Position } from "./tiles";

/** The number of tiles that are requested at once. */
const AT_ONCE = 6;
/** The gap between pictures that are drawn side by side, in pixels before enlargement. */
const GAP = 4;

/** A point in a plane, in units of its grid, or a point on a picture, in pixels. */
interface Point {
  x: number;
  y: number;
}

/** The ends of a measured line, in units of the grid, and the length that is written beside it. */
export interface DrawnLine {
  from: Point;
  to: Point;
  says: string;
}

/** A plane to draw on a picture. */
export interface Plane {
  grid: Grid;
  layers: Layer[];
  /** The part of the plane that is drawn, in units of the grid. */
  part: Rectangle;
  /** Where the part is drawn, in pixels of the picture. */
  left: number;
  top: number;
  width: number;
  height: number;
  /** The number of pixels of the picture per unit of the grid. */
  scale: number;
  /** The channel whose voxel size the scale bar uses. */
  channel: Channel | undefined;
  line: DrawnLine | null;
}

/** A picture that can be made; `says` is what the page calls it. */
export interface Choice {
  says: string;
  width: number;
  height: number;
  planes: Plane[];
  /** The titles of pictures side by side, and the left edge of each, in pixels. */
  titles: { says: string; left: number }[];
}

/** How the scale bar is drawn. */
export interface BarLook {
  /** The length as it was typed; empty for a round length. */
  length: string;
  place: "bottom left" | "bottom right" | "top left" | "top right";
  colour: Code;
}

/** What is drawn on a picture in addition to the tiles. */
export interface Extras {
  /** How the scale bar looks; null for no bar. */
  bar: BarLook | null;
  /** Whether the measured line is drawn. */
  line: boolean;
  /** The text below the picture; empty for none. */
  caption: string;
}

/** A picture enlarged by a factor. */
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

/** One picture that shows pictures of the same size in a row, each with its title. */
export function sideBySide(choices: [string, Choice][]): Choice {
  const [, first] = choices[0] as [string, Choice];
  const left = (index: number) => index * (first.width + GAP);
  return {
    ...first,
    width: left(choices.length) - GAP,
    titles: choices.map(([says], index) => ({ says, left: left(index) })),
    planes: choices.flatMap(([, { planes }], index) =>
      planes.map((plane) => ({ ...plane, left: plane.left + left(index) })),
    ),
  };
}

/** Calls `drawing`, whose strokes show only within the plane's place on the picture. */
async function drawClipped(
  context: CanvasRenderingContext2D,
  { left, top, width, height }: Plane,
  drawing: () => void | Promise<void>,
): Promise<void> {
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  await drawing();
  context.restore();
}

/** The point of the picture at which a point of a plane is drawn. */
const onPicture = ({ part, left, top, scale }: Plane, { x, y }: Point): Point => ({
  x: left + (x - part.x) * scale,
  y: top + (y - part.y) * scale,
});

/**
 * The pixel of the picture nearest to a point of a plane. As on the screen, halves round up, even
 * if they are slightly less because of rounding errors.
 */
function pixelAt(plane: Plane, point: Point): Point {
  const { x, y } = onPicture(plane, point);
  return { x: Math.floor(x + 0.501), y: Math.floor(y + 0.501) };
}

/** Draws the layers of a plane. */
async function drawPlane(
  context: CanvasRenderingContext2D,
  plane: Plane,
  signal: AbortSignal,
): Promise<void> {
  const { layers, grid, scale } = plane;
  // Voxels that are enlarged, or as large as pixels, keep their edges.
  context.imageSmoothingEnabled = scale < 0.99;
  if (layers.some((layer) => layer.mayMiss)) {
    // The plane becomes transparent, and stays so where data is missing.
    const { x, y } = onPicture(plane, { x: 0, y: 0 });
    context.clearRect(x, y, grid.width * scale, grid.height * scale);
  }
  for (const [index, layer] of layers.entries()) {
    context.globalAlpha = layer.opacity;
    context.globalCompositeOperation = index > 0 && layer.adds ? "lighter" : "source-over";
    await drawLayer(context, plane, layer, signal);
  }
}

/** Draws the tiles of a layer; a few of them are fetched at once. */
async function drawLayer(
  context: CanvasRenderingContext2D,
  plane: Plane,
  layer: Layer,
  signal: AbortSignal,
): Promise<void> {
  const { grid } = layer;
  const { x, y, width, height } = plane.part;
  const level = grid.best(plane.scale);
  const first = grid.tileAt(level, x, y);
  const last = grid.tileAt(level, x + width, y + height);
  const tiles: Position[] = [];
  for (let row = first.row; row <= last.row; row += 1) {
    for (let column = first.column; column <= last.column; column += 1) {
      tiles.push({ level, row, column });
    }
  }
  for (let done = 0; done < tiles.length; done += AT_ONCE) {
    const batch = tiles.slice(done, done + AT_ONCE);
    const drawings = batch.map((tile) =>
      draw(layer.address(level, tile.row, tile.column), layer, tile, signal),
    );
    const drawn = await Promise.all(drawings);
    for (const [index, { canvas }] of drawn.entries()) {
      drawTile(context, plane, grid, batch[index] as Position, canvas);
    }
  }
}

/** Draws the part of a tile that lies inside the volume; `canvas` is the whole tile. */
function drawTile(
  context: CanvasRenderingContext2D,
  plane: Plane,
  grid: Grid,
  { level, row, column }: Position,
  canvas: HTMLCanvasElement,
): void {
  const inside = grid.inside(level, column, row);
  const { x, y, width, height } = grid.bounds(level, column, row);
  const from = pixelAt(plane, { x, y });
  const to = pixelAt(plane, { x: x + width, y: y + height });
  const outWidth = Math.max(1, to.x - from.x);
  const outHeight = Math.max(1, to.y - from.y);
  context.drawImage(canvas, 0, 0, inside.width, inside.height, from.x, from.y, outWidth, outHeight);
}

/** The height of letters on a picture, in pixels; it grows with the picture's width. */
const letterHeight = ({ width }: Choice): number => clamp(Math.round(width / 70), 11, 48);

/** The distance between the lines of a caption, in heights of letters. */
const LINE_HEIGHT = 1.4;

const fontOf = (height: number): string => `${height}px system-ui, sans-serif`;

/**
 * Sets the colour of shapes that are drawn next, and of their edges, which are black or white so
 * that the shapes show on any background. `width` is the width of edges in pixels.
 */
function setEdgedColour(context: CanvasRenderingContext2D, colour: Code, width: number): void {
  const isLight = sum(partsOf(colour)) > 380; // about half of 3 × 255
  context.fillStyle = colour;
  context.strokeStyle = isLight ? "#000" : "#fff";
  context.lineWidth = width;
  context.lineJoin = "round";
}

/** Draws a text with the colours that `setEdgedColour` has set. */
function edgedText(context: CanvasRenderingContext2D, text: string, x: number, y: number): void {
  context.strokeText(text, x, y);
  context.fillText(text, x, y);
}

/**
 * Draws a scale bar in a corner of a plane. Its length stands below it in an upper corner, and
 * above it in a lower one. `size` is the height of letters.
 */
function drawBar(
  context: CanvasRenderingContext2D,
  plane: Plane,
  size: number,
  look: BarLook,
): void {
  const { channel, grid, scale, left, top, width, height } = plane;
  const bar = look.length
    ? typedBar(channel, grid.plane, scale, look.length)
    : roundBar(channel, grid.plane, scale, Math.max(width / 5, 40));
  if (!bar) return;
  const long = Math.max(1, Math.round(bar.pixels));
  const thick = Math.max(2, Math.round(size / 5));
  const isAtTop = look.place.startsWith("top");
  const isAtLeft = look.place.endsWith("left");
  const x = isAtLeft ? left + size : left + width - size - long;
  const y = isAtTop ? top + size : top + height - size - thick;
  setEdgedColour(context, look.colour, thick / 2);
  context.strokeRect(x, y, long, thick);
  context.fillRect(x, y, long, thick);
  context.font = fontOf(size);
  context.textAlign = "center";
  const baseline = isAtTop ? y + thick + size * 1.1 : y - size / 3;
  edgedText(context, bar.says, x + long / 2, baseline);
  context.textAlign = "start";
}

/** The colour of the measured line. */
const LINE_COLOUR: Code = "#ffe066";

/** Draws the measured line of a plane with its length at the end. */
function drawLine(context: CanvasRenderingContext2D, plane: Plane, size: number): void {
  if (!plane.line) return;
  const from = onPicture(plane, plane.line.from);
  const to = onPicture(plane, plane.line.to);
  context.strokeStyle = LINE_COLOUR;
  context.lineWidth = Math.max(2, size / 7);
  context.beginPath();
  context.moveTo(from.x, from.y);
  context.lineTo(to.x, to.y);
  context.stroke();
  setEdgedColour(context, LINE_COLOUR, size / 6);
  context.font = fontOf(size);
  edgedText(context, plane.line.says, to.x + size / 2, to.y - size / 3);
}

/** Breaks a caption into lines that fit a width; a line ends only at a ` · `. */
function wrapLines(context: CanvasRenderingContext2D, caption: string, width: number): string[] {
  const [first = "", ...others] = caption.split(" · ");
  const lines: string[] = [];
  let line = first;
  for (const part of others) {
    const longer = `${line} · ${part}`;
    if (context.measureText(longer).width <= width) {
      line = longer;
    } else {
      lines.push(line);
      line = part;
    }
  }
  return [...lines, line];
}

/** Draws a picture and its extras on a new canvas. */
async function render(
  choice: Choice,
  extras: Extras,
  signal: AbortSignal,
): Promise<HTMLCanvasElement> {
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  const size = letterHeight(choice);
  context.font = fontOf(size);
  const lines = extras.caption ? wrapLines(context, extras.caption, choice.width - 2 * size) : [];
  const captionHeight = lines.length ? Math.ceil((lines.length * LINE_HEIGHT + 1) * size) : 0;
  // This also resets the state of the context.
  canvas.width = choice.width;
  canvas.height = choice.height + captionHeight;
  context.fillStyle = "#000";
  context.fillRect(0, 0, canvas.width, choice.height);
  for (const plane of choice.planes) {
    await drawClipped(context, plane, () => drawPlane(context, plane, signal));
  }
  for (const plane of choice.planes) {
    if (extras.line) await drawClipped(context, plane, () => drawLine(context, plane, size));
    if (extras.bar) drawBar(context, plane, size, extras.bar);
  }
  setEdgedColour(context, "#ffffff", size / 6);
  context.font = fontOf(size);
  for (const { says, left } of choice.titles) edgedText(context, says, left + size, 1.6 * size);
  context.fillStyle = "#fff";
  context.fillRect(0, choice.height, canvas.width, canvas.height);
  context.fillStyle = "#111";
  for (const [i, line] of lines.entries()) {
    context.fillText(line, size, choice.height + (LINE_HEIGHT * i + 1.5) * size);
  }
  return canvas;
}

/** Draws a picture as a PNG file that also has texts, by their keywords. */
export async function png(
  choice: Choice,
  extras: Extras,
  texts: Record<string, string>,
  signal: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  const canvas = await render(choice, extras, signal);
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/png"));
  if (!blob) throw new Error("The browser cannot make a picture of this size");
  return withTexts(blob, texts);
}
