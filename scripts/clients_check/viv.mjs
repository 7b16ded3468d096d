// Reads boxes of OME-Zarr images with Viv's loaders. Each line of the input is a request, {url, level, time, box, file}, and
// each line of the output an answer, {dtype} or {error}. The voxels go into the file: whole planes cut to the box, in the
// order c, z, y, x. Viv reads planes, which is what its viewers draw.

import { closeSync, openSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";

import { loadOmeZarr } from "@vivjs/loaders";

async function read({ url, level, time, box, file }) {
  const { data } = await loadOmeZarr(url, { type: "multiscales" });
  const source = data[level];
  const has = (axis) => source.labels.includes(axis);
  const out = openSync(file, "w");
  try {
    for (let c = 0; c < (has("c") ? box.c : 1); c++) {
      for (let z = 0; z < (has("z") ? box.z : 1); z++) {
        const at = { t: time, c, z };
        const selection = Object.fromEntries(Object.entries(at).filter(([axis]) => has(axis)));
        const raster = await source.getRaster({ selection });
        for (let y = 0; y < box.y; y++) {
          const row = raster.data.subarray(y * raster.width, y * raster.width + box.x);
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
