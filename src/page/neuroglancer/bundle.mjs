// Bundles Neuroglancer (npm's package, Apache-2.0) with the data sources and layers that voltile serves: precomputed
// and Zarr, images and segmentations. The files go below /neuroglancer/.

import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const modules = path.join(here, "..", "node_modules");
const entry = (name) => path.join(modules, "neuroglancer", "lib", `${name}.bundle.js`);

const CONDITIONS = [
  "neuroglancer/datasource:none_by_default",
  "neuroglancer/datasource/precomputed:enabled",
  "neuroglancer/datasource/zarr:enabled",
  // The page may contact only this server, which offers neither buckets nor archives.
  "neuroglancer/kvstore:none_by_default",
  "neuroglancer/kvstore/byte_range:enabled",
  "neuroglancer/kvstore/gzip:enabled",
  "neuroglancer/kvstore/http:enabled",
  "neuroglancer/layer:none_by_default",
  "neuroglancer/layer/image:enabled",
  "neuroglancer/layer/segmentation:enabled",
];

/**
 * Makes `import icon from "ikonate/icons/x.svg?raw"` the text of that file. Three icons are missing in npm's ikonate: they
 * lie beside this file.
 */
const icons = {
  name: "icons",
  setup(bundler) {
    bundler.onResolve({ filter: /\?raw$/ }, async ({ path: name, resolveDir, kind }) => {
      const plain = name.slice(0, -"?raw".length);
      const found = await bundler.resolve(plain, { resolveDir, kind });
      const file = found.errors.length === 0 ? found.path : path.join(here, path.basename(plain));
      return { path: file, namespace: "text" };
    });
    bundler.onLoad({ filter: /.*/, namespace: "text" }, async ({ path: file }) => ({
      contents: await readFile(file, "utf8"),
      loader: "text",
    }));
  },
};

/** Changes to the package's files: the end of the path, the text (or a pattern of it), and its replacement. */
const CHANGES = [
  // All bundles are in one folder, so a worker is beside the file that starts it.
  ["async_computation/request.js", '"../async_computation.bundle.js"', '"./async_computation.bundle.js"'],
  // numcodecs compiles text to call WebAssembly, which the server's content security policy forbids: fzstd decodes
  // Zstandard in JavaScript instead.
  [
    "async_computation/decode_zstd.js",
    /const \{ default: Zstd \} = await import\("numcodecs\/zstd"\);.*const result = await codec\.decode\(data\);/s,
    'const { decompress } = await import("fzstd"); const result = decompress(data);',
  ],
  // For the same reason the worker with the decoders would not start: it compiles a function from text. The replacement is
  // this function; it ignores its arguments, which are the text.
  [
    "sliceview/compressed_segmentation/encode_common.js",
    "const writeEncodedRepresentation = new Function(",
    `const writeEncodedRepresentation = (() => (output, start, encoded, index, bits, words) => {
      for (let word = 0, element = 0; word < words; ++word) {
        let packed = 0;
        for (let shift = 0; shift < 32; shift += bits) packed |= index[encoded[element++]] << shift;
        output[start + word] = packed;
      }
    })(`,
  ],
  // A length without a unit must not get a prefix either: 0.5 would be shown as "500 m".
  ["widget/scale_bar.js", "pickSiPrefix(physicalSize)", 'this.physicalBaseUnit ? pickSiPrefix(physicalSize) : { prefix: "", exponent: 0 }'],
  // Messages wait in this queue until the worker runs. Senders reuse an object for their next message, so without a copy the
  // worker would get the last message several times, and with several layers draw nothing.
  ["worker_rpc.js", "queue.push({ data: x, transfers })", "queue.push({ data: { ...x }, transfers })"],
];

const changes = {
  name: "changes",
  setup(bundler) {
    for (const [name, from, to] of CHANGES) {
      const filter = new RegExp(`/neuroglancer/lib/${name.replaceAll(".", "\\.")}$`);
      bundler.onLoad({ filter }, async ({ path: file }) => {
        const text = await readFile(file, "utf8");
        const changed = text.replace(from, to);
        if (changed === text) throw new Error(`${file}: ${from} is not there; does it still need a change?`);
        return { contents: changed };
      });
    }
  },
};

/** The licences of the bundled packages. Most packages have no licence in a comment, which the bundler would keep. */
async function licences({ outputs }) {
  const inputs = Object.values(outputs).flatMap((output) => Object.keys(output.inputs));
  const names = inputs.map((input) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input)?.[1]).filter(Boolean);
  const each = [...new Set(names)].sort().map(async (name) => {
    const folder = path.join(modules, name);
    const file = (await readdir(folder)).find((file) => /^licen[cs]e/i.test(file));
    if (!file) throw new Error(`${folder}: there is no licence`);
    return `${name}\n${"=".repeat(name.length)}\n\n${(await readFile(path.join(folder, file), "utf8")).trim()}\n`;
  });
  return (await Promise.all(each)).join("\n\n");
}

/** The files below /neuroglancer/, by name. */
export async function neuroglancer() {
  const bundled = await build({
    entryPoints: ["main", "chunk_worker", "async_computation"].map(entry),
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    conditions: CONDITIONS,
    plugins: [icons, changes],
    legalComments: "linked",
    outdir: "neuroglancer",
    write: false,
    metafile: true,
    logLevel: "warning",
  });
  const files = {
    "index.html": await readFile(path.join(here, "index.html")),
    "LICENSE.txt": await licences(bundled.metafile),
  };
  for (const output of bundled.outputFiles) files[path.basename(output.path)] = output.contents;
  return files;
}
