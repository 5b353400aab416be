// Attempts to escape by the file system (escapes.ts).

import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Escape, inOut } from "./escape-kit.ts";

export const FILES: Escape[] = [
  { name: "home-write", can: "write into your home", open: "always", script: 'echo x > "$PERSON/planted"' },
  { name: "home-list", can: "list your home", open: "always", script: 'ls "$PERSON/.ssh"' },
  { name: "home-keys", can: "read your keys", open: "always", script: 'cat "$PERSON/.ssh/id"' },
  {
    name: "outside-write",
    can: "write outside of its workspace",
    open: "always",
    script: 'echo x > "$OUT/planted"',
    seen: inOut("planted"),
  },
  { name: "outside-read", can: "read outside of its workspace", open: "always", script: 'cat "$OUT/secret"' },
  { name: "outside-remove", can: "remove what lies outside", open: "always", script: 'rm "$OUT/doomed"' },
  {
    name: "link-write",
    can: "write outside through a link",
    open: "always",
    script: 'ln -s "$OUT" way && echo x > way/by-link; r=$?; rm -f way; exit $r',
  },
  {
    name: "hard-link",
    can: "make a hard link to a file outside",
    open: "always",
    script: 'ln "$OUT/secret" hard; r=$?; rm -f hard; exit $r',
  },
  {
    name: "proc-root",
    can: "write outside through /proc/PID/root",
    open: "root",
    script: 'echo x > "/proc/1/root$OUT/by-root"',
    seen: inOut("by-root"),
  },
  {
    name: "proc-cwd",
    can: "write outside through /proc/PID/cwd",
    open: "always",
    script: 'echo x > "/proc/$HOST_PID/cwd/by-cwd"',
    seen: inOut("by-cwd"),
  },
  {
    name: "proc-fd",
    can: "read files that other processes hold open",
    open: "always",
    script: 'cat "/proc/$HOST_PID/fd/9"',
  },
  {
    name: "tmp-write",
    can: "write into the /tmp of all",
    open: "always",
    script: 'echo x > "/tmp/$WORD"',
    seen: ({ WORD }) => existsSync(join("/tmp", WORD)),
  },
  {
    name: "shm-write",
    can: "write into the /dev/shm of all",
    open: "always",
    script: 'echo x > "/dev/shm/$WORD"',
    seen: ({ WORD }) => existsSync(join("/dev/shm", WORD)),
  },
  { name: "system-write", can: "write into /usr", open: "root", script: 'echo x > "/usr/local/$WORD"' },
  { name: "etc-write", can: "write into /etc", open: "root", script: 'echo x > "/etc/$WORD"' },
  { name: "shadow-read", can: "read /etc/shadow", open: "root", script: "cat /etc/shadow" },
  {
    name: "disk-read",
    can: "read the disk as a device",
    open: "perhaps",
    script:
      "for d in /dev/vda /dev/sda /dev/nvme0n1 /dev/xvda; do head -c 1 $d > /dev/null 2>&1 && exit 0; done; exit 1",
  },
  {
    name: "checkout-write",
    can: "change your checkout",
    open: "always",
    script: 'echo x >> "$REPO/untracked"',
    seen: ({ REPO }) => existsSync(join(REPO, "untracked")),
  },
  {
    name: "hook-write",
    can: "plant a hook in your repository",
    open: "always",
    script: 'echo : > "$REPO/.git/hooks/planted"',
  },
  {
    name: "config-write",
    can: "change the settings of your repository",
    open: "always",
    script: 'git -C "$REPO" config escape.tried yes',
  },
  {
    name: "config-read",
    can: "read the settings of your repository",
    open: "always",
    script: 'cat "$REPO/.git/config"',
  },
  {
    name: "ref-write",
    can: "move branches of your repository",
    open: "always",
    script: 'git -C "$REPO" update-ref refs/heads/planted HEAD',
  },
  {
    name: "object-write",
    can: "write into your object store",
    open: "always",
    script: 'echo x > "$(cat .git/objects/info/alternates)/planted"',
  },
  {
    name: "borrow-objects",
    can: "read the objects of other repositories",
    open: "always",
    script: 'git --git-dir="$OUT/other.git" cat-file -p main',
  },
  {
    name: "own-git-runs",
    can: "have your git run a program by settings, hooks or attributes of its workspace",
    open: "never",
    script: [
      'printf "#!/bin/sh\\necho x > $OUT/by-git\\n" > run-me; chmod +x run-me',
      'git config core.fsmonitor "$PWD/run-me"; git config core.hooksPath "$PWD"; git config filter.f.clean "$PWD/run-me"',
      'cp run-me .git/hooks/post-checkout; cp run-me .git/hooks/post-index-change; echo "* filter=f" > .git/info/attributes',
    ].join("\n"),
    seen: inOut("by-git"),
  },
];
