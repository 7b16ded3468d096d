// Bundles Neuroglancer (npm's package, Apache-2.0) with the data sources and layers that voltile serves: precomputed
// and Zarr, images and segmentations. The files go below /neuroglancer/.

import { readFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const installed = path.join(here, "..", "node_modules", "neuroglancer");
const entry = (name) => path.join(installed, "lib", `${name}.bundle.js`);

const CONDITIONS = [
  "neuroglancer/datasource:none_by_default",
  "neuroglancer/datasource/precomputed:enabled",
  "neuroglancer/datasource/zarr:enabled",
  "neuroglancer/layer:none_by_default",
  "neuroglancer/layer/image:enabled",
  "neuroglancer/layer/segmentation:enabled",
];

/** `import icon from "ikonate/icons/x.svg?raw"` is the text of the file. Two icons are missing in npm's ikonate. */
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

/** All bundles are in one folder, so a worker is beside the file that starts it. */
const workers = {
  name: "workers",
  setup(bundler) {
    bundler.onLoad({ filter: /async_computation[/\\]request\.js$/ }, async ({ path: file }) => ({
      contents: (await readFile(file, "utf8")).replace('"../async_computation.bundle.js"', '"./async_computation.bundle.js"'),
    }));
  },
};

/** The files below /neuroglancer/, by name. */
export async function neuroglancer() {
  const bundled = await build({
    entryPoints: ["main", "chunk_worker", "async_computation"].map(entry),
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    conditions: CONDITIONS,
    plugins: [icons, workers],
    legalComments: "linked",
    outdir: "neuroglancer",
    write: false,
    logLevel: "warning",
  });
  const files = {
    "index.html": await readFile(path.join(here, "index.html")),
    "LICENSE.txt": await readFile(path.join(installed, "LICENSE")),
  };
  for (const output of bundled.outputFiles) files[path.basename(output.path)] = output.contents;
  return files;
}
