// Reads boxes of OME-Zarr images with Viv's loaders. Each line of the input is a request, {url, level, time, sections, box,
// file}; its answer is a line of the output, {dtype} or {error}. The voxels go into the file, in the order c, z, y, x.
// A plane is read whole if the box contains all of it, otherwise in tiles: Viv's viewers do both.

import { closeSync, openSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";

import { loadOmeZarr } from "@vivjs/loaders";

// The rows of the box in a plane: a list of arrays, which have the voxels in order. Where the plane is read in tiles, each row
// consists of several arrays.
async function rows(source, selection, box) {
  const [height, width] = source.shape.slice(-2);
  if (box.y === height && box.x === width) {
    return rowsOf(await source.getRaster({ selection }), height, width);
  }
  const out = [];
  for (let y = 0; y * source.tileSize < box.y; y++) {
    const tiles = []; // one row of tiles, each as a list of its rows
    for (let x = 0; x * source.tileSize < box.x; x++) {
      const tile = await source.getTile({ x, y, selection });
      const rest = { y: box.y - y * source.tileSize, x: box.x - x * source.tileSize };
      tiles.push(rowsOf(tile, Math.min(tile.height, rest.y), Math.min(tile.width, rest.x)));
    }
    for (let line = 0; line < tiles[0].length; line++) {
      out.push(...tiles.map((tile) => tile[line]));
    }
  }
  return out;
}

// The first rows of a raster, cut to a width.
function rowsOf(raster, height, width) {
  return Array.from({ length: height }, (_, y) => raster.data.subarray(y * raster.width, y * raster.width + width));
}

async function read({ url, level, time, sections, box, file }) {
  const { data } = await loadOmeZarr(url, { type: "multiscales" });
  const source = data[level];
  const has = (axis) => source.labels.includes(axis);
  const out = openSync(file, "w");
  try {
    for (let c = 0; c < (has("c") ? box.c : 1); c++) {
      for (const z of has("z") ? sections : [0]) {
        const at = { t: time, c, z };
        const selection = Object.fromEntries(Object.entries(at).filter(([axis]) => has(axis)));
        for (const row of await rows(source, selection, box)) {
          writeSync(out, new Uint8Array(row.buffer, row.byteOffset, row.byteLength));
        }
      }
    }
  } finally {
    closeSync(out);
  }
  return { dtype: source.dtype };
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await read(JSON.parse(line)).catch((error) => ({ error: `${error.name}: ${error.message}` }));
  console.log(JSON.stringify(answer));
}
