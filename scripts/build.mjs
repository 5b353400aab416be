// Sources to dist/: what runs in production is compiled JavaScript.
//
// 1. tsc writes bus/, scheduler/ and schemas/ into a staging folder.
// 2. esbuild bundles the shim into one CommonJS file that needs nothing but Node (one runs per process, so
//    every import costs memory two hundred times); a package in it fails the build.
// 3. Files with a shebang are made executable.
// 4. The staging folder takes the place of dist/ by rename, so that a program that starts now finds a whole one.

import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build as esbuild } from "esbuild";
import { sourceHash } from "./source-hash.mjs";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const DIST = join(ROOT, "dist");
const STAGING = join(ROOT, "node_modules", ".cache", `busbar-build-${process.pid}`);
const SHIM_ENTRY = join(ROOT, "shim", "bus-shim.ts");
/** Packages that may be inside the shim's bundle. */
const SHIM_PACKAGES = new Set([]);

class BuildError extends Error {}

function compile() {
  const tsc = join(ROOT, "node_modules", "typescript", "bin", "tsc");
  const result = spawnSync(process.execPath, [tsc, "-p", "tsconfig.build.json", "--outDir", STAGING], {
    cwd: ROOT,
    encoding: "utf8",
  });
  if (result.status !== 0) throw new BuildError(`${result.stdout}${result.stderr}tsc: exit ${result.status}`);
}

/** The npm package that an input of the bundle belongs to, or undefined for our own files. */
function packageOf(path) {
  const at = path.lastIndexOf("node_modules/");
  if (at < 0) return undefined;
  const parts = path.slice(at + "node_modules/".length).split("/");
  return parts[0].startsWith("@") ? `${parts[0]}/${parts[1]}` : parts[0];
}

/** What must not be in the bundle, one line each. */
function shimFaults(metafile) {
  const faults = [];
  for (const [path, input] of Object.entries(metafile.inputs)) {
    const name = packageOf(path);
    if (name && !SHIM_PACKAGES.has(name)) faults.push(`the shim's bundle holds ${name} (${path})`);
    for (const use of input.imports)
      if (use.external && !use.path.startsWith("node:"))
        faults.push(`${path} imports ${use.path}, which is not of Node`);
  }
  for (const [path, input] of Object.entries(metafile.inputs))
    for (const use of input.imports)
      if (packageOf(use.path) && !packageOf(path))
        faults.push(`  ... by way of ${path} -> ${use.original ?? use.path}`);
  return faults;
}

async function bundleShim() {
  const outfile = join(STAGING, "shim", "bus-shim.cjs");
  const result = await esbuild({
    entryPoints: [SHIM_ENTRY],
    outfile,
    bundle: true,
    platform: "node",
    target: "node20.19",
    format: "cjs",
    metafile: true,
    absWorkingDir: ROOT,
    legalComments: "none",
    minify: true, // the source text counts: 0.5 MB less for each shim
    treeShaking: true,
    logLevel: "silent",
  });
  const faults = shimFaults(result.metafile);
  if (faults.length > 0) throw new BuildError(faults.join("\n"));
  const text = readFileSync(outfile, "utf8");
  if (!text.startsWith("#!")) writeFileSync(outfile, `#!/usr/bin/env node\n${text}`);
  return statSync(outfile).size;
}

function makeExecutable(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile() || !/\.c?js$/.test(entry.name)) continue;
    const path = join(entry.parentPath ?? entry.path, entry.name);
    if (readFileSync(path, "utf8").startsWith("#!")) chmodSync(path, 0o755);
  }
}

function putInPlace() {
  const old = `${STAGING}-old`;
  if (existsSync(DIST)) renameSync(DIST, old);
  renameSync(STAGING, DIST);
  rmSync(old, { recursive: true, force: true });
}

async function main() {
  // Taken first: an edit during the build makes the next set-up build again.
  const stamp = sourceHash(ROOT);
  mkdirSync(STAGING, { recursive: true });
  try {
    compile();
    const size = await bundleShim();
    makeExecutable(STAGING);
    writeFileSync(join(STAGING, ".stamp"), stamp);
    putInPlace();
    console.log(`Built dist/; the shim is ${(size / 1024).toFixed(1)} KB in one file.`);
  } catch (error) {
    console.error(error instanceof BuildError ? error.message : String(error?.message ?? error));
    process.exitCode = 1;
  } finally {
    rmSync(STAGING, { recursive: true, force: true });
  }
}

await main();
