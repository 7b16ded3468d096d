// Bundles the page and Neuroglancer into a folder: `bundle.mjs FOLDER`, which build.rs calls. For
// each file, FOLDER gets the file itself, a compressed copy (NAME.gz), and a line `NAME DIGEST` in
// the file `etags`.

import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

import { neuroglancer } from "./neuroglancer/bundle.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const target = process.argv[2];
if (!target) throw new Error("usage: bundle.mjs FOLDER");

const web = (name) => path.join(here, "web", name);
const bundled = await build({
  entryPoints: [web("main.ts")],
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022", "chrome116", "firefox124", "safari17.4"],
  legalComments: "inline", // the libraries' licences demand that their notices are kept
  loader: { ".lut": "binary" },
  write: false,
  logLevel: "warning",
});
const styles = await build({
  entryPoints: [web("style.css")],
  minify: true,
  write: false,
  logLevel: "warning",
});

const files = {
  "index.html": await readFile(web("index.html")),
  "page.js": bundled.outputFiles[0].contents,
  "page.css": styles.outputFiles[0].contents,
  "icon.svg": await readFile(web("icon.svg")),
};
for (const [name, contents] of Object.entries(await neuroglancer()))
  files[`neuroglancer/${name}`] = contents;

await mkdir(path.join(target, "neuroglancer"), { recursive: true });
const etags = [];
for (const [name, contents] of Object.entries(files)) {
  await writeFile(path.join(target, name), contents);
  await writeFile(path.join(target, `${name}.gz`), gzipSync(contents, { level: 9 }));
  etags.push(`${name} ${createHash("sha256").update(contents).digest("hex").slice(0, 32)}`);
}
await writeFile(path.join(target, "etags"), `${etags.join("\n")}\n`);
